"""What threads hand over through, when loops become kernels: mbarriers, and buffers of boxes."""

from __future__ import annotations

from xdsl.dialects.builtin import AffineMapAttr, IndexType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.bulk import SWIZZLE_SPANS, swizzle_of
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_bytes_of, source_name
from mugraph.passes.texpr.te_map.choice import place_type, swizzled_layout
from mugraph.passes.texpr.te_map.steps import stated
from mugraph.passes.texpr.te_map.types import retype


def set_up_mbarriers(op: te.NewMbarriersOp, thread: SSAValue) -> None:
    """The first thread of the block sets mbarriers up, before all meet."""
    holder = op.parent_op()
    kernel = holder.parent_op() if isinstance(holder, te.ThreadsOp) else None
    assert isinstance(kernel, te.KernelOp) and op.expected is not None
    each = Block(arg_types=[IndexType()])
    index = AffineMapAttr(AffineMap.identity(1))
    each.add_op(te.MbarrierInitOp(op.result, [each.args[0]], index, op.expected))
    is_last = not isinstance(op.next_op, te.NewMbarriersOp)
    fence = [te.MbarrierFenceOp()] if is_last else []
    of_first = Block([stated([], []), te.SeqOp(op.result.type.count, each), *fence])
    is_first = AffineMapAttr(AffineMap(1, 0, (AffineExpr.dimension(0),)))
    step = te.StepOp(
        f"mbarriers {source_name(op.result)}",
        Block([te.IfOp([thread], is_first, [True], of_first)]),
    )
    new: list[Operation] = [step]
    if is_last:
        new.append(te.BarrierOp(te.Scope.BLOCK))
    Rewriter.insert_op(new, InsertPoint.before(op))
    op.detach()
    op.arrivals = None
    Rewriter.insert_op(op, InsertPoint.before(kernel.threads))


def swizzle_boxes(root: te.ThreadsOp) -> None:
    """Gives buffers that bulk copies fill or empty the swizzle of their boxes' rows.

    Chunks of 16 bytes are exchanged within rows of 32, 64 or 128 bytes, so that rows below each
    other lie in other banks, and descriptors of WGMMA can say it.

    Raises:
        PassFailedException: Boxes of one buffer have rows of different lengths.
    """
    rows: dict[SSAValue, int] = {}
    for op in root.walk():
        if isinstance(op, te.BulkCopyOp):
            row = op.extents[-1] * element_bytes_of(place_type(op.buffer))
            if rows.setdefault(op.buffer, row) != row:
                raise PassFailedException(
                    f"--te-map: boxes in {source_name(op.buffer)} have rows of {rows[op.buffer]} "
                    f"and of {row} bytes; a buffer has one swizzle: use one length of rows"
                )
    for buffer, row in rows.items():
        type_ = place_type(buffer)
        if row in SWIZZLE_SPANS and type_.layout == type_.of((1,), type_.element_type).layout:
            swizzle = swizzle_of(row, element_bytes_of(type_))
            retype(buffer, type_.with_layout(LayoutAttr(swizzled_layout(type_, swizzle))))
