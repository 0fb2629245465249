"""What rows cost: those that warps read of bulk copies, and those that threads hold."""

from __future__ import annotations

import pytest
from xdsl.ir import Attribute

import mugraph.build as mi
from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.memory import BOX_WAVEFRONTS, row_cycles
from mugraph.passes.costs.work import Held, PhaseWork, Product
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


def of_weights(columns: int, depth: int, *, threads: int = 256, rows: int = 1) -> KernelShape:
    """Rows by 8192 x 2048 weights of 2 bytes, in tiles of so many columns and rows."""
    iterations = 8192 // depth
    instructions = columns // 8 * (depth // 16)
    product = Product(instructions, depth // 16, sizes=(rows, columns, depth))
    load = Load(2 * columns * depth, 2 * 8192 * 2048, looped=True, row_bytes=2 * depth)
    work = PhaseWork((product,), 0, sums=columns)
    after = PhaseWork((), columns)
    return KernelShape(
        2048 // columns, threads, iterations, Loads((load,)), work, after, 2 * columns, 0
    )


def test_threads_load_long_rows_where_bulk_copies_would_leave_them_in_the_same_banks() -> None:
    assert not of_weights(16, 256, rows=32).prefers_bulk(H200)
    assert of_weights(16, 64, rows=32).prefers_bulk(H200)
    assert not of_weights(16, 64, rows=1).prefers_bulk(H200)


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
    kernel = planned_norm(4096, columns, mi.float16)
    block = kernel.decided.block or kernel.block_dim
    whole = block[0] % parts == 0 or parts % block[0] == 0
    assert whole and kernel.decided.tile is None


def planned_norm(rows: int, columns: int, dtype: Attribute) -> CustomizedOp:
    """The kernel of an RMS norm with weights, and its plan."""
    graph = mi.new_kernel_graph("norms")
    x = graph.new_input((rows, columns), dtype=dtype)
    graph.mark_output(mi.rms_norm(x, graph.new_input((columns,), dtype=dtype), eps=1e-5))
    module = graph.module()
    for step in compile_pipeline("sm_90a"):
        step.apply(make_context(), module)
        if step.name == "plan":
            break
    (kernel,) = custom_kernels(module)
    return kernel


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "threads"),
    [
        (8192, 256, mi.float16, 32),  # 3.34 us on an H200, and 3.73 in blocks of 512 threads
        (10000, 200, mi.float32, 32),  # 5.06, and 6.05 in blocks of 256
        (2000, 5003, mi.float16, 128),  # 14.2, and 14.6 in blocks of 256
    ],
)
def test_warps_have_short_rows_to_themselves(
    rows: int, columns: int, dtype: Attribute, threads: int
) -> None:
    kernel = planned_norm(rows, columns, dtype)
    assert (kernel.decided.block or kernel.block_dim)[0] == threads


@pytest.mark.parametrize(("rows", "columns", "threads"), [(68, 1280, 160), (1, 2048, 256)])
def test_lone_rows_have_no_more_threads_than_vectors(rows: int, columns: int, threads: int) -> None:
    """More lanes hide what each waits for, as long as they have something to compute."""
    kernel = planned_norm(rows, columns, mi.bfloat16)
    assert (kernel.decided.block or kernel.block_dim)[0] == threads


def test_what_all_blocks_load_is_in_the_cache_of_a_multiprocessor() -> None:
    """Weights of all blocks take less than as many bytes of which each block has its own."""

    def time(of_each: int) -> float:
        loads = Loads((Load(1024, 2**22, False), Load(1024, 1024 * of_each, False)))
        work, nothing = PhaseWork((), 64, rows=((1, 512),)), PhaseWork((), 0)
        shape = KernelShape(4096, 32, 1, loads, work, nothing, 1024, 0, held=Held(4096, 0, 512))
        found = estimate(shape, H200)
        assert found is not None
        return found

    assert time(1) < time(2) < time(4096)
    assert time(2) - time(1) > 10 * (time(3) - time(2))
