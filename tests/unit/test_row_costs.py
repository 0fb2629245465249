"""What long rows cost warps that read tiles of bulk copies."""

from __future__ import annotations

import pytest

import mugraph.build as mi
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.costs.memory import BOX_WAVEFRONTS, row_cycles
from mugraph.passes.costs.work import Load, Loads, PhaseWork, Product
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

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
    return KernelShape(
        2048 // columns, threads, iterations, Loads((load,)), work, after, 2 * columns, 0
    )


def test_threads_load_long_rows_where_bulk_copies_would_leave_them_in_the_same_banks() -> None:
    assert not of_weights(16, 256).prefers_bulk(H200)
    assert of_weights(16, 64).prefers_bulk(H200)


def test_short_rows_are_estimated_to_take_no_longer() -> None:
    """The rows of a tile are read in each iteration, by whichever copies bring them."""
    shape = of_weights(16, 256)
    (load,) = shape.loads
    short = shape._replace(loads=Loads((load._replace(row_bytes=128),)))
    long_time, short_time = estimate(shape, H200), estimate(short, H200)
    assert long_time is not None and short_time is not None
    assert short_time <= long_time


@pytest.mark.parametrize(("columns", "parts"), [(768, 96), (1280, 160)])
def test_blocks_are_whole_rows_where_that_is_no_power_of_two(columns: int, parts: int) -> None:
    """A thread loads eight elements; rows that 256 threads share are longer or padded."""
    graph = mi.new_kernel_graph("norms")
    x = graph.new_input((4096, columns))
    graph.mark_output(mi.rms_norm(x, graph.new_input((columns,)), eps=1e-5))
    module = graph.module()
    for step in compile_pipeline("sm_90a"):
        step.apply(make_context(), module)
        if step.name == "plan":
            break
    (kernel,) = custom_kernels(module)
    block = kernel.decided.block or kernel.block_dim
    assert block[0] % parts == 0 and kernel.decided.tile is None
