"""A constant in place of elements past the end of a ragged tile, or that fail a condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AffineSetAttr, ArrayAttr, Float32Type, FloatAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number, ThenEpilogue
from mugraph.dialects.cute.thread_values import BoolArray
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.elementwise import Epilogue, epilogue_attribute
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
from mugraph.dialects.sched.distribution import (
    distribution_of,
    verify_distribution,
)
from mugraph.dialects.sched.elementwise import DealtOutOp, said_partition
from mugraph.dialects.sched.structure import enclosing_kernel
from mugraph.dialects.sched.tile_values import TiedTiles, tile_types
from mugraph.dialects.sched.types import (
    DealtBy,
    Distribution,
    SharedType,
    TileType,
)
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_op_definition
class MaskOp(DealtOutOp):
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
                "partition": said_partition([source], destination, partition),
            },
        )

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The source."""
        return [self.source]

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

    def verify_(self) -> None:
        """Checks extents, the partition, and what is said of the elements that exist."""
        shape = shape_of(self.source.type)
        if shape_of(self.destination.type) != shape:
            raise OperatorError(
                f"source has {dims(shape)}, destination {dims(shape_of(self.destination.type))}"
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
            raise OperatorError(f"expected {expected} for these operands")
        verify_distribution(self, found, self.destination)

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
