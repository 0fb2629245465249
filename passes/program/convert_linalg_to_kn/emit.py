"""Expressions of tensors as operators of ``kn``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import tensor
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.hints import isa

from mugraph.dialects import kn
from mugraph.dialects.element_types import FLOAT_TYPES
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import dims, element_type_of, shape_of, value_label
from mugraph.passes.program.convert_linalg_to_kn.bodies import (
    UnconvertibleError,
    is_of_8_bits,
    widest,
)
from mugraph.passes.program.convert_linalg_to_kn.expressions import (
    Argument,
    Call,
    Constant,
    Expression,
    call,
    size_of,
)

LARGEST_EXPRESSION = 64
"""Tensors of larger expressions are leaves: what is recognised is smaller."""
LARGEST_CONSTANT = 3.4028234663852886e38
"""Constants of kn are fp32."""


@dataclass
class Tensors:
    """Tensors as expressions of other tensors, in one function.

    An element-wise result is an expression of *leaves*, the tensors that are not element-wise
    results; so functions are recognised that a front end spreads over several operators.  The same
    expression is computed once.
    """

    tf32: bool = False
    """Whether products of f32 may round their operands to TF32."""
    leaves: list[SSAValue] = field(default_factory=list[SSAValue])
    expressions: dict[SSAValue, Expression] = field(default_factory=dict[SSAValue, Expression])
    widths: dict[SSAValue, Attribute] = field(default_factory=dict[SSAValue, Attribute])
    """The type that a tensor's expression is computed in, where it is not the tensor's own."""
    computed: dict[tuple[Expression, Attribute], SSAValue] = field(
        default_factory=dict[tuple[Expression, Attribute], SSAValue]
    )
    here: Operation | None = None
    """The operator that is being converted; new ones stand before it."""

    def add(self, op: Operation) -> SSAValue:
        """Puts a new operator before the one that is being converted; its first result."""
        assert self.here is not None
        Rewriter.insert_op(op, InsertPoint.before(self.here))
        return op.results[0]

    def expression_of(self, value: SSAValue) -> Expression:
        """The expression that a tensor is; a new leaf where it is not known as one."""
        if value not in self.expressions:
            self.leaves.append(value)
            self.expressions[value] = Argument(len(self.leaves) - 1)
        return self.expressions[value]

    def width_of(self, value: SSAValue) -> Attribute:
        """The type that a tensor's expression is computed in."""
        return self.widths.get(value, element_type_of(value.type))

    def source_of(self, value: SSAValue) -> SSAValue:
        """The tensor whose elements, exactly cast and perhaps repeated, a tensor has."""
        expression = self.expression_of(value)
        if not isinstance(expression, Argument):
            return value
        leaf = self.leaves[expression.index]
        types = element_type_of(leaf.type), element_type_of(value.type)
        return leaf if widest(types) == types[1] else value

    def materialize(
        self, expression: Expression, result: SSAValue, types: Iterable[Attribute]
    ) -> SSAValue:
        """The tensor that ``result`` is, an expression computed in the widest of some types.

        The expression stays known, also where it cannot be computed alone: what uses it may be
        recognised as a whole.
        """
        element_type = element_type_of(result.type)
        width = widest({*types, element_type})
        if not is_of_8_bits(element_type) and size_of(expression) <= LARGEST_EXPRESSION:
            self.expressions[result], self.widths[result] = expression, width
        value = Emitter(self, width).root(expression, element_type)
        own, wanted = shape_of(value.type), shape_of(result.type)
        if own != wanted:
            raise UnconvertibleError(
                f"it repeats {dims(own)} elements to {dims(wanted)}, which in kn element-wise "
                "operators and products do; use its operand there"
            )
        return value

    def cast(self, value: SSAValue, element_type: Attribute) -> SSAValue:
        """The tensor in another element type."""
        return Emitter(self, element_type).root(self.expression_of(value), element_type)

    def rename(self, old: SSAValue, new: SSAValue) -> None:
        """A value has been replaced by another one that holds the same tensor."""
        if old in self.expressions:
            self.expressions[new] = self.expressions.pop(old)
        if old in self.widths:
            self.widths[new] = self.widths.pop(old)
        self.leaves = [new if leaf is old else leaf for leaf in self.leaves]
        for key, value in self.computed.items():
            if value is old:
                self.computed[key] = new


