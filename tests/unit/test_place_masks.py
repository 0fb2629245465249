"""Attention under masks of places: one kernel, right in the interpreter and as emulated CUDA."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from emulated_programs import check_emulated_later
from fuzz.programs import launches_of
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.plan import Plan
from mugraph.dialects.sched.domain import spans_of
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.passes.program.fuse_kernels.times import time_of_kernel
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

Array = npt.NDArray[Any]
SCALE = 0.125


@dataclass(frozen=True)
class Attention:
    """Queries see keys up to ``offset`` behind their own place, or the last of these."""

    queries: int
    keys: int
    width: int = 64
    heads: int = 1
    offset: int = 0
    window: int | None = None

    def condition(self, h: LinearForm, i: LinearForm, j: LinearForm) -> list[LinearForm]:
        forms = [i - j + self.offset]
        if self.window is not None:
            forms.append(j - i - self.offset + self.window - 1)
        return forms

    def module(self, *, masks: bool = True) -> ModuleOp:
        """The program, operator by operator."""
        graph = mi.new_kernel_graph("attention")
        q, k, v = (
            graph.new_input((self.heads, rows, self.width), dtype=mi.float16)
            for rows in (self.queries, self.keys, self.keys)
        )
        scores = q @ mi.transpose(k) * SCALE
        if masks:
            scores = mi.mask(scores, self.condition)
        graph.mark_output(mi.softmax(scores) @ v)
        return graph.module()

    def fused(self, *, masks: bool = True) -> ModuleOp:
        return fused_once(self, masks).clone()

    def inputs(self) -> list[Array]:
        random = np.random.default_rng(1)
        rows = (self.queries, self.keys, self.keys)
        shapes = [(self.heads, each, self.width) for each in rows]
        return [random.standard_normal(shape).astype(np.float16) for shape in shapes]

    def expected(self, q: Array, k: Array, v: Array) -> Array:
        """What numpy makes of it; NaN in rows that see no key."""
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        below = np.arange(self.queries)[:, None] + self.offset - np.arange(self.keys)
        kept = below >= 0
        if self.window is not None:
            kept &= below < self.window
        scores = np.where(kept, q @ k.transpose(0, 2, 1) * SCALE, -np.inf)
        with np.errstate(invalid="ignore"):
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            return weights / weights.sum(axis=-1, keepdims=True) @ v


@cache
def fused_once(attention: Attention, masks: bool) -> ModuleOp:
    module = attention.module(masks=masks)
    FuseKernelsPass("sm_90a").apply(make_context(), module)
    return module


CASES = {
    "causal": Attention(128, 128),
    "several heads": Attention(256, 256, heads=4),
    "queries shorter than keys": Attention(64, 192, offset=128),
    "queries longer than keys": Attention(128, 64, offset=64),
    "odd": Attention(75, 139, offset=64),
    "prime": Attention(127, 251, width=32, offset=3),
    "window": Attention(256, 256, heads=4, window=50),
    "odd window": Attention(101, 203, offset=102, window=33),
    "few queries": Attention(8, 200, offset=192),
    "few queries of a window": Attention(8, 200, offset=192, window=20),
    "rows without a key": Attention(128, 128, offset=-70),
}
if not THOROUGH:
    # What the others have each of, in another mixture.
    for name in ("odd", "few queries", "queries shorter than keys"):
        del CASES[name]
ALL = pytest.mark.parametrize("attention", CASES.values(), ids=CASES.keys())


@pytest.mark.one_in(2)
@ALL
def test_a_mask_is_no_kernel_of_its_own(attention: Attention) -> None:
    """And what it becomes is right in the interpreter, and proved.

    Where scores are a kernel of their own, the other one loads masked ones.
    """
    module = attention.fused()
    without = attention.fused(masks=False)
    assert launches_of(only_function(module)) <= launches_of(only_function(without))
    inputs = attention.inputs()
    expected = attention.expected(*inputs)
    for stage in (attention.module(), module):
        (result,) = run_function(stage, None, inputs)
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=5e-3)
    proof = prove(only_function(attention.module()), only_function(module))
    assert proof.holds, proof.reason


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("name", "arch"),
    [*((name, "sm_90a") for name in CASES), ("window", "sm_80"), ("odd window", "sm_80")],
)
def test_schedules_are_right(name: str, arch: str) -> None:
    """By values, and by bytes and addresses; hazards have been checked on the way."""
    attention = CASES[name]
    module = attention.fused()
    PassPipeline((TranspilePass(arch=arch),)).apply(make_context(), module)
    inputs = attention.inputs()
    expected = attention.expected(*inputs)
    for level in ("logical", "address"):
        (result,) = run_function(module, None, inputs, level=level)
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=5e-3)


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("several heads", "sm_90a"),
        ("window", "sm_80"),
        ("odd window", "sm_90a"),
        ("rows without a key", "sm_90a"),
    ],
)
def test_emulated_kernels_are_right(name: str, arch: str) -> None:
    attention = CASES[name]

    def check(kernels: CudaModule) -> None:
        inputs = attention.inputs()
        (result,) = kernels.run(inputs)
        expected = attention.expected(*inputs)
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=5e-3)

    check_emulated_later(generate_cuda(attention.fused(), make_context(), arch), check)


def shares(attention: Attention) -> float:
    """The part of all iterations that the blocks of its kernel run."""
    module = attention.fused()
    PassPipeline((TranspilePass(arch="sm_90a"),)).apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    every = [slice(0, extent) for extent in kernel.grid_dim]
    counts = [span.count for span, box in spans_of(kernel, every) for _ in range(box[0].stop)]
    return sum(counts) / (len(counts) * (kernel.forloop_range or 1))


def test_tiles_that_are_masked_wholly_are_left_out() -> None:
    """Half of all where each query sees the keys before it, few where it sees the last."""
    causal = Attention(2048, 2048, heads=4)
    assert 0.5 < shares(causal) < 0.54
    assert shares(Attention(2048, 2048, heads=4, window=128)) < 0.15


def test_the_estimate_counts_what_is_left() -> None:
    times: list[float] = []
    for attention, masks in (
        (Attention(4096, 4096, heads=8), False),
        (Attention(4096, 4096, heads=8), True),
        (Attention(4096, 4096, heads=8, window=256), True),
    ):
        module = attention.fused(masks=masks)
        (kernel,) = (op for op in module.walk() if isinstance(op, CustomizedOp))
        times.append(time_of_kernel(kernel, target_named("h200")))
    assert 0.45 < times[1] / times[0] < 0.65
    assert times[2] / times[0] < 0.25


def test_masks_between_views() -> None:
    """Columns that a view splits are two coordinates of one form."""

    def program() -> ModuleOp:
        graph = mi.new_kernel_graph("views")
        x = graph.new_input((64, 96), dtype=mi.float32)
        parts = mi.reshape(mi.mask(x, lambda i, j: i + 40 - j, 0.0), (64, 3, 32)) * 2.0
        kept = mi.mask(parts, lambda i, p, j: i - 2 * j + 7 * p, -1.0)
        graph.mark_output(mi.reshape(mi.exp(kept), (64, 96)))
        return graph.module()

    fused = program()
    FuseKernelsPass("sm_90a").apply(make_context(), fused)
    assert launches_of(only_function(fused)) == 1
    x = np.random.default_rng(2).standard_normal((64, 96)).astype(np.float32)
    i, j = np.indices(x.shape)
    part, column = j // 32, j % 32
    kept = np.where(i - 2 * column + 7 * part >= 0, np.where(i + 40 - j >= 0, x, 0) * 2, -1)
    (result,) = run_function(fused, None, [x])
    np.testing.assert_allclose(result, np.exp(kept), rtol=1e-6)
    assert prove(only_function(program()), only_function(fused)).holds


def test_loops_of_masked_tiles_are_divided_over_blocks() -> None:
    """Most blocks have keys alone that no query of theirs sees."""
    attention = Attention(64, 512, heads=2, offset=448, window=100)
    module = attention.fused()
    for kernel in module.walk():
        if isinstance(kernel, CustomizedOp):
            kernel.decided = Plan(split_k=4)
    PassPipeline((TranspilePass(arch="sm_90a"),)).apply(make_context(), module)
    inputs = attention.inputs()
    (result,) = run_function(module, None, inputs, level="address")
    np.testing.assert_allclose(result.astype(np.float64), attention.expected(*inputs), atol=5e-3)
