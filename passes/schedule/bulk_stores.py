"""``--bulk-stores``: results leave shared memory by bulk copies (TMA) of one thread.

What all threads copy out of a buffer, or write from registers in pieces, goes as whole boxes: the
threads write the tile to shared memory, and one of them starts the copy, which runs by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.alignment import DEFAULT_ALIGNMENT, alignment_of
from mugraph.dialects.bulk import (
    CHUNK_BYTES,
    BulkCopyError,
    bulk_tile,
    require_boxes,
    tensor_dims,
    tile_layouts,
)
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.cute.chaining import holds_pairs_of_columns
from mugraph.dialects.interfaces import written_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.plan import Stores
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.product_columns import columns_of_product
from mugraph.dialects.sched.role import enclosing_threads, roles_of
from mugraph.dialects.sched.structure import computing_block
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import (
    AnyLayout,
    bytes_of,
    element_bytes_of,
    element_type_of,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.each import TargetPass
from mugraph.passes.options import refuse
from mugraph.passes.schedule.lower_threadblock.write_back import WriteBack, write_back_through
from mugraph.passes.schedule.plan_stensor_memory import (
    blocks_that_share,
    certified_plan,
    memory_requests,
    with_channels,
)
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import Target

MIN_VECTORS = 8
"""Copies of 16 bytes a thread from which on a bulk copy is worth its fence and its barrier.

