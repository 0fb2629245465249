"""Changing the type of a buffer, and of the sections of it, and what part of one is touched."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue, Use
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.sections import IndexedOp, section_type


def make_private(buffer: SSAValue, extents: Sequence[int], indices: Sequence[SSAValue]) -> SSAValue:
    """Makes a buffer one of several, a part for all values of indices; returns all of them."""
    old = buffer.type
    assert isinstance(old, te.BufferType)
    shape = (*extents, *old.get_shape())
    uses = list(buffer.uses)
    type_ = te.BufferType.of(shape, old.element_type, None, old.memory_space)
    changed = Rewriter.replace_value_with_new_type(buffer, type_)
    move_to_part(uses, old, changed, AffineMap.identity(len(indices)), indices)
    return changed


def move_to_part(
    uses: Sequence[Use],
    part: te.BufferType,
    buffer: SSAValue,
    outer: AffineMap,
    indices: Sequence[SSAValue],
) -> None:
    """Makes all that touches a buffer of a type touch a part of one with dimensions in front.

    ``outer`` is the index of the part there, in ``indices``.
    """
    for use in uses:
        op = use.operation
        if isinstance(op, IndexedOp):
            moved = index_in_part(op.index_map, part, buffer, outer)
            operands = [*op.indices, *indices]
            if isinstance(op, te.SectionOp):
                shape = (*(1,) * len(outer.results), *op.result.type.get_shape())
                Rewriter.replace_op(op, te.SectionOp(buffer, operands, AffineMapAttr(moved), shape))
            else:
                op.move(buffer, operands, moved)
        else:
            # An instruction on the whole buffer.
            zeros = AffineMap(0, 0, (AffineExpr.constant(0),) * len(part.get_shape()))
            start = AffineMapAttr(index_in_part(zeros, part, buffer, outer))
            shape = (*(1,) * len(outer.results), *part.get_shape())
            whole = te.SectionOp(buffer, indices, start, shape)
            Rewriter.insert_op(whole, InsertPoint.before(op))
            op.operands[use.index] = whole.result


def index_in_part(
    map_: AffineMap, part: te.BufferType, buffer: SSAValue, outer: AffineMap
) -> AffineMap:
    """An index of a part of a buffer as one of the buffer; operands of ``outer`` come last."""
    whole = buffer.type
    assert isinstance(whole, te.BufferType)
    own = [AffineExpr.dimension(map_.num_dims + position) for position in range(outer.num_dims)]
    moved = [one.replace_dims_and_symbols(own, []) for one in outer.results]
    results = (*moved, *map_.results)
    if len(map_.results) != len(part.get_shape()):
        number, *rest = moved
        for one, extent in zip(rest, whole.get_shape()[1:], strict=False):
            number = number * extent + one
        results = (number * part.elements + map_.results[0],)
    return AffineMap(map_.num_dims + outer.num_dims, 0, results)


def retype(buffer: SSAValue, type_: te.BufferType) -> None:
    """Gives a buffer another type, and its sections theirs."""
    changed = Rewriter.replace_value_with_new_type(buffer, type_)
    for use in list(changed.uses):
        if isinstance(section := use.operation, te.SectionOp):
            shape = section.result.type.get_shape()
            retype(section.result, section_type(type_, shape))
