"""What scalar functions, reductions and norms compute on numpy.

Arrays are of the computing type and nothing rounds to a storage type here.  Special numbers follow
IEEE 754: x / 0 is an infinity, 0 / 0 and the root of a negative number are NaN, the root of -0 is
-0, the logarithm of either 0 is -infinity, and a NaN that is summed makes the sum NaN.  silu and
gelu of -infinity are NaN as in the CUDA header; relu, clamp and maxima of a NaN are NaN.  pow is
C's: x to the power of 0 and 1 to that of anything are 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from xdsl.ir import Operation

from mugraph.dialects.elementwise import FP4_NUMBERS, NF4_NUMBERS, ScalarFunction
from mugraph.dialects.tensor_types import op_label
from mugraph.dialects.windows import Windows
from mugraph.runtime.interpreter.arithmetic import Array, is_whole
from mugraph.runtime.interpreter.components import (
    ComponentArray,
    existing_rows,
    named_rows,
    with_rows,
)
from mugraph.runtime.interpreter.errors import ExecutionError

if TYPE_CHECKING:
    from mugraph.dialects.tb import Groups


def silu(x: Array) -> Array:
    """x / (1 + exp(-x))."""
    return x / (1 + np.exp(-x))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1 / (1 + np.exp(-x))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), which does not overflow."""
    if isinstance(x, ComponentArray):
        return np.log(1 + np.exp(x))
    return np.logaddexp(x.dtype.type(0), x)


def tanh(x: Array) -> Array:
    """The hyperbolic tangent; in exact arithmetic by the exponential."""
    return 1 - 2 / (1 + np.exp(2 * x)) if isinstance(x, ComponentArray) else np.tanh(x)


_ERF: Callable[[Array], Any] = np.frompyfunc(math.erf, 1, 1)
_ERFC: Callable[[Array], Any] = np.frompyfunc(math.erfc, 1, 1)


def erf(x: Array) -> Array:
    """The error function."""
    if isinstance(x, ComponentArray):
        return 1 - x.erfc()
    return np.asarray(_ERF(x), np.float64).astype(np.result_type(x.dtype, np.float32))


def erfc(x: Array) -> Array:
    """1 - erf(x) in float64, which does not cancel."""
    return x.erfc() if isinstance(x, ComponentArray) else np.asarray(_ERFC(x), np.float64)


def gelu(x: Array) -> Array:
    """x (1 + erf(x / sqrt(2))) / 2, by the complement of erf, which does not cancel."""
    if isinstance(x, ComponentArray):
        return 0.5 * x * erfc(x * -math.sqrt(0.5))
    tail = erfc(x.astype(np.float64) * -math.sqrt(0.5))
    # Whole numbers that a cast turns into floating-point ones stay whole until they are rounded.
    return 0.5 * x * tail.astype(np.result_type(x.dtype, np.float32))


def cos(x: Array) -> Array:
    """The cosine."""
    return x.smooth(np.cos, 1.0, 2.0) if isinstance(x, ComponentArray) else np.cos(x)


def sin(x: Array) -> Array:
    """The sine."""
    return x.smooth(np.sin, 1.0, 2.0) if isinstance(x, ComponentArray) else np.sin(x)


def relu(x: Array) -> Array:
    """0 where x < 0, else x: NaN and -0 stay."""
    return x.relu() if isinstance(x, ComponentArray) else np.where(x < 0, x.dtype.type(0), x)


def clamp(x: Array, low: float, high: float) -> Array:
    """The nearest number from low to high; NaN stays."""
    if isinstance(x, ComponentArray):
        return x.clamp(low, high)
    # Whole numbers that a cast turns into floating-point ones have bounds between them.
    number = np.result_type(x.dtype, np.float32).type
    bounded = np.where(x < low, number(low), x)
    return np.where(bounded > high, number(high), bounded)


def absolute(x: Array) -> Array:
    """The magnitude."""
    return np.maximum(x, -x) if isinstance(x, ComponentArray) else np.abs(x)


def minimum(x: Array, y: Array) -> Array:
    """The smaller of both."""
    return -np.maximum(-x, -y) if isinstance(x, ComponentArray) else np.minimum(x, y)


def rsqrt(x: Array) -> Array:
    """1 / sqrt(x)."""
    return 1.0 / np.sqrt(x)


def round_to_whole(x: Array) -> Array:
    """The nearest whole number, of two the even one."""
    return x.steps(np.rint) if isinstance(x, ComponentArray) else np.rint(x)


