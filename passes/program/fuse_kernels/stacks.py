"""Long chains of operators on stacks of small matrices: one kernel, a block for each matrix.

Where a program multiplies the small matrices of a stack again and again, as the chunks of a
recurrence, a block can take one matrix of the stack through the whole chain.  Nothing is gained by
a cut then but memory, so that no search is made.  A square of a matrix, which has one index twice,
is a product like any other there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import (
    bytes_of,
    element_type_of,
    layout_of,
    shape_of,
)
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.sums import can_share
from mugraph.passes.program.fuse_kernels.writer import TileWriter

FEWEST_PRODUCTS = 8
"""Of a chain; a search tries all ways to cut a shorter one."""
LARGEST, LARGEST_RESULT = 128, 64 * 64
"""Rows and columns of a matrix, and elements of a result, at most: threads keep several."""
THREADS = 256

Stack = tuple[int, ...]
"""The leading extents of the matrices."""


def stack_of(op: Operation) -> Stack | None:
    """The stack whose matrices an operator computes, each from matrices of the same place.

    ``None`` for other operators.
    """
    if not isinstance(op, (kn.ElementwiseOp, kn.MaskOp, kn.ReductionOp, kn.MatmulOp)):
        return None
    shapes = [shape_of(value.type) for value in (*op.operands, op.result)]
    rank = len(shapes[-1])
    small = all(max(shape[-2:], default=0) <= LARGEST for shape in shapes)
    small &= math.prod(shapes[-1][-2:]) <= LARGEST_RESULT
    if rank < 3 or not small or not can_share(op) or layout_of(op.result.type) is not None:
        return None
    if isinstance(op, kn.ReductionOp) and (
        op.reduced_dim < rank - 2 or op.combination is not Combiner.SUM or max(shapes[-1][-2:]) == 0
    ):
        return None
    if isinstance(op, kn.MaskOp) and op.lengths:
        return None
    return shapes[-1][:-2]


def chain_of(operators: Sequence[Operation], stack: Stack) -> list[Operation]:
    """The operators on a stack that depend on none of it but through each other, in order.

    And those of what is the same along some of its indices.
    """
    chain: dict[Operation, None] = {}
    after: set[object] = set()
    for op in operators:
        is_after = any(value.owner in after for value in op.operands)
        own = stack_of(op)
        if not is_after and own is not None and _is_part(own, stack):
            chain[op] = None
        elif is_after or any(value.owner in chain for value in op.operands):
            after.add(op)
    return _without_loose([*chain], stack)


def _is_part(own: Stack, stack: Stack) -> bool:
    """Whether matrices are of a stack, or of some of its indices; constants are made before."""
    return (
        len(own) == len(stack)
        and max(own) > 1
        and all(one in (1, other) for one, other in zip(own, stack, strict=True))
    )


def _without_loose(chain: Sequence[Operation], stack: Stack) -> list[Operation]:
    """A chain but for what others take for less.

    What fewer matrices are of and others use, too, and last products that have more bytes than
    their factors: who uses them multiplies, and need not round them before.
    """
    kept: dict[object, None] = dict.fromkeys(chain)
    for op in reversed(chain):
        users = [use.operation for result in op.results for use in result.uses]
        inside = [user in kept for user in users]
        is_loose = stack_of(op) != stack and not all(inside)
        if isinstance(op, kn.MatmulOp) and not any(inside):
            is_loose |= sum(map(_bytes, op.operands)) <= _bytes(op.result)
        if is_loose:
            del kept[op]
    return [op for op in chain if op in kept]


def _bytes(value: SSAValue) -> int:
    return bytes_of(value.type)


def join_stacks(function: FuncOp) -> None:
    """Makes kernels of the long chains of a function."""
    products = [op for op in function.body.block.ops if isinstance(op, kn.MatmulOp)]
    stacks = dict.fromkeys(stack for op in products if (stack := stack_of(op)) is not None)
    for stack in stacks:
        chain = chain_of([*function.body.block.ops], stack)
        if sum(isinstance(op, kn.MatmulOp) for op in chain) < FEWEST_PRODUCTS:
            continue
        try:
            _join(chain, stack)
        except NotFusedError:
            continue


def _join(chain: Sequence[Operation], stack: Stack) -> None:
    """Puts one kernel in the place of a chain.

    Raises :class:`NotFusedError` where a grid does not have so many axes, or tiles do not verify.
    """
    axes = [dim for dim, extent in enumerate(stack) if extent > 1]
    if len(axes) > len(AXES):
        raise NotFusedError(
            f"the stack has {len(axes)} dimensions of matrices, and a grid has {len(AXES)} axes"
        )
    writer, own = _StackWriter(TileWriter(), stack, axes), {*chain}
    results = [
        result
        for op in chain
        for result in op.results
        if any(use.operation not in own for use in result.uses)
    ]
    for op in chain:
        tile = tile_of(op, [writer.tile(value) for value in op.operands], writer)
        tile.name_hint = op.results[0].name_hint
        writer.tiles[op.results[0]] = tile
        if op.results[0] in results:
            writer.store(op.results[0])
    grid = [*(stack[dim] for dim in axes), *(1,) * (len(AXES) - len(axes))]
    kernel = writer.body.finished(grid, (THREADS, 1, 1), 1)
    cse(kernel.body)
    try:
        kernel.verify()
    except VerifyException as error:
        kernel.erase()
        raise NotFusedError(str(error)) from error
    Rewriter.insert_op(kernel, InsertPoint.after(chain[-1]))
    _move_behind(kernel, chain)
    for old, new in zip(results, kernel.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    for op in reversed(chain):
        Rewriter.erase_op(op)


def _move_behind(kernel: Operation, chain: Sequence[Operation]) -> None:
    """Moves what depends on a chain, and stands between its operators, behind a kernel."""
    block, own = kernel.parent, {*chain}
    assert block is not None
    after: dict[Operation, None] = {}
    for op in block.ops:
        if op is kernel:
            break
        if op not in own and any(
            value.owner in own or value.owner in after for value in op.operands
        ):
            after[op] = None
    for op in reversed(after):
        op.detach()
        Rewriter.insert_op(op, InsertPoint.after(kernel))


class _StackWriter:
    """What the operators of a chain have become so far."""

    def __init__(self, body: TileWriter, stack: Stack, axes: Sequence[int]) -> None:
        self.body = body
        self.stack = stack
        self.axes = axes
        self.tiles: dict[SSAValue, SSAValue] = {}

    def map_of(self, value: SSAValue) -> tuple[int, ...]:
        """The dimension of a tensor that each axis of the grid cuts."""
        shape = shape_of(value.type)
        cut = [dim if shape[dim] > 1 else -1 for dim in self.axes]
        return (*cut, *(-1,) * (len(AXES) - len(cut)))

    def type_of(self, value: SSAValue) -> tb.STensorType:
        """A matrix of a tensor as a tile."""
        shape = shape_of(value.type)
        extents = (*(1,) * len(self.stack), *shape[-2:])
        return tb.STensorType(extents, element_type_of(value.type))

    def tile(self, value: SSAValue) -> SSAValue:
        """The tile of a tensor, which is loaded where the chain does not compute it."""
        if value not in self.tiles:
            argument = self.body.argument(value, value.name_hint)
            self.tiles[value] = self.body.tile(
                argument, self.map_of(value), -1, self.type_of(value), value.name_hint
            )
        return self.tiles[value]

    def store(self, value: SSAValue) -> None:
        """Stores a result where it is computed, so that its tile need not be kept."""
        rows = len(self.stack)
        self.body.add(tb.OutputOp(self.tiles[value], self.map_of(value), value.type, rows))


@singledispatch
def tile_of(op: Operation, tiles: Sequence[SSAValue], writer: _StackWriter) -> SSAValue:
    """The tile that an operator computes of others."""
    raise AssertionError(f"{op.name} is in no chain of a stack")


@tile_of.register
def _(op: kn.ElementwiseOp, tiles: Sequence[SSAValue], writer: _StackWriter) -> SSAValue:
    function = ScalarFunction(op.FUNCTION, op.function.constants)
    return writer.body.first(tb.elementwise(function, tiles, writer.type_of(op.result)))


@tile_of.register
def _(op: kn.MaskOp, tiles: Sequence[SSAValue], writer: _StackWriter) -> SSAValue:
    shape = shape_of(op.result.type)
    map_ = writer.map_of(op.result)
    (tile,) = tiles
    return writer.body.first(tb.MaskOp.at_places(tile, op.constant, op.condition, shape, map_, -1))


@tile_of.register
def _(op: kn.ReductionOp, tiles: Sequence[SSAValue], writer: _StackWriter) -> SSAValue:
    (tile,) = tiles
    return writer.body.reduce(tile, op.reduced_dim, element_type_of(op.result.type))


@tile_of.register
def _(op: kn.MatmulOp, tiles: Sequence[SSAValue], writer: _StackWriter) -> SSAValue:
    left, right = tiles
    precision = None if op.precision is None else op.precision.data
    return writer.body.product(left, right, element_type_of(op.result.type), precision)
