"""``--te-cut-grid``: launches no blocks behind the sizes that a call says.

Everything that a kernel does to device memory stands under conditions such as ``M - i - 1 >= 0``,
where ``i`` is made of the block's number and others.  What it has of the block alone, 32 for each
along an axis of the grid say, says how many blocks along that axis have anything to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from mugraph.dialects import te
from mugraph.dialects.launch_extents import GridCut, launch_fault
from mugraph.dialects.te.indices import range_of, terms_of
from mugraph.dialects.te.sizes import size_arguments, size_of
from mugraph.passes.each import TexprKernelPass
from mugraph.passes.texpr.analysis.domains import domain_of
from mugraph.passes.texpr.analysis.evaluate import expanded


class Part(NamedTuple):
    """Blocks 0 to ``extent`` - 1 along an axis: the block's number by ``inner``, modulo it."""

    inner: int
    extent: int


class Need(NamedTuple):
    """A block does nothing unless a size is more than ``step`` times its number along a part."""

    argument: int
    part: Part
    step: int


class TeCutGridPass(TexprKernelPass):
    """Launches only blocks that have something to do at the sizes that a call says.

    ``te.kernel ... grid [50, 10, 1] cut [1, 3, 32]``: along y as many blocks as have one of as many
    elements as argument 3 says, 32 each.  Kernels without such sizes stay as they are.
    """

    name = "te-cut-grid"

    def run(self, kernel: te.KernelOp) -> None:
        """Cuts the grid of a kernel."""
        if not kernel.cuts:
            cut_grid(kernel)


def cut_grid(kernel: te.KernelOp) -> None:
    """Cuts off of a kernel's grid what its conditions allow."""
    function = kernel.parent_op()
    if not isinstance(function, FuncOp) or not size_arguments(function) or kernel.is_cooperative:
        return
    grid, cuts = choose_cuts(kernel.iterations, needs_of(kernel, function))
    if cuts:
        kernel.cut_by(grid, cuts)
        _leave_out(kernel, function, cuts)


def needs_of(kernel: te.KernelOp, function: FuncOp) -> list[Need]:
    """What all that a kernel does to device memory needs."""
    found: list[set[Need]] = []
    for op in kernel.walk():
        if isinstance(op, te.AnchorOp):
            return []
        if isinstance(op, te.HasTouches) and any(
            touch.writes and touch.type.memory_space not in (te.Space.SHARED, te.Space.REGISTER)
            for touch in op.touches()
        ):
            found.append(set(_needs_of_operator(op, kernel, function)))
    return sorted(set[Need].intersection(*found)) if found else []


def _needs_of_operator(op: Operation, kernel: te.KernelOp, function: FuncOp) -> Iterator[Need]:
    for condition in domain_of(op).conditions:
        operands = list(condition.indices)
        expressions, variables = expanded(condition.map.data.results, operands)
        equal = [of_equality for _, of_equality in condition.conditions()]
        for expression, of_equality in zip(expressions, equal, strict=True):
            if not of_equality:
                yield from _needs_of_condition(expression, variables, kernel, function)


def _needs_of_condition(
    expression: AffineExpr, variables: Sequence[SSAValue], kernel: te.KernelOp, function: FuncOp
) -> Iterator[Need]:
    """``size - step * part - rest >= 0``, where the rest is at least 1.

    In the place of the size may stand what it has of tiles, ``(size + 15) floordiv 16``.
    """
    terms = terms_of(expression)
    tiles = [
        (place, found)
        for place, (term, factor) in enumerate(terms)
        if factor == 1 and (found := _tiles_of(term, variables)) is not None
    ]
    if len(tiles) != 1:
        return
    ((place_of_size, (size, elements)),) = tiles
    for place, (term, factor) in enumerate(terms):
        part = _part_of(term, variables, kernel)
        others = [one for number, one in enumerate(terms) if number not in (place, place_of_size)]
        most = sum(_most(one, by, variables) for one, by in others)
        if part is not None and factor < 0 and most <= -1:
            yield Need(function.args.index(size), part, -factor * elements)


