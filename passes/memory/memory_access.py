"""What the accesses of a scheduled kernel cost: wavefronts and sectors against the ideal.

Read from the access streams alone; see :mod:`mugraph.passes.memory.wavefronts` for the model.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mugraph.dialects import sched
from mugraph.dialects.sched.accesses import AccessKind, Predicate, Proxy
from mugraph.dialects.sched.mappings import IDLE
from mugraph.passes.memory.wavefronts import (
    SECTOR_BYTES,
    WAVEFRONT_BYTES,
    IntArray,
    ideal_sectors,
    ideal_wavefronts,
    lane_addresses,
    moved,
    sector_residues,
    sectors,
)


class AccessCost(NamedTuple):
    """One access of an operator, executed once by one block.

    ``transactions`` are wavefronts in shared memory and sectors in device memory; in device memory
    those of the least favourable start of the tile over blocks and iterations.  ``per_launch`` is
    their exact sum over all blocks and iterations, ``executions`` how often the operator runs in
    them.
    """

    access: sched.ThreadAccess
    instructions: int
    transactions: int
    ideal: int
    per_launch: int
    executions: int

    @property
    def excess(self) -> int:
        """Transactions that another layout or mapping could save."""
        return max(0, self.transactions - self.ideal)


def thread_accesses(kernel: sched.KernelOp) -> Iterator[sched.ThreadAccess]:
    """All accesses of a kernel, in the order of its operators.

    Of ping-pong roles those of the first: each does for its blocks what
    the others do for theirs.  Raises ``AccessError`` at an operator whose accesses are not
    modelled.
    """
    for op in kernel.body.walk():
        role = sched.enclosing_role(op)
        if isinstance(op, sched.HasThreadAccesses) and (role is None or not role.ping_pong_index):
            yield from op.thread_accesses()


def warp_addresses(access: sched.ThreadAccess, start: int) -> IntArray:
    """Byte addresses by warp instruction and lane, ``[instructions, 32]``; idle warps left out.

    ``start`` is the address of the first element of the stage or tile.  Rows that numbers name are
    taken to lie in the order of the numbers: as many sectors as in any other.
    """
    offsets = access.offsets
    tile = access.value.owner
    if isinstance(tile, sched.LocalTileOp) and tile.windows is not None:
        # Lanes that find nothing take part: they write zeros.
        found = np.maximum(tile.offsets_in_memory(offsets), 0)
        offsets = np.where(offsets == IDLE, IDLE, found)
    if access.rows is not None:
        offsets = np.where(
            offsets == IDLE, IDLE, offsets + access.rows.numbers * access.rows.stride
        )
    return lane_addresses(offsets, access.element_bytes, start)


def other_side(access: sched.ThreadAccess) -> sched.ThreadAccess | None:
    """The read of the ``cp.async`` that an access is the write of, or the other way round."""
    operation = access.operation
    if access.proxy is not Proxy.ASYNC_COPY or not isinstance(operation, sched.HasThreadAccesses):
        return None
    return next(
        (
            other
            for other in operation.thread_accesses()
            if other.proxy is Proxy.ASYNC_COPY and other.kind is not access.kind
        ),
        None,
    )


def transactions_of(access: sched.ThreadAccess, addresses: IntArray) -> IntArray:
    """The wavefronts of every warp instruction of an access, or in device memory the sectors."""
    other = other_side(access)
    return moved(
        addresses,
        access.access_bytes,
        shared=not access.in_device_memory,
        writes=access.kind is AccessKind.WRITE,
        # Where a tile starts moves all banks alike, and stages start at bank 0.
        other=None if other is None else warp_addresses(other, 0),
        collective=access.warp_collective,
    )


def access_cost(access: sched.ThreadAccess, kernel: sched.KernelOp) -> AccessCost:
    """The cost of one access of a kernel; unplanned buffers are taken to start at a line."""
    if isinstance(access.operation, sched.BulkCopyOp):
        return _bulk_cost(access, access.operation, kernel)
    if access.in_device_memory:
        return _device_cost(access, kernel)
    owner = access.value.owner
    # Stages are whole lines of all banks, so that every one of them costs the same.
    start = (owner.byte_offset or 0) if isinstance(owner, sched.AllocOp) else 0
    addresses = warp_addresses(access, start)
    wavefronts = int(transactions_of(access, addresses).sum())
    executions = executions_of_block(access) * math.prod(kernel.grid_dim)
    return AccessCost(
        access,
        len(addresses),
        wavefronts,
        int(ideal_wavefronts(addresses, access.access_bytes).sum()),
        wavefronts * executions,
        executions,
    )


def _bulk_cost(
    access: sched.ThreadAccess, op: sched.BulkCopyOp, kernel: sched.KernelOp
) -> AccessCost:
    """The cost of one side of a bulk copy: what it touches is moved once, by no thread.

    ``instructions`` are its boxes.  In shared memory whole lines of all banks are moved, whatever
    the swizzle, which stays within lines.
    """
    unit = SECTOR_BYTES if access.in_device_memory else WAVEFRONT_BYTES
    active, predicate = access.active(), access.predicate
    addresses = access.offsets[active] * access.element_bytes
    counts: Counter[tuple[int, tuple[int, ...]]]
    if predicate is not None:
        counts = ragged_starts(access, predicate, kernel)
    elif access.in_device_memory:
        residues = start_residues(access, kernel)
        counts = Counter({(start, ()): count for start, count in residues.items()})
    else:
        # Buffers of bulk copies start at a line.
        counts = Counter({(0, ()): executions_of_block(access) * math.prod(kernel.grid_dim)})
    touched: dict[tuple[int, tuple[int, ...]], int] = {}
    for start, existing in counts:
        of_box = addresses
        if predicate is not None:
            of_box = addresses[predicate.counts(existing, access.width)[active] > 0]
        touched[start, existing] = len(np.unique((of_box + start) // unit))
    return AccessCost(
        access,
        len(op.bulk_tile().starts),
        max(touched.values()),
        -(-addresses.size * access.access_bytes // unit),
        sum(count * touched[key] for key, count in counts.items()),
        sum(counts.values()),
    )


def _device_cost(access: sched.ThreadAccess, kernel: sched.KernelOp) -> AccessCost:
    if access.predicate is not None:
        return _ragged_cost(access, access.predicate, kernel)
    counts = start_residues(access, kernel)
    by_residue = {
        residue: int(transactions_of(access, warp_addresses(access, residue)).sum())
        for residue in counts
    }
    addresses = warp_addresses(access, 0)
    return AccessCost(
        access,
        len(addresses),
        max(by_residue.values()),
        int(ideal_sectors(addresses, access.access_bytes).sum()),
        sum(count * by_residue[residue] for residue, count in counts.items()),
        sum(counts.values()),
    )


def _ragged_cost(
    access: sched.ThreadAccess, predicate: Predicate, kernel: sched.KernelOp
) -> AccessCost:
    """The cost of an access of which only some elements exist.

    Of a vector of which a part exists, the elements are moved one by one.
    """
    counts = ragged_starts(access, predicate, kernel)
    costs: dict[tuple[int, tuple[int, ...]], tuple[int, int, int]] = {}
    for residue, existing in counts:
        of_lanes = predicate.counts(existing, access.width)
        is_whole = (of_lanes == access.width) & (access.offsets != IDLE)
        parts = [replace(access, offsets=np.where(is_whole, access.offsets, IDLE))]
        for element in range(access.width - 1):
            has_it = ~is_whole & (of_lanes > element) & (access.offsets != IDLE)
            offsets = np.where(has_it, access.offsets + element, IDLE)
            parts.append(replace(access, width=1, offsets=offsets))
        instructions = touched = ideal = 0
        for part in parts:
            addresses = warp_addresses(part, residue)
            if len(addresses):
                instructions += len(addresses)
                touched += int(sectors(addresses, part.access_bytes).sum())
                ideal += int(ideal_sectors(addresses, part.access_bytes).sum())
        costs[residue, existing] = instructions, touched, ideal
    worst = max(costs.values(), key=lambda cost: cost[1])
    return AccessCost(
        access,
        worst[0],
        worst[1],
        worst[2],
        sum(count * costs[key][1] for key, count in counts.items()),
        sum(counts.values()),
    )


def ragged_starts(
    access: sched.ThreadAccess, predicate: Predicate, kernel: sched.KernelOp
) -> Counter[tuple[int, tuple[int, ...]]]:
    """As :func:`start_residues`, for each number of elements that exist along each dimension."""
    bounds = [entry.bound for entry in predicate.ragged]
    cuts = zip(*(bound.cuts() for bound in bounds), strict=True)
    spans = [
        _between({index for some in of_axis for index in some}, range(extent))
        for of_axis, extent in zip(cuts, kernel.grid_dim, strict=True)
    ]
    iterations, times = iterations_meant(access)
    counts = Counter[tuple[int, tuple[int, ...]]]()
    for blocks in itertools.product(*spans):
        block = tuple(span.start for span in blocks)
        whole = {bound.whole_tiles(block) for bound in bounds if bound.moves}
        for span in _between({at for last in whole for at in (last, last + 1)}, iterations):
            existing = predicate.existing(block, span.start)
            for residue, number in _residues(access, span, blocks).items():
                counts[residue, existing] += number * times
    return counts


def _between(cuts: set[int], whole: range) -> list[range]:
    """A range, cut where it says."""
    inside = sorted({whole.start, *(cut for cut in cuts if cut in whole)}) if whole else []
    return [range(*ends) for ends in itertools.pairwise([*inside, whole.stop])]


def iterations_meant(access: sched.ThreadAccess) -> tuple[range, int]:
    """Which iterations' stages or tiles a block touches with this access, and each how often."""
    loop, stage = sched.enclosing_loop(access.operation), access.stage
    if loop is None:
        first = stage.iteration_at(0)
        return range(first, first + 1), 1
    if stage.iteration is not None:
        return range(stage.iteration, stage.iteration + 1), loop.iterations
    return range(max(stage.ahead, 0), loop.iterations + min(stage.ahead, 0)), 1


