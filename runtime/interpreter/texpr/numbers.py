"""What ``arith`` and ``math`` compute on the numbers of a tensor expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Operation

from mugraph.runtime.interpreter.arithmetic import Array, Precision, storage_dtype
from mugraph.runtime.interpreter.errors import ExecutionError


def dtype_of(type_: Attribute, precision: Precision) -> np.dtype[Any]:
    """The numpy type of a scalar or of an element."""
    if type_ == i1:
        return np.dtype(np.bool_)
    dtype = storage_dtype(type_)
    is_exact = precision is Precision.STORAGE or isinstance(type_, IntegerType)
    return dtype if is_exact else np.dtype(np.float64)


_ERF: Callable[[Array], Any] = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_ERF(x), np.float64).astype(x.dtype)


def reciprocal_root(x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a b + c, rounded once."""
    # The product of two f32 is exact in f64; the sum is rounded to f64 first, rarely not the same.
    wide = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    return wide.astype(a.dtype)


_OPERATORS: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.NegfOp: np.negative,
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.FloorDivSIOp: np.floor_divide,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.SelectOp: np.where,
    math_dialect.ExpOp: np.exp,
    math_dialect.Exp2Op: np.exp2,
    math_dialect.LogOp: np.log,
    math_dialect.Log2Op: np.log2,
    math_dialect.SqrtOp: np.sqrt,
    math_dialect.RsqrtOp: reciprocal_root,
    math_dialect.TanhOp: np.tanh,
    math_dialect.ErfOp: _erf,
    math_dialect.SinOp: np.sin,
    math_dialect.CosOp: np.cos,
    math_dialect.FloorOp: np.floor,
    math_dialect.CeilOp: np.ceil,
    math_dialect.AbsFOp: np.abs,
    math_dialect.AbsIOp: np.abs,
    math_dialect.PowFOp: np.power,
    math_dialect.FmaOp: multiply_add,
}

_COMPARISONS: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@cache
def _comparison(op_type: type[Operation], predicate: int) -> Callable[..., Any]:
    names = arith.CMPF_COMPARISON_OPERATIONS
    if op_type is arith.CmpiOp:
        names = arith.CMPI_COMPARISON_OPERATIONS
    name = names[predicate]
    return _COMPARISONS[name if name in _COMPARISONS else name[1:]]


def compute(op: Operation, operands: list[Array], count: int, precision: Precision) -> Array:
    """The result of an operator of ``arith`` or ``math`` in each of ``count`` iterations.

    Raises ``ExecutionError`` for one that the interpreter does not know.
    """
    dtype = dtype_of(op.results[0].type, precision)
    match op:
        case arith.ConstantOp():
            attribute = cast(FloatAttr[Any] | IntegerAttr[Any], op.value)
            return np.full(count, attribute.value.data, dtype)
        case arith.ExtFOp() | arith.TruncFOp() | arith.SIToFPOp():
            return operands[0].astype(dtype)
        case arith.FPToSIOp():
            return np.trunc(operands[0].astype(np.float64)).astype(dtype)
        case arith.CmpfOp() | arith.CmpiOp():
            return _comparison(type(op), op.predicate.value.data)(*operands)
        case _:
            function = _OPERATORS.get(type(op))
            if function is None:
                raise ExecutionError(f"'{op.name}' cannot be executed by the interpreter yet")
            return np.asarray(function(*operands)).astype(dtype, copy=False)