def _tiles_of(term: AffineExpr, variables: Sequence[SSAValue]) -> tuple[SSAValue, int] | None:
    """A size and 1, or the size and the elements of a tile where a term counts its tiles."""
    elements = 1
    if isinstance(term, AffineBinaryOpExpr) and term.kind is AffineBinaryOpKind.FloorDiv:
        assert isinstance(term.rhs, AffineConstantExpr)
        elements, term = term.rhs.value, term.lhs
    more = 0
    if (
        isinstance(term, AffineBinaryOpExpr)
        and term.kind is AffineBinaryOpKind.Add
        and isinstance(term.rhs, AffineConstantExpr)
    ):
        more, term = term.rhs.value, term.lhs
    if not isinstance(term, AffineDimExpr) or not 0 <= more < elements:
        return None
    value = variables[term.position]
    return None if size_of(value) is None else (value, elements)


def _most(term: AffineExpr, factor: int, variables: Sequence[SSAValue]) -> int:
    """The greatest value of a term."""
    return max(factor * bound for bound in range_of(term, variables, _bounds))


def _bounds(value: SSAValue) -> tuple[int, int]:
    size = size_of(value)
    if size is not None:
        return 0, size.largest
    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
    # Of what memory holds nothing is known.
    return (0, loop.iterations - 1) if isinstance(loop, te.LoopOp) else (-(1 << 31), 1 << 31)


def _part_of(term: AffineExpr, variables: Sequence[SSAValue], kernel: te.KernelOp) -> Part | None:
    """The part of the block's number that a term is; ``None`` where it is none."""
    extent: int | None = None
    inner = 1
    if isinstance(term, AffineBinaryOpExpr) and term.kind is AffineBinaryOpKind.Mod:
        assert isinstance(term.rhs, AffineConstantExpr)
        extent, term = term.rhs.value, term.lhs
    if isinstance(term, AffineBinaryOpExpr) and term.kind is AffineBinaryOpKind.FloorDiv:
        assert isinstance(term.rhs, AffineConstantExpr)
        inner, term = term.rhs.value, term.lhs
    if not isinstance(term, AffineDimExpr) or variables[term.position] is not kernel.variable:
        return None
    if kernel.iterations % inner:
        return None
    whole = kernel.iterations // inner
    extent = whole if extent is None else extent
    return Part(inner, extent) if whole % extent == 0 and extent > 1 else None


def choose_cuts(blocks: int, needs: Sequence[Need]) -> tuple[tuple[int, ...], list[GridCut]]:
    """The grid, and the cuts along its axes; that which has the most blocks comes first."""
    ends = {1, blocks}
    chosen: list[Need] = []
    for need in sorted(needs, key=lambda one: (-one.part.extent, -one.step)):
        wanted = ends | {need.part.inner, need.part.inner * need.part.extent}
        if any(one.part == need.part for one in chosen) or len(wanted) > 4:
            continue
        if all(_is_axis(one.part, wanted) for one in (*chosen, need)) and (
            launch_fault(_grid(wanted), (1, 1, 1)) is None
        ):
            ends, chosen = wanted, [*chosen, need]
    order = sorted(ends)
    cuts = [GridCut(order.index(one.part.inner), one.argument, one.step) for one in chosen]
    return _grid(ends), sorted(cuts)


def _is_axis(part: Part, ends: set[int]) -> bool:
    """Whether no axis ends within a part."""
    return not any(part.inner < end < part.inner * part.extent for end in ends)


def _grid(ends: set[int]) -> tuple[int, ...]:
    order = sorted(ends)
    extents = [high // low for low, high in pairwise(order)]
    return (*extents, *[1] * (3 - len(extents)))


def _leave_out(kernel: te.KernelOp, function: FuncOp, cuts: Sequence[GridCut]) -> None:
    """All that threads do stands under the condition that the block is launched."""
    expressions = [kernel.cut_condition(cut, place) for place, cut in enumerate(cuts, 1)]
    operands = [kernel.variable, *(function.args[cut.argument] for cut in cuts)]
    inner = Block()
    body = kernel.threads.body.block
    for op in [*body.ops]:
        if not isinstance(op, te.NewOp):
            op.detach()
            inner.add_op(op)
    map_ = AffineMapAttr(AffineMap(len(operands), 0, tuple(expressions)))
    body.add_op(te.IfOp(operands, map_, [False] * len(cuts), inner))
