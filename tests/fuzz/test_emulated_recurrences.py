"""Loops that carry a state: at every stage, and executed on the CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases.case import Case as Row
from cases.case import draw, results_of
from cases.tables.recurrences import cases
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from fuzz.emulated import MUGRAPHS
from fuzz.properties import (
    Case,
    Compiled,
    function_of,
    parse,
    require_close,
    require_same_function,
    require_same_text,
)
from mugraph.codegen.cuda import print_module
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import storage_dtype

STEP = {"f16": 2.0**-9, "bf16": 2.0**-6, "f32": 2.0**-9}
"""What results may be off, of the largest; products of f32 are of TF32."""


def delta_rule() -> ModuleOp:
    """The gated delta rule as a plain program of two chunks."""
    graph = mi.new_kernel_graph("delta_rule")
    heads, tokens, depth, width = 1, 32, 32, 48
    q, k = (graph.new_input((heads, tokens, depth, 1), dtype=mi.bfloat16) for _ in range(2))
    v = graph.new_input((heads, tokens, 1, width), dtype=mi.bfloat16)
    logarithms, b = (graph.new_input((heads, tokens, 1, 1), dtype=mi.float32) for _ in range(2))
    decays, rates = mi.sigmoid(logarithms), mi.sigmoid(b)
    row = mi.reshape(k, (heads, tokens, 1, depth))
    removed = graph.mul(k, row * (decays * rates * -1.0), dtype=mi.float32)
    added = graph.mul(k, v * rates, dtype=mi.float32)
    state = mi.scan(added, decays, dim=1, matrix=removed)
    graph.mark_output(mi.reduction(state * q, dim=2))
    return graph.module()


def compiled_delta_rule() -> Compiled:
    """In chunks, as ``mugraph.compile`` makes it; interpreted at each level."""
    module, generator = delta_rule(), np.random.default_rng(1)
    inputs = [
        (0.3 * generator.standard_normal(shape_of(each.type))).astype(
            storage_dtype(element_type_of(each.type))
        )
        for each in function_of(module).body.block.args
    ]
    real = run_function(module, None, inputs, "float64")
    errors = [2.0**-6 * float(np.abs(real[0]).max())]
    for pass_ in compile_pipeline("sm_90a"):
        pass_.apply(make_context(), module)
    module.verify()
    for level in ("logical", "address"):
        results = run_function(module, None, inputs, level=level)
        require_close(level, results, real, errors)
    return Compiled(Case(inputs, real, errors), module, print_module(module))


def compiled_for(row: Row, arch: str) -> Compiled:
    """After the whole pipeline; interpreted at each level, against the reference in numpy."""
    module = parse(row.text)
    arguments = function_of(module).body.block.args
    drawn = draw(row, [shape_of(argument.type) for argument in arguments])
    inputs = [
        array.astype(storage_dtype(element_type_of(argument.type)))
        for array, argument in zip(drawn, arguments, strict=True)
    ]
    expected = results_of(row.reference, inputs)
    step = STEP.get(row.name.rsplit("-", 1)[-1], STEP["f32"])
    errors = [step * max(1.0, float(np.abs(result).max())) for result in expected]
    real = run_function(module, None, inputs, "float64")
    require_close("the µGraph", real, expected, [1e-6 * 100] * len(expected))
    case = Case(inputs, real, errors)
    verifying(passes_as_written(arch)).apply(make_context(), module)
    module = require_same_text("--transpile", module)
    require_same_function("--transpile", module, case)
    results = run_function(module, None, inputs, level="address")
    require_close("addresses", results, real, errors)
    return Compiled(case, module, print_module(module))


RUN = ("cumulative-sum-f16", "linear-attention-64-f16", "delays-f32", "delta-rule-in-chunks")
"""The others differ in their types."""
CHOSEN = [row for row in cases() if row.name in RUN]
ROWS = list(zip(CHOSEN, itertools.cycle(("sm_90a", "sm_80")), strict=False))


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_the_recurrence() -> None:
    compiled = {f"{row.name} {arch}": compiled_for(row, arch) for row, arch in ROWS}
    compiled["the program of a delta rule"] = compiled_delta_rule()
    MUGRAPHS.add(*compiled.values())
