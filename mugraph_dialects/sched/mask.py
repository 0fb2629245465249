"""Where a ragged tile ends: the elements past its end become a constant."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, Float32Type, FloatAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.cute import Layout
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.ragged import RaggedAttr, RaggedDim, ragged_error
from mugraph.dialects.sched.accesses import HasThreadAccesses, Predicate, ThreadAccess
from mugraph.dialects.sched.compute_accesses import elementwise_accesses
from mugraph.dialects.sched.distribution import accumulated, verify_distribution
from mugraph.dialects.sched.mappings import vector_coordinates
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.structure import enclosing_kernel
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import LinearPartitionAttr, SharedType, TileType
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_op_definition
class MaskOp(WritesTiles, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Copies a tile, with a constant in place of the elements that do not exist.

    ``sched.mask %x to %y with 0.0 outside [#tb.ragged<...>] then [accum] by <...> : ...``
    Which elements exist depends on the block, and in the loop on the iteration.
    """

    name = "sched.mask"

    source = operand_def(SharedType | TileType)
    destination = operand_def(SharedType | TileType)
    value = prop_def(FloatAttr[Float32Type])
    outside = prop_def(ArrayAttr[RaggedAttr])
    epilogue = opt_prop_def(EpilogueAttr)
    partition = prop_def(LinearPartitionAttr)

    assembly_format = (
        "$source `to` $destination `with` $value `outside` $outside "
        "custom<ThenEpilogue>($epilogue) `by` $partition attr-dict "
        "`:` type($source) `to` type($destination) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (ThenEpilogue, TiedTiles)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        value: float,
        outside: Sequence[RaggedDim],
        epilogue: Epilogue,
        partition: LinearPartition,
    ) -> None:
        super().__init__(
            operands=[source, destination],
            result_types=[tile_types(destination)],
            properties={
                "value": FloatAttr(value, f32),
                "outside": ArrayAttr([RaggedAttr(entry) for entry in outside]),
                "epilogue": epilogue_attribute(epilogue),
                "partition": LinearPartitionAttr(partition),
            },
        )

    @property
    def ragged(self) -> list[RaggedDim]:
        """Which elements exist."""
        return [entry.data for entry in self.outside.data]

    @property
    def constant(self) -> float:
        """What stands in place of the others."""
        return self.value.value.data

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source; the destination too where the epilogue accumulates."""
        return [self.source, *accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks extents, the partition, and what is said of the elements that exist."""
        shape = shape_of(self.source.type)
        if shape_of(self.destination.type) != shape:
            raise VerifyException(
                f"{op_label(self)}: source has {dims(shape)}, destination "
                f"{dims(shape_of(self.destination.type))}"
            )
        error = ragged_error(self.ragged, shape, enclosing_kernel(self).grid_dim)
        if error is not None:
            raise VerifyException(f"{op_label(self)} {error}")
        verify_distribution(self, self.partition, self.destination)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Along the partition's first dimension, in its vectors."""
        partition = self.partition.data
        return [
            SharedAccess(value, partition.inner, partition.vector)
            for value in (self.destination, self.source)
            if isinstance(value.type, SharedType)
        ]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The source's vectors, then the destination's: whole, whatever exists."""
        return elementwise_accesses(
            self, self.partition.data, accumulates=epilogue_of(self).accumulates
        )

    def predicate(self) -> Predicate:
        """Which elements of each thread's vectors exist, whatever the memory they come from."""
        partition, ragged = self.partition.data, self.ragged
        shape = shape_of(self.source.type)
        domain = tuple(shape[dim] for dim in partition.order)
        strides = tuple(math.prod(domain[:place]) for place in range(len(domain)))
        dims_looked_at = [entry.dim for entry in ragged]
        places = [partition.order.index(dim) for dim in dims_looked_at]
        return Predicate(
            tuple(ragged),
            tuple(strides[place] for place in places),
            tuple(
                vector_coordinates(
                    Layout(domain, strides),
                    partition.threads,
                    partition.vector,
                    1,
                    place,
                    block=enclosing_threads(self),
                )
                for place in places
            ),
            dims_looked_at.index(partition.inner) if partition.inner in dims_looked_at else -1,
        )


__all__ = ["MaskOp"]
