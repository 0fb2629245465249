"""Rotary embedding: pairs of elements turned by angles."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import verify_no_integers
from mugraph.dialects.kn.composite import CompositeOp, Expansion
from mugraph.dialects.kn.rearrange import ConcatOp, SliceOp
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tensor_types import dims, element_type_of, shape_of


@irdl_op_definition
class RotaryOp(CompositeOp):
    """Each element of a row's first half and its partner in the second one turned by an angle.

    x cos + (-second half, first half) sin, along the last dimension.  Cosines and sines have the
    operand's extents, or 1 where they are the same for all.
    ``%y = kn.rotary %x, %c, %s : (tensor<2x4x64xf16>, tensor<1x4x64xf16>, tensor<1x4x64xf16>) ->
    tensor<2x4x64xf16>``.
    """

    name = "kn.rotary"

    input = operand_def(TensorType)
    cos = operand_def(TensorType)
    sin = operand_def(TensorType)

    assembly_format = (
        "$input `,` $cos `,` $sin (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self, operand: SSAValue, cos: SSAValue, sin: SSAValue, result_type: Attribute | None = None
    ) -> None:
        super().__init__(operands=[operand, cos, sin], result_types=[result_type or operand.type])

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents, the last of which is even."""
        own = shape_of(self.input.type)
        if broadcast_shape([shape_of(operand.type) for operand in self.operands]) != own:
            raise ShapeError(f"cosines and sines have extents beyond the operand's {dims(own)}")
        if own[-1] % 2:
            raise ShapeError(f"rows of {own[-1]} elements have no halves")
        return own

    def verify_(self) -> None:
        """As any kernel; of floating-point numbers."""
        super().verify_()
        verify_no_integers(self, [*self.operands, self.result], "kn.cast")

    def expand(self, parts: Expansion) -> SSAValue:
        """Slices, one of them negated, in the other order; products and their sum."""
        shape, element = shape_of(self.input.type), element_type_of(self.input.type)
        half = TensorType(element, (*shape[:-1], shape[-1] // 2))
        start = [0] * (len(shape) - 1)
        first = parts.add(SliceOp(self.input, [*start, 0], half))
        second = parts.add(SliceOp(self.input, [*start, shape[-1] // 2], half))
        negated = parts.apply("mul_scalar", second, constants=(-1.0,), type_=half)
        whole = TensorType(element, shape)
        turned = parts.add(ConcatOp([negated, first], len(shape) - 1, whole))
        products = [
            parts.apply("mul", value, factor)
            for value, factor in ((self.input, self.cos), (turned, self.sin))
        ]
        return parts.apply("add", *products, type_=self.result.type)
