"""Several buffers in the place of one, used in turn."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import layout_of
from mugraph.passes.texpr.te_map.types import move_to_part


def staged_buffer(new: te.NewOp, stages: int, loop: te.SeqOp) -> SSAValue:
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
    made = te.NewOp(te.BufferType.of(shape, type_.element_type, attribute, te.Space.SHARED))
    made.result.name_hint = new.result.name_hint
    Rewriter.insert_op(made, InsertPoint.before(loop))
    return made.result


def stage_of(stages: int) -> AffineMap:
    """Which buffer an iteration has, as an index in the iteration."""
    return AffineMap(1, 0, (AffineExpr.dimension(0) % stages,))


def read_stage(old: SSAValue, staged: SSAValue, iteration: SSAValue, stages: int) -> None:
    """Makes all that reads the buffer of an iteration read that of its stage."""
    type_ = old.type
    assert isinstance(type_, te.BufferType)
    move_to_part(list(old.uses), type_, staged, stage_of(stages), [iteration])
