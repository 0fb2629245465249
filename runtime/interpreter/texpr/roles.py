"""Threads of a block that wait for each other through mbarriers: they run in turns.

Threads that do the same run together; each such *role* runs until it must wait.  A bulk copy lands
no sooner than a thread waits for it, and a product of warp groups is computed when it is waited
for: before, what they write holds nothing.  Blocks run together, unless they differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.locations import place_of
from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.dialects.te.points import Rows, clipped_numbers
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.roles import roles_of
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError, iterations_of
from mugraph.runtime.interpreter.memory import Ending, InFlight
from mugraph.runtime.interpreter.phases import PhaseBarrier
from mugraph.runtime.interpreter.texpr.batch import Batch, Places
from mugraph.runtime.interpreter.texpr.instructions import warpgroup_product

Course: TypeAlias = Generator[Operation]
"""What a role does; it gives the operator that it waits at, and is asked again later."""


class Steps(Protocol):
    """What runs the operators of single threads."""

    def run(self, op: Operation, batch: Batch) -> None:
        """Runs an operator in all threads of a batch."""
        ...

    def places(self, op: Operation, touch: te.Touch, batch: Batch) -> Places:
        """The elements that an operator touches."""
        ...

    def read(self, op: Operation, buffer: SSAValue, places: Places, batch: Batch) -> Array:
        """What elements hold."""
        ...


@dataclass(eq=False)
class Products:
    """The products that a warp group has begun: what ends each, and what hides its sums."""

    open: list[tuple[Ending, Ending]] = field(default_factory=list["tuple[Ending, Ending]"])
    groups: deque[list[tuple[Ending, Ending]]] = field(
        default_factory=deque["list[tuple[Ending, Ending]]"]
    )

    @property
    def under_way(self) -> bool:
        """Whether there are any."""
        return bool(self.open) or any(self.groups)

    def begin(self, end: Ending, hide: Ending) -> None:
        """One more."""
        self.open.append((end, hide))
        hide()

    def commit(self) -> None:
        """Closes a group."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, groups: int) -> None:
        """Ends all groups but so many; sums of those under way hold nothing still."""
        while len(self.groups) > groups:
            for end, _hide in self.groups.popleft():
                end()
        for group in (*self.groups, self.open):
            for _end, hide in group:
                hide()


@dataclass(eq=False)
class Role:
    """Threads of all blocks that do the same."""

    batch: Batch
    course: Course = field(init=False)
    waits_at: Operation | None = None
    products: Products = field(default_factory=Products)
    stores: InFlight = field(default_factory=InFlight)
    arrived: dict[int, int] = field(default_factory=dict[int, int])
    """How often it has come to each named barrier; 0 is that of the block."""

    def unfinished(self) -> str | None:
        """What has been begun, and nobody has waited for."""
        if self.products.under_way:
            return "products of a warp group; 'te.warpgroup_wait 0' waits for them"
        if self.stores.uncommitted or any(self.stores.groups):
            return "bulk stores; 'te.bulk_wait 0' behind a 'te.bulk_commit' waits for them"
        return None


Mbarriers: TypeAlias = dict[tuple[SSAValue, int], PhaseBarrier]


