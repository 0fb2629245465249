"""Products of few rows: by the instructions of single warps, or by warp groups that swap operands.

An instruction of a warp group multiplies 64 rows.  A product with fewer can still be its work: that
of the transposed matrices, whose 64 rows are columns of the right matrix and whose columns are the
few rows, 8 or more.  Both ways are estimated in cycles, and the estimate chooses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mugraph.dialects.cute.atoms import WarpgroupForm
from mugraph.dialects.programming_model import GROUP_COLUMNS, GROUP_ROWS, GROUP_THREADS, WARPGROUP
from mugraph.passes.costs.memory import TURN_NS, arrival_cycles, shared_cycles
from mugraph.passes.costs.overlap import IN_AN_ITERATION, side_by_side
from mugraph.passes.costs.products import GROUP_LATENCY, group_cycles, sum_cycles
from mugraph.passes.costs.warp_layouts import WarpLayout, product_cost
from mugraph.passes.schedule.analysis.remarks import Obstacle
from mugraph.passes.schedule.lower_threadblock.warpgroups import (
    group_obstacle,
    require_family,
)
from mugraph.passes.targets import Target

SINGLE_WARPS = 0.7
"""The part of :func:`product_cost` that single warps take beside everything else.

Fitted to ``benchmarks/results/h200_small_m.md``.
"""
WORTH_A_SWAP = 0.99
"""Swapped operands must take so little of the cycles of single warps: else both are equal."""


@dataclass(frozen=True)
class SmallProduct:
    """A product of ``rows`` x ``depth`` and ``depth`` x ``columns`` by a block, in each iteration.

    ``types`` are the names of the operands' types; ``tile_bytes`` are what an iteration of its loop
    loads into one of ``stages`` stages, in each of ``blocks`` blocks; ``sums_once``: whether what
    warps along k have is added only behind the loop.
    """

    rows: int
    columns: int
    depth: int
    types: tuple[str, str]
    element_bytes: int
    threads: int
    iterations: int
    tile_bytes: int
    stages: int
    blocks: int
    sums_once: bool = True


@dataclass(frozen=True)
class WayCost:
    """What a kernel spends on a product in one way: counts, and an estimate in cycles made of them.

    ``read_bytes`` of shared memory and ``instructions`` of all warps are those of an iteration,
    ``cycles`` of the loop and of what follows it until the sums can be read.
    """

    read_bytes: int
    instructions: int
    warps: int
    cycles: float


def is_small(rows: int) -> bool:
    """Whether warp groups would need no more rows, or others than whole ones, without a swap."""
    return rows <= GROUP_ROWS or rows % GROUP_ROWS > 0


def swap_obstacle(
    rows: int, columns: int, depth: int, types: tuple[str, str], threads: int
) -> Obstacle | None:
    """Why warp groups cannot compute a product with swapped operands; ``None`` where they can."""
    obstacle = group_obstacle(depth, types, threads)
    if obstacle is not None:
        return obstacle
    if rows % GROUP_COLUMNS:
        return Obstacle(
            f"{rows} rows are no multiple of {GROUP_COLUMNS}",
            f"cut tiles of a multiple of {GROUP_COLUMNS} rows",
            0,
        )
    if columns % GROUP_ROWS:
        return Obstacle(
            f"{columns} columns are no multiple of {GROUP_ROWS}",
            f"cut tiles of a multiple of {GROUP_ROWS} columns",
            1,
        )
    return None


def swapped_layout(product: SmallProduct) -> WarpLayout:
    """How warp groups share a product with swapped operands; it has no :func:`swap_obstacle`.

    As many groups as there are take 64 columns each, and further ones in turn.
    """
    tiles, groups = product.columns // GROUP_ROWS, product.threads // GROUP_THREADS
    along_n = max(count for count in range(1, groups + 1) if tiles % count == 0)
    family = require_family(product.types)
    length = family.longest(product.rows)
    assert length is not None  # a multiple of 8
    return WarpLayout(family.atom(length, WarpgroupForm.SWAPPED), 1, along_n)


def way_cost(product: SmallProduct, layout: WarpLayout, target: Target) -> WayCost:
    """What a product costs a kernel by single warps, or by warp groups with swapped operands.

    An iteration takes a little more than the longest of three: its instructions; its tile's bytes,
    at the rate of device memory or of one multiprocessor; and the turn of a stage, filled and in
    use, shared by all stages.  Single warps release a stage behind the next one's arrival, as loads
    of threads may be overtaken; warp groups at once.  Behind the last tile come its product, and
    the way of the sums through shared memory, of which warps along k have one each.
    """
    if layout.atom.swaps_operands:
        tiles_m, tiles_n = layout.tiles(product.rows, product.columns)
        instructions = layout.n * tiles_m * tiles_n * layout.steps(product.depth)
        atom_m, atom_n, atom_k = layout.atom.shape_mnk
        read_bytes = instructions * (atom_m + atom_n) * atom_k * product.element_bytes
        macs = instructions * atom_m * atom_n * atom_k
        multiplied = group_cycles(macs, target, product.types[0])
        product_cycles = max(multiplied, shared_cycles(read_bytes, target)) + GROUP_LATENCY
        warps = layout.n * WARPGROUP
    else:
        extents = product.rows, product.columns, product.depth
        found = product_cost(layout, *extents, product.element_bytes, target, sums=0.0)
        warps = layout.m * layout.n * layout.k
        instructions = found.sequence * warps
        read_bytes = found.volume * product.element_bytes
        product_cycles = SINGLE_WARPS * found.cycles
    total = sum_cycles(layout.k, product.rows, product.columns, target)
    each, behind = (product_cycles, total) if product.sums_once else (product_cycles + total, 0.0)
    arrival = arrival_cycles(product.tile_bytes, product.blocks, target)
    kept = each if layout.atom.swaps_operands else each + arrival
    turn = TURN_NS * target.clock_ghz + arrival + kept
    loop = side_by_side(each, arrival, turn / product.stages, power=IN_AN_ITERATION)
    later = max(product.iterations - 1, 0)
    cycles = later * loop + each + behind
    return WayCost(read_bytes, instructions, warps, cycles)


def choose_small_layout(
    product: SmallProduct, by_warps: WarpLayout, target: Target, swap: bool | None = None
) -> WarpLayout:
    """The arrangement of a product of few rows, which has no :func:`swap_obstacle`.

    ``swap`` is what a plan says; ``None`` leaves it to the estimate, and to single warps where both
    are equal.  What is used in each iteration, as the scores of attention, stays with single warps
    unless a swap is asked for: nothing runs beside it then, and no quad of lanes has a row.
    """
    swapped = swapped_layout(product)
    if swap is None and not product.sums_once:
        return by_warps
    if swap is None:
        costs = [way_cost(product, layout, target).cycles for layout in (by_warps, swapped)]
        return swapped if costs[1] < WORTH_A_SWAP * costs[0] else by_warps
    return swapped if swap else by_warps


def describe(cost: WayCost) -> str:
    """The counts and the estimate, in words."""
    return (
        f"{math.ceil(cost.cycles)} cycles ({cost.warps} warps, {cost.instructions} instructions "
        f"and {cost.read_bytes} bytes of shared memory an iteration)"
    )
