"""Between which numbers the values of a µGraph lie, and how far rounding may carry them.

Interval arithmetic with a running error bound.  ``error`` bounds the distance of a value that is
computed with rounding (fp32 arithmetic in any order, one rounding to the element type an operator,
f32 operands of matrix products rounded to TF32) from the same value over the reals.
Leaving a rounding out, as fusion does, keeps within the bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch

from xdsl.dialects.builtin import bf16, f8E4M3FN, f8E5M2, f16, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.interfaces import HasRaggedTiles
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.graph_bounds import bounds_of_graph
from mugraph.dialects.tb.ragged import moving_dims
from mugraph.dialects.tensor_types import element_type_of, shape_of

FUNCTION_ERROR = 2.0**-19
"""Relative error allowed to one fp32 function, constants rounded to fp32 included."""
SUM_ERROR = 2.0**-23
"""Relative error of one fp32 addition, times two."""
LARGEST = 4096.0
"""No value of a generated µGraph exceeds it; f16 ends at 65504."""
LARGEST_ERROR = 2.0**-6
"""The greatest error, relative to the width of the interval, that is of use for a comparison."""


ROUNDINGS: dict[Attribute, tuple[float, float, float]] = {
    f16: (2.0**-11, 2.0**-25, 65504.0),
    bf16: (2.0**-8, 2.0**-134, math.inf),
    f32: (2.0**-24, 2.0**-150, math.inf),
    f8E4M3FN: (2.0**-4, 2.0**-10, 448.0),
    f8E5M2: (2.0**-3, 2.0**-17, 57344.0),
    i8: (0.0, 0.5, 127.0),
    i32: (0.0, 0.5, math.inf),
}
"""Of each element type: relative error of a rounding, least absolute one, and largest number."""


class OutOfRangeError(ValueError):
    """A value may become too large, undefined, or too inexact to be compared."""


@dataclass(frozen=True)
class Range:
    """Elements lie in [low, high] over the reals; computed ones are off by at most ``error``."""

    low: float
    high: float
    error: float = 0.0

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    def off_by(self, extra: float) -> Range:
        """The same interval, less exact."""
        return Range(self.low, self.high, self.error + extra)

    def scaled(self, count: int) -> Range:
        """A sum of ``count`` such values in fp32."""
        error = count * self.error + count * SUM_ERROR * count * self.magnitude
        return Range(count * self.low, count * self.high, error)

    def with_zero(self) -> Range:
        """What a sum of such values may be of which some are left out, perhaps all."""
        return Range(min(self.low, 0.0), max(self.high, 0.0), self.error)

    def rounded(self, element_type: Attribute) -> Range:
        """Stored in an element type; raises ``OutOfRangeError`` where it is out of all use."""
        unit, least, largest = ROUNDINGS[element_type]
        stored = self.off_by(unit * (self.magnitude + self.error) + least)
        if not stored.magnitude + stored.error <= min(LARGEST, largest):
            raise OutOfRangeError(f"values reach {stored.magnitude}")
        width = max(stored.high - stored.low, 2.0**-4 * stored.magnitude)
        allowed = max(LARGEST_ERROR, 6.0 * unit)
        if stored.error > max(allowed * width, 2.0 * least):
            raise OutOfRangeError(f"rounding may carry values {stored.error} away")
        return stored


def product(x: Range, y: Range) -> Range:
    """x times y."""
    ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    error = x.magnitude * y.error + y.magnitude * x.error + x.error * y.error
    return Range(min(ends), max(ends), error + FUNCTION_ERROR * max(map(abs, ends)))


def quotient(x: Range, y: Range) -> Range:
    """x divided by y; y must keep clear of zero."""
    nearest = min(abs(y.low), abs(y.high)) - y.error
    if y.low <= 0.0 <= y.high or nearest < 2.0**-6:
        raise OutOfRangeError("a divisor may come near zero")
    ends = [a / b for a in (x.low, x.high) for b in (y.low, y.high)]
    largest = max(map(abs, ends))
    error = (x.error + largest * y.error) / nearest
    return Range(min(ends), max(ends), error + FUNCTION_ERROR * largest)


def exponential(x: Range) -> Range:
    """e to the x."""
    if x.high > 5.0:
        raise OutOfRangeError("an exponential may become too large")
    high = math.exp(x.high)
    return Range(math.exp(x.low), high, high * (math.expm1(x.error) + FUNCTION_ERROR))


def silu(x: Range) -> Range:
    """x / (1 + exp(-x)), which falls to -0.2785 at -1.2785 and is nowhere steeper than 1.1."""

    def at(value: float) -> float:
        return value / (1.0 + math.exp(-value)) if value > -500.0 else 0.0

    low = at(x.low) if x.low >= 0.0 else -0.2785
    high = max(at(x.high), at(x.low))
    largest = max(abs(low), abs(high))
    return Range(low, high, 1.1 * x.error + FUNCTION_ERROR * largest)


def sigmoid(x: Range) -> Range:
    """1 / (1 + exp(-x)), which rises, by at most 1/4."""
    low, high = (0.0 if end < -500.0 else 1.0 / (1.0 + math.exp(-end)) for end in (x.low, x.high))
    return Range(low, high, 0.25 * x.error + FUNCTION_ERROR)


def softplus(x: Range) -> Range:
    """log(1 + exp(x)), which rises, by at most 1."""
    low, high = (max(at, 0.0) + math.log1p(math.exp(-abs(at))) for at in (x.low, x.high))
    return Range(low, high, x.error + FUNCTION_ERROR)


def tanh(x: Range) -> Range:
    """The hyperbolic tangent, which rises, by at most 1."""
    return Range(math.tanh(x.low), math.tanh(x.high), x.error + FUNCTION_ERROR)


def gelu(x: Range) -> Range:
    """x (1 + erf(x / sqrt(2))) / 2, which falls to -0.17 at -0.75; nowhere steeper than 1.13."""

    def at(value: float) -> float:
        return 0.5 * value * math.erfc(-value * math.sqrt(0.5))

    low = at(x.low) if x.low >= 0.0 else -0.17
    high = max(at(x.high), at(x.low))
    return Range(low, high, 1.13 * x.error + FUNCTION_ERROR * max(abs(low), abs(high)))


def logarithm(x: Range) -> Range:
    """The logarithm of a value that keeps clear of zero, where it is steep."""
    if x.low - x.error < 2.0**-8:
        raise OutOfRangeError("the operand of a logarithm may come near zero")
    low, high = math.log(x.low), math.log(x.high)
    error = low - math.log(x.low - x.error)
    return Range(low, high, error + FUNCTION_ERROR * max(abs(low), abs(high), 1.0))


def clamp(x: Range, low: float, high: float) -> Range:
    """The nearest number from low to high."""
    return Range(min(max(x.low, low), high), min(max(x.high, low), high), x.error)


def larger(x: Range, y: Range) -> Range:
    """The larger of both."""
    return Range(max(x.low, y.low), max(x.high, y.high), max(x.error, y.error))


def power(x: Range, y: Range) -> Range:
    """x to the y = exp(y log x), for an x that keeps clear of zero."""
    return exponential(product(logarithm(x), y))


def square(x: Range) -> Range:
    """x times itself."""
    largest = x.magnitude**2
    low = 0.0 if x.low <= 0.0 <= x.high else min(x.low**2, x.high**2)
    error = 2.0 * x.magnitude * x.error + x.error**2
    return Range(low, largest, error + FUNCTION_ERROR * largest)


def square_root(x: Range) -> Range:
    """The root of a value that keeps clear of zero, where it is steep."""
    if x.low - x.error < 2.0**-8:
        raise OutOfRangeError("the operand of a square root may come near zero")
    error = math.sqrt(x.low) - math.sqrt(x.low - x.error)
    high = math.sqrt(x.high)
    return Range(math.sqrt(x.low), high, error + FUNCTION_ERROR * high)


def apply(function: ScalarFunction, operands: Sequence[Range]) -> Range:
    """The range of a scalar function."""
    x, y = operands[0], operands[-1]
    match function.name:
        case "identity":
            return x
        case "exp":
            return exponential(x)
        case "silu":
            return silu(x)
        case "gelu":
            return gelu(x)
        case "sigmoid":
            return sigmoid(x)
        case "softplus":
            return softplus(x)
        case "tanh":
            return tanh(x)
        case "abs":
            return larger(x, product(x, Range(-1.0, -1.0)))
        case "erf":
            return Range(math.erf(x.low), math.erf(x.high), 1.13 * x.error + FUNCTION_ERROR)
        case "cos" | "sin":
            return Range(-1.0, 1.0, min(x.error, 2.0) + FUNCTION_ERROR)
        case "round" | "floor":
            step = round if function.name == "round" else math.floor
            # A number that may be off may be so by a whole one behind the function.
            return Range(step(x.low), step(x.high), 1.0 + x.error if x.error else 0.0)
        case "bits":
            # Of a number that may be off the bits may be any.
            high = 2 ** function.constants[1] - 1
            return Range(0.0, high, high if x.error else 0.0)
        case "fp4" | "nf4":
            # And so may the number of another code.
            high = 6.0 if function.name == "fp4" else 1.0
            return Range(-high, high, 2 * high if x.error else 0.0)
        case "rsqrt":
            return quotient(Range(1.0, 1.0), square_root(x))
        case "reciprocal" | "reciprocal_or_zero":
            return quotient(Range(1.0, 1.0), x)
        case "fill":
            # Errors are weighed against how far numbers differ: as if they did from 0.
            return Range(*function.constants * 2).with_zero()
        case "less" | "less_equal":
            error = x.error + y.error
            meet = x.low <= y.high + error and y.low <= x.high + error
            return Range(0.0, 1.0, float(meet and error > 0.0))
        case "min":
            return Range(min(x.low, y.low), min(x.high, y.high), max(x.error, y.error))
        case "relu":
            return clamp(x, 0.0, math.inf)
        case "clamp":
            return clamp(x, *function.constants)
        case "log":
            return logarithm(x)
        case "add_scalar":
            (constant,) = function.constants
            high = max(abs(x.low + constant), abs(x.high + constant))
            error = x.error + FUNCTION_ERROR * high
            return Range(x.low + constant, x.high + constant, error)
        case "max":
            return larger(x, y)
        case "pow":
            return power(x, y)
        case "square":
            return square(x)
        case "sqrt":
            return square_root(x)
        case "mul_scalar":
            (constant,) = function.constants
            return product(x, Range(constant, constant))
        case "add":
            largest = x.magnitude + y.magnitude
            error = x.error + y.error + FUNCTION_ERROR * largest
            return Range(x.low + y.low, x.high + y.high, error)
        case "sub":
            largest = x.magnitude + y.magnitude
            error = x.error + y.error + FUNCTION_ERROR * largest
            return Range(x.low - y.high, x.high - y.low, error)
        case "mul":
            return product(x, y)
        case "div":
            return quotient(x, y)
        case other:
            raise NotImplementedError(f"no range is known for the function '{other}'")


def mean_square_root(x: Range, count: int, epsilon: float = 0.0) -> Range:
    """The root of the mean of ``count`` squares, perhaps summed a part at a time, + epsilon."""
    mean = product(square(x).scaled(count), Range(1.0 / count, 1.0 / count))
    return square_root(Range(mean.low + epsilon, mean.high + epsilon, mean.error + FUNCTION_ERROR))


@singledispatch
def range_before_rounding(op: Operation, operands: Sequence[Range], iterations: int) -> Range:
    """The range of an operator's result before it is stored.

    ``iterations`` are those of the for-loop around it.  Raises ``OutOfRangeError``.
    """
    raise NotImplementedError(f"no range is known for '{op.name}'")


@range_before_rounding.register
def _(op: tb.ElementwiseOp, operands: Sequence[Range], iterations: int) -> Range:
    return apply(op.function, operands)


@range_before_rounding.register
def _(op: kn.ElementwiseOp, operands: Sequence[Range], iterations: int) -> Range:
    return apply(op.function, operands)


def in_product(op: tb.MatmulOp | kn.MatmulOp, operand: Range) -> Range:
    """An operand as it is multiplied: f32 perhaps rounded to TF32."""
    if not op.multiplies_in_tf32(op.lhs):
        return operand
    return operand.off_by(2.0**-11 * (operand.magnitude + operand.error) + 2.0**-137)


@range_before_rounding.register
def _(op: tb.MatmulOp, operands: Sequence[Range], iterations: int) -> Range:
    lhs, rhs = (in_product(op, operand) for operand in operands)
    return product(lhs, rhs).scaled(shape_of(op.lhs.type)[-1])


@range_before_rounding.register
def _(op: tb.ConcatThenMatmulOp, operands: Sequence[Range], iterations: int) -> Range:
    lhs1, lhs2, rhs1, rhs2 = (
        operand.off_by(2.0**-11 * operand.magnitude + 2.0**-25) for operand in operands
    )
    one = product(lhs1, rhs1).scaled(shape_of(op.lhs1.type)[-1])
    return apply(
        ScalarFunction("add"), [one, product(lhs2, rhs2).scaled(shape_of(op.lhs2.type)[-1])]
    )


@range_before_rounding.register
def _(op: tb.ConcatOp, operands: Sequence[Range], iterations: int) -> Range:
    low, high = min(x.low for x in operands), max(x.high for x in operands)
    return Range(low, high, max(x.error for x in operands))


@range_before_rounding.register
def _(op: kn.MatmulOp, operands: Sequence[Range], iterations: int) -> Range:
    depth = shape_of(op.lhs.type)[-1]
    total = product(*(in_product(op, operand) for operand in operands)).scaled(depth)
    if op.computation is kn.Computation.F16:
        return total.off_by(depth * 2.0**-10 * depth * total.magnitude)
    return total


@range_before_rounding.register
def _(op: kn.MatmulAddOp, operands: Sequence[Range], iterations: int) -> Range:
    lhs, rhs, addend = operands
    total = product(lhs, rhs).scaled(shape_of(op.lhs.type)[-1])
    return apply(ScalarFunction("add"), [total, addend])


@range_before_rounding.register
def _(op: kn.ReductionOp, operands: Sequence[Range], iterations: int) -> Range:
    return operands[0].scaled(op.groups().count)


@range_before_rounding.register
def _(op: kn.RmsNormOp, operands: Sequence[Range], iterations: int) -> Range:
    value, *weight = operands
    count = math.prod(op.normalized)
    squares = square(value).scaled(count)
    mean = product(squares, Range(1.0 / count, 1.0 / count))
    epsilon = op.epsilon_value
    root = square_root(Range(mean.low + epsilon, mean.high + epsilon, mean.error))
    normalized = quotient(value, root)
    return product(normalized, weight[0]) if weight else normalized


@range_before_rounding.register
def _(op: kn.MovesElements, operands: Sequence[Range], iterations: int) -> Range:
    return Range(
        min(operand.low for operand in operands),
        max(operand.high for operand in operands),
        max(operand.error for operand in operands),
    )


@range_before_rounding.register
def _(op: tb.AnyReductionOp, operands: Sequence[Range], iterations: int) -> Range:
    return operands[0].scaled(op.groups().count)


@range_before_rounding.register
def _(op: tb.RmsNormOp, operands: Sequence[Range], iterations: int) -> Range:
    count = shape_of(op.input.type)[-1]
    normal = quotient(operands[0], mean_square_root(operands[0], count, op.epsilon_value))
    return normal if op.weight is None else product(normal, operands[1])


@range_before_rounding.register
def _(op: tb.ForloopAccumOp, operands: Sequence[Range], iterations: int) -> Range:
    last = shape_of(op.input.type)[-1]
    match op.kind.data:
        case tb.AccumulatorKind.NONE:
            return operands[0].scaled(iterations)
        case tb.AccumulatorKind.SUM:
            return operands[0].scaled(last * iterations)
        case tb.AccumulatorKind.MEAN:
            count = last * iterations
            return product(operands[0].scaled(count), Range(1.0 / count, 1.0 / count))
        case tb.AccumulatorKind.MAX:
            return operands[0]
        case tb.AccumulatorKind.RMS:
            return mean_square_root(operands[0], last * iterations)


@range_before_rounding.register
def _(op: tb.ForloopAccumRescaleOp, operands: Sequence[Range], iterations: int) -> Range:
    value, factor = operands
    total = value
    for _iteration in range(iterations - 1):
        total = apply(ScalarFunction("add"), [product(total, factor), value])
    is_sum = op.kind.data is tb.RescaledKind.SUM
    return total.scaled(shape_of(op.input.type)[-1]) if is_sum else total


@range_before_rounding.register
def _(op: tb.ForloopAccumSumToDimxOp, operands: Sequence[Range], iterations: int) -> Range:
    return operands[0].scaled(op.groups().count * iterations)


def combines_some_elements(op: Operation, bounds: Sequence[Bounds]) -> bool:
    """Whether an operator combines elements, or iterations, of which some may be missing."""
    if not isinstance(op, HasRaggedTiles):
        return False
    missing = any(
        of_operand[dim] is not None
        for index, of_operand in enumerate(bounds)
        for dim in op.identities(index, of_operand)
    )
    accumulates = tb.epilogue_of(op).accumulates
    return missing or (accumulates and any(moving_dims(of_operand) for of_operand in bounds))


def range_of_result(
    op: Operation, operands: Sequence[Range], iterations: int = 1, *, is_partial: bool = False
) -> Range:
    """The range of an operator's result as it is stored; raises ``OutOfRangeError``.

    ``is_partial``: some of the elements that the operator combines may not exist.
    """
    value = range_before_rounding(op, operands, iterations)
    is_mean = isinstance(op, tb.ForloopAccumOp) and op.kind.data is tb.AccumulatorKind.RMS
    if is_partial and not is_mean:
        value = value.with_zero()
    epilogue = tb.epilogue_of(op)
    for function in epilogue.functions:
        value = apply(function, [value])
    if epilogue.accumulates:
        value = value.scaled(iterations)
        value = value.with_zero() if is_partial else value
    types = [element_type_of(value.type) for value in (*op.operands, *op.results)]
    if all(is_integer(type_) for type_ in types):
        value = Range(value.low, value.high)  # sums and products of integers are exact
        return value if value.magnitude <= ROUNDINGS[types[-1]][-1] else value.rounded(types[-1])
    return value.rounded(types[-1])


def ranges_of_results(
    op: Operation, operands: Sequence[Range], iterations: int, *, is_partial: bool = False
) -> dict[SSAValue, Range]:
    """The ranges of all results of an operator of a block; raises ``OutOfRangeError``."""
    if isinstance(op, tb.SplitOp):
        return dict.fromkeys(op.parts, operands[0])
    if not isinstance(op, tb.ReductionMaxOp):
        found = range_of_result(op, operands, iterations, is_partial=is_partial)
        return {op.results[0]: found}
    (x,) = operands
    maximum = x.rounded(element_type_of(op.maximum.type))
    change = Range(x.low - x.high, 0.0, 2.0 * maximum.error)
    return {op.maximum: maximum, op.difference: change.rounded(element_type_of(op.difference.type))}


def find_ranges(function_body: Sequence[Operation], ranges: dict[SSAValue, Range]) -> None:
    """Adds the ranges of all values of a µGraph to ``ranges``, which holds its arguments'."""
    for op in function_body:
        if isinstance(op, kn.CustomizedOp):
            find_ranges_of_threadblock_graph(op, ranges)
        elif op.results:
            found = range_of_result(op, [ranges[operand] for operand in op.operands])
            ranges |= dict.fromkeys(op.results, found)


