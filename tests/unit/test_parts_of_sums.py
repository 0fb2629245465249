"""Sums so far of few long runs: what they take as they are written, and in parts."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.passes.costs.scans import ScanShape, later_rounds_ns
from mugraph.passes.program.fuse_kernels.choice import find_kernels
from mugraph.passes.program.fuse_kernels.parts_of_sums import divide_sums
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

H200 = target_named("h200")


def sums(shape: tuple[int, ...], dim: int, *, exclusive: bool = False) -> FuncOp:
    graph = mi.new_kernel_graph("sums")
    x = graph.new_input(shape, dtype=mi.float32)
    graph.mark_output(mi.scan(x, dim=dim, exclusive=exclusive))
    return only_function(graph.module())


def scans(function: FuncOp) -> int:
    return sum(isinstance(op, kn.ScanOp) for op in function.walk())


@pytest.mark.parametrize(
    ("shape", "dim", "exclusive"), [((4096, 16), 0, False), ((2, 16384), 1, True)]
)
def test_parts_are_the_scan(shape: tuple[int, ...], dim: int, exclusive: bool) -> None:
    function = sums(shape, dim, exclusive=exclusive)
    assert divide_sums(function, H200)
    assert scans(function) == 2
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float32)
    (found,) = run_function(module, None, [x], "float64")
    np.testing.assert_array_equal(found, x.cumsum(dim) - (x if exclusive else 0))


@pytest.mark.parametrize(
    ("shape", "dim", "count"),
    [
        # As measured on an H200 (benchmarks/results/recurrences_h200.md).
        ((65536, 16), 0, 2),
        ((4, 1 << 20), 1, 2),
        ((1, 65536), 1, 1),
        ((65536, 1024), 0, 1),
        ((8, 16384, 16), 1, 1),
    ],
)
def test_what_blocks_would_read_again_decides(shape: tuple[int, ...], dim: int, count: int) -> None:
    function = sums(shape, dim)
    find_kernels(function, H200)
    assert scans(function) == count


def test_a_shared_run_is_estimated_by_what_its_last_block_reads() -> None:
    """Measured were 51 to 54 us, 43 and 8.7 in all, and 2 where no run is shared."""
    rows, long, few, short = (
        later_rounds_ns(ScanShape(*shape), H200) / 1000
        for shape in (
            (16, 65536, 4, False),
            (4, 1 << 20, 4, True),
            (16, 65536, 4, True),
            (1024, 64, 4, True),
        )
    )
    assert 45 < rows < 56 and 35 < long < 44 and 2 < few < 8 and short == 0
