"""Warps that share a product's depth, and what is done to the product before it is added up."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from mugraph.dialects.sched import TileType
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function

DEPTH, COLUMNS = 512, 16


def summed(function: str, iterations: int) -> ModuleOp:
    """The sum over the loop of a function of each tile's product, of one row."""
    graph = mi.KernelGraph()
    x, w = graph.new_input((1, DEPTH)), graph.new_input((DEPTH, COLUMNS))
    block = mi.new_threadblock_graph((1, 1, 1), (256, 1, 1), iterations)
    tiles = [block.new_input(each, (-1, -1, -1), dim) for each, dim in ((x, 1), (w, 0))]
    product = getattr(block, function)(block.matmul(*tiles), *([0.5] * function.endswith("scalar")))
    block.new_output(block.forloop_accum(product), (-1, -1, -1))
    graph.mark_output(*graph.customized([x, w], block))
    return graph.module()


def scheduled(module: ModuleOp) -> ModuleOp:
    copy = module.clone()
    for step in transpile_pipeline("sm_80"):
        step.apply(make_context(), copy)
    return copy


@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize("function", ["relu", "exp", "mul_scalar"])
def test_only_what_is_linear_is_applied_to_the_parts_of_warps(
    function: str, iterations: int
) -> None:
    module = summed(function, iterations)
    kernel = scheduled(module)
    shared = [op for op in kernel.walk() for r in op.results
              if isinstance(r.type, TileType) and r.type.parts > 1]  # fmt: skip
    assert shared, "no warps share the depth: choose another size"
    generator = np.random.default_rng(0)
    given = [
        (generator.standard_normal(shape) / 8).astype(np.float16)
        for shape in ((1, DEPTH), (DEPTH, COLUMNS))
    ]
    results = [run_function(each, "mugraph", given)[0] for each in (module, kernel)]
    np.testing.assert_allclose(results[1], results[0], rtol=4e-3, atol=4e-3)