def floor(x: Array) -> Array:
    """The largest whole number that is at most x."""
    return x.steps(np.floor) if isinstance(x, ComponentArray) else np.floor(x)


def _of_whole(x: Array, name: str, span: float, compute: Callable[[Array], Array]) -> Array:
    """A function of whole numbers, whose values are no farther apart than ``span``."""

    def function(values: Array) -> Array:
        exists = np.where(np.isfinite(values), values, 0)
        return compute(np.rint(exists).astype(np.int64)).astype(np.result_type(values, np.float32))

    if not isinstance(x, ComponentArray):
        return function(x)
    function.__name__ = name
    # Where a number may be off, so may any of its bits be.
    return x.smooth(cast(Any, function), STEEP, span)


STEEP = 2.0**64
"""A slope with which every error reaches the farthest number."""


def bits(x: Array, first: float, count: float) -> Array:
    """The number that ``count`` bits of whole numbers are, from the bit ``first`` on."""
    most = 2 ** int(count) - 1
    return _of_whole(x, f"bits {first} {count}", most, lambda whole: whole >> int(first) & most)


def fp4(x: Array) -> Array:
    """What codes of fp4 mean."""
    return _of_whole(x, "fp4", 12.0, lambda whole: np.array(FP4_NUMBERS)[whole & 15])


def nf4(x: Array) -> Array:
    """What codes of NF4 mean."""
    return _of_whole(x, "nf4", 2.0, lambda whole: np.array(NF4_NUMBERS)[whole & 15])


def less(x: Array, y: Array) -> Array:
    """1 where x < y, else 0."""
    if isinstance(x, ComponentArray):
        return cast(Any, y - x).positive()
    return (x < y).astype(np.result_type(x.dtype, np.float32))


def less_equal(x: Array, y: Array) -> Array:
    """1 where x <= y, else 0."""
    if isinstance(x, ComponentArray):
        return 1 - cast(Any, x - y).positive()
    return (x <= y).astype(np.result_type(x.dtype, np.float32))


def fill(x: Array, constant: float) -> Array:
    """An fp32 constant for each element of x."""
    if isinstance(x, ComponentArray):
        return x.filled(constant)
    return np.full(x.shape, constant, np.result_type(x.dtype, np.float32))


def where(condition: Array, x: Array, y: Array) -> Array:
    """x where the condition is not 0, else y."""
    if isinstance(condition, ComponentArray):
        return condition.select(x, y)
    return np.where(condition != 0, x, y)


def mul_scalar(x: Array, constant: float) -> Array:
    """x times an fp32 constant."""
    return x * constant


def identity(x: Array) -> Array:
    """x itself."""
    return x


def add_scalar(x: Array, constant: float) -> Array:
    """x plus an fp32 constant."""
    return x + constant


def mul_add(x: Array, y: Array, z: Array) -> Array:
    """x y + z."""
    return x * y + z


def scaled_exp(x: Array, scale: float) -> Array:
    """e to the power of a constant times x."""
    return np.exp(x * scale)


def scaled_exp_difference(x: Array, y: Array, scale: float) -> Array:
    """e to the power of a constant times (x - y)."""
    return np.exp((x - y) * scale)


def _power_below(x: Array) -> Array:
    least, most = map(x.dtype.type, POWERS)
    _, exponents = np.frexp(np.fmin(np.fmax(x, least), most))
    return np.ldexp(np.ones_like(x), exponents - 1)


POWERS = 2.0**-100, 2.0**127
"""The smallest and the largest number that ``power_below`` gives."""


def power_below(x: Array) -> Array:
    """The largest power of two that is at most x, from 2^-100 to 2^127; 2^-100 of NaN."""
    return x.steps(cast(Any, _power_below)) if isinstance(x, ComponentArray) else _power_below(x)


def reciprocal(x: Array) -> Array:
    """1 / x."""
    return 1.0 / x


def reciprocal_or_zero(x: Array) -> Array:
    """1 / x; 0 where x is 0."""
    if isinstance(x, ComponentArray):
        return cast(Any, x.reciprocal_or_zero())
    is_zero = x == 0
    return np.where(is_zero, x.dtype.type(0), 1.0 / np.where(is_zero, x.dtype.type(1), x))


