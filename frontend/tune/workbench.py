"""What the search asks of a place where plans of one kernel are built and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mugraph.dialects.plan import Plan


@dataclass(frozen=True)
class Built:
    """A kernel under a plan, ready to be measured, or why it cannot be."""

    plan: Plan
    code: str = ""
    """The same for plans that lead to the same code."""
    problem: str = ""


class Workbench(Protocol):
    """Builds and measures one kernel under many plans."""

    def build(self, plans: Sequence[Plan]) -> Iterator[Built]:
        """Each plan's kernel, in the order in which they are done.

        One that cannot be built, or that is proved or found to be wrong, has a problem.
        """
        ...

    def times(self, built: Built, samples: int) -> list[float]:
        """Microseconds of a call, so many times; raises :class:`MeasureError` where it fails."""
        ...


class MeasureError(Exception):
    """A kernel cannot be measured; the text says why."""
