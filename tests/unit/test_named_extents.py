"""Extents that a call says: kernels write their elements, at every size, and nothing else.

Outputs of emulated kernels lie between poisoned bytes, which must stay as they are, and inputs end
where memory does (``mugraph.runtime.execute``, ``tests/gpu/runtime/emulator``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph
import mugraph.build as mi
from mugraph.build.named_numbers import NamedNumber, Values
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.named_extents import ExtentError
from mugraph.dialects.sched import KernelOp
from mugraph.dialects.tensor_types import STAND_INS
from mugraph.jit.arguments import ArgumentError
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.schedule.persist_blocks import PersistBlocksPass
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Precision
from mugraph.runtime.interpreter.extents import static_call
from mugraph.runtime.interpreter.run import evaluate_function

Array = Any
RANDOM = np.random.default_rng(20)
LARGEST, BUCKETS = 150, (16, 64)
SIZES = (0, 1, 13, 16, 17, 61, 64, 65, 128, 149, 150)
"""None, one, primes, the edges of buckets and of tiles, and the largest."""


def rows(buckets: tuple[int, ...] = BUCKETS) -> mi.Extent:
    return mi.Extent("m", largest=LARGEST, buckets=buckets)


def norm() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("norm")
    x = graph.new_input((rows(), 72), name="x")
    graph.mark_output(graph.rms_norm(x, (72,)))
    return graph


def norm_linear() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("norm_linear")
    x = graph.new_input((rows(), 128), name="x")
    w = graph.new_input((128, 96), name="w")
    graph.mark_output(graph.rms_norm(x, (128,)) @ w)
    return graph


def linear() -> mi.KernelGraph:
    """A product that shares no kernel, which cuBLAS computes."""
    graph = mi.new_kernel_graph("linear")
    graph.mark_output(graph.new_input((rows(), 64), name="x") @ graph.new_input((64, 48)))
    return graph


def gated_mlp() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("gated_mlp")
    x = graph.new_input((rows(), 128), name="x")
    gate, up = (graph.new_input((128, 64), name=name) for name in ("gate", "up"))
    graph.mark_output(mi.silu(x @ gate) * (x @ up))
    return graph


def mlp(buckets: tuple[int, ...] = BUCKETS) -> mi.KernelGraph:
    """Several kernels, with intermediates; the long loop of few rows is divided over blocks."""
    graph = mi.new_kernel_graph("mlp")
    x = graph.new_input((rows(buckets), 64), name="x")
    gate, up = (graph.new_input((64, 512), name=name) for name in ("gate", "up"))
    down = graph.new_input((512, 64), name="down")
    graph.mark_output((mi.silu(x @ gate) * (x @ up)) @ down + x)
    return graph


def attention() -> mi.KernelGraph:
    """Queries and keys are of the same rows, of which those behind a row do not count."""
    graph = mi.new_kernel_graph("attention")
    q, k, v = (graph.new_input((rows(buckets=()), 32), name=name) for name in "qkv")
    scores = graph.matmul(q, graph.transpose(k), dtype=mi.float32) * 0.25
    weights = mi.cast(mi.softmax(mi.causal_mask(scores), 1), mi.float16)
    graph.mark_output(weights @ v)
    return graph


def heads() -> mi.KernelGraph:
    """Heads of a token stand side by side in memory."""
    graph = mi.new_kernel_graph("heads")
    given = [graph.new_input((rows(buckets=()), 2, 64), name=name) for name in "qkv"]
    q, k, v = (graph.transpose(each, (1, 0, 2)) for each in given)
    scores = mi.causal_mask(q @ graph.transpose(k, (0, 2, 1)) * 0.25)
    graph.mark_output(graph.transpose(mi.softmax(scores, 2) @ v, (1, 0, 2)))
    return graph


def projected() -> mi.KernelGraph:
    """Two heads of queries share keys and values, all of which kernels before it compute."""
    graph = mi.new_kernel_graph("projected")
    x = graph.new_input((rows(buckets=()), 64), name="x")

    def heads_of(name: str, count: int) -> mi.DTensor:
        product = x @ graph.new_input((64, count * 32), name=name)
        return graph.transpose(graph.reshape(product, (x.shape[0], count, 32)), (1, 0, 2))

    q, k, v = (heads_of(name, count) for name, count in (("q", 4), ("k", 2), ("v", 2)))
    k, v = mi.repeat(mi.exp(k), 2, 0), mi.repeat(v, 2, 0)
    scores = mi.causal_mask(q @ graph.transpose(k, (0, 2, 1)) * 0.25)
    graph.mark_output(graph.transpose(mi.softmax(scores, 2) @ v, (1, 0, 2)))
    return graph


def gram() -> mi.KernelGraph:
    """A product that adds up rows, of what a kernel before it computes."""
    graph = mi.new_kernel_graph("gram")
    x = graph.new_input((rows(), 64), name="x")
    norm = graph.rms_norm(x, (64,)) * 0.0625
    graph.mark_output(graph.transpose(mi.exp(x), (1, 0)) @ norm)
    return graph


def turned() -> mi.KernelGraph:
    """Rows of a call that come first in memory, and second among the dimensions of a product."""
    graph = mi.new_kernel_graph("turned")
    x = graph.transpose(graph.new_input((rows(buckets=()), 2, 128), name="x"), (1, 0, 2))
    product = mi.silu(x @ graph.new_input((2, 128, 64), name="w"))
    graph.mark_output(graph.transpose(product, (1, 0, 2)))
    return graph


def numpy_turned(x: Array, w: Array) -> Array:
    product = x.transpose(1, 0, 2) @ w
    return (product / (1 + np.exp(-product))).transpose(1, 0, 2)


def numpy_attention(q: Array, k: Array, v: Array) -> Array:
    powers = np.tril(np.exp(q @ k.T * 0.25))
    return powers / powers.sum(1, keepdims=True) @ v


def numpy_heads(q: Array, k: Array, v: Array) -> Array:
    own = (numpy_attention(*(each[:, head] for each in (q, k, v))) for head in range(2))
    return np.stack([*own], 1)


def numpy_projected(x: Array, *weights: Array) -> Array:
    q, k, v = ((x @ each).reshape(len(x), each.shape[1] // 32, 32) for each in weights)
    pairs = ((q[:, head], np.exp(k[:, head // 2]), v[:, head // 2]) for head in range(4))
    return np.stack([numpy_attention(*each) for each in pairs], 1)


def numpy_norm(x: Array) -> Array:
    return x / np.sqrt((x * x).mean(1, keepdims=True))


def numpy_gate(x: Array, gate: Array, up: Array) -> Array:
    return (x @ gate) / (1 + np.exp(-(x @ gate))) * (x @ up)


PROGRAMS: dict[str, tuple[Callable[[], mi.KernelGraph], Callable[..., Array]]] = {
    "norm": (norm, numpy_norm),
    "linear": (linear, lambda x, w: x @ w),
    "norm_linear": (norm_linear, lambda x, w: numpy_norm(x) @ w),
    "gated_mlp": (gated_mlp, numpy_gate),
    "mlp": (mlp, lambda x, g, u, d: numpy_gate(x, g, u) @ d + x),
    "attention": (attention, numpy_attention),
    "heads": (heads, numpy_heads),
    "projected": (projected, numpy_projected),
    "turned": (turned, numpy_turned),
    "gram": (gram, lambda x: np.exp(x).T @ numpy_norm(x) * 0.0625),
}
SHAPES = {
    "norm": [(72,)],
    "linear": [(64,), (64, 48)],
    "norm_linear": [(128,), (128, 96)],
    "gated_mlp": [(128,), (128, 64), (128, 64)],
    "mlp": [(64,), (64, 512), (64, 512), (512, 64)],
    "attention": [(32,), (32,), (32,)],
    "heads": [(2, 64), (2, 64), (2, 64)],
    "projected": [(64,), (64, 128), (64, 64), (64, 64)],
    "turned": [(2, 128), (2, 128, 64)],
    "gram": [(64,)],
}
OF_ROWS = {"attention": 3, "heads": 3}
"""How many of the inputs have rows, if more than one."""
OF_ALL_ROWS = ("gram",)
"""Programs whose result has no rows."""
"""The extents of inputs, but for the first one's rows."""
PLANS: dict[str, mugraph.Plan] = {
    "chosen": mugraph.Plan(),
    "cp_async": mugraph.Plan(loads="cp_async"),
    "rows": mugraph.Plan(),
    "tma": mugraph.Plan(loads="tma"),
    "groups": mugraph.Plan(
        tile=(0, 64, 0), grid=(2, 3, 1), loop_tile=64, forloop=3, block=(128, 1, 1), loads="tma"
    ),
}


