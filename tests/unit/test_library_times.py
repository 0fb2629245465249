"""What products by cuBLAS are estimated to take."""

from __future__ import annotations

import pytest

import mugraph.build as mi
from mugraph.dialects.kn import MatmulOp
from mugraph.passes.program.fuse_kernels.times import is_slow_in_library, library_time
from mugraph.passes.targets import target_named


def product(m: int, n: int, k: int) -> MatmulOp:
    """A product of two matrices, before any pass."""
    graph = mi.new_kernel_graph("product")
    x, w = (graph.new_input(shape, dtype=mi.bfloat16) for shape in ((m, k), (k, n)))
    graph.mark_output(x @ w)
    return next(op for op in graph.module().walk() if isinstance(op, MatmulOp))


@pytest.mark.parametrize(
    ("shape", "measured"),
    [((70, 1024, 3072), 6.7), ((256, 4096, 4096), 14.7), ((2265, 10240, 8192), 490)],
)
def test_products_of_all_sizes_are_known(shape: tuple[int, int, int], measured: float) -> None:
    estimated = library_time(product(*shape), target_named("h200")) / 1000
    assert measured / 1.2 <= estimated <= measured * 1.2


def test_rows_of_odd_bytes_take_several_times_as_long() -> None:
    target = target_named("h200")
    even, eights, odd = (library_time(product(512, 4096, k), target) for k in (4096, 4100, 4097))
    assert 2.5 * even < eights < 4 * even
    assert 4.5 * even < odd < 7 * even
    assert is_slow_in_library(product(512, 4100, 4096))
    assert not is_slow_in_library(product(511, 4096, 4096))
