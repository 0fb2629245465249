"""Rows that are only divided by are inverted once, where they are computed.

A quotient in fp32 takes about ten instructions and a branch, which wait for one another; a product
takes one.
"""

from __future__ import annotations

import math

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.elementwise import EpilogueAttr, ScalarFunction, ScalarFunctionAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import (
    base_layout,
    element_type_of,
    resolved_layout_of,
    shape_of,
)
from mugraph.passes.schedule.promote_registers.uses import Use, uses_of


def invert_divisors(kernel: sched.KernelOp) -> None:
    """Makes products of the quotients by what is broadcast and used for nothing else.

    What computes such a divisor stores its reciprocal, in fp32: there are few of them, and that of
    a number in f16 may not be one.
    """
    for value, uses in uses_of(kernel).items():
        owner = value.owner
        if isinstance(owner, sched.AllocOp) and element_type_of(value.type) in (*HALF_TYPES, f32):
            writers = [use for use in uses if use.writes]
            readers = [use for use in uses if not use.writes]
            if (
                len(writers) == 1
                and readers
                and _computes(value, writers[0])
                and all(_divides_by(value, reader) for reader in readers)
            ):
                _widen(owner)
                _invert(writers[0], readers)


def _widen(buffer: sched.AllocOp) -> None:
    """Makes a buffer one of fp32; a swizzle would have been chosen for its own type."""
    type_ = buffer.result.type
    layout = LayoutAttr(base_layout(resolved_layout_of(buffer.result)))
    Rewriter.replace_value_with_new_type(
        buffer.result, sched.SharedType.of(shape_of(type_), f32, layout)
    )


def _computes(value: SSAValue, use: Use) -> bool:
    op = use.operation
    if use.reads or not isinstance(op, sched.ReduceOp | sched.MapOp):
        return False
    if isinstance(op, sched.ReduceOp) and op.difference is not None:
        return False
    return op.destination is value and not epilogue_of(op).accumulates


def _divides_by(value: SSAValue, use: Use) -> bool:
    op = use.operation
    if not isinstance(op, sched.MapOp) or op.function.data.name != "div":
        return False
    quotients = math.prod(shape_of(op.destination.type))
    return op.sources[0] is not value and quotients > math.prod(shape_of(value.type))


def _invert(writer: Use, readers: list[Use]) -> None:
    op = writer.operation
    assert isinstance(op, sched.ReduceOp | sched.MapOp)
    op.epilogue = EpilogueAttr(epilogue_of(op).then(ScalarFunction("reciprocal")))
    for reader in readers:
        division = reader.operation
        assert isinstance(division, sched.MapOp)
        division.function = ScalarFunctionAttr(ScalarFunction("mul"))
