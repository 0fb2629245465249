"""What te programs are made of, as mapping sees it: bands of loops, and buffers of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.programming_model import WARP
from mugraph.passes.texpr.analysis.evaluate import variables_of

_NOT_OF_LANES = (te.IfOp, te.WhenOp, te.AsmOp, te.AtomicOp, te.AnchorOp)
"""What keeps a band from being the program of a warp where its text does not ask for it."""


@dataclass(frozen=True)
class Band:
    """Parallel loops, each the only operator in the one before."""

    loops: tuple[te.ParOp, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """How often each runs."""
        return tuple(loop.iterations for loop in self.loops)

    @property
    def body(self) -> Block:
        """What an iteration does."""
        return self.loops[-1].body.block

    @property
    def is_fully(self) -> bool:
        """Whether the last loop's iterations run together, each on its thread."""
        return self.loops[-1].is_fully

    @property
    def group(self) -> int:
        """How many consecutive threads a fully parallel loop takes, idle ones for its alignment."""
        loop = self.loops[-1]
        align = loop.thread_alignment
        return -(-loop.iterations // align) * align

    @property
    def is_of_lanes(self) -> bool:
        """Whether its iterations are dealt to the lanes of one warp."""
        return self.loops[0].scope is te.Level.WARP and not self.is_fully

    @property
    def title(self) -> str:
        """The loops as the source has them."""
        return ", ".join(
            f"{'fully ' if loop.is_at_once else ''}par {loop.iterations} "
            f"{loop.variable.name_hint or 'i'}"
            for loop in self.loops
        )


def band_at(loop: te.ParOp) -> Band:
    """The band that begins with a loop: it ends where more than a loop stands, or a fully one."""
    loops = [loop]
    while not loops[-1].is_fully:
        body = loops[-1].body.block
        inner = body.first_op
        if not isinstance(inner, te.ParOp) or inner.next_op is not None:
            break
        loops.append(inner)
    return Band(tuple(loops))


def block_band_at(loop: te.ParOp) -> Band:
    """The band in a block that begins with a loop: it also ends before a loop at level warp."""
    loops = band_at(loop).loops
    if loops[-1].is_fully or loops[0].scope is te.Level.WARP:
        return Band(loops)
    warp = next((n for n, one in enumerate(loops) if one.scope is te.Level.WARP), len(loops))
    return Band(loops[:warp])


def is_warp_program(band: Band) -> bool:
    """Whether the iterations of a band are each run by a warp, the loops in it by its lanes."""
    return band.is_of_lanes or any(
        isinstance(op, te.ParOp) and (op.scope is te.Level.WARP or op.is_fully)
        for op in band.body.walk()
    )


def deal_to_lanes(root: Operation, most: int) -> None:
    """Gives loops without a level in bands of up to ``most`` iterations the lanes of a warp.

    Else one thread would run them in order, and most threads of the block nothing.  Where they
    stand under no condition, beside nothing that threads wait for or do for all, and each has work
    for half of the lanes.
    """
    for band in bands_in(root):
        if band.is_fully or math.prod(band.extents) > most:
            continue
        inner = _outermost(band.loops[-1])
        loops = [loop for one in inner for loop in one.loops]
        if (
            all(loop.scope is None for loop in loops)
            and all(math.prod(one.extents) >= WARP // 2 and not one.is_fully for one in inner)
            and not any(isinstance(op, _NOT_OF_LANES) for op in band.body.walk())
        ):
            for loop in loops:
                loop.level = StringAttr(str(te.Level.WARP))


def has_par(op: Operation) -> bool:
    """Whether parallel loops stand in an operator's regions."""
    return any(isinstance(inner, te.ParOp) for inner in op.walk() if inner is not op)


def bands_in(root: Operation) -> list[Band]:
    """The outermost bands in an operator that are dealt to threads, in the order of the text."""
    return [band for band in _outermost(root) if not is_warp_program(band)]


def warp_bands_in(root: Operation) -> list[Band]:
    """The outermost bands in an operator whose iterations are each run by a warp."""
    return [band for band in _outermost(root) if is_warp_program(band)]


def _outermost(root: Operation) -> list[Band]:
    found: list[Band] = []
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if isinstance(op, te.ParOp):
                    found.append(block_band_at(op))
                else:
                    found += _outermost(op)
    return found


def grid_depth(band: Band) -> int:
    """How many of a top-level band's loops run over blocks, each iteration a block.

    Those at levels grid and cluster; where a loop's iterations hold further parallel loops, or one
    of a narrower level, all that are not of a narrower level.  Loops that remain are dealt to
    threads, and to blocks where they have no level.
    """
    of_blocks = (te.Level.GRID, te.Level.CLUSTER)
    inner = any(isinstance(op, te.ParOp) for op in band.loops[-1].body.walk())
    inner |= any(loop.scope not in (None, *of_blocks) for loop in band.loops)
    depth = 0
    for loop in band.loops:
        if loop.is_fully:
            break
        if loop.scope in of_blocks or (
            loop.scope is None and inner and not cluster_blocks(band.loops[:depth])
        ):
            depth += 1
        else:
            break
    return depth


def cluster_blocks(loops: Sequence[te.ParOp]) -> int | None:
    """The blocks of a cluster: the iterations of the loops at that level, if there are any."""
    extents = [loop.iterations for loop in loops if loop.scope is te.Level.CLUSTER]
    return math.prod(extents) if extents else None


def is_block_scalar(new: te.NewOp) -> bool:
    """Whether all threads of a block can hold a buffer's contents in registers, the same in all.

    What is written to it outside parallel loops all threads compute; inside them it is only read,
    or reduced into one element.
    """
    if new.result.type.memory_space not in (None, te.Space.REGISTER):
        return False
    top = new.parent_block()
    for use in new.result.uses:
        op = use.operation
        inside = _loops_between(op, top)
        parallel = [loop.variable for loop in inside if isinstance(loop, te.ParOp)]
        if not isinstance(op, te.AccessOp) or isinstance(op, te.AtomicOp):
            return False
        if isinstance(op, (te.BindOp, te.RedOp)):
            serial = {loop.variable for loop in inside if not isinstance(loop, te.ParOp)}
            if isinstance(op, te.BindOp) and parallel:
                return False
            if isinstance(op, te.RedOp) and (not parallel or op.indices):
                return False
            if not set(variables_of(list(op.indices))) <= serial:
                return False
    return True


def _loops_between(op: Operation, top: Block | None) -> list[te.ParOp | te.SeqOp]:
    """The loops around an operator, up to a block that it stands in."""
    loops: list[te.ParOp | te.SeqOp] = []
    parent = op.parent_op()
    while parent is not None and op.parent_block() is not top:
        if isinstance(parent, (te.ParOp, te.SeqOp)):
            loops.append(parent)
        op, parent = parent, parent.parent_op()
    return loops


def writes_outside(op: Operation, scalars: set[SSAValue]) -> bool:
    """Whether an operator has effects on something that not all threads hold for themselves."""
    if any(isinstance(inner, (te.AsmOp, te.AnchorOp)) for inner in op.walk()):
        return True
    written = {touch.buffer for touch in te.touches_in(op) if touch.writes} - scalars
    owners = [buffer.owner for buffer in written]
    return not all(isinstance(owner, te.NewOp) and op.is_ancestor(owner) for owner in owners)
