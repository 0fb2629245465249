"""Products of warp groups give the same numbers at every level, also those behind the program."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context, read_module
from mugraph.runtime.interpreter import run_function

INPUTS = Path(__file__).resolve().parents[2] / "filecheck/passes/Inputs"
GRAPH = INPUTS / "warpgroup-gemm.mlir"
ATTENTION = INPUTS / "warpgroup-attention.mlir"


@pytest.mark.parametrize("level", ["logical", "address"])
def test_a_product_by_warp_groups_is_right(level: str) -> None:
    """Through TMA rings, descriptors, one product in flight, and stores by quads."""
    context = make_context()
    module = read_module(str(GRAPH), context)
    for step in passes_as_written("sm_90a", loads="tma"):
        step.apply(context, module)
    assert "sched.warpgroup_mma async" in str(module)
    random = np.random.default_rng(0)
    a = random.standard_normal((256, 512)).astype(np.float16)
    b = (random.standard_normal((512, 256)) / 16).astype(np.float16)
    expected = a.astype(np.float64) @ b.astype(np.float64)

    def error() -> float:
        (result,) = run_function(module, None, [a, b], level=level)
        difference = result.astype(np.float64) - expected
        return float(np.linalg.norm(difference) / np.linalg.norm(expected))

    assert error() < 5e-4
    (wait,) = [
        op
        for op in module.walk()
        if isinstance(op, sched.WarpgroupWaitOp) and not op.pending_products
    ]
    Rewriter.replace_op(wait, (), wait.operands)
    assert error() > 0.1  # what nobody waited for is missing


@pytest.mark.parametrize("columns", [40, 56, 64, 80, 104])
def test_quads_store_any_number_of_columns_that_an_instruction_has(columns: int) -> None:
    """Of the last group of four blocks of 8 columns the lanes that have none write nothing."""
    graph = mi.new_kernel_graph("product")
    a, b = graph.new_input((128, 64)), graph.new_input((2 * columns, 64))
    graph.mark_output(a @ mi.transpose(b))
    plan = Plan(tile=(64, columns), forloop=1, block=(128, 1, 1), loads="tma")
    context, module = make_context(), graph.module()
    for step in compile_pipeline("sm_90a", fuse=True, plan=plan):
        step.apply(context, module)
    (store,) = [op for op in module.walk() if isinstance(op, sched.StoreOp)]
    assert store.by_quads
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shape).astype(np.float16) for shape in (a.shape, b.shape)]
    (result,) = run_function(module, None, inputs, level="address")
    expected = inputs[0].astype(np.float64) @ inputs[1].astype(np.float64).T
    assert np.linalg.norm(result - expected) < 1e-3 * np.linalg.norm(expected)


@pytest.fixture(scope="module")
def attention() -> ModuleOp:
    """Scores, running maximum, and a product of what stays in registers."""
    context = make_context()
    module = read_module(str(ATTENTION), context)
    for step in passes_as_written("sm_90a", loads="tma", online_softmax=True):
        step.apply(context, module)
    return module


@pytest.mark.parametrize("scale", [0.25, 8.0])
@pytest.mark.parametrize("level", ["logical", "address"])
def test_attention_by_warp_groups_is_right(attention: ModuleOp, level: str, scale: float) -> None:
    """Also where exponentials of the scores would overflow."""
    random = np.random.default_rng(0)
    q, k, v = (
        (random.standard_normal(shape) * factor).astype(np.float16)
        for shape, factor in (((1, 256, 64), scale), ((1, 64, 512), scale), ((1, 512, 64), 1.0))
    )
    (result,) = run_function(attention, None, [q, k, v], level=level)
    scores = q.astype(np.float64) @ k.astype(np.float64)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights @ v.astype(np.float64) / weights.sum(-1, keepdims=True)
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < 1e-3


@pytest.mark.parametrize("level", ["logical", "address"])
def test_two_products_with_one_left_matrix_are_one(level: str) -> None:
    context = make_context()
    module = read_module(str(GRAPH.with_name("warpgroup-gate.mlir")), context)
    for step in passes_as_written("sm_90a", loads="tma"):
        step.apply(context, module)
    assert re.search(r"to %gate\w*, %up\w* :", str(module))
    random = np.random.default_rng(0)
    x = random.standard_normal((512, 512)).astype(np.float16)
    w1, w2 = ((random.standard_normal((512, 512)) / 16).astype(np.float16) for _ in range(2))
    (result,) = run_function(module, None, [x, w1, w2], level=level)
    gate, up = (x.astype(np.float64) @ w.astype(np.float64) for w in (w1, w2))
    expected = gate / (1 + np.exp(-gate)) * up
    error = np.linalg.norm(result.astype(np.float64) - expected) / np.linalg.norm(expected)
    assert error < 1e-3
