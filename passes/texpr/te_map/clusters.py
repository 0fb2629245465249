"""Loops over blocks that run at once, beside other statements: each block has an iteration.

The blocks are those of a cluster, in a loop over clusters, or those of the whole grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.ancestors import ancestors
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.numbers import is_number
from mugraph.passes.texpr.analysis.roles import takes_turns
from mugraph.passes.texpr.te_map.bands import Band, band_at, has_par
from mugraph.passes.texpr.te_map.steps import apply, digits_of


def bands_of_blocks(ops: Iterable[Operation], level: te.Level) -> list[Band]:
    """The loops at a level in a program of a cluster or the grid, in the order of the text."""
    return list(_bands(ops, level))


def _bands(ops: Iterable[Operation], level: te.Level) -> Iterator[Band]:
    for op in ops:
        if isinstance(op, te.ParOp) and op.scope is level:
            loops = band_at(op).loops
            ends = [n for n, one in enumerate(loops) if one.scope is not level]
            yield Band(loops[: min(ends, default=len(loops))])
        elif isinstance(op, (te.SeqOp, te.IfOp)):
            yield from _bands(op.body.block.ops, level)


def is_of_whole_grid(op: Operation) -> bool:
    """Whether an operator is a part of a program of the whole grid: all loops over blocks are."""
    if isinstance(op, te.ParOp):
        return op.is_whole_grid
    inner = list(op.body.block.ops) if isinstance(op, (te.SeqOp, te.IfOp)) else []
    loops = [one for one in inner if isinstance(one, te.ParOp) or has_par(one)]
    return bool(loops) and all(map(is_of_whole_grid, loops))


def blocks_at_once(bands: list[Band], level: te.Level) -> int:
    """The blocks of a cluster or the grid, of which each has one iteration of each of these loops.

    Raises:
        PassFailedException: The loops have different numbers of iterations.
    """
    counts = {math.prod(band.extents): band.title for band in bands}
    if len(counts) > 1:
        (first, second, *_) = counts.values()
        raise PassFailedException(
            f"--te-map: '{first}' and '{second}' are of one {level}, whose blocks have an "
            "iteration of each; give them as many iterations"
        )
    return next(iter(counts))


def deal_to_blocks(
    holder: te.ThreadsOp, bands: list[Band], rank: SSAValue, level: te.Level
) -> None:
    """Puts the body of each loop into its place, for the iteration that the block has.

    ``rank`` is the number of the block in its cluster or in the grid.

    Raises:
        PassFailedException: A statement beside the loops is nobody's.
    """
    _check_statements(holder.body.block, level, blocks_at_once(bands, level))
    if takes_turns(holder):
        raise PassFailedException(
            "--te-map: threads of a block that hand over by instructions stand in a loop at level "
            f"{level} beside others; a {level} of such blocks is not there: use barriers"
        )
    for band in bands:
        first = band.loops[0]
        for loop, digit in zip(band.loops, digits_of(band.extents), strict=True):
            index = rank
            if len(band.loops) > 1:
                made = apply(digit, [rank], loop.variable.name_hint)
                Rewriter.insert_op(made, InsertPoint.before(first))
                index = made.result
            loop.variable.replace_all_uses_with(index)
        for op in list(band.body.ops):
            op.detach()
            Rewriter.insert_op(op, InsertPoint.before(first))
        Rewriter.erase_op(first, safe_erase=False)


def _check_statements(block: Block, level: te.Level, blocks: int) -> None:
    """Checks that all that stands beside loops at a level is of all blocks."""
    for op in block.ops:
        match op:
            case te.ParOp() if op.scope is level:
                continue
            case te.SeqOp() | te.IfOp() if has_par(op):
                _check_statements(op.body.block, level, blocks)
            case te.NewOp() if level is te.Level.CLUSTER:
                _check_buffer(op, blocks)
            case te.NewOp() | te.ApplyOp() | te.SectionOp():
                continue
            case _ if is_number(op):
                continue
            case _:
                raise PassFailedException(
                    f"--te-map: '{op.name}' stands beside loops at level {level}, where no block "
                    "has it; put it into such a loop"
                )


def _check_buffer(new: te.NewOp, blocks: int) -> None:
    type_, name = new.result.type, source_name(new.result)
    if type_.memory_space is not te.Space.CLUSTER:
        raise PassFailedException(
            f"--te-map: {name} is made beside loops at level cluster, so that the blocks of a "
            "cluster share it; say #cluster, or make it in such a loop"
        )
    if type_.get_shape()[0] != blocks:
        raise PassFailedException(
            f"--te-map: {name} is in #cluster, so its first dimension is the {blocks} blocks of "
            f"a cluster, not {type_.get_shape()[0]}"
        )


def check_buffers_of_clusters(root: Operation) -> None:
    """Raises ``PassFailedException`` for a buffer of a cluster that stands where no cluster is."""
    for op in root.walk():
        if isinstance(op, te.NewOp) and op.result.type.memory_space is te.Space.CLUSTER:
            home = op.parent_op()
            while isinstance(home, (te.SeqOp, te.IfOp)):
                home = home.parent_op()
            block = op.parent_block()
            outer = [one for one in ancestors(op) if isinstance(one, te.ParOp)]
            if (
                not isinstance(home, te.ParOp)
                or block is None
                or not bands_of_blocks(home.body.block.ops, te.Level.CLUSTER)
                or any(one.scope is not te.Level.GRID and one.scope is not None for one in outer)
            ):
                raise PassFailedException(
                    f"--te-map: {source_name(op.result)} is in #cluster, and stands in no loop "
                    "over clusters: par 4 |c| #grid { new ... #cluster   par 8 |b| #cluster { "
                    "... } }"
                )
