"""The sum of partial sums: what warps along k hold of a product, or any buffers side by side."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.accesses import (
    AccessError,
    AccessKind,
    HasThreadAccesses,
    ThreadAccess,
    partitioned_stream,
    plain_access,
    stage_reference,
)
from mugraph.dialects.sched.compute_accesses import destination_accesses
from mugraph.dialects.sched.distribution import accumulated
from mugraph.dialects.sched.mappings import (
    MappingError,
    iteration_layout,
    vector_stream,
    with_offset,
)
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.structure import verify_partition
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import LinearPartitionAttr, SharedType, TileType
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import (
    AnyLayout,
    dims,
    element_bytes_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


@irdl_op_definition
class SumPartsOp(WritesTiles, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Adds the parts of a buffer along its first dimension, in order, then applies an epilogue.

    ``sched.sum_parts %parts to %sum by <256, vector 4, order [1, 0]> : 8x16x64 to 16x64``: element
    (i, j) of the sum is ((part 0 + part 1) + part 2) + ... at (i, j), in fp32 (integers: in i32).
    """

    name = "sched.sum_parts"

    source = operand_def(SharedType)
    destination = operand_def(SharedType | TileType)
    epilogue = opt_prop_def(EpilogueAttr)
    partition = prop_def(LinearPartitionAttr)

    assembly_format = (
        "$source `to` $destination custom<ThenEpilogue>($epilogue) `by` $partition attr-dict "
        "`:` type($source) `to` type($destination) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (ThenEpilogue, TiedTiles)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        epilogue: Epilogue,
        partition: LinearPartition,
    ) -> None:
        super().__init__(
            operands=[source, destination],
            result_types=[tile_types(destination)],
            properties={
                "epilogue": epilogue_attribute(epilogue),
                "partition": LinearPartitionAttr(partition),
            },
        )

    @property
    def parts(self) -> int:
        """How many parts are added."""
        return shape_of(self.source.type)[0]

    @property
    def part_stride(self) -> int:
        """Elements from one part to the next, before a swizzle."""
        return strides_of(resolved_layout_of(self.source))[0]

    def layout_of_part(self, part: int = 0) -> AnyLayout:
        """The layout of one part, in the order of the partition."""
        layout = resolved_layout_of(self.source)
        extents = shape_of(self.source.type)
        order = [dim + 1 for dim in self.partition.data.order]
        return with_offset(
            iteration_layout(layout, extents, extents, order), part * self.part_stride
        )

    def buffers_read(self) -> Sequence[SSAValue]:
        """The parts; the destination too where the epilogue accumulates."""
        return [self.source, *accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks extents and the partition."""
        source, destination = shape_of(self.source.type), shape_of(self.destination.type)
        if source[1:] != destination:
            raise VerifyException(
                f"{op_label(self)}: source has {dims(source)}, so that each of its {source[0]} "
                f"parts has {dims(source[1:])}; the destination has {dims(destination)}"
            )
        verify_partition(self, self.partition.data, self.destination)
        fragment = self.destination.type
        if isinstance(fragment, TileType) and fragment.layout != self.partition:
            raise VerifyException(
                f"{op_label(self)} is dealt out as {self.partition} but its fragment as "
                f"{fragment.layout}; they must agree"
            )

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Along the partition's first dimension, in its vectors."""
        partition = self.partition.data
        accesses = [SharedAccess(self.source, partition.inner + 1, partition.vector)]
        if isinstance(self.destination.type, SharedType):
            accesses.append(SharedAccess(self.destination, partition.inner, partition.vector))
        return accesses

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The vectors of each part in turn, then those of the destination."""
        stage, partition = stage_reference(self), self.partition.data
        accesses = [self._access_of_part(part) for part in range(self.parts)]
        if isinstance(self.destination.type, SharedType):
            domain = shape_of(self.destination.type)
            stream = partitioned_stream(self, 1, partition, domain)
            accumulates = epilogue_of(self).accumulates
            accesses += destination_accesses(self, 1, stage, stream, accumulates=accumulates)
        return accesses

    def _access_of_part(self, part: int) -> ThreadAccess:
        partition = self.partition.data
        try:
            stream = vector_stream(
                self.layout_of_part(part),
                partition.threads,
                partition.vector,
                element_bytes_of(self.source.type),
                block=enclosing_threads(self),
            )
        except MappingError as error:
            raise AccessError(f"{op_label(self)}: {value_label(self.source)}: {error}") from error
        return plain_access(self, 0, AccessKind.READ, stage_reference(self), stream)


__all__ = ["SumPartsOp"]
