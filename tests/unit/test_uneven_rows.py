"""Rows that start at no multiples of 16 bytes: what is known of them, and what they cost."""

from __future__ import annotations

import pytest
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.alignment import row_alignment
from mugraph.dialects.kn import CopyOp, MatmulOp
from mugraph.dialects.tensor_types import without_layout
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import estimate, stages_of
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import PhaseWork, Product
from mugraph.passes.program.fuse_kernels.times import library_time
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

H200 = target_named("h200")


@pytest.mark.parametrize(
    ("shape", "strides", "alignment"),
    [
        ((8, 1024), (1024, 1), 16),
        ((8, 1012), (1012, 1), 8),
        ((8, 1009), (1009, 1), 2),
        ((8, 1009), (1016, 1), 16),  # padded
        ((1009, 8), (1, 1009), 2),  # columns are what is contiguous
        ((1, 1009), (1009, 1), 16),  # one row, which starts where the tensor does
        ((3, 8, 1001), (8008, 1001, 1), 2),
    ],
)
def test_where_rows_start(shape: tuple[int, ...], strides: tuple[int, ...], alignment: int) -> None:
    graph = mi.new_kernel_graph("rows")
    x = graph.new_input(shape, strides=strides)
    graph.mark_output(mi.relu(x))
    value = next(op for op in graph.module().walk() if op.name == "kn.relu").operands[0]
    assert row_alignment(value) == alignment
    copy = CopyOp(value, without_layout(value.type))
    assert row_alignment(copy.result) == 16  # --resolve-layout pads it
    copy.erase()


def kernel(alignment: int) -> KernelShape:
    """128 rows by 4096 x 8192 weights, whose rows start at multiples of so many bytes."""
    loads = (
        Load(128 * 64 * 2, 128 * 4096 * 2, looped=True),
        Load(64 * 64 * 2, 4096 * 8192 * 2, looped=True, alignment=alignment),
    )
    groups = 128 if alignment == 16 else 0
    product = Product(8 * 8 * 4, 4, group_rows=groups)
    work = PhaseWork((product,), 0, sums=128 * 64)
    return KernelShape(128, 128, 64, Loads(loads), work, PhaseWork((), 128 * 64), 128 * 64 * 2, 0)


def test_the_less_rows_are_aligned_the_longer_a_kernel_takes() -> None:
    times = [estimate(kernel(alignment), H200) for alignment in (16, 8, 4, 2)]
    assert None not in times
    assert times == sorted(times, key=lambda time: time or 0.0)
    assert kernel(16).prefers_bulk(H200) and not kernel(8).prefers_bulk(H200)


def test_threads_that_wait_for_what_they_load_keep_few_stages() -> None:
    assert (stages_of(kernel(2), H200) or 0) < (stages_of(kernel(4), H200) or 0)


def test_threads_that_load_large_tiles_wait_several_times() -> None:
    """Each thread has four vectors of 16 bytes under way, and then waits for them."""
    loading = kernel(2).loading
    assert (loading.waits(128), loading.waits(64)) == (1, 2)
    assert kernel(4).loading.waits(64) == 0  # cp.async brings them
    times = [estimate(kernel(2)._replace(threads=threads), H200) for threads in (128, 64)]
    assert None not in times and (times[0] or 0.0) < (times[1] or 0.0)


@pytest.mark.parametrize(("rows", "copied"), [(226, True), (90, False)])
def test_weights_are_padded_where_that_saves_enough(rows: int, copied: bool) -> None:
    """A large weight is worth a copy at each call, though the kernel without takes 20 % longer."""
    columns = 50257 if copied else 1009
    graph = mi.new_kernel_graph("product")
    x, w = graph.new_input((rows, 3584)), graph.new_input((3584, columns))
    graph.mark_output(mi.relu(x @ w))
    module = graph.module()
    steps = compile_pipeline("sm_90a")
    last = [step.name for step in steps].index("pad-rows")
    PassPipeline(steps[: last + 1]).apply(make_context(), module)
    copies = [op for op in module.walk() if isinstance(op, CopyOp)]
    assert len(copies) == copied


def test_cublas_reads_uneven_weights_of_one_row_at_the_rate_of_memory() -> None:
    graph = mi.new_kernel_graph("product")
    x, w = graph.new_input((1, 1001)), graph.new_input((1001, 50257))
    graph.mark_output(x @ w)
    product = next(op for op in graph.module().walk() if isinstance(op, MatmulOp))
    assert 33.5 / 1.2 <= library_time(product, H200) / 1000 <= 33.5 * 1.2
