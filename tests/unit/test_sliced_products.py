"""Groups of k with scales of their own are multiplied by different warps."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from emulated_programs import check_emulated_later, graph_of
from thorough import THOROUGH
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import sched, tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.costs.work import Product
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.mugraph.factor_products import FactorProductsPass
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.passes.mugraph.slice_products import SliceProductsPass
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function

RANDOM = np.random.default_rng(11)
Array = npt.NDArray[Any]
GROUP = 128


def of_4_bits(x: mi.DTensor, packed: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
    """x (m, k) times the transpose of w (n, k), of 4 bits and with scales (k / 128, n)."""
    wide = mi.dequantize(packed, mi.transpose(scales), format="int4", dim=1, storage="halves")
    return x @ mi.transpose(wide)


def of_8_bits(x: mi.DTensor, whole: mi.DTensor, scales: mi.DTensor) -> mi.DTensor:
    """The same of 8 bits."""
    return x @ mi.transpose(mi.dequantize(whole, mi.transpose(scales)))


def drawn(program: Any, rows: int, columns: int, depth: int) -> tuple[list[Array], Array]:
    """Inputs, and the product in float64."""
    x = RANDOM.standard_normal((rows, depth)).astype(ml_dtypes.bfloat16)
    scales = RANDOM.uniform(0.5, 2, (depth // GROUP, columns)).astype(ml_dtypes.bfloat16)
    if program is of_8_bits:
        weights = RANDOM.integers(-128, 128, (columns, depth))
        stored = weights.astype(np.int8)
    else:
        weights = RANDOM.integers(-8, 8, (columns, depth))
        halves = (weights & 15).reshape(columns, -1, 2, 64)
        stored = (halves[:, :, 0] | halves[:, :, 1] << 4).astype(np.int8).reshape(columns, -1)
    wide = weights * scales.T.astype(np.float64).repeat(GROUP, 1)
    return [x, stored, scales], x.astype(np.float64) @ wide.T


def assert_near(result: Array, expected: Array) -> None:
    """The result is rounded to bf16."""
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < 4e-3


@pytest.mark.parametrize(
    ("program", "rows", "warps", "loop", "compiled"),
    [
        (of_4_bits, 1, 4, 2, THOROUGH),
        (of_4_bits, 5, 8, 2, True),  # two warps a group
        (of_4_bits, 16, 4, 4, True),  # two groups an iteration
        (of_8_bits, 1, 4, 2, THOROUGH),
        (of_8_bits, 24, 4, 2, True),
        (of_4_bits, 9, 4, 8, True),  # one group for all warps
        (of_8_bits, 16, 2, 8, THOROUGH),
        (of_4_bits, 2, 8, 1, True),  # no loop
    ],
)
def test_each_group_has_warps_of_its_own(
    program: Any, rows: int, warps: int, loop: int, *, compiled: bool
) -> None:
    """In registers, with scales of its own; right by values, on bytes and as CUDA.

    Of up to 16 rows warps compute the transposed product, unless they share one group.  What
    differs from others in numbers alone is compiled with ``MUGRAPH_THOROUGH=1``.
    """
    inputs, expected = drawn(program, rows, 64, 8 * GROUP)
    plan = Plan(forloop=loop, block=(32 * warps, 1, 1), loads="cp_async")
    module = graph_of(program, *inputs).module()
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert products and all(op.parts == 8 // loop for op in products)
    assert all(op.is_sliced == (loop < 8) for op in products)
    transposed = rows <= 16 and loop < 8
    assert all(op.through is not None for op in products)
    assert all((op.atom is not None and op.atom.reads_runs) == transposed for op in products)
    for level in ("logical", "address"):
        (result,) = run_function(module, None, inputs, level=level)
        assert_near(result, expected)
    made = generate_cuda(module, make_context(), "sm_90a")
    if compiled:
        check_emulated_later(made, lambda kernels: assert_near(kernels.run(inputs)[0], expected))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("rows", "columns", "compiled"), [(3, 48, THOROUGH), (11, 80, THOROUGH), (11, 72, True)]
)
def test_columns_that_fill_no_instruction(rows: int, columns: int, *, compiled: bool) -> None:
    """Of the transposed product, whose rows of an instruction they are; right as CUDA."""
    inputs, expected = drawn(of_4_bits, rows, columns, 8 * GROUP)
    module = graph_of(of_4_bits, *inputs).module()
    plan = Plan(forloop=2, block=(128, 1, 1), grid=(1, 1, 1))
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    products = [op for op in module.walk() if isinstance(op, sched.MmaOp)]
    assert products and all(op.atom is not None and op.atom.reads_runs for op in products)
    for level in ("logical", "address"):
        (result,) = run_function(module, None, inputs, level=level)
        assert_near(result, expected)
    made = generate_cuda(module, make_context(), "sm_90a")
    if compiled:
        check_emulated_later(made, lambda kernels: assert_near(kernels.run(inputs)[0], expected))


def test_the_sum_over_groups_moves_behind_the_loop() -> None:
    """Which is proved."""
    inputs, expected = drawn(of_4_bits, 3, 64, 8 * GROUP)
    module = graph_of(of_4_bits, *inputs).module()
    fuse_program(only_function(module), target_named("sm_90a"))
    plan = Plan(forloop=2, block=(128, 1, 1))
    passes = (FactorProductsPass(), plan.over(PlanPass(notes=False)), RetilePass())
    PassPipeline(passes).apply(make_context(), module)
    before = module.clone()
    PassPipeline((SliceProductsPass(), DecomposeThreadblockPass())).apply(make_context(), module)
    assert prove(only_function(before), only_function(module)).holds
    (kernel,) = (op for op in module.walk() if isinstance(op, CustomizedOp))
    products = [op for op in kernel.walk() if isinstance(op, tb.MatmulOp)]
    assert [op.slices for op in products] == [4, 4]
    (total,) = (op for op in kernel.walk() if isinstance(op, tb.ForloopAccumOp))
    assert all(isinstance(use.operation, tb.ReductionOp) for use in total.result.uses)
    (result,) = run_function(module, None, inputs)
    assert_near(result, expected)


@pytest.mark.parametrize(
    ("columns", "pairs", "warps", "busiest"),
    [
        (48, 2, 8, 4 / 3),  # three tiles of 16 columns, and four warps: one is idle
        (48, 2, 4, 4 / 3),  # of two warps one has two tiles
        (48, 4, 4, 1.0),
        (32, 2, 4, 1.0),
        (96, 4, 8, 1.0),
        (16, 2, 4, 2.0),
    ],
)
def test_the_busiest_warp_says_how_long_columns_are_converted(
    columns: int, pairs: int, warps: int, busiest: float
) -> None:
    steps = 64 // 16
    product = Product(pairs * (columns // 16) * steps, steps)
    assert product.busiest(warps, pairs) == pytest.approx(busiest)
