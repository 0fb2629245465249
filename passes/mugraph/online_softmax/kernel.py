"""Sums of exponentials below a running maximum, so that none overflows, in one kernel.

Analysis: multiplying every exponential of a row by one number, exp(-m), multiplies what is computed
of them linearly by the same number.  *Degrees* count how often: a value of degree k becomes
exp(-k m) times what it was, in every row.  Where every output has degree 0 the number cancels, as
in the quotient of a sum of weighted exponentials and their sum, and any m may be subtracted before
the exponential.  The running maximum of the rows is taken, and what accumulators hold below an
older maximum is rescaled in every iteration.  The logarithm of a value of degree k after the loop
is -k m more than it was, and the last maximum is added to it.  An exponential of what is known
before the loop may be added to a sum after it: both are then computed below the largest of its
exponent and the last maximum, and what accumulators hold is rescaled once more.  Rows are along one
dimension, most often the last one.

Source: M. Milakov and N. Gimelshein, Online normalizer calculation for softmax (2018), and Mirage's
``src/transpiler/transpile.cc``, which rewrites one place of one form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, singledispatch
from typing import NamedTuple, TypeGuard

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.kn import CustomizedOp, Phase, loop_invariant_tiles, phases_of
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.reductions import LEAST
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tb.graph_bounds import bounds_of_graph
from mugraph.dialects.tb.reduction import no_running_maximum
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label
from mugraph.passes.mugraph.online_softmax.masked import least_of

Degree = Fraction
NONE = Degree(0)
"""The degree of what does not depend on the exponentials."""


POWERS = {
    "mul_scalar": Degree(1),
    "square": Degree(2),
    "sqrt": Degree(1, 2),
    "reciprocal_or_zero": Degree(-1),
}
"""Functions f with f(a b) = a^p f(b) for a positive a: the power p."""


class OnlineSoftmax(NamedTuple):
    """An exponential to compute below a running maximum, and the accumulators to rescale."""

    exponential: Operation
    dim: int
    """The dimension that the maximum is taken along."""
    accumulators: tuple[tb.ForloopAccumOp, ...]
    logarithms: tuple[tb.UnaryOp, ...] = ()
    """Logarithms, after the loop, of sums of degree 1."""
    summands: tuple[tb.UnaryOp, ...] = ()
    """Exponentials, after the loop, that are added to such sums."""


@singledispatch
def degree_of_result(op: Operation, degrees: Sequence[Degree], dim: int) -> Degree | None:
    """The degree of an operator's result, one of whose operands has a degree other than 0.

    The factors differ along all dimensions but ``dim``.  ``None`` where they do not come out of it
    as one factor.  An operator registers a function of its own; any other one does not let them
    out.
    """
    return None


@degree_of_result.register
def _(op: tb.UnaryOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    (degree,) = degrees
    power = POWERS.get(op.FUNCTION)
    return None if power is None else degree * power


@degree_of_result.register
def _(op: tb.CastOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    return None if is_integer(element_type_of(op.result.type)) else degrees[0]


@degree_of_result.register
def _(op: tb.MaskOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    return degrees[0] if op.constant == 0 else None


@degree_of_result.register
def _(op: tb.BinaryOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    left, right = degrees
    match op.FUNCTION:
        case "mul":
            return left + right
        case "div":
            return left - right
        case "add" | "sub" if left == right:
            return left
        case _:
            return None


@degree_of_result.register
def _(op: tb.MatmulOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    # Rows of the right operand are summed over, so their factors would mix.
    left, right = degrees
    return left if right == NONE and _is_last(dim, op.lhs) else None


@degree_of_result.register
def _(op: tb.AnyReductionOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    return degrees[0] if op.reduced_dim == dim else None


@degree_of_result.register
def _(op: tb.RmsNormOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    is_plain = op.epsilon_value == 0 and not any(degrees[1:])
    return NONE if is_plain and _is_last(dim, op.input) else None


@degree_of_result.register
def _(op: tb.ForloopAccumOp, degrees: Sequence[Degree], dim: int) -> Degree | None:
    kinds = tb.AccumulatorKind
    sums = (kinds.NONE, kinds.SUM) if _is_last(dim, op.input) else (kinds.NONE,)
    return degrees[0] if op.kind.data in sums and degrees[0] == 1 else None


def _is_last(dim: int, tile: SSAValue) -> bool:
    return dim == len(shape_of(tile.type)) - 1


def _before_casts(value: SSAValue) -> Operation | Block:
    """What computes a value, or what a value is cast from."""
    owner = value.owner
    return _before_casts(owner.input) if isinstance(owner, tb.CastOp) else owner


def is_plain_exponential(op: Operation) -> bool:
    """Whether an operator is an exponential that no running maximum has to do with."""
    if not isinstance(op, tb.UnaryOp) or op.FUNCTION != "exp":
        return False
    power = _before_casts(op.input)
    if isinstance(power, tb.BinaryOp) and power.FUNCTION == "sub":
        power = _before_casts(power.rhs)
    return not is_largest(power)


def is_largest(op: Operation | Block) -> bool:
    """Whether an operator gives a running maximum, or the largest of one and other values."""
    match op:
        case tb.ReductionMaxOp():
            return True
        case tb.ForloopAccumOp():
            return op.kind.data is tb.AccumulatorKind.MAX
        case tb.BinaryOp():
            return op.FUNCTION == "max" and any(is_largest(v.owner) for v in op.operands)
        case _:
            return False


@dataclass(frozen=True)
class AnalysedGraph:
    """A graph, and analyses of it that hold while it stays as it is."""

    graph: CustomizedOp

    @cached_property
    def bounds(self) -> dict[SSAValue, Bounds]:
        """Which elements exist of every tile."""
        return bounds_of_graph(self.graph.body.block)

    @cached_property
    def invariant(self) -> set[SSAValue]:
        """The tiles that are the same in every iteration."""
        return loop_invariant_tiles(self.graph.body.block)

    @cached_property
    def phases(self) -> dict[Operation, Phase]:
        """When each operator runs."""
        return phases_of(self.graph.body.block, self.graph.forloop_range)


def find_online_softmax(exponential: Operation, graph: CustomizedOp) -> OnlineSoftmax | str:
    """What to rewrite for one plain exponential, or why it stays, in words."""
    last = len(shape_of(exponential.operands[0].type)) - 1
    analysed = AnalysedGraph(graph)
    first = _find_along(exponential, analysed, last)
    others = (_find_along(exponential, analysed, dim) for dim in reversed(range(last)))
    return next((found for found in (first, *others) if isinstance(found, OnlineSoftmax)), first)


def _find_along(exponential: Operation, graph: AnalysedGraph, dim: int) -> OnlineSoftmax | str:
    """What to rewrite for an exponential below maxima along a dimension, or why it stays."""
    obstacle = why_not_below_maximum(exponential, graph, dim)
    if obstacle is not None:
        return obstacle
    flow = follow(graph, {exponential.results[0]: Degree(1)}, dim)
    if isinstance(flow, str):
        return flow
    if flow.stored:
        output = next(iter(flow.stored))
        return f"{op_label(output)} stores values that no sum of exponentials has divided"
    if not flow.cancels:
        return "no result is a quotient of its sums"
    return OnlineSoftmax(exponential, dim, flow.accumulators, flow.logarithms, flow.summands)


def why_not_below_maximum(exponential: Operation, analysed: AnalysedGraph, dim: int) -> str | None:
    """Why no running maximum along a dimension can be subtracted first, in words."""
    if tb.epilogue_of(exponential):
        return "it has an epilogue; run --online-softmax before --fuse-threadblock"
    scores, graph = exponential.operands[0], analysed.graph
    why = no_running_maximum(analysed.bounds[scores], dim, graph.grid_dim, graph.forloop_range)
    return None if why is None else f"{value_label(scores)} {why}"


class Flow(NamedTuple):
    """Where the factors of rows go in a graph."""

    accumulators: tuple[tb.ForloopAccumOp, ...]
    """The accumulators that have them."""
    stored: Mapping[tb.OutputOp, Degree]
    """The outputs that store them after the loop."""
    cancels: bool
    """Whether they cancel somewhere, or become summands."""
    logarithms: tuple[tb.UnaryOp, ...] = ()
    summands: tuple[tb.UnaryOp, ...] = ()


def follow(
    analysed: AnalysedGraph,
    sources: Mapping[SSAValue, Degree],
    dim: int,
    summands: tuple[tb.UnaryOp, ...] = (),
) -> Flow | str:
    """Follows the degrees of some values; in words where they become no degree of one value.

    Exponentials that are added to values of degree 1 are ``summands`` of degree 1, wherever else
    they are used.
    """
    degrees = dict(sources)
    accumulators: list[tb.ForloopAccumOp] = []
    logarithms: list[tb.UnaryOp] = []
    graph, known, phases = analysed.graph, analysed.invariant, analysed.phases
    stored: dict[tb.OutputOp, Degree] = {}
    cancels = False
    for op in graph.body.block.ops:
        of_operands = [degrees.get(value, NONE) for value in op.operands]
        if not any(of_operands) or any(result in sources for result in op.results):
            continue
        if isinstance(op, tb.OutputOp) and op.loop_dim < 0:
            stored[op] = of_operands[0]
            continue
        if _is_logarithm(op) and phases[op] is Phase.AFTER and of_operands == [1]:
            logarithms.append(op)
            cancels = True
            continue
        summand = _summand_of(op, of_operands, dim, known)
        if summand is not None:
            users = [use.operation for use in summand.result.uses]
            if graph.forloop_range == 1 or all(phases[user] is Phase.AFTER for user in users):
                more = {**sources, summand.result: Degree(1)}
                return follow(analysed, more, dim, (*summands, summand))
        degree = None if tb.epilogue_of(op) else degree_of_result(op, of_operands, dim)
        if degree is None:
            return f"what it multiplies each row by is no factor of the results of {op_label(op)}"
        degrees[op.results[0]] = degree
        cancels = cancels or degree == NONE
        if isinstance(op, tb.ForloopAccumOp):
            accumulators.append(op)
    return Flow(tuple(accumulators), stored, cancels, tuple(logarithms), summands)


def _summand_of(
    op: Operation, degrees: Sequence[Degree], dim: int, known: set[SSAValue]
) -> tb.UnaryOp | None:
    """The exponential, known before the loop, that an operator adds to a sum of degree 1."""
    if not isinstance(op, tb.BinaryOp) or op.FUNCTION != "add" or tb.epilogue_of(op):
        return None
    if sorted(degrees) != [NONE, Degree(1)]:
        return None
    total, added = op.operands if degrees[1] == NONE else reversed(op.operands)
    shape, exponential = shape_of(total.type), added.owner
    is_row = shape[dim] == 1 and broadcast_shape([shape, shape_of(added.type)]) == shape
    if not isinstance(exponential, tb.UnaryOp) or exponential.FUNCTION != "exp":
        return None
    if not is_row or tb.epilogue_of(exponential):
        return None
    return exponential if exponential.input in known else None


def _is_logarithm(op: Operation) -> TypeGuard[tb.UnaryOp]:
    return isinstance(op, tb.UnaryOp) and op.FUNCTION == "log" and not tb.epilogue_of(op)


def apply_online_softmax(match: OnlineSoftmax) -> tb.ReductionMaxOp:
    """Subtracts the running maximum before the exponential and rescales the accumulators.

    Returns the operator of the maximum.
    """
    exponential = match.exponential
    maximum, below = subtract_maximum(exponential.operands[0], match.dim)
    Rewriter.insert_op([maximum, below], InsertPoint.before(exponential))
    exponential.operands[0] = below.result
    put_below(maximum, below, match)
    return maximum


def put_below(maximum: tb.ReductionMaxOp, below: tb.BinaryOp, flow: Flow | OnlineSoftmax) -> None:
    """Computes what is made of exponentials ``below`` a running maximum as below the last one.

    Accumulators are rescaled, and the maximum is added to logarithms.  Where exponentials are
    added to sums, all of them are computed below their exponents as well.
    """
    accumulators: Sequence[SSAValue] = ()
    if flow.accumulators:
        rescale = exponential_of_fall(maximum)
        Rewriter.insert_op_after(rescale, below)
        accumulators = rescale_accumulators(flow.accumulators, rescale)
    if not flow.logarithms and not flow.summands:
        return
    largest = maximum.maximum
    if accumulators or not flow.summands:
        last = tb.ForloopAccumOp(tb.AccumulatorKind.MAX, largest, largest.type)
        Rewriter.insert_op_after(last, maximum)
        largest = last.result
        largest.name_hint = "largest"
    if flow.summands:
        # A row of minus infinity alone is 0 beside its summands.
        maximum.least = LEAST
        largest = _join_summands(largest, below, accumulators, flow.summands)
    _raise_logarithms(flow.logarithms, largest)


def _join_summands(
    largest: SSAValue,
    below: tb.BinaryOp,
    accumulators: Sequence[SSAValue],
    summands: Sequence[tb.UnaryOp],
) -> SSAValue:
    """Puts sums and exponentials that are added to them below the largest of all exponents."""
    point = _maker_of(largest)
    joined, rows = largest, tb.STensorType(shape_of(largest.type), f32)
    for op in summands:
        _move_before(op.input, point)
        operands = (joined, op.input)
        larger = tb.elementwise(ScalarFunction("max"), operands, rows)
        Rewriter.insert_op_after(larger, _maker_of(joined))
        joined = larger.results[0]
    for op in summands:
        difference = tb.SubOp(op.input, joined, rows)
        exponential = tb.ExpOp(difference.result)
        Rewriter.insert_op([difference, exponential], InsertPoint.before(op))
        Rewriter.replace_op(op, [], [exponential.result])
    if not accumulators:
        below.operands[1] = joined
        return joined
    fall = tb.SubOp(largest, joined, rows)
    weight = tb.ExpOp(fall.result)
    weight.result.name_hint = "weight"
    Rewriter.insert_op_after([fall, weight], _maker_of(joined))
    for value in accumulators:
        scaled = tb.MulOp(value, weight.result, value.type)
        scaled.result.name_hint = value.name_hint
        Rewriter.insert_op_after(scaled, _maker_of(value))
        value.replace_uses_with_if(scaled.result, lambda use, own=scaled: use.operation is not own)
    return joined


def _maker_of(tile: SSAValue) -> Operation:
    owner = tile.owner
    assert isinstance(owner, Operation), "a tile is no argument of a graph"
    return owner


def _move_before(value: SSAValue, point: Operation) -> None:
    """Computes a tile before an operator that it does not depend on."""
    op = value.owner
    if isinstance(op, Operation) and point.is_before_in_block(op):
        for operand in op.operands:
            _move_before(operand, point)
        op.detach()
        Rewriter.insert_op(op, InsertPoint.before(point))


def _raise_logarithms(logarithms: Sequence[tb.UnaryOp], largest: SSAValue) -> None:
    """Adds the last maximum to logarithms of sums below it."""
    for op in logarithms:
        total = tb.AddOp(op.result, largest, op.result.type)
        total.result.name_hint = op.result.name_hint
        Rewriter.insert_op_after(total, op)
        op.result.replace_uses_with_if(
            total.result, lambda use, own=total: use.operation is not own
        )


def subtract_maximum(scores: SSAValue, along: int) -> tuple[tb.ReductionMaxOp, tb.BinaryOp]:
    """The running maximum of a tile along a dimension, and the tile below it."""
    shape = shape_of(scores.type)
    rows = tb.STensorType((*shape[:along], 1, *shape[along + 1 :]), f32)
    maximum = tb.ReductionMaxOp(scores, along, (rows, rows), least_of(scores))
    below = tb.SubOp(scores, maximum.maximum, tb.STensorType(shape, f32))
    maximum.maximum.name_hint, maximum.difference.name_hint = "max", "fall"
    return maximum, below


def exponential_of_fall(maximum: tb.ReductionMaxOp) -> tb.UnaryOp:
    """What sums below an older maximum are rescaled by."""
    rescale = tb.ExpOp(maximum.difference)
    rescale.result.name_hint = "rescale"
    return rescale


def rescale_accumulators(
    accumulators: Sequence[tb.ForloopAccumOp], rescale: tb.UnaryOp
) -> list[SSAValue]:
    """Makes accumulators rescale what they hold in every iteration; what they become."""
    results: list[SSAValue] = []
    kinds = {
        tb.AccumulatorKind.NONE: tb.RescaledKind.NONE,
        tb.AccumulatorKind.SUM: tb.RescaledKind.SUM,
    }
    for op in accumulators:
        hint = op.result.name_hint
        kind = kinds[op.kind.data]
        rescaled = tb.ForloopAccumRescaleOp(kind, op.input, rescale.result, op.result.type)
        Rewriter.replace_op(op, rescaled)
        rescaled.result.name_hint = hint
        results.append(rescaled.result)
    return results


def online_softmax(graph: CustomizedOp) -> None:
    """Rewrites every place of a threadblock graph where the maximum cancels.

    None of a kernel whose plan says ``online_softmax = false``.
    """
    if graph.decided.online_softmax is False:
        return
    for op in tuple(graph.body.block.ops):
        if is_plain_exponential(op):
            match = find_online_softmax(op, graph)
            if isinstance(match, OnlineSoftmax):
                apply_online_softmax(match)


def custom_kernels(module: Operation) -> list[CustomizedOp]:
    """The custom kernels in a module."""
    return [op for op in module.walk() if isinstance(op, CustomizedOp)]
