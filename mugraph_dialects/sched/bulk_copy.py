"""Bulk copies of tiles: TMA."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.alignment import DEFAULT_ALIGNMENT
from mugraph.dialects.bulk import (
    CHUNK_BYTES,
    BulkCopyError,
    BulkTile,
    MappedTensor,
    bulk_tile,
    mapped_tensor,
    pattern_bytes,
    require_boxes,
    require_no_windows,
    tensor_dims,
    tile_layouts,
)
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.interfaces import (
    HasBufferEffects,
    RestrictsSharedLayouts,
)
from mugraph.dialects.partition import LinearPartition, iteration_order
from mugraph.dialects.ragged import RaggedDim, ragged_dims
from mugraph.dialects.sched.accesses import (
    AccessKind,
    HasThreadAccesses,
    Predicate,
    Proxy,
    ThreadAccess,
    named_rows,
    predicate_of,
)
from mugraph.dialects.sched.channel import (
    CHANNEL,
    ChannelOp,
    RunsAtIteration,
    channel_of,
    iteration_properties,
)
from mugraph.dialects.sched.kernel import KernelOp, enclosing_kernel
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.sched.mappings import (
    IntArray,
    MappingError,
    part_of_mode,
    side_by_side,
    vector_coordinates,
    vector_stream,
)
from mugraph.dialects.sched.matrix_part import start_attribute, start_of, verify_part
from mugraph.dialects.sched.role import RoleOp, enclosing_role, enclosing_threads, roles_of
from mugraph.dialects.sched.structure import AllocOp
from mugraph.dialects.sched.types import GlobalType, SharedType, crosses_device_memory
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    dims,
    element_bytes_of,
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


@irdl_op_definition
class BulkCopyOp(
    RunsAtIteration,
    HasThreadAccesses,
    HasBufferEffects,
    RestrictsSharedLayouts,
):
    """A TMA copy of a tile, issued by one thread.

    From device memory into a stage of a channel: ``on %ring`` names the channel, of which the
    destination is a buffer.  The copy lands between where it stands and where consumers have waited
    for the stage of its iteration (``sched.consume``).  It stands in an elected role.  In the loop,
    ``ahead n`` copies the tile of iteration ``it + n`` into its stage and does nothing past the
    last iteration; before the loop, ``iteration n`` names the iteration.  ``multicast``: the
    blocks of the cluster have this tile in common, and each brings some of its boxes to all of
    them; the stage is then released in all of them before any is filled again.

    ``at [0, 128]`` is where the part of the buffer starts that a smaller tile is brought to, or the
    part of the tile that a smaller buffer is written to.

    From shared to device memory, by the first thread of its role (or of the block): what the
    threads wrote is seen by the copy where each of them has run a ``sched.proxy_fence`` since, and
    a ``sched.barrier`` of all of them stands between the fences and the copy.  The buffer may be
    overwritten, and the role ends, only behind a ``sched.bulk_wait``.

    The buffer has one of the layouts that such copies can take
    (:func:`mugraph.dialects.bulk.bulk_layouts`).
    """

    name = "sched.bulk_copy"

    source = operand_def(GlobalType | SharedType)
    destination = operand_def(GlobalType | SharedType)
    channel = opt_operand_def(CHANNEL)
    multicast = opt_prop_def(UnitAttr)
    at = opt_prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "(`multicast` $multicast^)? $source `to` $destination (`at` $at^)? (`on` $channel^)? "
        "(`ahead` $ahead^)? (`iteration` $iteration^)? attr-dict "
        "`:` type($source) `to` type($destination)"
    )

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        channel: SSAValue | None = None,
        *,
        ahead: int = 0,
        iteration: int | None = None,
        at: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[source, destination, channel],
            properties={
                "at": start_attribute(at),
                **iteration_properties(ahead, iteration),
            },
        )

    def ring(self) -> ChannelOp | None:
        """The channel that the copy fills a stage of."""
        return None if self.channel is None else channel_of(self, self.channel)

    @property
    def is_load(self) -> bool:
        """Whether the copy brings a tile into shared memory."""
        return isinstance(self.destination.type, SharedType)

    @property
    def tile(self) -> SSAValue:
        """The side in device memory."""
        return self.source if self.is_load else self.destination

    @property
    def buffer(self) -> SSAValue:
        """The side in shared memory."""
        return self.destination if self.is_load else self.source

    @property
    def moves(self) -> bool:
        """Whether each iteration of the loop has a tile of its own."""
        owner = self.tile.owner
        return isinstance(owner, LocalTileOp) and owner.loop_dim >= 0

    @property
    def tensor(self) -> SSAValue:
        """The kernel's argument of which the tile is a part."""
        owner = self.tile.owner
        return owner.source if isinstance(owner, LocalTileOp) else self.tile

    @property
    def start(self) -> tuple[int, ...]:
        """Where in the destination the source comes to lie."""
        return start_of(self.at, len(shape_of(self.destination.type)))

    def mapped(self) -> MappedTensor:
        """The tensor as a tensor map has it; raises :class:`BulkCopyError` where none can."""
        owner, strides = self.tile.owner, strides_of(resolved_layout_of(self.tensor))
        if isinstance(owner, LocalTileOp):
            return mapped_tensor(owner, strides, shape_of(owner.result.type))
        return MappedTensor(shape_of(self.tensor.type), strides)

    def part(self) -> tuple[AnyLayout, int]:
        """The layout of the part of the buffer that the tile takes, and the offset of its start."""
        return self._part_of(resolved_layout_of(self.buffer))

    def _part_of(self, layout: AnyLayout) -> tuple[AnyLayout, int]:
        if self.at is None or not self.is_load:
            return layout, 0
        plain = base_layout(layout)
        extents = shape_of(self.tile.type)
        modes = [part_of_mode(plain, dim, extent) for dim, extent in enumerate(extents)]
        part = side_by_side(modes)
        if isinstance(layout, ComposedLayout):
            return ComposedLayout(layout.swizzle, layout.offset, part), plain(*self.start)
        return part, plain(*self.start)

    def bulk_tile(self) -> BulkTile:
        """The boxes of the copy; raises ``VerifyException`` where a bulk copy cannot move it."""
        return self._tile_in(resolved_layout_of(self.buffer))

    def _tile_in(self, whole: AnyLayout) -> BulkTile:
        element_bytes = element_bytes_of(self.source.type)
        try:
            layout, offset = self._part_of(whole)
            tensor = self.mapped()
            described = tensor_dims(tensor.shape, tensor.strides, element_bytes)
            tile = bulk_tile(described, shape_of(self.source.type), layout, element_bytes)
        except (BulkCopyError, MappingError) as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        if offset * element_bytes % pattern_bytes(tile.span):
            raise VerifyException(
                f"{op_label(self)}: the part at {list(self.start)} starts at byte "
                f"{offset * element_bytes} of the buffer, not a multiple of "
                f"{pattern_bytes(tile.span)}, the swizzle's pattern"
            )
        if not self.is_load:
            moved = [self.start[dim] for dim in tile.tensor.order]
            starts = (tuple(map(operator.add, box, moved)) for box in tile.starts)
            return tile._replace(starts=tuple(starts))
        return tile._replace(offsets=tuple(offset + each for each in tile.offsets))

    def verify_(self) -> None:
        """Checks spaces, extents, layouts, the channel, and the iteration."""
        if self.at is not None:
            part, whole = shape_of(self.source.type), shape_of(self.destination.type)
            verify_part(self, part, self.start, whole, "the destination", "the source")
        elif shape_of(self.source.type) != shape_of(self.destination.type):
            raise OperatorError(
                f"source has {dims(shape_of(self.source.type))}, destination "
                f"{dims(shape_of(self.destination.type))}"
            )
        if not crosses_device_memory(self.source, self.destination):
            raise VerifyException(
                f"{op_label(self)} moves data between device memory and shared memory"
            )
        if element_type_of(self.source.type) != element_type_of(self.destination.type):
            raise OperatorError("a bulk copy cannot convert elements")
        owner = self.tile.owner
        if isinstance(owner, LocalTileOp):
            try:
                require_no_windows(owner.windows)
                require_boxes(owner.slicing(), DEFAULT_ALIGNMENT)
            except BulkCopyError as error:
                raise VerifyException(
                    f"{op_label(self)} cannot move {value_label(owner.source)}: {error}"
                ) from error
        if self.multicast is not None:
            self._verify_multicast()
        if self.is_load:
            self._verify_channel()
        elif self.channel is not None:
            raise OperatorError("only a copy to shared memory goes through a channel")
        self._verify_stages()

    def _verify_channel(self) -> None:
        role = enclosing_role(self)
        if role is None or not role.is_elected:
            raise VerifyException(
                f"{op_label(self)} is issued by one thread; it stands in an elected role"
            )
        channel = self.ring()
        if channel is None or self.destination not in channel.buffers:
            raise OperatorError(
                f"{value_label(self.destination)} is no buffer of the channel it is filled "
                "through; write 'on' and a channel that has it"
            )
        self.verify_iteration(channel.stage_count)

    def _verify_multicast(self) -> None:
        kernel = enclosing_kernel(self)
        blocks, boxes = kernel.cluster_blocks, len(self.bulk_tile().starts)
        if not self.is_load or blocks < 2 or boxes % blocks:
            raise OperatorError(
                "multicast divides the boxes of a tile that is loaded among the blocks of a "
                f"cluster; there are {boxes} boxes and {blocks} blocks"
            )
        self._verify_common_tile(kernel)
        tops = [op for op in kernel.body.block.ops if not isinstance(op, RoleOp)]
        ends = [role.body.block.last_op for role in roles_of(kernel)]
        if not any(isinstance(op, ClusterBarrierOp) for op in tops) or not all(
            isinstance(op, ClusterBarrierOp) for op in ends
        ):
            raise OperatorError(
                "a 'sched.cluster_barrier' must stand before the roles of the kernel and at the "
                "end of each"
            )

    def _verify_common_tile(self, kernel: KernelOp) -> None:
        blocks, total = kernel.cluster_blocks, math.prod(kernel.grid_dim)
        if total % blocks:
            raise OperatorError(
                f"multicast brings one tile to the {blocks} blocks of a cluster, which do not "
                f"divide the {total} blocks of the grid; some would have no tile left"
            )
        owner = self.tile.owner
        strides = owner.block_strides() if isinstance(owner, LocalTileOp) else (0, 0, 0)
        for axis in kernel.axes_in_clusters():
            if strides[axis]:
                raise OperatorError(
                    "multicast brings one tile to all blocks of a cluster; they differ along "
                    f"{'xyz'[axis]} of the grid, and so do their tiles of "
                    f"{value_label(self.tensor)}"
                )

    def _verify_stages(self) -> None:
        pattern = pattern_bytes(self.bulk_tile().span)
        buffer = self.buffer.owner
        if not isinstance(buffer, AllocOp):
            return
        if buffer.byte_offset is not None and buffer.byte_offset % pattern:
            raise OperatorError(
                f"{value_label(self.buffer)} starts at byte {buffer.byte_offset}; the swizzle acts "
                f"on addresses and repeats every {pattern}"
            )

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source."""
        return [self.source]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination, or that stage of it."""
        return [self.destination]

    def possible_layouts(self, value: SSAValue) -> Sequence[AnyLayout]:
        """Those that such copies can give the tile, in every stage of the buffer."""
        tensor = self.mapped()
        found = tile_layouts(
            tensor.shape,
            tensor.strides,
            shape_of(self.buffer.type),
            element_bytes_of(self.tile.type),
            boxes=True,
        )
        return [layout for layout in found if self._holds_part(layout)]

    def _holds_part(self, layout: AnyLayout) -> bool:
        """Whether the copy can bring its part to a buffer of that layout."""
        try:
            self._tile_in(layout)
        except (VerifyException, LayoutError):
            return False
        return True

    def _partition(self) -> LinearPartition:
        inner = self.bulk_tile().tensor.order[0]
        vector = CHUNK_BYTES // element_bytes_of(self.source.type)
        return LinearPartition(1, vector, iteration_order(shape_of(self.source.type), inner))

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """What the one thread reads and writes, in chunks of 16 bytes, in an order of no meaning.

        Chunk i of the source goes to chunk i of the destination.
        """
        partition = self._partition()
        return [
            self._access(operand, kind, partition)
            for operand, kind in enumerate((AccessKind.READ, AccessKind.WRITE))
        ]

    def ragged(self) -> list[RaggedDim]:
        """Which elements of the tiles exist, along dimensions that end inside a tile."""
        owner = self.tile.owner
        return ragged_dims(owner.bounds()) if isinstance(owner, LocalTileOp) else []

    def _predicate(self, layout: Layout, partition: LinearPartition) -> Predicate | None:
        """Which elements of the chunks of the tile exist; ``None`` where all of them do."""
        ragged = self.ragged()
        if not ragged:
            return None
        size, block = element_bytes_of(self.source.type), enclosing_threads(self)

        def coordinates(dim: int) -> IntArray:
            along = vector_coordinates(
                layout,
                partition.threads,
                partition.vector,
                size,
                partition.order.index(dim),
                block=block,
            )
            return along if self.is_load else along + self.start[dim]

        return predicate_of(ragged, self.tile, coordinates, partition.inner)

    def _part_of_tile(self) -> tuple[Layout, int]:
        """The layout of what is read or written of the tile, and the offset of its start."""
        strides = strides_of(resolved_layout_of(self.tile))
        start = 0 if self.is_load else sum(map(operator.mul, self.start, strides))
        return Layout(shape_of(self.source.type), strides), start

    def _access(self, operand: int, kind: AccessKind, partition: LinearPartition) -> ThreadAccess:
        value = self.operands[operand]
        layout, start = self.part() if value is self.buffer else self._part_of_tile()
        plain = base_layout(layout)
        # Boxes side by side make a nested mode of the contiguous dimension.
        modes = [plain[dim] for dim in partition.order]
        ordered = Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
        stream = vector_stream(
            ComposedLayout(layout.swizzle, layout.offset, ordered)
            if isinstance(layout, ComposedLayout)
            else ordered,
            partition.threads,
            partition.vector,
            element_bytes_of(value.type),
            block=enclosing_threads(self),
        )
        offsets = stream.offsets
        return ThreadAccess(
            self,
            operand,
            kind,
            "cp.async.bulk.tensor",
            self.stage,
            stream.width,
            np.where(offsets < 0, offsets, offsets + start) if start else offsets,
            proxy=Proxy.BULK_COPY,
            predicate=None if value is self.buffer else self._predicate(ordered, partition),
            rows=named_rows(self, operand, partition),
        )


@irdl_op_definition
class ClusterBarrierOp(IRDLOperation):
    """All threads of all blocks of the cluster arrive before any goes on.

    In a kernel with ``multicast`` copies one stands before the roles, as mbarriers are set up in
    each block, and one at the end of each role, idle threads included: no block ends while others
    may still write to its memory or arrive at its mbarriers.
    """

    name = "sched.cluster_barrier"
    assembly_format = "attr-dict"


@irdl_op_definition
class ProxyFenceOp(IRDLOperation):
    """What each thread wrote to shared memory so far is seen by bulk copies issued after it.

    By those of other threads only where a barrier stands between.
    """

    name = "sched.proxy_fence"
    assembly_format = "attr-dict"


@irdl_op_definition
class BulkWaitOp(IRDLOperation):
    """The thread that issued bulk copies to device memory waits until they have read their buffers.

    Other threads may overwrite these behind a barrier that follows.
    """

    name = "sched.bulk_wait"
    assembly_format = "attr-dict"
