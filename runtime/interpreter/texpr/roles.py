"""Threads of a block that wait for each other through mbarriers: they run in turns.

A bulk copy lands no sooner than a thread waits for it, and a product of warp groups is computed
when it is waited for: before, what they write holds nothing.  Blocks run together, unless they
differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.locations import place_of
from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.dialects.te.points import Rows, clipped_numbers
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.roles import roles_of
from mugraph.passes.texpr.analysis.turns import Role, Turns
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError, iterations_of
from mugraph.runtime.interpreter.memory import Ending, InFlight
from mugraph.runtime.interpreter.phases import PhaseBarrier
from mugraph.runtime.interpreter.texpr.batch import Batch, Places
from mugraph.runtime.interpreter.texpr.instructions import warpgroup_product


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


@dataclass
class Products(InFlight):
    """The products that a warp group has begun; sums of those under way hold nothing."""

    hiding: list[Ending] = field(default_factory=list[Ending])
    """What hides the sums of each, the newest last."""

    def begin(self, end: Ending, hide: Ending) -> None:
        """One more: what ends it, and what hides its sums."""
        self.uncommitted.append(end)
        self.hiding.append(hide)
        hide()

    def wait(self, pending: int) -> None:
        """Ends all groups but so many."""
        super().wait(pending)
        self.hiding = self.hiding[len(self.hiding) - self.under_way :]
        for hide in self.hiding:
            hide()


@dataclass(eq=False)
class RunningRole(Role):
    """Threads of all blocks that do the same, and what they have begun."""

    products: Products = field(default_factory=Products)
    stores: InFlight = field(default_factory=InFlight)

    def unfinished(self) -> str | None:
        """What has been begun, and nobody has waited for."""
        if self.products.under_way:
            return "products of a warp group; 'te.warpgroup_wait 0' waits for them"
        if self.stores.under_way:
            return "bulk stores; 'te.bulk_wait 0' behind a 'te.bulk_commit' waits for them"
        return None


Mbarriers: TypeAlias = dict[tuple[SSAValue, int], PhaseBarrier]


class Execution(Turns[RunningRole, Batch]):
    """The roles of some blocks, and the mbarriers through which they hand over."""

    def __init__(
        self,
        steps: Steps,
        threads: te.LoopOp,
        blocks: Batch,
        generator: np.random.Generator | None,
        mbarriers: Mbarriers | None = None,
    ) -> None:
        super().__init__(threads)
        self.steps = steps
        self.blocks = blocks
        self.mbarriers = {} if mbarriers is None else mbarriers
        self._generator = generator
        for members in roles_of(threads):
            count = blocks.count * len(members)
            batch = Batch(count, blocks, np.repeat(np.arange(blocks.count), len(members)))
            batch.lanes = len(members)
            batch.values[threads.variable] = np.tile(members, blocks.count)
            self.begin(RunningRole(members), batch)

    def run(self) -> None:
        """Runs all roles to their ends.  Raises ``ExecutionError`` where they wait for ever."""
        if not self.take_turns():
            waiting = sorted({_described(role.waits_at) for role in self.live})
            raise ExecutionError(f"threads wait for ever: {'; '.join(waiting)}")
        for role in self.roles:
            if (left := role.unfinished()) is not None:
                raise ExecutionError(f"the block's program ends with {left}")
        for barrier in self.mbarriers.values():
            if barrier.flying:
                raise ExecutionError(
                    f"the block's program ends while bulk copies to {barrier.label} are on their "
                    "way"
                )

    def ordered(self, roles: Sequence[RunningRole]) -> Sequence[RunningRole]:
        """Any order, drawn anew for each round."""
        if self._generator is None:
            return roles
        return [roles[int(place)] for place in self._generator.permutation(len(roles))]

    def iterations(self, op: te.SeqOp, state: Batch, role: RunningRole) -> Iterator[Batch]:
        """All of them."""
        for iteration in iterations_of(op, op.iterations):
            inner = Batch(state.count, state, None, state.lanes)
            inner.values[op.variable] = np.full(state.count, iteration, np.int64)
            yield inner

    def chosen(self, op: te.IfOp | te.WhenOp, state: Batch, role: RunningRole) -> Batch | None:
        """Those of all blocks."""
        return chosen_by(op, state, in_part=True)

    def act(self, op: Operation, state: Batch, role: RunningRole) -> None:
        """Runs an operator in all threads."""
        self._act(op, state, role)

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

    def passes(self, op: te.MbarrierWaitOp, state: Batch, role: RunningRole) -> bool:
        """Whether all mbarriers let their threads go on; copies that one waits for land."""
        parities = state.index(op.parity, list(op.parity_indices))
        numbers = state.index(op.number, list(op.indices))
        for parity in np.unique(parities):
            for barrier, _ in self._named(op, op.barriers, numbers[parities == parity]):
                if not barrier.passes(int(parity)) and barrier.pending == 0:
                    barrier.land()
                if not barrier.passes(int(parity)):
                    return False
        return True

    @singledispatchmethod
    def _act(self, op: Operation, batch: Batch, role: RunningRole) -> None:
        self.steps.run(op, batch)

    @_act.register
    def _(self, op: te.MbarrierInitOp, batch: Batch, role: RunningRole) -> None:
        for number in np.unique(batch.index(op.number, list(op.indices))):
            label = f"{source_name(op.barriers)}[{number}]"
            self.mbarriers[op.barriers, int(number)] = PhaseBarrier(label, op.expected)

    @_act.register(te.MbarrierFenceOp)
    @_act.register(te.ProxyFenceOp)
    @_act.register(te.WarpgroupFenceOp)
    def _(self, op: Operation, batch: Batch, role: RunningRole) -> None:
        pass

    @_act.register
    def _(self, op: te.MbarrierArriveOp, batch: Batch, role: RunningRole) -> None:
        numbers = batch.index(op.number, list(op.indices))
        for barrier, threads in self._named(op, op.barriers, numbers):
            barrier.arrive(threads, threads * op.bytes)

    # Copies.

    def _box(self, touch: te.Touch, batch: Batch) -> tuple[Places, npt.NDArray[np.bool_]]:
        """The elements of a box, and which of them the tensor has; the first one for others."""
        starts = [batch.index(one, list(touch.indices)) for one in touch.expressions]
        storage, rows = batch.buffer(touch.buffer)
        numbers = clipped_numbers(replace(touch, sized=storage.shape), starts)
        return Places(storage, rows[:, None], np.maximum(numbers, 0)), numbers >= 0

    @_act.register
    def _(self, op: te.BulkLoadOp, batch: Batch, role: RunningRole) -> None:
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
    def _(self, op: te.BulkStoreOp, batch: Batch, role: RunningRole) -> None:
        inside, outside = op.touches()
        source = self.steps.places(op, inside, batch)
        target, exists = self._box(outside, batch)

        def land() -> None:
            values = self.steps.read(op, op.buffer, source, batch)
            rows = np.broadcast_to(target.rows, exists.shape)[exists]
            Places(target.storage, rows, target.numbers[exists]).write(values[exists])

        role.stores.uncommitted.append(land)

    @_act.register
    def _(self, op: te.BulkCommitOp, batch: Batch, role: RunningRole) -> None:
        role.stores.commit()

    @_act.register
    def _(self, op: te.BulkWaitOp, batch: Batch, role: RunningRole) -> None:
        role.stores.wait(op.groups)

    # Products.

    @_act.register
    def _(self, op: te.WarpgroupCommitOp, batch: Batch, role: RunningRole) -> None:
        role.products.commit()

    @_act.register
    def _(self, op: te.WarpgroupWaitOp, batch: Batch, role: RunningRole) -> None:
        role.products.wait(op.groups)

    @_act.register
    def _(self, op: te.WarpgroupMmaOp, batch: Batch, role: RunningRole) -> None:
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
        if not role.products.under_way:
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

        role.products.begin(end, hide)


def chosen_by(
    op: te.Conditional | te.WhenOp, batch: Batch, *, in_part: bool = False
) -> Batch | None:
    """The threads of a batch for which a condition holds, if there are any.

    With ``in_part`` those of a block run together also where they are not all of them.
    """
    if isinstance(op, te.WhenOp):
        holds = np.asarray(batch.value(op.condition), np.bool_)
    else:
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
        elif (in_part or _are_whole_warps(by_block)) and (by_block == by_block[0]).all():
            lanes = int(by_block[0].sum())
    return Batch(len(rows), batch, rows, lanes)


def _are_whole_warps(holds: npt.NDArray[np.bool_]) -> bool:
    """Whether a condition holds for all threads of a warp or for none, ``[blocks, threads]``."""
    if holds.shape[1] % te.WARP:
        return False
    warps = holds.reshape(-1, te.WARP)
    return bool((warps.all(axis=1) | ~warps.any(axis=1)).all())


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
        Execution(steps, threads, blocks, generator, _made_around(threads)).run()
        return
    for number in range(blocks.count):
        one = Batch(1, blocks, np.array([number]))
        Execution(steps, threads, one, generator, _made_around(threads)).run()


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
