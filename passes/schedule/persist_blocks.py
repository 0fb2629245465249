"""``--persist-blocks``: as many blocks as run at once, each for several work tiles.

The role that loads goes on to the next work tile while the others finish this one, so that none
starts with empty rings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.kernel import unplanned_kernels
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue
from mugraph.passes.each import TargetPass
from mugraph.passes.memory.lifetimes import channel_buffers
from mugraph.passes.options import refuse, require_natural
from mugraph.passes.schedule.bulk_stores import (
    alignments_of,
    resident_blocks,
    store_in_bulk,
)
from mugraph.passes.schedule.late_tiles import late_tiles, load_in_epilogue
from mugraph.passes.schedule.lower_rings import is_lowered
from mugraph.passes.schedule.lower_threadblock.write_back import write_back_through
from mugraph.passes.schedule.ping_pong import roles_fit
from mugraph.passes.schedule.pipeline_loads.deepen import deepen_rings, ring_choices
from mugraph.passes.schedule.pipeline_loads.stages import Stages
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import Target


def blocks_at_once(kernel: sched.KernelOp, target: Target, blocks: int = 0) -> int | str:
    """How many blocks to launch, if they can take several work tiles and there are enough of them.

    Else why not.  Warp groups multiply what lies in shared memory, all of it moves with the loop,
    through rings whose stages are released an iteration later, and nothing but rings lies there.
    It is ``blocks``, or as many as run at once.
    """
    roles = roles_of(kernel)
    if len(roles) != 2 or roles[0].is_elected or not roles[1].is_elected:
        return "it has no producer that loads for one role of consumers"
    phases = loop_and_epilogue(roles[0].body.block)
    if phases is None:
        return "its consumers have no loop with an epilogue behind it"
    loop, ends = phases
    if is_lowered(kernel):
        return "its rings are lowered; run --lower-rings after --persist-blocks"
    products = sched.warpgroup_products(loop)
    if not products or any(op.lhs_in_registers for op in products):
        return "its loop is not of products of warp groups that read shared memory"
    # Those that are promoted end in their iteration.
    wait, run_on = ends.body.block.first_op, {op.is_async for op in products}
    if len(run_on) > 1:
        return "some of its products end in their iteration, and others run on"
    if run_on == {True} and (not isinstance(wait, sched.WarpgroupWaitOp) or wait.pending_products):
        return "its last product does not end in the epilogue"
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    moving = {op.channel for op in loop.body.block.ops if isinstance(op, sched.ConsumeOp)}
    if {op.result for op in channels} != moving:
        return "some of its tiles do not come through rings of several stages"
    # What results leave through is made anew, beside the rings (see --bulk-stores).
    buffers = {
        op
        for op in kernel.body.walk()
        if isinstance(op, sched.AllocOp) and write_back_through(op) is None
    }
    if buffers != set(channel_buffers(kernel)):
        return "it keeps more in shared memory than its rings"
    blocks = blocks or (resident_blocks(kernel, target) or 1) * target.multiprocessors
    tiles = math.prod(kernel.grid_dim)
    if blocks >= tiles:
        return f"all of its {tiles} work tiles run at once"
    return blocks


def with_late_loads(kernel: sched.KernelOp) -> sched.KernelOp:
    """The kernel, or a copy whose threads load what its epilogue alone reads."""
    if not late_tiles(kernel):
        return kernel
    copy = kernel.clone()
    for tiles in late_tiles(copy):
        load_in_epilogue(tiles)
    return copy


def stages_beside_results(
    kernel: sched.KernelOp, blocks: int, alignments: Sequence[int], target: Target
) -> Stages | None:
    """The stages of rings that go on while results leave by bulk copies; ``None`` where none can.

    They are as many as rings should have, if results leave room for them, as halves may.
    """
    resident = max(blocks // target.multiprocessors, 1)
    for stages in ring_choices(kernel, resident, target):
        trial = kernel.clone()
        deepen_rings(trial, stages)
        if results_leave(trial, blocks, alignments, target):
            return stages
    return None


def results_leave(
    kernel: sched.KernelOp, blocks: int, alignments: Sequence[int], target: Target
) -> bool:
    """Whether shared memory suffices for the results beside the rings, which go on.

    Where threads write results themselves nothing is gained, as measured on an H200: their warps
    are those that would multiply.  With ping-pong others multiply meanwhile.  Rows that numbers
    name leave in no other way.
    """
    trial = kernel.clone()
    trial.persistent = IntegerAttr(blocks, i64)
    with tiles_by_registers(trial):
        store_in_bulk(trial, alignments, target)
    by_threads = [
        op
        for op in trial.walk()
        if isinstance(op, sched.StoreOp | sched.CopyOp)
        and isinstance(op.destination.type, sched.GlobalType)
        and sched.tile_of_named_rows(op.destination) is None
    ]
    if not by_threads:
        return True
    shifted = all(isinstance(op, sched.CopyOp) and op.is_shifted for op in by_threads)
    return shifted and roles_fit(trial, target)


def wait_for_readers(kernel: sched.KernelOp) -> None:
    """Rewrite: a barrier before a result is written to a buffer that threads copy out.

    Others may still copy the one of the work tile before.
    """
    buffers = [op for op in kernel.body.walk() if isinstance(op, sched.AllocOp)]
    for found in filter(None, map(write_back_through, buffers)):
        if any(copy.is_shifted for copy in found.copies):
            Rewriter.insert_op(sched.BarrierOp(), InsertPoint.before(found.store))


@dataclass(frozen=True)
class PersistBlocksPass(TargetPass):
    """Launches as many blocks as run at once, of which each has several work tiles.

    A kernel becomes persistent (``sched.kernel ... persistent 132``) if its warp groups multiply
    tiles of rings, its results can be stored by bulk copies, and it has more blocks than run at
    once, or than ``blocks``. With ``ping_pong = 2`` in its plan threads may also store results
    whose rows start anywhere: others multiply meanwhile. Rings continue from one work tile to the
    next: the tiles of the next one are loaded while the results of this one are stored. Threads
    load inputs of the epilogue alone from device memory there. Rings get more stages if the results
    leave room for them.
    ``persistent = false`` in its plan leaves a kernel as it is;
    ``true`` is an error where that cannot be.

    Pre-condition: ``--pipeline-products``; run ``--bulk-stores`` and ``--lower-rings`` after it.
    """

    name = "persist-blocks"

    blocks: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Treats every kernel of the module whose memory is not planned yet."""
        target = self.target
        require_natural(self.blocks, f"--{self.name}: blocks")
        launches = sched.launches_by_kernel(op)
        for kernel in unplanned_kernels(op):
            if kernel.persistent_blocks is not None or kernel.decided.persistent is False:
                continue
            trial = with_late_loads(kernel)
            found = blocks_at_once(trial, target, self.blocks)
            if kernel.domain is not None:
                found = "its blocks run different numbers of iterations"
            if any(length.axis >= 0 for length in kernel.held_lengths):
                found = "each of its blocks reads a length of its own"
            alignments = alignments_of(kernel, launches[kernel])
            if isinstance(found, int):
                stages = stages_beside_results(trial, found, alignments, target)
                if stages is not None:
                    for tiles in late_tiles(kernel):
                        load_in_epilogue(tiles)
                    deepen_rings(kernel, stages)
                    kernel.persistent = IntegerAttr(found, i64)
                    wait_for_readers(kernel)
                    continue
                found = "its results cannot leave by bulk copies beside the rings"
            if kernel.decided.persistent:
                refuse(kernel, "persistent", self.name, found, "leave persistent free")
