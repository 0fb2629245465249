"""Shorter ways to say what a chain of fragments computes: one function a pattern.

They match ``sched.map`` and ``sched.reduce``, whoever wrote them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.elementwise import (
    Epilogue,
    EpilogueAttr,
    ScalarFunction,
    ScalarFunctionAttr,
    round_to_fp32,
)
from mugraph.dialects.interfaces import read_by, written_by
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.schedule.promote_registers.mma_analysis import Uses, operators_of
from mugraph.passes.schedule.promote_registers.mma_rewrite import rows_of


def _users(kernel: sched.KernelOp, value: SSAValue) -> list[Operation]:
    """The operators that touch a value, in the order of the text."""
    return [op for op in operators_of(kernel) if value in op.operands]


def _phase(op: Operation) -> Operation | None:
    return op.parent_op()


def _in_loop(op: Operation) -> bool:
    return isinstance(_phase(op), sched.ForloopOp)


def _is_map(op: Operation) -> TypeGuard[sched.MapOp]:
    """Whether an operator computes on the fragments of products."""
    return isinstance(op, sched.MapOp) and sched.is_of_product(op.destination)


def _reduces_rows(op: Operation) -> TypeGuard[sched.ReduceOp]:
    """Whether an operator makes numbers of the rows of a product."""
    return isinstance(op, sched.ReduceOp) and sched.is_of_product(op.destination)


def _is_function(op: Operation, name: str) -> TypeGuard[sched.MapOp]:
    return _is_map(op) and op.function.data.name == name


def accumulate_in_place(kernel: sched.KernelOp) -> None:
    """Adds products to a sum itself, which may be rescaled before.

    ``sum = sum * r + p`` and ``sum = sum + p`` become a product into it.

    Before: ``fill %p``, ``mma to %p``, ``map mul_add %sum, %r, %p to %sum``.  After: ``map mul
    %sum, %r to %sum``, ``mma to %sum``.
    """
    for op in operators_of(kernel):
        if not (_is_function(op, "mul_add") or _is_function(op, "add")) or epilogue_of(op):
            continue
        total, *factors, product = op.sources
        if total is not op.destination or total is product or total.type != product.type:
            continue
        users = _users(kernel, product)
        if len(users) != 3 or users[2] is not op:
            continue
        fill, mma, _ = users
        if not isinstance(fill, sched.FillOp) or not isinstance(mma, sched.MmaOp):
            continue
        block = op.parent_block()
        if mma.parent_block() is not block or mma.accumulator is not product or block is None:
            continue
        between = list(block.ops)
        between = between[between.index(mma) : between.index(op)]
        uses = Uses.of(between)
        written = {*factors, total} & uses.writers.keys()
        if written or total in uses.readers:
            continue
        if factors:
            scale = sched.MapOp(ScalarFunction("mul"), [total, *factors], total)
            Rewriter.insert_op(scale, InsertPoint.before(mma))
        mma.operands[2] = total
        Rewriter.erase_op(op)
        Rewriter.erase_op(fill)
        if isinstance(product.owner, Operation):
            Rewriter.erase_op(product.owner)


def _retype(value: SSAValue, columns: int) -> SSAValue:
    """The same registers as numbers of rows, with a column for each lane."""
    type_ = value.type
    assert isinstance(type_, sched.TileType) and type_.arrangement is not None
    shape = (*type_.get_shape()[:-1], columns)
    wanted = sched.TileType.of(shape, f32, rows_of(type_.arrangement, len(shape)))
    return Rewriter.replace_value_with_new_type(value, wanted)


def _lanes_of_a_row(value: SSAValue) -> int:
    """How many lanes share a row of a product, given its fragment or one of its rows."""
    type_ = value.type
    assert isinstance(type_, sched.TileType) and type_.arrangement is not None
    shape = type_.get_shape()
    rows = rows_of(type_.arrangement, len(shape))
    return rows.thread_values((*shape[:-1], 1)).holders


def _is_zeroed_outside(op: Operation) -> bool:
    return isinstance(op, sched.FillOp) and not _in_loop(op) and op.value.value.data == 0.0


def sum_rows_early(kernel: sched.KernelOp) -> None:
    """Sums rows as they come, where whole products are added up only to be summed after the loop.

    Before: ``map identity %x to %all then [accum]`` in the loop, ``reduce %all to %sum``.
    After: ``reduce %x to %parts then [accum]``, ``reduce %parts to %sum``.
    """
    for op in operators_of(kernel):
        if not _is_function(op, "identity"):
            continue
        total, (source, *_) = op.destination, op.sources
        if epilogue_of(op) != Epilogue(accumulates=True) or not _in_loop(op):
            continue
        users = _users(kernel, total)
        if len(users) != 3 or not _is_zeroed_outside(users[0]) or users[1] is not op:
            continue
        last = users[2]
        if not _reduces_rows(last) or _in_loop(last) or last.source is not total:
            continue
        if last.combination is not sched.Combiner.SUM or source.type != total.type:
            continue
        total = _retype(total, _lanes_of_a_row(op.sources[0]))
        part = sched.ReduceOp(source, total, last.reduced_dim, Epilogue(accumulates=True))
        Rewriter.replace_op(op, part)


def combine_lanes_late(kernel: sched.KernelOp) -> None:
    """Lets lanes keep their own parts of a row's sum during the loop; they combine them after it.

    For sums that the loop only adds to, or rescales and adds to, as they are linear in the parts.
    """
    for op in operators_of(kernel):
        if not _reduces_rows(op) or not _in_loop(op) or op.is_partial:
            continue
        if op.combination is not sched.Combiner.SUM or epilogue_of(op).functions:
            continue
        parts = _linear_sum(kernel, op)
        if parts is None:
            continue
        total, row = parts
        assert isinstance(total.type, sched.TileType)
        whole = total.type
        lanes = _lanes_of_a_row(total)
        after = [user for user in _users(kernel, total) if not _in_loop(user)]
        after = [user for user in after if not _is_zeroed_outside(user)]
        kept = _retype(total, lanes)
        if row is not None:
            _retype(row, lanes)
        combined = sched.EmptyOp(whole)
        combined.result.name_hint = kept.name_hint
        first = after[0]
        Rewriter.insert_op(
            [combined, sched.ReduceOp(kept, combined.result, op.reduced_dim)],
            InsertPoint.before(first),
        )
        for user in after:
            user.operands = [combined.result if value is kept else value for value in user.operands]


def _linear_sum(
    kernel: sched.KernelOp, op: sched.ReduceOp
) -> tuple[SSAValue, SSAValue | None] | None:
    """The sum that a reduction of rows ends up in, and the rows before they are added to it."""
    if epilogue_of(op).accumulates:
        total, row, adding = op.destination, None, op
    else:
        row = op.destination
        users = _users(kernel, row)
        if len(users) != 2 or users[0] is not op:
            return None
        adding = users[1]
        if not _is_function(adding, "mul_add"):
            return None
        total = adding.destination
        if epilogue_of(adding) or adding.sources[0] is not total or adding.sources[2] is not row:
            return None
        if adding.sources[1] in (total, row):
            return None
    users = _users(kernel, total)
    inside = [user for user in users if _in_loop(user)]
    outside = [user for user in users if not _in_loop(user)]
    if inside != [adding] or len(outside) < 2 or not _is_zeroed_outside(outside[0]):
        return None
    readers = outside[1:]
    phase = _phase(readers[0])
    uses = Uses.of(readers)
    if total in uses.writers or any(_phase(user) is not phase for user in readers):
        return None
    return total, row


def use_powers_of_two(kernel: sched.KernelOp) -> None:
    """Computes exp as 2 to the power of a multiple, folded into a scaling that stands before it.

    Only of products' values, not of rows: there the instruction's error, at most 2 ulp, and that of
    the rounded multiple, |x| 2^-24 relative for exp(x), are far below that of 16-bit operands.
    """
    for op in operators_of(kernel):
        if not _is_map(op):
            continue
        type_ = op.destination.type
        if not isinstance(type_, sched.TileType) or type_.tiled_mma is None:
            continue
        if not _feeds_narrow_products(kernel, op):
            continue
        epilogue = epilogue_of(op)
        functions = with_powers_of_two(epilogue.functions)
        if functions != epilogue.functions:
            op.epilogue = EpilogueAttr(Epilogue(tuple(functions), epilogue.accumulates))


def _feeds_narrow_products(kernel: sched.KernelOp, op: sched.MapOp) -> bool:
    """Whether what an operator writes is rounded to 16 bits for a product."""
    return any(
        _is_map(user)
        and user.destination is not op.destination
        and shape_of(user.destination.type) == shape_of(op.destination.type)
        and isinstance(user.destination.type, sched.TileType)
        and user.destination.type.element_type != f32
        for user in _users(kernel, op.destination)
    )


def with_powers_of_two(functions: Sequence[ScalarFunction]) -> tuple[ScalarFunction, ...]:
    """The same functions with exp as 2 to the power of a multiple."""
    result: list[ScalarFunction] = []
    for function in functions:
        if function.name != "exp":
            result.append(function)
            continue
        is_scaled = bool(result) and result[-1].name == "mul_scalar"
        scale = result.pop().constants[0] if is_scaled else 1.0
        result.append(ScalarFunction("scaled_exp", (scale,)))
    return tuple(result)


def exponentials_of_differences(kernel: sched.KernelOp) -> None:
    """Takes a difference and the exponential of it at once.

    Before: ``map sub %s, %max to %e then [scaled_exp(c)]``.  After: ``map
    scaled_exp_difference(c) %s, %max to %e``, or ``scaled_exp_wide_difference(c)`` where numbers
    are added to scores, all of which may be the least in a row.
    """
    for op in operators_of(kernel):
        if not _is_function(op, "sub"):
            continue
        epilogue = epilogue_of(op)
        if not epilogue.functions or epilogue.functions[0].name != "scaled_exp":
            continue
        first, *others = epilogue.functions
        rest = Epilogue(tuple(others), epilogue.accumulates)
        writers = (user for user in operators_of(kernel) if user is not op)
        wide = any(_joins_numbers(user, op.sources[0]) for user in writers)
        name = "scaled_exp_wide_difference" if wide else "scaled_exp_difference"
        op.function = ScalarFunctionAttr(ScalarFunction(name, first.constants))
        op.epilogue = EpilogueAttr(rest) if rest else None


def _joins_numbers(op: Operation, scores: SSAValue) -> bool:
    """Whether an operator writes scores of several numbers each, such as those of a mask."""
    return _is_map(op) and op.destination is scores and len(op.sources) > 1


def scale_in_exponentials(kernel: sched.KernelOp) -> None:
    """Leaves a scaling of scores to the exponentials of what they are less their largest.

    Before: ``map identity %s to %s then [mul_scalar(c)]``, perhaps masks of minus infinity, the
    running maximum of %s with its difference, ``map scaled_exp_difference(1.0) %s, %max to %s``,
    ``map exp %fall to %r``.  After: the maximum of the numbers as they are,
    ``scaled_exp_difference(c)``, ``map mul_scalar(c) %fall to %r then [exp]``.  For c > 0, where
    nothing else reads them.  What the maximum starts from, a number below all scores, is divided
    by c.
    """
    for op in operators_of(kernel):
        functions = epilogue_of(op).functions
        if not _is_map(op) or not functions or epilogue_of(op).accumulates:
            continue
        *others, last = functions
        if last.name != "mul_scalar" or last.constants[0] <= 0:
            continue
        readers = _readers_of_version(op)
        while readers and _leaves_infinity(readers[0]):
            readers = _readers_of_version(readers[0])
        if readers is None or len(readers) != 2:
            continue
        maximum, exponential = readers
        if not _reduces_rows(maximum) or not _is_map(exponential):
            continue
        if maximum.combination is not sched.Combiner.MAX or epilogue_of(maximum).functions:
            continue
        falls = _falls_to_scale(kernel, maximum, exponential)
        scale = last.constants[0]
        starts = _starts(kernel, maximum, scale)
        if falls is None or starts is None:
            continue
        for start, value in starts.items():
            start.value = FloatAttr(value, f32)
        op.epilogue = EpilogueAttr(Epilogue(tuple(others))) if others else None
        function = exponential.function.data
        product = round_to_fp32(function.constants[0] * scale)
        exponential.function = ScalarFunctionAttr(ScalarFunction(function.name, (product,)))
        for fall in falls:
            fall.function = ScalarFunctionAttr(ScalarFunction("mul_scalar", (scale,)))
            steps = (ScalarFunction("exp"), *epilogue_of(fall).functions)
            fall.epilogue = EpilogueAttr(Epilogue(steps, epilogue_of(fall).accumulates))
        if not others and op.sources[0] is op.destination and _is_function(op, "identity"):
            Rewriter.erase_op(op)


def _leaves_infinity(op: Operation) -> TypeGuard[sched.MaskOp]:
    """Whether an operator makes some numbers of a fragment minus infinity, whatever their scale."""
    if not isinstance(op, sched.MaskOp) or op.source is not op.destination:
        return False
    return op.constant == -math.inf and not epilogue_of(op)


def _readers_of_version(op: sched.MapOp | sched.MaskOp) -> list[Operation] | None:
    """Who reads what an operator writes, until it is overwritten in the same phase."""
    block = op.parent_block()
    assert block is not None
    following = list(block.ops)
    following = following[following.index(op) + 1 :]
    readers: list[Operation] = []
    for other in following:
        if op.destination in read_by(other):
            readers.append(other)
        if op.destination in written_by(other):
            return readers
    return None


def _starts(
    kernel: sched.KernelOp, maximum: sched.ReduceOp, scale: float
) -> dict[sched.FillOp, float] | None:
    """What fills a running maximum before the loop, divided by a scale.

    ``None`` where that overflows: of rows that are all masked nothing would be a number.
    """
    starts: dict[sched.FillOp, float] = {}
    for op in _users(kernel, maximum.destination):
        if isinstance(op, sched.FillOp):
            start = op.value.value.data / scale
            if math.isfinite(op.value.value.data) and abs(start) >= 2.0**127:
                return None
            starts[op] = round_to_fp32(start)
    return starts


def _falls_to_scale(
    kernel: sched.KernelOp, maximum: sched.ReduceOp, exponential: sched.MapOp
) -> list[sched.MapOp] | None:
    """The exponentials of a running maximum's differences, where nothing else reads either."""
    if exponential.function.data.name != "scaled_exp_difference":
        return None
    if exponential.sources[0] is not maximum.source:
        return None
    if exponential.sources[1] is not maximum.destination:
        return None
    for user in _users(kernel, maximum.destination):
        if user not in (maximum, exponential) and not isinstance(user, sched.FillOp):
            return None
    falls: list[sched.MapOp] = []
    if maximum.difference is not None:
        for user in _users(kernel, maximum.difference):
            if user is maximum:
                continue
            reads = maximum.difference in read_by(user)
            if _is_function(user, "exp"):
                falls.append(user)
            elif reads and maximum.difference not in (fall.destination for fall in falls):
                return None
    return falls


