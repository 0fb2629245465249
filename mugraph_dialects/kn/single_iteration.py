"""Loops of one iteration: values that are used after the loop get the accumulator they need."""

from __future__ import annotations

from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn import CustomizedOp, used_after_the_loop
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_type_of


def accumulate_single_iteration(graph: CustomizedOp) -> None:
    """Accumulates what operators after the loop use of its body.

    A verified graph has such values only where its loop has one iteration, of which an accumulator
    holds the same elements.  Integers that are only stored are stored in the iteration instead,
    for 8 bits have no accumulator.  Passes call this that treat the loop and what stands after it
    differently.
    """
    for value, users in used_after_the_loop(graph.body.block).items():
        if is_integer(element_type_of(value.type)):
            for output in [op for op in users if isinstance(op, tb.OutputOp)]:
                in_loop = tb.OutputOp(value, output.map_, output.dtensor_type, fordim=0)
                Rewriter.replace_op(output, in_loop, [])
                users.remove(output)
        if users:
            kept = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, value, value.type)
            kept.result.name_hint = value.name_hint
            assert isinstance(value.owner, Operation)
            Rewriter.insert_op(kept, InsertPoint.after(value.owner))
            value.replace_uses_with_if(
                kept.result, lambda use, users=tuple(users): use.operation in users
            )