def executions_of_block(access: sched.ThreadAccess) -> int:
    """How often a block runs the operator of an access."""
    iterations, times = iterations_meant(access)
    return len(iterations) * times


def start_residues(access: sched.ThreadAccess, kernel: sched.KernelOp) -> Counter[int]:
    """Where tiles start within a sector, in bytes, and how many executions start there.

    Tensors are taken to start at a sector.
    """
    iterations, times = iterations_meant(access)
    counts = _residues(access, iterations, [range(extent) for extent in kernel.grid_dim])
    return Counter({start: number * times for start, number in counts.items()})


def _residues(
    access: sched.ThreadAccess, iterations: range, blocks: Sequence[range]
) -> Counter[int]:
    """Where tiles start within a sector in some iterations of some blocks, once each."""
    value = access.value
    strides = (
        block_strides(value.owner) if isinstance(value.owner, sched.LocalTileOp) else (0, 0, 0)
    )
    start = sched.start_bytes(value, iterations.start, [span.start for span in blocks])
    step = sched.start_bytes(value, 1) - sched.start_bytes(value, 0)
    moves = (stride * access.element_bytes for stride in strides)
    steps = zip((iterations, *blocks), (step, *moves), strict=True)
    return sector_residues(((len(span), move) for span, move in steps), start)


def block_strides(tile: sched.LocalTileOp) -> tuple[int, ...]:
    """How far a tile, of a tile perhaps, moves with each block index, in elements."""
    strides = tile.block_strides()
    owner = tile.source.owner
    if isinstance(owner, sched.LocalTileOp):
        return tuple(a + b for a, b in zip(strides, block_strides(owner), strict=True))
    return strides


def memory_access_costs(kernel: sched.KernelOp) -> list[AccessCost]:
    """The cost of every access of a kernel, in the order of its operators."""
    return [access_cost(access, kernel) for access in thread_accesses(kernel)]
