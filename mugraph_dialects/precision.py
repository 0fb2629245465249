"""The precision of matrix products of f32."""

from __future__ import annotations

from xdsl.dialects.builtin import Float32Type
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_attr_definition, opt_prop_def
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import is_given
from mugraph.dialects.tensor_types import element_type_of, op_label


class Precision(StrEnum):
    """What a product of f32 matrices computes with, where a graph says it."""

    IEEE = "ieee"


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """``precision ieee``: products of f32 in plain fp32, not in TF32."""

    name = "tb.precision"


class HasPrecision(IRDLOperation, Abstract):
    """A matrix product.

    Tensor cores multiply f32 as TF32: operands are rounded to 10 bits of mantissa, to nearest with
    ties away from zero, and products are added up in fp32.  With ``precision ieee`` nothing is
    rounded before the product, which then takes ordinary fused multiply-adds.
    """

    precision = opt_prop_def(PrecisionAttr)

    is_ieee = is_given("precision")
    """Whether f32 is multiplied in plain fp32."""

    def multiplies_in_tf32(self, operand: SSAValue) -> bool:
        """Whether elements of an operand are rounded to TF32 before they are multiplied."""
        return isinstance(element_type_of(operand.type), Float32Type) and not self.is_ieee

    def verify_precision(self, operand: SSAValue) -> None:
        """Raises ``VerifyException`` where a precision is asked for that means nothing."""
        type_ = element_type_of(operand.type)
        if self.is_ieee and not isinstance(type_, Float32Type):
            raise VerifyException(
                f"{op_label(self)}: precision ieee is for products of f32, not of {type_}, which "
                "are exact; leave it out"
            )