SCALAR_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "identity": identity,
    "exp": np.exp,
    "silu": silu,
    "gelu": gelu,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "tanh": tanh,
    "relu": relu,
    "abs": absolute,
    "square": np.square,
    "sqrt": np.sqrt,
    "rsqrt": rsqrt,
    "erf": erf,
    "log": np.log,
    "cos": cos,
    "round": round_to_whole,
    "floor": floor,
    "bits": bits,
    "fp4": fp4,
    "nf4": nf4,
    "sin": sin,
    "mul_scalar": mul_scalar,
    "add_scalar": add_scalar,
    "fill": fill,
    "clamp": clamp,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "max": np.maximum,
    "min": minimum,
    "less": less,
    "less_equal": less_equal,
    "where": where,
    "mul_add": mul_add,
    "scaled_exp": scaled_exp,
    "power_below": power_below,
    "scaled_exp_difference": scaled_exp_difference,
    "scaled_exp_wide_difference": scaled_exp_difference,
    "reciprocal": reciprocal,
    "reciprocal_or_zero": reciprocal_or_zero,
}
"""What each function of :mod:`mugraph.dialects.elementwise` computes: operands, then constants."""


def apply_function(function: ScalarFunction, *operands: Array) -> Array:
    """The function of each element; extents of 1 are broadcast.

    Raises ``ExecutionError`` for a function that the table lacks.
    """
    if function.parts:
        outer, *inner = function.parts
        return apply_function(outer, *(apply_function(part, *operands) for part in inner))
    compute = SCALAR_FUNCTIONS.get(function.name)
    if compute is None:
        raise ExecutionError(f"the interpreter cannot compute the function '{function}' yet")
    return compute(*operands, *function.constants)


def apply_chain(functions: Sequence[ScalarFunction], value: Array) -> Array:
    """Unary functions in order, as an epilogue applies them."""
    for function in functions:
        value = apply_function(function, value)
    return value


def matmul(left: Array, right: Array) -> Array:
    """The matrix product; of integers by way of float64, which has all of their sums."""
    if isinstance(left, ComponentArray) or not is_whole(left.dtype):
        return np.matmul(left, right)
    return np.matmul(left.astype(np.float64), right.astype(np.float64)).astype(np.int64)


def take_rows(table: Array, rows: Array) -> Array:
    """What the table has at whole numbers along its first axis.

    Raises ``ExecutionError`` for a number that names no row.
    """
    if isinstance(rows, ComponentArray):
        return rows.rows_of(table)
    return table[existing_rows(table.shape[0], rows)]


def require_each_row(op: Operation, count: int, numbers: Array) -> None:
    """Raises ``ExecutionError`` unless each row of a table has one number that says it."""
    if isinstance(numbers, ComponentArray) and not numbers.has_numbers():
        return
    found, named = named_rows(count, numbers)
    times = np.bincount(found[named].reshape(-1), minlength=count)
    wrong = np.flatnonzero(times != 1)
    if wrong.size:
        raise ExecutionError(
            f"{op_label(op)}: {times[wrong[0]]} numbers say that row {wrong[0]} of its {count} is "
            "stored; expected one for each row"
        )


def rows_to_write(table: Array, numbers: Array) -> Array:
    """The rows of a table that whole numbers name, to be written; any where one names none."""
    return table[np.clip(named_rows(table.shape[0], numbers)[0], 0, table.shape[0] - 1)]


def write_rows(table: Array, numbers: Array, rows: Array) -> None:
    """Puts rows where whole numbers say, as far as the table has these."""
    found, named = named_rows(table.shape[0], numbers)
    table[found[named]] = rows[named]


def see_windows(tensor: Array, windows: Windows) -> Array:
    """What windows see of a tensor."""
    if not isinstance(tensor, ComponentArray):
        return windows.seen_in(tensor)
    zeros = tensor.lift(0.0).components
    parts = zip(tensor.components, zeros, strict=True)
    return tensor.of([windows.seen_in(part, zero) for part, zero in parts])


def put_rows(values: Array, table: Array, rows: Array, axis: int) -> Array:
    """The table with new values at whole numbers along an axis; those below 0 count from its end.

    The last of those that name one row stays.  Raises ``ExecutionError`` for a number that names
    none.
    """
    if isinstance(table, ComponentArray):
        return table.with_rows(values, rows, axis)
    return with_rows(values, table, rows, axis)


