"""The scalar bodies of ``linalg`` operators as expressions."""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    f32,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue

from mugraph.dialects.element_types import FLOAT_TYPES
from mugraph.passes.program.convert_linalg_to_kn.expressions import (
    Argument,
    Call,
    Constant,
    Expression,
    call,
)

FUNCTIONS: dict[type[Operation], str] = {
    arith.AddfOp: "add",
    arith.SubfOp: "sub",
    arith.MulfOp: "mul",
    arith.DivfOp: "div",
    arith.NegfOp: "neg",
    arith.MaximumfOp: "maximum",
    arith.MinimumfOp: "minimum",
    arith.MaxnumfOp: "maximum",
    arith.MinnumfOp: "minimum",
    math.ExpOp: "exp",
    math.LogOp: "log",
    math.SqrtOp: "sqrt",
    math.TanhOp: "tanh",
    math.PowFOp: "pow",
    math.FPowIOp: "pow",
    math.ErfOp: "erf",
}
"""The operators of scalar bodies that have a name here."""

EXACT_CASTS = (arith.ExtFOp, arith.SIToFPOp, arith.UIToFPOp)
"""Casts that keep the number; integers are constants here."""

_GREATER = {"ogt", "oge", "ugt", "uge"}
_LESS = {"olt", "ole", "ult", "ule"}


class UnconvertibleError(Exception):
    """Why an operator stays as it is; the text completes "because"."""


@dataclass(frozen=True)
class Body:
    """What a body yields, as functions of its arguments, and the widest type that it computes in.

    The type is ``None`` where nothing is computed.
    """

    results: tuple[Expression, ...]
    element_type: Attribute | None


def widest(types: Iterable[Attribute]) -> Attribute:
    """A type that holds the numbers of all of them: one of theirs, or f32."""
    found = set(types)
    return found.pop() if len(found) == 1 else f32


def constant_of(value: SSAValue) -> float | None:
    """The number that a scalar constant, or every element of a constant tensor, is."""
    owner = value.owner
    match owner:
        case arith.ConstantOp(value=FloatAttr() | IntegerAttr() as number):
            return float(number.value.data)
        case arith.ConstantOp(value=DenseIntOrFPElementsAttr() as elements) if elements.is_splat():
            return float(elements.get_values()[0])  # pyright: ignore[reportArgumentType]
        case linalg.FillOp():
            return constant_of(owner.inputs[0])
        case tensor.SplatOp() | arith.TruncFOp() | arith.ExtFOp() | arith.SIToFPOp():
            return constant_of(owner.operands[0])
        case _:
            return None


def body_of(block: Block) -> Body:
    """What a body computes.

    Raises :class:`UnconvertibleError` for operators without a counterpart.
    """
    values: dict[SSAValue, Expression] = {
        argument: Argument(index) for index, argument in enumerate(block.args)
    }
    types: set[Attribute] = set()
    for op in block.ops:
        if isinstance(op, linalg.YieldOp):
            results = tuple(_value(operand, values) for operand in op.operands)
            return Body(results, widest(types) if types else None)
        if isinstance(op, arith.ConstantOp):
            continue
        operands = [_value(operand, values) for operand in op.operands]
        (result,) = op.results
        values[result] = _expression(op, operands)
        if isinstance(result.type, AnyFloat) and not isinstance(values[result], Constant):
            _check_type(op, result)
            types.add(result.type)
    raise UnconvertibleError("its body yields nothing")


def _check_type(op: Operation, result: SSAValue) -> None:
    """Raises for numbers that fp32 cannot hold, and for a rounding that may not be left out."""
    if result.type not in FLOAT_TYPES:
        raise UnconvertibleError(f"its body computes in {result.type}; kn computes in f32")
    is_last = all(isinstance(use.operation, linalg.YieldOp) for use in result.uses)
    if isinstance(op, arith.TruncFOp) and is_of_8_bits(result.type) and not is_last:
        raise UnconvertibleError(
            f"its body goes on with what it has rounded to {result.type}; write an operator of its "
            "own for the cast"
        )


def is_of_8_bits(type_: Attribute) -> bool:
    """Whether rounding to a type is part of what a graph says, and never left out."""
    return isinstance(type_, AnyFloat) and type_.bitwidth == 8


def _value(value: SSAValue, values: dict[SSAValue, Expression]) -> Expression:
    if value in values:
        return values[value]
    number = constant_of(value)
    if number is None:
        where = "argument" if isinstance(value, BlockArgument) else "value"
        raise UnconvertibleError(
            f"its body uses a {where} from outside that is no constant; make it an operand"
        )
    return Constant(number)


def _expression(op: Operation, operands: list[Expression]) -> Expression:
    if type(op) in FUNCTIONS:
        return call(FUNCTIONS[type(op)], *operands)
    if isinstance(op, (*EXACT_CASTS, arith.TruncFOp)):
        return operands[0]
    special = _SPECIAL.get(type(op))
    if special is None:
        raise UnconvertibleError(
            f"'{op.name}' in its body has no counterpart in kn; write it as a tensor expression "
            "('tb.custom'), or compute it before"
        )
    return special(op, operands)


def _compare(op: Operation, operands: list[Expression]) -> Expression:
    assert isinstance(op, arith.CmpfOp)
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    left, right = operands
    if predicate in _GREATER:
        return Call("greater", (left, right))
    if predicate in _LESS:
        return Call("greater", (right, left))
    raise UnconvertibleError(f"its body compares by '{predicate}'; kn has maxima only")


def _select(op: Operation, operands: list[Expression]) -> Expression:
    """``x > y ? x : y`` is the larger of the two, ``x > y ? y : x`` the smaller."""
    condition, chosen, otherwise = operands
    if condition == Call("greater", (chosen, otherwise)):
        return call("maximum", chosen, otherwise)
    if condition == Call("greater", (otherwise, chosen)):
        return call("minimum", chosen, otherwise)
    raise UnconvertibleError("its body selects by a condition; kn has maxima only")


def _scaled(function: str, before: float = 1.0, after: float = 1.0) -> _Special:
    """A function of a multiple of its operand, times a constant."""

    def expression(op: Operation, operands: list[Expression]) -> Expression:
        inner = call(function, call("mul", operands[0], Constant(before)))
        return call("mul", inner, Constant(after))

    return expression


_Special = Callable[[Operation, list[Expression]], Expression]
_SPECIAL: dict[type[Operation], _Special] = {
    arith.CmpfOp: _compare,
    arith.SelectOp: _select,
    math.AbsFOp: lambda op, x: call("maximum", x[0], call("neg", x[0])),
    math.RsqrtOp: lambda op, x: call("pow", x[0], Constant(-0.5)),
    math.FmaOp: lambda op, x: call("add", call("mul", x[0], x[1]), x[2]),
    math.Exp2Op: _scaled("exp", before=numbers.log(2.0)),
    math.Log2Op: _scaled("log", after=1.0 / numbers.log(2.0)),
    math.Log10Op: _scaled("log", after=1.0 / numbers.log(10.0)),
}
