"""Takes the running maxima of ``--online-softmax`` out of a kernel, to be put back later.

What a running maximum is in an iteration depends on the tiles before, the results do not: the
maximum cancels.  So a kernel is repartitioned without it.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp, running_maxima
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.mugraph.online_softmax.kernel import find_online_softmax
from mugraph.passes.mugraph.retile.errors import RetileError

PLAIN_KINDS = {
    tb.RescaledKind.NONE: tb.AccumulatorKind.NONE,
    tb.RescaledKind.SUM: tb.AccumulatorKind.SUM,
}


def _fail(maximum: tb.ReductionMaxOp, why: str) -> RetileError:
    return RetileError(
        f"{op_label(maximum)} is a running maximum that must stay in its kernel as it is: {why}"
    )


def _exponentials(maximum: tb.ReductionMaxOp, value: SSAValue) -> list[tb.UnaryOp]:
    """The operators that use a value, all of which must be exponentials."""
    users = [use.operation for use in value.uses]
    found = [op for op in users if isinstance(op, tb.UnaryOp) and op.FUNCTION == "exp"]
    if len(found) != len(users):
        raise _fail(maximum, "not only exponentials use what lies below it, or how far it rises")
    return found


def _take_out(maximum: tb.ReductionMaxOp) -> list[tb.UnaryOp]:
    """The exponentials that were below the maximum."""
    below: list[tb.UnaryOp] = []
    for use in tuple(maximum.maximum.uses):
        difference = use.operation
        if isinstance(difference, tb.ForloopAccumOp) and _lower_logarithms(difference):
            continue
        if not isinstance(difference, tb.BinaryOp) or difference.FUNCTION != "sub":
            raise _fail(maximum, "it is not only subtracted from what it is the maximum of")
        if difference.lhs is not maximum.input or difference.rhs is not maximum.maximum:
            raise _fail(maximum, "it is subtracted from something else than it is the maximum of")
        below += _exponentials(maximum, difference.result)
        difference.result.replace_all_uses_with(maximum.input)
        Rewriter.erase_op(difference)
    for rescale in _exponentials(maximum, maximum.difference):
        for use in tuple(rescale.result.uses):
            accumulator = use.operation
            if not isinstance(accumulator, tb.ForloopAccumRescaleOp) or use.index != 1:
                raise _fail(maximum, "other operators than accumulators are rescaled by it")
            kind = PLAIN_KINDS[accumulator.kind.data]
            plain = tb.ForloopAccumOp(kind, accumulator.input, accumulator.result.type)
            plain.result.name_hint = accumulator.result.name_hint
            accumulator.result.replace_all_uses_with(plain.result)
            Rewriter.replace_op(accumulator, plain)
        Rewriter.erase_op(rescale)
    Rewriter.erase_op(maximum)
    return below


def _lower_logarithms(largest: tb.ForloopAccumOp) -> bool:
    """Takes the largest of all out of logarithms that it is added to, if nothing else uses it."""
    sums = [use.operation for use in largest.result.uses]
    logarithms = [op.operands[0] for op in sums]
    if largest.kind.data is not tb.AccumulatorKind.MAX or not all(
        isinstance(op, tb.BinaryOp) and op.FUNCTION == "add" and _is_logarithm(op.lhs.owner)
        for op in sums
    ):
        return False
    for op, logarithm in zip(sums, logarithms, strict=True):
        op.results[0].replace_all_uses_with(logarithm)
        Rewriter.erase_op(op)
    Rewriter.erase_op(largest)
    return True


def _is_logarithm(op: Operation | Block) -> bool:
    return isinstance(op, tb.UnaryOp) and op.FUNCTION == "log"


def take_out_running_maxima(graph: CustomizedOp) -> bool:
    """Removes the running maxima of a kernel; whether there were any.

    Raises :class:`RetileError` for one that does not cancel, unless there is one iteration: that of
    a whole row may stay.
    """
    if graph.forloop_range > 1:
        return _take_all_out(graph)
    probe = graph.clone()
    try:
        _take_all_out(probe)
    except RetileError:
        return False
    finally:
        probe.erase()
    return _take_all_out(graph)


def _take_all_out(graph: CustomizedOp) -> bool:
    maxima = running_maxima(graph.body.block, graph.forloop_range)
    for maximum in maxima:
        message = _fail(maximum, "it does not cancel in all results")
        for exponential in _take_out(maximum):
            if isinstance(find_online_softmax(exponential, graph), str):
                raise message
    return bool(maxima)


def drop_weights(graph: CustomizedOp) -> None:
    """Leaves out what weighs parts of sums by their maxima, for an estimate of what is left.

    A kernel that adds up parts is so cut the same, whether its maxima are put in before or after.
    """
    for op in tuple(graph.body.block.ops):
        if not (isinstance(op, tb.UnaryOp) and op.FUNCTION == "exp"):
            continue
        load, users = op.input.owner, [use.operation for use in op.result.uses]
        is_of_rows = isinstance(load, tb.InputOp) and shape_of(load.result.type)[-1] == 1
        if not is_of_rows or not all(_weighs(user, op.result) for user in users):
            continue
        for user in users:
            Rewriter.replace_op(user, [], [user.operands[0]])
        Rewriter.erase_op(op)
        if isinstance(load, tb.InputOp) and not load.result.uses:
            Rewriter.erase_op(load)


def _weighs(op: Operation, weight: SSAValue) -> bool:
    """Whether an operator multiplies another tile by a weight that is the same along its rows."""
    if not isinstance(op, tb.BinaryOp) or op.FUNCTION != "mul":
        return False
    tile, factor = op.operands
    return factor is weight and tile is not weight and op.results[0].type == tile.type
