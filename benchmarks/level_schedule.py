"""The seeds' own schedule of a threadblock graph: one barrier between successive depths.

What ``planning.py`` compares plans of shared memory with: all in shared memory, in the same stages
and sizes of swizzled buffers, scheduled and packed by the seeds' rules.
"""

from __future__ import annotations

from dataclasses import replace

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.sched import AllocOp, KernelOp
from mugraph.dialects.sched.kernel import LINE_BYTES, whole_lines
from mugraph.passes.memory.packing.allocate import best_of_seed_fits
from mugraph.passes.schedule.barriers.fewest import level_schedule
from mugraph.passes.schedule.barriers.proposal import propose_barriers
from mugraph.passes.schedule.lower_threadblock.build import lower_kernel
from mugraph.passes.schedule.lower_threadblock.builder import Choices
from mugraph.passes.schedule.lower_threadblock.levels import find_levels
from mugraph.passes.schedule.lower_threadblock.products import choose_products
from mugraph.passes.schedule.pipeline_loads.copies import find_copies, stage_copies
from mugraph.passes.schedule.plan_stensor_memory import memory_requests
from mugraph.passes.targets import target_named


def level_schedule_peak(graph: CustomizedOp, kernel: KernelOp, arch: str) -> int:
    """Bytes of shared memory by the seeds' schedule and the best of their three fits.

    ``kernel`` is the finished kernel, whose number of stages is taken.
    """
    levels, target = find_levels(graph), target_named(arch)
    products = choose_products(graph, levels, target, graph.threads)
    registers = products.registers
    stages = max((op.stage_count for op in kernel.walk() if isinstance(op, AllocOp)), default=1)
    choices = Choices(products.warp_layouts, registers.accumulators, registers.pieces)
    lowered = lower_kernel(graph, levels, choices, "levels")
    stage_copies(find_copies(lowered), stages)
    proposal = propose_barriers(lowered, target)
    requests = memory_requests(proposal.in_regions(*level_schedule(proposal.graph)))
    sized = [
        replace(request, size=whole_lines(twin.total_bytes()))
        for buffer, request in requests.items()
        if isinstance(twin := proposal.twins[buffer], AllocOp)
    ]
    return best_of_seed_fits(sized, LINE_BYTES).peak
