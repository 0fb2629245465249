"""``--slice-products``: products of several matrices that are summed become different warps' work.

Groups of k with a scale each are such products: a pair of matrices a group, and the sum over the
groups.  One warp, or several side by side, multiplies each pair, and adds up what it has over the
loop; the sum over the pairs is taken once, behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import UnitAttr

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter, inherit_location
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.each import GraphPass
from mugraph.passes.mugraph.plan.narrow import summed_products


def sliced_sums(graph: CustomizedOp) -> Iterator[tb.ReductionOp]:
    """The sums over pairs of matrices that a block's warps share evenly, in the order of the text.

    They are added up over the loop, or there is none.
    """
    for op in graph.body.block.ops:
        if not isinstance(op, tb.ReductionOp) or not summed_products(op):
            continue
        pairs = shape_of(op.input.type)[0]
        is_shared = pairs > 1 and graph.threads // WARP % pairs == 0
        if is_shared and (graph.forloop_range == 1 or _total_of(op) is not None):
            yield op


def _total_of(op: tb.ReductionOp) -> tb.ForloopAccumOp | None:
    """What adds up a sum over the loop, alone and as it is; ``None`` without such."""
    users = [use.operation for use in op.result.uses]
    total = users[0] if len(users) == 1 else None
    if not isinstance(total, tb.ForloopAccumOp) or tb.epilogue_of(total):
        return None
    return total if total.kind.data is tb.AccumulatorKind.NONE else None


def slice_products(reduction: tb.ReductionOp) -> None:
    """Leaves the products to different warps, and adds up what these have behind the loop."""
    for product in summed_products(reduction):
        product.sliced = UnitAttr()
    total = _total_of(reduction)
    if total is None:
        return
    kind = tb.AccumulatorKind.NONE
    sums = tb.ForloopAccumOp(kind, reduction.input, reduction.input.type)
    last = tb.ReductionOp(sums.result, 0, total.result.type)
    inherit_location([sums, last], total)
    Rewriter.replace_op(total, [sums, last])
    Rewriter.erase_op(reduction)


class SliceProductsPass(GraphPass):
    """Lets different warps compute the pairs of matrices of a product whose results are summed.

    Products with narrow weights that have a scale for each group of k are such sums. The pass marks
    each ``sliced``, so that ``--decompose-threadblock`` keeps it whole, and moves the sum over its
    pairs behind the loop; until then each warp has sums of its own. The number of pairs divides the
    number of warps of the block.

    Pre-condition: ``--retile``.
    """

    name = "slice-products"

    def run(self, graph: CustomizedOp) -> None:
        """Rewrites a threadblock graph."""
        for found in list(sliced_sums(graph)):
            slice_products(found)
