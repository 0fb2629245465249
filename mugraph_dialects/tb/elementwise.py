"""Operators that compute each element from the elements at the same place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import ThenEpilogue
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import (
    BINARY_FUNCTIONS,
    TERNARY_FUNCTIONS,
    UNARY_FUNCTIONS,
    Epilogue,
    ScalarFunction,
)
from mugraph.dialects.elementwise_operators import (
    BinaryFunctionOperator,
    FunctionOperator,
    TernaryFunctionOperator,
    UnaryFunctionOperator,
    make_operators,
)
from mugraph.dialects.interfaces import (
    FusesWithProducer,
    HasEpilogue,
    SharedAccess,
    TileIndex,
)
from mugraph.dialects.ragged import Bounds, Padding
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tb.layouts import elementwise_accesses
from mugraph.dialects.tb.moves import enclosing_graph
from mugraph.dialects.tb.operators import (
    TileOperator,
    epilogue_of,
    expect_shape,
    parallel_indices,
    verify_epilogue,
)
from mugraph.dialects.tb.ragged import function_padding, merged_bounds
from mugraph.dialects.tb.reduction import ReductionMaxOp
from mugraph.dialects.tb.types import STensorType
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of


class ElementwiseOp(FunctionOperator, HasEpilogue, TileOperator):
    """An operator that computes each element from the elements at the same place."""

    result = result_def(STensorType)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        """Checks the constants, the element types, and the result against the operands' extents."""
        self.verify_function()
        expected = broadcast_shape([shape_of(operand.type) for operand in self.operands])
        expect_shape(self, expected, self.result)
        self.verify_types()

    def result_bounds(self, operands: Sequence[Bounds]) -> Bounds:
        """Those of the operands, which must agree."""
        return merged_bounds(self, operands)

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """What the function makes of the operands' padding."""
        return function_padding(self.function, operands)

    def tile_indices(self) -> Sequence[TileIndex]:
        """One a dimension, along which operands of one element are broadcast."""
        rank = len(shape_of(self.result.type))
        return parallel_indices(rank, len(self.operands), broadcasts=True)

    def linear_in(self) -> Sequence[frozenset[int]]:
        """As the function is."""
        return self.function.linear_in

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Reads and the write, along the dimension that scheduling will choose."""
        return elementwise_accesses(self.result, self.operands, enclosing_graph(self).threads)


class UnaryOp(UnaryFunctionOperator, ElementwiseOp, FusesWithProducer):
    """A function of one tensor."""

    input = operand_def(STensorType)

    assembly_format = (
        "$input custom<ThenEpilogue>($epilogue) attr-dict `:` type($input) `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def fused_onto(self, epilogue: Epilogue) -> Epilogue | None:
        """The epilogue followed by the operator's function and its own epilogue."""
        fused = epilogue.then(self.function)
        own = epilogue_of(self)
        for function in own.functions:
            fused = fused.then(function)
        return fused.then_accumulate() if own.accumulates else fused


@irdl_op_definition
class CastOp(UnaryOp):
    """Each element in another element type: ``tb.cast %x : ... -> !tb.stensor<16x8xf8E4M3FN>``.

    Rounds to nearest even.  f8E4M3FN, f8E5M2, i8 and i32 saturate: what is larger than their
    largest number, infinities included, becomes that; f16 and bf16 overflow to infinities.  NaN
    stays NaN, and becomes 0 in integers.  An i32 that fp32 cannot hold passes through fp32.
    """

    name = "tb.cast"

    def verify_types(self) -> None:
        """Any element type to any other, or to itself where an epilogue follows."""
        same = element_type_of(self.input.type) == element_type_of(self.result.type)
        if same and not epilogue_of(self):
            raise VerifyException(
                f"{op_label(self)} converts {element_type_of(self.input.type)} to itself; leave "
                "it out"
            )
        verify_epilogue(self, self.result)
        source, target = (element_type_of(value.type) for value in (self.input, self.result))
        if epilogue_of(self).accumulates and is_integer(target) and not is_integer(source):
            raise VerifyException(
                f"{op_label(self)} would add up {source} before it is rounded to {target}; use a "
                "'tb.forloop_accum' after it"
            )

    def linear_in(self) -> Sequence[frozenset[int]]:
        """In its operand, unless that is rounded to whole numbers."""
        source, target = (element_type_of(value.type) for value in (self.input, self.result))
        return () if is_integer(target) and not is_integer(source) else super().linear_in()

    def fused_onto(self, epilogue: Epilogue) -> Epilogue | None:
        """The epilogue as it is: its one rounding is then to the cast's type.

        Integers are not rounded to on the way out of an operator on floating-point numbers, and
        of two casts both are made.
        """
        if isinstance(self.input.owner, CastOp):
            return None
        if any(is_integer(element_type_of(value.type)) for value in (self.input, self.result)):
            return None
        for function in epilogue_of(self).functions:
            epilogue = epilogue.then(function)
        return epilogue.then_accumulate() if epilogue_of(self).accumulates else epilogue


