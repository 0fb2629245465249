"""What the search asks of a place where variants of one kernel are built and measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.known_plans.database import plan_text


@dataclass(frozen=True)
class Sizes:
    """Sizes of a tensor expression that are not those that its text has."""

    values: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """As ``--size`` takes them."""
        return ",".join(f"{name}={value}" for name, value in self.values)


AnyPlan = TypeVar("AnyPlan", Plan, Sizes)
"""What is chosen of a kernel; one without parts is what it has without any search."""


@dataclass(frozen=True)
class Built(Generic[AnyPlan]):
    """A kernel under a plan, ready to be measured, or why it cannot be."""

    plan: AnyPlan
    code: str = ""
    """The same for plans that lead to the same code."""
    problem: str = ""

    @property
    def text(self) -> str:
        """The plan, as records have it."""
        return text_of(self.plan)

    @property
    def is_default(self) -> bool:
        """Whether the kernel is what it is without any search."""
        return is_default(self.plan)


def is_default(plan: Plan | Sizes) -> bool:
    """Whether a plan leaves a kernel as it is without any search."""
    return plan == type(plan)()


def text_of(plan: Plan | Sizes) -> str:
    """A plan, as records have it."""
    return plan_text(plan) if isinstance(plan, Plan) else str(plan)


class Workbench(Protocol[AnyPlan]):
    """Builds and measures one kernel under many plans."""

    def build(self, plans: Sequence[AnyPlan]) -> Iterator[Built[AnyPlan]]:
        """Each plan's kernel, in the order in which they are done.

        One that cannot be built, or that is proved or found to be wrong, has a problem.
        """
        ...

    def times(self, built: Built[AnyPlan], samples: int) -> list[float]:
        """Microseconds of a call, so many times; raises :class:`MeasureError` where it fails."""
        ...


class MeasureError(Exception):
    """A kernel cannot be measured; the text says why."""
