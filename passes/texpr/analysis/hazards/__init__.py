"""Hazards of mapped tensor expressions, by enumeration of what every thread touches.

A block is followed with a vector clock for each thread, which says of each two touches of one place
whether barriers, mbarriers and waits order them (:mod:`block`): without isl, which chose the
barriers.  Between blocks nothing orders any (:mod:`grid`).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.at_sizes import kernels_at_sizes
from mugraph.passes.texpr.analysis.hazards.block import BlockRun
from mugraph.passes.texpr.analysis.hazards.grid import Grid, check_grid
from mugraph.passes.texpr.analysis.hazards.touches import TooManyError


def find_texpr_hazards(kernel: te.KernelOp) -> list[Finding]:
    """Every hazard of a kernel, one a kind and pair of operators; none where it is right."""
    return list(_hazards(kernel, None))


def unneeded_texpr_barriers(kernel: te.KernelOp) -> list[te.BarrierOp]:
    """The barriers without which, one at a time, a kernel has no hazard either."""
    return [
        op
        for op in kernel.walk()
        if isinstance(op, te.BarrierOp) and next(_hazards(kernel, op), None) is None
    ]


def _findings_of_block(
    kernel: te.KernelOp, grid: Grid, block: int, without: Operation | None
) -> list[Finding]:
    try:
        return BlockRun(kernel, grid.shared_in_block, block, without).findings()
    except TooManyError as error:
        return [Finding(HazardKind.NOT_CHECKED, (error.access.op,), str(error))]


def _hazards(kernel: te.KernelOp, without: Operation | None) -> Iterator[Finding]:
    """Findings in device memory between blocks, then those of blocks.

    The former of all sizes that a call may say, the latter at some (:mod:`at_sizes`).
    """
    grid = check_grid(kernel, without)
    yield from grid.findings
    seen: set[tuple[object, ...]] = set()
    for at in kernels_at_sizes(kernel):
        found = grid if at.kernel is kernel else check_grid(at.kernel)
        left_out = next((new for new, old in at.originals.items() if old is without), None)
        for block in found.blocks:
            for finding in _findings_of_block(at.kernel, found, block, left_out):
                operations = tuple(at.originals[one] for one in finding.operations)
                if (key := (finding.kind, *operations)) not in seen:
                    seen.add(key)
                    message = finding.message + at.when
                    yield finding._replace(operations=operations, message=message)
