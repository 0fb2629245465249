"""Weights of fewer bits than activations: one kernel unpacks, scales and multiplies them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from emulated_programs import check_emulated_later, graph_of
from fuzz.programs import launches_of
from xdsl.dialects.builtin import f8E4M3FN, f16
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import sched, tb
from mugraph.dialects.elementwise import NF4_NUMBERS
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.compile import before_planning, compile_pipeline
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.plan.tiles import choose_least_time
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.choice import find_kernels
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function

RANDOM = np.random.default_rng(5)
Array = npt.NDArray[Any]


def linear(x: mi.DTensor, packed: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
    """x (m, k) times weights of 4 bits (k, n) with scales (k / group, n)."""
    return x @ mi.dequantize(packed, scales, format="int4", dim=0)


def drawn(rows: int, depth: int, columns: int, group: int) -> tuple[Array, Array, Array, Array]:
    """An input, packed weights, scales, and the weights in float64."""
    x = RANDOM.standard_normal((rows, depth)).astype(ml_dtypes.bfloat16)
    weights = RANDOM.integers(-8, 8, (depth, columns))
    scales = RANDOM.uniform(0.5, 2, (depth // group, columns)).astype(ml_dtypes.bfloat16)
    packed = (weights[::2] & 15 | weights[1::2] << 4).astype(np.int8)
    return x, packed, scales, weights * scales.astype(np.float64).repeat(group, 0)


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "group"),
    [(16, 1024, 512, 128), (1, 96, 40, 32), (37, 192, 72, 64), (8, 1280, 24, 32)],
)
def test_weights_of_4_bits_are_unpacked_in_the_kernel_of_their_product(
    rows: int, depth: int, columns: int, group: int
) -> None:
    *inputs, weights = drawn(rows, depth, columns, group)
    module = graph_of(linear, *inputs).module()
    own = module.clone()
    function = only_function(own)
    fuse_program(function, target_named("sm_90a"))
    assert launches_of(function) == 1
    assert prove(only_function(module), function).holds
    products = [op for op in function.walk() if isinstance(op, tb.MatmulOp)]
    # However many groups there are, a matrix is of one, whose scale leaves its product.
    assert products and all(shape_of(op.lhs.type)[-1] <= group // 2 for op in products)
    (result,) = run_function(own, None, inputs)
    assert_near(result, inputs[0].astype(np.float64) @ weights)


def of_halves(x: mi.DTensor, packed: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
    """The same of weights whose numbers that share a byte are 64 apart."""
    return x @ mi.dequantize(packed, scales, format="int4", dim=0, storage="halves")


@pytest.mark.parametrize("program", [linear, of_halves])
def test_weights_of_4_bits_are_unpacked_in_registers(program: Any) -> None:
    """Scales are applied to sums; right as CUDA, at sizes that no tile divides."""
    x, packed, scales, weights = drawn(19, 1024, 72, 128)
    if program is of_halves:
        codes = np.stack([packed & 15, packed >> 4 & 15], 1).reshape(-1, 2, 64, 72)
        packed = (codes[:, 0] | codes[:, 1] << 4).astype(np.int8).reshape(packed.shape)
    inputs = [x, packed, scales]
    module = graph_of(program, *inputs).module()
    PassPipeline(compile_pipeline("sm_90a", Plan(forloop=8))).apply(make_context(), module)
    made = generate_cuda(module, make_context(), "sm_90a")
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert len(products) == 2 and all(op.through is not None for op in products)
    in_place = [op.lhs_start is not None for op in products]
    assert in_place == [program is of_halves] * 2
    expected = x.astype(np.float64) @ weights
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
def test_codes_of_nf4_are_looked_up_in_pairs(dtype: Any) -> None:
    """As a product loads them; all codes beside each other, right as CUDA."""
    codes = RANDOM.integers(0, 16, (2, 128, 64))
    packed = (codes[0] | codes[1] << 4).astype(np.uint8).view(np.int8)
    scales = RANDOM.uniform(0.5, 2, (2, 64)).astype(dtype)
    x = RANDOM.standard_normal((9, 256)).astype(dtype)

    def program(x: mi.DTensor, packed: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
        wide = mi.dequantize(packed, scales, format="nf4", dim=0, storage="halves")
        return x @ (wide if x.dtype == wide.dtype else mi.cast(wide, x.dtype))

    inputs = [x, packed, scales]
    module = graph_of(program, *inputs).module()
    PassPipeline(compile_pipeline("sm_90a", Plan(forloop=2))).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert products and all(op.through is not None for op in products)
    numbers = np.array(NF4_NUMBERS).astype(dtype).astype(np.float64)[codes]
    halves = [each.reshape(2, 64, 64) for each in numbers]
    weights = np.stack(halves, 1).reshape(256, 64) * scales.astype(np.float64).repeat(128, 0)
    expected = x.astype(np.float64) @ weights
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("rows", [1, 5])
def test_groups_of_64_codes_of_nf4_have_warps_of_their_own(rows: int) -> None:
    """Both halves of a byte have a scale; threads multiply runs of codes; right as CUDA."""
    codes = RANDOM.integers(0, 16, (2, 32, 8, 64))
    packed = (codes[0] | codes[1] << 4).astype(np.uint8).view(np.int8).reshape(32, 512)
    scales = RANDOM.uniform(0.5, 2, (16, 32)).astype(ml_dtypes.bfloat16)
    x = RANDOM.standard_normal((rows, 1024)).astype(ml_dtypes.bfloat16)

    def program(x: mi.DTensor, packed: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
        of_rows = mi.transpose(scales)
        wide = mi.dequantize(packed, of_rows, format="nf4", dim=1, storage="halves")
        return x @ mi.transpose(wide)

    inputs = [x, packed, scales]
    module = graph_of(program, *inputs).module()
    plan = Plan(forloop=2, block=(128, 1, 1))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert len(products) == 2 and all(op.is_sliced for op in products)
    assert all(op.atom is not None and op.atom.reads_runs for op in products)
    numbers = np.array(NF4_NUMBERS).astype(ml_dtypes.bfloat16).astype(np.float64)[codes]
    weights = numbers.transpose(1, 2, 0, 3).reshape(32, 1024)
    weights *= scales.astype(np.float64).T.repeat(64, 1)
    expected = x.astype(np.float64) @ weights.T
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))


def rows_of_halves(x: mi.DTensor, packed: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
    """The same of weights that are stored as rows of outputs."""
    wide = mi.dequantize(packed, mi.transpose(scales), format="int4", dim=1, storage="halves")
    return x @ mi.transpose(wide)


def rows_of_bytes(x: mi.DTensor, whole: mi.DTensor) -> mi.DTensor:
    """The same of weights of 8 bits without a scale."""
    return x @ mi.transpose(mi.cast(whole, x.dtype))


@pytest.mark.parametrize("program", [rows_of_halves, rows_of_bytes])
def test_warp_groups_convert_weights(program: Any) -> None:
    """As the hardware's left matrix, in registers; right as CUDA, step by step, and on bytes.

    Of 4 bits, sums are scaled in each iteration; of 8 bits they stay for all of them.
    """
    x, packed, scales, weights = drawn(64, 512, 128, 128)
    plan = Plan(block=(128, 1, 1), loads="tma", split_k=1)
    if program is rows_of_bytes:
        weights = RANDOM.integers(-128, 128, (512, 128)).astype(np.float64)
        inputs = [x, weights.T.astype(np.int8)]
        plan = replace(plan, loop_tile=128, tile=(0, 128))
    else:
        codes = np.stack([packed & 15, packed >> 4 & 15], 1).reshape(-1, 2, 64, 128)
        packed = (codes[:, 0] | codes[:, 1] << 4).astype(np.int8).reshape(packed.shape).T.copy()
        inputs = [x, packed, scales]
        plan = replace(plan, forloop=4, tile=(0, 0, 0, 128))
    module = graph_of(program, *inputs).module()
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert products and all(op.through is not None for op in products)
    expected = x.astype(np.float64) @ weights
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))
    for level in ("logical", "address"):
        (result,) = run_function(module, None, inputs, level=level)
        assert_near(result, expected)


def assert_near(result: Array, expected: Array, limit: float = 4e-3) -> None:
    """Weights and results are rounded to bf16."""
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < limit


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", ["rows", "columns", "f8", "in_f16", "unsigned"])
def test_weights_of_8_bits_are_converted_as_a_product_loads_them(kind: str) -> None:
    """Nothing of 16 bits is written to shared memory; right as CUDA, at sizes no tile divides.

    Of integers (n, k) and (k, n), f8 (n, k), integers whose product is in f16, and without a sign.
    """
    rows, depth, columns = 9, 208, 72
    x = RANDOM.standard_normal((rows, depth)).astype(ml_dtypes.bfloat16)
    weights = RANDOM.integers(-128, 128, (columns, depth)).astype(np.int8)
    if kind == "f8":
        weights = RANDOM.standard_normal((columns, depth)).astype(ml_dtypes.float8_e4m3fn)

    def program(x: mi.DTensor, stored: mi.DTensor) -> mi.DTensor:
        if kind == "columns":
            return x @ mi.cast(stored, x.dtype)
        if kind == "in_f16":
            return mi.cast(x, mi.float16) @ mi.transpose(mi.cast(stored, mi.float16))
        if kind == "unsigned":
            return x @ mi.transpose(mi.unpack(stored, "uint8", dtype=x.dtype))
        return x @ mi.transpose(mi.cast(stored, x.dtype))

    inputs = [x, np.ascontiguousarray(weights.T) if kind == "columns" else weights]
    module = graph_of(program, *inputs).module()
    fuse_program(only_function(module), target_named("sm_90a"))
    made = generate_cuda(module, make_context(), "sm_90a")
    (product,) = (op for op in module.walk() if isinstance(op, sched.MmaOp))
    assert product.through is not None
    numbers = (weights.view(np.uint8) if kind == "unsigned" else weights).astype(np.float64)
    expected = x.astype(np.float64) @ numbers.T
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))


@pytest.mark.parametrize(
    ("dtype", "rows", "columns", "depth", "warps"),
    [
        (np.int8, 4, 64, 128, 2),
        (ml_dtypes.float8_e4m3fn, 16, 48, 96, 2),  # 48 of the depth an iteration
        (ml_dtypes.float8_e5m2, 1, 32, 64, 4),  # more warps than tiles
    ],
)
def test_few_rows_read_bytes_with_neighbours_along_columns_by_lines(
    dtype: Any, rows: int, columns: int, depth: int, warps: int
) -> None:
    """Of a right matrix (k, n), by warps that swap operands; right on bytes and as CUDA."""
    x = RANDOM.standard_normal((rows, depth)).astype(ml_dtypes.bfloat16)
    stored = (RANDOM.standard_normal((depth, columns)) * 40).astype(dtype)
    if dtype is not np.int8:
        stored.view(np.uint8)[:2, :32] = np.arange(64).reshape(2, 32)  # subnormal numbers, too

    def product(x: mi.DTensor, whole: mi.DTensor) -> mi.DTensor:
        return x @ mi.cast(whole, x.dtype)

    module = graph_of(product, x, stored).module()
    plan = Plan(forloop=2, block=(32 * warps, 1, 1))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    (multiply,) = (op for op in module.walk() if isinstance(op, sched.MmaOp))
    assert multiply.atom is not None and multiply.atom.reads_lines
    reads = [each.instruction for each in multiply.thread_accesses() if each.operand == 1]
    assert ("ldmatrix.x2.trans" in reads) == (depth // 2 % 32 != 0)
    expected = x.astype(np.float64) @ stored.astype(np.float64)
    (result,) = run_function(module, None, [x, stored], level="address")
    assert_near(result, expected)
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run([x, stored]), expected))


def decoded(
    q: mi.DTensor, k: mi.DTensor, v: mi.DTensor, scale_k: mi.DTensor, scale_v: mi.DTensor
) -> mi.DTensor:
    """Attention of queries (h, g, d) over a cache (h, t, d) of f8 with a scale for each token."""
    keys, values = (mi.cast(each, q.dtype) for each in (k, v))
    scores = q @ mi.transpose(keys) * (mi.transpose(scale_k) * q.shape[-1] ** -0.5)
    return (mi.softmax(scores) * mi.transpose(scale_v)) @ values


@pytest.mark.parametrize(("keys", "depth", "by_runs"), [(91, 32, False), (256, 64, True)])
def test_a_cache_of_f8_is_read_as_it_is_stored(keys: int, depth: int, by_runs: bool) -> None:
    """Its scales are those of scores and of weights; right as CUDA, at a ragged number of keys.

    Where all warps share the keys evenly they read them by runs of 16 bytes.
    """
    heads, queries = 2, 4
    q = RANDOM.standard_normal((heads, queries, depth)).astype(ml_dtypes.bfloat16)
    cache = RANDOM.standard_normal((2, heads, keys, depth)).astype(ml_dtypes.float8_e4m3fn)
    scales = RANDOM.uniform(0.5, 2, (2, heads, keys, 1)).astype(np.float32)
    inputs = [q, *cache, *scales]
    module = graph_of(decoded, *inputs).module()
    fuse_program(only_function(module), target_named("sm_90a"))
    made = generate_cuda(module, make_context(), "sm_90a")
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert products and all(op.through is not None for op in products)
    assert products[0].atom is not None and products[0].atom.reads_runs == by_runs
    expected = attended(q, *cache, *scales)
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected, 2e-2))


def attended(q: Array, k: Array, v: Array, scale_k: Array, scale_v: Array) -> Array:
    """Attention in float64."""
    wide_k, wide_v = k.astype(np.float64) * scale_k, v.astype(np.float64) * scale_v
    scores = q.astype(np.float64) @ wide_k.swapaxes(1, 2) * q.shape[-1] ** -0.5
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ wide_v


def test_queries_and_weights_are_multiplied_by_f8_as_f16() -> None:
    """Also queries that f16 cannot hold, and those of which it would keep no digit."""
    q = RANDOM.standard_normal((2, 4, 64)).astype(ml_dtypes.bfloat16)
    q[1] *= ml_dtypes.bfloat16(2.0**20)
    q[0, 0] *= ml_dtypes.bfloat16(2.0**-40)
    cache = RANDOM.standard_normal((2, 2, 256, 64)).astype(ml_dtypes.float8_e4m3fn)
    scales = RANDOM.uniform(0.5, 2, (2, 2, 1, 1)).astype(np.float32)
    scales[0, 1] *= 2.0**-20

    def program(q: mi.DTensor, k: mi.DTensor, v: mi.DTensor, *scales: mi.DTensor) -> mi.DTensor:
        keys, values = (mi.cast(each, q.dtype) for each in (k, v))
        scores = q @ mi.transpose(keys) * (scales[0] * q.shape[-1] ** -0.5)
        return (mi.softmax(scores) @ values) * scales[1]

    inputs = [q, *cache, *scales]
    module = graph_of(program, *inputs).module()
    PassPipeline(compile_pipeline("sm_90a", Plan(forloop=2))).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert [element_type_of(op.lhs.type) for op in products] == [f16, f16]
    made, expected = generate_cuda(module, make_context(), "sm_90a"), attended(q, *cache, *scales)
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected, 2e-2))


def block_scaled(
    x: mi.DTensor, w: mi.DTensor, scale_x: mi.DTensor, scale_w: mi.DTensor
) -> mi.DTensor:
    """f8 by f8, with scales of 128 neighbours of a row of x, and of blocks of 128 x 128 of w."""
    return mi.dequantize(x, scale_x) @ mi.transpose(mi.dequantize(w, scale_w))


def drawn_of_blocks(rows: int, columns: int, depth: int) -> tuple[list[Array], Array]:
    """Inputs of :func:`block_scaled`, and what it computes."""
    x, w = (
        RANDOM.standard_normal(shape).astype(ml_dtypes.float8_e4m3fn)
        for shape in ((rows, depth), (columns, depth))
    )
    scale_x = RANDOM.uniform(0.5, 2, (rows, depth // 128)).astype(np.float32)
    scale_w = RANDOM.uniform(0.5, 2, (columns // 128, depth // 128)).astype(np.float32)
    wide_x = x.astype(np.float64) * scale_x.repeat(128, 1)
    wide_w = w.astype(np.float64) * np.kron(scale_w, np.ones((128, 128)))
    return [x, w, scale_x, scale_w], wide_x @ wide_w.T


def test_scales_of_blocks_are_applied_to_partial_sums_of_f8() -> None:
    """In one kernel, whose products are of f8 as it is stored."""
    inputs, expected = drawn_of_blocks(64, 256, 512)
    module = graph_of(block_scaled, *inputs).module()
    own = module.clone()
    fuse_program(only_function(own), target_named("sm_90a"))
    assert launches_of(only_function(own)) == 1
    assert prove(only_function(module), only_function(own)).holds
    products = [op for op in own.walk() if isinstance(op, tb.MatmulOp)]
    assert products and all(element_type_of(op.lhs.type) == f8E4M3FN for op in products)
    (result,) = run_function(own, None, inputs)
    assert_near(result, expected)


def scaled_by_columns(
    x: mi.DTensor, w: mi.DTensor, scale_x: mi.DTensor, scale_w: mi.DTensor
) -> mi.DTensor:
    """The same, of scales of x (depth / 128, rows), as PyTorch takes them."""
    return block_scaled(x, w, mi.transpose(scale_x), scale_w)


@pytest.mark.parametrize("by_columns", [False, True])
def test_warp_groups_load_scales_of_blocks_beside_their_products(by_columns: bool) -> None:
    """No bulk copy brings them, also where one could, and others come in bulk nevertheless.

    Each product runs while the sums of the one before are scaled, but for the last of two.
    """
    inputs, expected = drawn_of_blocks(128, 256, 4096)
    program = scaled_by_columns if by_columns else block_scaled
    if by_columns:
        inputs[2] = np.ascontiguousarray(inputs[2].T)
    module = graph_of(program, *inputs).module()
    plan = Plan(block=(256, 1, 1), tile=(0, 0, 128, 128), forloop=32, split_k=1)
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert [op.ahead_of for op in products] == [0, 1]
    assert all(op.is_async and op.is_fresh for op in products)
    loop = products[0].parent_op()
    loads = [op for op in module.walk() if isinstance(op, sched.LoadOp)]
    assert isinstance(loop, sched.ForloopOp) and loop.step_of == 2 and len(loads) == 4
    waits = [op.pending_products for op in loop.walk() if isinstance(op, sched.WarpgroupWaitOp)]
    assert waits == [1, 0]
    for load in loads:
        assert load.parent_op() is loop
        assert isinstance(load.source.type, sched.GlobalType)
    if not by_columns:
        made = generate_cuda(module, make_context(), "sm_90a")
        check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))
    for level in ("address",) if by_columns else ("logical", "address"):
        (result,) = run_function(module, None, inputs, level=level)
        assert_near(result, expected)


def test_threads_that_compute_load_the_scale_of_rows_that_they_round() -> None:
    """A number alone, which no bulk copy brings, takes no producer from the weights."""
    x = RANDOM.standard_normal((1, 256)).astype(ml_dtypes.bfloat16)
    scale = np.array([[1 / 64]], np.float32)
    w = RANDOM.standard_normal((64, 256)).astype(ml_dtypes.float8_e4m3fn)

    def program(x: mi.DTensor, scale: mi.DTensor, w: mi.DTensor) -> mi.DTensor:
        rounded = mi.cast(mi.cast(x, mi.float32) / scale, mi.float8_e4m3fn)
        return x.graph.matmul(rounded, mi.transpose(w), dtype=mi.float32) * scale

    inputs = [x, scale, w]
    module = graph_of(program, *inputs).module()
    plan = Plan(forloop=4, block=(128, 1, 1), loads="tma")
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    roles = [op for op in kernel.walk() if isinstance(op, sched.RoleOp)]
    assert [role.role.data for role in roles] == ["consumers", "producer"]
    exact = x.astype(np.float64) / scale
    rounded = exact.astype(ml_dtypes.float8_e4m3fn).astype(np.float64)
    expected = rounded @ w.astype(np.float64).T * scale
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_near(*kernels.run(inputs), expected))


def test_attention_with_a_long_cache_of_f8_is_one_kernel() -> None:
    """The scores of 128 heads are not written: that took 487 us of 32,768 keys and not 344."""
    graph, keys = mi.new_kernel_graph("decode"), 8192
    cache, scales = (128, keys, 128), (128, keys, 1)
    q = graph.new_input((128, 4, 128), dtype=mi.bfloat16)
    k, v = (graph.new_input(cache, dtype=mi.float8_e4m3fn) for _ in range(2))
    graph.mark_output(
        decoded(q, k, v, *(graph.new_input(scales, dtype=mi.float32) for _ in range(2)))
    )
    found = find_kernels(only_function(graph.module()), target_named("sm_90a"))
    assert len(found.kernels) == 1


def chosen_of_4_bits(rows: int, columns: int, depth: int) -> TileChoice:
    """How a product by weights of 4 bits in groups of 128 is cut."""
    graph = mi.new_kernel_graph("linear")
    x = graph.new_input((rows, depth), dtype=mi.bfloat16)
    w = graph.new_input((columns, depth // 2), dtype=mi.int8)
    scales = graph.new_input((columns, depth // 128), (1, columns), dtype=mi.bfloat16)
    wide = mi.dequantize(w, scales, format="int4", dim=1, storage="halves")
    graph.mark_output(x @ mi.transpose(wide))
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, CustomizedOp))
    chosen = choose_least_time(find_dimensions(kernel), target_named("sm_90a"), Plan())
    assert chosen is not None
    return chosen


@pytest.mark.parametrize(
    ("columns", "depth", "parts"), [(8192, 8192, 4), (4096, 14336, 8), (14336, 4096, 1)]
)
def test_warp_groups_convert_beside_those_of_other_blocks(
    columns: int, depth: int, parts: int
) -> None:
    """One group of 64 columns, and one of weights an iteration, by blocks that share processors."""
    chosen = chosen_of_4_bits(64, columns, depth)
    partition = chosen.partition
    tiles = (partition.grid[0], partition.block[0], partition.forloop, chosen.split)
    assert tiles == (columns // 64, 128, depth // 128, parts)


@pytest.mark.parametrize("depth", [4096, 12288, 14336])
def test_blocks_of_a_row_have_the_columns_of_an_instruction_and_all_of_the_depth(
    depth: int,
) -> None:
    """A second kernel that adds up parts takes longer than tiles of few columns."""
    chosen = chosen_of_4_bits(1, 4096, depth)
    assert (chosen.partition.grid[0], chosen.split) == (256, 1)


@pytest.mark.parametrize(("columns", "depth"), [(8192, 8192), (4096, 14336)])
def test_each_warp_has_columns_of_a_group(columns: int, depth: int) -> None:
    """16 rows are two instructions of one warp, which converts its columns once for both."""
    partition = chosen_of_4_bits(16, columns, depth).partition
    groups = depth // 128 // partition.forloop
    parts = columns // partition.grid[0] // 16
    assert groups * parts >= partition.block[0] // 32
