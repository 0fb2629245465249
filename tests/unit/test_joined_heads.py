"""Heads that share keys and values: one product with a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph
import mugraph.build as mi
from mugraph.dialects import kn, tb
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import planned_then_scheduled
from mugraph.passes.program.fuse_kernels import fuse_program, prepare_program
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

HEADS, GROUPS, KEYS, WIDTH = 6, 2, 5, 4


def repeated(x: Any) -> Any:
    """Each group of keys once for each of its heads."""
    batch, groups, *own = x.shape
    each = HEADS // groups
    wide = mi.broadcast_to(mi.reshape(x, (batch, groups, 1, *own)), (batch, groups, each, *own))
    return mi.reshape(wide, (batch, HEADS, *own))


def attention(queries: int, groups: int = GROUPS) -> ModuleOp:
    """Attention with a mask, in which heads share keys."""
    graph = mi.KernelGraph()
    q = graph.new_input((3, HEADS, queries, WIDTH), dtype=mi.float32)
    k, v = (graph.new_input((3, groups, KEYS, WIDTH), dtype=mi.float32) for _ in range(2))
    mask = graph.new_input((3, 1, queries, KEYS), dtype=mi.float32)
    scores = mi.matmul(q, mi.transpose(repeated(k), (0, 1, 3, 2))) * 0.5 + mask
    graph.mark_output(mi.matmul(mi.softmax(scores), repeated(v)))
    return graph.module()


def prepared(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    prepare_program(only_function(copy))
    copy.verify()
    return copy


def products(module: ModuleOp) -> list[Sequence[int]]:
    return [shape_of(op.result.type) for op in module.walk() if isinstance(op, kn.MatmulOp)]


def drawn(module: ModuleOp) -> list[Any]:
    generator = np.random.default_rng(0)
    arguments = only_function(module).args
    return [generator.standard_normal(shape_of(a.type)).astype(np.float32) for a in arguments]


@pytest.mark.parametrize(("queries", "groups"), [(1, 2), (1, 1), (1, 3), (2, 2)])
def test_what_is_computed_stays_the_same(queries: int, groups: int) -> None:
    module = attention(queries, groups)
    given = drawn(module)
    results = [run_function(each, "mugraph", given)[0] for each in (module, prepared(module))]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)


def test_one_query_a_head_is_a_row_of_a_group() -> None:
    rows = HEADS // GROUPS
    assert products(prepared(attention(1))) == [(3, GROUPS, rows, KEYS), (3, GROUPS, rows, WIDTH)]


def test_several_queries_a_head_are_products_of_a_broadcast() -> None:
    rows = HEADS // GROUPS
    found = products(prepared(attention(2)))
    assert found == [(3, GROUPS, rows, 2, KEYS), (3, GROUPS, rows, 2, WIDTH)]


def test_nothing_of_the_keys_is_copied() -> None:
    module = attention(1)
    text = str(prepared(module))
    assert "kn.broadcast" not in text
    result = mugraph.compile(module, "cpu")(*drawn(module))
    assert result.shape == (3, HEADS, 1, WIDTH)


def side_by_side(queries: int, keys: int) -> ModuleOp:
    """The same without a batch, whose heads come to lie side by side for the product after it."""
    graph = mi.KernelGraph()
    q = graph.new_input((queries, HEADS * 16), dtype=mi.float16)
    k, v = (graph.new_input((1, GROUPS, keys, 16), dtype=mi.float16) for _ in range(2))
    heads = mi.transpose(mi.reshape(q, (1, queries, HEADS, 16)), (0, 2, 1, 3))
    scores = mi.matmul(heads, mi.transpose(repeated(k), (0, 1, 3, 2)), dtype=mi.float32) * 0.25
    y = mi.matmul(mi.cast(mi.softmax(scores), mi.float16), repeated(v))
    y = mi.reshape(mi.transpose(y, (0, 2, 1, 3)), (queries, HEADS * 16))
    graph.mark_output(y @ graph.new_input((HEADS * 16, 64), dtype=mi.float16))
    return graph.module()


def test_several_queries_read_keys_where_they_are() -> None:
    module = side_by_side(32, 48)
    kernels = module.clone()
    PassPipeline(planned_then_scheduled("h200")[0]).apply(Context(), kernels)
    given = [each.astype(np.float16) for each in drawn(module)]
    results = [run_function(each, "mugraph", given)[0] for each in (module, kernels)]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-2, atol=1e-2)
    assert not any(isinstance(op, kn.CopyOp) for op in kernels.walk())


def test_heads_get_copies_where_a_batch_leaves_no_axis_for_rows() -> None:
    graph = mi.KernelGraph()
    q = graph.new_input((2, HEADS, 512, 64), dtype=mi.float16)
    k, v = (graph.new_input((2, GROUPS, 512, 64), dtype=mi.float16) for _ in range(2))
    scores = mi.matmul(q, mi.transpose(repeated(k), (0, 1, 3, 2)), dtype=mi.float32) * 0.125
    scores = mi.mask(scores, lambda *places: places[-2] - places[-1])
    graph.mark_output(mi.matmul(mi.cast(mi.softmax(scores), mi.float16), repeated(v)))
    module = graph.module()
    kernels = module.clone()
    fuse_program(only_function(kernels), target_named("h200"))
    assert not any(isinstance(op, kn.MatmulOp) for op in kernels.walk())
    made = [op for op in kernels.walk() if isinstance(op, kn.CustomizedOp)]
    products = (sum(isinstance(each, tb.MatmulOp) for each in op.walk()) for op in made)
    assert [*filter(None, products)] == [2]
    given = [each.astype(np.float16) for each in drawn(module)]
    results = [run_function(each, "mugraph", given)[0] for each in (module, kernels)]
    np.testing.assert_allclose(results[1], results[0], rtol=1e-2, atol=1e-2)


def test_halves_of_a_transpose_are_read_where_they_are() -> None:
    graph = mi.KernelGraph()
    x, w = (graph.new_input((64, 96), dtype=mi.float16) for _ in range(2))
    heads = mi.transpose(mi.reshape(x @ mi.transpose(w), (64, 4, 16)), (1, 0, 2))
    graph.mark_output(heads[:, :, :8] * heads[:, :, 8:])
    module = graph.module()
    PassPipeline(planned_then_scheduled("h200")[0]).apply(Context(), module)
    assert not any(isinstance(op, kn.CopyOp) for op in module.walk())