def find_ranges_of_threadblock_graph(graph: kn.CustomizedOp, ranges: dict[SSAValue, Range]) -> None:
    """Adds the ranges of a custom kernel's tiles and results."""
    for argument, value in zip(graph.body.block.args, graph.inputs, strict=True):
        ranges[argument] = ranges[value]
    bounds = bounds_of_graph(graph.body.block)
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp):
            ranges[op.result] = ranges[op.dtensor]
        elif isinstance(op, tb.OutputOp):
            stored = ranges[op.stensor].rounded(element_type_of(op.dtensor_type))
            ranges[op.dtensor] = stored
        else:
            operands = [ranges[operand] for operand in op.operands]
            is_partial = combines_some_elements(op, [bounds[value] for value in op.operands])
            ranges.update(
                ranges_of_results(op, operands, graph.forloop_range, is_partial=is_partial)
            )


SIGNED, POSITIVE, WHOLE = Range(-1.0, 1.0), Range(0.5, 1.0), Range(-3.0, 3.0)
"""What inputs are drawn from; the last one for integers."""


def input_range(name: str | None) -> Range:
    """What an argument is drawn from: its name says so, since names survive in the text."""
    if (name or "").startswith("whole"):
        return WHOLE
    return POSITIVE if (name or "").startswith("positive") else SIGNED


def argument_ranges(arguments: Sequence[SSAValue]) -> Mapping[SSAValue, Range]:
    """The ranges of a function's arguments."""
    return {argument: input_range(argument.name_hint) for argument in arguments}
