"""What one thread does of a band: loops over digits in the place of parallel ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from xdsl.dialects.builtin import AffineMapAttr, IndexType
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import WARP
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.family import BandMapping


@dataclass(frozen=True)
class Warps:
    """Which iteration each warp of a block has, where its lanes run a program together."""

    thread: SSAValue
    """The number in the block."""
    indices: tuple[SSAValue, ...]
    extents: tuple[int, ...]
    total: int
    """The warps of the block."""

    @property
    def are_idle(self) -> bool:
        """Whether some warps have none."""
        return math.prod(self.extents) < self.total

    @property
    def limit(self) -> AffineExpr:
        """At least 0 in threads of warps that have an iteration."""
        return AffineExpr.dimension(0) * -1 + (math.prod(self.extents) * WARP - 1)


def band_step(
    band: Band,
    mapping: BandMapping,
    thread: SSAValue,
    steps: Sequence[Sequence[tuple[AffineExpr, list[SSAValue]]] | None],
    warps: Warps | None = None,
) -> te.StepOp:
    """What one thread does of a band; its body is moved.

    ``steps`` has the step digits of each dimension, ``None`` for a loop over each.
    """
    body = Block()
    step = te.StepOp(band.title, body)
    block = body
    if warps and warps.are_idle:
        block = under(block, [warps.thread], [warps.limit])
    if mapping.busy_threads < mapping.threads:
        block = under(block, [thread], [AffineExpr.dimension(0) * -1 + (mapping.busy_threads - 1)])
    bases: list[SSAValue] = []
    along = mapping.vector_dimension
    found: list[Sequence[tuple[AffineExpr, list[SSAValue]]]] = []
    for dimension, loop in enumerate(band.loops):
        given = steps[dimension]
        if given is None:
            given, block = _step_loops(mapping.step_radices(dimension), loop, block)
        found.append(given)
    for dimension, loop in enumerate(band.loops):
        operands = [thread]
        digits: list[AffineExpr] = []
        for expression, variables in found[dimension]:
            places = [AffineExpr.dimension(len(operands) + n) for n in range(len(variables))]
            digits.append(expression.replace_dims_and_symbols(places, []))
            operands += variables
        index = mapping.index(dimension, AffineExpr.dimension(0), digits, AffineExpr.constant(0))
        name = loop.variable.name_hint or "i"
        is_vector = dimension == along
        base = apply(index, operands, f"{name}_first" if is_vector else name)
        block.add_op(base)
        bases.append(base.result)
    for dimension, base in enumerate(bases):
        if mapping.is_ragged(dimension):
            limit = mapping.extents[dimension] - mapping.digits[dimension].vector
            block = under(block, [base], [AffineExpr.dimension(0) * -1 + limit])
    if along is not None:
        inner = Block(arg_types=[IndexType()])
        name = band.loops[along].variable.name_hint or "i"
        inner.args[0].name_hint = f"{name}_next"
        block.add_op(te.SeqOp(mapping.digits[along].vector, inner))
        block = inner
        total = AffineExpr.dimension(0) + AffineExpr.dimension(1)
        index = apply(total, [bases[along], inner.args[0]], name)
        block.add_op(index)
        bases[along] = index.result
    for loop, base in zip(band.loops, bases, strict=True):
        loop.variable.replace_all_uses_with(base)
    alignment = band.loops[-1].thread_alignment if band.is_fully else None
    over_grid = any(one is not None for one in steps)
    indices, extents = bases, mapping.extents
    if warps:
        indices, extents = [*warps.indices, *bases], (*warps.extents, *mapping.extents)
    block.add_op(stated(indices, extents, grid=over_grid, alignment=alignment))
    move(band.body, block)
    for inner_op in list(block.walk()):
        if isinstance(inner_op, te.ParOp):
            serialise(inner_op)
    return step


def _step_loops(
    radices: Sequence[int], loop: te.ParOp, block: Block
) -> tuple[list[tuple[AffineExpr, list[SSAValue]]], Block]:
    """A loop for each step digit, the slowest outermost; the digits, and the innermost body."""
    found: list[tuple[AffineExpr, list[SSAValue]]] = []
    for radix in reversed(radices):
        inner = Block(arg_types=[IndexType()])
        inner.args[0].name_hint = f"{loop.variable.name_hint or 'i'}_step"
        block.add_op(te.SeqOp(radix, inner))
        found.insert(0, (AffineExpr.dimension(0), [inner.args[0]]))
        block = inner
    return found, block


def stated(
    indices: Sequence[SSAValue],
    extents: Sequence[int],
    *,
    grid: bool = False,
    alignment: int | None = None,
) -> te.IterationOp:
    """The certificate that these indices come up once each."""
    distinct = list(dict.fromkeys(indices))
    places = [AffineExpr.dimension(distinct.index(one)) for one in indices]
    map_ = AffineMapAttr(AffineMap(len(distinct), 0, tuple(places)))
    return te.IterationOp(distinct, map_, extents, grid=grid, alignment=alignment)


def apply(expression: AffineExpr, operands: Sequence[SSAValue], name: str | None) -> te.ApplyOp:
    """A ``te.apply`` of the operands that the expression uses."""
    map_, kept = compacted([expression], operands)
    op = te.ApplyOp(kept, AffineMapAttr(map_))
    op.result.name_hint = name
    return op


def compacted(
    expressions: Sequence[AffineExpr], operands: Sequence[SSAValue]
) -> tuple[AffineMap, list[SSAValue]]:
    """Expressions as a map of the operands that they use, and these."""
    map_ = AffineMap(len(operands), 0, tuple(expressions))
    used = list(compress(operands, map_.used_dims_bit_vector()))
    return map_.drop_dims(map_.unused_dims_bit_vector()), used


def under(block: Block, operands: list[SSAValue], conditions: list[AffineExpr]) -> Block:
    """The body of a condition at the end of a block: each expression is at least 0."""
    inner = Block()
    map_ = AffineMapAttr(AffineMap(len(operands), 0, tuple(conditions)))
    block.add_op(te.IfOp(operands, map_, [False] * len(conditions), inner))
    return inner


def digits_of(extents: Sequence[int]) -> list[AffineExpr]:
    """The digits of a number, the last one fastest."""
    found: list[AffineExpr] = []
    stride = math.prod(extents)
    total = stride
    for extent in extents:
        stride //= extent
        digit = AffineExpr.dimension(0)
        if extent == 1:
            digit = AffineExpr.constant(0)
        else:
            digit = digit if stride == 1 else digit // stride
            digit = digit if stride * extent == total else digit % extent
        found.append(digit)
    return found


def move(source: Block, target: Block) -> None:
    """Moves all operators of a block to the end of another."""
    for op in list(source.ops):
        op.detach()
        target.add_op(op)


def serialise(loop: te.ParOp) -> None:
    """A parallel loop within a thread runs its iterations in order."""
    body = Block(arg_types=[IndexType()])
    body.args[0].name_hint = loop.variable.name_hint
    loop.variable.replace_all_uses_with(body.args[0])
    move(loop.body.block, body)
    Rewriter.replace_op(loop, te.SeqOp(loop.iterations, body), [])
