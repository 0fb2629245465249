"""Generated CUDA of repartitioned µGraphs, executed on the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from schedules import passes_as_written

from fuzz.emulated import check_together
from fuzz.properties import Case, Compiled, function_of, parse
from mugraph.codegen.cuda import print_module
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.mugraph.online_softmax import OnlineSoftmaxPass
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function

GRAPHS = Path(__file__).with_name("retiled")
SCALE = 0.5
"""Of the random inputs; scores stay small enough for exponentials without a maximum."""
ERROR = 3e-2
"""How far rounding to f16 between the operators may carry results of about 10."""
CASES: list[tuple[str, dict[str, object], bool]] = [
    ("attention", {"split": 4, "spread": False}, False),
    ("attention", {"split": 4}, True),
    ("attention", {"split": 2, "spread": False, "parts": "f16"}, True),
    ("norms", {"grid": (4,), "forloop": 4, "block": (128,)}, False),
    ("norms", {"split": 4}, False),
    ("norms", {"grid": (1, 2), "along": (-1, 0), "split": 2}, False),
]


def compiled(name: str, options: dict[str, object], maxima: bool) -> Compiled:
    """The CUDA of a µGraph that is repartitioned, with running maxima or without."""
    context = make_context()
    module = parse((GRAPHS / f"{name}.mlir").read_text(encoding="utf-8"))
    random = np.random.default_rng(0)
    inputs = [
        (SCALE * random.standard_normal(shape_of(argument.type))).astype(np.float16)
        for argument in function_of(module).body.block.args
    ]
    case = Case(inputs, run_function(module, None, inputs, "float64"), [ERROR])
    RetilePass(**options).apply(context, module)  # type: ignore[arg-type]
    if maxima:
        OnlineSoftmaxPass().apply(context, module)
    for step in passes_as_written():
        step.apply(context, module)
    module.verify()
    return Compiled(case, module, print_module(module))


@pytest.mark.usefixtures("needs_emulator")
def test_repartitioned_kernels_compute_the_same(tmp_path: Path) -> None:
    failures = check_together([compiled(*case) for case in CASES], tmp_path)
    assert [failure for failure in failures if failure is not None] == []
