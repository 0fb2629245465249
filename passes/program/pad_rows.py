"""``--pad-rows``: kernels read copies of tensors whose rows start at no multiples of 16 bytes."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import kn
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.named_extents import (
    argument_names,
    ends_of_argument,
    function_lengths,
    named_extents,
)
from mugraph.dialects.tensor_types import without_layout
from mugraph.passes.each import FunctionPass, TargetPass
from mugraph.passes.program.fuse_kernels.times import best_padding, uneven_operands, use_copies
from mugraph.passes.targets import Target


def may_end_early(function: FuncOp, value: SSAValue) -> bool:
    """Whether a call may say, or memory hold, where a tensor ends."""
    if not named_extents(function) and not function_lengths(function):
        return False
    if not isinstance(value, BlockArgument):
        return True
    index = value.index
    return any((*argument_names(function, index), *ends_of_argument(function, index)))


def pad_rows(function: FuncOp, target: Target) -> None:
    """Gives kernels copies of their operands where they then take less time, copies and all.

    One copy serves all kernels.  What a kernel's plan says is for the operands that it has: such
    kernels stay as they are.  So do those of tensors with extents that a call says.
    """
    copies: dict[SSAValue, kn.CopyOp] = {}
    for graph in function.body.block.ops:
        if not isinstance(graph, kn.CustomizedOp) or graph.decided.parts():
            continue
        # Most kernels have none, and to estimate one takes longer than most passes.
        if not uneven_operands(graph):
            continue
        padding = best_padding(graph, target, copies)
        if any(may_end_early(function, value) for value in padding.operands):
            continue
        for value in padding.operands:
            if value not in copies:
                copies[value] = kn.CopyOp(value, without_layout(value.type))
                copies[value].result.name_hint = value.name_hint
                Rewriter.insert_op(copies[value], InsertPoint.before(graph))
        use_copies(graph, {value: copies[value] for value in padding.operands})


class PadRowsPass(TargetPass, FunctionPass):
    """Copies tensors to padded rows where rows do not start at multiples of 16 bytes.

    Bulk copies cannot load such rows, and warp groups multiply only what bulk copies load.
    ``--resolve-layout`` pads the rows of the copies. A kernel gets copies if they save time by the
    estimate for ``arch``, the copies included. A kernel with a plan stays unchanged.

    Before::

        %o = kn.customized %x, %w grid [16, 8, 1] ... {
        } : (tensor<1024x1024xf16>, tensor<1024x1009xf16>) -> tensor<1024x1009xf16>

    After::

        %w_1 = kn.copy %w : tensor<1024x1009xf16> -> tensor<1024x1009xf16>
        %o = kn.customized %x, %w_1 grid [16, 8, 1] ... {
    """

    name = "pad-rows"

    def run(self, function: FuncOp) -> None:
        """Copies in a µGraph."""
        pad_rows(function, self.target)
