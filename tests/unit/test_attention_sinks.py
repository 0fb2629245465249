"""Attention whose softmax has one more logit for each head, which has no value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from fuzz.programs import launches_of
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import tb
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

WIDTH = 64


class Sizes(NamedTuple):
    heads: int
    queries: int
    keys: int
    groups: int
    """Heads of keys and values."""


PREFILL = Sizes(2, 64, 128, 2)
DECODE = Sizes(4, 1, 512, 4)
GROUPED = Sizes(8, 1, 256, 2)
GROUPED_PREFILL = Sizes(4, 64, 128, 2)

largest_of: Callable[[mi.DTensor, mi.DTensor], mi.DTensor] = cast(Any, mi.max)

Weighed = Callable[[mi.DTensor, mi.DTensor, mi.DTensor], mi.DTensor]


def with_a_maximum(scores: mi.DTensor, sink: mi.DTensor, v: mi.DTensor) -> mi.DTensor:
    """The maximum and the sum of the scores and the sink."""
    last = len(scores.shape) - 1
    largest = largest_of(mi.reduction_max(scores, last), sink)
    p = mi.exp(scores - largest)
    return (p @ v) / (mi.reduction(p, last) + mi.exp(sink - largest))


def with_a_column(scores: mi.DTensor, sink: mi.DTensor, v: mi.DTensor) -> mi.DTensor:
    """The sink is a column beside the scores, below the maximum of a row, and cut off again."""
    last = len(scores.shape) - 1
    column = mi.broadcast_to(sink, (*scores.shape[:last], 1))
    logits = mi.concat(scores, column, last)
    p = mi.softmax(logits - mi.reduction_max(logits, last))
    return p[:, :, :, : scores.shape[last]] @ v


def below_diagonal(b: Any, h: Any, i: Any, j: Any) -> Any:
    return i - j


def attention(sizes: Sizes, weighed: Weighed, *, is_causal: bool = False) -> ModuleOp:
    heads, queries, keys, groups = sizes
    graph = mi.KernelGraph()
    q = graph.new_input((1, heads, queries, WIDTH))
    k, v = (graph.new_input((1, groups, keys, WIDTH)) for _ in range(2))
    sink = graph.new_input((1, heads, 1, 1))

    def repeated(x: mi.DTensor) -> mi.DTensor:
        if heads == groups:
            return x
        apart = (1, groups, heads // groups, keys, WIDTH)
        each = mi.broadcast_to(mi.reshape(x, (1, groups, 1, keys, WIDTH)), apart)
        return mi.reshape(each, (1, heads, keys, WIDTH))

    scores = q @ mi.transpose(repeated(k), (0, 1, 3, 2)) * 0.125
    if is_causal:
        scores = mi.mask(scores, below_diagonal)
    graph.mark_output(weighed(scores, sink, repeated(v)))
    return graph.module()


def drawn(sizes: Sizes, sinks: float) -> list[Any]:
    heads, queries, keys, groups = sizes
    generator = np.random.default_rng(0)
    shapes = [(1, heads, queries, WIDTH), *[(1, groups, keys, WIDTH)] * 2]
    arrays = [generator.standard_normal(shape).astype(np.float16) for shape in shapes]
    sink = sinks + generator.standard_normal((1, heads, 1, 1))
    return [*arrays, sink.astype(np.float16)]


def in_float64(arrays: Sequence[Any], *, is_causal: bool) -> Any:
    q, k, v, sink = (cast(Any, np.asarray(each, np.float64)) for each in arrays)
    repeats = q.shape[1] // k.shape[1]
    k, v = (np.repeat(each, repeats, axis=1) for each in (k, v))
    scores = q @ np.swapaxes(k, 2, 3) * 0.125
    if is_causal:
        queries, keys = scores.shape[2:]
        is_seen = np.tri(queries, keys, dtype=np.bool_)
        scores = np.where(is_seen, scores, -np.inf)
    largest = np.maximum(scores.max(axis=-1, keepdims=True), sink)
    p = np.exp(scores - largest)
    return p @ v / (p.sum(axis=-1, keepdims=True) + np.exp(sink - largest))


@cache
def fused(sizes: Sizes, weighed: Weighed, is_causal: bool) -> ModuleOp:
    """The fused program, found once for all values of the sink; it is only read."""
    own = attention(sizes, weighed, is_causal=is_causal)
    fuse_program(only_function(own), target_named("h200"))
    own.verify()
    return own


PROGRAMS = [
    pytest.param(sizes, weighed, is_causal, id=f"{name}-{weighed.__name__}{'-causal' * is_causal}")
    for name, sizes, is_causal in (
        ("prefill", PREFILL, False),
        *([("prefill", PREFILL, True)] if THOROUGH else []),  # beside one whose heads share keys
        ("decode", DECODE, False),
        ("grouped", GROUPED, False),
        ("grouped_prefill", GROUPED_PREFILL, True),
    )
    for weighed in (with_a_maximum, with_a_column)
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("sizes", "weighed", "is_causal"), PROGRAMS)
def test_attention_with_a_sink_is_one_kernel(
    sizes: Sizes, weighed: Weighed, is_causal: bool
) -> None:
    module = attention(sizes, weighed, is_causal=is_causal)
    own = fused(sizes, weighed, is_causal)
    assert launches_of(only_function(own)) == 1
    assert any(isinstance(op, tb.ReductionMaxOp) for op in own.walk())
    proof = prove(only_function(module), only_function(own))
    assert proof.holds, proof.reason


@pytest.mark.parametrize("sinks", [0.0, 60.0, 60000.0, -60000.0])
@pytest.mark.parametrize(("sizes", "weighed", "is_causal"), PROGRAMS)
def test_its_numbers_are_right_wherever_the_sink_lies(
    sizes: Sizes, weighed: Weighed, is_causal: bool, sinks: float
) -> None:
    arrays = drawn(sizes, sinks)
    (result,) = run_function(fused(sizes, weighed, is_causal), None, arrays)
    expected = in_float64(arrays, is_causal=is_causal)
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-3)


@pytest.mark.parametrize(
    ("sizes", "weighed"),
    [
        pytest.param(PREFILL, with_a_maximum, id="prefill"),
        pytest.param(DECODE, with_a_maximum, id="decode"),
        pytest.param(DECODE, with_a_column, id="decode-column"),
    ],
)
def test_generated_kernels_compute_it(sizes: Sizes, weighed: Weighed) -> None:
    """A decode step divides the keys over blocks, of which a second kernel adds up the parts."""
    module = attention(sizes, weighed)
    context = make_context()
    PassPipeline(compile_pipeline("h200")).apply(context, module)
    arrays = drawn(sizes, 3.0)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run(arrays)
        np.testing.assert_allclose(
            result, in_float64(arrays, is_causal=False), rtol=1e-2, atol=2e-3
        )

    check_emulated_later(generate_cuda(module, context, "sm_90a"), check)
