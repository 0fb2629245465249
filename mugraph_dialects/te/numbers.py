"""Operators of ``arith`` and ``math`` on the numbers of a tensor expression, by name.

The parser, the printers, the interpreter and the CUDA target look names up here.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Operation

UNARY_OPERATORS: dict[str, type[Any]] = {
    "exp": math.ExpOp,
    "exp2": math.Exp2Op,
    "log": math.LogOp,
    "log2": math.Log2Op,
    "sqrt": math.SqrtOp,
    "rsqrt": math.RsqrtOp,
    "tanh": math.TanhOp,
    "erf": math.ErfOp,
    "sin": math.SinOp,
    "cos": math.CosOp,
    "floor": math.FloorOp,
    "ceil": math.CeilOp,
}
"""Functions of one floating-point number."""

FLOAT_OPERATORS: dict[str, type[Any]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "pow": math.PowFOp,
    "abs": math.AbsFOp,
    "fma": math.FmaOp,
    **UNARY_OPERATORS,
}
"""Operators on floating-point numbers."""

INTEGER_OPERATORS: dict[str, type[Any]] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "div": arith.FloorDivSIOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "abs": math.AbsIOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
    "xor": arith.XOrIOp,
    "shl": arith.ShLIOp,
    "shr": arith.ShRSIOp,
}
"""Operators on integers, which are divided by floor; ``shr`` keeps the sign."""

OPERATOR_NAMES: dict[type[Operation], str] = {
    kind: name for name, kind in (*FLOAT_OPERATORS.items(), *INTEGER_OPERATORS.items())
}
"""The name of each."""

COMPARISONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
"""Comparisons by symbol."""


def operators_on(type_: Attribute) -> dict[str, type[Any]]:
    """The operators on numbers of a type, by name."""
    return INTEGER_OPERATORS if type_ == i32 else FLOAT_OPERATORS


def predicate_of(symbol: str, *, integer: bool) -> str:
    """What ``arith`` calls a comparison: one with NaN does not hold, except ``!=``."""
    name = COMPARISONS[symbol]
    if integer:
        return name if name in ("eq", "ne") else f"s{name}"
    return "une" if name == "ne" else f"o{name}"


def comparison_symbol(op: arith.CmpfOp | arith.CmpiOp) -> str | None:
    """The symbol of a comparison; ``None`` for one that no symbol stands for."""
    integer = isinstance(op, arith.CmpiOp)
    names = arith.CMPI_COMPARISON_OPERATIONS if integer else arith.CMPF_COMPARISON_OPERATIONS
    predicate = names[op.predicate.value.data]
    found = (one for one in COMPARISONS if predicate_of(one, integer=integer) == predicate)
    return next(found, None)
