"""Root mean square normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.interfaces import (
    IndexKind,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.reductions import HasEpsilon, epsilon_attribute
from mugraph.dialects.tb.layouts import elementwise_accesses
from mugraph.dialects.tb.moves import enclosing_graph
from mugraph.dialects.tb.operators import TileOperator, expect_shape
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import dims, shape_of, value_label


@irdl_op_definition
class RmsNormOp(HasEpsilon, TileOperator):
    """x / sqrt(mean of x² over the last dimension + epsilon) of the tile, times a weight.

    It is the norm of the whole tensor only where the last dimension is not split.  Without an
    epsilon that is 0.  The weight has the last extent of the operand, and 1 elsewhere.

    ``%y = tb.rms_norm %x : !tb.stensor<4x64xf16> -> !tb.stensor<4x64xf16>``,
    ``%z = tb.rms_norm %x weight %w epsilon 1.0e-05 : !tb.stensor<4x64xf16>,
    !tb.stensor<1x64xf16> -> !tb.stensor<4x64xf16>``
    """

    name = "tb.rms_norm"

    input = operand_def(STensorType)
    weight = opt_operand_def(STensorType)
    result = result_def(STensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$input (`weight` $weight^)? (`epsilon` $epsilon^)? attr-dict "
        "`:` type($input) (`,` type($weight)^)? `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        result_type: Attribute | None = None,
        weight: SSAValue | None = None,
        epsilon: float = 0.0,
    ) -> None:
        super().__init__(
            operands=[operand, weight],
            result_types=[result_type or operand.type],
            properties={"epsilon": epsilon_attribute(epsilon)},
        )

    def verify_(self) -> None:
        """Checks the result's and the weight's extents, the element types, and epsilon."""
        shape = shape_of(self.input.type)
        expect_shape(self, shape, self.result)
        factors = (*[1] * (len(shape) - 1), shape[-1])
        if self.weight is not None and shape_of(self.weight.type) != factors:
            raise OperatorError(
                f"the weight {value_label(self.weight)} has {dims(shape_of(self.weight.type))}, "
                f"expected {dims(factors)}: the extent that is normalised over, and 1 elsewhere"
            )
        self.verify_epsilon()
        verify_no_integers(self, [*self.operands, self.result], "tb.cast")

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """The operand's; the mean is of the elements that exist."""
        return operands[0]

    def identities(self, operand: int, bounds: Bounds) -> Padding:
        """Zeros along the last dimension."""
        return {len(bounds) - 1: 0.0}

    def tile_indices(self) -> Sequence[TileIndex]:
        """The last dimension is normalised whole; along the others there is one weight."""
        last = len(shape_of(self.result.type)) - 1
        no_weight = (None,) * (len(self.operands) - 1)
        return [
            *(TileIndex(IndexKind.PARALLEL, (dim, *no_weight), dim) for dim in range(last)),
            TileIndex(IndexKind.WHOLE, (last,) * len(self.operands), last),
        ]

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """As an element-wise operator."""
        return elementwise_accesses(self.result, self.operands, enclosing_graph(self).threads)