@cache
def scheduled(program: str, plan: str, arch: str = "sm_90a") -> ModuleOp:
    """A program with the kernels of its buckets."""
    context, module = make_context(), PROGRAMS[program][0]().module()
    steps = [*compile_pipeline(arch, PLANS[plan])]
    if plan == "rows":
        # Tiles that divide no bucket: of the kernels for many rows, few rows have fewer.
        fused = 1 + [step.name for step in steps].index("fuse-kernels")
        steps.insert(fused, PlanPass(arch=arch, function=program, tile=(24, 0)))
    PassPipeline(tuple(steps)).apply(context, module)
    module.verify()
    return module


def sizes_of(program: str) -> tuple[int, ...]:
    if program in (*OF_ROWS, "projected"):  # each size takes long
        return (0, 1, 17, 61, 150)
    return SIZES[1:] if program in OF_ALL_ROWS else SIZES


def inputs_of(program: str, size: int) -> list[Array]:
    count = OF_ROWS.get(program, 1)
    shapes = [(size, *row) for row in SHAPES[program][:count]] + SHAPES[program][count:]
    return [(RANDOM.standard_normal(shape) * 0.2).astype(np.float16) for shape in shapes]


EMULATED = [
    ("mlp", "chosen"),
    ("linear", "chosen"),
    ("attention", "chosen"),
    ("gram", "chosen"),
    ("projected", "chosen"),
    ("turned", "tma"),
    ("heads", "groups"),
    ("norm_linear", "rows"),
    ("gated_mlp", "cp_async"),
]
if THOROUGH:
    EMULATED = [
        ("norm", "chosen"),
        ("mlp", "chosen"),
        ("linear", "chosen"),
        ("attention", "chosen"),
        ("gram", "chosen"),
        ("projected", "chosen"),
        ("turned", "tma"),
        ("heads", "groups"),
        *product(("norm_linear", "gated_mlp"), ("chosen", "cp_async", "rows")),
    ]