def require_tensor(value: SSAValue) -> SSAValue:
    """The value; raises where kn has no such tensor, saying what to write."""
    label = value_label(value)
    if isinstance(value.owner, tensor.EmptyOp):
        raise UnconvertibleError(f"it reads {label}, to which nothing has been written")
    if isinstance(value.owner, ConstantOp | linalg.FillOp | tensor.SplatOp):
        raise UnconvertibleError(
            f"operand {label} is a tensor of constants, which kn lacks; make it an argument of the "
            "function"
        )
    if not isa(value.type, TensorType[Attribute]):
        raise UnconvertibleError(f"operand {label} is no tensor and no constant")
    shape, element_type = shape_of(value.type), element_type_of(value.type)
    if any(extent < 0 for extent in shape):
        raise UnconvertibleError(f"{label} has a dynamic extent; give it a static one")
    if element_type not in FLOAT_TYPES:
        known = ", ".join(map(str, FLOAT_TYPES))
        raise UnconvertibleError(
            f"{label} has elements of {element_type}; those of kn's operators are {known}"
        )
    if not shape:
        raise UnconvertibleError(f"{label} has no dimension; give it one of extent 1")
    return value


class Emitter:
    """Emits the operators that compute expressions, of one element type inside of them."""

    def __init__(self, tensors: Tensors, element_type: Attribute) -> None:
        self.tensors = tensors
        self.element_type = element_type

    def root(self, expression: Expression, element_type: Attribute) -> SSAValue:
        """The value of an expression in an element type; what it is made of has the emitter's.

        Raises :class:`UnconvertibleError` where kn cannot say it.
        """
        known = self.tensors.computed.get((expression, element_type))
        if known is not None:
            return known
        if isinstance(expression, Argument):
            value = self._cast(self.tensors.leaves[expression.index], element_type)
        else:
            value = self._emit(expression, element_type)
        self.tensors.computed[expression, element_type] = value
        return value

    def emit(self, expression: Expression) -> SSAValue:
        """The value of a part of an expression, in whatever type holds it."""
        if isinstance(expression, Argument):
            return self.tensors.leaves[expression.index]
        return self.root(expression, self.element_type)

    def _cast(self, value: SSAValue, element_type: Attribute) -> SSAValue:
        if element_type_of(value.type) == element_type:
            return value
        product = value.owner
        type_ = TensorType(element_type, shape_of(value.type))
        if (
            isinstance(product, kn.MatmulOp)
            and element_type_of(product.lhs.type) == element_type
            and all(use.operation is self.tensors.here for use in value.uses)
        ):
            # Its sums are rounded where they are stored.
            return self.tensors.add(kn.MatmulOp(product.lhs, product.rhs, type_))
        return self.tensors.add(kn.CastOp(value, type_))

    def _emit(self, expression: Constant | Call, type_: Attribute) -> SSAValue:
        match expression:
            case Constant():
                raise UnconvertibleError("it makes a tensor of constants, which kn lacks")
            case Call(function="add" | "mul", operands=operands):
                return self._chain(expression.function, operands, type_)
            case Call(function="clamp", operands=(inner, Constant(low), Constant(high))):
                return self._unary("clamp", self.emit(inner), type_, (low, high))
            case Call(function="maximum", operands=(left, right)):
                return self._binary("max", left, right, type_)
            case Call(function="minimum", operands=(left, right)):
                negated = [call("mul", Constant(-1.0), each) for each in (left, right)]
                return self.root(call("mul", Constant(-1.0), call("maximum", *negated)), type_)
            case Call(function=function, operands=(inner,)) if function in kn.UNARY_OPERATORS:
                return self._unary(function, self.emit(inner), type_)
            case Call(function=function, operands=(left, right)) if function in kn.BINARY_OPERATORS:
                return self._binary(function, left, right, type_)
            case _:
                raise UnconvertibleError(f"kn has no operator for '{expression.function}' alone")

    def _chain(self, function: str, parts: Sequence[Expression], type_: Attribute) -> SSAValue:
        """A sum or a product of several, and of a constant, which stands first."""
        constant, terms = None, list(parts)
        if isinstance(parts[0], Constant):
            constant, *terms = parts[0].value, *parts[1:]
        last = type_ if constant is None else self.element_type
        terms = self._with_known(function, terms)
        if function == "mul" and len(terms) == 2 and terms[0] == terms[1]:
            total = self._unary("square", self.emit(terms[0]), last)
        else:
            total = self.emit(terms[0])
            for term in terms[1:]:
                result = last if term is terms[-1] else self.element_type
                total = self._joined(function, total, self.emit(term), result)
        if constant is None:
            return total
        return self._unary(f"{function}_scalar", total, type_, (constant,))

    def _with_known(self, function: str, terms: list[Expression]) -> list[Expression]:
        """The terms, several of which are one where a tensor of just them has been computed."""
        best: Call | None = None
        for known, type_ in self.tensors.computed:
            if isinstance(known, Call) and known.function == function:
                fits = type_ == self.element_type and len(known.operands) < len(terms)
                most = 1 if best is None else len(best.operands)
                if fits and len(known.operands) > most and _is_part(known.operands, terms):
                    best = known
        if best is None:
            return terms
        left = list(terms)
        for part in best.operands:
            left.remove(part)
        return [best, *left]

    def _unary(
        self, function: str, value: SSAValue, type_: Attribute, constants: Sequence[float] = ()
    ) -> SSAValue:
        if any(not abs(constant) <= LARGEST_CONSTANT for constant in constants):
            raise UnconvertibleError(
                f"a constant of it is {', '.join(map(str, constants))}; kn has finite fp32 numbers"
            )
        result = TensorType(type_, shape_of(value.type))
        return self.tensors.add(kn.UNARY_OPERATORS[function](value, result, constants))

    def _binary(
        self, function: str, left: Expression, right: Expression, type_: Attribute
    ) -> SSAValue:
        """A function of two tensors, or of a tensor and a constant."""
        if isinstance(left, Constant) and isinstance(right, Constant):
            raise UnconvertibleError("it makes a tensor of constants, which kn lacks")
        if isinstance(left, Constant):
            value = self.emit(right)
            return self._joined(function, self._constant_like(value, left.value), value, type_)
        value = self.emit(left)
        if isinstance(right, Constant):
            return self._joined(function, value, self._constant_like(value, right.value), type_)
        return self._joined(function, value, self.emit(right), type_)

    def _constant_like(self, value: SSAValue, constant: float) -> SSAValue:
        """A constant wherever a tensor is no NaN: all that lies between two equal bounds."""
        return self._unary("clamp", value, self.element_type, (constant, constant))

    def _joined(self, function: str, left: SSAValue, right: SSAValue, type_: Attribute) -> SSAValue:
        types = {element_type_of(value.type) for value in (left, right)}
        joined = widest(types)
        if joined not in types:
            right = self._cast(right, joined)
        shape = broadcast_shape([shape_of(left.type), shape_of(right.type)])
        return self.tensors.add(
            kn.BINARY_OPERATORS[function](left, right, TensorType(type_, shape))
        )


def _is_part(some: Sequence[Expression], terms: Sequence[Expression]) -> bool:
    """Whether the terms have all of some expressions, as often as they stand there."""
    return all(some.count(each) <= terms.count(each) for each in some)


def is_within(shape: Sequence[int], operands: Sequence[SSAValue]) -> bool:
    """Whether a tensor has no more elements than one of the operands."""
    return math.prod(shape) <= max(math.prod(shape_of(value.type)) for value in operands)
