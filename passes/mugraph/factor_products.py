"""``--factor-products``: scales leave the products of numbers of few bits, and halves stand alone.

A product of dequantised weights is one of what they are made of: a scale that does not change along
what a product sums over multiplies the sum as well, once for each element of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.element_types import (
    DESCRIPTIONS,
    F8_TYPES,
    HALF_TYPES,
    is_integer,
)
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.each import GraphPass

KEEPS_FEW_BITS = frozenset({"identity", "bits", "fp4", "nf4", "add_scalar", "floor", "round"})
"""Functions that make numbers of few bits of such: a type of 16 bits rounds them hardly or not."""


def keeps_few_bits(function: ScalarFunction) -> bool:
    """Whether a function makes numbers of few bits of such."""
    if function.name == "mul_scalar":
        return abs(math.frexp(function.constants[0])[0]) == EXACT
    return function.name in KEEPS_FEW_BITS


EXACT = 0.5
"""The mantissa of powers of two."""


def narrow_source(value: SSAValue) -> SSAValue | None:
    """The tile of 8 bits that a value is a function of, element by element; ``None`` for others."""
    while isinstance(value.owner, tb.UnaryOp) and not tb.epilogue_of(value.owner):
        if not keeps_few_bits(value.owner.function):
            return None
        value = value.owner.input
    return value if DESCRIPTIONS[element_type_of(value.type)].bits == 8 else None


def _with(op: Operation, operands: Sequence[SSAValue], type_: Attribute) -> Operation:
    """An operator of one result with other operands."""
    made = type(op).create(operands=operands, result_types=[type_], properties=dict(op.properties))
    inherit_location(made, op)
    return made


def _with_extent(value: SSAValue, dim: int, extent: int) -> tb.STensorType:
    """The type of a tile, but for one extent."""
    shape = shape_of(value.type)
    return tb.STensorType((*shape[:dim], extent, *shape[dim + 1 :]), element_type_of(value.type))


def _replace(op: Operation, written: Sequence[Operation]) -> None:
    """Puts operators, of which the last one gives the result, in the place of another."""
    Rewriter.insert_op(written, InsertPoint.before(op))
    op.results[0].replace_all_uses_with(written[-1].results[0])
    Rewriter.erase_op(op)


# Scales.


@dataclass(frozen=True)
class Factor:
    """An operand of a product without its scale, and the scale; of an operand without, that."""

    numbers: SSAValue
    scale: SSAValue | None = None


def factor_of(value: SSAValue, summed: int) -> Factor:
    """An operand whose dimension ``summed`` a product sums over.

    It has a scale where few bits are multiplied by one that does not change along that dimension.
    """
    op = value.owner
    if isinstance(op, tb.CastOp) and not is_integer(element_type_of(op.input.type)):
        op = op.input.owner  # what it rounds is multiplied with more bits now
    if isinstance(op, tb.MulOp) and not tb.epilogue_of(op):
        for numbers, scale in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            is_scale = shape_of(scale.type)[summed] == 1
            is_whole = shape_of(numbers.type) == shape_of(value.type)
            if is_scale and is_whole and narrow_source(numbers) is not None:
                return Factor(numbers, scale)
    return Factor(value)


def _is_cast_of(value: SSAValue, types: frozenset[Attribute]) -> SSAValue | None:
    """The tile that a value is in a wider type, which holds all of its numbers."""
    source = value
    while isinstance(source.owner, tb.CastOp) and not tb.epilogue_of(source.owner):
        source = source.owner.input
    return source if element_type_of(source.type) in types else None


def _multiplied(op: tb.MatmulOp, factors: Sequence[Factor]) -> list[Operation]:
    """The product without scales, in f32, of numbers as narrow as an instruction takes both."""
    result = tb.STensorType(shape_of(op.result.type), f32)
    for types in (F8_TYPES, frozenset[Attribute]({i8})):
        stored = [_is_cast_of(factor.numbers, types) for factor in factors]
        if stored[0] is None or stored[1] is None:
            continue
        if types is F8_TYPES:
            return [tb.MatmulOp(stored[0], stored[1], result)]
        whole = tb.MatmulOp(stored[0], stored[1], tb.STensorType(shape_of(op.result.type), i32))
        return [whole, tb.CastOp(whole.result, result)]
    written: list[Operation] = []

    def typed(value: SSAValue) -> SSAValue:
        element = element_type_of(op.lhs.type)
        if element_type_of(value.type) == element:
            return value
        cast = tb.CastOp(value, tb.STensorType(shape_of(value.type), element))
        written.append(cast)
        return cast.result

    lhs, rhs = (typed(factor.numbers) for factor in factors)
    return [*written, tb.MatmulOp(lhs, rhs, result)]


def scale_after(op: tb.MatmulOp) -> bool:
    """Multiplies by scales after a product; whether it had any."""
    element = element_type_of(op.lhs.type)
    if tb.epilogue_of(op) or is_integer(element) or op.is_ieee or element not in HALF_TYPES:
        return False
    factors = [factor_of(op.lhs, -1), factor_of(op.rhs, -2)]
    if all(factor.scale is None for factor in factors):
        return False
    written = _multiplied(op, factors)
    scales = [factor.scale for factor in factors if factor.scale is not None]
    if len(scales) > 1:
        joint = broadcast_shape([shape_of(scale.type) for scale in scales])
        if math.prod(joint) < math.prod(shape_of(op.result.type)):
            both = tb.MulOp(scales[0], scales[1], tb.STensorType(joint, f32))
            written, scales = [both, *written], [both.result]
    for place, scale in enumerate(scales, 1):
        is_last = place == len(scales)
        type_ = op.result.type if is_last else tb.STensorType(shape_of(op.result.type), f32)
        written.append(tb.MulOp(written[-1].results[0], scale, type_))
    for each in written:
        inherit_location(each, op)
    _replace(op, written)
    return True


def scale_behind_loop(op: tb.MulOp) -> bool:
    """Multiplies sums over the loop by what is the same in all iterations; whether that was done.

    Only of what products are multiplied by in each.
    """
    if not isinstance(op.lhs.owner, tb.MatmulOp | tb.MulOp | tb.CastOp) or tb.epilogue_of(op):
        return False
    users = [use.operation for use in op.result.uses]
    if len(users) != 1 or not isinstance(total := users[0], tb.ForloopAccumOp):
        return False
    if total.kind.data is not tb.AccumulatorKind.NONE or tb.epilogue_of(total):
        return False
    scale = op.rhs.owner
    if not isinstance(scale, tb.InputOp) or scale.fordim is not None:
        return False
    sums = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, op.lhs, op.lhs.type)
    _replace(total, [sums, tb.MulOp(sums.result, op.rhs, total.result.type)])
    Rewriter.erase_op(op)
    return True


# Halves.


def _concatenation(value: SSAValue, dim: int) -> tb.ConcatOp | None:
    """What puts parts of extent 1 side by side along a dimension to make a value."""
    op = value.owner
    if not isinstance(op, tb.ConcatOp) or op.joined_dim != dim:
        return None
    return op if all(shape_of(part.type)[dim] == 1 for part in op.inputs) else None


def _made_of_parts(value: SSAValue, rank: int) -> tuple[tb.ConcatOp, ...]:
    """Concatenations along dimensions of several matrices that a right matrix is made of."""
    op = value.owner
    if isinstance(op, tb.ConcatOp):
        dim = op.joined_dim
        return (op,) if dim < rank - 2 and _concatenation(value, dim) is not None else ()
    if isinstance(op, tb.ElementwiseOp) and not tb.epilogue_of(op):
        return tuple(found for operand in op.operands for found in _made_of_parts(operand, rank))
    return ()


def _parts(value: SSAValue, dim: int, count: int) -> tuple[list[Operation], Sequence[SSAValue]]:
    """The parts of a value along a dimension, and what cuts it where nothing put it together."""
    joined = _concatenation(value, dim)
    if joined is not None:
        return [], joined.inputs
    if shape_of(value.type)[dim] == 1:
        return [], [value] * count
    cut = tb.SplitOp(value, dim, [_with_extent(value, dim, 1)] * count)
    return [cut], cut.parts


def _apart(op: Operation, dim: int, count: int) -> list[Operation]:
    """An operator on each of the parts of its operands, and their concatenation."""
    result = op.results[0]
    cuts: list[Operation] = []
    columns: list[Sequence[SSAValue]] = []
    for operand in op.operands:
        cut, parts = _parts(operand, dim, count)
        cuts += cut
        columns.append(parts)
    type_ = _with_extent(result, dim, 1)
    made = [_with(op, operands, type_) for operands in zip(*columns, strict=True)]
    return [*cuts, *made, tb.ConcatOp([each.results[0] for each in made], dim, result.type)]


def _summed(op: tb.ReductionOp, parts: Sequence[SSAValue]) -> list[Operation]:
    """The sum over the dimension along which parts stand."""
    total, written = parts[0], list[Operation]()
    for place, part in enumerate(parts[1:], 2):
        type_ = op.result.type if place == len(parts) else total.type
        written.append(tb.AddOp(total, part, type_))
        total = written[-1].results[0]
    return written


def _sinks(op: Operation, dim: int, count: int) -> Callable[[], list[Operation]] | None:
    """How an operator on a concatenation is written on its parts; ``None`` where it is not."""
    if len(op.results) != 1 or tb.epilogue_of(op):
        return None
    if isinstance(op, tb.ReductionOp):
        if op.reduced_dim != dim:
            return lambda: _apart(op, dim, count)
        joined = _concatenation(op.input, dim)
        return None if joined is None or count < 2 else lambda: _summed(op, joined.inputs)
    if isinstance(op, tb.ForloopAccumOp):
        plain = op.kind.data is tb.AccumulatorKind.NONE
        return (lambda: _apart(op, dim, count)) if plain else None
    if isinstance(op, tb.MatmulOp) and dim < len(shape_of(op.result.type)) - 2:
        return lambda: _apart(op, dim, count)
    if isinstance(op, tb.ElementwiseOp):
        return lambda: _apart(op, dim, count)
    return None


def sink(joined: tb.ConcatOp) -> None:
    """Lets all that follows from a concatenation work on its parts, until their sum is taken."""
    dim, count = joined.joined_dim, len(joined.inputs)
    pending = [joined]
    while pending:
        value = pending.pop()
        for use in list(value.result.uses):
            op = use.operation
            written = _sinks(op, dim, count)
            if op.parent is None or written is None:
                continue
            made = written()
            last = made[-1]
            _replace(op, made)
            if isinstance(last, tb.ConcatOp):
                pending.append(last)
        if not value.result.uses.get_length():
            Rewriter.erase_op(value)


# Sums of products that are scaled alike.


def _is_linear(op: Operation) -> bool:
    """Whether an operator of the sum of two tiles is the sum of what it makes of each."""
    if isinstance(op, tb.ForloopAccumOp):
        return op.kind.data is tb.AccumulatorKind.NONE and not tb.epilogue_of(op)
    return isinstance(op, tb.MulOp | tb.ReductionOp) and not tb.epilogue_of(op)


def _alike(parts: Sequence[SSAValue]) -> Sequence[Operation] | None:
    """What makes parts, where each is the same linear function of one of its own."""
    first, *others = ops = [part.owner for part in parts if isinstance(part.owner, Operation)]
    if len(ops) != len(parts) or not _is_linear(first):
        return None
    for op in others:
        same = type(op) is type(first) and op.properties == first.properties
        if not same or op.operands[1:] != first.operands[1:] or op.operands[0] is first.operands[0]:
            return None
    is_alone = all(op.results[0].uses.get_length() == 1 for op in ops)
    return ops if is_alone and len({op.operands[0].type for op in ops}) == 1 else None


def add_products(op: tb.AddOp) -> bool:
    """Adds two products before they are scaled alike and summed, not after; whether that was done.

    Then one fragment holds both: an instruction adds to what the one before gave.
    """
    levels: list[Sequence[Operation]] = []
    parts: Sequence[SSAValue] = (op.lhs, op.rhs)
    while (ops := _alike(parts)) is not None:
        levels.append(ops)
        parts = [each.operands[0] for each in ops]
    if not levels or not all(isinstance(part.owner, tb.MatmulOp) for part in parts):
        return False
    if element_type_of(parts[0].type) != f32:
        return False
    written: list[Operation] = [tb.AddOp(parts[0], parts[1], parts[0].type)]
    for first, *_ in reversed(levels):
        made = [written[-1].results[0], *first.operands[1:]]
        written.append(_with(first, made, first.results[0].type))
    if written[-1].results[0].type != op.result.type:
        written.append(tb.CastOp(written[-1].results[0], op.result.type))
    _replace(op, written)
    for ops in levels:
        for each in ops:
            Rewriter.erase_op(each)
    return True


def factor_products(graph: CustomizedOp) -> None:
    """Rewrites the products of a µGraph."""
    products = [op for op in graph.body.block.ops if isinstance(op, tb.MatmulOp)]
    for op in products:
        rank = len(shape_of(op.result.type))
        if op.parent is not None and narrow_parts(found := _made_of_parts(op.rhs, rank)):
            sink(found[0])
    scaled = [op for op in graph.body.block.ops if isinstance(op, tb.MatmulOp) and scale_after(op)]
    if scaled:
        # The last scale first: it alone is added up.
        for op in reversed([op for op in graph.body.block.ops if isinstance(op, tb.MulOp)]):
            scale_behind_loop(op)
        for op in list(graph.body.block.ops):
            if isinstance(op, tb.AddOp) and not tb.epilogue_of(op):
                add_products(op)
    for op in reversed(list(graph.body.block.ops)):
        if isinstance(op, tb.ElementwiseOp | tb.SplitOp | tb.ConcatOp) and not any(
            result.uses.get_length() for result in op.results
        ):
            Rewriter.erase_op(op)


def narrow_parts(found: Sequence[tb.ConcatOp]) -> bool:
    """Whether parts are numbers of few bits, as two in a byte are."""
    return bool(found) and all(narrow_source(part) is not None for part in found[0].inputs)


class FactorProductsPass(GraphPass):
    """Moves scales and halves of narrow operands out of products.

    - ``x @ (w * s)``, where ``w`` is made of elements of 8 bits and ``s`` does not change along
      what is summed over, is ``(x @ w) * s``; likewise of the left matrix.  Where both are f8 or i8
      then, they are multiplied as they are stored.  A scale that is the same in all iterations
      of the loop multiplies the sums behind it.
    - Where several right matrices are a concatenation, as of the numbers in the low and in the
      high bits of bytes, each is multiplied by itself, and all that follows is done to each, up to
      their sum.

    So scales are applied to the sums of a group, and the right matrix is a function of one stored
    element, which threads compute as they load it.

    Before::

        %n = tb.cast %w : !tb.stensor<128x64xi8> -> !tb.stensor<128x64xf32>
        %d = tb.mul %n, %s : (..., !tb.stensor<1x64xbf16>) -> !tb.stensor<128x64xbf16>
        %y = tb.matmul %x, %d : ... -> !tb.stensor<16x64xf32>

    After::

        %b = tb.cast %w : !tb.stensor<128x64xi8> -> !tb.stensor<128x64xbf16>
        %p = tb.matmul %x, %b : ... -> !tb.stensor<16x64xf32>
        %y = tb.mul %p, %s : (..., !tb.stensor<1x64xbf16>) -> !tb.stensor<16x64xf32>
    """

    name = "factor-products"

    def run(self, graph: CustomizedOp) -> None:
        """Rewrites a threadblock graph."""
        factor_products(graph)
