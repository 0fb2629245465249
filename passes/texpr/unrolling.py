"""Loops in order and conditions of a function, written out around parallel loops."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineExpr
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.points import all_hold
from mugraph.passes.texpr.te_map.steps import apply


def write_out(block: Block, around: Callable[[Operation], bool], most: int) -> bool:
    """Writes out the loops in order and the conditions for which ``around`` holds.

    Those of a function's block, whose conditions are on numbers that are known then.  False where
    it comes to more than ``most`` iterations; the block is then written out in part.
    """
    steps = 0
    while True:
        found = next(
            (op for op in block.ops if isinstance(op, (te.SeqOp, te.IfOp)) and around(op)), None
        )
        if found is None:
            return True
        steps += found.iterations if isinstance(found, te.SeqOp) else 1
        if steps > most:
            return False
        if isinstance(found, te.IfOp):
            _decide(found)
        else:
            _unroll(found)


def _decide(condition: te.IfOp) -> None:
    """Keeps the body of a condition on numbers that are known, or nothing of it."""
    if all_hold([condition], {}):
        Rewriter.inline_block(condition.body.block, InsertPoint.before(condition))
    Rewriter.erase_op(condition, safe_erase=False)


def _unroll(loop: te.SeqOp) -> None:
    for iteration in range(loop.iterations):
        twin = loop.clone()
        index = apply(AffineExpr.constant(iteration), [], loop.variable.name_hint)
        Rewriter.insert_op(index, InsertPoint.before(loop))
        body = twin.body.block
        Rewriter.inline_block(body, InsertPoint.before(loop), [index.result])
    Rewriter.erase_op(loop, safe_erase=False)
