"""Operators that compute numbers of numbers, and touch no memory."""

from __future__ import annotations

from xdsl.ir import Block, Operation
from xdsl.rewriter import InsertPoint

from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.values import IndexExpressionOp, IndexOfOp


def is_number(op: Operation) -> bool:
    """Whether an operator only computes numbers of numbers."""
    of_numbers = isinstance(op, (IndexExpressionOp, IndexOfOp)) or op.dialect_name() in (
        "arith",
        "math",
    )
    return of_numbers and not op.regions


def sink_numbers(block: Block) -> None:
    """Computes the numbers of a block again in front of each use, and no longer where they were."""
    for op in reversed([one for one in block.ops if is_number(one)]):
        for use in [use for result in op.results for use in list(result.uses)]:
            copy = op.clone()
            Rewriter.insert_op(copy, InsertPoint.before(use.operation))
            use.operation.operands[use.index] = copy.results[0]
        Rewriter.erase_op(op)
