"""Expressions of tensors as operators of ``kn``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.convert_linalg_to_kn.bodies import UnconvertibleError
from mugraph.passes.convert_linalg_to_kn.expressions import Argument, Call, Constant, Expression


@dataclass
class Tensors:
    """Tensors as expressions of other tensors, in one function.

    An element-wise result is an expression of *leaves*, the tensors that are not element-wise
    results; so functions are recognised that a front end spreads over several operators.  The same
    expression is computed once.
    """

    leaves: list[SSAValue] = field(default_factory=list[SSAValue])
    expressions: dict[SSAValue, Expression] = field(default_factory=dict[SSAValue, Expression])
    computed: dict[tuple[Expression, Attribute], SSAValue] = field(
        default_factory=dict[tuple[Expression, Attribute], SSAValue]
    )

    def expression_of(self, value: SSAValue) -> Expression:
        """The expression that a tensor is; a new leaf where it is not known as one."""
        if value not in self.expressions:
            self.leaves.append(value)
            self.expressions[value] = Argument(len(self.leaves) - 1)
        return self.expressions[value]

    def rename(self, old: SSAValue, new: SSAValue) -> None:
        """A value has been replaced by another one that holds the same tensor."""
        if old in self.expressions:
            self.expressions[new] = self.expressions.pop(old)
        self.leaves = [new if leaf is old else leaf for leaf in self.leaves]
        for key, value in self.computed.items():
            if value is old:
                self.computed[key] = new


class Emitter:
    """Collects the operators that compute expressions, of one element type."""

    def __init__(self, tensors: Tensors, element_type: Attribute) -> None:
        self.tensors = tensors
        self.element_type = element_type
        self.operators: list[Operation] = []
        self._new: dict[Expression, SSAValue] = {}

    def commit(self) -> None:
        """What was emitted may be used again from here on."""
        for expression, value in self._new.items():
            self.tensors.computed[expression, self.element_type] = value

    def emit(self, expression: Expression) -> SSAValue:
        """The value of an expression; raises :class:`UnconvertibleError` where kn cannot say it."""
        if isinstance(expression, Argument):
            return self.tensors.leaves[expression.index]
        known = self.tensors.computed.get((expression, self.element_type))
        if known is None:
            known = self._new.get(expression)
        if known is None:
            known = self._new[expression] = self._emit(expression)
        return known

    def _emit(self, expression: Constant | Call) -> SSAValue:
        match expression:
            case Constant():
                raise UnconvertibleError("kn has no tensors of constants")
            case Call(function="add"):
                return self._sum(expression.operands)
            case Call(function="mul"):
                return self._product(expression.operands)
            case Call(function="clamp", operands=(inner, Constant(low), Constant(high))):
                return self._unary("clamp", inner, (low, high))
            case Call(function=function, operands=(inner,)) if function in kn.UNARY_OPERATORS:
                return self._unary(function, inner)
            case Call(function=function, operands=(left, right)) if function in kn.BINARY_OPERATORS:
                return self._binary(function, self.emit(left), self.emit(right))
            case _:
                raise UnconvertibleError(f"kn has no operator for '{expression.function}' alone")

    def _sum(self, parts: Sequence[Expression]) -> SSAValue:
        constant = parts[0].value if isinstance(parts[0], Constant) else None
        terms = parts if constant is None else parts[1:]
        total = self.emit(terms[0])
        for term in terms[1:]:
            total = self._binary("add", total, self.emit(term))
        return total if constant is None else self._with_constant("add_scalar", total, constant)

    def _product(self, parts: Sequence[Expression]) -> SSAValue:
        scale = parts[0].value if isinstance(parts[0], Constant) else None
        factors = parts if scale is None else parts[1:]
        if len(factors) == 2 and factors[0] == factors[1]:
            product = self._unary("square", factors[0])
        else:
            product = self.emit(factors[0])
            for factor in factors[1:]:
                product = self._binary("mul", product, self.emit(factor))
        return product if scale is None else self._with_constant("mul_scalar", product, scale)

    def _with_constant(self, function: str, value: SSAValue, constant: float) -> SSAValue:
        type_ = TensorType(self.element_type, shape_of(value.type))
        return self._add(kn.UNARY_OPERATORS[function](value, type_, (constant,)))

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