class BinaryOp(BinaryFunctionOperator, ElementwiseOp):
    """A function of two tensors of equal rank; an extent of 1 is broadcast."""

    lhs = operand_def(STensorType)
    rhs = operand_def(STensorType)

    assembly_format = (
        "$lhs `,` $rhs custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` `(` type($lhs) `,` type($rhs) `)` `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)

    def result_padding(self, operands: Sequence[Padding]) -> Padding:
        """As any function's; minus infinity stays what it is below a maximum of elements."""
        padding = super().result_padding(operands)
        if self.FUNCTION != "sub" or not isinstance(self.rhs.owner, ReductionMaxOp):
            return padding
        below = {dim: value for dim, value in operands[0].items() if value == -math.inf}
        return {**padding, **below}


class TernaryOp(TernaryFunctionOperator, ElementwiseOp):
    """A function of three tensors of equal rank; an extent of 1 is broadcast."""

    first = operand_def(STensorType)
    second = operand_def(STensorType)
    third = operand_def(STensorType)

    assembly_format = (
        "$first `,` $second `,` $third custom<ThenEpilogue>($epilogue) attr-dict "
        "`:` `(` type($first) `,` type($second) `,` type($third) `)` `->` type($result)"
    )
    custom_directives = (ThenEpilogue,)


UNARY_OPERATORS = make_operators("tb", UnaryOp, UNARY_FUNCTIONS)
"""The operator of each function of one number."""
BINARY_OPERATORS = make_operators("tb", BinaryOp, BINARY_FUNCTIONS)
"""The operator of each function of two numbers."""
TERNARY_OPERATORS = make_operators("tb", TernaryOp, TERNARY_FUNCTIONS)
"""The operator of each function of three numbers."""
ELEMENTWISE_OPERATORS: tuple[type[ElementwiseOp], ...] = (
    *UNARY_OPERATORS.values(),
    *BINARY_OPERATORS.values(),
    *TERNARY_OPERATORS.values(),
)
"""All of them."""


def elementwise(
    function: ScalarFunction, tiles: Sequence[SSAValue], type_: STensorType
) -> ElementwiseOp:
    """The operator that applies a scalar function, by its name."""
    match tiles:
        case [tile] if function.name == "identity":
            return CastOp(tile, type_)
        case [tile]:
            return UNARY_OPERATORS[function.name](tile, type_, function.constants)
        case [lhs, rhs]:
            return BINARY_OPERATORS[function.name](lhs, rhs, type_)
        case [first, second, third]:
            return TERNARY_OPERATORS[function.name](first, second, third, type_)
        case _:
            raise ValueError(f"'{function}' is applied to {len(tiles)} tiles")


ExpOp = UNARY_OPERATORS["exp"]
SquareOp = UNARY_OPERATORS["square"]
SqrtOp = UNARY_OPERATORS["sqrt"]
MulScalarOp = UNARY_OPERATORS["mul_scalar"]
AddScalarOp = UNARY_OPERATORS["add_scalar"]
AddOp = BINARY_OPERATORS["add"]
SubOp = BINARY_OPERATORS["sub"]
MulOp = BINARY_OPERATORS["mul"]
DivOp = BINARY_OPERATORS["div"]
