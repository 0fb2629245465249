"""Hazards of scheduled kernels: races, copies in flight, overlapping buffers, stray accesses.

The model and why it is exact: ``docs/hazards.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.sched.domain import fewest_iterations, spans_of, with_count
from mugraph.dialects.sched.structure import loops_of, most_iterations
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.bounds import check_bounds
from mugraph.passes.schedule.analysis.hazards.clusters import find_cluster_hazards
from mugraph.passes.schedule.analysis.hazards.last_blocks import find_last_block_hazards
from mugraph.passes.schedule.analysis.hazards.program import Program, ProgramPoint, read_program
from mugraph.passes.schedule.analysis.hazards.progress import (
    PROGRESS_CERTIFICATE,
    Progress,
    differences,
    progress_of,
)
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation
from mugraph.passes.schedule.analysis.hazards.tasks import find_task_hazards
from mugraph.passes.schedule.analysis.hazards.workspace import find_workspace_hazards
from mugraph.passes.schedule.lower_rings import with_lowered_rings


def find_hazards(kernel: sched.KernelOp) -> list[Finding]:
    """Every hazard of a kernel, one a kind and pair of operators; none where it is right.

    Of a kernel whose blocks run different iterations, those of every number of iterations that a
    block runs.  Raises ``AccessError`` where a shared buffer has no offset yet.
    """
    return hazards_of_all_blocks(kernel, read_program(kernel))


def hazards_of_all_blocks(kernel: sched.KernelOp, program: Program) -> list[Finding]:
    """Every hazard of a kernel that has been read, also of blocks that run fewer iterations."""
    findings = {str(finding): finding for finding in hazards_of_program(program)}
    for count in counts_of(kernel):
        for finding in hazards_of_program(read_program(with_count(kernel, count))):
            findings.setdefault(str(finding), finding)
    return list(findings.values())


def counts_of(kernel: sched.KernelOp) -> list[int]:
    """The numbers of iterations, less than all, that show every hazard of blocks that run fewer.

    From a number on at which all stages have been used, loops repeat what they did as many
    iterations before as all numbers of stages have in common, so that a block that runs so many
    fewer ends alike.
    """
    lowered = with_lowered_rings(kernel)
    if lowered.domain is None:
        return []
    stages = [
        op.stage_count for op in lowered.walk() if isinstance(op, sched.AllocOp | sched.ChannelOp)
    ]
    every = [slice(0, extent) for extent in kernel.grid_dim]
    # Lengths may leave any number of iterations.
    found = (
        range(fewest_iterations(kernel), most_iterations(kernel))
        if kernel.held_lengths
        else sorted({span.count for span, _ in spans_of(kernel, every)})
    )
    period, settled = math.lcm(*stages), 2 * max(stages, default=1)
    chosen: dict[int, int] = {}
    for count in found:
        chosen.setdefault(count if count <= settled else settled + 1 + count % period, count)
    return [count for count in chosen.values() if count < most_iterations(kernel)]


def hazards_of_program(program: Program) -> list[Finding]:
    """Every hazard of a kernel that has been read."""
    findings = [*program.findings, *check_bounds(program)]
    return findings + list(_followed(program).values())


def unneeded_barriers(program: Program) -> list[ProgramPoint]:
    """The barriers without which, one at a time, a kernel has no hazard either.

    The kernel itself must have none.
    """
    return [place for place in program.barriers() if not _is_needed(program, place.operation)]


def uniform_loops(kernel: sched.KernelOp) -> Iterator[sched.ForloopOp]:
    """Loops of several iterations that all do the same, as no tile of the kernel moves.

    They have no hazard for that, but another count of iterations would have none either.
    """
    operators = list(kernel.body.block.ops)
    if not any(isinstance(op, sched.LocalTileOp) and op.loop_dim >= 0 for op in operators):
        yield from (loop for loop in loops_of(kernel) if loop.iterations > 1)


def _is_needed(program: Program, barrier: Operation) -> bool:
    return bool(_followed(program, without=barrier, first_only=True))


def _followed(
    program: Program, *, without: Operation | None = None, first_only: bool = False
) -> dict[tuple[object, ...], Finding]:
    """The hazards of blocks with lists of every length, each named once."""
    findings: dict[tuple[object, ...], Finding] = {}
    for length in program.lengths:
        run = Simulation(program, length=length, without=without, first_only=first_only)
        findings = {**run.findings(), **findings}
    return findings


__all__ = [
    "PROGRESS_CERTIFICATE",
    "Finding",
    "HazardKind",
    "Progress",
    "differences",
    "find_cluster_hazards",
    "find_hazards",
    "find_last_block_hazards",
    "find_task_hazards",
    "find_workspace_hazards",
    "hazards_of_all_blocks",
    "hazards_of_program",
    "progress_of",
    "read_program",
    "uniform_loops",
    "unneeded_barriers",
]
