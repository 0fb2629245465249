"""Roles of a kernel side by side: their steps, and who goes on when.

Nothing orders the warps of different roles, or of one, but barriers and channels.  Warps, or whole
roles, are run from one point of synchronisation to the next; which of them is next follows from the
order asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple, Protocol

from xdsl.interpreter import Interpreter
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.programming_model import WARP
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


def steps_of(
    operators: Iterable[Operation],
    position: int = 0,
    count_of: Callable[[sched.ForloopOp], int] = attrgetter("iterations"),
) -> Iterator[Step]:
    """The operators of a body in the order of execution, each with its iteration of the loop.

    ``count_of`` says how many iterations a loop has.
    """
    for op in operators:
        if not isinstance(op, sched.CarriesTiles):
            yield Step(op, 0, position)
            continue
        # Tiles stay in their registers, so that there is nothing to do for a yield.
        body = [inner for inner in op.body_block.ops if not isinstance(inner, sched.YieldOp)]
        count, step = (count_of(op), op.step_of) if isinstance(op, sched.ForloopOp) else (1, 1)
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


SYNCHRONISATION = (
    sched.BarrierOp,
    sched.ChannelStepOp,
    sched.OrderStepOp,
    sched.BulkCopyOp,
    sched.BulkWaitOp,
)
"""Operators after which another unit may run."""


@dataclass(eq=False)
class Gate:
    """The named barrier of a role: how many of its ``units`` have come, and how often all did."""

    units: int
    arrived: int = 0
    opened: int = 0

    def arrive(self) -> int:
        """One more has come; how often the gate must have opened for it to go on."""
        wanted = self.opened + 1
        self.arrived += 1
        if self.arrived == self.units:
            self.arrived = 0
            self.opened += 1
        return wanted


@dataclass(eq=False)
class Unit:
    """Threads of a role that run together: a warp, or all of them."""

    role: sched.RoleOp
    threads: slice
    """Counted from the role's first one."""
    gate: Gate
    steps: Iterator[Step]
    next: Step | None = None
    """The step that it runs next; ``None`` at its end."""
    waits_for_opening: int | None = None

    def __post_init__(self) -> None:
        self.advance()

    def advance(self) -> None:
        """To the next step."""
        self.next = next(self.steps, None)

    def passes_gate(self) -> bool:
        """Comes to the role's barrier, if it has not yet; whether it may go on."""
        if self.waits_for_opening is None:
            self.waits_for_opening = self.gate.arrive()
        if self.gate.opened < self.waits_for_opening:
            return False
        self.waits_for_opening = None
        return True

    @property
    def warps(self) -> int:
        """How many warps there are."""
        return -(-(self.threads.stop - self.threads.start) // WARP)


def units_of(roles: Sequence[sched.RoleOp], length: int, *, together: bool) -> list[Unit]:
    """What runs side by side: the warps of roles, or each role as a whole.

    For lists of ``length`` blocks of the grid.
    """
    units: list[Unit] = []
    for role in roles:
        size = role.threads if together else min(WARP, role.threads)
        starts = range(0, role.threads, size)
        gate = Gate(len(starts))
        for start in starts:
            threads = slice(start, start + size)
            units.append(Unit(role, threads, gate, steps_of_role(role, length)))
    return units


Choose = Callable[[Sequence[Unit]], Unit]
"""Which of the units that can go on runs next."""


def first_of(units: Sequence[Unit]) -> Unit:
    """The first unit that can go on."""
    return units[0]


class Standing(Protocol):
    """Where execution stands: in a block of a list, in an iteration of the loop."""

    iterations: int
    iteration: int
    position: int

    @property
    def before(self) -> int:
        """The iterations of the blocks of the list before."""
        ...


@dataclass(eq=False)
class RoleMachine:
    """Runs the roles of a kernel side by side, each unit until it must wait.

    What they give does not depend on the order that ``choose`` takes where no two race.
    """

    interpreter: Interpreter
    frame: Standing
    run_operator: Callable[[Unit, Operation], None]
    """Runs an operator at which nobody waits."""
    land: Callable[[], bool] = lambda: False
    """Lets some of what is on its way land, when no unit can go on; whether anything was."""
    choose: Choose = first_of

    def run(self, units: Sequence[Unit]) -> None:
        """Runs all units to their ends; raises ``ExecutionError`` where none can go on."""
        blocked: set[Unit] = set()
        while True:
            left = [unit for unit in units if unit.next is not None]
            ready = [unit for unit in left if unit not in blocked]
            if not left:
                break
            if ready:
                unit = self.choose(ready)
                if self._follow(unit):
                    blocked = set()
                else:
                    blocked.add(unit)
            elif self.land():
                blocked = set()
            else:
                raise stuck([(label_of(u.role), u.next) for u in _one_a_role(left) if u.next])
        while self.land():
            pass
        self.frame.iteration = self.frame.position = 0

    def _follow(self, unit: Unit) -> bool:
        """Runs a unit past its next point of synchronisation; false where it did nothing."""
        moved = False
        while unit.next is not None:
            step = unit.next
            if not self._run(unit, step):
                return moved
            moved = True
            unit.advance()
            if isinstance(step.op, SYNCHRONISATION):
                break
        return moved

    def _run(self, unit: Unit, step: Step) -> bool:
        """Runs a step of a unit; false where it must wait, and has done nothing."""
        frame = self.frame
        op, frame.iteration, frame.position = step
        match op:
            case sched.BarrierOp():
                return unit.passes_gate()
            case sched.ChannelStepOp():
                if not op.stage.happens_at(frame.iteration, frame.iterations):
                    return True
                (channel,) = self.interpreter.get_values(op.operands)
                meant = frame.before + op.stage.iteration_at(frame.iteration)
                return channel.run(op, meant, unit.warps)
            case sched.OrderStepOp():
                (order,) = self.interpreter.get_values(op.operands)
                return order.run(op, frame.position, unit.warps)
            case _:
                self.run_operator(unit, op)
                return True


def _one_a_role(units: Sequence[Unit]) -> list[Unit]:
    return list({unit.role: unit for unit in reversed(units)}.values())[::-1]


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
