"""A kernel that computes each element along a dimension from those before it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts, cuts_of_indices
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.kn.steps import StepsOp
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb.operators import all_but, parallel_indices
from mugraph.dialects.tensor_types import dims, shape_of, value_label


@irdl_op_definition
class ScanOp(StepsOp, CanOverlap, HasTileIndices, HasDeviceCuts):
    """The sums of all elements up to each one along a dimension, or a linear recurrence.

    Without a decay element t is x_0 + ... + x_t.  With one it is h_t = a_t h_(t-1) + x_t, and
    h_0 = x_0; the decay a has the operand's extents, or 1 along dimensions where it is the same.
    An ``exclusive`` scan leaves an element's own summand out: element t is what that before it is
    without the word, and the first one is 0.
    Computes in fp32.  Runs of elements are combined before what comes before them is known, so that
    products of neighbouring decays must be numbers of fp32.

    ``%y = kn.scan %x dim 1 : (tensor<4x1000xf16>) -> tensor<4x1000xf16>``,
    ``%h = kn.scan %x decay %a dim 0 : (tensor<1000x64xf16>, tensor<1000x1xf16>) ->
    tensor<1000x64xf16>``, ``%b = kn.scan %x exclusive dim 1 : (tensor<4x1000xf16>) ->
    tensor<4x1000xf16>``.
    """

    name = "kn.scan"

    assembly_format = (
        "$input (`decay` $decay^)? (`exclusive` $exclusive^)? `dim` $dim "
        "(`workspace` $workspace^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue,
        dim: int,
        result_type: Attribute,
        decay: SSAValue | None = None,
        *,
        exclusive: bool = False,
    ) -> None:
        super().__init__([operand, decay], dim, result_type, exclusive=exclusive)

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents."""
        shape, decay = self.shape_with_dimension(), self.decay
        if decay is None or broadcast_shape([shape, shape_of(decay.type)]) == shape:
            return shape
        raise ShapeError(
            f"the decay {value_label(decay)} has {dims(shape_of(decay.type))}, which must be the "
            f"operand's {dims(shape)} or 1 in each dimension; broadcast the operand first"
        )

    def tile_indices(self) -> Sequence[TileIndex]:
        """The scanned dimension, whose elements depend on those before, and those that stay."""
        rank, count = len(shape_of(self.result.type)), len([*self.operands])
        return [
            TileIndex(
                IndexKind.WHOLE if dim == self.reduced_dim else IndexKind.PARALLEL,
                (dim,) * count,
                dim,
                broadcasts=True,
            )
            for dim in range(rank)
        ]

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Other dimensions than that along which it runs; a decay may be broadcast there."""
        rank = len(shape_of(self.input.type))
        dims = all_but(rank, self.reduced_dim)
        return cuts_of_indices(
            self, parallel_indices(rank, len(self.operands), dims, broadcasts=True)
        )
