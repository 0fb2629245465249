"""Custom operators in graphs that are built in Python."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

import mugraph.build as mi
from mugraph.dialects import sched, te
from mugraph.passes.mugraph.expand_custom import ExpandCustomPass
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function
from mugraph.tools.export_mirage import MirageExportError, export_mirage

SQUARED_RELU = """
fn squared_relu(x: f32[M, N]): f32[M, N] {
    par M i { par N j { result[i, j] = max(x[i, j], 0.0) * max(x[i, j], 0.0) } }
}
"""


def built(source: str, operator: str = "squared_relu") -> mi.KernelGraph:
    graph = mi.new_kernel_graph("g")
    x = graph.new_input((8, 12), dtype=mi.float32)
    block = mi.new_threadblock_graph((2, 1, 1), (32, 1, 1))
    tile = block.forloop_accum(block.new_input(x, (0, -1, -1)))
    block.new_output(block.custom(operator, [tile], source), (0, -1, -1))
    (y,) = graph.customized([x], block)
    graph.mark_output(y)
    return graph


def test_a_graph_has_the_functions_of_its_operators() -> None:
    module = built(SQUARED_RELU).module()
    x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12)
    (y,) = run_function(module, "g", [x])
    np.testing.assert_allclose(y, np.maximum(x, 0) ** 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("source", "operator", "message"),
    [
        (SQUARED_RELU, "relu", "has no function relu; it has squared_relu"),
        (SQUARED_RELU.replace("f32[M", "f16[M"), "squared_relu", "the parameter x .* is of f16"),
        (SQUARED_RELU.replace("[i, j] =", "[i, 0] ="), "squared_relu", "both touch result"),
        ("fn squared_relu(x: f32[M, N]) { }", "squared_relu", "gives nothing"),
    ],
)
def test_errors_are_raised_where_the_operator_is_added(
    source: str, operator: str, message: str
) -> None:
    with pytest.raises(mi.BuildError, match=message):
        built(source, operator)


MIRRORED = """
fn squared_relu(x: f32[M, N]): f32[M, N] {
    par M i { par N j { result[i, j] = max(x[i, N - 1 - j], 0.0) * max(x[i, j], 0.0) } }
}
"""


def test_what_threads_touch_is_found_anew_when_a_step_changes() -> None:
    module = built(MIRRORED).module()
    TranspilePass(arch="sm_90a").apply(make_context(), module)
    step = next(op for op in module.walk() if isinstance(op, sched.CustomOp))
    assert step.footprints is step.footprints
    before = len(step.footprints.accesses)
    store = next(op for op in step.walk() if isinstance(op, te.AccessOp) and not op.results)
    store.detach()
    store.erase()
    assert len(step.footprints.accesses) == before - 1
    assert not step.buffers_written()


def test_mirages_format_has_no_such_operators() -> None:
    with pytest.raises(MirageExportError, match="custom operator, @squared_relu_4_12"):
        export_mirage(built(SQUARED_RELU).module())


CONDITIONAL = """
fn squared_relu(x: f32[M, N]): f32[M, N] {
    par M i { par N j {
        result[i, j] = 0.0
        if x[i, j] > 0.0 { result[i, j] = x[i, j] * x[i, j] }
    } }
}
"""


def test_conditions_on_elements() -> None:
    module = built(CONDITIONAL).module()
    TranspilePass().apply(make_context(), module)
    x = np.linspace(-1, 1, 96, dtype=np.float32).reshape(8, 12)
    (y,) = run_function(module, "g", [x])
    np.testing.assert_allclose(y, np.maximum(x, 0) ** 2, rtol=1e-6)


def test_a_result_that_a_condition_may_leave_out_is_not_written_whole() -> None:
    module = built(CONDITIONAL.replace("result[i, j] = 0.0\n", "")).module()
    with pytest.raises(PassFailedException, match="never writes element"):
        TranspilePass().apply(make_context(), module)


GATED = """
fn squared_relu(x: f32[M, N]): f32[M, N] {
    par M i { par N j {
        let v = x[i, j]
        let large = max(v, 0.75) - 3.0 * v + pow(abs(v), 1.5)
        result[i, j] = select(v < 0.5, v / (1.0 + exp(-v)), large)
    } }
}
"""


def test_element_wise_functions_are_computed_where_their_operands_are() -> None:
    given, expanded = (built(GATED).module() for _ in range(2))
    ExpandCustomPass().apply(make_context(), expanded)
    expanded.verify()
    x = np.linspace(-2, 2, 96, dtype=np.float32).reshape(8, 12)
    (wanted,) = run_function(given, "g", [x])
    (found,) = run_function(expanded, "g", [x])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    programs = [
        next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "g")
        for module in (given, expanded)
    ]
    assert prove(*programs).holds
    TranspilePass(arch="sm_90a").apply(make_context(), given)
    assert not any(isinstance(op, sched.CustomOp) for op in given.walk())
    for level in ("logical", "address"):
        (found,) = run_function(given, "g", [x], level=level)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
