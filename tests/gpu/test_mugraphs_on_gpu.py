"""µGraphs on a GPU: the examples of this repository, and saved ones where a folder holds them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cases import parser, run
from benchmarks.saved_mugraphs import graphs_of
from mugraph.codegen.architecture import choose_architecture
from mugraph.passes.targets import default_targets
from mugraph.reading import make_context, read_module
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.interpreter import run_function
from mugraph.tools.random_inputs import random_inputs

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
SAVED = Path(os.environ.get("MUGRAPH_SAVED_MUGRAPHS", ROOT.parent / "shared" / "mugraphs"))


@pytest.mark.gpu
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_equals_its_float64_evaluation(path: Path, gpu_architecture: str) -> None:
    context = make_context()
    module = read_module(str(path), context)
    function = next(op for op in module.ops if op.name == "func.func")
    inputs = random_inputs(function, [0.1], seed=7)
    expected = run_function(module, None, inputs, precision="float64")
    arch = choose_architecture(gpu_architecture, [*default_targets()])
    loaded = generate_cuda(module, context, arch).load()
    first, second = loaded.run(inputs), loaded.run(inputs)
    for output, again, result in zip(first, second, compare(first, expected), strict=True):
        assert result.holds(TOLERANCE), result
        assert np.array_equal(output, again)


@pytest.mark.gpu
def test_all_saved_mugraphs_compute_their_function(gpu_architecture: str, tmp_path: Path) -> None:
    if not SAVED.is_dir():
        pytest.skip(f"no saved µGraphs in {SAVED}; MUGRAPH_SAVED_MUGRAPHS names another folder")
    arch = choose_architecture(gpu_architecture, [*default_targets()])
    options = parser(None, output=str(tmp_path / "saved")).parse_args(["--arch", arch])
    assert run("Saved µGraphs", graphs_of(SAVED, None), options) == 0
