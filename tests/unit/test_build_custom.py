"""Custom operators in graphs that are built in Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import PassFailedException

import mugraph.build as mi
from mugraph.dialects import sched, tb, te
from mugraph.passes.mugraph.expand_custom import ExpandCustomPass
from mugraph.passes.transpile import TranspilePass
from mugraph.reading import make_context
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function
from mugraph.tools.export_mirage import MirageExportError, export_mirage

Array = npt.NDArray[np.float32]

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


def program_of(module: ModuleOp) -> FuncOp:
    return next(op for op in module.ops if isinstance(op, FuncOp) and op.sym_name.data == "g")


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
    assert prove(program_of(given), program_of(expanded)).holds
    TranspilePass(arch="sm_90a").apply(make_context(), given)
    assert not any(isinstance(op, sched.CustomOp) for op in given.walk())
    for level in ("logical", "address"):
        (found,) = run_function(given, "g", [x], level=level)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


ROWS = """
fn softmax(x: f32[M, N]): f32[M, N] {
    par M i {
        new e: f32[N]
        new largest: f32
        new sum: f32
        largest = -1000.0
        sum = 0.0
        par N j { red largest max= x[i, j] }
        par N j { e[j] = exp(x[i, j] - largest) red sum += e[j] }
        par N k { result[i, k] = e[k] / sum }
    }
}
fn centred(x: f32[M, N]): f32[M, N] {
    new mean: f32[M]
    new apart: f32[M]
    par M i { mean[i] = 0.0 apart[i] = 0.0 }
    par M i { par N j { red mean[i] += x[i, j] / f32(N) } }
    par N j { par M i {
        let off = x[i, j] - mean[i]
        red apart[i] += off * off
    } }
    par M i { par N j { result[i, j] = (x[i, j] - mean[i]) * rsqrt(apart[i] + 0.001) } }
}
fn rounded(x: f32[M, N]): f32[M, N] {
    new near: f16[M, N]
    new largest: f32[M]
    new sum: f32[M]
    par M i {
        largest[i] = -1000.0
        sum[i] = 0.0
        par N j { red largest[i] max= x[i, j] }
        par N j {
            let v = x[i, j] * largest[i]
            near[i, j] = f16(v)
            red sum[i] += v * v
        }
        par N j { result[i, j] = near[i, j] / sum[i] }
    }
}
"""


def _rounded(x: Array) -> Array:
    v = x * x.max(1, keepdims=True)
    return v / (v * v).sum(1, keepdims=True)


def _centred(x: Array) -> Array:
    off = x - x.mean(1, keepdims=True)
    return off / np.sqrt((off * off).sum(1, keepdims=True) + 0.001)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "function"), [("softmax", _softmax), ("centred", _centred), ("rounded", _rounded)]
)
def test_rows_are_reduced_where_their_elements_are(
    name: str, function: Callable[[Array], Array]
) -> None:
    given, expanded = (built(ROWS, name).module() for _ in range(2))
    ExpandCustomPass().apply(make_context(), expanded)
    expanded.verify()
    assert not any(isinstance(op, tb.CustomOp) for op in expanded.walk())
    assert prove(program_of(given), program_of(expanded)).holds
    TranspilePass(arch="sm_90a").apply(make_context(), given)
    x = np.random.default_rng(1).normal(size=(8, 12)).astype(np.float32)
    for module in (expanded, given):
        (found,) = run_function(module, "g", [x])
        np.testing.assert_allclose(found, function(x), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    "body",
    [
        "new s: f32[M] par M i { s[i] = 0.0 } par M i { par N j { red s[i] min= x[i, j] } }"
        "par M i { par N j { result[i, j] = x[i, j] * s[i] } }",
        "new s: f32[M] par M i { s[i] = 1.0 } par M i { par N j { red s[i] += x[i, j] } }"
        "par M i { par N j { result[i, j] = x[i, j] * s[i] } }",
        "par M i { reg s = 0.0 seq N j { s += x[i, j] } par N j { result[i, j] = s } }",
        "par M i { par N j { result[i, j] = 0.0 } } par M i { result[i, 0] = x[i, 1] }",
        # Two places of one dimension meet.
        "par M i { par N j { new s: f32 s = 0.0 par N k { red s += x[i, k] * x[i, j] }"
        "result[i, j] = s + x[i, j] } }",
        # Each sum is rounded.
        "new s: f16[M] par M i { s[i] = 0.0 par N j { red s[i] += f16(x[i, j]) }"
        "par N j { result[i, j] = x[i, j] * s[i] } }",
    ],
)
def test_what_the_block_has_no_operators_for_stays(body: str) -> None:
    module = built(f"fn f(x: f32[M, N]): f32[M, N] {{ {body} }}", "f").module()
    before = str(module)
    ExpandCustomPass().apply(make_context(), module)
    assert str(module) == before
    (custom,) = (op for op in module.walk() if isinstance(op, tb.CustomOp))
    assert len([*custom.inputs[0].uses]) == 1
