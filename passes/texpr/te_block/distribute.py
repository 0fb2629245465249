"""Parallel loops around several statements become one a statement, and reductions of their own.

``par i { A  par j { B } }`` is ``par i { A }`` and then ``par i { par j { B } }``: iterations are
independent, so that all may do A before one does B.  A buffer of an iteration that several of these
use gets a dimension more.  ``par i { par j { red s[i] += e } }`` writes ``e`` to a buffer, whose
rows are reduced by the threads of the block together.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass

from xdsl.dialects.arith import ExtFOp, NegfOp
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, f32, i32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import value_label
from mugraph.passes.texpr.analysis.numbers import is_number
from mugraph.passes.texpr.te_map.bands import Band, band_at, has_par
from mugraph.passes.texpr.te_map.reductions import combine, rounded, widened
from mugraph.passes.texpr.te_map.types import make_private


@dataclass(frozen=True)
class Reduction:
    """The elements of ``source`` along ``dim``, combined, are those of ``destination``.

    The destination has one element along that dimension.  With ``accumulates`` what it was before
    takes part.
    """

    source: SSAValue
    destination: SSAValue
    dim: int
    largest: bool
    """Whether the largest is taken, and not the sum."""
    accumulates: bool = False


# Distribution.


def distribute(loop: te.ParOp, threads: int) -> list[te.ParOp]:
    """Splits a band around several statements, of which some are parallel, into one a statement.

    Returns the bands in its place.  A band with enough iterations for all threads stays whole, as
    does one whose statements pass numbers on.
    """
    band = band_at(loop)
    body = band.body
    if not any(has_par(op) or isinstance(op, te.ParOp) for op in body.ops):
        return [loop]
    if math.prod(band.extents) >= threads or not all(
        isinstance(op, te.ParOp) or not has_par(op) for op in body.ops
    ):
        return [loop]
    groups = _groups(body)
    if groups is None:
        return [loop]
    _expand(band, groups)
    places = {op: place for place, op in enumerate(body.ops)}
    kept = [{places[op] for op in group} for group in groups]
    made = [loop, *(loop.clone() for _ in kept[1:])]
    Rewriter.insert_op(made[1:], InsertPoint.after(loop))
    for twin, own in zip(made, kept, strict=True):
        statements = list(band_at(twin).loops[len(band.loops) - 1].body.block.ops)
        for place, op in reversed(list(enumerate(statements))):
            # Numbers are computed in each part that uses them.
            used = any(result.first_use for result in op.results)
            if place not in own and not (is_number(op) and used):
                Rewriter.erase_op(op, safe_erase=False)
    return [part for twin in made for part in distribute(twin, threads)]


def _groups(body: Block) -> list[list[Operation]] | None:
    """Statements that stay together: each parallel loop alone, others in runs; buffers left out.

    ``None`` where a number that was read in one is used in another.
    """
    groups: list[list[Operation]] = []
    run: list[Operation] = []
    of_group: dict[Operation, int] = {}
    for op in body.ops:
        if isinstance(op, te.NewOp) or (is_number(op) and not reads_of(op, of_group)):
            continue
        if isinstance(op, te.ParOp):
            if run:
                groups.append(run)
                run = []
            of_group[op] = len(groups)
            groups.append([op])
        else:
            of_group[op] = len(groups)
            run.append(op)
    if run:
        groups.append(run)
    for op, group in of_group.items():
        for use in (use for result in op.results for use in result.uses):
            user = body.find_ancestor_op_in_block(use.operation)
            if user is not None and of_group.get(user, group) != group:
                return None
    return groups


def reads_of(op: Operation, known: Container[Operation]) -> bool:
    """Whether an operator has results of some operators as operands."""
    return any(isinstance(value.owner, Operation) and value.owner in known for value in op.operands)


def _expand(band: Band, groups: Sequence[list[Operation]]) -> None:
    """Gives buffers of an iteration that several groups use a dimension for each loop."""
    for new in [op for op in band.body.ops if isinstance(op, te.NewOp)]:
        uses = [use.operation for use in new.result.uses]
        homes = {
            number
            for number, group in enumerate(groups)
            for op in group
            if any(op is user or op.is_ancestor(user) for user in uses)
        }
        if len(homes) <= 1:
            new.detach()
            if homes:
                (home,) = homes
                first = groups[home][0]
                Rewriter.insert_op(new, InsertPoint.before(first))
                groups[home].insert(0, new)
            continue
        new.detach()
        Rewriter.insert_op(new, InsertPoint.before(band.loops[0]))
        make_private(new.result, band.extents, [loop.variable for loop in band.loops])


def _empty_nest(band: Band) -> Band:
    """Loops as those of a band, with nothing in them."""
    block = Block()
    for loop in reversed(band.loops):
        block.insert_arg(loop.variable.type, 0).name_hint = loop.variable.name_hint
        block = Block([te.ParOp(loop.iterations, block)])
    nest = block.first_op
    assert isinstance(nest, te.ParOp)
    nest.detach()
    return band_at(nest)


# Reductions.


def take_out_reductions(loop: te.ParOp, label: str) -> list[te.ParOp | Reduction]:
    """Replaces reductions of a band into elements that its iterations share.

    Returns what stands in its place: the band, and for each reduction one a dimension, and a band
    that combines the element with what it was before.
    """
    band = band_at(loop)
    found: list[te.ParOp | Reduction] = []
    for red in [op for op in loop.walk() if isinstance(op, te.RedOp)]:
        if _is_own(red, loop):
            _serialise(red)
            continue
        found += _take_out(red, band, label)
    return [loop, *found] if loop.parent_block() is not None else found


def _is_own(red: te.RedOp, loop: te.ParOp) -> bool:
    """Whether the buffer is one of an iteration: a reduction within one thread."""
    owner = red.buffer.owner
    return isinstance(owner, te.NewOp) and loop.is_ancestor(owner)


def _serialise(red: te.RedOp) -> None:
    """A reduction of a thread into its own register is a read, an operation and a write."""
    indices = list(red.indices)
    old = te.ViewOp(red.buffer, indices, red.map)
    ops: list[Operation] = [old]
    total, value = old.result, red.value
    both = combine(red.combines, total, value)
    ops += [both, te.BindOp(both.results[0], red.buffer, indices, red.map)]
    Rewriter.replace_op(red, ops, [])


def _take_out(red: te.RedOp, band: Band, label: str) -> list[te.ParOp | Reduction]:
    name = value_label(red.buffer)
    if red.parent_block() is not band.body:
        raise PassFailedException(
            f"{label}: the reduction into {name} stands in a loop in order or under a condition; "
            "sum up in a register there, and reduce that behind it"
        )
    kept = _kept_loops(red, band)
    if kept is None:
        raise PassFailedException(
            f"{label}: the reduction into {name} has indices that are not variables of the "
            "parallel loops around it; each must be one of them, or a constant"
        )
    reduced = [number for number in range(len(band.loops)) if number not in kept]
    if not reduced:
        _serialise(red)
        return []
    value, combination = red.value, red.combines
    ops: list[Operation] = []
    if value.type not in (f32, *HALF_TYPES):
        raise PassFailedException(
            f"{label}: the reduction into {name} is of {value.type}; reduce numbers of f32"
        )
    value = widened(value, ops)
    if combination is te.Combination.MIN:
        ops.append(NegfOp(value))
        value = ops[-1].results[0]
    copied = None if ops else _copied(red, band)
    extents = list(band.extents)
    is_row = _is_row(red, band, kept, reduced)
    if copied is not None and is_row:
        buffer = red.buffer
        Rewriter.erase_op(band.loops[0], safe_erase=False)
        found = [Reduction(copied, buffer, reduced[0], combination is not te.Combination.ADD, True)]
        return found
    source = _new_buffer(extents, f"{red.buffer.name_hint or 'v'}_parts", band)
    variables = [loop.variable for loop in band.loops]
    ops.append(
        te.BindOp(value, source, variables, AffineMapAttr(AffineMap.identity(len(variables))))
    )
    indices, map_, buffer = list(red.indices), red.map, red.buffer
    Rewriter.replace_op(red, ops, [])
    if is_row:
        return [Reduction(source, buffer, reduced[0], combination is not te.Combination.ADD, True)]
    found: list[te.ParOp | Reduction] = []
    for dim in reversed(reduced):
        extents[dim] = 1
        total = _new_buffer(extents, f"{buffer.name_hint or 'v'}_{combination}", band)
        found.append(Reduction(source, total, dim, combination is not te.Combination.ADD))
        source = total
    found.append(_combining(band, kept, source, buffer, indices, map_, combination))
    return found


def _is_row(red: te.RedOp, band: Band, kept: Sequence[int], reduced: Sequence[int]) -> bool:
    """Whether the buffer is one number a row of the band, which can be reduced into at once."""
    shape = list(band.extents)
    if len(reduced) != 1 or red.combines is te.Combination.MIN:
        return False
    shape[reduced[0]] = 1
    type_, results = red.buffer_type, red.index_map.results
    if type_.element_type != f32 or list(type_.get_shape()) != shape:
        return False
    return len(results) == len(shape) and all(
        (number in kept and _variable(red, number) is band.loops[number].variable)
        or (number in reduced and results[number] == AffineExpr.constant(0))
        for number in range(len(shape))
    )


def _variable(access: te.AccessOp, number: int) -> SSAValue | None:
    expression = access.index_map.results[number]
    if not isinstance(expression, AffineDimExpr):
        return None
    return list(access.indices)[expression.position]


def _copied(red: te.RedOp, band: Band) -> SSAValue | None:
    """The buffer whose elements a band reduces as they are, and does nothing else."""
    ops = [op for op in band.body.ops if op is not red]
    view = ops[0] if ops else None
    if len(ops) > 2 or not isinstance(view, te.ViewOp) or view.buffer_type.element_type == i32:
        return None
    value = view.result
    if len(ops) == 2:
        if not isinstance(ops[1], ExtFOp) or ops[1].operands[0] is not value:
            return None
        value = ops[1].results[0]
    variables = [loop.variable for loop in band.loops]
    if red.value is not value or view.buffer_type.get_shape() != band.extents:
        return None
    is_whole = len(view.index_map.results) == len(variables) and all(
        _variable(view, number) is variable for number, variable in enumerate(variables)
    )
    return view.buffer if is_whole else None


def _kept_loops(red: te.RedOp, band: Band) -> list[int] | None:
    """The loops whose variables are the indices, each alone; ``None`` where others are."""
    variables = [loop.variable for loop in band.loops]
    kept: list[int] = []
    for expression in red.index_map.results:
        if isinstance(expression, AffineConstantExpr):
            continue
        if not isinstance(expression, AffineDimExpr):
            return None
        operand = list(red.indices)[expression.position]
        if operand not in variables or variables.index(operand) in kept:
            return None
        kept.append(variables.index(operand))
    return kept


def _new_buffer(extents: Sequence[int], name: str, band: Band) -> SSAValue:
    new = te.NewOp(te.BufferType.of(tuple(extents), f32))
    new.result.name_hint = name
    Rewriter.insert_op(new, InsertPoint.before(band.loops[0]))
    return new.result


def _combining(
    band: Band,
    kept: Sequence[int],
    total: SSAValue,
    buffer: SSAValue,
    indices: Sequence[SSAValue],
    map_: AffineMapAttr,
    combination: te.Combination,
) -> te.ParOp:
    """A band that combines each reduced element with what it was before."""
    places = sorted(kept)
    chosen = Band(tuple(band.loops[number] for number in places) or band.loops[:1])
    nest = _empty_nest(chosen)
    loops = nest.loops
    if not places:
        loops[0].extent = IntegerAttr(1, i64)
    became = {old.variable: new.variable for old, new in zip(chosen.loops, loops, strict=True)}
    zero = AffineExpr.constant(0)
    coordinates = tuple(
        AffineExpr.dimension(places.index(number)) if number in places else zero
        for number in range(len(band.loops))
    )
    variables = [loop.variable for loop in loops] if places else []
    part = te.ViewOp(total, variables, AffineMapAttr(AffineMap(len(variables), 0, coordinates)))
    own = [became[index] for index in indices]
    old = te.ViewOp(buffer, own, map_)
    ops: list[Operation] = [part, old]
    value, before = part.result, old.result
    if combination is te.Combination.MIN:
        ops.append(NegfOp(value))
        value = ops[-1].results[0]
    ops.append(combine(combination, widened(before, ops), value))
    number = rounded(ops[-1].results[0], before.type, ops)
    ops.append(te.BindOp(number, buffer, own, map_))
    nest.body.add_ops(ops)
    Rewriter.insert_op_after(loops[0], band.loops[0])
    return loops[0]
