"""Loops at levels warp and cluster."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

from fuzz.texpr_levels import CLUSTERS, EXCHANGE, LEVELS, ROWS
from mugraph.codegen.cuda import print_module
from mugraph.dialects.te import (
    AllReduceOp,
    BarrierOp,
    BufferType,
    KernelOp,
    Scope,
    input_parameters,
)
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards, unneeded_texpr_barriers
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr


def lowered(text: str, sizes: dict[str, int]) -> tuple[ModuleOp, KernelOp]:
    module = read_texpr(text, "levels.te", sizes)
    TeLowerPass().apply(Context(), module)
    module.verify()
    return module, next(op for op in module.walk() if isinstance(op, KernelOp))


@pytest.mark.parametrize(("name", "text", "sizes"), LEVELS)
def test_each_step_computes_the_same(name: str, text: str, sizes: dict[str, int]) -> None:
    module = read_texpr(text, f"{name}.te", sizes)
    function = cast(FuncOp, module.body.block.first_op)
    given = function.function_type.inputs.data
    types = [cast(BufferType, given[position]) for position in input_parameters(function)]
    generator = np.random.default_rng(0)
    inputs = [generator.standard_normal(type_.get_shape()).astype(np.float16) for type_ in types]
    expected = run_texpr(function, inputs, precision=Precision.FLOAT64, seed=None).outputs
    for lowering in TeLowerPass().passes():
        lowering.apply(Context(), module)
        module.verify()
        found = run_texpr(function, inputs, precision=Precision.FLOAT64).outputs
        for one, other in zip(found.values(), expected.values(), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert find_texpr_hazards(kernel) == []
    assert unneeded_texpr_barriers(kernel) == []


def test_a_row_a_warp_needs_no_barrier() -> None:
    _, kernel = lowered(ROWS, {"N": 200})
    assert kernel.threads.iterations == 6 * 32
    assert kernel.smem_bytes == 0
    assert not [op for op in kernel.walk() if isinstance(op, BarrierOp)]
    reductions = [op for op in kernel.walk() if isinstance(op, AllReduceOp)]
    assert [op.threads for op in reductions] == [Scope.WARP, Scope.WARP]


def test_what_a_warp_exchanges_needs_barriers_of_the_warp() -> None:
    _, kernel = lowered(EXCHANGE, {})
    barriers = [op.threads for op in kernel.walk() if isinstance(op, BarrierOp)]
    # What the block wrote is read in the loop; in it the warps go on by themselves.
    assert barriers == [Scope.BLOCK, Scope.WARP, Scope.WARP, Scope.WARP]
    reductions = [op for op in kernel.walk() if isinstance(op, AllReduceOp)]
    assert [op.threads for op in reductions] == [Scope.BLOCK]


def test_blocks_of_a_cluster_have_consecutive_numbers() -> None:
    module, kernel = lowered(CLUSTERS, {})
    assert (kernel.iterations, kernel.cluster_blocks) == (8, 4)
    head = "__global__ void __launch_bounds__(128) __cluster_dims__(4, 1, 1) f_kernel("
    assert head in print_module(module)
    assert "int const c = block % 4;" in print_module(module)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            CLUSTERS.replace("par 2", "par 1")
            .replace("par 4", "par 9")
            .replace("x: f32[8, 100]):", "x: f32[9, 100]):")
            .replace(": f32[8, 100] {", ": f32[9, 100] {"),
            "clusters of up to 8 blocks",
        ),
        (
            ROWS.replace("12", "66").replace("par 6", "par 33").replace("* 6", "* 33"),
            "each of its 33 iterations takes a warp, and a block has",
        ),
        (
            EXCHANGE.replace("fully par 32 |lane| #align(32) {", "fully par 64 |lane| {")
            .replace("result[b, w, lane + 32] = t[31 - lane]", "")
            .replace("red total += t[lane]", ""),
            "takes 64 threads at once",
        ),
        (
            ROWS.replace("par N j #warp { v[j] = e", "if w > 0 { par N j #warp { v[j] = e").replace(
                "red sum += v[j] }", "red sum += v[j] } }"
            ),
            "depends on which iteration the warp has",
        ),
    ],
)
def test_errors(text: str, message: str) -> None:
    sizes = {"N": 40} if "N" in text else {}
    module = read_texpr(text, "levels.te", sizes)
    with pytest.raises(PassFailedException, match=message):
        TeMapPass().apply(Context(), module)


def test_a_target_without_clusters() -> None:
    module = read_texpr(CLUSTERS, "levels.te", {})
    with pytest.raises(PassFailedException, match="sm_80 has no clusters"):
        TeMapPass("sm_80").apply(Context(), module)
