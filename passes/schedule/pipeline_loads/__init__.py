"""``--pipeline-loads``: the loads of a kernel's loop run ahead, and barriers stand where they must.

Stages and barriers share a block's memory, so that one pass chooses both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.passes.options import refuse
from mugraph.passes.schedule.pipeline_loads.barriers import propose_barriers
from mugraph.passes.schedule.pipeline_loads.copies import find_copies, stage_copies
from mugraph.passes.schedule.schedule_threadblock.choose import (
    Stages,
    asked_stages,
    choose_stages,
)
from mugraph.passes.schedule.schedule_threadblock.proposal import Proposal
from mugraph.passes.schedule.schedule_threadblock.rings import (
    feeds_of,
    pipeline_rings,
    producer_of,
    why_not_staged,
)
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

__all__ = ["PipelineLoadsPass", "pipeline_loads"]


def pipeline_loads(kernel: sched.KernelOp, target: Target) -> None:
    """Gives a kernel's loads the stages wanted that fit, and puts barriers between its operators."""
    if producer_of(kernel) is not None:
        pipeline_rings(kernel, propose_barriers(kernel, target), target)
    else:
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
