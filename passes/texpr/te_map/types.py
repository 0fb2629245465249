"""Changing the type of a buffer, and of the sections of it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te import AccessOp, BufferType, SectionOp
from mugraph.dialects.te.sections import section_type


def make_private(buffer: SSAValue, extents: Sequence[int], indices: Sequence[SSAValue]) -> None:
    """Makes a buffer one of several, a part for all values of indices."""
    old = buffer.type
    assert isinstance(old, BufferType)
    shape = (*extents, *old.get_shape())
    uses = list(buffer.uses)
    type_ = BufferType.of(shape, old.element_type, None, old.memory_space)
    changed = Rewriter.replace_value_with_new_type(buffer, type_)
    for use in uses:
        op = use.operation
        if not isinstance(op, (AccessOp, SectionOp)):
            # An instruction on the whole buffer.
            zeros = (AffineExpr.constant(0),) * len(old.get_shape())
            whole = _section(changed, zeros, [], old.get_shape(), indices)
            Rewriter.insert_op(whole, InsertPoint.before(op))
            op.operands[use.index] = whole.result
            continue
        map_ = op.index_map
        if isinstance(op, SectionOp):
            part = op.result.type.get_shape()
            section = _section(changed, map_.results, list(op.indices), part, indices)
            Rewriter.replace_op(op, section)
            continue
        place = list(op.operands).index(changed)
        outer = [AffineExpr.dimension(map_.num_dims + n) for n in range(len(indices))]
        results = (*outer, *map_.results)
        if len(map_.results) != len(old.get_shape()):
            number = AffineExpr.constant(0)
            for one, extent in zip(outer, extents, strict=True):
                number = number * extent + one
            results = (number * old.elements + map_.results[0],)
        operands = [*op.indices, *indices]
        op.operands = [*op.operands[:place], changed, *operands]
        op.properties["map"] = AffineMapAttr(AffineMap(len(operands), 0, results))


def _section(
    buffer: SSAValue,
    starts: Sequence[AffineExpr],
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    indices: Sequence[SSAValue],
) -> SectionOp:
    outer = [AffineExpr.dimension(len(operands) + n) for n in range(len(indices))]
    map_ = AffineMap(len(operands) + len(indices), 0, (*outer, *starts))
    ones = (1,) * len(indices)
    return SectionOp(buffer, [*operands, *indices], AffineMapAttr(map_), (*ones, *shape))


def retype(buffer: SSAValue, type_: BufferType) -> None:
    """Gives a buffer another type, and its sections theirs."""
    changed = Rewriter.replace_value_with_new_type(buffer, type_)
    for use in list(changed.uses):
        if isinstance(section := use.operation, SectionOp):
            shape = section.result.type.get_shape()
            retype(section.result, section_type(type_, shape))
