"""Several buffers in the place of one, used in turn."""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te import AccessOp, BufferType, NewOp, SectionOp, SeqOp, Space
from mugraph.dialects.tensor_types import layout_of


def staged_buffer(new: NewOp, stages: int, loop: SeqOp) -> SSAValue:
    """A buffer of several in the place of one, in front of the loop."""
    type_ = new.result.type
    shape = (stages, *type_.get_shape())
    layout = layout_of(type_)
    attribute = None
    if layout is not None:
        plain = Layout(shape, (type_.elements, *type_.strides()))
        attribute = LayoutAttr(
            ComposedLayout(layout.swizzle, layout.offset, plain)
            if isinstance(layout, ComposedLayout)
            else plain
        )
    made = NewOp(BufferType.of(shape, type_.element_type, attribute, Space.SHARED))
    made.result.name_hint = new.result.name_hint
    Rewriter.insert_op(made, InsertPoint.before(loop))
    return made.result


def at_stage(map_: AffineMap, type_: BufferType, stage: AffineExpr) -> AffineMap:
    """An index in the buffers of all stages; the iteration is one more operand."""
    results = map_.results
    if len(results) == len(type_.get_shape()):
        moved = (stage, *results)
    else:
        moved = (stage * type_.elements + results[0],)
    return AffineMap(map_.num_dims + 1, 0, moved)


def read_stage(old: SSAValue, staged: SSAValue, iteration: SSAValue, stages: int) -> None:
    """Makes all that reads the buffer of an iteration read that of its stage."""
    type_ = old.type
    assert isinstance(type_, BufferType)
    for use in list(old.uses):
        op = use.operation
        assert isinstance(op, (AccessOp, SectionOp))
        map_ = op.index_map
        dimension = AffineExpr.dimension(map_.num_dims)
        moved = AffineMapAttr(at_stage(map_, type_, dimension % stages))
        operands = [*op.indices, iteration]
        if isinstance(op, SectionOp):
            shape = (1, *op.result.type.get_shape())
            section = SectionOp(staged, operands, moved, shape)
            Rewriter.replace_op(op, section)
        else:
            place = op.operands.index(op.buffer)
            op.operands = [*op.operands[:place], staged, *operands]
            op.properties["map"] = moved
