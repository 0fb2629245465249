"""The parts of a block's program between which threads may meet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Block, Operation

from mugraph.dialects import te
from mugraph.passes.texpr.analysis.domains import Access, accesses_of


@dataclass(frozen=True)
class Leaf:
    """A part of a block's program without barriers in it, or the beginning of a loop of parts."""

    op: Operation
    accesses: tuple[Access, ...]
    loops: tuple[te.SeqOp, ...]
    """The loops of the block around it, the outermost first."""
    conditions: tuple[te.IfOp, ...]

    @property
    def place(self) -> Operation:
        """Where a barrier in front of it stands: conditions that it is the first part of follow.

        Not one that ends a loop, which would run on for the barrier.  One that is a barrier itself
        stands where it is.
        """
        place = self.op
        if isinstance(place, te.AllReduceOp):
            return place
        parent = place.parent_op()
        while (
            isinstance(parent, te.IfOp)
            and not _ends_loop(parent)
            and not any(
                _has_parts(before) or isinstance(before, te.StepOp) for before in _before(place)
            )
        ):
            place, parent = parent, parent.parent_op()
        return place

    @property
    def needed(self) -> set[te.IfOp]:
        """The conditions that hold wherever control comes to a barrier in front of it."""
        place = self.place
        return {one for one in self.conditions if one is not place and one.is_ancestor(place)}

    @property
    def is_barrier(self) -> bool:
        """Whether all threads wait for each other in it."""
        return isinstance(self.op, te.AllReduceOp) and self.op.threads is te.Scope.BLOCK

    @property
    def is_warp_barrier(self) -> bool:
        """Whether the threads of each warp wait for each other in it."""
        return isinstance(self.op, te.AllReduceOp)

    @property
    def weight(self) -> int:
        """How often control comes to it."""
        return math.prod(loop.iterations for loop in self.loops)


def leaves_of(holder: te.ThreadsOp) -> list[Leaf]:
    """The parts of a block's program in order."""
    return list(_leaves(holder.body.block, (), ()))


def _leaves(
    block: Block, loops: tuple[te.SeqOp, ...], conditions: tuple[te.IfOp, ...]
) -> Iterator[Leaf]:
    for op in block.ops:
        if isinstance(op, te.BarrierOp):
            continue
        if isinstance(op, (te.SeqOp, te.IfOp)) and _has_parts(op):
            if isinstance(op, te.SeqOp):
                # A barrier may stand in front of a loop, too.
                yield Leaf(op, (), loops, conditions)
                yield from _leaves(op.body.block, (*loops, op), conditions)
            else:
                yield from _leaves(op.body.block, loops, (*conditions, op))
            continue
        accesses = tuple(access for access in accesses_of(op) if access.is_in_memory)
        if accesses or isinstance(op, te.AllReduceOp):
            yield Leaf(op, accesses, loops, conditions)


def _ends_loop(condition: te.IfOp) -> bool:
    loop = condition.parent_op()
    return isinstance(loop, te.SeqOp) and loop.end() is condition


def _before(op: Operation) -> Iterator[Operation]:
    """The operators before one in its block."""
    before = op.prev_op
    while before is not None:
        yield before
        before = before.prev_op


def _has_parts(op: Operation) -> bool:
    return any(isinstance(inner, (te.StepOp, te.AllReduceOp)) for inner in op.walk())
