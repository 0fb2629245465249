"""What operators after the loop use of its body: accumulated, or computed once more after it."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation

from mugraph.dialects import tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn import (
    CustomizedOp,
    Phase,
    loop_invariant_tiles,
    phases_of,
    used_after_the_loop,
)
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of


def separate_phases(graph: CustomizedOp) -> None:
    """Makes operators after the loop use none of the tiles of its body.

    After several iterations a verified graph uses only what is the same in all of them, which is
    computed once more after the loop.  Of a single iteration an accumulator holds the same
    elements; integers, and floats of 8 bits, that are only stored are stored in the iteration
    instead: integers of 8 bits have no accumulator, and an accumulator of such floats would be one
    more tile in shared memory.  Passes call this that treat the loop and what stands after it
    differently.
    """
    if graph.forloop_range > 1:
        _repeat_invariant_operators(graph)
        return
    for value, users in used_after_the_loop(graph.body.block, graph.forloop_range).items():
        if is_integer(element_type_of(value.type)) or element_bytes_of(value.type) == 1:
            for output in [op for op in users if isinstance(op, tb.OutputOp)]:
                in_loop = output.clone()
                in_loop.fordim = IntegerAttr(0, i64)
                Rewriter.replace_op(output, in_loop, [])
                users.remove(output)
        if users:
            kept = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, value, value.type)
            kept.result.name_hint = value.name_hint
            assert isinstance(value.owner, Operation)
            Rewriter.insert_op_after(kept, value.owner)
            value.replace_uses_with_if(
                kept.result, lambda use, users=tuple(users): use.operation in users
            )


def _repeat_invariant_operators(graph: CustomizedOp) -> None:
    """Gives operators after the loop a copy of those of the body that make invariant tiles."""
    phases = phases_of(graph.body.block, graph.forloop_range)
    invariant = loop_invariant_tiles(graph.body.block)
    for op in reversed(phases):
        if phases[op] is not Phase.LOOP or not op.results or not invariant.issuperset(op.results):
            continue
        late = {
            use.operation
            for value in op.results
            for use in value.uses
            if phases.get(use.operation, Phase.AFTER) is Phase.AFTER
        }
        if late:
            repeated = op.clone()
            Rewriter.insert_op_after(repeated, op)
            for value, copy in zip(op.results, repeated.results, strict=True):
                value.replace_uses_with_if(copy, lambda use, late=late: use.operation in late)
