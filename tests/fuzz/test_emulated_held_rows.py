"""Rows that threads hold in registers: rows that start anywhere, and what is computed again."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from fuzz.emulated import MUGRAPHS
from fuzz.properties import (
    Compiled,
    make_case,
    require_parsed_back,
    require_same_function,
)
from mugraph.codegen.cuda import print_module
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context

STAGES = ("promote-registers", "pipeline-loads", "set-register-budgets")


def softmax(rows: int, columns: int) -> ModuleOp:
    """Of rows of f16."""
    graph = mi.new_kernel_graph("rows")
    graph.mark_output(mi.softmax(graph.new_input((rows, columns), dtype=mi.float16)))
    return graph.module()


def layer_norm(rows: int, columns: int) -> ModuleOp:
    """With weights and biases of bf16."""
    graph = mi.new_kernel_graph("rows")
    shapes = ((rows, columns), (columns,), (columns,))
    inputs = [graph.new_input(shape, dtype=mi.bfloat16) for shape in shapes]
    graph.mark_output(mi.layer_norm(*inputs, eps=1e-5))
    return graph.module()


OF_SOFTMAX, OF_NORM = 2.0**-6, 2.0**-5
"""How far rounding may carry a softmax, times its columns, and a norm in bf16."""
PROGRAMS = (
    (
        softmax(3, 1003),
        Plan(grid=(3,), along=(0,), tile=(1, 1008)),
        OF_SOFTMAX / 1003,
        ("::load_shifted(", "tb::renew(", "ops::ScaledExp<", "tb::StoreShifted<"),
    ),
    (softmax(1500, 147), None, OF_SOFTMAX / 147, ("ops::ScaledExp<",)),
    (softmax(2, 2048), None, OF_SOFTMAX / 2048, ("tb::renew(", "ops::ScaledExp<")),
    (
        layer_norm(3, 1031),
        Plan(grid=(3,), along=(0,), tile=(1, 1032)),
        OF_NORM,
        ("::load_shifted(", "tb::renew("),
    ),
    (layer_norm(7, 264), None, OF_NORM, ("tb::renew(",)),
)
"""Each with a plan, how far off it may be, and what its text must have."""


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    """Each program after every pass, checked where registers and loads change."""
    found: list[Compiled] = []
    for module, plan, error, wanted in PROGRAMS:
        case = make_case(module, error)
        context = make_context()
        for step in compile_pipeline("sm_90a", plan):
            step.apply(context, module)
            if step.name in STAGES:
                module.verify()
                parsed = require_parsed_back(step.name, module, str(module))
                require_same_function(step.name, parsed, case)
        cuda = print_module(module)
        assert [text for text in wanted if text not in cuda] == []
        found.append(Compiled(case, module, cuda))
    return found


@pytest.mark.usefixtures("needs_emulator")
def test_the_cuda_is_right(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)
