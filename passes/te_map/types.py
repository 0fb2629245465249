"""Changing the type of a buffer, and of the sections of it."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from mugraph.dialects.te import BufferType, SectionOp
from mugraph.dialects.te.accesses import section_type


def retype(buffer: SSAValue, type_: BufferType) -> None:
    """Gives a buffer another type, and its sections theirs."""
    changed = Rewriter.replace_value_with_new_type(buffer, type_)
    for use in list(changed.uses):
        if isinstance(section := use.operation, SectionOp):
            shape = section.result.type.get_shape()
            retype(section.result, section_type(type_, shape))
