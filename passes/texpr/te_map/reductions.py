"""Reductions of a block into a number: each thread's part, then those of all threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FloatAttr,
    IntegerAttr,
    UnitAttr,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.mapped import OF_EACH_THREAD
from mugraph.dialects.te.numbers import operators_on

__all__ = ["OF_EACH_THREAD", "after_band", "before_band"]

_FIRST = AffineMapAttr(AffineMap.constant_map(0))


def identity_of(combination: te.Combination, type_: Attribute) -> Operation:
    """The number that changes nothing."""
    if type_ == i32:
        least, most = -(2**31), 2**31 - 1
        value = {te.Combination.ADD: 0, te.Combination.MAX: least, te.Combination.MIN: most}[
            combination
        ]
        return arith.ConstantOp(IntegerAttr(value, i32))
    number = {te.Combination.ADD: 0.0, te.Combination.MAX: -math.inf, te.Combination.MIN: math.inf}
    return arith.ConstantOp(FloatAttr(number[combination], type_))  # type: ignore[arg-type]


def combine(combination: te.Combination, left: SSAValue, right: SSAValue) -> Operation:
    """The combination of two numbers."""
    return operators_on(left.type)[combination](left, right)


Partial = tuple[SSAValue, SSAValue, AffineMapAttr, te.Combination]
"""A number of the block, that of each thread, the element's index, and how they combine."""


def widened(value: SSAValue, ops: list[Operation]) -> SSAValue:
    """A number in the type that reductions compute with: f32 for those of 16 bits."""
    if value.type not in HALF_TYPES:
        return value
    ops.append(arith.ExtFOp(value, f32))
    return ops[-1].results[0]


def rounded(value: SSAValue, type_: Attribute, ops: list[Operation]) -> SSAValue:
    """A number in the type of an element."""
    if value.type == type_:
        return value
    ops.append(arith.TruncFOp(value, type_))  # type: ignore[arg-type]
    return ops[-1].results[0]


def before_band(reds: Sequence[te.RedOp], point: InsertPoint) -> list[Partial]:
    """Replaces reductions of a band by those of each thread into a register of its own.

    Numbers of 16 bits are reduced in f32, and rounded once in the end.
    """
    partials: dict[tuple[SSAValue, AffineMapAttr], Partial] = {}
    for red in reds:
        type_ = cast(te.BufferType, red.buffer.type)
        key = (red.buffer, red.map)
        if key not in partials:
            number = f32 if type_.element_type in HALF_TYPES else type_.element_type
            new = te.NewOp(te.BufferType.of((1,), number, None, te.Space.REGISTER))
            new.attributes[OF_EACH_THREAD] = UnitAttr()
            new.result.name_hint = f"{red.buffer.name_hint or 'sum'}_part"
            zero = identity_of(red.combines, number)
            clear = te.BindOp(zero.results[0], new.result, [], _FIRST)
            Rewriter.insert_op([new, zero, clear], point)
            partials[key] = (red.buffer, new.result, red.map, red.combines)
        _, own, _, combination = partials[key]
        if combination is not red.combines:
            raise PassFailedException("--te-map: one loop reduces into a number in two ways")
        ops: list[Operation] = []
        value = widened(red.value, ops)
        old = te.ViewOp(own, [], _FIRST)
        both = combine(combination, old.result, value)
        ops += [old, both, te.BindOp(both.results[0], own, [], _FIRST)]
        Rewriter.replace_op(red, ops, [])
    return list(partials.values())


def after_band(partials: Sequence[Partial], point: InsertPoint, *, of_warp: bool = False) -> None:
    """Combines what all threads of the block, or warp, have with what the number was before."""
    ops: list[Operation] = []
    for buffer, own, index, combination in partials:
        part = te.ViewOp(own, [], _FIRST)
        total = te.AllReduceOp(combination, part.result, of_warp=of_warp)
        old = te.ViewOp(buffer, [], index)
        ops += [part, total, old]
        both = combine(combination, widened(old.result, ops), total.result)
        ops.append(both)
        number = rounded(both.results[0], old.result.type, ops)
        ops.append(te.BindOp(number, buffer, [], index))
    Rewriter.insert_op(ops, point)
