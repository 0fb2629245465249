"""A constant in place of elements past the end of a ragged tile, or that fail a condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AffineSetAttr, ArrayAttr, Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number, ThenEpilogue
from mugraph.dialects.cute.thread_values import BoolArray
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr, epilogue_attribute
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.linear_forms import (
    LinearForm,
    all_at_least_0,
    forms_of,
    set_of,
    verify_condition,
)
from mugraph.dialects.maps import AXES
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.ragged import RaggedAttr, RaggedDim, ragged_error
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import elementwise_accesses
from mugraph.dialects.sched.distribution import (
    accumulated,
    distribution_of,
    verify_distribution,
)
from mugraph.dialects.sched.structure import enclosing_kernel
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import (
    DealtBy,
    Distribution,
    LinearPartitionAttr,
    SharedType,
    TileType,
)
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_op_definition
class MaskOp(WritesTiles, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Copies a tile, with a constant in place of elements that do not exist, or fail a condition.

    ``sched.mask %x to %y with 0.0 outside [#tb.ragged<...>] then [accum] by <...> : ...``
    Which elements exist depends on the block, and in the loop on the iteration.  Fragments of the
    destination's extents say who computes what, and ``by`` where there are none.

    ``sched.mask %x to %x with -inf where affine_set<(i, j)[x, y, z, it] : (64 * x + i - j >= 0)>``
    keeps elements by their places in the tile, the block along x, y and z, the iteration, and the
    lengths of the kernel.
    """

    name = "sched.mask"

    source = operand_def(SharedType | TileType)
    destination = operand_def(SharedType | TileType)
    value = prop_def(FloatAttr[Float32Type])
    outside = opt_prop_def(ArrayAttr[RaggedAttr])
    condition = opt_prop_def(AffineSetAttr)
    epilogue = opt_prop_def(EpilogueAttr)
    partition = opt_prop_def(LinearPartitionAttr)

    assembly_format = (
        "$source `to` $destination `with` custom<Fp32Number>($value) (`outside` $outside^)? "
        "(`where` $condition^)? custom<ThenEpilogue>($epilogue) custom<DealtBy>($partition) "
        "attr-dict `:` type($source) `to` type($destination) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (Fp32Number, ThenEpilogue, DealtBy, TiedTiles)

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        value: float,
        outside: Sequence[RaggedDim],
        epilogue: Epilogue,
        partition: LinearPartition | None = None,
        forms: Sequence[LinearForm] = (),
    ) -> None:
        """``partition`` is not kept where fragments say it."""
        is_said = distribution_of([source], destination, None) is not None
        super().__init__(
            operands=[source, destination],
            result_types=[tile_types(destination)],
            properties={
                "value": FloatAttr(value, f32),
                "outside": ArrayAttr([RaggedAttr(entry) for entry in outside]) if outside else None,
                "condition": (
                    AffineSetAttr(set_of(forms, len(shape_of(source.type)))) if forms else None
                ),
                "epilogue": epilogue_attribute(epilogue),
                "partition": (
                    None if is_said or partition is None else LinearPartitionAttr(partition)
                ),
            },
        )

    @property
    def distribution(self) -> Attribute:
        """Who computes which element."""
        found = distribution_of([self.source], self.destination, self.partition)
        assert found is not None  # verified
        return found

    @property
    def linear(self) -> LinearPartition | None:
        """The linear partition by which it is dealt out, if it is one."""
        attribute = self.distribution
        return attribute.data if isinstance(attribute, LinearPartitionAttr) else None

    @property
    def ragged(self) -> list[RaggedDim]:
        """Which elements exist."""
        return [] if self.outside is None else [entry.data for entry in self.outside.data]

    def forms(self) -> list[LinearForm]:
        """The forms that are at least 0 where an element is kept.

        They are of places in the tile, of the block along x, y and z, of the iteration, and of the
        kernel's lengths.
        """
        return [] if self.condition is None else forms_of(self.condition.data)

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
        if self.condition is not None:
            symbols = len(MOVES) + len(enclosing_kernel(self).held_lengths)
            verify_condition(self, self.condition.data, shape, symbols)
        found = distribution_of([self.source], self.destination, self.partition)
        if found is None or self.partition not in (None, found):
            expected = "by <threads, vector, order>" if found is None else "no 'by'"
            raise VerifyException(f"{op_label(self)}: expected {expected} for these operands")
        verify_distribution(self, found, self.destination)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Along the partition's first dimension, in its vectors."""
        partition = self.linear
        if partition is None:
            return []
        return [
            SharedAccess(value, partition.inner, partition.vector)
            for value in (self.destination, self.source)
            if isinstance(value.type, SharedType)
        ]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The source's vectors, then the destination's: whole, whatever exists."""
        if self.linear is None:
            return []
        return elementwise_accesses(self, self.linear, accumulates=epilogue_of(self).accumulates)

    def exists(self, block: Sequence[int], iteration: int) -> BoolArray:
        """Which of the threads' values exist, ``[values, threads]``."""
        distribution = self.distribution
        assert isinstance(distribution, Distribution)  # verified
        held = distribution.thread_values(shape_of(self.destination.type))
        inside = np.ones((held.values, held.threads), dtype=np.bool_)
        coordinates = held.coordinates()
        for entry in self.ragged:
            inside &= coordinates[entry.dim] < entry.bound.existing(block, iteration)
        moved = [np.asarray(index) for index in (*block, iteration)]
        return inside & all_at_least_0(self.forms(), [*coordinates, *moved])


MOVES = (*AXES, "it")
"""What moves a tile: the symbols of a condition."""
