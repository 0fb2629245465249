"""Hazards of scheduled kernels: races, copies in flight, overlapping buffers, stray accesses.

The model and why it is exact: ``docs/hazards.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects.sched import (
    ConsumeOp,
    ForloopOp,
    KernelOp,
    PublishOp,
    ReleaseOp,
    TileOp,
)
from mugraph.dialects.sched.structure import loops_of
from mugraph.dialects.tensor_types import value_label
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


def channel_progress(program: Program) -> Iterator[str]:
    """A sentence for each channel of a kernel without hazards: how often it is used to the end.

    Follows every iteration, so that it says nothing that was not seen.
    """
    run = Simulation(program, every_iteration=True, synchronisation_only=True)
    if run.run():
        return
    for channel in program.channels:
        published, consumed, released = (
            run.protocol.counts[channel, step] for step in (PublishOp, ConsumeOp, ReleaseOp)
        )
        yield (
            f"{value_label(channel.result)}, {channel.stage_count} "
            f"stage{'s' if channel.stage_count > 1 else ''}, is published {published} times, "
            f"consumed {consumed} times and released {released} times, and every wait ends"
        )


def uniform_loops(kernel: KernelOp) -> Iterator[ForloopOp]:
    """Loops of several iterations that all do the same, as no tile of the kernel moves.

    They have no hazard for that, but another count of iterations would have none either.
    """
    operators = list(kernel.body.block.ops)
    if not any(isinstance(op, TileOp) and op.loop_dim >= 0 for op in operators):
        yield from (loop for loop in loops_of(kernel) if loop.iterations > 1)


def _is_needed(program: Program, barrier: Operation) -> bool:
    return bool(Simulation(program, without=barrier, first_only=True).run())


__all__ = [
    "Finding",
    "HazardKind",
    "channel_progress",
    "find_hazards",
    "hazards_of_program",
    "read_program",
    "uniform_loops",
    "unneeded_barriers",
]
