"""Hazards between blocks: barriers of the grid alone order what they do to device memory.

Which touch one element isl decides, for all blocks of grids of any size.  Blocks of a cluster that
wait for each other count as one here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.te.points import all_hold, grid_of
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.domains import Access, accesses_of, domain_of
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.hazards.followed import FOLLOWED
from mugraph.passes.texpr.analysis.hazards.grid_barriers import GridBarriers
from mugraph.passes.texpr.analysis.hazards.touches import MOST_POINTS, describe
from mugraph.passes.texpr.analysis.pairs import Pairs, pairs_of

_FEW_BLOCKS = 4


@dataclass(frozen=True)
class Grid:
    """What is known of all blocks together."""

    findings: tuple[Finding, ...]
    shared_in_block: frozenset[SSAValue]
    """Buffers in device memory that threads of one block pass elements through."""
    blocks: tuple[int, ...]
    """The blocks to follow: one of each kind that does the same in shared memory, of many kinds
    the first, some in the middle and the last.  Where blocks of a cluster share buffers or wait for
    each other, the clusters."""


ON_CHIP = (te.Space.SHARED, te.Space.CLUSTER)
"""Memory of blocks."""


def blocks_followed(kernel: te.KernelOp) -> int:
    """How many blocks are followed together: those of a cluster, where they share anything."""
    return kernel.cluster_blocks if kernel.shares_in_clusters else 1


def check_grid(kernel: te.KernelOp, without: Operation | None = None) -> Grid:
    """Looks at each buffer in device memory that is written: the first conflict of its blocks.

    ``without`` is a barrier to leave out.
    """
    barriers = GridBarriers(kernel, without)
    accesses = [one for one in accesses_of(kernel) if one.is_in_memory]
    device = [one for one in accesses if one.type.memory_space not in ON_CHIP]
    findings = list(barriers.divergent())
    within: list[SSAValue] = []
    for buffer in dict.fromkeys(one.buffer for one in device if one.writes):
        touching = [one for one in device if one.buffer is buffer]
        pairs = [
            pairs_of(one, other, (one.domain.named("a"), other.domain.named("b")))
            for one, other in combinations_with_replacement(touching, 2)
            if one.conflicts(other)
        ]
        found = next(filter(None, (_across_blocks(barriers, one) for one in pairs)), None)
        findings += [] if found is None else [found]
        if any(_of_block(kernel, one) for one in pairs):
            within.append(buffer)
    followed = [one for one in accesses if one.type.memory_space in ON_CHIP or one.buffer in within]
    together = blocks_followed(kernel)
    blocks = sorted({block // together for block in _different_blocks(kernel, followed)})
    if len(blocks) > _FEW_BLOCKS:
        count = len(blocks)
        blocks = [blocks[number] for number in sorted({0, 1, count // 2, count - 1})]
    return Grid(tuple(findings), frozenset(within), tuple(blocks))


def _different_blocks(kernel: te.KernelOp, accesses: Sequence[Access]) -> Sequence[int]:
    """A block of each kind: those of a kind do the same, as the accesses say.

    Their threads also come to the same barriers and instructions of warps.
    """
    block = kernel.variable
    if any(block in access.indices for access in accesses):
        return range(kernel.iterations)
    together = [
        domain_of(op)
        for op in kernel.walk()
        if isinstance(op, FOLLOWED) or (isinstance(op, te.AsmOp) and op.is_of_warp)
    ]
    conditions = {
        one
        for domain in (*together, *(access.domain for access in accesses))
        for one in domain.conditions
        if block in variables_of(list(one.indices))
    }
    kinds = np.zeros((kernel.iterations, 1), np.bool_)
    for condition in conditions:
        used = variables_of(list(condition.indices))
        loops = [one for one in te.enclosing_loops(condition) if one.variable in used]
        count = math.prod(one.iterations for one in loops)
        if count > MOST_POINTS:
            return range(kernel.iterations)
        # The kernel's loop is the last one around, hence the slowest digit of the points.
        holds = all_hold([condition], grid_of(loops[::-1])[0])
        kinds = np.hstack([kinds, holds.reshape(kernel.iterations, -1)])
    _, firsts = np.unique(kinds, axis=0, return_index=True)
    return sorted(firsts.tolist())


def _across_blocks(barriers: GridBarriers, pairs: Pairs) -> Finding | None:
    """Two accesses to one element in different blocks, with no barrier of the grid between."""
    one, other, kernel = pairs.one, pairs.other, barriers.kernel
    loops = (kernel.variable, kernel.threads.variable)
    names = [name[loop] for name in pairs.names for loop in loops]
    together = blocks_followed(kernel)
    parts = [f"floor({names[place]} / {together})" for place in (0, 2)]
    apart = f"{parts[0]} {'<' if one is other else '!='} {parts[1]}"
    if kernel.is_cooperative:
        names += [name for name in barriers.variables(pairs) if name not in names]
        found = pairs.first(names, apart, but=partial(barriers.ordered, pairs))
        missing = "no barrier of the grid orders them"
    else:
        found = pairs.first(names, apart)
        missing = "nothing orders blocks of one kernel"
    if found is None:
        return None
    (block, thread, block_b, thread_b, *_), element = found
    shape = one.type.get_shape()
    number = int(np.ravel_multi_index(element, shape)) if len(element) > 1 else element[0]
    message = (
        f"{describe(one, number)} in thread {thread} of block {block}; "
        f"{describe(other, number)} in thread {thread_b} of block {block_b}, "
        f"and {missing}"
    )
    return Finding(race_kind(one, other), (other.op, one.op), message, (thread_b, thread), number)


def _of_block(kernel: te.KernelOp, pairs: Pairs) -> bool:
    """Whether two threads of one block, or of a cluster, touch one element."""
    names = [(name[kernel.variable], name[kernel.threads.variable]) for name in pairs.names]
    (block, thread), (block_b, thread_b) = names
    together = blocks_followed(kernel)
    return pairs.exist(
        f"floor({block} / {together}) = floor({block_b} / {together})",
        f"({block} != {block_b} or {thread} != {thread_b})",
    )


def race_kind(first: Access, second: Access) -> HazardKind:
    """What kind of race two unordered accesses are, the first standing before the second."""
    if not second.writes:
        return HazardKind.READ_AFTER_WRITE
    return HazardKind.WRITE_AFTER_WRITE if first.writes else HazardKind.WRITE_AFTER_READ
