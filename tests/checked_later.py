"""What tests leave to be checked in one go, since most of its cost is shared.

A compiler needs most of its time for what kernels have in common: CuTe's templates.  So what tests
say of generated kernels is checked where enough of them wait when a file ends, and the rest after
the last test: one program each time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, ClassVar, Generic, TypeVar

T = TypeVar("T")

Check = Callable[[Sequence[T]], Sequence[Exception | None]]
"""What is wrong with each of several; raises where none could be checked."""


class CheckedLater(Generic[T]):
    """Things of one kind that wait to be checked."""

    kinds: ClassVar[list[CheckedLater[Any]]] = []

    def __init__(self, check: Check[T], enough: int) -> None:
        self._check = check
        self._enough = enough
        self._waiting: list[tuple[str, T]] = []
        self.kinds.append(self)

    def add(self, *things: T) -> None:
        """Has these checked, with those of other tests."""
        test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
        self._waiting += [(test, thing) for thing in things]

    @classmethod
    def check(cls, whatever_waits: bool) -> None:
        """Checks what waits, or each kind of which enough does; raises all failures together."""
        raise_all(
            [
                failure
                for kind in cls.kinds
                if whatever_waits or len(kind._waiting) >= kind._enough
                for failure in kind._failures_of_all()
            ]
        )

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Checks at the end what was added within, and nothing else."""
        others, self._waiting = self._waiting, []
        try:
            yield
            raise_all(self._failures_of_all())
        finally:
            self._waiting = others

    def _failures_of_all(self) -> list[Exception]:
        waiting, self._waiting = self._waiting, []
        return self._failures(waiting) if waiting else []

    def _failures(self, waiting: Sequence[tuple[str, T]]) -> list[Exception]:
        try:
            found = self._check([thing for _, thing in waiting])
        except Exception as error:
            tests = [list(of_one) for _, of_one in groupby(waiting, itemgetter(0))]
            if len(tests) > 1:
                # Each test's own, to find which cannot be checked.
                return [failure for of_one in tests for failure in self._failures(of_one)]
            found = [error]
        failures: list[Exception] = []
        for error, (test, _) in zip(found, waiting, strict=False):
            if error is not None:
                error.add_note(f"of the generated kernels in {test}")
                failures.append(error)
        return failures


def raise_all(failures: Sequence[Exception]) -> None:
    """Raises failures together, if there are any."""
    if failures:
        raise ExceptionGroup("generated kernels are wrong", failures)
