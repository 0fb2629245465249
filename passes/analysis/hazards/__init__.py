"""Hazards of scheduled kernels: races, copies in flight, overlapping buffers, stray accesses.

The model and why it is exact: ``docs/hazards.md``.
"""

from __future__ import annotations

from xdsl.ir import Operation

from mugraph.dialects.sched import KernelOp
from mugraph.passes.analysis.hazards.bounds import check_bounds
from mugraph.passes.analysis.hazards.findings import Finding, HazardKind
from mugraph.passes.analysis.hazards.program import Place, Program, read_program
from mugraph.passes.analysis.hazards.simulate import Simulation


def find_hazards(kernel: KernelOp) -> list[Finding]:
    """Every hazard of a kernel, one a kind and pair of operators; none where it is right.

    Raises ``AccessError`` where a shared buffer has no offset yet.
    """
    return hazards_of_program(read_program(kernel))


def hazards_of_program(program: Program) -> list[Finding]:
    """Every hazard of a kernel that has been read."""
    findings = [*program.findings, *check_bounds(program)]
    return findings + Simulation(program).run()


def unneeded_barriers(program: Program) -> list[Place]:
    """The barriers without which, one at a time, a kernel has no hazard either.

    The kernel itself must have none.
    """
    return [place for place in program.barriers() if not _is_needed(program, place.operation)]


def _is_needed(program: Program, barrier: Operation) -> bool:
    return bool(Simulation(program, without=barrier, first_only=True).run())


__all__ = [
    "Finding",
    "HazardKind",
    "find_hazards",
    "hazards_of_program",
    "read_program",
    "unneeded_barriers",
]
