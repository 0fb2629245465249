"""Roles of a kernel side by side: their steps, who goes on, channels and order barriers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import channel_of
from mugraph.dialects.sched.role import positions_of
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.runtime.interpreter.errors import ExecutionError, iterations_of


class Step(NamedTuple):
    """An operator as execution comes to it: in an iteration of the loop.

    ``position`` says of which block of the grid, among those that the block takes.
    """

    op: Operation
    iteration: int = 0
    position: int = 0


def is_declaration(op: Operation) -> bool:
    """Whether an operator only says where something is, and does nothing when it is come to."""
    acts = sched.WritesTiles | sched.CarriesTiles | sched.CommitOp
    return bool(op.results) and not isinstance(op, acts)


RunStep = Callable[[Step], bool]
"""Runs a step; false where it must wait, and has done nothing."""


def steps_of(operators: Iterable[Operation], position: int = 0) -> Iterator[Step]:
    """The operators of a body in the order of execution, each with its iteration of the loop."""
    for op in operators:
        if not isinstance(op, sched.CarriesTiles):
            yield Step(op, 0, position)
            continue
        # Tiles stay in their registers, so that there is nothing to do for a yield.
        body = [inner for inner in op.body_block.ops if not isinstance(inner, sched.YieldOp)]
        count, step = (op.iterations, op.step_of) if isinstance(op, sched.ForloopOp) else (1, 1)
        for iteration in iterations_of(op, count, step):
            yield from (Step(inner, iteration, position) for inner in body)


def steps_of_role(role: sched.RoleOp, length: int) -> Iterator[Step]:
    """The operators of a role, its phases for each of its blocks of a list of so many.

    What stands before and behind the phases runs once.
    """
    positions = positions_of(role, length)
    ops = list(role.body.block.ops)
    phases = [index for index, op in enumerate(ops) if op.regions]
    first, last = (phases[0], phases[-1] + 1) if phases else (len(ops), len(ops))
    yield from steps_of(ops[:first])
    for position in positions:
        yield from steps_of(ops[first:last], position)
    yield from steps_of(ops[last:], positions[-1] if positions else 0)


@dataclass(eq=False)
class Channel:
    """A channel at the level of logical values: which iterations were published and released."""

    op: sched.ChannelOp
    published: set[int] = field(default_factory=set[int])
    released: dict[int, set[sched.RoleOp | None]] = field(
        default_factory=dict[int, "set[sched.RoleOp | None]"]
    )

    def run(self, op: sched.ChannelStepOp, iteration: int) -> bool:
        """A step for an iteration; false where it must wait."""
        match op:
            case sched.PublishOp():
                self.published.add(iteration)
            case sched.ReleaseOp():
                self.released.setdefault(iteration, set()).add(sched.enclosing_role(op))
            case sched.ConsumeOp():
                return iteration in self.published
            case sched.AcquireOp():
                earlier = iteration - self.op.stage_count
                return earlier < 0 or self._is_empty(earlier)
            case _:
                raise ExecutionError(f"{op_label(op)} cannot be executed by the interpreter yet")
        return True

    def _is_empty(self, iteration: int) -> bool:
        """Whether all warps that release an iteration have done so."""
        roles = self.released.get(iteration)
        warps = sum(role.warp_count for role in roles or () if role is not None)
        return roles is not None and warps == self.op.releasing_warps()


@dataclass(eq=False)
class OrderBarrier:
    """An order barrier at the level of logical values: the roles of which blocks have arrived."""

    arrived: set[int] = field(default_factory=set[int])

    def run(self, op: sched.OrderStepOp, position: int) -> bool:
        """A step of the role of a block; false where it must wait."""
        if isinstance(op, sched.OrderArriveOp):
            self.arrived.add(position)
            return True
        return position == 0 or position - 1 in self.arrived


@dataclass(eq=False)
class _Strand:
    """A role, and the step that it runs next; ``None`` at its end."""

    role: sched.RoleOp
    steps: Iterator[Step]
    next: Step | None = None

    def follow(self, run: RunStep) -> bool:
        """Runs steps until one must wait; whether any ran."""
        moved = False
        while self.next is not None and run(self.next):
            self.next = next(self.steps, None)
            moved = True
        return moved


def run_side_by_side(roles: Sequence[sched.RoleOp], length: int, run: RunStep) -> None:
    """Runs roles in turns, each as far as it can go, for lists of so many blocks of the grid.

    What they give does not depend on the turns where no two race.  Raises ``ExecutionError`` where
    all that have not ended wait.
    """
    strands = [_Strand(role, steps_of_role(role, length)) for role in roles]
    for strand in strands:
        strand.next = next(strand.steps, None)
    while any(strand.next is not None for strand in strands):
        if not any([strand.follow(run) for strand in strands]):
            raise stuck(
                [
                    (label_of(strand.role), strand.next)
                    for strand in strands
                    if strand.next is not None
                ]
            )


def label_of(role: sched.RoleOp) -> str:
    """How messages name a role."""
    return f"role {role.role}"


def stuck(waiting: Sequence[tuple[str, Step]]) -> ExecutionError:
    """The error of strands that wait for each other: who, at which operator, in which iteration."""
    kernel = sched.enclosing_kernel(waiting[0][1].op)
    parts = [f"{who} waits {waits_for(step)}" for who, step in waiting]
    return ExecutionError(f"{op_label(kernel)} cannot go on: {'; '.join(parts)}")


def waits_for(step: Step) -> str:
    """What an operator waits for in an iteration of the loop; of which block, after the first."""
    op, iteration, position = step
    kernel = sched.enclosing_kernel(op)
    where = f"in {op_label(op)} of iteration {iteration}"
    if kernel.persistent_blocks is not None:
        where += f" of block {position} of its list"
    if isinstance(op, sched.OrderStepOp):
        return f"{where} for block {position - 1} to arrive"
    if not isinstance(op, sched.ChannelStepOp):
        return where
    channel = channel_of(op, op.channel)
    meant = position * loop_iterations(kernel) + op.stage.iteration_at(iteration)
    stage = f"stage {meant % channel.stage_count} of {value_label(op.channel)}"
    if isinstance(op, sched.AcquireOp):
        earlier = meant - channel.stage_count
        what = f"{stage} to be released by the readers of iteration {earlier}"
    else:
        what = f"{stage} to be full with iteration {meant}"
    return f"{where} for {what}"
