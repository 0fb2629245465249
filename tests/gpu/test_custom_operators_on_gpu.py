"""Custom operators on a GPU against float64."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.custom_operators import OPERATORS, Tile, graph_of, parse

from mugraph.codegen.architecture import choose_architecture
from mugraph.passes.targets import default_targets
from mugraph.reading import make_context
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.interpreter import run_function
from mugraph.tools.random_inputs import random_inputs

HALF = Tile(32, 64, "f32")
GRAPHS = {
    "rope": graph_of("rope", [Tile(32, 128), HALF, HALF], Tile(32, 128), blocks=64),
    "row_softmax": graph_of("row_softmax", [Tile(16, 256, "f32")], Tile(16, 256), blocks=64),
    "cumsum": graph_of("cumsum", [Tile(16, 128)], Tile(16, 128), blocks=16),
    "rope_of_product": OPERATORS.with_name("rope.mlir").read_text(encoding="utf-8"),
}


@pytest.mark.gpu
@pytest.mark.parametrize("name", GRAPHS)
def test_an_operator_equals_its_float64_evaluation(name: str, gpu_architecture: str) -> None:
    module = parse(GRAPHS[name])
    function = next(op for op in module.ops if op.sym_visibility is None)
    inputs = random_inputs(function, [1.0], seed=7)
    expected = run_function(module, None, inputs, precision="float64")
    arch = choose_architecture(gpu_architecture, [*default_targets()])
    loaded = generate_cuda(module, make_context(), arch).load()
    first, second = loaded.run(inputs), loaded.run(inputs)
    for output, again, result in zip(first, second, compare(first, expected), strict=True):
        assert result.holds(TOLERANCE), result
        assert np.array_equal(output, again)
