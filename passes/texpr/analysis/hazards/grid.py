"""Hazards between blocks: nothing orders what two blocks of a kernel do to device memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects.te import KernelOp, Space, enclosing_loops
from mugraph.dialects.te.points import all_hold, grid_of
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.domains import Access, accesses_of
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.hazards.pairs import conflicts
from mugraph.passes.texpr.analysis.hazards.touches import (
    MOST_POINTS,
    TooManyError,
    class_of,
    describe,
    rows_of,
)

_FEW_BLOCKS = 4


@dataclass(frozen=True)
class Grid:
    """What is known of all blocks together."""

    findings: tuple[Finding, ...]
    shared_in_block: frozenset[SSAValue]
    """Buffers in device memory that threads of one block pass elements through."""
    blocks: tuple[int, ...]
    """The blocks to follow: one of each kind that does the same in shared memory, of many kinds
    the first, some in the middle and the last."""


def is_in_memory(access: Access) -> bool:
    """Whether other threads see what an access touches."""
    return access.type.memory_space is not Space.REGISTER


def check_grid(kernel: KernelOp) -> Grid:
    """Lists what threads of all blocks touch of each buffer in device memory that is written."""
    accesses = [one for one in accesses_of(kernel) if is_in_memory(one)]
    device = [one for one in accesses if one.type.memory_space is not Space.SHARED]
    findings: list[Finding] = []
    within: list[SSAValue] = []
    for buffer in dict.fromkeys(one.buffer for one in device if one.writes):
        touching = [one for one in device if one.buffer is buffer]
        try:
            finding, passes_on = _check_buffer(kernel, touching)
        except TooManyError:
            name = source_name(buffer)
            message = (
                f"the accesses to {name} of all blocks are too many to be listed; check the "
                "program at smaller sizes"
            )
            findings.append(Finding(HazardKind.NOT_CHECKED, (touching[0].op,), message))
            continue
        if finding is not None:
            findings.append(finding)
        if passes_on:
            within.append(buffer)
    followed = [
        one for one in accesses if one.type.memory_space is Space.SHARED or one.buffer in within
    ]
    blocks = _different_blocks(kernel, followed)
    if len(blocks) > _FEW_BLOCKS:
        count = len(blocks)
        blocks = [blocks[number] for number in sorted({0, 1, count // 2, count - 1})]
    return Grid(tuple(findings), frozenset(within), tuple(blocks))


def _different_blocks(kernel: KernelOp, accesses: Sequence[Access]) -> Sequence[int]:
    """A block of each kind: those of a kind do the same, as the accesses say."""
    block = kernel.variable
    if any(block in access.indices for access in accesses):
        return range(kernel.iterations)
    conditions = {
        one
        for access in accesses
        for one in access.domain.conditions
        if block in variables_of(list(one.indices))
    }
    kinds = np.zeros((kernel.iterations, 1), np.bool_)
    for condition in conditions:
        used = variables_of(list(condition.indices))
        loops = [one for one in enclosing_loops(condition) if one.variable in used]
        count = math.prod(one.iterations for one in loops)
        if count > MOST_POINTS:
            return range(kernel.iterations)
        # The kernel's loop is the last one around, hence the slowest digit of the points.
        holds = all_hold([condition], grid_of(loops[::-1])[0])
        kinds = np.hstack([kinds, holds.reshape(kernel.iterations, -1)])
    _, firsts = np.unique(kinds, axis=0, return_index=True)
    return sorted(firsts.tolist())


def _check_buffer(kernel: KernelOp, accesses: list[Access]) -> tuple[Finding | None, bool]:
    """A conflict between blocks, and whether threads of one block share an element."""
    if not any(one.conflicts(other) for one in accesses for other in accesses):
        return None, False
    thread, block = kernel.threads.variable, kernel.variable
    rows = [rows_of(one, (thread, block), {}) for one in accesses]
    if sum(len(one.numbers) for one in rows) > 2 * len(rows) * (1 << 24):
        raise TooManyError
    numbers = np.concatenate([one.numbers for one in rows])
    if not len(numbers) or np.bincount(numbers).max() == 1:
        return None, False
    blocks = np.concatenate([one.values[block] for one in rows])
    threads = np.concatenate([one.values[thread] for one in rows])
    classes = np.repeat([class_of(one) for one in accesses], [len(one.numbers) for one in rows])
    which = np.repeat(np.arange(len(accesses)), [len(one.numbers) for one in rows])
    across = conflicts(numbers, blocks, classes)
    finding: Finding | None = None
    if across:
        first, second = across[0]
        one, other = accesses[int(which[first])], accesses[int(which[second])]
        number = int(numbers[first])
        message = (
            f"{describe(one, number)} in thread {threads[first]} of block {blocks[first]}; "
            f"{describe(other, number)} in thread {threads[second]} of block {blocks[second]}, "
            "and nothing orders blocks of one kernel"
        )
        kind = race_kind(one, other)
        pair = (int(threads[second]), int(threads[first]))
        finding = Finding(kind, (other.op, one.op), message, pair, number)
    agents = blocks * kernel.threads.iterations + threads
    return finding, bool(conflicts(numbers, agents, classes))


def race_kind(first: Access, second: Access) -> HazardKind:
    """What kind of race two unordered accesses are, the first standing before the second."""
    if not second.writes:
        return HazardKind.READ_AFTER_WRITE
    return HazardKind.WRITE_AFTER_WRITE if first.writes else HazardKind.WRITE_AFTER_READ
