"""The Python builder: what it builds, and what it says at the line that made a mistake."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.codegen.c_abi.interface import interface_of
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function


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


def test_where_mirage_keeps_a_tile_changes_nothing() -> None:
    def built(*, store_in_dmem: bool) -> str:
        graph = mi.new_kernel_graph("g")
        x = graph.new_input((16, 64))
        block = mi.new_threadblock_graph((1, 1, 1), (32, 1, 1), 4)
        tile = block.new_input(x, (-1, -1, -1), 1, store_in_dmem)
        block.new_output(block.forloop_accum(tile, "sum"), (-1, -1, -1))
        graph.mark_output(*graph.customized([x], block))
        return str(graph)

    assert built(store_in_dmem=True) == built(store_in_dmem=False)


def test_a_graph_computes_what_it_says() -> None:
    module = rmsnorm_linear().module()
    random = np.random.default_rng(0)
    x, w = random.standard_normal((4, 64)), random.standard_normal((64, 32))
    (y,) = run_function(module, None, [x, w], "float64")
    x, w = (array.astype(np.float16).astype(float) for array in (x, w))
    np.testing.assert_allclose(y, x @ w / np.sqrt((x**2).mean(1, keepdims=True)), rtol=1e-9)


def test_constant_inputs_say_so() -> None:
    graph = mi.new_kernel_graph()
    x, w = graph.new_input((8, 8)), graph.new_input((8, 8), name="w", constant=True)
    graph.mark_output(graph.add(x, w))
    text = str(graph)
    assert text.count("mugraph.constant") == 1 and "%w: tensor<8x8xf16> {mugraph.constant}" in text
    Parser(make_context(), text).parse_module().verify()


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


def test_a_tensor_may_be_several_results() -> None:
    graph = mi.new_kernel_graph()
    y = graph.exp(graph.new_input((8, 16)))
    for _ in range(2):
        graph.mark_output(y)
    values = np.arange(128.0).reshape(8, 16) / 128
    one, other = run_function(graph.module(), None, [values], "float64")
    np.testing.assert_array_equal(one, other)


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


def test_elements_of_an_input_may_share_addresses() -> None:
    graph = mi.new_kernel_graph()
    windows = graph.new_input((4, 16), strides=(1, 1), dtype=mi.float32)
    graph.mark_output(graph.square(windows))
    module = graph.module()
    numbers = np.arange(19, dtype=np.float32)
    values = np.lib.stride_tricks.sliding_window_view(numbers, 16)
    (y,) = run_function(module, None, [values], "float64")
    np.testing.assert_array_equal(y, values.astype(float) ** 2)
    TranspilePass().apply(make_context(), module)
    assert "tensor<4x16xf32, #cute.layout<(4,16):(1,1)>>" in str(module)


@pytest.mark.parametrize(("name", "symbol"), [("mugraph", "mugraph_v"), ("float", "float_v")])
def test_any_function_has_a_c_interface(name: str, symbol: str) -> None:
    graph = mi.new_kernel_graph(name)
    graph.mark_output(graph.exp(graph.new_input((8, 16))))
    module = graph.module()
    TranspilePass().apply(make_context(), module)
    function = next(op for op in module.walk() if isinstance(op, FuncOp))
    assert function.sym_name.data == name
    assert interface_of(function).name == symbol
    with pytest.raises(CodegenError, match=f"'{name}' cannot start the names of a C interface"):
        interface_of(function, name)


def test_todimx_reductions_leave_reduction_dimx() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 64))
    block = mi.new_threadblock_graph((1, 1, 1), (32, 1, 1), 1, reduction_dimx=16)
    tile = block.new_input(x, (-1, -1, -1))
    assert block.reduction_to_dimx(tile, 1).shape == (4, 16)
    assert block.forloop_accum(tile, "sum_todimx").shape == (4, 16)
    assert block.reduction(tile, 0).shape == (1, 64)
    assert isinstance(block.rms_norm(tile).value.owner, tb.RmsNormOp)


def run(graph: mi.KernelGraph, *inputs: np.ndarray) -> list[np.ndarray]:
    """The results in the types of the tensors, of the µGraph and of its schedule."""
    module = graph.module()
    results = run_function(module, None, list(inputs))
    PassPipeline((TranspilePass(),)).apply(make_context(), module)
    scheduled = run_function(module, None, list(inputs), level="address")
    for one, other in zip(results, scheduled, strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=0.02, atol=0.02)
    return [result.astype(np.float64) for result in results]


def test_attention_with_a_running_maximum() -> None:
    graph = mi.new_kernel_graph()
    q, k, v = (graph.new_input(shape) for shape in ((16, 32), (32, 64), (64, 16)))
    block = mi.new_threadblock_graph((1, 1, 1), (128, 1, 1), 4)
    tiles = [block.new_input(q, (-1, -1, -1))]
    tiles += [block.new_input(x, (-1, -1, -1), dim) for x, dim in ((k, 1), (v, 0))]
    scores = block.matmul(tiles[0], tiles[1], dtype=mi.float32)
    maximum, fall = block.reduction_max(scores, 1)
    weights = block.cast(block.exp(block.sub(scores, maximum)), mi.float16)
    factor = block.exp(fall)
    total = block.forloop_accum_rescale(block.matmul(weights, tiles[2]), factor)
    norm = block.forloop_accum_rescale(weights, factor, "sum")
    block.new_output(block.div(total, norm), (-1, -1, -1))
    block.new_output(block.forloop_accum_max(maximum), (-1, -1, -1))
    for result in graph.customized([q, k, v], block):
        graph.mark_output(result)
    random = np.random.default_rng(0)
    q_, k_, v_ = (
        (4 * random.standard_normal(shape)).astype(np.float16).astype(float)
        for shape in ((16, 32), (32, 64), (64, 16))
    )
    attention, largest = run(graph, q_, k_, v_)
    scores_ = q_ @ k_
    weights_ = np.exp(scores_ - scores_.max(1, keepdims=True))
    expected = weights_ @ v_ / weights_.sum(1, keepdims=True)
    np.testing.assert_allclose(attention, expected, rtol=0.02, atol=0.02)
    assert largest.max() == pytest.approx(scores_.max(), rel=1e-3)


def test_tiles_are_put_together_and_cut() -> None:
    graph = mi.new_kernel_graph()
    x, w = graph.new_input((8, 48)), graph.new_input((1, 12))
    block = mi.new_threadblock_graph((2, 1, 1), (32, 1, 1), 4)
    tile, weight = block.new_input(x, (0, -1, -1), 1), block.new_input(w, (-1, -1, -1))
    first, second = block.split(tile, (4, 8), 1)
    joined = block.rms_norm(block.concat(second, first, 1), weight, 0.25)
    block.new_output(block.forloop_accum(joined, "mean"), (0, -1, -1))
    block.new_output(block.max(block.add_scalar(tile, 1.0), tile), (0, -1, -1), forloop_dim=1)
    for result in graph.customized([x, w], block):
        graph.mark_output(result)
    x_ = np.linspace(-1, 2, 8 * 48).reshape(8, 48)
    w_ = np.linspace(0.5, 1.5, 12).reshape(1, 12)
    means, plus_one = run(graph, x_, w_)
    rolled = np.roll(x_.reshape(8, 4, 12), 8, axis=2)
    norm = rolled / np.sqrt((rolled**2).mean(2, keepdims=True) + 0.25) * w_
    np.testing.assert_allclose(means, norm.mean((1, 2)).reshape(8, 1), rtol=0.02, atol=0.005)
    np.testing.assert_allclose(plus_one, x_ + 1, rtol=0.01, atol=0.005)


def test_a_product_of_concatenations() -> None:
    graph = mi.new_kernel_graph()
    shapes = ((16, 32), (16, 8), (32, 16), (8, 16))
    inputs = [graph.new_input(shape) for shape in shapes]
    block = mi.new_threadblock_graph((1, 1, 1), (128, 1, 1))
    a1, a2, b1, b2 = (block.new_input(x, (-1, -1, -1)) for x in inputs)
    block.new_output(block.forloop_accum(block.concat_then_matmul(a1, a2, b1, b2)), (-1, -1, -1))
    graph.mark_output(graph.customized(inputs, block)[0])
    arrays = [np.linspace(-1, 1, a * b).reshape(a, b) for a, b in shapes]
    (product,) = run(graph, *arrays)
    a1_, a2_, b1_, b2_ = arrays
    np.testing.assert_allclose(product, a1_ @ b1_ + a2_ @ b2_, rtol=0.01, atol=0.05)


def test_kernels_on_whole_tensors() -> None:
    graph = mi.new_kernel_graph()
    x, w = graph.new_input((6, 8)), graph.new_input((8,))
    top, bottom = graph.chunk(x, 2, 0)
    left, right = graph.split(x, (3, 5), 1)
    results = (
        graph.reduction(x, 1),
        graph.reduction(x, 0, 3),
        graph.rms_norm(x, (8,), w, 0.5),
        graph.concat(bottom, top, 0),
        graph.concat(right, left, 1),
        graph.cast(x, mi.float8_e4m3fn),
        graph.max(x, graph.add_scalar(x, -1.0)),
    )
    for result in results:
        graph.mark_output(result)
    x_, w_ = np.arange(48.0).reshape(6, 8) / 16, np.arange(8.0) / 8
    sums, groups, norm, rows, columns, narrow, larger = run(graph, x_, w_)
    np.testing.assert_array_equal(sums, x_.sum(1, keepdims=True))
    np.testing.assert_allclose(groups, x_.reshape(3, 2, 8).sum(1), rtol=1e-3)
    expected = x_ / np.sqrt((x_**2).mean(1, keepdims=True) + 0.5) * w_
    np.testing.assert_allclose(norm, expected, rtol=2e-3, atol=1e-4)
    np.testing.assert_array_equal(rows, np.roll(x_, 3, 0))
    np.testing.assert_array_equal(columns, np.roll(x_, 5, 1))
    np.testing.assert_allclose(narrow, x_, rtol=2**-4, atol=2**-9)
    np.testing.assert_array_equal(larger, x_)


def test_integers_are_multiplied_into_int32() -> None:
    graph = mi.new_kernel_graph()
    x, w = graph.new_input((16, 64), dtype=mi.int8), graph.new_input((64, 16), dtype=mi.int8)
    block = mi.new_threadblock_graph((1, 1, 1), (64, 1, 1), 2)
    product = block.matmul(block.new_input(x, (-1,) * 3, 1), block.new_input(w, (-1,) * 3, 0))
    assert product.dtype == mi.int32 == graph.matmul(x, w).dtype
    block.new_output(block.forloop_accum(product), (-1, -1, -1))
    graph.mark_output(graph.customized([x, w], block)[0])
    random = np.random.default_rng(0)
    x_, w_ = random.integers(-9, 9, (16, 64)), random.integers(-9, 9, (64, 16))
    np.testing.assert_array_equal(run(graph, x_, w_)[0], x_ @ w_)


@pytest.mark.parametrize(
    "dtype", [mi.float16, mi.bfloat16, mi.float32, mi.float8_e4m3fn, mi.float8_e5m2, mi.int32]
)
def test_every_element_type(dtype: Attribute) -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((7, 10), dtype=dtype)
    block = mi.new_threadblock_graph((2, 1, 1), (32, 1, 1), 2)
    total = block.forloop_accum(block.new_input(x, (0, -1, -1), 1))
    block.new_output(total, (0, -1, -1), dims=(7, 5))
    (y,) = graph.customized([x], block)
    assert y.dtype == dtype and y.shape == (7, 5)
    graph.mark_output(graph.cast(y, mi.int8))
    values = np.arange(70).reshape(7, 10) % 4
    values = values if dtype == mi.int32 else values.astype(np.float64)
    np.testing.assert_array_equal(run(graph, values)[0], values[:, :5] + values[:, 5:])


def test_operators_and_functions_are_the_graph_s() -> None:
    graphs: list[str] = []
    for short in (True, False):
        graph = mi.new_kernel_graph()
        x, w = graph.new_input((8, 8), name="x"), graph.new_input((8, 8), name="w")
        if short:
            y = mi.max(mi.silu(x) @ w + 1, 2 * x) / w - (1 - mi.clamp(w, 0, 6)) * (x / 4)
        else:
            product = graph.add_scalar(graph.matmul(graph.silu(x), w), 1)
            quotient = graph.div(graph.max(product, graph.mul_scalar(x, 2)), w)
            rest = graph.add_scalar(graph.mul_scalar(graph.clamp(w, 0, 6), -1), 1)
            y = graph.sub(quotient, graph.mul(rest, graph.mul_scalar(x, 0.25)))
        graph.mark_output(y)
        graphs.append(str(graph))
    assert graphs[0] == graphs[1]
    with pytest.raises(TypeError):
        _ = y + "1"
    with pytest.raises(mi.BuildError, match="add: the second operand is a ndarray, which is no te"):
        _ = y + np.ones((8, 8))  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(mi.BuildError, match="operands 2x8x8 and 3x8x8 differ in leading extents"):
        _ = graph.new_input((2, 8, 8)) @ graph.new_input((3, 8, 8))
    with pytest.raises(mi.BuildError, match="exp: 3 is no tensor of a graph"):
        mi.exp(3)
    with pytest.raises(mi.BuildError, match="a graph; tensors are arguments of their own"):
        mi.concat([x, y], 1)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "shape", [(4096,), (3, 5), (100, 3000), (7, 2, 2049), (65, 1, 3, 33), (2, 1, 1, 5, 4096)]
)
def test_a_pointwise_kernel_of_any_shape(shape: tuple[int, ...]) -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input(shape, name="x")
    bias = graph.new_input((*(1,) * (len(shape) - 1), shape[-1]), name="bias")
    result = mi.pointwise(lambda x, bias: mi.silu(x) * x + bias, x, bias, name="result")
    assert result.shape == shape and result.value.name_hint == "result"
    graph.mark_output(result)
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(one.shape).astype(np.float16) for one in (x, bias))
    wide = a.astype(float)
    expected = wide * wide / (1 + np.exp(-wide)) + b
    (result,) = run(graph, a, b)
    np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-3)


def test_what_is_not_pointwise_is_said() -> None:
    graph = mi.new_kernel_graph()
    x, y = graph.new_input((64, 64)), graph.new_input((64, 32))
    with pytest.raises(mi.BuildError, match=r"'tb\.rms_norm'.* combines elements of a tile"):
        mi.pointwise(lambda t: t.graph.rms_norm(t), x)
    with pytest.raises(mi.BuildError, match="64x64 and 64x32 differ in dimension 1"):
        mi.pointwise(lambda a, b: a + b, x, y)
    with pytest.raises(mi.BuildError, match="cut along 4 dimensions"):
        mi.pointwise(mi.exp, graph.new_input((2, 2, 2, 4096)))
    with pytest.raises(mi.BuildError, match="at least one tensor"):
        mi.pointwise(mi.exp)


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
        "g.new_input((4, 1.5))": ("new_input", "(4, 1.5)", "expected integers"),
        "g.new_input((4, 8), mi.float16)": ("new_input", "strides", "write dtype= before a type"),
        "g.new_input((4, 4), dtype='f16')": ("'f16' is no element type", "mugraph.build.float16"),
        "g.cast(x, float)": ("cast", "<class 'float'> is no element type"),
        "mi.new_threadblock_graph('xyz', (32, 1, 1))": ("grid_dim: 'xyz'; expected integers",),
        "g.new_input((4, 4), strides=(4,))": ("1 strides for a tensor of rank 2",),
        "g.new_input((4, 4), strides=(0, 1))": ("stride 0",),
        "g.new_input((4, 4), strides=(-4, 1))": ("strides [-4, 1]; expected none below 0",),
        "g.new_input((4, 4), name=3)": ("3 cannot name a tensor",),
        "g.new_input((2**40, 2**40))": ("more than 2^60 elements",),
        "g.mark_output(x, strides=(-1, 16))": ("mark_output: strides [-1, 16]",),
        "g.mark_output(x, strides=(1, 1))": ("mark_output", "share an address"),
        "b.new_input(x, (2, -1, -1))": ("dimension 2", "rank 2"),
        "b.new_output(t, (2, -1, -1))": ("output_map [2, -1, -1]", "rank 2"),
        "b.new_output(t, (0, -1, -1))": ("stores a value of the loop body",),
        "b.add(b.forloop_accum(t), t)": ("mixes",),
        "b.forloop_accum(t, 'median')": ("'median'", "rms"),
        "b.reduction(t, 2)": ("dimension 2 does not exist",),
        "b.reduction_max(t, -1)": ("dimension -1 does not exist",),
        "b.forloop_accum_rescale(t, t, 'rms')": ("'rms'", "sum"),
        "b.concat(t, t, 2)": ("dimension 2 does not exist",),
        "b.split(t, (1, 2), 1)": ("tb.split",),
        "b.new_output(t, (0, -1, -1), 2)": ("forloop_dim 2", "rank 2"),
        "b.rms_norm(t, t)": ("weight",),
        "b.cast(t, mi.float16)": ("to itself",),
        "g.reduction(x, 3)": ("dimension 3 does not exist",),
        "g.chunk(x, 3, 1)": ("3 equal parts",),
        "g.rms_norm(x, (4,))": ("suffix",),
        "g.concat(x, w, 1)": ("kn.concat",),
        "g.customized([w], b)": ("inputs must be the 1 tensors",),
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


def test_one_iteration_needs_no_accumulator() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 32))
    block = mi.new_threadblock_graph(grid_dim=(2, 1, 1), block_dim=(32, 1, 1), forloop_range=1)
    tile = block.new_input(x, (0, -1, -1))
    block.new_output(block.rms_norm(tile), (0, -1, -1))
    graph.mark_output(*graph.customized([x], block))
    graph.module().verify()


def test_a_loop_carries_a_state() -> None:
    graph = mi.new_kernel_graph("sums")
    x = graph.new_input((8, 64), dtype=mi.float32)
    block = mi.new_threadblock_graph((1, 1, 1), (32, 1, 1), 4)
    tile = block.new_input(x, (-1, -1, -1), 1)
    before = block.carried((8, 1), start=1.0)
    last = block.carry(before + block.reduction(tile, 1), before)
    block.new_output(before, (-1, -1, -1), 1)
    block.new_output(last, (-1, -1, -1))
    for result in graph.customized([x], block):
        graph.mark_output(result)
    numbers = np.arange(8 * 64, dtype=np.float32).reshape(8, 64) / 64
    sums = 1 + numbers.reshape(8, 4, 16).sum(axis=2).cumsum(axis=1)
    stored, total = run_function(graph.module(), None, [numbers])
    np.testing.assert_allclose(stored, np.concatenate([np.ones((8, 1)), sums[:, :-1]], axis=1))
    np.testing.assert_allclose(total, sums[:, -1:])


def test_a_state_that_nothing_updates_is_an_error() -> None:
    graph = mi.new_kernel_graph("sums")
    x = graph.new_input((8, 64), dtype=mi.float32)
    block = mi.new_threadblock_graph((1, 1, 1), (32, 1, 1), 4)
    tile = block.new_input(x, (-1, -1, -1), 1)
    block.new_output(tile + block.carried((8, 1), name="state"), (-1, -1, -1), 1)
    with pytest.raises(mi.BuildError, match="the state %state has 0"):
        graph.customized([x], block)
