"""What accesses of mapped kernels cost: wavefronts and sectors against the ideal, by enumeration.

One execution of an operator by block 0 is counted: all threads, and the loops of their step.  Loops
around steps are at the first iteration at which the operator runs.  Bulk copies are left out: they
move whole lines.  A product by a warp group is one instruction of 128 threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.cute.matrix_descriptor import UNIT_BYTES
from mugraph.dialects.programming_model import GROUP_THREADS, VECTOR_BYTES, WARP
from mugraph.dialects.te.points import all_hold, first_numbers, grid_of
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.memory.wavefronts import (
    ideal_sectors,
    ideal_wavefronts,
    lane_addresses,
    load_wavefronts,
    moved,
)
from mugraph.passes.texpr.analysis.domains import Access, Domain, accesses_of
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
        return self.access.type.memory_space is te.Space.SHARED

    @property
    def excess(self) -> int:
        """Transactions that another layout or mapping could save."""
        return max(0, self.transactions - self.ideal)


def texpr_access_costs(kernel: te.KernelOp) -> Iterator[TexprAccessCost]:
    """The cost of every access to memory of a mapped kernel, in the order of the text."""
    accesses = [one for one in accesses_of(kernel) if one.is_in_memory]
    for access in accesses:
        found = None if isinstance(access.op, te.BulkCopyOp) else points_of(access.domain, kernel)
        if found is None:
            continue
        points, executions = found
        if isinstance(access.op, te.WarpgroupMmaOp):
            yield _product_cost(access, access.op, points, executions)
            continue
        addresses = addresses_at(access, points)
        other: IntArray | None = None
        if isinstance(access.op, te.AsyncCopy):
            side = next(one for one in accesses if one.op is access.op and one is not access)
            other = addresses_at(side, points)
        yield _cost(access, addresses, other, executions)


def _is_in_step(loop: te.LoopOp) -> bool:
    return enclosing(loop, te.StepOp) is not None


def points_of(domain: Domain, kernel: te.KernelOp) -> tuple[dict[SSAValue, IntArray], int] | None:
    """The values of all variables, threads the fastest, and how often a block comes to the step.

    ``None`` where the operator never runs, or is too often run to be listed.
    """
    thread = kernel.threads
    loops = [loop for loop in domain.loops if loop not in (kernel, thread)]
    inner = [loop for loop in loops if _is_in_step(loop)]
    outer = [loop for loop in loops if not _is_in_step(loop)]
    rounds = math.prod(loop.iterations for loop in outer)
    listed = math.prod(loop.iterations for loop in inner) * thread.iterations
    if max(listed, rounds) > MOST_POINTS:
        return None
    around, _ = grid_of(outer)
    alike = [one for one in domain.conditions if enclosing(one, te.StepOp) is None]
    holds = np.broadcast_to(all_hold(alike, around), (rounds,))
    if not holds.any():
        return None
    first = int(np.flatnonzero(holds)[0])
    points, _ = grid_of([*inner, thread])
    points |= {variable: np.array(values[first]) for variable, values in around.items()}
    return points, int(holds.sum())


def addresses_at(access: Access, points: dict[SSAValue, IntArray]) -> IntArray:
    """Byte addresses by warp instruction and lane, -1 for those that the operator leaves out."""
    thread = next(loop.variable for loop in access.domain.loops if isinstance(loop, te.ThreadsOp))
    threads = int(np.ptp(points[thread])) + 1
    count = _count(points)
    numbers = np.broadcast_to(first_numbers(access, points), count)
    offsets = addresses_of_numbers(access.type, numbers)
    inside = [one for one in access.domain.conditions if enclosing(one, te.StepOp) is not None]
    holds = np.broadcast_to(all_hold(inside, points), count)
    offsets = np.where(holds, offsets, -1).reshape(-1, threads)
    return lane_addresses(offsets, element_bytes_of(access.type))


def _product_cost(
    access: Access, op: te.WarpgroupMmaOp, points: dict[SSAValue, IntArray], executions: int
) -> TexprAccessCost:
    """The units of 16 bytes that the hardware reads of a matrix, eight rows at a time."""
    operand = "A" if access.operand is op.a else "B"
    layout = op.sides[operand][3]
    size = element_bytes_of(access.type)
    unit = UNIT_BYTES // size
    offsets = np.array(layout.indices(), np.int64).reshape(layout[1].size(), -1)
    units = offsets[:, ::unit].T if op.matrix(operand).transposed else offsets[::unit]
    count = _count(points)
    thread = next(loop.variable for loop in access.domain.loops if isinstance(loop, te.ThreadsOp))
    comes = np.broadcast_to(all_hold(access.domain.conditions, points), count)
    comes = comes & (np.broadcast_to(points[thread], count) % GROUP_THREADS == 0)
    firsts = np.broadcast_to(first_numbers(access, points), count)[comes]
    # The same for each turn of a ring.
    starts, times = np.unique(firsts, return_counts=True)
    numbers = starts[:, None] + units.reshape(-1)
    offsets = addresses_of_numbers(access.type, numbers).reshape(-1, WARP)
    addresses = lane_addresses(offsets, size)
    counted, ideal = (
        int(np.sum(np.sum(one.reshape(len(starts), -1), axis=1) * times))
        for one in (load_wavefronts(addresses, UNIT_BYTES), ideal_wavefronts(addresses, UNIT_BYTES))
    )
    return TexprAccessCost(access, "wgmma", len(firsts), counted, ideal, executions)


def _count(points: dict[SSAValue, IntArray]) -> tuple[int]:
    """How many points there are."""
    return (max((len(one) for one in points.values() if one.ndim), default=1),)


def _cost(
    access: Access, addresses: IntArray, other: IntArray | None, executions: int
) -> TexprAccessCost:
    shared = access.type.memory_space is te.Space.SHARED
    width = min(math.prod(access.box) * element_bytes_of(access.type), VECTOR_BYTES)
    writes = access.kind is not te.AccessKind.READ
    space = "shared" if shared else "global"
    name = f"{'st' if writes else 'ld'}.{space}.b{8 * width}"
    matrices = isinstance(access.op, te.AsmOp) and access.op.moves_matrices
    if other is not None:
        name = f"cp.async.{width}"
    elif isinstance(access.op, te.AsmOp) and matrices:
        words = access.op.instruction.split(".")
        name = ".".join([words[0], *(one for one in words if one == "trans" or one[0] == "x")])
    counted = moved(
        addresses, width, shared=shared, writes=writes, other=other, collective=matrices
    )
    ideal = (ideal_wavefronts if shared else ideal_sectors)(addresses, width)
    return TexprAccessCost(
        access, name, len(addresses), int(np.sum(counted)), int(np.sum(ideal)), executions
    )