An estimate: the start of a bulk copy takes about as long as a thread takes for so many of its own.
"""


PARTS = 2
"""Of a result whose buffer does not fit beside rings that go on."""


class Result(NamedTuple):
    """An operator behind the loop that writes a tile, and the layouts that bulk copies can read.

    A ``sched.copy`` out of a buffer, or a ``sched.store`` of a product from registers.
    """

    op: sched.CopyOp | sched.StoreOp
    tile: SSAValue
    layouts: tuple[AnyLayout, ...]

    @property
    def is_in_registers(self) -> bool:
        """Whether there is no buffer yet."""
        return isinstance(self.op, sched.StoreOp)

    @property
    def detour(self) -> WriteBack | None:
        """The buffer that a fragment is only stored to so that it is copied to the tile."""
        buffer = self.op.source.owner
        return write_back_through(buffer) if isinstance(buffer, sched.AllocOp) else None

    @property
    def from_registers(self) -> sched.StoreOp | None:
        """What stores a fragment: to the tile, or to a buffer that is only copied to it."""
        if isinstance(self.op, sched.StoreOp):
            return self.op
        return None if self.detour is None else self.detour.store

    def vectors(self) -> float:
        """How many vectors of 16 bytes each thread would write."""
        size = bytes_of(self.tile.type)
        return size / CHUNK_BYTES / enclosing_threads(self.op)


def find_results(kernel: sched.KernelOp, alignments: Sequence[int]) -> Iterator[Result]:
    """The tiles behind the loop that bulk copies could bring to device memory.

    ``alignments`` are those of the kernel's tensors, in bytes.
    """
    for op in writes_behind_loop(kernel):
        if isinstance(op, sched.StoreOp) and not _is_of_product(op):
            continue
        try:
            yield Result(op, op.destination, layouts_of_result(op, alignments))
        except BulkCopyError:
            continue


def _is_of_product(op: sched.StoreOp) -> bool:
    """Whether it writes a product of warps or warp groups, whole in its threads, in 16 bits."""
    fragment = op.source.type
    mma = fragment.tiled_mma if isinstance(fragment, sched.TileType) else None
    return (
        mma is not None
        and mma.thr_layout[2] == 1
        and holds_pairs_of_columns(mma_atom(mma.atom))
        and element_bytes_of(op.destination.type) == 2
    )


def writes_behind_loop(
    kernel: sched.KernelOp,
) -> Iterator[sched.CopyOp | sched.StoreOp]:
    """What writes tiles of device memory behind the loop, element by element or in vectors."""
    for phase in computing_block(kernel).ops:
        if isinstance(phase, sched.EpilogueOp):
            for op in phase.body.block.ops:
                if isinstance(op, sched.CopyOp | sched.StoreOp) and isinstance(
                    op.destination.owner, sched.LocalTileOp
                ):
                    yield op


def layouts_of_result(
    op: sched.CopyOp | sched.StoreOp, alignments: Sequence[int]
) -> tuple[AnyLayout, ...]:
    """The layouts of a buffer from which bulk copies can write a tile.

    Raises :class:`BulkCopyError` where they cannot, which says why.
    """
    tile = op.destination.owner
    assert isinstance(tile, sched.LocalTileOp)
    tensor = tile.source
    if tile.ends_at_lengths:
        raise BulkCopyError("a number in device memory says where it ends")
    if tile.through is not None:
        raise BulkCopyError("numbers in device memory say where its rows are")
    aligned = alignments[enclosing_kernel(op).body.block.args.index(tensor)]
    require_boxes(tile.slicing(), aligned)
    if isinstance(op, sched.CopyOp) and not _is_plain(op):
        raise BulkCopyError("it is not copied as it is out of a buffer of shared memory")
    extents = shape_of(tile.result.type)
    if isinstance(op, sched.CopyOp):
        size, strides = element_bytes_of(tensor.type), strides_of(resolved_layout_of(tensor))
        dims = tensor_dims(shape_of(tensor.type), strides, size)
        bulk_tile(dims, extents, resolved_layout_of(op.source), size)
    return _layouts_of_tile(tile.result, extents)


def _layouts_of_tile(tile: SSAValue, extents: Sequence[int]) -> tuple[AnyLayout, ...]:
    """The layouts from which bulk copies can write a tile, or a part of it of these extents."""
    assert isinstance(tile.owner, sched.LocalTileOp)
    tensor = tile.owner.source
    strides = strides_of(resolved_layout_of(tensor))
    size = element_bytes_of(tensor.type)
    return tuple(tile_layouts(shape_of(tensor.type), strides, extents, size, boxes=True))


def obstacles(kernel: sched.KernelOp, alignments: Sequence[int]) -> Iterator[str]:
    """Of each result that threads still write, a sentence that names it and says why."""
    for op in writes_behind_loop(kernel):
        tile = op.destination.owner
        assert isinstance(tile, sched.LocalTileOp)
        reason = "shared memory has no room for it, or for as many blocks as before"
        try:
            if isinstance(op, sched.StoreOp) and not _is_of_product(op):
                raise BulkCopyError("'sched.store' writes it from registers")
            layouts_of_result(op, alignments)
        except BulkCopyError as error:
            reason = str(error)
        yield f"all threads write {value_label(tile.source)}, since {reason}"


def _is_plain(op: sched.CopyOp) -> bool:
    """Whether a copy moves a buffer of its own as it is."""
    buffer = op.source.owner
    return (
        isinstance(buffer, sched.AllocOp)
        and buffer.stage_count == 1
        and isinstance(op.source.type, sched.SharedType)
        and element_type_of(op.source.type) == element_type_of(op.destination.type)
    )


def may_store_in_bulk(kernel: sched.KernelOp) -> bool:
    """Whether :func:`choose_results` could take any result of a kernel."""
    stores, goes_on = kernel.decided.stores, kernel.persistent_blocks is not None
    return stores != "threads" and (stores == "tma" or goes_on or bool(roles_of(kernel)))


def choose_results(
    results: Sequence[Result], stores: Stores | None, *, is_fed: bool, goes_on: bool = False
) -> list[int]:
    """Which of the results of a kernel leave by bulk copies, as positions.

    ``stores`` is what its plan says.  ``is_fed``: whether channels bring its tiles.  ``goes_on``:
    whether its blocks are persistent, and the copies of one work tile run beside the loop of the
    next.
    """
    if stores == "threads":
        return []
    if goes_on:
        of_op: dict[Operation, Result] = {result.op: result for result in results}
        return [i for i, result in enumerate(results) if _leaves_registers(result, of_op)]
    if stores == "tma":
        return list(range(len(results)))
    return [
        i
        for i, result in enumerate(results)
        if is_fed and not result.is_in_registers and result.vectors() >= MIN_VECTORS
    ]


def _leaves_registers(result: Result, results: Mapping[Operation, Result]) -> bool:
    """Whether a fragment can leave through one buffer to all tensors that it is stored in."""
    if (detour := result.detour) is None:
        return result.is_in_registers
    others = [results.get(copy) for copy in detour.copies]
    return all(other is not None and other.layouts == result.layouts for other in others)


def with_bulk_store(result: Result, *, behind_barrier: bool = False, parts: int = 1) -> None:
    """Rewrite: the tile through a buffer, a fence, a barrier, one bulk copy, and a wait at the end.

    ``behind_barrier``: another barrier before the tile is written lets it take the place of what
    was read before.  ``parts``: the columns leave in so many parts through one buffer.  Where
    blocks go on to other blocks of the grid, the wait is for the tile of the one before, and the
    last one's stands behind the phases.
    """
    op = result.op
    block = op.parent
    assert isinstance(block, Block)
    goes_on = enclosing_kernel(op).persistent_blocks is not None
    steps: list[Operation] = []
    erased: list[Operation] = [op]
    store = result.from_registers
    if store is not None and (goes_on or store is op):
        tiles = [result.tile]
        if (detour := result.detour) is not None:
            # The buffer between the fragment and the copies goes, too.
            tiles = [copy.destination for copy in detour.copies]
            erased = [*detour.copies, store, detour.buffer]
        *rows, columns = shape_of(store.source.type)
        columns //= parts
        buffer = _new_buffer(result, (*rows, columns))
        for number in range(parts):
            is_free = number == 0 and not goes_on
            steps += [] if is_free else [sched.BulkWaitOp()]
            steps += [] if is_free and not behind_barrier else [sched.BarrierOp()]
            at = [*[0] * len(rows), number * columns] if parts > 1 else None
            write = sched.StoreOp(store.source, buffer.result, epilogue_of(store), origin=at)
            steps += [write, sched.ProxyFenceOp(), sched.BarrierOp()]
            steps += [sched.BulkCopyOp(buffer.result, tile, at=at) for tile in tiles]
    else:
        assert isinstance(op, sched.CopyOp)
        steps = [*_publish(op), sched.BulkCopyOp(op.source, result.tile)]
    Rewriter.insert_op(steps, InsertPoint.before(op))
    for each in erased:
        Rewriter.erase_op(each)
    phase = block.parent_op()
    around = phase.parent if goes_on and phase is not None else block
    assert isinstance(around, Block)
    if not isinstance(around.last_op, sched.BulkWaitOp):
        around.add_op(sched.BulkWaitOp())


def _new_buffer(result: Result, extents: Sequence[int]) -> sched.AllocOp:
    kernel = enclosing_kernel(result.op)
    layout, element = result.layouts[0], element_type_of(result.tile.type)
    if tuple(extents) != shape_of(result.tile.type):
        layout = _layouts_of_tile(result.tile, extents)[0]
    type_ = sched.SharedType.of(extents, element, LayoutAttr(layout))
    buffer = sched.AllocOp(type_)
    hint = result.tile.name_hint
    buffer.result.name_hint = f"{hint.removesuffix('_tile')}_shared" if hint else None
    tile = result.tile.owner
    assert isinstance(tile, Operation)
    kernel.body.block.insert_op_before(buffer, tile)
    return buffer


def _publish(op: sched.CopyOp) -> list[Operation]:
    """Lets bulk copies see what threads wrote: a fence before a barrier.

    Of a barrier that stands behind the last write already, in the same phase, or of a new one.
    """
    before: list[Operation] = []
    current = op.prev_op
    while current is not None and op.source not in written_by(current):
        if isinstance(current, sched.BarrierOp):
            before.append(current)
        current = current.prev_op
    if current is None or not before:
        return [sched.ProxyFenceOp(), sched.BarrierOp()]
    Rewriter.insert_op(sched.ProxyFenceOp(), InsertPoint.before(before[-1]))
    return []


def resident_blocks(kernel: sched.KernelOp, target: Target) -> int | None:
    """How many blocks would share a multiprocessor; ``None`` where not even one fits."""
    found = certified_plan(kernel, memory_requests(kernel))
    peak = with_channels(kernel, found).plan.peak
    if peak > target.shared_memory_per_block:
        return None
    return blocks_that_share(kernel, peak, target)


def store_in_bulk(kernel: sched.KernelOp, alignments: Sequence[int], target: Target) -> None:
    """Lets the chosen results leave by bulk copies, as far as shared memory allows.

    No block more may have to wait for a multiprocessor than before.
    """
    before = resident_blocks(kernel, target)
    skipped = 0
    while True:
        results = list(find_results(kernel, alignments))
        goes_on = kernel.persistent_blocks is not None
        chosen = choose_results(
            results, kernel.decided.stores, is_fed=bool(roles_of(kernel)), goes_on=goes_on
        )
        positions = chosen[skipped:]
        if not positions:
            return
        for way in Way:
            trial = kernel.clone()
            again = list(find_results(trial, alignments))[positions[0]]
            if not _store_so(again, way):
                continue
            after = resident_blocks(trial, target)
            if after is not None and (before is None or after >= before):
                _store_so(results[positions[0]], way)
                break
        else:
            skipped += 1


class Way(Enum):
    """Ways to bring a result to a buffer, those that take less time first."""

    AT_ONCE = "at once"
    BEHIND_BARRIER = "behind a barrier"
    IN_HALVES = "in halves"


def _store_so(result: Result, way: Way) -> bool:
    """Rewrites so, if that is possible: in halves only where blocks go on to other blocks."""
    if way is not Way.IN_HALVES:
        with_bulk_store(result, behind_barrier=way is Way.BEHIND_BARRIER)
        return True
    store = result.from_registers
    if store is None or enclosing_kernel(result.op).persistent_blocks is None:
        return False
    fragment = store.source.type
    assert isinstance(fragment, sched.TileType)  # of a product
    if columns_of_product(fragment, shape_of(fragment)[-1] // PARTS) is None:
        return False
    try:
        with_bulk_store(result, parts=PARTS)
    except BulkCopyError:
        return False
    return True


class BulkStoresPass(TargetPass):
    """Stores results by bulk copies (TMA), which one thread starts.

    Each thread fences what it wrote (``sched.proxy_fence``), the role meets at a barrier, its first
    thread starts the copy (``sched.bulk_copy %s to %tile``) and waits, at the end of the role,
    until the buffer has been read (``sched.bulk_wait``).

    If the plan leaves ``stores`` free, a kernel with channels stores those results by bulk copies
    that its threads would otherwise copy from shared memory after the loop, if these are eight
    vectors a thread or more. ``plan <stores = tma>`` does the same for shorter results, for other
    kernels, and for what threads would store from registers (``sched.store``), through a buffer; if
    the buffer only fits over memory that was read before, with one more barrier. ``stores =
    threads`` uses no bulk copies.
    In persistent kernels (``--persist-blocks``) it is the results in registers: the copy, or the
    copies for several devices, run beside the loop of the next work tile. If a buffer of the tile
    does not fit beside the rings, the halves of the columns are stored one after the other through
    a buffer of half the tile (``sched.store %o from [0, 128] to %o_shared``, ``sched.bulk_copy
    %o_shared to %o_tile at [0, 128]``).
    Threads store tensors aligned to less than 16 bytes, and results whose buffer would leave fewer
    blocks on a multiprocessor; with ``stores = tma`` that is an error.

    Pre-condition: ``--pipeline-loads``, and ``--persist-blocks`` where blocks may be persistent;
    run ``--plan-swizzle`` after it.
    """

    name = "bulk-stores"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Treats every kernel of the module whose memory is not planned yet."""
        target = self.target
        if target.bulk_bytes_in_flight is None:
            for kernel in op.body.block.ops:
                if isinstance(kernel, sched.KernelOp) and kernel.decided.stores == "tma":
                    why = f"{target.arch} has no bulk copies"
                    refuse(kernel, "stores", self.name, why, "leave stores free")
            return
        launches = sched.launches_by_kernel(op)
        for kernel in op.body.block.ops:
            if isinstance(kernel, sched.KernelOp) and kernel.smem_bytes is None:
                alignments = alignments_of(kernel, launches[kernel])
                if may_store_in_bulk(kernel):
                    with tiles_by_registers(kernel):
                        store_in_bulk(kernel, alignments, target)
                if kernel.decided.stores == "tma":
                    for why in obstacles(kernel, alignments):
                        refuse(kernel, "stores", self.name, why, "leave stores free")


def alignments_of(kernel: sched.KernelOp, launches: Sequence[sched.LaunchOp]) -> list[int]:
    """The bytes that each of a kernel's tensors is aligned to, wherever it is launched."""
    alignments = [DEFAULT_ALIGNMENT] * len(kernel.body.block.args)
    for launch in launches:
        values = (*launch.arguments, *launch.outputs)
        alignments = [
            min(known, alignment_of(value)) for known, value in zip(alignments, values, strict=True)
        ]
    return alignments