INTERPRETED = [
    (program, arch)
    for program in PROGRAMS
    for arch in ("sm_80", "sm_90a")
    # What is emulated has been compiled for sm_90a.
    if THOROUGH or (arch == "sm_90a") == ((program, "chosen") in EMULATED)
]


@pytest.mark.parametrize(("program", "plan"), EMULATED)
def test_emulated_kernels_write_their_rows(program: str, plan: str) -> None:
    module = scheduled(program, plan)

    def check(kernel: CudaModule) -> None:
        for size in sizes_of(program):
            inputs = inputs_of(program, size)
            (result,) = kernel.run(inputs)
            expected = PROGRAMS[program][1](*(array.astype(np.float64) for array in inputs))
            assert result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-3, err_msg=f"{size}")

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


def test_odd_rows_are_stored_in_vectors_up_to_the_size_of_a_call() -> None:
    graph = mi.new_kernel_graph("odd")
    x = graph.new_input((mi.Extent("m", largest=96), 32), name="x")
    graph.mark_output(x @ graph.new_input((32, 45), name="w"))
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    made = generate_cuda(module, make_context(), "sm_90a")
    assert "tb::StoreShifted<" in made.source
    w = RANDOM.standard_normal((32, 45)).astype(np.float16)

    def check(kernel: CudaModule) -> None:
        for size in (1, 37, 96):
            x = RANDOM.standard_normal((size, 32)).astype(np.float16)
            (result,) = kernel.run([x, w])
            expected = x.astype(np.float64) @ w.astype(np.float64)
            np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-3)

    check_emulated_later(made, check)


def test_what_a_call_says_no_kernel_reads_in_memory() -> None:
    """Tensor maps end where the call does, so that bulk copies bring what warp groups multiply."""
    module = scheduled("heads", "groups")
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    assert [kernel.is_number(held.argument) for held in kernel.held_lengths] == [True]
    names = {op.name for op in module.walk()}
    assert {"sched.bulk_copy", "sched.warpgroup_mma"} < names
    assert "kn.extent" not in names


def test_kernels_behind_others_end_where_the_call_does() -> None:
    """A mask of values is of those that several heads share, and in the kernel that reads them."""
    module = scheduled("projected", "chosen")
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert len(kernels) > 1 and all(kernel.cuts_by_call for kernel in kernels)
    assert [len(kernel.held_lengths) for kernel in kernels] == [*[0] * (len(kernels) - 1), 1]
    assert "kn.copy" not in {op.name for op in module.walk()}


def test_without_buckets_a_row_has_the_same_bits_whatever_the_number_of_rows() -> None:
    module = mlp(buckets=()).module()
    PassPipeline(compile_pipeline("sm_90a", mugraph.Plan())).apply(make_context(), module)

    def check(kernel: CudaModule) -> None:
        x, *weights = inputs_of("mlp", LARGEST)
        (whole,) = kernel.run([x, *weights])
        for first, end in ((0, 1), (5, 22), (60, 124), (149, 150)):
            (part,) = kernel.run([x[first:end], *weights])
            np.testing.assert_array_equal(part, whole[first:end])

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


