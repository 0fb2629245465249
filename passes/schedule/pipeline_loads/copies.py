"""Tiles of the loop that all threads copy, brought several iterations ahead by ``cp.async``.

With S stages the prologue loads the tiles of the first S - 1 iterations; each iteration waits for
its own tiles and starts the loads of the iteration S - 1 ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeGuard

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.interfaces import read_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.domain import fewest_iterations
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.sched.transfer import ASYNC_BYTES
from mugraph.dialects.tensor_types import bytes_of, element_bytes_of, shape_of

WAITED_VECTORS = 2
"""Of a thread that waits for a copy beside others."""


class ThreadCopies(NamedTuple):
    """The copies of tiles to shared memory by all threads: once before the loop, or in it."""

    prologue: Block
    loop: Block
    once: tuple[sched.CopyOp, ...]
    moving: tuple[sched.CopyOp, ...]
    iterations: int

    @property
    def run_ahead(self) -> bool:
        """Whether some run ahead of their readers already."""
        return any(copy.is_async or copy.ahead_of for copy in (*self.once, *self.moving))

    @property
    def tile_bytes(self) -> int:
        """The bytes that an iteration brings."""
        tiles = [copy.source.type for copy in self.moving]
        return sum(bytes_of(tile) for tile in tiles)


def find_copies(kernel: sched.KernelOp) -> ThreadCopies:
    """The copies of a kernel without roles."""
    phases = list(kernel.body.block.ops)
    prologue = next(op for op in phases if isinstance(op, sched.PrologueOp)).body.block
    loop = next(op for op in phases if isinstance(op, sched.ForloopOp)).body.block
    return ThreadCopies(
        prologue, loop, tuple(_loads(prologue)), tuple(_loads(loop)), loop_iterations(kernel)
    )


def _loads(block: Block) -> Iterator[sched.CopyOp]:
    for op in block.ops:
        if _is_load(op):
            yield op


def _is_load(op: Operation) -> TypeGuard[sched.CopyOp]:
    """Whether an operator copies a tile from device memory to shared memory."""
    return (
        isinstance(op, sched.CopyOp)
        and isinstance(op.source.type, sched.GlobalType)
        and isinstance(op.destination.type, sched.SharedType)
    )


def can_run_ahead(copy: sched.CopyOp) -> bool:
    """Whether ``cp.async`` can carry out a copy: it moves 4, 8 or 16 bytes a thread."""
    size = copy.partition.data.vector * element_bytes_of(copy.source.type)
    return size in ASYNC_BYTES and not copy.is_shifted


def loading_partition(load: sched.CopyOp) -> LinearPartition:
    """Who loads what: whole vectors, which are shifted, rather than single elements."""
    return load.partition.data if can_run_ahead(load) else load.shifted_partition


def shift_stores(kernel: sched.KernelOp) -> None:
    """Lets threads store whole vectors to rows that start anywhere."""
    for op in kernel.walk():
        if isinstance(op, sched.CopyOp) and isinstance(op.source.type, sched.SharedType):
            op.partition = sched.LinearPartitionAttr(op.shifted_partition)


def _copy(
    load: sched.CopyOp, *, ahead: int = 0, iteration: int | None = None, waits: bool = False
) -> sched.CopyOp:
    """The copy of the same tile, at another iteration; ``waits``: threads wait for it."""
    copy = sched.CopyOp(
        load.source,
        load.destination,
        loading_partition(load),
        asynchronous=can_run_ahead(load) and not waits,
        ahead=ahead,
        iteration=iteration,
        within=load.checked_dims,
    )
    copy.location = load.location
    return copy


def stage_copies(found: ThreadCopies, stages: int) -> None:
    """Lets the copies of a kernel run ahead in so many stages, and waits for them.

    With as many stages as iterations everything is loaded before the loop.
    """
    loads = (*found.once, *found.moving)
    for load in found.moving:
        assert isinstance(load.destination.owner, sched.AllocOp)
        load.destination.owner.stages = IntegerAttr(stages, i64) if stages > 1 else None
    distance = found.iterations if stages == found.iterations else stages - 1
    waits = _waits(found)
    needed = _needed_before_loop(found)
    for load in found.once:
        first = None if load in needed else 0
        Rewriter.replace_op(load, _copy(load, iteration=first, waits=waits), [])
    before: list[Operation] = []
    for iteration in range(distance):
        before += [_copy(load, iteration=iteration) for load in found.moving]
        before.append(sched.CommitOp())
    if distance == 0 and found.once:
        before.append(sched.CommitOp())
    inside = _steps_of_loop(found, stages, distance)
    if waits or not any(can_run_ahead(load) for load in loads):
        before, inside = _without_groups(before), _without_groups(inside)
    _insert_after_loads(found.prologue, before)
    _start_before_registers(found.prologue)
    Rewriter.insert_op(inside, InsertPoint.at_start(found.loop))
    _wait_in_prologue(found, before)
    for load in found.moving:
        Rewriter.erase_op(load)


def _needed_before_loop(found: ThreadCopies) -> set[sched.CopyOp]:
    """The copies that blocks without an iteration make, too: their prologues read what these bring.

    Others are left out there.
    """
    phase = found.prologue.parent_op()
    kernel = None if phase is None else enclosing(phase, sched.KernelOp)
    if kernel is None or fewest_iterations(kernel):
        return set()
    read = {buffer for op in found.prologue.ops for buffer in read_by(op)}
    return {load for load in found.once if load.destination in read}


def _insert_after_loads(prologue: Block, operations: Sequence[Operation]) -> None:
    """Puts operators behind the copies that a prologue begins with."""
    first = prologue.first_op
    while isinstance(first, sched.CopyOp | sched.EmptyOp):
        first = first.next_op
    if first is None:
        prologue.add_ops(operations)
    else:
        prologue.insert_ops_before(operations, first)


def _waits(found: ThreadCopies) -> bool:
    """Whether threads wait for the one small copy beside others to registers, as of weights.

    A norm of 16384 x 2048 took 34.5 us on an H200 so, and 35.6 with an asynchronous one, one of
    512 x 1024 2.58 and 2.72.  What is reduced is needed before what threads have in registers.
    Several copies would be waited for one after the other, and what is copied behind them, such as
    keys and values behind the rotation of queries, would begin as late.
    """
    if len(found.once) != 1 or found.moving or found.iterations > 1:
        return False
    (load,) = found.once
    partition = loading_partition(load)
    to_registers = any(
        isinstance(op, sched.CopyOp) and isinstance(op.destination.type, sched.TileType)
        for op in found.prologue.ops
    )
    reduced = any(isinstance(use.operation, sched.ReduceOp) for use in load.destination.uses)
    vectors = partition.values_per_thread(shape_of(load.source.type)) // partition.vector
    return to_registers and not reduced and vectors <= WAITED_VECTORS


def _start_before_registers(prologue: Block) -> None:
    """Puts copies to shared memory before those to registers that a prologue begins with.

    So their loads are under way beside the others: behind them ptxas puts what threads compute of
    registers in front of them.  Where a tile ends within a vector, its elements are waited for one
    by one, and come last.
    """
    first: Operation | None = None
    for op in list(prologue.ops):
        if not isinstance(op, sched.CopyOp | sched.EmptyOp):
            return
        if not isinstance(op, sched.CopyOp):
            continue
        if isinstance(op.destination.type, sched.TileType):
            first = first or op
        elif first is not None and not _ends_in_part(op):
            op.detach()
            prologue.insert_op_before(op, first)


def _ends_in_part(copy: sched.CopyOp) -> bool:
    """Whether a tile ends within a vector."""
    partition = copy.partition.data
    return any(
        entry.dim == partition.inner and entry.bound.extent % partition.vector > 0
        for entry in copy.ragged()
    )


def _without_groups(steps: Sequence[Operation]) -> list[Operation]:
    """The steps where no copy is asynchronous: no groups, and no waits for them."""
    return [op for op in steps if not isinstance(op, sched.CommitOp | sched.WaitOp)]


def _steps_of_loop(found: ThreadCopies, stages: int, distance: int) -> list[Operation]:
    """The wait for an iteration's tiles, and the loads that each iteration starts."""
    if found.moving and stages == 1 and found.iterations > 1:
        now: list[Operation] = [_copy(load) for load in found.moving]
        return [*now, sched.CommitOp(), sched.WaitOp(0)]
    steps: list[Operation] = [sched.WaitOp(max(distance - 1, 0))]
    if found.moving and stages < found.iterations:
        steps += [_copy(load, ahead=distance) for load in found.moving]
    if distance > 0 and found.iterations > 1:
        # One group an iteration, also where nothing is left to load: the wait counts groups.
        steps.append(sched.CommitOp())
    return steps


def _wait_in_prologue(found: ThreadCopies, loads: Sequence[Operation]) -> None:
    """Waits for what comes once, which is in the first group, before the prologue reads it."""
    brought = {load.destination for load in found.once}
    for op in found.prologue.ops:
        if brought.intersection(read_by(op)):
            groups = sum(isinstance(load, sched.CommitOp) for load in loads)
            if groups:
                found.prologue.insert_op_before(sched.WaitOp(groups - 1), op)
            return
