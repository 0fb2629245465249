"""``--share-loops``: as many blocks share a loop as run at once, whatever a call launches."""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects import sched
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.maps import AXES
from mugraph.dialects.named_extents import is_one_of_buckets
from mugraph.dialects.sched.domain import fewest_iterations
from mugraph.dialects.sched.kernel import BlockParts
from mugraph.dialects.sched.structure import most_iterations
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.each import TargetPass
from mugraph.passes.targets import Target


def shared_axis(kernel: sched.KernelOp) -> int | None:
    """Analysis: the axis of the grid whose blocks take tiles in turn, up to a length.

    ``None`` where there is none, and where a block has to run an iteration.
    """
    forms = kernel.domain_forms()
    if not kernel.is_interleaved or len(forms) != 1 or fewest_iterations(kernel):
        return None
    *steps, of_loop = forms[0].coefficients[: len(AXES) + 1]
    axes = [axis for axis, step in enumerate(steps) if step]
    if len(axes) != 1 or of_loop >= 0:
        return None
    (axis,) = axes
    return axis if of_loop == steps[axis] * kernel.grid_dim[axis] else None


def may_share(kernel: sched.KernelOp, axis: int) -> bool:
    """Analysis: whether all that an iteration has follows from the number of its tile.

    Those of blocks along the axis are numbered in turn.  Blocks may run more iterations than all
    that share a loop, so these must fill the stages of every buffer.
    """
    buffers = (op.stage_count for op in kernel.walk() if isinstance(op, sched.AllocOp))
    if not kernel.is_plain() or most_iterations(kernel) <= max(buffers, default=1):
        return False
    together = kernel.grid_dim[axis]
    for op in kernel.walk():
        if isinstance(op, sched.LocalTileOp):
            of_block, of_loop = op.block_strides()[axis], op.iteration_stride()
            if op.through is not None or op.windows is not None:
                return False
            if of_loop and of_loop != of_block * together:
                return False
        elif isinstance(op, sched.MaskOp):
            moves = [form.coefficients[len(shape_of(op.source.type)) :] for form in op.forms()]
            if any(each[len(AXES)] != each[axis] * together for each in moves):
                return False
            if any(entry.bound.moves and entry.bound.stride is None for entry in op.ragged):
                return False
        elif isinstance(op, sched.CustomOp):
            return False
    return True


def parts_of(kernel: sched.KernelOp, target: Target) -> BlockParts | None:
    """Choice: which blocks take tiles; ``None`` where that stays as it is.

    So of a grid that no call cuts, as the plan has seen it, and of one that runs at once.
    """
    axis, resident = shared_axis(kernel), kernel.resident_blocks
    if axis is None or resident is None or not kernel.cuts_by_call:
        return None
    at_once = resident * target.multiprocessors
    if math.prod(kernel.grid_dim) <= at_once or not may_share(kernel, axis):
        return None
    return BlockParts(axis, at_once)


def is_of_buckets(launch: sched.LaunchOp) -> bool:
    """Analysis: whether the function of a launch is one of several buckets."""
    function = enclosing(launch, FuncOp)
    return function is not None and is_one_of_buckets(function)


class ShareLoopsPass(TargetPass):
    """Lets the number of blocks that share a loop follow from how many a call launches.

    If memory says how long a loop is, the blocks that share it take its tiles in turn. With few
    more blocks than run at once, the last ones run almost alone: of 112 loops that 4 blocks share
    each, 396 blocks run at once, and then 52. With 3 blocks a loop all 336 run at once. The fourth
    has no tile then, and leaves. A kernel computes this number when it starts. Kernels whose grid
    does not follow from a call stay unchanged, because their plan has the right number; and so do
    those of functions without buckets, which sum in one order whatever a call says.
    Pre-condition: ``--plan-stensor-memory``.

    Before: ``sched.kernel @k ... grid [64, 8, 4] cut [0, 4, 1] ... forloop 128 interleaved where``

    After: ``sched.kernel @k ... forloop 128 interleaved parts [2, 396] where``
    """

    name = "share-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites the kernels of the module."""
        target = self.target
        for kernel, launches in sched.launches_by_kernel(op).items():
            if all(map(is_of_buckets, launches)):
                parts = parts_of(kernel, target)
                kernel.parts = None if parts is None else integer_array(parts)
