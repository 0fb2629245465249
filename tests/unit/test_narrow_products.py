"""Products of 8-bit types: the instructions that schedules have, and values through all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from cases.check import derived
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

Array = npt.NDArray[Any]
TYPES = {
    "e4m3": (mi.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    "e5m2": (mi.float8_e5m2, ml_dtypes.float8_e5m2),
    "s8": (mi.int8, np.int8),
}


def drawn(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    """Normal numbers, or all integers alike."""
    random = np.random.default_rng(seed)
    if kind == "s8":
        return random.integers(-128, 128, shape).astype(np.int8)
    return random.standard_normal(shape).astype(TYPES[kind][1])


def linear(kinds: tuple[str, str], extents: tuple[int, int, int]) -> ModuleOp:
    """x (m, k) times the transpose of weights (n, k), as layers store them."""
    rows, columns, depth = extents
    graph = mi.new_kernel_graph("linear")
    x = graph.new_input((rows, depth), dtype=TYPES[kinds[0]][0])
    w = graph.new_input((columns, depth), dtype=TYPES[kinds[1]][0])
    if kinds[0] == "s8":
        sums = mi.cast(graph.matmul(x, mi.transpose(w)), mi.float32)
    else:
        sums = graph.matmul(x, mi.transpose(w), dtype=mi.float32)
    graph.mark_output(sums)
    return graph.module()


def compiled(module: ModuleOp, plan: Plan, arch: str = "sm_90a") -> ModuleOp:
    """The schedule of a program under a plan."""
    PassPipeline(compile_pipeline(arch, plan)).apply(make_context(), module)
    module.verify()
    return module


def instructions(module: ModuleOp) -> set[str]:
    """The instructions of its products."""
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp | sched.WarpgroupMmaOp)]
    types = [op.results[0].type for op in products]
    return {
        type_.tiled_mma.atom
        for type_ in types
        if isinstance(type_, sched.TileType) and type_.tiled_mma
    }


def assert_product(result: Array, x: Array, w: Array) -> None:
    """Products of bytes are exact, and so are sums of integers; others err by roundings of f32."""
    exact = x.astype(np.float64) @ w.astype(np.float64).T
    if x.dtype == np.int8:
        np.testing.assert_array_equal(result, exact)
        return
    most = np.abs(x.astype(np.float64)) @ np.abs(w.astype(np.float64)).T
    assert (np.abs(result - exact) <= 2**-20 * most).all()


BY_GROUPS = Plan(tile=(64, 64), loop_tile=64, block=(128,), loads="tma", promote=True)


@pytest.mark.parametrize(
    "kinds", [("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"), ("s8", "s8")]
)
def test_warp_groups_multiply_bytes_as_they_are_stored(kinds: tuple[str, str]) -> None:
    module = compiled(linear(kinds, (128, 128, 128)), BY_GROUPS)
    sums = "S32" if "s8" in kinds else "F32"
    pair = "".join(kinds).upper()
    assert instructions(module) == {f"SM90_64x64x32_{sums}{pair}_SS_TN"}
    x, w = drawn(kinds[0], (128, 128), 0), drawn(kinds[1], (128, 128), 1)
    for level in ("logical", "address"):
        (interpreted,) = run_function(module, None, [x, w], level=level)
        assert_product(interpreted, x, w)
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_product(*kernels.run([x, w]), x, w))


BY_WARPS = Plan(tile=(0, 32), loop_tile=64, block=(64,), loads="cp_async")


@pytest.mark.parametrize(
    ("kinds", "rows"),
    [(("e4m3", "e4m3"), 1), (("e5m2", "e4m3"), 24), (("e5m2", "e5m2"), 16), (("e4m3", "e5m2"), 8)],
)
def test_warps_multiply_bytes_as_they_are_stored(kinds: tuple[str, str], rows: int) -> None:
    """Both matrices by ``ldmatrix``, of whole rows of 16 bytes along k."""
    module = compiled(linear(kinds, (rows, 96, 128)), BY_WARPS)
    pair = "".join(kinds).upper()
    assert instructions(module) == {f"SM89_16x8x32_F32{pair}F32_TN"}
    assert all(op.ldmatrix == (True, True) for op in module.walk() if isinstance(op, sched.MmaOp))
    x, w = drawn(kinds[0], (rows, 128), 2), drawn(kinds[1], (96, 128), 3)
    for level in ("logical", "address"):
        (interpreted,) = run_function(module, None, [x, w], level=level)
        assert_product(interpreted, x, w)
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_product(*kernels.run([x, w]), x, w))


def test_f8_becomes_f16_where_no_instruction_takes_it() -> None:
    module = compiled(linear(("e4m3", "e5m2"), (16, 96, 128)), BY_WARPS, "sm_80")
    assert instructions(module) == {"SM80_16x8x16_F32F16F16F32_TN"}


def scaled(kinds: tuple[str, str], extents: tuple[int, int, int], by: str) -> ModuleOp:
    """The same in bf16, times a scale of the whole tensor each, or of each row and column."""
    rows, columns, depth = extents
    graph = mi.new_kernel_graph("scaled")
    x = graph.new_input((rows, depth), dtype=TYPES[kinds[0]][0])
    w = graph.new_input((columns, depth), dtype=TYPES[kinds[1]][0])
    shapes = ((rows, 1), (1, columns)) if by == "rows" else ((1, 1), (1, 1))
    scale_x, scale_w = (graph.new_input(shape, dtype=mi.float32) for shape in shapes)
    if kinds[0] == "s8":
        sums = mi.cast(graph.matmul(x, mi.transpose(w)), mi.float32)
    else:
        sums = graph.matmul(x, mi.transpose(w), dtype=mi.float32)
    graph.mark_output(mi.cast(sums * scale_x * scale_w, mi.bfloat16))
    return graph.module()


@pytest.mark.parametrize("kinds", [("e4m3", "e4m3"), ("s8", "s8")])
@pytest.mark.parametrize("by", ["rows", "tensors"])
def test_scales_are_applied_to_registers_in_the_kernel_of_the_product(
    kinds: tuple[str, str], by: str
) -> None:
    """From device memory: shared memory holds rings alone."""
    module = compiled(scaled(kinds, (128, 128, 128), by), BY_GROUPS)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert {atom[:16] for atom in instructions(module)} == {
        "SM90_64x64x32_" + "FS"["s8" in kinds] + "3"
    }
    loads = [op for op in kernel.walk() if isinstance(op, sched.LoadOp)]
    assert len(loads) == 2
    assert all(isinstance(op.source.type, sched.GlobalType) for op in loads)
    x, w = drawn(kinds[0], (128, 128), 4), drawn(kinds[1], (128, 128), 5)
    random = np.random.default_rng(6)
    shapes = ((128, 1), (1, 128)) if by == "rows" else ((1, 1), (1, 1))
    scales = [random.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
    exact = x.astype(np.float64) @ w.astype(np.float64).T * scales[0] * scales[1]
    for level in ("logical", "address"):
        (result,) = run_function(module, None, [x, w, *scales], level=level)
        np.testing.assert_allclose(result.astype(np.float64), exact, rtol=2**-8, atol=1e-4)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w, *scales])
        np.testing.assert_allclose(result.astype(np.float64), exact, rtol=2**-8, atol=1e-4)

    check_emulated_later(generate_cuda(module, make_context(), "sm_90a"), check)


@pytest.mark.parametrize("kind", ["e4m3", "e5m2", "s8"])
def test_codes_that_nothing_reads_are_stored_from_registers(kind: str) -> None:
    """They are rounded as they are stored; halfway points and the largest number are among them."""
    graph = mi.new_kernel_graph("quantise")
    codes, scales = mi.quantize(
        graph.new_input((4, 512), dtype=mi.bfloat16), TYPES[kind][0], (1, 512)
    )
    graph.mark_output(codes)
    graph.mark_output(scales)
    x = (np.arange(-1024, 1024).reshape(4, 512) / 16).astype(ml_dtypes.bfloat16)
    expected = run_function(graph.module(), None, [x])
    module = compiled(graph.module(), Plan())
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    shared = [op.result.type for op in kernel.walk() if isinstance(op, sched.AllocOp)]
    assert all(element_bytes_of(type_) > 1 for type_ in shared)

    def check(results: list[Array]) -> None:
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_array_equal(result, value)

    for level in ("logical", "address"):
        check(run_function(module, None, [x], level=level))
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: check(kernels.run([x])))


def cut(numbers: Array, largest: Array, bits: int) -> Array:
    """Numbers without what lies more than so many bits below the largest one beside them."""
    unit = np.exp2(np.floor(np.log2(np.maximum(largest, 1e-300))) - bits)
    return np.trunc(numbers / unit) * unit


def added_coarsely(x: Array, w: Array, every: int, bits: int = 13) -> Array:
    """x times the transpose of w as an instruction adds that cuts addends; by parts along k."""
    total = np.zeros((len(x), len(w)))
    for part in range(0, x.shape[1], every):
        sums = np.zeros_like(total)
        for first in range(part, part + every, 32):
            ours, theirs = (each[:, first : first + 32].astype(np.float64) for each in (x, w))
            products = ours[:, None, :] * theirs[None, :, :]
            addends = np.concatenate([products, sums[:, :, None]], 2)
            addends = cut(addends, np.abs(addends).max(2, keepdims=True), bits)
            sums = addends.sum(2)
            sums = cut(sums, np.abs(sums), bits)
        total += sums
    return total


@pytest.mark.parametrize("promote", [True, False])
def test_what_few_bits_lose_is_in_the_budget(promote: bool) -> None:
    """Promoted sums are added in f32 once an iteration; without that they lose more and more."""
    plan = replace(BY_GROUPS, promote=promote)
    module = compiled(linear(("e4m3", "e4m3"), (64, 64, 1024)), plan)
    products = [op for op in module.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert [(op.is_fresh, op.is_async) for op in products] == [(promote, not promote)]
    x, w = drawn("e4m3", (64, 1024), 7), drawn("e4m3", (64, 1024), 8)
    (exact,), (budget,) = derived(module, [x, w])
    error = np.abs(added_coarsely(x, w, 64 if promote else 1024) - exact)
    assert (error <= budget).all()
    # Of results of about 32.
    assert budget.max() < (2.5 if promote else 16)
    assert error.max() > 2**-24 * np.abs(exact).max()


@pytest.mark.parametrize(("kinds", "rows"), [(("e4m3", "e5m2"), 16), (("s8", "s8"), 8)])
def test_few_rows_by_swapped_operands(kinds: tuple[str, str], rows: int) -> None:
    """The hardware's left matrix is the right one, with its own type."""
    plan = Plan(tile=(0, 64), loop_tile=64, block=(128,), loads="tma", swap_ab=True)
    module = compiled(linear(kinds, (rows, 128, 256)), plan)
    pair, sums = "".join(kinds).upper(), "S32" if "s8" in kinds else "F32"
    assert instructions(module) == {f"SM90_{rows}x64x32_{sums}{pair}_SWAPPED"}
    x, w = drawn(kinds[0], (rows, 256), 9), drawn(kinds[1], (128, 256), 10)
    for level in ("logical", "address"):
        (interpreted,) = run_function(module, None, [x, w], level=level)
        assert_product(interpreted, x, w)
    made = generate_cuda(module, make_context(), "sm_90a")
    check_emulated_later(made, lambda kernels: assert_product(*kernels.run([x, w]), x, w))
