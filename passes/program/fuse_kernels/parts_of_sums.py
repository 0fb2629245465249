"""Sums so far of few long runs in parts, of which blocks have some each.

What a part's elements are summed to is the sum so far of the part, and the sum of all parts before:
an exclusive scan of the sums of parts.  The scan as it is written reads what is before a block's
part again and again (``passes/costs/scans.py``).
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, f32
from xdsl.dialects.func import FuncOp

from mugraph.dialects import kn
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.costs.scans import parts_of_runs
from mugraph.passes.program.fuse_kernels.times import runs_of
from mugraph.passes.targets import Target


def divide_sums(function: FuncOp, target: Target) -> bool:
    """Writes the long sums of a function in parts; whether there are any."""
    scans = [op for op in function.body.block.ops if isinstance(op, kn.ScanOp)]
    divided = [_divide(op, parts_of_runs(runs_of(op), target)) for op in scans]
    return any(divided)


def _divide(op: kn.ScanOp, count: int) -> bool:
    """Writes one scan in so many parts, where it can be."""
    whole = all(map(kn.may_be_row_major, (op.input, op.result)))
    if op.decay is not None or count == 1 or not whole:
        return False
    steps, dim, shape = Expansion(), op.reduced_dim, shape_of(op.input.type)
    extents = (*shape[:dim], count, shape[dim] // count, *shape[dim + 1 :])
    parts = steps.add(kn.ReshapeOp(op.input, TensorType(element_type_of(op.input.type), extents)))
    sums = steps.reduce(parts, [dim + 1])
    before = steps.add(kn.ScanOp(sums, dim, sums.type, exclusive=True))
    type_ = TensorType(f32, extents)
    inside = steps.add(kn.ScanOp(parts, dim + 1, type_, exclusive=op.is_exclusive))
    element = TensorType(element_type_of(op.result.type), extents)
    total = steps.apply("add", inside, before, type_=element)
    result = steps.add(kn.ReshapeOp(total, op.result.type))
    result.name_hint = op.result.name_hint
    Rewriter.replace_op(op, steps.operations, [result])
    return True
