"""Heads that share keys and values: one product with a row for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mugraph
import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.fuse_kernels import prepare_program
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


def test_several_queries_a_head_stay_as_they_are() -> None:
    assert products(prepared(attention(2))) == [(3, HEADS, 2, KEYS), (3, HEADS, 2, WIDTH)]


def test_nothing_of_the_keys_is_copied() -> None:
    module = attention(1)
    text = str(prepared(module))
    assert "kn.broadcast" not in text
    result = mugraph.compile(module, "cpu")(*drawn(module))
    assert result.shape == (3, HEADS, 1, WIDTH)