def invert_row_divisors(kernel: sched.KernelOp) -> None:
    """Divides by the numbers of rows once a row, and multiplies the values.

    Before: ``reduce %parts to %sum``, ``map div %o, %sum to %o``.  After: ``reduce %parts
    to %sum then [reciprocal]``, ``map mul %o, %sum to %o``.  Where nothing else reads the sums.
    """
    for op in operators_of(kernel):
        if not _is_function(op, "div"):
            continue
        divisor, result = op.sources[1], op.destination.type
        is_row = isinstance(divisor.type, sched.TileType) and divisor.type.sliced_axis == -1
        is_product = isinstance(result, sched.TileType) and result.tiled_mma is not None
        users = _users(kernel, divisor)
        if not is_row or not is_product or len(users) != 2 or op.sources[0] is divisor:
            continue
        writer = users[0]
        if not _reduces_rows(writer) or writer.destination is not divisor:
            continue
        if epilogue_of(writer).accumulates or writer.difference is not None:
            continue
        steps = (*epilogue_of(writer).functions, ScalarFunction("reciprocal"))
        writer.epilogue = EpilogueAttr(Epilogue(steps))
        op.function = ScalarFunctionAttr(ScalarFunction("mul"))


PATTERNS: tuple[Callable[[sched.KernelOp], None], ...] = (
    accumulate_in_place,
    sum_rows_early,
    combine_lanes_late,
    use_powers_of_two,
    exponentials_of_differences,
    scale_in_exponentials,
    invert_row_divisors,
)


def simplify(kernel: sched.KernelOp) -> None:
    """Applies every pattern."""
    for pattern in PATTERNS:
        pattern(kernel)
