"""What ``arith`` and ``math`` compute on the numbers of a tensor expression."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Operation

from mugraph.dialects.te.numbers import OPERATOR_NAMES, comparison_symbol
from mugraph.runtime.interpreter.arithmetic import Array, Precision, convert, storage_dtype
from mugraph.runtime.interpreter.components import ComponentArray
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import SCALAR_FUNCTIONS, floor


def dtype_of(type_: Attribute, precision: Precision) -> np.dtype[Any]:
    """The numpy type of a scalar or of an element."""
    if type_ == i1:
        return np.dtype(np.bool_)
    dtype = storage_dtype(type_)
    is_exact = precision is Precision.STORAGE or isinstance(type_, IntegerType)
    return dtype if is_exact else np.dtype(np.float64)


def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a b + c, rounded once."""
    if isinstance(a, ComponentArray):
        return a * b + c
    # The product of two f32 is exact in f64; the sum is rounded to f64 first, rarely not the same.
    # Of f64 the product is rounded, too.
    wide = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    return wide.astype(a.dtype)


def _power_of_two(x: Array) -> Array:
    return np.exp(x * math.log(2)) if isinstance(x, ComponentArray) else np.exp2(x)


def _binary_logarithm(x: Array) -> Array:
    return np.log(x) / math.log(2) if isinstance(x, ComponentArray) else np.log2(x)


def _ceiling(x: Array) -> Array:
    return -floor(-x) if isinstance(x, ComponentArray) else np.ceil(x)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **SCALAR_FUNCTIONS,
    "exp2": _power_of_two,
    "log2": _binary_logarithm,
    "ceil": _ceiling,
    "fma": multiply_add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
"""By the names that operators have."""

_COMPARISONS: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def function_of(op: Operation) -> Callable[..., Any] | None:
    """What an operator computes of its operands, on numpy's arrays or on others like them."""
    match op:
        case arith.NegfOp():
            return operator.neg
        case arith.FloorDivSIOp():
            return np.floor_divide
        case arith.CmpfOp() | arith.CmpiOp():
            return _COMPARISONS.get(comparison_symbol(op) or "")
        case _:
            return _FUNCTIONS.get(OPERATOR_NAMES.get(type(op), ""))


def compute(op: Operation, operands: list[Array], count: int, precision: Precision) -> Array:
    """The result of an operator of ``arith`` or ``math`` in each of ``count`` iterations.

    Raises ``ExecutionError`` for one that the interpreter does not know.
    """
    dtype = dtype_of(op.results[0].type, precision)
    match op:
        case arith.ConstantOp():
            attribute = cast(FloatAttr[Any] | IntegerAttr[Any], op.value)
            return np.full(count, attribute.value.data, dtype)
        case arith.TruncFOp():
            return convert(operands[0], dtype)  # 8 bits saturate
        case (
            arith.ExtFOp() | arith.SIToFPOp() | arith.ExtSIOp() | arith.ExtUIOp() | arith.TruncIOp()
        ):
            return operands[0].astype(dtype)
        case arith.FPToSIOp():
            return np.trunc(operands[0].astype(np.float64)).astype(dtype)
        case arith.SelectOp():
            return np.where(*operands)
        case _:
            function = function_of(op)
            if function is None:
                raise ExecutionError(f"'{op.name}' cannot be executed by the interpreter yet")
            return np.asarray(function(*operands)).astype(dtype, copy=False)
