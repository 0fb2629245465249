"""The scalar bodies of ``linalg`` operators as expressions."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mugraph.passes.convert_linalg_to_kn.expressions import (
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
    math.PowFOp: "pow",
    math.ErfOp: "erf",
}
"""The operators of scalar bodies that have a name here."""

_GREATER = {"ogt", "oge", "ugt", "uge"}


class UnconvertibleError(Exception):
    """Why an operator stays as it is; the text completes "because"."""


def constant_of(value: SSAValue) -> float | None:
    """The number that a scalar constant, or every element of a constant tensor, is."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp):
        return None
    if isinstance(owner.value, FloatAttr):
        return owner.value.value.data
    if isinstance(owner.value, DenseIntOrFPElementsAttr) and owner.value.is_splat():
        number = owner.value.get_values()[0]
        return number if isinstance(number, float) else None
    return None


def expression_of(block: Block, inputs: int) -> Expression:
    """What a body yields, as a function of its first ``inputs`` arguments.

    Raises :class:`UnconvertibleError` for operators without a counterpart.
    """
    values: dict[SSAValue, Expression] = {}
    for op in block.ops:
        if isinstance(op, linalg.YieldOp):
            if len(op.operands) != 1:
                raise UnconvertibleError("its body yields more than one value")
            return _value(op.operands[0], values, block, inputs)
        if isinstance(op, arith.ConstantOp):
            continue
        operands = [_operand(operand, values, block, inputs) for operand in op.operands]
        values[op.results[0]] = _expression(op, operands)
    raise UnconvertibleError("its body yields nothing")


def _operand(
    value: SSAValue, values: dict[SSAValue, Expression], block: Block, inputs: int
) -> Expression:
    return _value(value, values, block, inputs)


def _value(
    value: SSAValue, values: dict[SSAValue, Expression], block: Block, inputs: int
) -> Expression:
    if value in values:
        return values[value]
    if isinstance(value, BlockArgument) and value.block is block:
        if value.index >= inputs:
            raise UnconvertibleError("its body reads the old contents of its output")
        return Argument(value.index)
    number = constant_of(value)
    if number is None:
        raise UnconvertibleError("its body uses a value from outside that is no constant")
    return Constant(number)


def _expression(op: Operation, operands: list[Expression]) -> Expression:
    if type(op) in FUNCTIONS:
        return call(FUNCTIONS[type(op)], *operands)
    special = _SPECIAL.get(type(op))
    if special is None:
        raise UnconvertibleError(f"'{op.name}' in its body has no counterpart in kn")
    return special(op, operands)


def _compare(op: Operation, operands: list[Expression]) -> Expression:
    assert isinstance(op, arith.CmpfOp)
    predicate = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
    if predicate not in _GREATER:
        raise UnconvertibleError(f"its body compares by '{predicate}'")
    return Call("greater", tuple(operands))


def _select(op: Operation, operands: list[Expression]) -> Expression:
    """``x > y ? x : y`` is the larger of the two."""
    condition, chosen, otherwise = operands
    if condition != Call("greater", (chosen, otherwise)):
        raise UnconvertibleError("its body selects by a condition")
    return call("maximum", chosen, otherwise)


_SPECIAL: dict[type[Operation], Callable[[Operation, list[Expression]], Expression]] = {
    arith.CmpfOp: _compare,
    arith.SelectOp: _select,
}
