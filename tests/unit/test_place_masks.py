"""Attention under masks of places: one kernel, right in the interpreter and as emulated CUDA."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cases.build import compile_emulated
from fuzz.programs import launches_of
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from mugraph.dialects.linear_forms import LinearForm
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
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
        module = self.module(masks=masks)
        FuseKernelsPass("sm_90a").apply(make_context(), module)
        return module

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


CASES = {
    "causal": Attention(128, 128),
    "causal, several tiles": Attention(256, 256, heads=2),
    "queries shorter than keys": Attention(64, 192, offset=128),
    "queries longer than keys": Attention(128, 64, offset=64),
    "odd": Attention(75, 139, offset=64),
    "prime": Attention(127, 251, width=32, offset=3),
    "window": Attention(192, 192, window=40),
    "odd window": Attention(101, 203, offset=102, window=33),
    "few queries": Attention(8, 200, offset=192),
    "rows without a key": Attention(128, 128, offset=-70),
}
ALL = pytest.mark.parametrize("attention", CASES.values(), ids=CASES.keys())


@ALL
def test_a_mask_is_no_kernel_of_its_own(attention: Attention) -> None:
    """And what it becomes is right in the interpreter, and proved."""
    module = attention.fused()
    without = attention.fused(masks=False)
    assert launches_of(only_function(module)) == launches_of(only_function(without))
    inputs = attention.inputs()
    expected = attention.expected(*inputs)
    for stage in (attention.module(), module):
        (result,) = run_function(stage, None, inputs)
        np.testing.assert_allclose(result.astype(np.float64), expected, atol=5e-3)
    proof = prove(only_function(attention.module()), only_function(module))
    assert proof.holds, proof.reason


@ALL
def test_emulated_kernel_is_right(attention: Attention) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no kernel was emulated")
    made = generate_cuda(attention.fused(), make_context(), "sm_90a")
    inputs = attention.inputs()
    (result,) = CudaModule(compile_emulated(made.source), made.signature).run(inputs)
    np.testing.assert_allclose(result.astype(np.float64), attention.expected(*inputs), atol=5e-3)