def test_a_row_of_low_scores_has_a_softmax() -> None:
    """Masks that are added have a number of no key; a running maximum starts below it."""
    graph = mi.new_kernel_graph("low")
    q, k = (graph.new_input((rows(()), 16), dtype=mi.float32, name=name) for name in "qk")
    low = graph.new_input((rows(()), 1), dtype=mi.float32, name="low")
    graph.mark_output(mi.softmax(q @ graph.transpose(k) + low, 1) @ k)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a", mugraph.Plan())).apply(make_context(), module)
    assert "running" in str(module) or "difference" in str(module)
    q_, k_ = (RANDOM.standard_normal((101, 16)).astype(np.float32) for _ in "qk")
    added = np.where(np.arange(101) % 3 == 0, -(2.0**99), 0.0).astype(np.float32)[:, None]
    (found,) = run_function(module, "low", [q_, k_, added])
    scores = (q_ @ k_.T + added).astype(np.float64)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True) @ k_, atol=2e-2)


def tokens() -> ModuleOp:
    """Kernels that compute whole tensors stand before and behind one that ends with the rows."""
    graph = mi.new_kernel_graph("tokens")
    ids = graph.new_input((rows((16,)),), dtype=mi.int64, name="ids")
    table, w = (graph.new_input(shape, name=n) for n, shape in (("t", (50, 32)), ("w", (32, 40))))
    found = mi.gather(table, ids)
    product = graph.rms_norm(found, (32,)) @ w
    for result in (product, mi.arg_max(product, 1), ids, found, graph.add(ids, ids)):
        graph.mark_output(result)
    return graph.module()


def test_kernels_of_whole_tensors_have_copies_of_the_rows_of_a_call() -> None:
    written, module = tokens(), tokens()
    PassPipeline(compile_pipeline("sm_90a", mugraph.Plan())).apply(make_context(), module)
    table, w = (RANDOM.standard_normal(n).astype(np.float16) for n in ((50, 32), (32, 40)))

    def check(kernel: CudaModule) -> None:
        for size in (0, 1, 16, 17, 61, 150):
            given = [RANDOM.integers(0, 50, size), table, w]
            expected = run_function(written, None, given)
            for found in (kernel.run(given), run_function(module, "tokens", given)):
                for one, other in zip(found, expected, strict=True):
                    assert one.shape == other.shape
                    np.testing.assert_allclose(one, other, rtol=5e-3, atol=5e-3)

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


def test_a_kernel_reads_rows_that_numbers_of_a_call_name() -> None:
    """It reads as many numbers as its tile has: of a copy, as the call may have fewer."""
    graph = mi.new_kernel_graph("embedding")
    ids = graph.new_input((rows(()),), dtype=mi.int32, name="ids")
    table, w = graph.new_input((50, 32), name="table"), graph.new_input((32, 40), name="w")
    graph.mark_output(graph.rms_norm(mi.gather(table, ids), (32,)) @ w)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    module.verify()
    assert "kn.gather" not in str(module) and str(module).count("kn.copy") == 1

    def check(kernel: CudaModule) -> None:
        values, w = (RANDOM.standard_normal(n).astype(np.float16) for n in ((50, 32), (32, 40)))
        for size in (0, 1, 61, 150):
            given = [RANDOM.integers(0, 50, size).astype(np.int32), values, w]
            expected = numpy_norm(values.astype(np.float64)[given[0]]) @ w.astype(np.float64)
            for (found,) in (kernel.run(given), run_function(module, "embedding", given)):
                assert found.shape == expected.shape
                np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-2)

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


def test_the_library_multiplies_rows_of_a_call_where_there_are_buckets() -> None:
    made = generate_cuda(scheduled("linear", "chosen"), make_context(), "sm_90a")
    assert made.source.count("kn::gemm<") == 1 + len(BUCKETS)
    graph = mi.new_kernel_graph("linear")
    graph.mark_output(graph.new_input((rows(buckets=()), 64)) @ graph.new_input((64, 48)))
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    assert "kn.matmul" not in str(module)


def test_blocks_that_share_a_loop_are_launched_for_the_matrices_of_a_call() -> None:
    """Each block stores its part beside those of others along the dimension that the call says."""
    graph = mi.new_kernel_graph("products")
    b = mi.Extent("b", largest=6)
    x, w = (
        graph.new_input((b, *shape), name=n) for n, shape in (("x", (16, 256)), ("w", (256, 32)))
    )
    graph.mark_output(x @ w)
    module = graph.module()
    plan = mugraph.Plan(grid=(6, 1, 1), forloop=8, split_k=4)
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert [kernel.grid_dim[0] for kernel in kernels] == [6, 6]
    assert all([(cut.axis, cut.step) for cut in kernel.cuts] == [(0, 1)] for kernel in kernels)

    def check(kernel: CudaModule) -> None:
        for size in (0, 1, 5, 6):
            given = [
                RANDOM.standard_normal((size, *n)).astype(np.float16)
                for n in ((16, 256), (256, 32))
            ]
            (result,) = kernel.run(given)
            expected = np.matmul(*(array.astype(np.float64) for array in given))
            np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-2, err_msg=f"{size}")

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


