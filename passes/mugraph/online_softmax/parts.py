"""Running maxima of exponentials whose sums are stored in parts, which another kernel adds up.

Each block of the first kernel computes its exponentials below the running maximum of its own rows,
and stores that maximum when its loop is done.  The second kernel, which loads the parts one an
iteration, multiplies each by exp(its maximum - the largest so far), and rescales what it has added
up whenever that grows.  See :mod:`mugraph.passes.mugraph.online_softmax.kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.mugraph.online_softmax.kernel import (
    AnalysedGraph,
    Degree,
    Flow,
    OnlineSoftmax,
    apply_online_softmax,
    follow,
    is_plain_exponential,
    put_below,
    subtract_maximum,
    why_not_below_maximum,
)


class PartsMatch(NamedTuple):
    """An exponential of one kernel whose row factors cancel in another one."""

    first: CustomizedOp
    second: CustomizedOp
    here: OnlineSoftmax
    """The exponential, and the accumulators of the first kernel."""
    output: tb.OutputOp
    """One of the outputs that store parts of sums; the maxima go where its rows go."""
    loads: tuple[tb.InputOp, ...]
    """What the second kernel loads of them."""
    there: Flow
    dim: int
    """Along which dimension an iteration takes the maximum of the parts that it loads."""


def consumer_of(graph: CustomizedOp) -> CustomizedOp | None:
    """The custom kernel that alone uses all results of another, ``None`` where there is none."""
    users = {use.operation for result in graph.results for use in result.uses}
    if len(users) != 1:
        return None
    (user,) = users
    return user if isinstance(user, CustomizedOp) else None


def loads_of(first: CustomizedOp, second: CustomizedOp) -> list[tuple[tb.InputOp, tb.OutputOp]]:
    """The inputs of a kernel that load what another one stores, with the outputs that do."""
    arguments = dict(zip(second.body.block.args, second.inputs, strict=True))
    outputs = [op for op in first.body.block.ops if isinstance(op, tb.OutputOp)]
    stored: dict[SSAValue, tb.OutputOp] = dict(zip(first.results, outputs, strict=True))
    found: list[tuple[tb.InputOp, tb.OutputOp]] = []
    for op in second.body.block.ops:
        if isinstance(op, tb.InputOp):
            source = next(v for argument, v in arguments.items() if argument is op.dtensor)
            if source in stored:
                found.append((op, stored[source]))
    return found


def loads_through(first: CustomizedOp, second: CustomizedOp) -> tb.InputOp | None:
    """An input of a kernel that reads rows of what another one stores, or numbers that it does.

    Such tiles are not those that the blocks of the other have made; nor are those of rows that are
    stored where numbers say.
    """
    stored = [
        argument
        for argument, value in zip(second.body.block.args, second.inputs, strict=True)
        if value.owner is first
    ]
    loads = [op for op in second.body.block.ops if isinstance(op, tb.InputOp)]
    through = [op for op in loads if op.through is not None or op.windows is not None]
    found = [op for op in through if not {*stored}.isdisjoint(op.operands)]
    found += [load for load, output in loads_of(first, second) if output.through is not None]
    return found[0] if found else None


def _rows(value: SSAValue) -> tuple[int, ...]:
    return shape_of(value.type)[:-1]


def _maps_of_rows(op: tb.InputOp | tb.OutputOp) -> tuple[int, ...]:
    """The map of an input or output, without what it says of the last dimension."""
    tile = op.result if isinstance(op, tb.InputOp) else op.stensor
    last = len(shape_of(tile.type)) - 1
    return tuple(-1 if dim == last else dim for dim in op.map_)


def _loads_parts_in_turn(load: tb.InputOp, output: tb.OutputOp, second: CustomizedOp) -> bool:
    """Whether what one iteration loads is of one block's part, or of some of its rows."""
    last = len(shape_of(output.stensor.type)) - 1
    if last in output.map_ or load.loop_dim == last:
        return shape_of(load.result.type) == shape_of(output.stensor.type)
    if load.loop_dim < 0:
        return second.forloop_range == 1
    dim = load.loop_dim
    return shape_of(load.result.type)[dim] == shape_of(output.stensor.type)[dim]


def _sum_of_parts(load: tb.InputOp, output: tb.OutputOp) -> tb.ReductionOp | None:
    """What sums the parts that an iteration loads, if they stand along a dimension of their own."""
    users = [use.operation for use in load.result.uses]
    if len(users) != 1 or not isinstance(users[0], tb.ReductionOp) or load.loop_dim < 0:
        return None
    shape = shape_of(output.stensor.type)
    is_single = shape[load.loop_dim] == 1 and load.loop_dim != len(shape) - 1
    is_sum = users[0].reduced_dim == load.loop_dim and not tb.epilogue_of(users[0])
    return users[0] if is_single and is_sum else None


