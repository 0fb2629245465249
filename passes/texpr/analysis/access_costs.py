"""What accesses of mapped kernels cost: wavefronts and sectors against the ideal, by enumeration.

One execution of an operator by block 0 is counted: all threads, and the loops of their step.  Loops
around steps are at the first iteration at which the operator runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.programming_model import VECTOR_BYTES
from mugraph.dialects.te import (
    AccessKind,
    AsmOp,
    CopyAsyncOp,
    KernelOp,
    LoopOp,
    Space,
    StepOp,
)
from mugraph.dialects.te.points import all_hold, first_numbers, grid_of
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.memory.wavefronts import (
    copy_sectors,
    copy_wavefronts,
    ideal_sectors,
    ideal_wavefronts,
    lane_addresses,
    ldmatrix_wavefronts,
    load_wavefronts,
    sectors,
    store_wavefronts,
)
from mugraph.passes.texpr.analysis.domains import Access, accesses_of
from mugraph.passes.texpr.analysis.evaluate import addresses_of_numbers

IntArray = npt.NDArray[np.int64]
MOST_POINTS = 1 << 22
"""Threads and iterations of a step together that are listed of one access."""


@dataclass(frozen=True)
class TexprAccessCost:
    """One access of an operator, executed once by one block.

    ``transactions`` are wavefronts in shared memory and sectors in device memory, ``executions`` is
    how often a block comes to the step.
    """

    access: Access
    instruction: str
    instructions: int
    transactions: int
    ideal: int
    executions: int

    @property
    def in_shared_memory(self) -> bool:
        """Whether the buffer is in shared memory."""
        return self.access.type.memory_space is Space.SHARED

    @property
    def excess(self) -> int:
        """Transactions that another layout or mapping could save."""
        return max(0, self.transactions - self.ideal)


def texpr_access_costs(kernel: KernelOp) -> Iterator[TexprAccessCost]:
    """The cost of every access to memory of a mapped kernel, in the order of the text."""
    accesses = [one for one in accesses_of(kernel) if _is_in_memory(one)]
    for access in accesses:
        found = _points(access, kernel)
        if found is None:
            continue
        points, executions = found
        addresses = _addresses(access, points)
        other: IntArray | None = None
        if isinstance(access.op, CopyAsyncOp):
            side = next(one for one in accesses if one.op is access.op and one is not access)
            other = _addresses(side, points)
        yield _cost(access, addresses, other, executions)


def _is_in_memory(access: Access) -> bool:
    return access.type.memory_space is not Space.REGISTER


def _is_in_step(loop: LoopOp) -> bool:
    return enclosing(loop, StepOp) is not None


def _points(access: Access, kernel: KernelOp) -> tuple[dict[SSAValue, IntArray], int] | None:
    """The values of all variables, threads the fastest, and how often a block comes to the step.

    ``None`` where the operator never runs, or is too often run to be listed.
    """
    thread = kernel.threads
    loops = [loop for loop in access.domain.loops if loop not in (kernel, thread)]
    inner = [loop for loop in loops if _is_in_step(loop)]
    outer = [loop for loop in loops if not _is_in_step(loop)]
    rounds = math.prod(loop.iterations for loop in outer)
    listed = math.prod(loop.iterations for loop in inner) * thread.iterations
    if max(listed, rounds) > MOST_POINTS:
        return None
    around, _ = grid_of(outer)
    alike = [one for one in access.domain.conditions if enclosing(one, StepOp) is None]
    holds = np.broadcast_to(all_hold(alike, around), (rounds,))
    if not holds.any():
        return None
    first = int(np.flatnonzero(holds)[0])
    points, _ = grid_of([*inner, thread])
    points |= {variable: np.array(values[first]) for variable, values in around.items()}
    return points, int(holds.sum())


def _addresses(access: Access, points: dict[SSAValue, IntArray]) -> IntArray:
    """Byte addresses by warp instruction and lane, -1 for those that the operator leaves out."""
    threads = next(loop.iterations for loop in access.domain.loops if loop.name == "te.threads")
    count = max((len(one) for one in points.values() if one.ndim), default=1)
    numbers = np.broadcast_to(first_numbers(access, points), (count,))
    offsets = addresses_of_numbers(access.type, numbers)
    inside = [one for one in access.domain.conditions if enclosing(one, StepOp) is not None]
    holds = np.broadcast_to(all_hold(inside, points), (count,))
    offsets = np.where(holds, offsets, -1).reshape(-1, threads)
    return lane_addresses(offsets, element_bytes_of(access.type))


def _cost(
    access: Access, addresses: IntArray, other: IntArray | None, executions: int
) -> TexprAccessCost:
    shared = access.type.memory_space is Space.SHARED
    width = min(math.prod(access.box) * element_bytes_of(access.type), VECTOR_BYTES)
    writes = access.kind is not AccessKind.READ
    space = "shared" if shared else "global"
    name = f"{'st' if writes else 'ld'}.{space}.b{8 * width}"
    if other is not None:
        name = f"cp.async.{width}"
        counted = (
            copy_wavefronts(addresses, other, width)
            if shared
            else copy_sectors(other, addresses, width)
        )
    elif isinstance(access.op, AsmOp) and access.op.instruction.startswith("ldmatrix"):
        name = ".".join(part for part in access.op.instruction.split(".") if part[0] in "lxt")
        counted = ldmatrix_wavefronts(addresses)
    elif shared:
        counted = (store_wavefronts if writes else load_wavefronts)(addresses, width)
    else:
        counted = sectors(addresses, width)
    ideal = (ideal_wavefronts if shared else ideal_sectors)(addresses, width)
    return TexprAccessCost(
        access, name, len(addresses), int(np.sum(counted)), int(np.sum(ideal)), executions
    )


__all__ = ["TexprAccessCost", "texpr_access_costs"]
