"""Where a new for-loop adds up: right behind what first gives parts of a sum.

A kernel without a loop has accumulators only where it stores.  What stands between a product and
its store, such as a rotary embedding, would then be computed in every iteration of a loop that cuts
the product's depth, and of parts that are rounded.
"""

from __future__ import annotations

from collections.abc import Set

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn import Phase, phases_of
from mugraph.dialects.locations import Rewriter
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.loops import LoopAnalysis, Share


def first_summands(space: TileSpace, looped: Set[int]) -> list[SSAValue]:
    """Analysis: what a loop that cuts ``looped`` gives parts of, made of nothing that is a part."""
    parts = LoopAnalysis(space, frozenset(looped)).parts
    return [
        value
        for value, part in parts.items()
        if part is Share.SUMMAND
        and isinstance(value.owner, Operation)
        and not any(parts[operand] is Share.SUMMAND for operand in value.owner.operands)
    ]


def accumulators_behind(values: list[SSAValue]) -> dict[tb.ForloopAccumOp, None] | None:
    """Analysis: those that add up what is computed of some values; ``None`` if one does more."""
    found: dict[tb.ForloopAccumOp, None] = {}
    pending = list(values)
    for value in pending:
        for use in value.uses:
            op = use.operation
            if not isinstance(op, tb.ForloopAccumOp):
                pending += [each for each in op.results if each not in pending]
            elif op.kind.data is not tb.AccumulatorKind.NONE or op.result.type != op.input.type:
                return None
            else:
                found[op] = None
    return found


def accumulate_early(space: TileSpace, looped: Set[int]) -> bool:
    """Rewrites a kernel of one iteration, which shall have a loop that cuts ``looped``.

    Its sums are accumulated where they are first parts, and what is computed of them stands after
    the loop.  Returns whether anything has changed; dimensions have then to be found again.
    """
    graph = space.graph
    if graph.forloop_range > 1 or not looped:
        return False
    phases = phases_of(graph.body.block, 1)
    summands = first_summands(space, looped)
    in_loop = [
        value
        for value in summands
        if isinstance(value.owner, Operation) and phases[value.owner] is Phase.LOOP
    ]
    early = [
        value
        for value in in_loop
        if any(not isinstance(use.operation, tb.ForloopAccumOp) for use in value.uses)
    ]
    accumulators = accumulators_behind(in_loop)
    if not early or accumulators is None:
        return False
    for value in early:
        assert isinstance(value.owner, Operation)
        kept = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, value, value.type)
        kept.result.name_hint = value.name_hint
        Rewriter.insert_op_after(kept, value.owner)
        value.replace_uses_with_if(kept.result, lambda use, own=kept: use.operation is not own)
    for op in accumulators:
        if op.input not in in_loop:
            Rewriter.replace_op(op, [], [op.input])
    return True
