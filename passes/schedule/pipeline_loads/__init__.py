"""``--pipeline-loads``: the loads of a kernel's loop run ahead, and barriers stand where they must.

Stages and barriers share a block's memory, so that one pass chooses both.
"""

from __future__ import annotations

import math

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.passes.each import TargetPass, UnplannedKernelPass
from mugraph.passes.options import refuse
from mugraph.passes.schedule.barriers.proposal import propose_barriers
from mugraph.passes.schedule.early_numbers import load_before_loop
from mugraph.passes.schedule.pipeline_loads.copies import (
    find_copies,
    shift_stores,
    stage_copies,
)
from mugraph.passes.schedule.pipeline_loads.rings import (
    pipeline_rings,
    producer_of,
    why_not_staged,
)
from mugraph.passes.schedule.pipeline_loads.stages import asked_stages, choose_stages
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import Target

__all__ = ["PipelineLoadsPass", "pipeline_loads"]


def pipeline_loads(kernel: sched.KernelOp, target: Target) -> None:
    """Gives a kernel's loads the stages wanted that fit, and its phases their barriers."""
    with tiles_by_registers(kernel):
        shift_stores(kernel)
        if producer_of(kernel) is not None:
            pipeline_rings(kernel, target)
            load_before_loop(kernel)
        elif not find_copies(kernel).run_ahead:
            pipeline_copies(kernel, target)


def pipeline_copies(kernel: sched.KernelOp, target: Target) -> None:
    """Lets copies by all threads run ahead, in fewer stages than wanted where these do not fit."""
    stages = wanted_stages(kernel, target)
    while True:
        trial = kernel.clone()
        stage_copies(find_copies(trial), stages)
        proposal = propose_barriers(trial, target)
        schedule = proposal.fitting_schedule()
        if schedule is None and stages > 1:
            tile_bytes = max(find_copies(kernel).tile_bytes, 1)
            stages = max(stages - math.ceil(proposal.excess_bytes() / tile_bytes), 1)
            continue
        arranged = proposal.arranged(schedule or proposal.smallest_schedule())
        kernel.body.detach_block(0)
        kernel.body.add_block(arranged.body.detach_block(0))
        kernel.attributes |= arranged.attributes
        return


def wanted_stages(kernel: sched.KernelOp, target: Target) -> int:
    """The stages of what all threads load in the loop, as the plan says or latency asks for."""
    copies, iterations = find_copies(kernel), loop_iterations(kernel)
    if not copies.moving:
        return 1
    asked = kernel.decided.stages
    if asked is not None:
        return asked_stages(asked, 1, iterations)[0]
    blocks = math.prod(kernel.grid_dim)
    # How many blocks share a multiprocessor is asked only where there are enough of them.
    shared = 0
    if blocks // target.multiprocessors > 1:
        shared = propose_barriers(kernel, target).least_barriers.peak
    return choose_stages(copies.tile_bytes, blocks, iterations, shared, target)


class PipelineLoadsPass(TargetPass, UnplannedKernelPass):
    """Lets the loads of a kernel's loop run ahead, and puts barriers where threads need them.

    Rings that a producer feeds get the stages that bulk copies need to keep device memory busy;
    blocks that share a multiprocessor share its memory.  Tiles that all threads load are copied by
    ``cp.async`` in the fewest stages that cover the latency of device memory.  Where these do not
    fit in the block's memory there are fewer.  ``stages = [3]`` in a kernel's plan gives all that
    moves with the loop so many stages, and ``stages = [2, 3]`` two to the first ring and three to
    the others; what does not fit is an error.

    Barriers stand only where threads depend on what others did, as few as can be, and among
    schedules with so few one of little peak shared memory is taken; where that does not fit, ever
    more barriers are traded for memory.  Threads wait for a ring's stage before they first read it;
    ``--lower-rings`` says when it is free again.  ``sched.schedule_certificate`` records barriers
    and peak with their bounds.  Numbers of rows and columns that the epilogue alone needs, as a
    bias, come to registers before a loop of warp groups.

    Pre-condition: ``--lower-threadblock``, and the passes that say what is in registers
    (``--promote-registers``, ``--use-warpgroups``).
    """

    name = "pipeline-loads"

    def run(self, kernel: sched.KernelOp) -> None:
        """Pipelines a kernel."""
        pipeline_loads(kernel, self.target)
        if kernel.decided.requires("stages") and (found := why_not_staged(kernel)) is not None:
            why, fit = found
            refuse(kernel, "stages", self.name, why, f"write stages = {list(fit)}")
