"""The Python builder: what it builds, and what it says at the line that made a mistake."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

import mugraph.build as mi
from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.runtime.interpreter import run_function
from mugraph.tools.modules import make_context


def rmsnorm_linear(rows: int = 4, inner: int = 64, columns: int = 32) -> mi.KernelGraph:
    graph = mi.new_kernel_graph("rmsnorm_linear")
    x = graph.new_input((rows, inner), dtype=mi.float16, name="x")
    w = graph.new_input((inner, columns), dtype=mi.float16, name="w")
    block = mi.new_threadblock_graph(grid_dim=(2, 1, 1), block_dim=(128, 1, 1), forloop_range=4)
    tile_x = block.new_input(x, input_map=(-1, -1, -1), forloop_dim=1)
    tile_w = block.new_input(w, input_map=(1, -1, -1), forloop_dim=0)
    product = block.forloop_accum(block.matmul(tile_x, tile_w))
    norm = block.forloop_accum(tile_x, "rms")
    block.new_output(block.div(product, norm), output_map=(1, -1, -1))
    (y,) = graph.customized([x, w], block, names=["y"])
    graph.mark_output(y)
    return graph


def test_a_graph_computes_what_it_says() -> None:
    module = rmsnorm_linear().module()
    random = np.random.default_rng(0)
    x, w = random.standard_normal((4, 64)), random.standard_normal((64, 32))
    (y,) = run_function(module, None, [x, w], "float64")
    x, w = (array.astype(np.float16).astype(float) for array in (x, w))
    np.testing.assert_allclose(y, x @ w / np.sqrt((x**2).mean(1, keepdims=True)), rtol=1e-9)


def test_a_printed_graph_parses_back() -> None:
    graph = rmsnorm_linear()
    module = Parser(make_context(), str(graph)).parse_module()
    module.verify()
    assert str(module) == str(graph.module()) == str(graph)


def test_a_module_is_a_picture_of_the_graph_then() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((8, 8))
    y = graph.exp(x)
    graph.mark_output(y)
    before = str(graph.module())
    graph.mark_output(graph.square(y))
    assert str(graph.module()) != before and "kn.square" not in before


def test_every_element_wise_function_has_a_method() -> None:
    for function in (*UNARY_FUNCTIONS, *BINARY_FUNCTIONS):
        if function != "identity":
            assert hasattr(mi.KernelGraph, function) and hasattr(mi.ThreadblockGraph, function)


def test_output_strides_are_the_users() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((8, 16), strides=(1, 8))
    assert x.strides == (1, 8)
    graph.mark_output(graph.exp(x), strides=(1, 8))
    assert "tensor<8x16xf16, #cute.layout<(8,16):(1,8)>>" in str(graph)
    module = graph.module()
    values = np.arange(128.0).reshape(8, 16) / 128
    (y,) = run_function(module, None, [values], "float64")
    np.testing.assert_allclose(y, np.exp(values.astype(np.float16).astype(float)))


def test_todimx_reductions_leave_reduction_dimx() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 64))
    block = mi.new_threadblock_graph((1, 1, 1), (32, 1, 1), 1, reduction_dimx=16)
    tile = block.new_input(x, (-1, -1, -1))
    assert block.reduction_to_dimx(tile, 1).shape == (4, 16)
    assert block.forloop_accum(tile, "sum_todimx").shape == (4, 16)
    assert block.reduction(tile, 0).shape == (1, 64)
    assert isinstance(block.rms_norm(tile).value.owner, tb.RmsNormOp)


def test_a_failed_call_leaves_the_graph_as_it_was() -> None:
    graph = rmsnorm_linear()
    before = str(graph)
    x = graph.new_input((3, 5))
    with pytest.raises(mi.BuildError):
        graph.add(x, graph.new_input((4, 5)))
    assert [op.name for op in graph.module().walk()].count("kn.add") == 0
    assert before.count(kn.CustomizedOp.name) == 1


def mistakes() -> dict[str, tuple[str, ...]]:
    """What is called with a kernel graph g, tensors x 4x8 and w 16x8, a block b with tile t 4x8."""
    return {
        "g.add(x, w)": ("4x8 and 16x8", "dimension 0"),
        "g.matmul(x, w)": ("8 columns", "16 rows"),
        "g.exp(t)": ("is not a tensor of this KernelGraph",),
        "b.exp(x)": ("is not a tensor of this ThreadblockGraph",),
        "g.new_input((4, 0))": ("extents [4, 0]",),
        "g.new_input((4, 4), strides=(4,))": ("1 strides for a tensor of rank 2",),
        "g.new_input((4, 4), strides=(0, 1))": ("stride 0",),
        "b.new_input(x, (2, -1, -1))": ("dimension 2", "rank 2"),
        "b.new_output(t, (2, -1, -1))": ("output_map [2, -1, -1]", "rank 2"),
        "b.new_output(t, (0, -1, -1))": ("stores a value of the loop body",),
        "b.add(b.forloop_accum(t), t)": ("mixes",),
        "b.forloop_accum(t, 'median')": ("'median'", "rms"),
        "b.reduction(t, 2)": ("dimension 2 does not exist",),
        "g.customized([w], b)": ("inputs must be the tensors",),
        "g.customized([x], b)": ("stores nothing",),
        "g.mark_output(x, strides=(1,))": ("1 strides",),
        "mi.new_kernel_graph('a b')": ("'a b'",),
        "mi.new_kernel_graph().module()": ("no result",),
        "mi.new_threadblock_graph((1, 1, 1), (2048, 1, 1))": ("2048 threads",),
        "mi.new_threadblock_graph((1, 1), (32, 1, 1))": ("three extents",),
    }


@pytest.mark.parametrize("call", mistakes())
def test_a_mistake_is_said_where_it_was_made(call: str) -> None:
    g = mi.new_kernel_graph()
    x, w = g.new_input((4, 8), name="x"), g.new_input((16, 8), name="w")
    b = mi.new_threadblock_graph((2, 1, 1), (32, 1, 1), 2)
    t = b.new_input(x, (0, -1, -1), 1)
    with pytest.raises(mi.BuildError) as caught:
        eval(call, {"g": g, "x": x, "w": w, "b": b, "t": t, "mi": mi})
    for part in mistakes()[call]:
        assert part in str(caught.value)
