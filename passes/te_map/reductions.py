"""Reductions of a block into a number: each thread's part, then those of all threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AffineMapAttr, FloatAttr, IntegerAttr, UnitAttr, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.te import (
    AllReduceOp,
    BindOp,
    BufferType,
    Combination,
    NewOp,
    RedOp,
    Space,
    ViewOp,
)
from mugraph.dialects.te.mapped import OF_EACH_THREAD

__all__ = ["OF_EACH_THREAD", "after_band", "before_band"]

_FLOAT: dict[Combination, type[Operation]] = {
    Combination.ADD: arith.AddfOp,
    Combination.MAX: arith.MaximumfOp,
    Combination.MIN: arith.MinimumfOp,
}
_INTEGER: dict[Combination, type[Operation]] = {
    Combination.ADD: arith.AddiOp,
    Combination.MAX: arith.MaxSIOp,
    Combination.MIN: arith.MinSIOp,
}
_FIRST = AffineMapAttr(AffineMap(0, 0, (AffineExpr.constant(0),)))


def identity_of(combination: Combination, type_: Attribute) -> Operation:
    """The number that changes nothing."""
    if type_ == i32:
        least, most = -(2**31), 2**31 - 1
        value = {Combination.ADD: 0, Combination.MAX: least, Combination.MIN: most}[combination]
        return arith.ConstantOp(IntegerAttr(value, i32))
    if type_ != f32:
        raise PassFailedException(
            f"--te-map: a reduction into a number of type {type_} cannot be mapped: reduce into "
            "one of f32"
        )
    number = {Combination.ADD: 0.0, Combination.MAX: -math.inf, Combination.MIN: math.inf}
    return arith.ConstantOp(FloatAttr(number[combination], f32))


def combine(combination: Combination, left: SSAValue, right: SSAValue) -> Operation:
    """The combination of two numbers."""
    kinds = _INTEGER if left.type == i32 else _FLOAT
    return kinds[combination](left, right)  # type: ignore[call-arg]


Partial = tuple[SSAValue, SSAValue, AffineMapAttr, Combination]
"""A number of the block, that of each thread, the element's index, and how they combine."""


def before_band(reds: Sequence[RedOp], point: InsertPoint) -> list[Partial]:
    """Replaces reductions of a band by those of each thread into a register of its own."""
    partials: dict[tuple[SSAValue, AffineMapAttr], Partial] = {}
    for red in reds:
        type_ = cast(BufferType, red.buffer.type)
        key = (red.buffer, red.map)
        if key not in partials:
            new = NewOp(BufferType.of((1,), type_.element_type, None, Space.REGISTER))
            new.attributes[OF_EACH_THREAD] = UnitAttr()
            new.result.name_hint = f"{red.buffer.name_hint or 'sum'}_part"
            zero = identity_of(red.combines, type_.element_type)
            clear = BindOp(zero.results[0], new.result, [], _FIRST)
            Rewriter.insert_op([new, zero, clear], point)
            partials[key] = (red.buffer, new.result, red.map, red.combines)
        _, own, _, combination = partials[key]
        if combination is not red.combines:
            raise PassFailedException("--te-map: one loop reduces into a number in two ways")
        old = ViewOp(own, [], _FIRST)
        both = combine(combination, old.result, red.value)
        Rewriter.replace_op(red, [old, both, BindOp(both.results[0], own, [], _FIRST)], [])
    return list(partials.values())


def after_band(partials: Sequence[Partial], point: InsertPoint, *, of_warp: bool = False) -> None:
    """Combines what all threads of the block, or warp, have with what the number was before."""
    ops: list[Operation] = []
    for buffer, own, index, combination in partials:
        part = ViewOp(own, [], _FIRST)
        total = AllReduceOp(combination, part.result, of_warp=of_warp)
        old = ViewOp(buffer, [], index)
        both = combine(combination, old.result, total.result)
        ops += [part, total, old, both, BindOp(both.results[0], buffer, [], index)]
    Rewriter.insert_op(ops, point)
