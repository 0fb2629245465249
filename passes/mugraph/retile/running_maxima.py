"""Takes the running maxima of ``--online-softmax`` out of a kernel, to be put back later.

What a running maximum is in an iteration depends on the tiles before, the results do not: the
maximum cancels.  So a kernel is repartitioned without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp, running_maxima
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.mugraph.online_softmax.kernel import (
    OnlineSoftmax,
    find_online_softmax,
    is_largest,
)
from mugraph.passes.mugraph.retile.errors import RetileError

PLAIN_KINDS = {
    tb.RescaledKind.NONE: tb.AccumulatorKind.NONE,
    tb.RescaledKind.SUM: tb.AccumulatorKind.SUM,
}


def _fail(maximum: tb.ReductionMaxOp, why: str) -> RetileError:
    return RetileError(
        f"{op_label(maximum)} is a running maximum, so that its kernel cannot be cut "
        f"otherwise: {why}"
    )


def _exponentials(maximum: tb.ReductionMaxOp, value: SSAValue) -> list[tb.UnaryOp]:
    """The operators that use a value, all of which must be exponentials."""
    users = [use.operation for use in value.uses]
    found = [op for op in users if isinstance(op, tb.UnaryOp) and op.FUNCTION == "exp"]
    if len(found) != len(users):
        raise _fail(maximum, "another operator than an exponential uses a difference from it")
    return found


@dataclass
class _TakenOut:
    """What was computed below a running maximum, or below the largest of it and other values."""

    below: list[tb.UnaryOp] = field(default_factory=list[tb.UnaryOp])
    """Exponentials of what it is the maximum of."""
    summands: set[Operation] = field(default_factory=set[Operation])
    """Other exponentials."""
    weighed: set[SSAValue] = field(default_factory=set[SSAValue])
    """Sums that were multiplied by how far other values rose above the maximum."""
    is_joined: bool = False
    """Whether other values may have been the largest."""

    def is_put_back(self, match: OnlineSoftmax | str) -> bool:
        """Whether ``--online-softmax`` puts back all of it."""
        if isinstance(match, str) or not self.summands <= {*match.summands}:
            return False
        sums = {op.result for op in match.accumulators}
        return self.weighed == (sums if self.is_joined else set())


def _take_out(maximum: tb.ReductionMaxOp) -> _TakenOut:
    """Removes a maximum; what was below it."""
    for rescale in _exponentials(maximum, maximum.difference):
        for use in tuple(rescale.result.uses):
            accumulator = use.operation
            if not isinstance(accumulator, tb.ForloopAccumRescaleOp) or use.index != 1:
                raise _fail(maximum, "it rescales another operator than an accumulator")
            kind = PLAIN_KINDS[accumulator.kind.data]
            plain = tb.ForloopAccumOp(kind, accumulator.input, accumulator.result.type)
            plain.result.name_hint = accumulator.result.name_hint
            accumulator.result.replace_all_uses_with(plain.result)
            Rewriter.replace_op(accumulator, plain)
        Rewriter.erase_op(rescale)
    taken = _TakenOut()
    _leave_out(maximum, maximum.maximum, taken)
    Rewriter.erase_op(maximum)
    return taken


def _leave_out(maximum: tb.ReductionMaxOp, largest: SSAValue, taken: _TakenOut) -> None:
    """Takes a value that is a largest one out of exponentials below it, and of logarithms."""
    for op in _users(largest):
        if isinstance(op, tb.ForloopAccumOp) and op.kind.data is tb.AccumulatorKind.MAX:
            _leave_out(maximum, op.result, taken)
            Rewriter.erase_op(op)
    joins = [op for op in _users(largest) if isinstance(op, tb.BinaryOp) and op.FUNCTION == "max"]
    for op in joins:
        taken.is_joined = True
        _leave_out(maximum, op.result, taken)
        Rewriter.erase_op(op)
    if joins and largest.uses:
        raise _fail(
            maximum, "some values are taken relative to it, others to a maximum that includes it"
        )
    for op in _users(largest):
        match op:
            case tb.BinaryOp(FUNCTION="add", lhs=left) if _is_logarithm(left.owner):
                op.result.replace_all_uses_with(left)
            case tb.BinaryOp(FUNCTION="sub", lhs=left, rhs=right) if right is largest:
                exponentials = _exponentials(maximum, op.result)
                if is_largest(left.owner):
                    _leave_out_weights(maximum, exponentials, taken)
                elif left is maximum.input:
                    taken.below += exponentials
                else:
                    taken.summands.update(exponentials)
                op.result.replace_all_uses_with(left)
            case _:
                raise _fail(
                    maximum,
                    "something else uses it than a subtraction from the values that it is of",
                )
        Rewriter.erase_op(op)


def _leave_out_weights(
    maximum: tb.ReductionMaxOp, exponentials: Sequence[tb.UnaryOp], taken: _TakenOut
) -> None:
    """Takes out of sums how far other values rose above the maximum."""
    for weight in exponentials:
        for op in _users(weight.result):
            if not _weighs(op, weight.result):
                raise _fail(
                    maximum, "another operator than a sum is scaled by a value that is above it"
                )
            taken.weighed.add(op.operands[0])
            Rewriter.replace_op(op, [], [op.operands[0]])
        Rewriter.erase_op(weight)


def _users(value: SSAValue) -> list[Operation]:
    return [use.operation for use in value.uses]


def _is_logarithm(op: Operation | Block) -> bool:
    return isinstance(op, tb.UnaryOp) and op.FUNCTION == "log"


def take_out_running_maxima(graph: CustomizedOp) -> bool:
    """Removes the running maxima of a kernel; whether there were any.

    Raises :class:`RetileError` for one that does not cancel, unless there is one iteration: that of
    a whole row may stay.
    """
    if graph.forloop_range > 1:
        return _take_all_out(graph)
    if not running_maxima(graph.body.block, graph.forloop_range):
        return False
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
        taken = _take_out(maximum)
        matches = [find_online_softmax(exponential, graph) for exponential in taken.below]
        if not matches or not all(map(taken.is_put_back, matches)):
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
    if isinstance(tile.owner, tb.CarriedOp):
        return False  # it decays by the weight
    return factor is weight and tile is not weight and op.results[0].type == tile.type
