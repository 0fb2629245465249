"""``--retile``: other grids, blocks and for-loops for kernels that compute the same."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Operation

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.kn.separate_phases import separate_phases
from mugraph.dialects.plan import KERNEL_PARTS, TILE_PARTS, Plan
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.each import GraphPass
from mugraph.passes.mugraph.online_softmax.kernel import online_softmax
from mugraph.passes.mugraph.online_softmax.parts import online_softmax_of_parts
from mugraph.passes.mugraph.retile.apply_partition import apply_partition
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.early_sums import accumulate_early
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.inline import inline_products
from mugraph.passes.mugraph.retile.merge import merge
from mugraph.passes.mugraph.retile.outline import outline
from mugraph.passes.mugraph.retile.partition import choose_partition, require_same_function
from mugraph.passes.mugraph.retile.running_maxima import take_out_running_maxima
from mugraph.passes.mugraph.retile.split import split_loop

LOOP_PARTS = ("loads", "stages", "swap_ab", "persistent", "ping_pong", "pdl")
"""The parts of a plan that are about its kernel's loop, and not the kernel that adds up parts."""


def retile(graph: CustomizedOp) -> None:
    """Cuts a kernel as its plan says; kernels that it needs beside it have tiles that are free.

    Raises :class:`RetileError` where the result would be another function.
    """
    if graph.decided.regroups():
        graph = regroup(graph)
    if graph.decided.cuts():
        cut(graph)


def regroup(graph: CustomizedOp) -> CustomizedOp:
    """Gives a kernel the operators that its plan says: merges, inlines, outlines.

    Returns what the kernel has become.  Raises :class:`RetileError` where that cannot be.
    """
    plan = graph.decided
    if plan.merge:
        graph = merge(graph)
    if plan.inline:
        graph = inline_products(graph)
    if plan.outline:
        before, graph = outline(graph)
        for kernel in before:
            kernel.decided = beside(plan)
    graph.decided = plan.without(*KERNEL_PARTS)
    return graph


def beside(plan: Plan, split_k: int | None = None) -> Plan:
    """What a plan says of kernels beside its own: that none is launched early, if it says so."""
    return Plan(pdl="none" if plan.pdl == "none" else None, split_k=split_k)


def cut(graph: CustomizedOp) -> None:
    """Cuts a kernel into the blocks and tiles that its plan says; it keeps them."""
    plan, label = graph.decided, op_label(graph)
    if plan.partial_sums is not None and plan.split_k is None:
        raise RetileError(
            f"{label}: {plan.text_of('partial_sums')} is about a for-loop that is "
            "divided over blocks; write split_k, too"
        )
    left = plan.without(*TILE_PARTS)
    separate_phases(graph)
    block = graph.parent
    changed = [graph, *_users_of(graph)]
    maxima = _count_of_maxima(changed)
    others = set(block.ops) - {*changed} if maxima and block is not None else set[Operation]()
    had_maxima = take_out_running_maxima(graph)
    if had_maxima:
        left = left.without("online_softmax")
    space = find_dimensions(graph)
    partition = choose_partition(space, plan)
    require_same_function(space, partition)
    if accumulate_early(space, partition.looped()):
        space = find_dimensions(graph)
        partition = choose_partition(space, plan)
    apply_partition(space, partition)
    if (plan.split_k or 1) > 1:
        part_type = f16 if plan.partial_sums == "f16" else f32
        graph, second = split_loop(graph, plan.split_k or 1, part_type, alike=had_maxima)
        if second is not None:
            second.decided = left.without(*LOOP_PARTS).over(beside(plan, split_k=1))
    graph.decided = replace(left, tiles="written")
    if had_maxima:
        online_softmax(graph)
        online_softmax_of_parts(graph)
        now = [graph] if block is None else [op for op in block.ops if op not in others]
        if _count_of_maxima(now) < maxima:
            raise RetileError(
                f"{label}: no other kernel can add up under this plan what blocks have added up "
                "below running maxima of their own; write split_k = 1, or another grid"
            )


def _users_of(graph: CustomizedOp) -> list[Operation]:
    """The operators that use the results of a kernel."""
    return [*dict.fromkeys(use.operation for result in graph.results for use in result.uses)]


def _count_of_maxima(ops: Iterable[Operation]) -> int:
    """How many running maxima kernels among some operators have."""
    kernels = (op for op in ops if isinstance(op, CustomizedOp))
    return sum(isinstance(op, tb.ReductionMaxOp) for each in kernels for op in each.walk())


class RetilePass(GraphPass):
    """Cuts each custom kernel as its plan says; what it computes stays the same.

    A kernel whose plan says nothing of that stays as it is.  ``--plan`` writes plans, and fills
    them.

    ``grid`` is the new number of blocks along x, y and z.  An axis keeps the dimension that it
    cuts; one that has cut nothing so far is given one by ``along``, which says for each axis the
    dimension of the kernel's first result that it cuts, -1 where that stays.  ``forloop`` is the
    new number of iterations: tiles become longer or shorter.  Where nothing was cut by the loop it
    cuts the longest dimension that is summed over.  ``tile`` and ``loop_tile`` are extents of tiles
    instead, which need not divide the tensor: the last ones are then smaller.  ``block`` is the new
    number of threads.

    Which dimensions may be cut follows from what each operator says of its indices: parallel ones
    by the grid, those that are summed over, and whose parts reach an accumulator through linear
    operators only, by the loop.  What would change the function is an error.

    ``split_k`` divides the for-loop over that many blocks along one more axis of the grid, after
    the other changes: ``forloop`` counts the iterations of all of them.  Each stores what it has
    accumulated, in fp32 unless ``partial_sums = f16``, and a second kernel adds the parts up and
    does what came after the loop.  It is cut as the first one, and its plan leaves other tiles
    free: ``--plan`` and ``--retile`` cut it for the target.  ``--online-softmax`` may stand before
    or after: running maxima are taken out and put back, and blocks store theirs with their parts.

    Before that, ``merge`` makes one kernel of this one and the one that uses its results, where
    that adds up what blocks along one axis have stored: the inverse of a split, also of those in
    saved µGraphs.  ``inline`` computes tiles of a ``kn.matmul`` in the kernel that loads them,
    where custom kernels alone use the product.  ``outline`` moves to kernels of their own, which
    run before, what several blocks compute alike of one tile of the loop each, such as its norm;
    their tiles are free.

    Pre-condition: tiles have no layouts, so it stands before ``--resolve-layout``.

    Before::

        %o = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 8
            plan <grid = [4], forloop = 4> {
          %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : ... -> !tb.stensor<16x32xf16>
          %sw = tb.input %dw imap [1, -1, -1] fordim 0 : ... -> !tb.stensor<32x64xf16>
          %m = tb.matmul %sx, %sw : ... -> !tb.stensor<16x64xf16>
          %a = tb.forloop_accum none %m : ...

    After::

        %o = kn.customized %x, %w grid [4, 1, 1] block [128, 1, 1] forloop 4
            plan <tiles = written> {
          %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : ... -> !tb.stensor<16x64xf16>
          %sw = tb.input %dw imap [1, -1, -1] fordim 0 : ... -> !tb.stensor<64x32xf16>
          %m = tb.matmul %sx, %sw : ... -> !tb.stensor<16x32xf16>
          %a = tb.forloop_accum none %m : ...
    """

    name = "retile"

    def run(self, graph: CustomizedOp) -> None:
        """Cuts a kernel."""
        if graph.parent is not None:  # else it was merged into the one before
            retile(graph)


__all__ = ["RetileError", "RetilePass", "regroup", "retile"]
