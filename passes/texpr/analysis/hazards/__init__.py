"""Hazards of mapped tensor expressions, by enumeration of what every thread touches.

Nothing here asks isl, which chose the barriers: the accesses of all threads are listed between one
barrier and the next, and two of different threads to the same bytes, one of which writes, are a
hazard unless a barrier of both stands between them.  Control does not depend on the thread outside
steps, so that all threads come to the same barriers, and one run stands for all.  Where threads
hand over through mbarriers, vector clocks say what is ordered (:mod:`handover`).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.te import BarrierOp, KernelOp
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.hazards.grid import check_grid
from mugraph.passes.texpr.analysis.hazards.handover import HandOver
from mugraph.passes.texpr.analysis.hazards.run import BlockRun
from mugraph.passes.texpr.analysis.roles import takes_turns

__all__ = ["Finding", "HazardKind", "find_texpr_hazards", "unneeded_texpr_barriers"]


def find_texpr_hazards(kernel: KernelOp) -> list[Finding]:
    """Every hazard of a kernel, one a kind and pair of operators; none where it is right."""
    return list(_hazards(kernel, None))


def unneeded_texpr_barriers(kernel: KernelOp) -> list[BarrierOp]:
    """The barriers without which, one at a time, a kernel has no hazard either."""
    return [
        op
        for op in kernel.walk()
        if isinstance(op, BarrierOp) and next(_hazards(kernel, op), None) is None
    ]


def _hazards(kernel: KernelOp, without: Operation | None) -> Iterator[Finding]:
    """Findings in device memory between blocks, then those of blocks."""
    grid = check_grid(kernel)
    yield from grid.findings
    seen: set[tuple[object, ...]] = set()
    for block in grid.blocks:
        for finding in _of_block(kernel, grid.shared_in_block, block, without):
            key = (finding.kind, *finding.operations)
            if key not in seen:
                seen.add(key)
                yield finding


def _of_block(
    kernel: KernelOp, passed: frozenset[SSAValue], block: int, without: Operation | None
) -> list[Finding]:
    """The hazards of one block."""
    if not takes_turns(kernel.threads):
        return BlockRun(kernel, passed, block, without).findings()
    if passed:
        names = ", ".join(sorted(source_name(one) for one in passed))
        message = (
            f"threads of a block pass elements of {names} on through device memory, which is not "
            "followed beside mbarriers"
        )
        return [Finding(HazardKind.NOT_CHECKED, (kernel,), message)]
    return HandOver(kernel, block, without).findings()
