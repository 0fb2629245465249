"""Roles at the level of addresses: warps that run side by side, until each must wait.

Nothing orders the warps of different roles, or of one, but barriers and channels.  A warp is run
from one point of synchronisation to the next; which warp is next follows from the order asked for.
Copies that land as late as they can do so when no warp can go on without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.interpreter import Interpreter

from mugraph.dialects import sched
from mugraph.dialects.programming_model import WARP
from mugraph.runtime.interpreter.address_level import AddressFrame
from mugraph.runtime.interpreter.address_plans import Threads
from mugraph.runtime.interpreter.mbarriers import AddressChannel, Mbarrier
from mugraph.runtime.interpreter.roles import Step, is_declaration, label_of, steps_of_role, stuck

Choose = Callable[[Sequence["Unit"]], "Unit"]
"""Which of the units that can go on runs next."""

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
    threads: Threads
    gate: Gate
    steps: Iterator[Step]
    next: Step | None = None
    waits_for_opening: int | None = None
    first_thread: int = field(init=False)
    """The role's first thread of the block, from which ``threads`` are counted."""

    def __post_init__(self) -> None:
        self.first_thread = self.role.first_thread
        self.advance()

    def advance(self) -> None:
        """To the next step."""
        self.next = next(self.steps, None)

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


@dataclass(eq=False)
class RoleMachine:
    """Runs the roles of a kernel on the blocks of a frame."""

    interpreter: Interpreter
    frame: AddressFrame
    channels: Sequence[AddressChannel]
    choose: Choose

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
            elif self._land():
                blocked = set()
            else:
                raise stuck([(label_of(u.role), u.next) for u in _one_a_role(left) if u.next])
        while self._land():
            pass

    def _land(self) -> bool:
        """Lets copies of one stage land; whether there were any."""
        flying: list[Mbarrier] = [each for channel in self.channels for each in channel.flying()]
        if not flying:
            return False
        flying[0].land()
        return True

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
        frame = self.frame
        op, iteration = step.op, step.iteration
        frame.threads, frame.iteration, frame.position = unit.threads, iteration, step.position
        frame.first_thread = unit.first_thread
        if isinstance(op, sched.BarrierOp):
            return self._pass_gate(unit)
        if isinstance(op, sched.ChannelStepOp):
            if not op.stage.happens_at(iteration, frame.iterations):
                return True
            (channel,) = self.interpreter.get_values(op.operands)
            return channel.run(op, frame.before + op.stage.iteration_at(iteration), unit.warps)
        if isinstance(op, sched.OrderStepOp):
            (order,) = self.interpreter.get_values(op.operands)
            return order.run(op, step.position, unit.warps)
        if not is_declaration(op):
            self.interpreter.run_op(op, self.interpreter.get_values(op.operands))
        return True

    def _pass_gate(self, unit: Unit) -> bool:
        if unit.waits_for_opening is None:
            unit.waits_for_opening = unit.gate.arrive()
        if unit.gate.opened < unit.waits_for_opening:
            return False
        unit.waits_for_opening = None
        return True


def _one_a_role(units: Sequence[Unit]) -> list[Unit]:
    return list({unit.role: unit for unit in reversed(units)}.values())[::-1]


def first_of(units: Sequence[Unit]) -> Unit:
    """The first warp that can go on."""
    return units[0]


def last_of(units: Sequence[Unit]) -> Unit:
    """The last warp that can go on."""
    return units[-1]


def random_of(generator: np.random.Generator) -> Choose:
    """Any warp that can go on."""
    return lambda units: units[int(generator.integers(len(units)))]
