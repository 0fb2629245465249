"""Generated CUDA of repartitioned µGraphs, executed on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from schedules import passes_as_written

from fuzz.emulated import MUGRAPHS
from fuzz.properties import Case, Compiled, function_of, parse
from mugraph.codegen.cuda import print_module
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function

GRAPHS = Path(__file__).with_name("retiled")
SCALE = 0.5
"""Of the random inputs; scores stay small enough for exponentials without a maximum."""
ERROR = 3e-2
"""How far rounding to f16 between the operators may carry results of about 10."""
MAXIMA: dict[str, Any] = {"online_softmax": True}
FREE: dict[str, Any] = {"tiles": None}
"""Kernels that combine parts are cut for the target, and not as those that store them."""
CASES: list[tuple[str, Plan, dict[str, Any]]] = [
    ("attention", Plan(split_k=4), {}),
    ("attention", Plan(split_k=4), MAXIMA | FREE),
    ("attention", Plan(split_k=2, partial_sums="f16"), MAXIMA),
    ("norms", Plan(grid=(4,), forloop=4, block=(128,)), {}),
    ("norms", Plan(split_k=4), FREE),
    ("norms", Plan(grid=(1, 2), along=(-1, 0), split_k=2), FREE),
]
"""Graphs, the plans that they are cut by, and how the kernels are planned then."""


def compiled(name: str, plan: Plan, parts: dict[str, Any]) -> Compiled:
    """The CUDA of a µGraph that is repartitioned."""
    context = make_context()
    module = parse((GRAPHS / f"{name}.mlir").read_text(encoding="utf-8"))
    random = np.random.default_rng(0)
    inputs = [
        (SCALE * random.standard_normal(shape_of(argument.type))).astype(np.float16)
        for argument in function_of(module).body.block.args
    ]
    case = Case(inputs, run_function(module, None, inputs, "float64"), [ERROR])
    custom_kernels(module)[0].decided = plan
    RetilePass().apply(context, module)
    for step in passes_as_written(**parts):
        step.apply(context, module)
    module.verify()
    return Compiled(case, module, print_module(module))


@pytest.mark.usefixtures("needs_emulator")
def test_repartitioned_kernels_compute_the_same() -> None:
    MUGRAPHS.add(*(compiled(*case) for case in CASES))
