"""Scores of which whole tiles may be masked: what their running maximum starts from.

Of a row that is minus infinity so far the maximum would be that too, and each element less the
maximum not a number.  From a number far below all scores such a row's exponentials are 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.reductions import LEAST


def least_of(scores: SSAValue) -> float:
    """What a running maximum of scores starts from."""
    return LEAST if is_masked(scores) or _takes_empty_rows(scores) else -math.inf


def _takes_empty_rows(scores: SSAValue) -> bool:
    """Whether what is made of scores is 0 if all of a row are minus infinity, as of no parts."""
    op = scores.owner
    block = op.parent if isinstance(op, Operation) else None
    return block is not None and any(
        isinstance(each, tb.UnaryOp) and each.FUNCTION == "reciprocal_or_zero" for each in block.ops
    )


def is_passed_on(op: tb.ReductionMaxOp) -> bool:
    """Whether another kernel weighs what lies below a maximum by it, as by that of a part of a row.

    The whole part may be minus infinity where the row is not.
    """
    graph, users = op.parent_op(), [use.operation for use in op.maximum.uses]
    if not isinstance(graph, kn.CustomizedOp) or not any(
        isinstance(user, tb.BinaryOp) and user.FUNCTION == "sub" for user in users
    ):
        return False
    outputs = [each for each in graph.body.block.ops if isinstance(each, tb.OutputOp)]
    stored = [graph.results[outputs.index(user)] for user in users if isinstance(user, tb.OutputOp)]
    after = [use.operation for value in stored for use in value.uses]
    return bool(after) and not any(isinstance(user, ReturnOp) for user in after)


def is_masked(value: SSAValue) -> bool:
    """Whether a mask makes some elements of a tensor minus infinity.

    Of a model with many layers the way to its first tensors is longer than Python's stack.
    """
    seen, waiting = set[SSAValue](), [value]
    while waiting:
        tensor = waiting.pop()
        if tensor in seen:
            continue
        seen.add(tensor)
        match owner := tensor.owner:
            case tb.MaskOp() if owner.condition is not None and owner.constant == -math.inf:
                return True
            case kn.MaskOp() if owner.constant == -math.inf:
                return True
            case tb.InputOp():
                waiting += _loaded(owner)
            case kn.CustomizedOp():
                outputs = [op for op in owner.body.block.ops if isinstance(op, tb.OutputOp)]
                stored = zip(owner.results, outputs, strict=True)
                waiting += [output.stensor for result, output in stored if result is tensor]
            case tb.ElementwiseOp() | kn.ElementwiseOp() | kn.MaskOp():
                waiting += owner.operands
            case kn.MovesElements() | kn.RegroupOp() | kn.ViewOp():
                waiting += owner.operands
            case _:
                pass
    return False


def _loaded(load: tb.InputOp) -> Sequence[SSAValue]:
    """The tensor outside of its graph of which a tile is loaded, where it is known."""
    graph = load.parent_op()
    if not isinstance(graph, kn.CustomizedOp):
        return ()
    tensors = zip(graph.body.block.args, graph.inputs, strict=True)
    return [tensor for own, tensor in tensors if own is load.dtensor]
