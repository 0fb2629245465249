"""Roles of a kernel side by side: their steps, whose turn it is, and channels that count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import channel_of
from mugraph.dialects.tensor_types import op_label, value_label
from mugraph.runtime.interpreter.errors import ExecutionError

RunStep = Callable[[Operation, int], bool]
"""Runs an operator in an iteration; false where it must wait, and has done nothing."""


def steps_of(operators: Iterable[Operation]) -> Iterator[tuple[Operation, int]]:
    """The operators of a body in the order of execution, each with its iteration of the loop."""
    for op in operators:
        if isinstance(op, sched.PhaseOp):
            yield from ((inner, 0) for inner in op.body.block.ops)
        elif isinstance(op, sched.ForloopOp):
            for iteration in range(op.iterations):
                yield from ((inner, iteration) for inner in op.body.block.ops)
        else:
            yield op, 0


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
                return earlier < 0 or self.released.get(earlier) == set(self.op.releasing_roles())
            case _:
                raise ExecutionError(f"{op_label(op)} cannot be executed by the interpreter yet")
        return True


@dataclass(eq=False)
class _Turn:
    """A role, and the step that it runs next; ``None`` at its end."""

    role: sched.RoleOp
    steps: Iterator[tuple[Operation, int]]
    next: tuple[Operation, int] | None = None

    def follow(self, run: RunStep) -> bool:
        """Runs steps until one must wait; whether any ran."""
        moved = False
        while self.next is not None and run(*self.next):
            self.next = next(self.steps, None)
            moved = True
        return moved


def run_side_by_side(roles: Sequence[sched.RoleOp], run: RunStep) -> None:
    """Runs roles in turns, each as far as it can go.

    What they give does not depend on the turns where no two race.  Raises ``ExecutionError`` where
    all that have not ended wait.
    """
    turns = [_Turn(role, steps_of(role.body.block.ops)) for role in roles]
    for turn in turns:
        turn.next = next(turn.steps, None)
    while any(turn.next is not None for turn in turns):
        if not any([turn.follow(run) for turn in turns]):
            waiting = [(turn.role, *turn.next) for turn in turns if turn.next is not None]
            raise stuck([(label_of(role), op, iteration) for role, op, iteration in waiting])


def label_of(role: sched.RoleOp) -> str:
    """How messages name a role."""
    return f"role {role.role}"


def stuck(waiting: Sequence[tuple[str, Operation, int]]) -> ExecutionError:
    """The error of strands that wait for each other: who, at which operator, in which iteration."""
    kernel = sched.enclosing_kernel(waiting[0][1])
    parts = [f"{who} waits {waits_for(op, iteration)}" for who, op, iteration in waiting]
    return ExecutionError(f"{op_label(kernel)} cannot go on: {'; '.join(parts)}")


def waits_for(op: Operation, iteration: int) -> str:
    """What an operator waits for in an iteration of the loop."""
    if not isinstance(op, sched.ChannelStepOp):
        return f"in {op_label(op)} of iteration {iteration}"
    channel = channel_of(op, op.channel)
    meant = op.stage.iteration_at(iteration)
    stage = f"stage {meant % channel.stage_count} of {value_label(op.channel)}"
    if isinstance(op, sched.AcquireOp):
        earlier = meant - channel.stage_count
        what = f"{stage} to be released by the readers of iteration {earlier}"
    else:
        what = f"{stage} to be full with iteration {meant}"
    return f"in {op_label(op)} of iteration {iteration} for {what}"


__all__ = ["Channel", "label_of", "run_side_by_side", "steps_of", "stuck", "waits_for"]
