"""Arithmetic on numbers in C++."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f64, i1
from xdsl.ir import Attribute, Operation

from mugraph.codegen.cuda.cpp import CodegenError, element_type, fp32_literal
from mugraph.dialects.te.numbers import OPERATOR_NAMES, comparison_symbol
from mugraph.dialects.te.types import EXTENDED_TYPES

_INFIX = {
    **{"add": "+", "sub": "-", "mul": "*", "div": "/"},
    **{"and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>"},
}
_CALLS: dict[type[Operation], str] = {
    arith.FloorDivSIOp: "mugraph::te::floor_div",
    math_dialect.AbsIOp: "abs",
    math_dialect.RsqrtOp: "mugraph::te::reciprocal_root",
    **dict.fromkeys((arith.MaximumfOp, arith.MaxSIOp), "mugraph::te::Max::combine"),
    **dict.fromkeys((arith.MinimumfOp, arith.MinSIOp), "mugraph::te::Min::combine"),
}
"""Functions that are not called as in C, with an f behind for numbers of f32."""


def scalar_type(type_: Attribute) -> str:
    """The C++ type of a number."""
    if type_ == i1:
        return "bool"
    name = element_type(type_)
    return f"mugraph::{name}" if type_ in EXTENDED_TYPES else name


def is_scalar(op: Operation) -> bool:
    """Whether an operator computes a number of numbers, without any effect."""
    return op.dialect_name() in ("arith", "math")


def scalar_text(op: Operation, operands: Sequence[str]) -> str:
    """The expression of an operator on numbers; in brackets where it is not a call or a name."""
    kind = type(op)
    name = OPERATOR_NAMES.get(kind)
    if name is not None:
        if name in _INFIX and kind not in _CALLS:
            return f"({operands[0]} {_INFIX[name]} {operands[1]})"
        name = "fabs" if kind is math_dialect.AbsFOp else name
        called = name if op.results[0].type == f64 else f"{name}f"
        return f"{_CALLS.get(kind, called)}({', '.join(operands)})"
    match op:
        case arith.ConstantOp():
            value = cast("FloatAttr[Any] | IntegerAttr[Any]", op.value)
            type_ = op.result.type
            if isinstance(value, IntegerAttr):
                return _bool(value.value.data) if type_ == i1 else str(value.value.data)
            number: float = value.value.data
            if type_ == f64:
                return repr(number) if isfinite(number) else _double(fp32_literal(number))
            literal = fp32_literal(number)
            return (
                f"mugraph::from_float<{scalar_type(type_)}>({literal})"
                if type_ in EXTENDED_TYPES
                else literal
            )
        case arith.ExtFOp():
            narrow = op.input.type in EXTENDED_TYPES
            text = f"mugraph::to_float({operands[0]})" if narrow else operands[0]
            return _double(text) if op.result.type == f64 else text
        case arith.TruncFOp():
            return f"mugraph::from_float<{scalar_type(op.result.type)}>({operands[0]})"
        case arith.SIToFPOp() | arith.ExtSIOp() | arith.ExtUIOp() | arith.TruncIOp():
            return f"static_cast<{scalar_type(op.results[0].type)}>({operands[0]})"
        case arith.FPToSIOp():
            return f"static_cast<int32_t>({operands[0]})"
        case arith.NegfOp():
            return f"(-{operands[0]})"
        case arith.SelectOp():
            return f"({operands[0]} ? {operands[1]} : {operands[2]})"
        case arith.CmpfOp() | arith.CmpiOp():
            symbol = comparison_symbol(op)
            if symbol is not None:
                return f"({operands[0]} {symbol} {operands[1]})"
        case _:
            pass
    raise CodegenError(f"the CUDA target cannot print '{op.name}' of a tensor expression")


def _double(text: str) -> str:
    return f"static_cast<double>({text})"


def _bool(value: int) -> str:
    return "true" if value else "false"
