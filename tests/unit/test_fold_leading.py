"""Leading dimensions of products become one where a grid has no axis left for rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from fuzz.programs import launches_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph
import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.fold_leading import fold_leading
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

GROUPS, SHARED = (2, 2, 3), (2, 2, 1)
"""Batch, heads, and the queries of a head that share its keys."""


def attention(
    queries: int,
    keys: int,
    *,
    shared: Sequence[int] = SHARED,
    bias: Sequence[int] = (),
    condition: Any = None,
    batch: Any = GROUPS[0],
    width: int = 16,
) -> mi.KernelGraph:
    """Attention as grouped queries are written."""
    graph = mi.KernelGraph()
    q = graph.new_input((batch, *GROUPS[1:], queries, width), dtype=mi.float16)
    of_batch = batch if shared[0] > 1 else 1
    k, v = (
        graph.new_input((of_batch, *shared[1:], keys, width), dtype=mi.float16) for _ in range(2)
    )
    scores = mi.matmul(q, mi.transpose(k, (0, 1, 2, 4, 3)), dtype=mi.float32) * 0.25
    if bias:
        scores = scores + graph.new_input((*bias, queries, keys), dtype=mi.float32)
    if condition is not None:
        scores = mi.mask(scores, condition)
    graph.mark_output(mi.matmul(mi.cast(mi.softmax(scores), mi.float16), v))
    return graph


def is_causal(*places: Any) -> Any:
    return places[-2] - places[-1]


def looks_at_heads(*places: Any) -> Any:
    return places[1] + places[3] - places[4]


def taken_apart(graph: mi.KernelGraph) -> ModuleOp:
    """The program, of operators that are made of no others."""
    module = graph.module()
    decompose_program(only_function(module), kernels=True, views=False)
    return module


def folded(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    fold_leading(only_function(copy))
    copy.verify()
    return copy


def leading(module: ModuleOp) -> set[Sequence[int]]:
    """The leading extents of products."""
    products = (op for op in module.walk() if isinstance(op, kn.MatmulOp))
    return {shape_of(op.result.type)[:-2] for op in products}


def drawn(module: ModuleOp) -> list[Any]:
    generator = np.random.default_rng(0)
    arguments = [argument.type for argument in only_function(module).args]
    types = [np.float32 if "xf32" in str(each) else np.float16 for each in arguments]
    shapes = map(shape_of, arguments)
    return [
        generator.standard_normal(shape).astype(type_)
        for shape, type_ in zip(shapes, types, strict=True)
    ]


FOLDED = {
    "causal": (attention(8, 8, condition=is_causal), (4, 3)),
    "of odd sizes": (attention(5, 7), (4, 3)),
    "bias of a group": (attention(8, 8, bias=(1, 1, 3)), (4, 3)),
    "keys of a batch": (attention(8, 8, shared=(2, 1, 1)), (2, 6)),
    "keys of each head": (attention(8, 8, shared=GROUPS), (12,)),
}


@pytest.mark.parametrize("name", FOLDED)
def test_what_is_treated_alike_becomes_one(name: str) -> None:
    graph, expected = FOLDED[name]
    module = taken_apart(graph)
    made = folded(module)
    assert leading(made) == {expected}
    assert prove(only_function(module), only_function(made)).holds
    given = drawn(module)
    results = [run_function(each, None, given)[0] for each in (module, made)]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-3, atol=1e-3)


KEPT = {
    "a bias of a batch": attention(8, 8, bias=(2, 1, 1)),
    "a mask that looks at heads": attention(8, 8, condition=looks_at_heads),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_tells_them_apart_keeps_them(name: str) -> None:
    module = taken_apart(KEPT[name])
    assert str(folded(module)) == str(module)


def test_attention_of_groups_is_one_kernel() -> None:
    module = attention(512, 512, condition=is_causal, width=64).module()
    fused = module.clone()
    fuse_program(only_function(fused), target_named("h200"))
    assert launches_of(only_function(fused)) == 1
    assert not any(isinstance(op, kn.CopyOp) for op in fused.walk())
    proof = prove(only_function(module), only_function(fused))
    assert proof.holds, proof.reason


def test_generated_kernels_compute_it() -> None:
    module, context = taken_apart(attention(72, 72, condition=is_causal)), make_context()
    given = drawn(module)
    (expected,) = run_function(module, None, given)
    made = folded(module)
    PassPipeline(compile_pipeline("h200")).apply(context, made)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run(given)
        np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-3)

    check_emulated_later(generate_cuda(made, context, "sm_90a"), check)


def test_a_dimension_that_a_call_says_stays_one() -> None:
    graph = attention(128, 128, batch=mi.Extent("b", largest=8, buckets=(2,)), width=64)
    module = graph.module()
    PassPipeline(compile_pipeline("h200")).apply(make_context(), module)
    module.verify()
    call = mugraph.compile(graph, "cpu")
    q, k = (np.ones((3, *shape[1:], 128, 64), np.float16) for shape in (GROUPS, SHARED))
    assert call(q, k, k).shape == q.shape
