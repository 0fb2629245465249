"""What long rows cost warps that read tiles of bulk copies."""

from __future__ import annotations

import pytest

from mugraph.passes.costs.kernels import KernelShape, estimate
from mugraph.passes.costs.memory import BOX_WAVEFRONTS, row_cycles
from mugraph.passes.costs.work import Load, PhaseWork, Product
from mugraph.passes.targets import target_named

H200 = target_named("h200")


@pytest.mark.parametrize(
    ("rows", "row_bytes", "cycles"),
    [
        (32, 128, 0.0),  # a swizzle takes the whole row
        (1, 512, 0.0),  # nothing else is in its banks
        (2, 512, 2 * 4),  # two rows in the same banks, less than three more boxes
        (64, 256, float(BOX_WAVEFRONTS)),  # a second box
    ],
)
def test_a_long_row_is_boxes_or_in_the_same_banks(rows: int, row_bytes: int, cycles: float) -> None:
    assert row_cycles(rows * row_bytes, row_bytes) == cycles


def of_weights(columns: int, depth: int, *, threads: int = 256) -> KernelShape:
    """One row by 8192 x 2048 weights of 2 bytes, in tiles of so many columns and rows."""
    iterations = 8192 // depth
    product = Product(columns // 8 * (depth // 16), depth // 16)
    load = Load(2 * columns * depth, 2 * 8192 * 2048, looped=True, row_bytes=2 * depth)
    work = PhaseWork((product,), 0, sums=columns)
    after = PhaseWork((), columns)
    return KernelShape(2048 // columns, threads, iterations, (load,), work, after, 2 * columns, 0)


def test_threads_load_long_rows_where_bulk_copies_would_leave_them_in_the_same_banks() -> None:
    assert not of_weights(16, 256).prefers_bulk(H200)
    assert of_weights(16, 64).prefers_bulk(H200)


def test_short_rows_are_estimated_to_take_no_longer() -> None:
    """The rows of a tile are read in each iteration, by whichever copies bring them."""
    shape = of_weights(16, 256)
    (load,) = shape.loads
    short = shape._replace(loads=(load._replace(row_bytes=128),))
    long_time, short_time = estimate(shape, H200), estimate(short, H200)
    assert long_time is not None and short_time is not None
    assert short_time <= long_time
