"""ATen's element-wise operators and casts."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects.builtin import f32, i1, i8, i64

import mugraph.build as mi
from mugraph.build import DTensor
from mugraph.dialects.element_types import is_integer
from mugraph.torch.aten.conversion import Call, TensorLike, converts, require, require_tensor

UNARY = (
    "exp",
    "silu",
    "sigmoid",
    "tanh",
    "relu",
    "log",
    "square",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "erf",
    "cos",
    "sin",
    "round",
    "floor",
)
"""Functions of one tensor that have the same name here and there."""


def _unary(function: str):
    def convert(call: Call, x: DTensor) -> DTensor:
        require(not is_integer(call.dtype), f"it computes on integers, {call.dtype}")
        return call.graph.apply(function, [_as_float(call, x)], call.dtype, None)

    return convert


@converts("abs.default")
def _abs(call: Call, x: DTensor) -> DTensor:
    return call.graph.max(x, -x) if is_integer(x.dtype) else call.graph.abs(x)


@converts("ceil.default")
def _ceil(call: Call, x: DTensor) -> DTensor:
    return call.graph.mul_scalar(mi.floor(-_as_float(call, x)), -1.0, dtype=call.dtype)


for _name in UNARY:
    converts(f"{_name}.default")(_unary(_name))


def _as_float(call: Call, x: Any) -> Any:
    """An operand of arithmetic in fp32: integers are cast where the result is none."""
    if isinstance(x, DTensor) and is_integer(x.dtype) and not is_integer(call.dtype):
        return _wide(x)
    return x


def _wide(x: DTensor) -> DTensor:
    """A tensor in fp32."""
    return x if x.dtype == f32 else mi.cast(x, f32)


def _binary(call: Call, function: str, a: Any, b: Any) -> DTensor:
    """A function of two operands, of which one may be a number, in the result's type."""
    a, b = (_of_result(call, x) for x in (a, b))
    return call.graph.apply(function, [a, b], call.dtype, None)


def _of_result(call: Call, x: Any) -> Any:
    """An operand in a type that may stand beside the others: that of the result, or f32."""
    if not isinstance(x, DTensor) or x.dtype == call.dtype:
        return x
    if is_integer(call.dtype):
        return mi.cast(x, call.dtype)
    return _wide(x)


@converts("add.Tensor", "add.Scalar")
def _add(call: Call, a: Any, b: Any, alpha: float = 1) -> DTensor:
    if isinstance(b, int | float):
        a, b = require_tensor(a), b * alpha
        if not is_integer(call.dtype):
            return call.graph.add_scalar(_of_result(call, a), float(b), dtype=call.dtype)
    elif alpha != 1:
        b = call.graph.mul_scalar(_as_float(call, b), float(alpha), dtype=f32)
    return _binary(call, "add", a, b)


@converts("sub.Tensor", "sub.Scalar")
def _sub(call: Call, a: Any, b: Any, alpha: float = 1) -> DTensor:
    if isinstance(a, int | float):
        return _binary(call, "sub", a, b)
    if not is_integer(call.dtype):
        return _add(call, a, b, -alpha)
    require(alpha == 1, "its alpha is not 1")
    return _binary(call, "sub", a, b)


@converts("rsub.Scalar", "rsub.Tensor")
def _rsub(call: Call, a: DTensor, b: Any, alpha: float = 1) -> DTensor:
    require(alpha == 1, "its alpha is not 1")
    return _binary(call, "sub", b, a)


@converts("mul.Tensor", "mul.Scalar")
def _mul(call: Call, a: Any, b: Any) -> DTensor:
    if isinstance(b, int | float) and not is_integer(call.dtype):
        x = _of_result(call, require_tensor(a))
        return call.graph.mul_scalar(x, float(b), dtype=call.dtype)
    return _binary(call, "mul", a, b)


@converts("div.Tensor", "div.Scalar")
def _div(call: Call, a: Any, b: Any) -> DTensor:
    # A reciprocal of a power of two is exact; others are divided by, as torch does.
    if isinstance(b, int | float) and b and math.frexp(b)[0] in (0.5, -0.5):
        return _mul(call, _as_float(call, a), 1 / b)
    return _binary(call, "div", a, b)


@converts("neg.default")
def _neg(call: Call, x: DTensor) -> DTensor:
    return -x


