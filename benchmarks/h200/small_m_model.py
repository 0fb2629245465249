"""How well the estimate of products of few rows agrees with what was measured.

    python -m benchmarks.h200.small_m_model benchmarks/results/h200_small_m.json

The file is what ``python -m benchmarks.h200 small-m`` wrote.  Each product of a norm's rows is
estimated in both ways.  An estimate is of the loop, in cycles; what it leaves out, launch and ends,
is the same for both, so that differences are compared: those of the ways, in microseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.h200 import records
from benchmarks.h200.experiments import (
    COLUMNS,
    DEPTH,
    ITERATIONS,
    ROWS,
    TILES,
    WAYS,
    case_name,
    time_of,
)
from benchmarks.h200.pipelines import TRY
from benchmarks.pages import table
from mugraph.passes.costs.warp_layouts import choose_atom, choose_warp_layout
from mugraph.passes.schedule.lower_threadblock.small_products import (
    SmallProduct,
    swapped_layout,
    way_cost,
)
from mugraph.passes.schedule.pipeline_loads.stages import Ring, choose_ring_stages
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named


@dataclass(frozen=True)
class Row:
    """Microseconds of one product by warps and by warp groups: measured and estimated."""

    name: str
    measured: tuple[float, float]
    estimated: tuple[float, float]

    @property
    def is_right(self) -> bool:
        """Whether the estimate says which way is faster."""
        (warps, groups), (by_warps, by_groups) = self.measured, self.estimated
        return (warps < groups) == (by_warps < by_groups)

    @property
    def error(self) -> float:
        """Of the difference of both ways, in microseconds."""
        (warps, groups), (by_warps, by_groups) = self.measured, self.estimated
        return (by_groups - by_warps) - (groups - warps)


def estimate(rows: int, blocks: int, threads: int, target: Target) -> tuple[float, float]:
    """Microseconds of the loop by warps, and by warp groups with swapped operands."""
    columns, depth = COLUMNS // blocks, DEPTH // ITERATIONS
    tile_bytes = 2 * depth * (rows + columns)
    (stages,) = choose_ring_stages((Ring(tile_bytes),), 1, ITERATIONS, target)
    product = SmallProduct(
        rows, columns, depth, ("f16", "f16"), 2, threads, ITERATIONS, tile_bytes, stages, blocks
    )
    atom = choose_atom(("f16", "f16"), threads, target, ieee=False)
    by_warps = choose_warp_layout(
        rows, columns, depth, atom, threads, target, iterations=ITERATIONS
    )
    warps, groups = (
        way_cost(product, layout, target).cycles / target.clock_ghz / 1000
        for layout in (by_warps, swapped_layout(product))
    )
    return warps, groups


def rows_of(results: records.Records, target: Target) -> Iterator[Row]:
    """Each product that was measured in both ways, of fewer rows than an instruction has."""
    for rows in ROWS[:-1]:
        for blocks, threads in TILES:
            record = results[case_name(f"rms_{rows}", f"grid={blocks} block={threads}")]
            warps, groups = (time_of(record, TRY + way) for way in WAYS)
            if warps is not None and groups is not None:
                name = f"{rows} rows, {blocks} blocks of {threads} threads"
                yield Row(name, (warps, groups), estimate(rows, blocks, threads, target))


def main() -> int:
    """Prints the table."""
    rows = list(rows_of(records.read(Path(sys.argv[1])), target_named(DEFAULT_TARGET)))
    columns = ("warps: µs", "groups: µs", "estimated", "estimated", "error of difference")
    cells = [[*row.measured, *row.estimated] for row in rows]
    lines = [
        [row.name, *(f"{time:.2f}" for time in times), f"{row.error:+.2f}"]
        for row, times in zip(rows, cells, strict=True)
    ]
    print("\n".join(table(("product", *(f"{column}:" for column in columns)), lines)))
    mean = (sum(row.error**2 for row in rows) / len(rows)) ** 0.5
    right = sum(row.is_right for row in rows)
    print(f"\n{right} of {len(rows)} the right way; the difference is wrong by {mean:.2f} µs.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