def sum_groups(value: Array, axis: int, groups: Groups, results: int) -> Array:
    """Sums groups of elements along ``axis``, whose extent becomes ``results``.

    Result ``j`` is the sum of elements ``j * start_step + k * step`` for ``k < count``; the groups
    are runs of neighbours (``step`` 1) or ``results`` apart, and together are all elements.
    """
    before, after = value.shape[:axis], value.shape[axis + 1 :]
    if groups.step == 1:
        return value.reshape(*before, results, groups.count, *after).sum(axis=axis + 1)
    return value.reshape(*before, groups.count, results, *after).sum(axis=axis)


def max_groups(value: Array, axis: int, groups: Groups, results: int) -> Array:
    """As :func:`sum_groups`, the largest element of each group."""
    grouped, along = _in_groups(value, axis, groups, results)
    return grouped.max(axis=along)


def arg_max_groups(value: Array, axis: int, groups: Groups, results: int) -> Array:
    """As :func:`sum_groups`, the first place of the largest element in each group, or of a NaN."""
    grouped, along = _in_groups(value, axis, groups, results)
    if isinstance(grouped, ComponentArray):
        shape = (*value.shape[:axis], results, *value.shape[axis + 1 :])
        return grouped.largest(along, 1)[1].reshape(*shape)
    return grouped.argmax(axis=along)


def largest(value: Array, axis: int, count: int) -> tuple[Array, Array]:
    """The largest elements along an axis, the largest first, and their places.

    Of equal elements the first ones count, and NaN is larger than all numbers.
    """
    if isinstance(value, ComponentArray):
        return value.largest(axis, count)
    first = (slice(None),) * axis
    places = np.lexsort((-value, ~np.isnan(value)), axis)[(*first, slice(count))]
    return np.take_along_axis(value, places, axis), places


def scan(value: Array, axis: int, decay: Array | None = None) -> Array:
    """The sums up to each element along an axis, or h_t = decay_t h_(t-1) + value_t.

    The decay's extents are those of the value, or 1.
    """
    if isinstance(value, ComponentArray):
        return value.scan(axis, decay)
    if decay is None:
        return np.add.accumulate(value, axis)
    return recurrence(value.copy(), axis, decay)


def recurrence(values: Any, axis: int, decay: Any) -> Any:
    """Adds to each element along an axis the one before it times a decay, from the second one on.

    ``values`` is written over and returned; the decay's extents are the same, or 1.
    """
    before = (slice(None),) * axis
    factors = 0 if decay.shape[axis] == 1 else 1
    for place in range(1, values.shape[axis]):
        here, last = (*before, slice(place, place + 1)), (*before, slice(place - 1, place))
        factor = decay[(*before, slice(factors * place, factors * place + 1))]
        values[here] = values[here] + factor * values[last]
    return values


def _in_groups(value: Array, axis: int, groups: Groups, results: int) -> tuple[Array, int]:
    """The elements with an axis of their own for those of a group, and which that is."""
    before, after = value.shape[:axis], value.shape[axis + 1 :]
    if groups.step == 1:
        return value.reshape(*before, results, groups.count, *after), axis + 1
    return value.reshape(*before, groups.count, results, *after), axis


def fall(earlier: Array, later: Array) -> Array:
    """``earlier - later`` of a running maximum; 0 where ``earlier`` is -infinity: no number yet."""
    if isinstance(earlier, ComponentArray):
        return earlier.fall_to(later)
    return np.where(earlier == -np.inf, later.dtype.type(0), earlier - later)


def sum_last(value: Array) -> Array:
    """The sum over the last axis, whose extent becomes 1."""
    return value.sum(axis=-1, keepdims=True)


def rms_norm(
    value: Array, last: int = 1, weight: Array | None = None, epsilon: float = 0.0
) -> Array:
    """x / sqrt(mean of x² + epsilon), times a weight, over the ``last`` axes."""
    if not value.shape[-1]:
        return value
    kept = value.shape[: value.ndim - last]
    rows = value.reshape(*kept, math.prod(value.shape[value.ndim - last :]))
    mean = np.square(rows).mean(axis=-1, keepdims=True)
    normalized = rows / np.sqrt(mean + epsilon if epsilon else mean)
    if weight is not None:
        normalized = normalized * weight.reshape(rows.shape[-1])
    return normalized.reshape(*value.shape)


def part_of(value: Array, start: Sequence[int], shape: Sequence[int]) -> Array:
    """The box of extents ``shape`` that starts at ``start``, as a view."""
    return value[tuple(slice(at, at + extent) for at, extent in zip(start, shape, strict=True))]