@converts("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(call: Call, a: Any, b: Any) -> DTensor:
    exact = {2: "square", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if isinstance(b, int | float) and b in exact:
        if b == 2 and is_integer(call.dtype):
            return a * a
        return _unary(exact[b])(call, require_tensor(a))
    if isinstance(b, int | float) and b == 3:  # a product, as torch computes it
        x = require_tensor(a)
        x = x if is_integer(call.dtype) else _wide(x)
        return call.graph.mul(x * x, x, dtype=call.dtype)
    return _binary(call, "pow", a, b)


BYTE = 8


def _byte(call: Call, x: DTensor) -> DTensor:
    """An element of int8 as a number; other integers have more bits than fp32 has."""
    require(x.dtype == i8, f"bits are taken of int8, not of {x.dtype}")
    return mi.cast(x, f32)


@converts("bitwise_right_shift.Tensor_Scalar", "__rshift__.Scalar")
def _right_shift(call: Call, x: DTensor, count: int) -> DTensor:
    require(0 <= count < BYTE, f"{count} is no number of bits of int8")
    return mi.cast(mi.floor(_byte(call, x) * 2.0**-count), call.dtype)


@converts("bitwise_left_shift.Tensor_Scalar", "__lshift__.Scalar")
def _left_shift(call: Call, x: DTensor, count: int) -> DTensor:
    """What is left of the bits has the sign that the highest of them says."""
    require(0 <= count < BYTE, f"{count} is no number of bits of int8")
    sign = float(1 << (BYTE - 1 - count))
    low = mi.bits(_byte(call, x) + sign, 0, BYTE - count) - sign
    return mi.cast(low * float(1 << count), call.dtype)


@converts("bitwise_and.Scalar")
def _and_bits(call: Call, x: DTensor, mask: int) -> DTensor:
    first = (mask & -mask).bit_length() - 1
    count = mask.bit_length() - first
    side_by_side = 0 < mask < 1 << (BYTE - 1) and mask >> first == (1 << count) - 1
    require(side_by_side, f"the bits of {mask} are not side by side in an int8")
    return mi.cast(mi.bits(_byte(call, x), first, count) * float(1 << first), call.dtype)


@converts("maximum.default")
def _maximum(call: Call, a: Any, b: Any) -> DTensor:
    return _binary(call, "max", a, b)


@converts("minimum.default")
def _minimum(call: Call, a: Any, b: Any) -> DTensor:
    return _binary(call, "min", a, b)


@converts("clamp.default", "clamp.Tensor", "hardtanh.default")
def _clamp(call: Call, x: DTensor, low: Any = None, high: Any = None) -> DTensor:
    if not is_integer(call.dtype) and all(
        isinstance(bound, int | float) and math.isfinite(bound) for bound in (low, high)
    ):
        return call.graph.clamp(x, float(low), float(high), dtype=call.dtype)
    # Infinite bounds are none.
    for function, bound in (("max", low), ("min", high)):
        if isinstance(bound, DTensor) or (bound is not None and math.isfinite(bound)):
            x = _binary(call, function, x, bound)
    return x


@converts("clamp_min.default", "clamp_min.Tensor")
def _clamp_min(call: Call, x: DTensor, low: Any) -> DTensor:
    return _clamp(call, x, low, None)


@converts("clamp_max.default", "clamp_max.Tensor")
def _clamp_max(call: Call, x: DTensor, high: Any) -> DTensor:
    return _clamp(call, x, None, high)


@converts("leaky_relu.default")
def _leaky_relu(call: Call, x: DTensor, slope: float = 0.01) -> DTensor:
    scaled = call.graph.mul_scalar(x, float(slope), dtype=f32)
    return call.graph.where(call.graph.less(0.0, x, dtype=i1), x, scaled, dtype=call.dtype)


@converts("elu.default")
def _elu(
    call: Call, x: DTensor, alpha: float = 1, scale: float = 1, input_scale: float = 1
) -> DTensor:
    wide = _wide(x)
    # Positive ones may have no finite exponential.
    powers = mi.exp(mi.min(wide, 0.0) * float(input_scale))
    below = (powers - 1.0) * float(alpha * scale)
    return call.graph.where(
        call.graph.less(0.0, wide, dtype=i1), wide * float(scale), below, dtype=call.dtype
    )


@converts("gelu.default")
def _gelu(call: Call, x: DTensor, approximate: str = "none") -> DTensor:
    if approximate == "none":
        return call.graph.gelu(x, dtype=call.dtype)
    wide = _wide(x)
    inner = (wide + wide * wide * wide * 0.044715) * math.sqrt(2 / math.pi)
    return call.graph.mul(wide * 0.5, mi.tanh(inner) + 1.0, dtype=call.dtype)


@converts("softplus.default")
def _softplus(call: Call, x: DTensor, beta: float = 1, threshold: float = 20) -> DTensor:
    require(beta == 1 and threshold >= 20, "its beta is not 1, or its threshold is below 20")
    return call.graph.softplus(x, dtype=call.dtype)


def _comparison(call: Call, function: str, a: Any, b: Any) -> DTensor:
    """Truths of operands in their own type, integers exactly."""
    tensors = [x for x in (a, b) if isinstance(x, DTensor)]
    whole = [is_integer(x.dtype) for x in tensors]
    if all(whole) and len({x.dtype for x in tensors}) > 1:
        a, b = (x if x.dtype == i64 else mi.cast(x, i64) for x in tensors)
    if any(whole) and not (all(whole) and all(not isinstance(x, float) for x in (a, b))):
        a, b = (_wide(x) if isinstance(x, DTensor) else x for x in (a, b))
    if function == "equal":
        both = [call.graph.less_equal(*pair, dtype=i1) for pair in ((a, b), (b, a))]
        return call.graph.mul(*both)
    return call.graph.apply(function, [a, b], i1, None)


def _compares(name: str, function: str, *, swapped: bool = False, negated: bool = False) -> None:
    def convert(call: Call, a: Any, b: Any) -> DTensor:
        if swapped:
            a, b = b, a
        holds = _comparison(call, function, a, b)
        return ~holds if negated else holds

    converts(f"{name}.Tensor", f"{name}.Scalar")(convert)


_compares("lt", "less")
_compares("le", "less_equal")
_compares("gt", "less", swapped=True)
_compares("ge", "less_equal", swapped=True)
_compares("eq", "equal")
_compares("ne", "equal", negated=True)


LARGEST = 3.4028234663852886e38
"""The largest finite fp32 number, than which none of another type is larger."""


@converts("isinf.default")
def _isinf(call: Call, x: DTensor) -> DTensor:
    require(not is_integer(x.dtype), "integers are never infinite")
    return call.graph.less(LARGEST, mi.abs(x), dtype=i1)


@converts("isnan.default")
def _isnan(call: Call, x: DTensor) -> DTensor:
    require(not is_integer(x.dtype), "integers are always numbers")
    return ~call.graph.less_equal(x, x, dtype=i1)


def _truths(call: Call, *tensors: Any) -> None:
    require(
        all(isinstance(x, DTensor) and x.dtype == i1 for x in tensors),
        "its operands are no tensors of bool",
    )


@converts("logical_and.default", "bitwise_and.Tensor")
def _and(call: Call, a: DTensor, b: DTensor) -> DTensor:
    _truths(call, a, b)
    return a & b


@converts("logical_or.default", "bitwise_or.Tensor")
def _or(call: Call, a: DTensor, b: DTensor) -> DTensor:
    _truths(call, a, b)
    return a | b


@converts("logical_xor.default", "bitwise_xor.Tensor")
def _xor(call: Call, a: DTensor, b: DTensor) -> DTensor:
    _truths(call, a, b)
    return ~_comparison(call, "equal", a, b)


@converts("logical_not.default", "bitwise_not.default")
def _not(call: Call, x: DTensor) -> DTensor:
    _truths(call, x)
    return ~x


@converts("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(call: Call, condition: DTensor, x: Any, y: Any) -> DTensor:
    x, y = (_of_result(call, each) for each in (x, y))
    return call.graph.where(condition, x, y, dtype=call.dtype)


@converts("masked_fill.Scalar")
def _masked_fill(call: Call, x: DTensor, mask: DTensor, value: float) -> DTensor:
    return call.graph.where(mask, value, x, dtype=call.dtype)


@converts("_to_copy.default", "to.dtype")
def _to_copy(call: Call, x: DTensor, *_: Any, **options: Any) -> DTensor:
    if x.dtype == call.dtype:
        return x
    if call.dtype == i1:
        return ~_comparison(call, "equal", x, 0)
    if is_integer(call.dtype) and not is_integer(x.dtype):
        # A cast of ours takes the nearest integer.
        x = _trunc(Call(call.graph, [TensorLike(call.shape, (), f32)], call.tf32), x)
    return mi.cast(x, call.dtype)


@converts("copy.default")
def _copy(call: Call, _: DTensor, source: DTensor, *__: Any) -> DTensor:
    """What is written over a tensor, in its type."""
    like = TensorLike(tuple(source.shape), (), call.dtype)
    return mi.broadcast_to(_to_copy(Call(call.graph, [like], call.tf32), source), call.shape)


@converts("trunc.default")
def _trunc(call: Call, x: DTensor) -> DTensor:
    """Without the fraction."""
    x = _wide(x)
    negative = call.graph.less(x, 0.0, dtype=i1)
    return call.graph.where(negative, -mi.floor(-x), mi.floor(x), dtype=call.dtype)


@converts("sign.default")
def _sign(call: Call, x: DTensor) -> DTensor:
    require(not is_integer(call.dtype), "integers have no sign of ours")
    below, above = call.graph.less(x, 0.0, dtype=i1), call.graph.less(0.0, x, dtype=i1)
    rest = call.graph.where(above, 1.0, 0.0, dtype=f32)
    return call.graph.where(below, -1.0, rest, dtype=call.dtype)
