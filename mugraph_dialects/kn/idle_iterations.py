"""Iterations of a loop that change nothing, since a mask leaves nothing of their tiles.

Where a mask leaves no element of a tile, its result is one constant.  What is made of it is often
one, too: exponentials of minus infinity are 0, and so are products with them.  An iteration whose
every accumulator adds 0, and every running maximum sees minus infinity, may be left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import singledispatch

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn.customized import CustomizedOp
from mugraph.dialects.kn.phases import Phase, phases_of
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.maps import AXES
from mugraph.dialects.spans import span_of
from mugraph.dialects.tensor_types import shape_of

Constants = Sequence[float | None]
"""What each operand is everywhere, ``None`` where that is not known."""


class _ChangesError(Exception):
    """An iteration leaves something behind."""


@singledispatch
def constants_of(op: Operation, operands: Constants) -> Constants:
    """What each result is everywhere, of operands of which some are one number everywhere.

    Raises :class:`_ChangesError` where the operator keeps something of it for later iterations.
    An operator registers a function of its own; of others nothing is known.
    """
    return [None] * len(op.results)


@constants_of.register
def _(op: tb.ElementwiseOp, operands: Constants) -> Constants:
    known = [value for value in operands if value is not None]
    if len(known) == len(operands) > 0:
        is_unit = op.FUNCTION == "exp" and known == [0]
        return [1.0 if is_unit else op.function.at(known)]
    match op.FUNCTION, operands:
        case "mul", _ if 0 in known:
            return [0.0]
        case "sub", (below, _) if below == -math.inf:
            return [below]
        case _:
            return [None]


@constants_of.register
def _(op: tb.MaskOp, operands: Constants) -> Constants:
    return [op.constant if operands[0] == op.constant else None]


@constants_of.register
def _(op: tb.MatmulOp, operands: Constants) -> Constants:
    return [0.0 if 0 in operands else None]


@constants_of.register
def _(op: tb.AnyReductionOp, operands: Constants) -> Constants:
    return [0.0 if operands[0] == 0 else None]


@constants_of.register
def _(op: tb.ReductionMaxOp, operands: Constants) -> Constants:
    if operands[0] != -math.inf:
        raise _ChangesError
    # The maximum stays, from the number on that it starts from.
    return [None, 0.0]


@constants_of.register
def _(op: tb.AccumulatorOp, operands: Constants) -> Constants:
    if not op.adds or operands[0] != 0:
        raise _ChangesError
    return [None]


@constants_of.register
def _(op: tb.ForloopAccumOp, operands: Constants) -> Constants:
    adds_nothing = op.adds and operands[0] == 0
    is_maximum = op.kind.data is tb.AccumulatorKind.MAX
    # Of maxima so far the last one is the largest.
    sees_no_more = is_maximum and isinstance(op.input.owner, tb.ReductionMaxOp)
    if not adds_nothing and not sees_no_more:
        raise _ChangesError
    return [None]


@constants_of.register
def _(op: tb.ForloopAccumRescaleOp, operands: Constants) -> Constants:
    if tuple(operands) != (0, 1):
        raise _ChangesError
    return [None]


def changes_nothing(graph: CustomizedOp, of: tb.MaskOp | tb.InputOp) -> bool:
    """Whether an iteration changes nothing in which a tile is one constant.

    ``of`` is the mask that leaves no element of it, or the load that ends before it.
    """
    constant = of.constant if isinstance(of, tb.MaskOp) else 0.0
    known: dict[SSAValue, float | None] = {of.result: constant}
    for op, phase in phases_of(graph.body.block, graph.forloop_range).items():
        if phase is not Phase.LOOP or isinstance(op, tb.InputOp):
            continue
        if isinstance(op, tb.OutputOp):
            return False
        operands = [known.get(value) for value in op.operands]
        try:
            results = [constant] if op is of else constants_of(op, operands)
        except _ChangesError:
            return False
        epilogue = tb.epilogue_of(op)
        for function in epilogue.functions:
            first = None if results[0] is None else function.at([results[0]])
            results = [first, *results[1:]]
        if epilogue.accumulates and results[0] != 0:
            return False
        known.update(zip(op.results, results, strict=True))
    return True


def iterations_that_count(graph: CustomizedOp) -> list[LinearForm]:
    """Forms of block and iteration, all at least 0 in every iteration that changes something.

    None where that is so in all iterations of all blocks.
    """
    if graph.forloop_range == 1:
        return []
    found: list[LinearForm] = []
    for op in masks_that_idle(graph):
        found += largest_in_tiles(op.local_forms(), shape_of(op.result.type))
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp) and op.loop_dim in op.ends and changes_nothing(graph, op):
            forms = tb.forms_in_tiles(op.end_forms(), op.slicing())
            found += largest_in_tiles(forms, shape_of(op.result.type))
    lengths = [length.largest for length in graph.held_lengths]
    counts = [*graph.grid_dim, graph.forloop_range, *(most + 1 for most in lengths)]
    return [form for form in dict.fromkeys(found) if _excludes(form, counts)]


def masks_that_idle(graph: CustomizedOp) -> list[tb.MaskOp]:
    """The masks of places without whose tiles an iteration changes nothing."""
    return [
        op
        for op in graph.body.block.ops
        if isinstance(op, tb.MaskOp) and op.condition is not None and changes_nothing(graph, op)
    ]


def share_that_counts(forms: Sequence[LinearForm], grid: Sequence[int], iterations: int) -> float:
    """The part of all iterations of all blocks that is from the first to the last that count.

    ``forms`` are of block and iteration.
    """
    forms = [form for form in forms if _excludes(form, [*grid, iterations])]
    axes = [
        range(extent) if any(form.coefficients[axis] for form in forms) else range(1)
        for axis, extent in enumerate(grid)
    ]
    spans = [span_of(forms, block, iterations) for block in itertools.product(*axes)]
    return sum(span.count for span in spans) / (iterations * len(spans))


def largest_in_tiles(forms: Sequence[LinearForm], shape: Sequence[int]) -> list[LinearForm]:
    """What forms of places in a tile, and of others, are at most, of the latter alone."""
    rank, found = len(shape), list[LinearForm]()
    for form in forms:
        pairs = zip(form.coefficients[:rank], shape, strict=True)
        most = sum(max(step, 0) * (extent - 1) for step, extent in pairs)
        found.append(LinearForm(form.coefficients[rank:], form.constant + most))
    return found


def _excludes(form: LinearForm, counts: Sequence[int]) -> bool:
    """Whether a form that moves with the iteration is negative somewhere.

    ``counts`` has how many values each coordinate has, from 0 on.
    """
    pairs = zip(form.coefficients, counts, strict=True)
    least = sum(min(step, 0) * (count - 1) for step, count in pairs)
    return form.coefficients[len(AXES)] != 0 and form.constant + least < 0