def test_blocks_of_a_grid_that_a_call_cuts_alternate_consumers() -> None:
    """Two blocks take all work tiles that a call has, and two consumers those of a block."""
    plan = mugraph.Plan(tile=(64, 0), grid=(3, 2), block=(128,), forloop=2, ping_pong=2)
    steps = [
        PersistBlocksPass(blocks=2) if isinstance(step, PersistBlocksPass) else step
        for step in compile_pipeline("sm_90a", plan)
    ]
    graph = mi.new_kernel_graph("gated_mlp")
    x = graph.new_input((rows(()), 512), name="x")
    gate, up = (graph.new_input((512, 128), name=name) for name in ("gate", "up"))
    graph.mark_output(mi.silu(x @ gate) * (x @ up))
    module = graph.module()
    PassPipeline(tuple(steps)).apply(make_context(), module)
    assert "persistent 2" in str(module) and "ping_pong 1" in str(module)
    weights = [(RANDOM.standard_normal((512, 128)) * 0.1).astype(np.float16) for _ in range(2)]

    def check(kernel: CudaModule) -> None:
        for size in (1, 64, 65, 150):
            x = (np.random.default_rng(size).standard_normal((size, 512)) * 0.2).astype(np.float16)
            inputs = [x, *weights]
            (result,) = kernel.run(inputs)
            expected = numpy_gate(*(array.astype(np.float64) for array in inputs))
            np.testing.assert_allclose(result, expected, rtol=5e-3, atol=5e-3, err_msg=f"{size}")

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("program", "arch"), INTERPRETED)
def test_interpreted_kernels_write_their_rows(
    program: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no row is, tensors have NaN before and after."""
    module = scheduled(program, "chosen", arch)
    (function,) = (op for op in module.body.block.ops if op.name == "func.func" and _is_whole(op))
    empty = Arithmetic.empty

    def poisoned(self: Arithmetic, type_: Any) -> Array:
        made = empty(self, type_)
        made[...] = np.nan
        return made

    monkeypatch.setattr(Arithmetic, "empty", poisoned)
    for size in filter(None, sizes_of(program)):
        inputs = inputs_of(program, size)
        call = static_call(module, function, inputs)
        (whole,) = evaluate_function(
            module, call.function, call.inputs, Arithmetic(Precision.STORAGE)
        )
        expected = PROGRAMS[program][1](*(array.astype(np.float64) for array in inputs))
        if program not in OF_ALL_ROWS:
            assert np.isnan(whole[size:]).all()
        np.testing.assert_allclose(whole[: len(expected)], expected, rtol=5e-3, atol=5e-3)


def _is_whole(op: Any) -> bool:
    return "mugraph.bucket_of" not in op.attributes


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_interpreted_at_any_size(program: str) -> None:
    module = PROGRAMS[program][0]().module()
    for size in sizes_of(program):
        inputs = inputs_of(program, size)
        (result,) = run_function(module, None, inputs, "float64")
        expected = PROGRAMS[program][1](*(array.astype(np.float64) for array in inputs))
        np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_a_compiled_function_takes_any_rows() -> None:
    kernel = mugraph.compile(gated_mlp(), "cpu")
    for size in (0, 1, 37, LARGEST):
        inputs = inputs_of("gated_mlp", size)
        out = np.full((size + 3, 64), 7, np.float16)
        kernel(*inputs, out=out[:size])
        np.testing.assert_array_equal(out[:size], kernel(*inputs))
        assert (out[size:] == 7).all()


def test_calls_that_do_not_fit() -> None:
    graph = mi.new_kernel_graph()
    m = mi.Extent("m", largest=64, multiple=8)
    x, y = (graph.new_input((m, 8), name=name) for name in "xy")
    graph.mark_output(x + y)
    kernel = mugraph.compile(graph, "cpu")

    def refused(one: int, other: int) -> str:
        with pytest.raises(ArgumentError) as error:
            kernel(np.zeros((one, 8), np.float16), np.zeros((other, 8), np.float16))
        return str(error.value)

    assert "dimension 0 of input 1 has 8 elements and dimension 0 of input 0 has 16" in refused(
        16, 8
    )
    assert "m is 72; it may be 0 to 64" in refused(72, 72)
    assert "m is 12, which is no multiple of 8" in refused(12, 12)
    with pytest.raises(ArgumentError, match=r"input 0 \('x'\) is a list; expected an array"):
        kernel([1, 2], np.zeros((8, 8), np.float16))
    with pytest.raises(ArgumentError, match="m is 0; it is at least 1, as there is a result"):
        mugraph.compile(gram(), "cpu")(np.zeros((0, 64), np.float16))


def test_emulated_calls_that_do_not_fit() -> None:
    """The same of what runs generated code."""
    made = generate_cuda(scheduled("norm", "chosen"), make_context(), "sm_90a")
    with pytest.raises(ExtentError, match="m is 151; it may be 0 to 150"):
        made.signature.of_call([np.zeros((LARGEST + 1, 72), np.float16)])


def mean_of_rows(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.mean(graph.new_input((m, 8), name="x"), 0)


def merged(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.reshape(graph.new_input((m, 4, 8), name="x"), (m * 4, 8))


def with_other_rows(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.new_input((m, 8), name="x") + graph.new_input((17, 8), name="y")


def second_dimension(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return mi.exp(graph.new_input((16, m), name="x"))


def transposed(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.transpose(mi.exp(graph.new_input((m, 16), name="x")), (1, 0))


def largest_elements(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.top_k(graph.new_input((m, 16), name="x"), 3, 0)[0]


def two_meanings(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    other = graph.new_input((mi.Extent("m", largest=3), 16), name="y")
    return graph.new_input((m, 16), name="x") + other


def sliced_rows(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.new_input((m, 16), name="x")[-1:]


def sliced_columns(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    """A call may have fewer rows than there are columns: none is left out while it is built."""
    return graph.new_input((m, 16), name="x")[:, :m]


def longer(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return graph.concat(graph.new_input((m, 16)), graph.new_input((3, 16)), 0, name="y")


def customized(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    block = mi.ThreadblockGraph((4, 1, 1), (128, 1, 1), 1, 64)
    return block.new_input(graph.new_input((m, 16)), (0, -1, -1), -1)  # pyright: ignore


def with_strides(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    x = graph.new_input((m, 16)) * 2.0
    graph.mark_output(x, strides=(32, 1))
    return x


def grouped(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    ends = graph.new_input((4,), dtype=mi.int32)
    return mi.grouped_matmul(graph.new_input((m, 64)), graph.new_input((4, 64, 32)), ends)


def test_a_value_returned_twice_and_an_argument_are_results_of_their_own() -> None:
    graph = mi.new_kernel_graph("twice")
    x = graph.new_input((rows(), 16), name="x")
    y = mi.exp(x)
    for result in (y, y, x):
        graph.mark_output(result)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a", mugraph.Plan())).apply(make_context(), module)
    given = RANDOM.standard_normal((37, 16)).astype(np.float16)
    results = run_function(module, "twice", [given])
    for found, wanted in zip(results, (np.exp(given), np.exp(given), given), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-3)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"largest": 0}, "'m': largest, multiple and buckets are at least 1"),
        ({"largest": 16, "buckets": (32,)}, "a bucket cannot be: m is 32; it may be 0 to 16"),
        ({"largest": 16, "multiple": 5}, "m is 16, which is no multiple of 5"),
        ({"largest": "big"}, "'m': largest and multiple: .*; expected integers"),
        ({"largest": 2**31}, "give a multiple of it from 1 to 2147483647"),
    ],
)
def test_numbers_that_cannot_be_are_refused_where_they_stand(
    numbers: dict[str, Any], message: str
) -> None:
    with pytest.raises(mi.BuildError, match=message):
        mi.Extent("m", **numbers)


def test_messages_name_extents_in_numbers_of_elements_too() -> None:
    graph, m, k = mi.new_kernel_graph("named"), rows(), mi.Extent("k", largest=8)
    x = graph.new_input((m, k, 4))
    with pytest.raises(mi.BuildError, match=r"mx8 are 8\*m elements, .*mxkx4 are 4\*m\*k$"):
        mi.reshape(x, (m, 8))


def below(m: mi.Extent) -> Callable[[LinearForm, LinearForm], LinearForm]:
    """What a mask would keep that ends at an extent."""
    return lambda i, j: m - 1 - i


DEPENDS: list[Callable[[mi.DTensor, mi.Extent], object]] = [
    lambda x, m: x * (1.0 / m),
    lambda x, m: x * m,
    lambda x, m: x * x.shape[0] ** -0.5,
    lambda x, m: x[:, : m % 7],
    lambda x, m: x[:, : m // 2],
    lambda x, m: x if m > 5 else x + 1.0,
    lambda x, m: x if m > 1 else x + 1.0,
    lambda x, m: x if m == 5 else x + 1.0,
    lambda x, m: x if m else x + 1.0,
    lambda x, m: x if m == np.int64(5) else x + 1.0,
    lambda x, m: x if m == 5.0 else x + 1.0,
    lambda x, m: x if m - 5 else x + 1.0,
    lambda x, m: x if m - 5 > 0 else x + 1.0,
    lambda x, m: x if m + 1 > 1 else x + 1.0,
    lambda x, m: x if m + 1 == 5 else x + 1.0,
    lambda x, m: x if -m < 0 else x + 1.0,
    lambda x, m: x if m - mi.Extent("other", largest=8) > 0 else x + 1.0,
    lambda x, m: x if m == mi.Extent("other", largest=8) else x + 1.0,
    lambda x, m: x if 2 * m > 1 else x + 1.0,
    lambda x, m: x if x.shape[0] == 8 else x + 1.0,
    lambda x, m: x if x.shape[0] == 1 else x + 1.0,
    lambda x, m: x if x.shape[0] > 1 else x + 1.0,
    lambda x, m: x if x.shape == (8, 16) else x + 1.0,
    lambda x, m: x if x.shape[0] else x + 1.0,
    lambda x, m: x if x.shape[0] in range(9) else x + 1.0,
    lambda x, m: x if m == complex(8) else x + 1.0,
    lambda x, m: x[:, : min(m, 8)],
    lambda x, m: x[:, : (m + 1) // 2],
    lambda x, m: f"{m:d}",
    lambda x, m: x * int(m),
    lambda x, m: [x for _ in range(m)],
    lambda x, m: [x] * (m & 7),
    lambda x, m: x * round(m),
    lambda x, m: mi.mask(x, below(m)),
]


@pytest.mark.parametrize("compute", DEPENDS)
def test_nothing_depends_on_what_stands_in_for_an_extent(
    compute: Callable[[mi.DTensor, mi.Extent], object],
) -> None:
    graph, m = mi.new_kernel_graph(), rows()
    x = graph.new_input((m, 16), name="x")
    with pytest.raises(mi.BuildError, match=r"'.*m.*' is known only at a call: while a graph is"):
        compute(x, m)


def test_comparisons_answer_what_holds_of_every_value() -> None:
    m, other = mi.Extent("m", largest=64, multiple=8), mi.Extent("other", largest=32)
    (extent, _) = mi.new_kernel_graph().new_input((m, 16)).shape
    assert m <= 64
    assert not m > 64
    assert m >= 0
    assert not m < 0
    assert m != 65
    assert m != 12  # no multiple of 8
    assert m != 12.0
    assert m != math.inf
    assert m <= np.int64(64)
    assert m * np.int64(2) == 2 * m
    assert m == m
    assert m <= m
    assert m != other - 33
    assert m + other < 97
    assert 2 * m - m == m
    assert 2 * m + 4 != 3
    assert m % 4 == 0 and (m + 3) % 8 == 3
    assert 4 * m // 2 == 2 * m and m * other // other == m
    assert (m + 1) * (m - 1) + 1 == m * m
    assert min(m, 64) == m == max(m, 0)
    assert extent == m and extent != 65 and extent <= 64
    assert m != "m"
    assert f"{m:>4}" == "   m" and f"{2 * (other - m) + 1}" == "2 * other - 2 * m + 1"


def test_numbers_that_stand_in_alike_are_not_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The primes of four extents may lie equally far apart."""
    for prime in (101, 103, 107, 109):
        monkeypatch.setitem(STAND_INS, prime, f"m{prime}")
    one, two, three, four = (
        NamedNumber({(prime,): 1}, {prime: Values(0, 8)}) for prime in (101, 103, 107, 109)
    )
    assert (two - one).stand_in == (four - three).stand_in
    with pytest.raises(mi.BuildError, match="known only at a call"):
        bool(two - one == four - three)


def test_what_stands_in_for_a_sum_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The primes of two extents may be 4096 apart, as those of others are."""
    primes = {"one": 20001067, "two": 20005163, "three": 20006101, "four": 20010197}
    for name, prime in primes.items():
        monkeypatch.setitem(STAND_INS, prime, name)
    one, two, three, four = (mi.Extent(name, largest=64) for name in primes)
    graph = mi.new_kernel_graph()
    x, row = graph.new_input((one, two), name="x"), graph.new_input((1, 16), name="row")
    for computed, text in ((one + 4096, "one \\+ 4096"), (two - one, "two - one")):
        with pytest.raises(mi.BuildError, match=f"^new_input: an extent would be '{text}'"):
            graph.new_input((computed, 16))
        with pytest.raises(mi.BuildError, match=f"^broadcast_to: an extent would be '{text}'"):
            graph.broadcast_to(row, (computed, 16))
    with pytest.raises(mi.BuildError, match="depends on 'one \\+ 4096'"):
        graph.new_input((two, 16))[: one + 4096]  # pyright: ignore[reportArgumentType]
    with pytest.raises(
        mi.BuildError, match="is four - three; expected a whole number, or two - one"
    ):
        mi.causal_mask(x, four - three)


def test_threads_that_name_an_extent_at_once_mean_the_same() -> None:
    def named(_: int) -> list[int]:
        return [mi.Extent(f"of_threads{name}", largest=8).stand_in for name in range(40)]

    switches = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            found = [*threads.map(named, range(4))]
    finally:
        sys.setswitchinterval(switches)
    assert found == found[:1] * 4


PARTS: list[tuple[Callable[[mi.Extent], slice], str]] = [
    (lambda m: slice(m - 1), "m - 1"),
    (lambda m: slice(2 * (m + 1), None), r"2 \* m \+ 2"),
]


@pytest.mark.parametrize(("part", "text"), PARTS)
def test_a_slice_says_what_it_depends_on(part: Callable[[mi.Extent], slice], text: str) -> None:
    graph, m = mi.new_kernel_graph(), rows()
    x = graph.new_input((m, 16), name="x")
    for extent in (m, x.shape[0]):
        with pytest.raises(mi.BuildError, match=f"the slice of dimension 1 depends on '{text}'"):
            x[:, part(extent)]  # pyright: ignore[reportArgumentType]
    with pytest.raises(mi.BuildError, match="an extent would be 'm \\+ 1'"):
        graph.new_input((m + 1, 4))


def wrong_offset(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return mi.causal_mask(graph.new_input((m, 16)), m + 1)


def part_of_an_offset(graph: mi.KernelGraph, m: mi.Extent) -> mi.DTensor:
    return mi.causal_mask(graph.new_input((m, 16)), 1.5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (part_of_an_offset, "causal_mask: the offset: (1.5,); expected integers"),
        (wrong_offset, "or 16 - m, the keys and queries of the scores"),
        (mean_of_rows, "combines elements along dimension 0 of %x, whose extent 'm'"),
        (merged, "would be 'm' times 4; keep 'm' a dimension of its own"),
        (with_other_rows, "operands mx8 and 17x8 differ in dimension 0"),
        (second_dimension, "put the named dimension first"),
        (transposed, "only its first dimension may have one"),
        (largest_elements, "'kn.top_k' of %x does not take %x"),
        (two_meanings, "use one mi.Extent for all tensors"),
        (sliced_rows, "DTensor(mx16xf16)[...]: the slice of dimension 0 depends on 'm', which is"),
        (sliced_columns, "the slice of dimension 1 depends on 'm', which is known only at a call"),
        (longer, "%y would have a number of elements that is computed from 'm'"),
        (customized, "dimension 0 of the tensor is 'm', which only a call says"),
        (with_strides, "mark_output: a result with a named extent is row-major; leave out strides"),
        (grouped, "grouped_matmul: there are 'm' rows, known only at a call"),
    ],
)
def test_programs_that_are_refused(
    program: Callable[[mi.KernelGraph, mi.Extent], mi.DTensor], message: str
) -> None:
    graph = mi.new_kernel_graph()
    with pytest.raises(mi.BuildError) as error:
        graph.mark_output(program(graph, rows()))
        graph.module()
    assert message in str(error.value)


def test_a_sum_with_a_small_number_is_no_other_extent() -> None:
    graph = mi.new_kernel_graph("program")
    extents = [mi.Extent(f"apart{number}", largest=64) for number in range(8)]
    for extent in extents:
        for added in range(1, 128):
            with pytest.raises(mi.BuildError, match=rf"would be 'apart\d - {added}'"):
                graph.new_input((extent - added, 4))


def test_each_of_a_prime_number_of_tokens_may_have_a_block() -> None:
    """No tile of several rows divides them; a block that is launched has its row."""
    graph, m = mi.new_kernel_graph("embedding"), mi.Extent("m", largest=257)
    table, ids = graph.new_input((11, 33)), graph.new_input((m,), dtype=mi.int32)
    graph.mark_output(mi.softmax(mi.gather(table, ids), 1))
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    module.verify()
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    assert kernel.grid_dim[0] == 257
    rows, numbers = np.random.default_rng(7).random((11, 33)), np.arange(53) % 11
    inputs = [rows.astype(np.float16), numbers.astype(np.int32)]
    (found,) = run_function(module, None, inputs)
    (wanted,) = run_function(graph.module(), None, inputs, "float64")
    np.testing.assert_allclose(found, wanted, atol=1e-3)
