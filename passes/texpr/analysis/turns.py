"""A block's program as its threads run it: in turns, those that do the same together.

Each such *role* runs until it must wait for others, in one order that the program allows.  What
operators do is for those to say who run it: on numbers, or on clocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from xdsl.ir import Block, Operation

from mugraph.dialects import te
from mugraph.dialects.te.points import Rows

Course: TypeAlias = Generator[Operation]
"""What a role does; it gives the operator that it waits at, and is asked again later."""


@dataclass(eq=False)
class Role:
    """Threads of a block that do the same, by their numbers."""

    threads: Rows
    course: Course = field(init=False)
    waits_at: Operation | None = field(init=False, default=None)
    met: dict[int, int] = field(init=False, default_factory=dict[int, int])
    """How often it has come to each barrier; 0 is that of the block."""


AnyRole = TypeVar("AnyRole", bound=Role)
State = TypeVar("State")
"""What operators are run with: which threads come to them, in which iterations."""


class Turns(ABC, Generic[AnyRole, State]):
    """The roles of a block, whose threads are those of the loop ``holder``."""

    def __init__(self, holder: te.LoopOp) -> None:
        self.holder = holder
        self.roles: list[AnyRole] = []
        self.live: list[AnyRole] = []
        """Those that have not ended."""
        self._has_moved = False
        """Whether a role has done anything in this round of turns."""

    def begin(self, role: AnyRole, state: State) -> None:
        """Adds a role, whose threads start with a state."""
        role.course = self.follow(self.holder.body.block, state, role)
        self.roles.append(role)

    def take_turns(self) -> bool:
        """Runs all roles; false where those that are ``live`` wait for ever."""
        self.live = list(self.roles)
        while self.live:
            self._has_moved = False
            before = len(self.live)
            for role in self.ordered(self.live):
                role.waits_at = next(role.course, None)
            self.live = [role for role in self.live if role.waits_at is not None]
            if len(self.live) == before and not self._has_moved:
                return False
        return True

    def ordered(self, roles: Sequence[AnyRole]) -> Sequence[AnyRole]:
        """The order in which roles have their turns."""
        return roles

    def follow(self, block: Block, state: State, role: AnyRole) -> Course:
        """Runs operators in order, and stops where the role must wait."""
        for op in block.ops:
            match op:
                case _ if not self.is_followed(op):
                    self.act(op, state, role)
                case te.StepOp():
                    yield from self.follow(op.body.block, state, role)
                case te.AsmOp() if op.meaning is not None:
                    yield from self.follow(op.meaning.block, state, role)
                case te.SeqOp():
                    for inner in self.iterations(op, state, role):
                        yield from self.follow(op.body.block, inner, role)
                case te.IfOp() | te.WhenOp():
                    chosen = self.chosen(op, state, role)
                    if chosen is not None:
                        yield from self.follow(op.body.block, chosen, role)
                case te.BarrierOp() if op.threads is not te.Scope.WARP:
                    yield from self.meet_all(op, state, role)
                case te.AllReduceOp():
                    yield from self.reduce(op, state, role)
                case te.NamedBarrierOp():
                    yield from self.meet(op, role, op.name_of_barrier, op.threads)
                case te.MbarrierWaitOp():
                    while not self.passes(op, state, role):
                        yield op
                case _:
                    self.act(op, state, role)
            self._has_moved = True

    def meet(self, op: Operation, role: AnyRole, number: int, threads: int) -> Course:
        """Waits until as many threads have come as often to a barrier."""
        role.met[number] = mine = role.met.get(number, 0) + 1
        self._has_moved = True

        def come() -> list[AnyRole]:
            return [one for one in self.roles if one.met.get(number, 0) >= mine]

        self.arrive(op, role, come(), threads)
        while sum(len(one.threads) for one in come()) < threads:
            yield op

    def meet_all(self, op: Operation, state: State, role: AnyRole) -> Course:
        """Waits for all threads of the block."""
        yield from self.meet(op, role, 0, self.holder.iterations)

    # What operators do.

    def is_followed(self, op: Operation) -> bool:
        """Whether what stands in an operator is run one by one; else it acts as a whole."""
        return True

    @abstractmethod
    def act(self, op: Operation, state: State, role: AnyRole) -> None:
        """What an operator does at which nobody waits."""

    @abstractmethod
    def iterations(self, op: te.SeqOp, state: State, role: AnyRole) -> Iterator[State]:
        """The iterations of a loop that are run."""

    @abstractmethod
    def chosen(self, op: te.IfOp | te.WhenOp, state: State, role: AnyRole) -> State | None:
        """The threads for which a condition holds, if there are any."""

    @abstractmethod
    def passes(self, op: te.MbarrierWaitOp, state: State, role: AnyRole) -> bool:
        """Whether a phase has ended that threads wait for."""

    def reduce(self, op: te.AllReduceOp, state: State, role: AnyRole) -> Course:
        """Combines numbers of all threads."""
        self.act(op, state, role)
        yield from ()

    def arrive(self, op: Operation, role: AnyRole, come: Sequence[AnyRole], threads: int) -> None:
        """What happens as a role comes to a barrier of so many threads, where others are."""
