"""Expressions of tensors as operators of ``kn``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.convert_linalg_to_kn.bodies import UnconvertibleError
from mugraph.passes.convert_linalg_to_kn.expressions import Argument, Call, Constant, Expression


class Emitter:
    """Collects the operators that compute an expression of given tensors."""

    def __init__(self, arguments: Sequence[SSAValue], element_type: Attribute) -> None:
        self.arguments = arguments
        self.element_type = element_type
        self.operators: list[Operation] = []

    def emit(self, expression: Expression) -> SSAValue:
        """The value of an expression; raises :class:`UnconvertibleError` where kn cannot say it."""
        match expression:
            case Argument(index=index):
                return self.arguments[index]
            case Constant():
                raise UnconvertibleError("kn has no tensors of constants")
            case Call(function="add"):
                return self._sum(expression.operands)
            case Call(function="mul"):
                return self._product(expression.operands)
            case Call(function="clamp", operands=(inner, Constant(low), Constant(high))):
                return self._unary("clamp", inner, (low, high))
            case Call(function="mul_scalar", operands=(inner, Constant(factor))):
                return self._unary("mul_scalar", inner, (factor,))
            case Call(function=function, operands=(inner,)) if function in kn.UNARY_OPERATORS:
                return self._unary(function, inner)
            case Call(function=function, operands=(left, right)) if function in kn.BINARY_OPERATORS:
                return self._binary(function, self.emit(left), self.emit(right))
            case _:
                raise UnconvertibleError(f"kn has no operator for '{expression.function}' alone")

    def _sum(self, parts: Sequence[Expression]) -> SSAValue:
        if isinstance(parts[0], Constant):
            raise UnconvertibleError("it adds a constant, for which kn has no operator")
        total = self.emit(parts[0])
        for part in parts[1:]:
            total = self._binary("add", total, self.emit(part))
        return total

    def _product(self, parts: Sequence[Expression]) -> SSAValue:
        scale = parts[0].value if isinstance(parts[0], Constant) else None
        factors = parts if scale is None else parts[1:]
        if len(factors) == 2 and factors[0] == factors[1]:
            product = self._unary("square", factors[0])
        else:
            product = self.emit(factors[0])
            for factor in factors[1:]:
                product = self._binary("mul", product, self.emit(factor))
        return product if scale is None else self._scaled(product, scale)

    def _scaled(self, value: SSAValue, scale: float) -> SSAValue:
        type_ = TensorType(self.element_type, shape_of(value.type))
        return self._add(kn.MulScalarOp(value, type_, (scale,)))

    def _unary(self, function: str, inner: Expression, constants: Sequence[float] = ()) -> SSAValue:
        value = self.emit(inner)
        type_ = TensorType(self.element_type, shape_of(value.type))
        return self._add(kn.UNARY_OPERATORS[function](value, type_, constants))

    def _binary(self, function: str, left: SSAValue, right: SSAValue) -> SSAValue:
        shape = broadcast_shape([shape_of(left.type), shape_of(right.type)])
        type_ = TensorType(self.element_type, shape)
        return self._add(kn.BINARY_OPERATORS[function](left, right, type_))

    def _add(self, op: Operation) -> SSAValue:
        self.operators.append(op)
        return op.results[0]
