"""Loads of later iterations: what is made of them, and that they land before they are read."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.passes import PassPipeline
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.te import BarrierOp, CopyAsyncOp, KernelOp, NewOp, Scope, SeqOp, WaitOp
from mugraph.passes.texpr.analysis.hazards import (
    find_texpr_hazards,
    unneeded_texpr_barriers,
)
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.passes.texpr.te_prefetch import TePrefetchPass
from mugraph.passes.texpr.te_promote import TePromotePass
from mugraph.passes.texpr.te_sync import TeSyncPass
from mugraph.passes.texpr.te_sync.choice import choose_barriers
from mugraph.passes.texpr.te_sync.dependences import dependences_of
from mugraph.passes.texpr.te_sync.leaves import leaves_of
from mugraph.runtime.interpreter.arithmetic import Precision
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

GEMM = Path(__file__).parents[2] / "examples" / "texpr" / "gemm_mma.te"
TILES = {"M": 64, "N": 64, "K": 128, "TM": 32, "TN": 32, "TK": 16, "WM": 16, "WN": 16, "G": 2}
SUMS = """
fn sums(x: f32[K, 64]): f32[64] {
    par 1 b #grid {
        new s: f32[64]
        par 64 j #block { s[j] = 0.0 }
        seq K |k| #prefetch(AHEAD) {
            new t: f32[64] #shared
            par 64 j #block { t[j] = x[k, j] }
            par 64 j #block { s[j] += t[63 - j] }
        }
        par 64 j #block { result[j] = s[j] }
    }
}
"""


def sums(ahead: int, rows: int = 6) -> tuple[ModuleOp, FuncOp]:
    module = read_texpr(SUMS, "sums.te", {"K": rows, "AHEAD": ahead})
    return module, cast(FuncOp, module.body.block.first_op)


def prefetched(ahead: int) -> tuple[ModuleOp, FuncOp, KernelOp]:
    module, function = sums(ahead)
    PassPipeline((TeMapPass(), TePrefetchPass(), TePromotePass())).apply(Context(), module)
    return module, function, next(op for op in module.walk() if isinstance(op, KernelOp))


def first_op(loop: SeqOp) -> Operation:
    assert loop.body.block.first_op is not None
    return loop.body.block.first_op


def waiting_loop(module: ModuleOp) -> SeqOp:
    return next(
        op
        for op in module.walk()
        if isinstance(op, SeqOp) and isinstance(op.body.block.first_op, WaitOp)
    )


@pytest.mark.parametrize("ahead", [1, 2, 5, 6, 9])
def test_each_step_computes_the_same(ahead: int) -> None:
    module, function = sums(ahead)
    x = np.random.default_rng(0).standard_normal((6, 64)).astype(np.float32)
    for lowering in TeLowerPass().passes():
        lowering.apply(Context(), module)
        module.verify()
        (found,) = run_texpr(function, [x], precision=Precision.FLOAT64).outputs.values()
        np.testing.assert_allclose(found, x.astype(np.float64).sum(axis=0)[::-1], rtol=1e-12)


@pytest.mark.parametrize("ahead", [1, 3, 8])
def test_products_of_tiles(ahead: int) -> None:
    module = read_texpr(GEMM.read_text(), "gemm_mma.te", {**TILES, "AHEAD": ahead})
    function = cast(FuncOp, module.body.block.first_op)
    TeLowerPass().apply(Context(), module)
    generator = np.random.default_rng(ahead)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    (found,) = run_texpr(function, [a, b], precision=Precision.FLOAT64).outputs.values()
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), atol=1e-12)
    assert sum(isinstance(op, BarrierOp) for op in waiting_loop(module).walk()) == 1
    assert {op.elements for op in module.walk() if isinstance(op, CopyAsyncOp)} <= {4, 8}


@pytest.mark.parametrize("ahead", [2, 3])
def test_registers_are_loaded_one_part_early(ahead: int) -> None:
    module = read_texpr(GEMM.read_text(), "gemm_mma.te", {**TILES, "TK": 32, "AHEAD": ahead})
    function = cast(FuncOp, module.body.block.first_op)
    generator = np.random.default_rng(ahead)
    a, b = (generator.standard_normal(shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    for lowering in TeLowerPass().passes():
        lowering.apply(Context(), module)
        module.verify()
    (found,) = run_texpr(function, [a, b], precision=Precision.FLOAT64).outputs.values()
    np.testing.assert_allclose(found, a.astype(np.float64) @ b.astype(np.float64), atol=1e-12)
    # One barrier behind the wait before the loop, one behind that in it.
    barriers = [op for op in module.walk() if isinstance(op, BarrierOp)]
    assert [isinstance(op.prev_op, WaitOp) for op in barriers] == [True, True]
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert find_texpr_hazards(kernel) == []
    assert unneeded_texpr_barriers(kernel) == []
    stages = {
        op.result.type.get_shape()[0] for op in kernel.body.block.ops if isinstance(op, NewOp)
    }
    assert stages == {ahead}


@pytest.mark.parametrize("index", [0, 1])
def test_loads_in_the_iteration_before_are_waited_for(index: int) -> None:
    module = read_texpr(GEMM.read_text(), "gemm_mma.te", {**TILES, "TK": 32, "AHEAD": 3})
    PassPipeline((TeMapPass(), TePrefetchPass(), TePromotePass())).apply(Context(), module)
    wait = [op for op in module.walk() if isinstance(op, WaitOp)][index]
    Rewriter.replace_op(wait, WaitOp(wait.groups + 1))
    with pytest.raises(PassFailedException, match="where an asynchronous copy may be under way"):
        TeSyncPass().apply(Context(), module)


@pytest.mark.parametrize("ahead", [1, 2, 6])
def test_each_barrier_is_needed(ahead: int) -> None:
    module, _, kernel = prefetched(ahead)
    leaves = leaves_of(kernel.threads)
    dependences = dependences_of(leaves, kernel.threads)
    assert len(choose_barriers(leaves, dependences)) == 1
    # It stands where nothing is under way that the iteration reads: behind the wait.
    TeSyncPass().apply(Context(), module)
    ops = list(waiting_loop(module).body.block.ops)
    assert isinstance(ops[0], WaitOp)
    assert [isinstance(op, BarrierOp) for op in ops].count(True) == 1
    assert find_texpr_hazards(kernel) == []
    assert unneeded_texpr_barriers(kernel) == []


@pytest.mark.parametrize("ahead", [1, 2, 5])
def test_waiting_for_too_little_is_an_error(ahead: int) -> None:
    module, function, kernel = prefetched(ahead)
    wait = next(op for op in kernel.walk() if isinstance(op, WaitOp))
    assert wait.groups == ahead - 1
    Rewriter.replace_op(wait, WaitOp(ahead))
    # Neither isl nor the listing of what threads touch lets it pass, whatever the barriers.
    loop = waiting_loop(module)
    Rewriter.insert_op(BarrierOp(Scope.BLOCK), InsertPoint.after(first_op(loop)))
    assert find_texpr_hazards(kernel)
    with pytest.raises(PassFailedException, match="where an asynchronous copy may be under way"):
        TeSyncPass().apply(Context(), module)
    with pytest.raises(ExecutionError, match="which nothing has written"):
        run_texpr(function, [np.zeros((6, 64), np.float32)])


def test_not_waiting_at_the_end_is_an_error() -> None:
    _, function, kernel = prefetched(2)
    for wait in [op for op in kernel.walk() if isinstance(op, WaitOp)]:
        Rewriter.erase_op(wait)
    with pytest.raises(ExecutionError, match="which nothing has written"):
        run_texpr(function, [np.zeros((6, 64), np.float32)])


@pytest.mark.parametrize(
    "body",
    [
        "par 64 j #block { t[j] = x[k, j] + 1.0 }",
        "par 64 j #block { t[j] = x[k, j] } par 64 j #block { t[j] += s[j] }",
        "par 64 j #block { s[j] = x[k, j] }",
    ],
)
def test_what_is_no_copy_is_not_prefetched(body: str) -> None:
    text = SUMS.replace("par 64 j #block { t[j] = x[k, j] }", body)
    module = read_texpr(text, "sums.te", {"K": 4, "AHEAD": 2})
    TeMapPass().apply(Context(), module)
    with pytest.raises(PassFailedException, match="the loop over k has #prefetch"):
        TePrefetchPass().apply(Context(), module)


def test_a_buffer_that_the_kernel_writes_is_not_read_ahead() -> None:
    text = """
    fn f(x: f32[6, 64]) {
        par 1 b #grid {
            seq 5 |k| #prefetch(2) {
                new t: f32[64] #shared
                par 64 j #block { t[j] = x[k, j] }
                par 64 j #block { x[k + 1, j] = t[63 - j] }
            }
        }
    }
    """
    module = read_texpr(text, "f.te", {})
    TeMapPass().apply(Context(), module)
    with pytest.raises(PassFailedException, match="the loop over k has #prefetch"):
        TePrefetchPass().apply(Context(), module)
