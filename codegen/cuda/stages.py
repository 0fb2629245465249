"""Which stage of a ring an iteration goes through, as generated code counts it.

In the schedule iteration ``k`` of a work tile uses stage ``(n + k) mod S`` of a ring of ``S``
stages, in phase ``(n + k) / S``, where ``n`` iterations were those of the block's earlier work
tiles.  Dividing would keep who waits for the stage waiting for longer.  So variables of type
``tb::Stage<S>`` hold stage and phase, one for all rings of so many stages:

- A loop counts its own, from its first iteration on.  It ends with the loop.
- A role of a persistent block has another one, which moves from work tile to work tile only.
  Loops begin with a copy of it; what stands before and behind them counts from it.

So no loop need know which rings others use, or how many loops there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation

from mugraph.dialects import sched

LOOP_VARIABLE = "it"
"""What generated code calls the iteration of a loop."""


@dataclass(frozen=True)
class Iteration:
    """An iteration of the loop: so many behind ``start``, a variable or expression, or behind 0."""

    ahead: int = 0
    start: str = ""

    def __str__(self) -> str:
        """As C++ has it."""
        if not self.start:
            return str(self.ahead)
        sign = "-" if self.ahead < 0 else "+"
        return f"{self.start} {sign} {abs(self.ahead)}" if self.ahead else self.start

    def __add__(self, ahead: int) -> Iteration:
        """The iteration that is so many later."""
        return replace(self, ahead=self.ahead + ahead)


@dataclass(frozen=True)
class StageCounters:
    """What counts the stages of rings where an operator is printed, by their number of stages."""

    first: Mapping[int, Iteration] = field(default_factory=dict[int, Iteration])
    """Where the first iteration of the work tile is: behind a variable, or behind 0.

    What it does not have starts at 0, as all rings of a block do that has one work tile.
    """
    current: Mapping[int, str] = field(default_factory=dict[int, str])
    """The variables of the loop around the operator."""
    past: int = 0
    """How many iterations they are past that one which the loop has."""

    def stage(self, iteration: Iteration, stages: int) -> str:
        """The place of an iteration in a ring of so many stages: a ``tb::Stage``, or its number."""
        if iteration.start == LOOP_VARIABLE:
            return str(Iteration(iteration.ahead - self.past, self.current[stages]))
        if iteration.start:
            return f"tb::Stage<{stages}>({iteration})"
        return str(self.first.get(stages, Iteration()) + iteration.ahead)


def starts_at_same_place(stages: int, iterations: int) -> bool:
    """Whether so many iterations later a ring is at the same stage, in a phase of equal parity."""
    return iterations % (2 * stages) == 0


def rings_of(phases: Iterable[Operation]) -> list[int]:
    """The numbers of stages of the rings that phases use."""
    operands = {value for phase in phases for op in phase.walk() for value in op.operands}
    owners = [value.owner for value in operands]
    channels = {op.stage_count for op in owners if isinstance(op, sched.ChannelOp)}
    buffers = {op.stage_count for op in owners if isinstance(op, sched.AllocOp)}
    return sorted(channels | (buffers - {1}))


def moved_on(variables: Iterable[str], iterations: int) -> list[str]:
    """What moves variables that count stages on; nothing by no iteration."""
    if not iterations:
        return []
    return [f"++{each}" if iterations == 1 else f"{each} += {iterations}" for each in variables]