def find_parts(exponential: Operation, first: CustomizedOp) -> PartsMatch | None:
    """What to rewrite for one exponential of a kernel, ``None`` where the maximum stays in."""
    second = consumer_of(first)
    if second is None or False in (first.decided.online_softmax, second.decided.online_softmax):
        return None
    if not is_plain_exponential(exponential) or loads_through(first, second) is not None:
        return None
    last = len(shape_of(exponential.operands[0].type)) - 1
    analysed = AnalysedGraph(first)
    here = follow(analysed, {exponential.results[0]: Degree(1)}, last)
    if isinstance(here, str) or set(here.stored.values()) != {Degree(1)}:
        return None
    if here.logarithms or here.summands:
        return None
    if why_not_below_maximum(exponential, analysed, last) is not None:
        return None
    loaded = [(load, output) for load, output in loads_of(first, second) if output in here.stored]
    rows = _rows(exponential.operands[0])
    loads = tuple(load for load, _ in loaded)
    sums = [_sum_of_parts(load, output) for load, output in loaded]
    is_summed = all(total is not None for total in sums)
    is_tile_by_tile = all(
        _rows(output.stensor) == rows
        and _maps_of_rows(output) == _maps_of_rows(loaded[0][1])
        and (_maps_of_rows(load), load.loop_dim) == (_maps_of_rows(loads[0]), loads[0].loop_dim)
        and _rows(load.result) == _rows(loads[0].result)
        and (is_summed or _loads_parts_in_turn(load, output, second))
        for load, output in loaded
    )
    sources: list[SSAValue] = [load.result for load in loads]
    if is_summed:
        sources = [total.result for total in sums if total is not None]
    if not loads or not is_tile_by_tile:
        return None
    last_there = len(shape_of(loads[0].result.type)) - 1
    there = follow(AnalysedGraph(second), dict.fromkeys(sources, Degree(1)), last_there)
    if isinstance(there, str) or there.stored or not there.cancels:
        return None
    match = OnlineSoftmax(exponential, last, here.accumulators)
    dim = loads[0].loop_dim if is_summed else last_there
    return PartsMatch(first, second, match, loaded[0][1], loads, there, dim)


def _with(
    graph: CustomizedOp, operands: Sequence[SSAValue], results: Sequence[Attribute]
) -> CustomizedOp:
    """The kernel with other operands and results, and the body that it has."""
    body = graph.detach_region(graph.body)
    new = CustomizedOp(
        operands,
        results,
        graph.grid_dim,
        graph.block_dim,
        graph.forloop_range,
        body,
        graph.decided,
        graph.held_lengths,
    )
    new.interleaved = graph.interleaved
    Rewriter.replace_op(graph, new, new.results[: len(graph.results)])
    return new


def apply_parts(match: PartsMatch) -> None:
    """Stores the maxima in the first kernel, and adds up below the largest in the second."""
    maximum = apply_online_softmax(match.here)
    largest = tb.ForloopAccumOp(tb.AccumulatorKind.MAX, maximum.maximum, maximum.maximum.type)
    largest.result.name_hint = "max_part"
    Rewriter.insert_op_after(largest, maximum)
    tile, grid = shape_of(largest.result.type), match.first.grid_dim
    shape = [*shape_of(match.output.dtensor_type)[:-1], tile[-1]]
    for axis, dim in enumerate(match.output.map_):
        shape[-1] *= grid[axis] if dim == len(tile) - 1 else 1
    type_ = TensorType(f32, shape)
    match.first.body.block.add_op(tb.OutputOp(largest.result, match.output.map_, type_))
    types = [*(result.type for result in match.first.results), type_]
    first = _with(match.first, match.first.inputs, types)
    first.results[-1].name_hint = "max_parts"
    second = _with(
        match.second,
        [*match.second.inputs, first.results[-1]],
        [result.type for result in match.second.results],
    )
    block = second.body.block
    argument = block.insert_arg(type_, len(block.args))
    argument.name_hint = "max_parts"
    source = match.loads[0]
    rows = tb.STensorType((*_rows(source.result), 1), f32)
    map_ = source.map_ if len(tile) - 1 in match.output.map_ else _maps_of_rows(source)
    load = tb.InputOp(argument, map_, source.loop_dim, rows)
    load.result.name_hint = "max_part"
    first_op = block.first_op
    assert first_op is not None
    Rewriter.insert_op(load, InsertPoint.before(first_op))
    running, below = subtract_maximum(load.result, match.dim)
    weight = tb.ExpOp(below.result)
    weight.result.name_hint = "weight"
    Rewriter.insert_op([running, below, weight], InsertPoint.before(first_op))
    for part in match.loads:
        scaled = tb.MulOp(
            part.result, weight.result, tb.STensorType(shape_of(part.result.type), f32)
        )
        scaled.result.name_hint = part.result.name_hint
        Rewriter.insert_op_after(scaled, part)
        part.result.replace_uses_with_if(
            scaled.result, lambda use, own=scaled: use.operation is not own
        )
    put_below(running, below, match.there)


def online_softmax_of_parts(graph: CustomizedOp) -> bool:
    """Rewrites a place of a kernel whose row factors cancel in its consumer, if there is one.

    Both kernels are replaced.
    """
    for op in tuple(graph.body.block.ops):
        match = find_parts(op, graph)
        if match is not None:
            apply_parts(match)
            return True
    return False
