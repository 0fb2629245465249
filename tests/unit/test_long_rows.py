"""Rows that threads hold, and longer ones in parts: what kernels they become, and that these
compute the same."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from row_programs import layer_norm, softmax
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from benchmarks.programs.search import launches_of
from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.program.fuse_kernels.long_rows import count_of_parts
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

Array = npt.NDArray[np.float64]


def planned(module: ModuleOp, upto: str = "retile") -> list[CustomizedOp]:
    """The kernels of a program, cut as is best on an H200."""
    steps = compile_pipeline("sm_90a")
    last = [step.name for step in steps].index(upto)
    PassPipeline(steps[: last + 1]).apply(make_context(), module)
    return custom_kernels(only_function(module))


@pytest.mark.parametrize("columns", [13361, 51866, 1122, 28122][: inputs(2, 4)])
def test_a_row_that_threads_hold_is_read_once(columns: int) -> None:
    """Whatever its vectors are: those of a row alone need not divide the threads evenly."""
    (kernel,) = planned(softmax(1024, columns))
    assert kernel.forloop_range == 1
    loaded = next(op for op in kernel.walk() if isinstance(op, tb.InputOp))
    rows, length = shape_of(loaded.result.type)
    assert rows * math.prod(kernel.grid_dim) == 1024
    assert length >= columns


def test_threads_share_padded_rows_where_they_share_no_others_evenly() -> None:
    module = softmax(1024, 367)
    (kernel,) = planned(module)
    assert math.prod(kernel.grid_dim) <= 1024 / 2
    loaded = next(op for op in kernel.walk() if isinstance(op, tb.InputOp))
    assert shape_of(loaded.result.type) == (1024 // kernel.grid_dim[0], 384)
    x = np.random.default_rng(7).standard_normal((1024, 367)).astype(np.float16)
    ours = run_function(module, None, [x])[0].astype(np.float64)
    powers = np.exp(x.astype(np.float64))
    expected = powers / powers.sum(axis=1, keepdims=True)
    assert np.abs(ours - expected).max() <= 2e-3 * expected.max()


def test_blocks_of_several_rows_leave_room_for_others() -> None:
    """Four rows of 512 threads, of which three blocks fit, took 8.1 us on an H200, and two 6.1."""
    (kernel,) = planned(layer_norm(2048, 2048))
    assert math.prod(kernel.grid_dim) >= 1024


def test_parts_are_equal_and_whole_vectors_where_there_are_such() -> None:
    assert count_of_parts(509, 152064) == 16
    assert count_of_parts(2, 32000) == 25
    assert count_of_parts(700, 50257) == 29
    assert count_of_parts(1000, 51866) == 2
    assert count_of_parts(8, 50261) is None  # a prime
    assert count_of_parts(396, 54608) == 2  # of 27,304: in shorter ones vectors start anywhere
    assert count_of_parts(4, 54608) == 16  # enough blocks rather than whole vectors


@pytest.mark.parametrize("columns", [65536, 67730])
def test_a_long_row_is_read_for_all_sums_and_for_the_result(columns: int) -> None:
    module = softmax(3, columns)
    kernels = planned(module)
    assert len(kernels) == 2
    x = np.random.default_rng(5).standard_normal((3, columns)) * 4
    x[1, : columns // 2] = -np.inf  # whole parts, of which no number is the largest
    x[2] += 500
    ours = run_function(module, None, [x.astype(np.float16)])[0].astype(np.float64)
    x = x.astype(np.float16).astype(np.float64)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    assert np.abs(ours - expected).max() <= 2e-3 * expected.max()


def test_a_variance_of_parts_stays_centred() -> None:
    module = layer_norm(2, 65536)
    assert len(planned(module)) == 2
    random = np.random.default_rng(6)
    x, w, b = (
        random.standard_normal(shape).astype(np.float16) for shape in ((2, 65536), 65536, 65536)
    )
    x[1] += np.float16(300)  # a mean of squares less a squared mean would have no digit left
    ours = run_function(module, None, [x, w, b])[0].astype(np.float64)
    wide = x.astype(np.float64)
    apart = wide - wide.mean(axis=1, keepdims=True)
    expected = apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + 1e-5) * w + b
    assert np.abs(ours - expected).max() <= 2e-3 * np.abs(expected).max()


@pytest.mark.parametrize("rows", [1, 8])
def test_what_rows_are_compared_with_is_looked_up_in_place(rows: int) -> None:
    """One kernel reduces parts of rows, and one joins them and reads the score of a label."""
    graph = mi.new_kernel_graph("loss")
    x = graph.new_input((rows, 128256), dtype=mi.float16)
    places = graph.new_input((rows,), dtype=mi.int32)
    graph.mark_output(mi.log_sum_exp(x) - mi.gather(mi.reshape(x, (-1, 1)), places))
    module = graph.module()
    planned(module, "fuse-kernels")
    launches = launches_of(only_function(module))
    assert launches == len(custom_kernels(only_function(module))) == 2


def test_loops_over_uneven_rows_have_long_tiles() -> None:
    """Of 122,582 columns tiles of 224 took 193 us on an H200."""
    kernels = planned(layer_norm(256, 122582))
    lengths = [
        shape_of(op.result.type)[-1]
        for kernel in kernels
        for op in kernel.walk()
        if isinstance(op, tb.InputOp) and op.tensor_shape[-1] == 122582
    ]
    assert min(lengths) >= 1024
