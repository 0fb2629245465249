"""Iterations of two accesses that touch one element, as a set of isl: exact, and with a witness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import islpy as isl
from xdsl.ir import SSAValue

from mugraph.passes.texpr.analysis.domains import Access, first_point, isl_set

SetsAt: TypeAlias = Callable[[Sequence[str]], Iterable[isl.Set]]
"""Sets of pairs, in the dimensions that they are asked for in."""
Names = tuple[Mapping[SSAValue, str], Mapping[SSAValue, str]]
"""What the variables of both accesses are called; those of one name are the same for both."""


@dataclass(frozen=True)
class Pairs:
    """Iterations of two accesses: all in ``dimensions`` for which ``constraints`` hold."""

    one: Access
    other: Access
    names: Names
    element: tuple[str, ...]
    """The coordinate that both touch, or its number in row-major order."""
    dimensions: list[str]
    constraints: list[str]

    def exist(self, *extra: str) -> bool:
        """Whether there is a pair for which more holds."""
        return not self.at(self.dimensions, *extra).is_empty()

    def at(self, dimensions: Sequence[str], *extra: str) -> isl.Set:
        """Where there are pairs for which more holds, by some of the variables."""
        others = [name for name in self.dimensions if name not in dimensions]
        return isl_set(dimensions, others, [*self.constraints, *extra])

    def first(
        self, wanted: Sequence[str], *extra: str, but: SetsAt = lambda _: ()
    ) -> tuple[list[int], list[int]] | None:
        """Variables of the first pair for which more holds, and the element; ``None`` for none.

        Pairs in the sets that ``but`` gives, in the dimensions that it is told, do not count.
        """
        element = [f"e{place}" for place in range(len(self.element))]
        same = [f"{name} = {text}" for name, text in zip(element, self.element, strict=True)]
        found = self.at([*wanted, *element], *extra, *same)
        for one in but([*wanted, *element]):
            found = found.subtract(one)
        point = first_point(found)
        return None if point is None else (point[: len(wanted)], point[len(wanted) :])


def pairs_of(one: Access, other: Access, names: Names, *, of_bytes: bool = False) -> Pairs:
    """The iterations in which two accesses to one buffer touch one element.

    With ``of_bytes`` they are to buffers that share bytes, and any two iterations may meet.
    """
    constraints = [*one.domain.constraints(names[0]), *other.domain.constraints(names[1])]
    dimensions = [*names[0].values(), *names[1].values()]
    element: list[str] = []
    if not of_bytes:
        flat = len(one.expressions) != len(other.expressions)
        element, runs, bounds = one.element(names[0], "ra", flat)
        elements, more_runs, more_bounds = other.element(names[1], "rb", flat)
        constraints += [*bounds, *more_bounds]
        constraints += [f"{x} = {y}" for x, y in zip(element, elements, strict=True)]
        dimensions += [*runs, *more_runs]
    return Pairs(one, other, names, tuple(element), list(dict.fromkeys(dimensions)), constraints)
