"""Cycles of matrix products."""

from __future__ import annotations

import math

from mugraph.dialects.cute.atoms import MmaAtom
from mugraph.passes.costs.memory import shared_cycles
from mugraph.passes.targets import FMA, MMA, WGMMA, Target

INSTRUCTION_CYCLES, LOAD_INSTRUCTIONS = 4, 3
"""Cycles from one instruction of a warp to its next; instructions for each load of a tile."""
SUM_BYTES = 4
"""Sums are fp32, or i32."""
SUM_LATENCY = 150
"""Cycles that a sum over warps takes beside its accesses: a barrier, stores and loads that wait.

No script fits it, nor the instructions above.
"""
FEWEST_CONVERTED_ROWS = 32
"""The rows of which warp groups convert weights of few bits on the way to registers.

With 16 rows they took 23.1 us and single warps 16.3, with 64 rows 30.4 and 36.2: 8192 x 8192
weights of 4 bits in groups of 128, the best of 12 and of 24 plans on an H200.
"""
MOST_SWAPPED_ROWS = 16
"""Of a sliced product by numbers of few bits that single warps compute with swapped operands.

Where a block's warps share the columns of one pair of matrices, 16 each, some idle: 8192 x 8192
weights of 8 bits and a row took 25.4 us on an H200 so, and 20.7 with 8 columns and warps along k.
"""
RUNS_OF_LANES = 64
"""The depth of what lanes read of such a product at once (``sched/run_mappings.py``)."""
GROUP_LATENCY = 128
"""Cycles from the issue of a group of instructions to its last sums, beside their own.

Fitted to ``benchmarks/results/h200_small_m.md``.
"""


def instruction_cycles(atom: MmaAtom, target: Target) -> float:
    """Cycles of a scheduler for an instruction of a warp, or of a single thread."""
    rates = target.macs_a_cycle[FMA if atom.is_scalar else MMA]
    return math.prod(atom.shape_mnk) * target.schedulers_per_multiprocessor / rates[atom.a_type]


def warp_steps_cycles(
    atom: MmaAtom, tiles: tuple[int, int], steps: int, warps: int, target: Target
) -> float:
    """Cycles of ``steps`` steps of a product of which each warp has ``tiles`` along m and n.

    A step takes what bounds it: the warp's own instructions, the tensor core that it shares with
    other warps, or its wait for the sums of the step before.
    """
    products, loads = math.prod(tiles), tiles[0] + math.ceil(tiles[1] / 2)
    alone = INSTRUCTION_CYCLES * (products + LOAD_INSTRUCTIONS * loads)
    in_turn = math.ceil(warps / target.schedulers_per_multiprocessor)
    together = products * instruction_cycles(atom, target) * in_turn
    return steps * max(alone, together, target.mma_latency)


def sum_cycles(parts: int, rows: int, columns: int, target: Target) -> float:
    """Cycles in which the sums of so many warps along k are added through shared memory."""
    return SUM_LATENCY + shared_cycles(2 * parts * rows * columns * SUM_BYTES, target)


def group_latency(groups: int) -> float:
    """Cycles that so many warp groups wait for the sums of a product.

    Half of :data:`GROUP_LATENCY` where others multiply meanwhile; no script fits the half.
    """
    return GROUP_LATENCY if groups == 1 else GROUP_LATENCY / 2


def group_cycles(macs: float, target: Target, element: str) -> float:
    """Cycles of a multiprocessor's tensor cores for products of warp groups (``wgmma``)."""
    return macs / target.macs_a_cycle[WGMMA][element]
