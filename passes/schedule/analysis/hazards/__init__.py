"""Hazards of scheduled kernels: races, copies in flight, overlapping buffers, stray accesses.

The model and why it is exact: ``docs/hazards.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects.sched import (
    ForloopOp,
    KernelOp,
    LocalTileOp,
)
from mugraph.dialects.sched.structure import loops_of
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.bounds import check_bounds
from mugraph.passes.schedule.analysis.hazards.program import Program, ProgramPoint, read_program
from mugraph.passes.schedule.analysis.hazards.progress import (
    PROGRESS_CERTIFICATE,
    Progress,
    differences,
    progress_of,
)
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation
from mugraph.passes.schedule.analysis.hazards.workspace import find_workspace_hazards


def find_hazards(kernel: KernelOp) -> list[Finding]:
    """Every hazard of a kernel, one a kind and pair of operators; none where it is right.

    Raises ``AccessError`` where a shared buffer has no offset yet.
    """
    return hazards_of_program(read_program(kernel))


def hazards_of_program(program: Program) -> list[Finding]:
    """Every hazard of a kernel that has been read."""
    findings = [*program.findings, *check_bounds(program)]
    return findings + list(_followed(program).values())


def unneeded_barriers(program: Program) -> list[ProgramPoint]:
    """The barriers without which, one at a time, a kernel has no hazard either.

    The kernel itself must have none.
    """
    return [place for place in program.barriers() if not _is_needed(program, place.operation)]


def uniform_loops(kernel: KernelOp) -> Iterator[ForloopOp]:
    """Loops of several iterations that all do the same, as no tile of the kernel moves.

    They have no hazard for that, but another count of iterations would have none either.
    """
    operators = list(kernel.body.block.ops)
    if not any(isinstance(op, LocalTileOp) and op.loop_dim >= 0 for op in operators):
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
    "find_hazards",
    "find_workspace_hazards",
    "hazards_of_program",
    "progress_of",
    "read_program",
    "uniform_loops",
    "unneeded_barriers",
]
