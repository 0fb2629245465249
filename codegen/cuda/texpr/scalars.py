"""Arithmetic on numbers in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, i1
from xdsl.ir import Attribute, Operation

from mugraph.codegen.cuda.cpp import CodegenError, element_type, fp32_literal
from mugraph.dialects.element_types import HALF_TYPES

_INFIX: dict[type[Operation], str] = {
    arith.AddfOp: "+",
    arith.SubfOp: "-",
    arith.MulfOp: "*",
    arith.DivfOp: "/",
    arith.AddiOp: "+",
    arith.SubiOp: "-",
    arith.MuliOp: "*",
}
_CALLS: dict[type[Operation], str] = {
    arith.MaximumfOp: "mugraph::te::Max::combine",
    arith.MinimumfOp: "mugraph::te::Min::combine",
    arith.MaxSIOp: "mugraph::te::Max::combine",
    arith.MinSIOp: "mugraph::te::Min::combine",
    arith.FloorDivSIOp: "mugraph::te::floor_div",
    math_dialect.ExpOp: "expf",
    math_dialect.Exp2Op: "exp2f",
    math_dialect.LogOp: "logf",
    math_dialect.Log2Op: "log2f",
    math_dialect.SqrtOp: "sqrtf",
    math_dialect.RsqrtOp: "mugraph::te::reciprocal_root",
    math_dialect.TanhOp: "tanhf",
    math_dialect.ErfOp: "erff",
    math_dialect.SinOp: "sinf",
    math_dialect.CosOp: "cosf",
    math_dialect.FloorOp: "floorf",
    math_dialect.CeilOp: "ceilf",
    math_dialect.AbsFOp: "fabsf",
    math_dialect.AbsIOp: "abs",
    math_dialect.PowFOp: "powf",
    math_dialect.FmaOp: "fmaf",
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def scalar_type(type_: Attribute) -> str:
    """The C++ type of a number."""
    if type_ == i1:
        return "bool"
    name = element_type(type_)
    return f"mugraph::{name}" if type_ in HALF_TYPES else name


def is_scalar(op: Operation) -> bool:
    """Whether an operator computes a number of numbers, without any effect."""
    return op.dialect_name() in ("arith", "math")


def scalar_text(op: Operation, operands: Sequence[str]) -> str:
    """The expression of an operator on numbers; in brackets where it is not a call or a name."""
    kind = type(op)
    if kind in _INFIX:
        return f"({operands[0]} {_INFIX[kind]} {operands[1]})"
    if kind in _CALLS:
        return f"{_CALLS[kind]}({', '.join(operands)})"
    match op:
        case arith.ConstantOp():
            value = cast("FloatAttr[Any] | IntegerAttr[Any]", op.value)
            type_ = op.result.type
            if isinstance(value, IntegerAttr):
                return _bool(value.value.data) if type_ == i1 else str(value.value.data)
            literal = fp32_literal(value.value.data)
            return (
                f"mugraph::from_float<{scalar_type(type_)}>({literal})"
                if type_ in HALF_TYPES
                else literal
            )
        case arith.ExtFOp():
            return f"mugraph::to_float({operands[0]})"
        case arith.TruncFOp():
            return f"mugraph::from_float<{scalar_type(op.result.type)}>({operands[0]})"
        case arith.SIToFPOp():
            return f"static_cast<float>({operands[0]})"
        case arith.FPToSIOp():
            return f"static_cast<int32_t>({operands[0]})"
        case arith.NegfOp():
            return f"(-{operands[0]})"
        case arith.SelectOp():
            return f"({operands[0]} ? {operands[1]} : {operands[2]})"
        case arith.CmpfOp() | arith.CmpiOp():
            names = arith.CMPF_COMPARISON_OPERATIONS
            if isinstance(op, arith.CmpiOp):
                names = arith.CMPI_COMPARISON_OPERATIONS
            name = names[op.predicate.value.data]
            token = _COMPARISONS[name if name in _COMPARISONS else name[1:]]
            return f"({operands[0]} {token} {operands[1]})"
        case _:
            raise CodegenError(f"the CUDA target cannot print '{op.name}' of a tensor expression")


def _bool(value: int) -> str:
    return "true" if value else "false"