class Turns:
    """The roles of some blocks, and the mbarriers through which they hand over."""

    def __init__(
        self,
        steps: Steps,
        threads: te.LoopOp,
        blocks: Batch,
        generator: np.random.Generator | None,
        mbarriers: Mbarriers | None = None,
    ) -> None:
        self.steps = steps
        self.blocks = blocks
        self.mbarriers = {} if mbarriers is None else mbarriers
        self.roles: list[Role] = []
        self._now: Role | None = None
        for members in roles_of(threads):
            count = blocks.count * len(members)
            batch = Batch(count, blocks, np.repeat(np.arange(blocks.count), len(members)))
            batch.lanes = len(members)
            batch.values[threads.variable] = np.tile(members, blocks.count)
            role = Role(batch)
            role.course = self._follow(threads.body.block, role.batch, role)
            self.roles.append(role)
        self.counts = [role.batch.lanes or 0 for role in self.roles]
        self._generator = generator
        self._has_moved = False
        """Whether a role has done anything in this round of turns."""

    def run(self) -> None:
        """Runs all roles to their ends.  Raises ``ExecutionError`` where they wait for ever."""
        live = list(self.roles)
        while live:
            self._has_moved = False
            for place in self._order(len(live)):
                role = self._now = live[int(place)]
                role.waits_at = next(role.course, None)
            ended = [role for role in live if role.waits_at is None]
            live = [role for role in live if role.waits_at is not None]
            if live and not ended and not self._has_moved:
                raise ExecutionError(
                    "threads wait for ever: "
                    + "; ".join(sorted({_described(role.waits_at) for role in live}))
                )
        for role in self.roles:
            if (left := role.unfinished()) is not None:
                raise ExecutionError(f"the block's program ends with {left}")
        for barrier in self.mbarriers.values():
            if barrier.flying:
                raise ExecutionError(
                    f"the block's program ends while bulk copies to {barrier.label} are on their "
                    "way"
                )

    def _order(self, count: int) -> Rows:
        """In which order so many roles have their turns."""
        return np.arange(count) if self._generator is None else self._generator.permutation(count)

    def _follow(self, block: Block, batch: Batch, role: Role) -> Course:
        """Runs operators in order, and stops where the role must wait."""
        for op in block.ops:
            match op:
                case te.StepOp():
                    yield from self._follow(op.body.block, batch, role)
                case te.SeqOp():
                    for iteration in iterations_of(op, op.iterations):
                        inner = Batch(batch.count, batch, None, batch.lanes)
                        inner.values[op.variable] = np.full(batch.count, iteration, np.int64)
                        yield from self._follow(op.body.block, inner, role)
                case te.IfOp():
                    chosen = chosen_by(op, batch, in_part=True)
                    if chosen is not None:
                        yield from self._follow(op.body.block, chosen, role)
                case te.AsmOp() if op.meaning is not None:
                    yield from self._follow(op.meaning.block, batch, role)
                case te.BarrierOp() if op.threads is te.Scope.BLOCK:
                    yield from self._meet(op, role, 0, sum(self.counts))
                case te.NamedBarrierOp():
                    yield from self._meet(op, role, op.name_of_barrier, op.threads)
                case te.MbarrierWaitOp():
                    while not self._passes(op, batch):
                        yield op
                    self._has_moved = True
                case _:
                    self._act(op, batch)
                    self._has_moved = True

    def _meet(self, op: Operation, role: Role, number: int, threads: int) -> Iterator[Operation]:
        """Waits until as many threads have come as often to a barrier."""
        role.arrived[number] = mine = role.arrived.get(number, 0) + 1
        self._has_moved = True
        while self._come(number, mine) < threads:
            yield op

    def _come(self, number: int, times: int) -> int:
        return sum(
            count
            for role, count in zip(self.roles, self.counts, strict=True)
            if role.arrived.get(number, 0) >= times
        )

    # Mbarriers.

    def _named(self, op: Any, barriers: SSAValue, numbers: Rows) -> list[tuple[PhaseBarrier, int]]:
        """The mbarriers that threads mean, and by how many threads of a block."""
        found: list[tuple[PhaseBarrier, int]] = []
        for number, rows in zip(*np.unique(numbers, return_counts=True), strict=True):
            barrier = self.mbarriers.get((barriers, int(number)))
            if barrier is None:
                raise ExecutionError(
                    f"'{op.name}': {source_name(barriers)}[{number}] is not set up{_at(op)}"
                )
            found.append((barrier, int(rows) // self.blocks.count))
        return found

    def _passes(self, op: te.MbarrierWaitOp, batch: Batch) -> bool:
        parities = batch.index(op.parity, list(op.parity_indices))
        numbers = batch.index(op.number, list(op.indices))
        for parity in np.unique(parities):
            for barrier, _ in self._named(op, op.barriers, numbers[parities == parity]):
                if not barrier.passes(int(parity)) and barrier.pending == 0:
                    barrier.land()
                if not barrier.passes(int(parity)):
                    return False
        return True

    @singledispatchmethod
    def _act(self, op: Operation, batch: Batch) -> None:
        self.steps.run(op, batch)

    @_act.register
    def _(self, op: te.MbarrierInitOp, batch: Batch) -> None:
        for number in np.unique(batch.index(op.number, list(op.indices))):
            label = f"{source_name(op.barriers)}[{number}]"
            self.mbarriers[op.barriers, int(number)] = PhaseBarrier(label, op.expected)

    @_act.register
    def _(self, op: te.MbarrierFenceOp, batch: Batch) -> None:
        pass

    @_act.register
    def _(self, op: te.ProxyFenceOp, batch: Batch) -> None:
        pass

    @_act.register
    def _(self, op: te.MbarrierArriveOp, batch: Batch) -> None:
        numbers = batch.index(op.number, list(op.indices))
        for barrier, threads in self._named(op, op.barriers, numbers):
            barrier.arrive(threads, threads * op.bytes)

    # Copies.

    def _box(self, touch: te.Touch, batch: Batch) -> tuple[Places, npt.NDArray[np.bool_]]:
        """The elements of a box, and which of them the tensor has; the first one for others."""
        starts = [batch.index(one, list(touch.indices)) for one in touch.expressions]
        numbers = clipped_numbers(touch, starts)
        storage, rows = batch.buffer(touch.buffer)
        return Places(storage, rows[:, None], np.maximum(numbers, 0)), numbers >= 0

    @_act.register
    def _(self, op: te.BulkLoadOp, batch: Batch) -> None:
        outside, inside = op.touches()
        source, exists = self._box(outside, batch)
        target = self.steps.places(op, inside, batch)
        target.storage.written[target.rows, target.numbers] = False

        def land() -> None:
            target.write(np.where(exists, self.steps.read(op, op.tensor, source, batch), 0))

        numbers = batch.index(op.number, list(op.barrier_indices))
        ((barrier, threads),) = self._named(op, op.barriers, numbers)
        barrier.flying.append((land, threads * op.bytes))

    @_act.register
    def _(self, op: te.BulkStoreOp, batch: Batch) -> None:
        inside, outside = op.touches()
        source = self.steps.places(op, inside, batch)
        target, exists = self._box(outside, batch)

        def land() -> None:
            values = self.steps.read(op, op.buffer, source, batch)
            rows = np.broadcast_to(target.rows, exists.shape)[exists]
            Places(target.storage, rows, target.numbers[exists]).write(values[exists])

        self._role.stores.uncommitted.append(land)

    @_act.register
    def _(self, op: te.BulkCommitOp, batch: Batch) -> None:
        self._role.stores.commit()

    @_act.register
    def _(self, op: te.BulkWaitOp, batch: Batch) -> None:
        self._role.stores.wait(op.groups)

    # Products.

    @property
    def _role(self) -> Role:
        assert self._now is not None
        return self._now

    @_act.register
    def _(self, op: te.WarpgroupFenceOp, batch: Batch) -> None:
        pass

    @_act.register
    def _(self, op: te.WarpgroupCommitOp, batch: Batch) -> None:
        self._role.products.commit()

    @_act.register
    def _(self, op: te.WarpgroupWaitOp, batch: Batch) -> None:
        self._role.products.wait(op.groups)

    @_act.register
    def _(self, op: te.WarpgroupMmaOp, batch: Batch) -> None:
        if batch.lanes is None or batch.lanes % GROUP_THREADS:
            raise ExecutionError(
                f"'{op.name}' is an instruction of {GROUP_THREADS} threads together{_at(op)}"
            )
        sums, *matrices = (self.steps.places(op, touch, batch) for touch in op.touches())
        for name, places in zip("AB", matrices, strict=True):
            starts = places.numbers[:, 0].reshape(-1, GROUP_THREADS)
            if (starts != starts[:, :1]).any():
                raise ExecutionError(
                    f"'{op.name}': threads of a warp group mean different matrices {name}{_at(op)}"
                )
        if not self._role.products.under_way:
            self.steps.read(op, op.sums, sums, batch)

        def end() -> None:
            parts: list[Array] = []
            for (buffer, _, _, layout), places in zip(op.sides.values(), matrices, strict=True):
                group = Places(
                    places.storage,
                    places.rows[::GROUP_THREADS],
                    places.numbers[::GROUP_THREADS, :1]
                    + np.array(cast("list[int]", layout.indices())),
                )
                held = self.steps.read(op, buffer, group, batch)
                parts.append(held.reshape(len(held), layout[1].size(), -1).swapaxes(1, 2))
            sums.write(warpgroup_product(op.instruction, parts[0], parts[1], sums.read()))

        def hide() -> None:
            sums.storage.written[sums.rows, sums.numbers] = False

        self._role.products.begin(end, hide)


def chosen_by(op: te.IfOp, batch: Batch, *, in_part: bool = False) -> Batch | None:
    """The threads of a batch for which a condition holds, if there are any.

    With ``in_part`` those of a block run together also where they are not all of them.
    """
    holds = np.ones(batch.count, np.bool_)
    for expression, equal in op.conditions():
        value = batch.index(expression, list(op.indices))
        holds &= (value == 0) if equal else (value >= 0)
    rows = np.flatnonzero(holds)
    if not len(rows):
        return None
    lanes = None
    if batch.lanes is not None:
        by_block = holds.reshape(-1, batch.lanes)
        if (by_block.all(axis=1) | ~by_block.any(axis=1)).all():
            lanes = batch.lanes
        elif in_part and (by_block == by_block[0]).all():
            lanes = int(by_block[0].sum())
    return Batch(len(rows), batch, rows, lanes)


def blocks_differ(threads: te.LoopOp) -> bool:
    """Whether blocks of a kernel wait or arrive in ways of their own."""
    around = {loop.variable for loop in te.enclosing_loops(threads)}
    for op in threads.walk():
        found: list[SSAValue] = []
        if isinstance(op, te.IfOp) and any(isinstance(one, te.MbarrierOp) for one in op.walk()):
            found = list(op.indices)
        elif isinstance(op, te.MbarrierOp):
            found = [one for one in op.operands if one is not op.barriers]
        if around & set(variables_of(found)):
            return True
    return False


def run_in_turns(
    steps: Steps,
    threads: te.LoopOp,
    blocks: Batch,
    generator: np.random.Generator | None,
) -> None:
    """Runs the threads of some blocks, which wait for each other.

    ``threads`` is the loop of a kernel, or a ``fully`` parallel one that becomes it.
    """
    if not blocks_differ(threads):
        Turns(steps, threads, blocks, generator, _made_around(threads)).run()
        return
    for number in range(blocks.count):
        one = Batch(1, blocks, np.array([number]))
        Turns(steps, threads, one, generator, _made_around(threads)).run()


def _made_around(threads: te.LoopOp) -> Mbarriers:
    """The mbarriers that are set up where they are made, before loops become kernels."""
    used = {op.barriers for op in threads.walk() if isinstance(op, (te.MbarrierOp, te.BulkLoadOp))}
    return {
        (made.result, number): PhaseBarrier(f"{source_name(made.result)}[{number}]", made.expected)
        for made in (one.owner for one in used)
        if isinstance(made, te.NewMbarriersOp) and made.expected is not None
        for number in range(made.result.type.count)
    }


def _described(op: Operation | None) -> str:
    return "" if op is None else f"'{op.name}'{_at(op)}"


def _at(op: Operation) -> str:
    place = place_of(op)
    return "" if place is None else f" ({place})"
