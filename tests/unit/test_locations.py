"""Where operations come from: read, kept through passes, printed in errors and in CUDA."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from schedules import passes_as_written
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import DiagnosticException, ParseError

import mugraph
import mugraph.build as mi
from mugraph.codegen.cuda import print_module
from mugraph.dialects import tb
from mugraph.dialects.locations import place_in, reported_within
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context, parse_text
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.texpr import read_texpr
from mugraph.tools.diagnostics import describe_error

EXAMPLE = Path(__file__).parents[2] / "examples/rmsnorm_linear.mlir"
FUNCTION = """\
func.func @f(%x: tensor<16x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%d: tensor<16x64xf16>):
    %t = tb.input %d imap [-1, -1, -1] fordim 0 : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %e = tb.exp %t : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %e omap [-1, -1, -1] fordim 0 : !tb.stensor<16x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}
"""


def read(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "f.mlir")


def line_of(text: str, part: str) -> int:
    """The first line, from 1, that has a part."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def with_locations(module: ModuleOp) -> str:
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    return stream.getvalue()


def test_operations_are_where_their_text_starts() -> None:
    places = {
        op.name: (op.location.line.data, op.location.column.data)
        for op in read(FUNCTION).walk()
        if isinstance(op.location, FileLineColLoc)
    }
    assert places == {
        "func.func": (1, 1),
        "kn.customized": (2, 3),
        "tb.input": (4, 5),
        "tb.exp": (5, 5),
        "tb.output": (6, 5),
        "func.return": (8, 3),
    }


def test_a_location_in_the_text_stays_and_none_is_printed_unasked() -> None:
    text = FUNCTION.replace(
        "-> !tb.stensor<16x64xf16>\n    tb.output",
        '-> !tb.stensor<16x64xf16> loc("model.py":7:9)\n    tb.output',
    )
    module = read(text)
    printed = with_locations(module)
    assert 'loc("model.py":7:9)' in printed and 'loc("f.mlir":6:5)' in printed
    assert with_locations(read(printed)) == printed
    assert "loc(" not in str(module)


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ("tb.exp %t : !tb.stensor<16x64xf16> ->", "tb.exp %t : !tb.stensor<16x64xf16> //", 5),
        ("tb.exp %t : ", "tb.expp\n\n  // a comment\n", 5),
        ("  func.return %o :", "  func.return %o\n", 8),
        # What stands in a wrong line is said there.
        ("    tb.output", "    )\n    tb.output", 6),
        ("tb.exp %t", "tb.exp t", 5),
    ],
)
def test_an_error_is_in_the_line_that_is_not_complete(before: str, after: str, place: int) -> None:
    text = FUNCTION.replace(before, after)
    assert text != FUNCTION
    with pytest.raises(ParseError) as raised:
        read(text)
    assert describe_error(raised.value).startswith(f"f.mlir:{place}:")


def test_a_verifier_s_error_has_the_place_of_the_operation() -> None:
    text = FUNCTION.replace("tb.output %e", "tb.output %t")
    wrong = "tb.exp %t : !tb.stensor<16x64xf16> -> !tb.stensor<16x32xf16>"
    module = read(text.replace(wrong.replace("32", "64"), wrong))
    with pytest.raises(DiagnosticException) as raised, reported_within(module):
        module.verify()
    assert describe_error(raised.value).startswith("f.mlir:5:5: error: 'tb.exp' %e: the result has")


def test_a_name_that_several_operations_have_gives_no_place() -> None:
    twice = FUNCTION + FUNCTION.replace("@f", "@g")
    for text, place in ((FUNCTION, "f.mlir:5:5"), (twice, None)):
        with pytest.raises(DiagnosticException) as raised, reported_within(read(text)):
            raise DiagnosticException("'tb.exp' %e is wrong, and so is 'tb.input' %t")
        assert place_in(raised.value) == place


def test_what_is_made_of_an_operation_has_its_line() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    context = make_context()
    module = parse_text(context, text, "f.mlir")
    DecomposeThreadblockPass().apply(context, module)
    lines = {
        op.name: op.location.line.data
        for op in module.walk()
        if isinstance(op.location, FileLineColLoc)
    }
    rms = line_of(text, "forloop_accum rms")
    assert (lines["tb.square"], lines["tb.reduction"], lines["tb.sqrt"]) == (rms, rms, rms)


def test_what_is_inserted_behind_an_operation_has_its_line() -> None:
    path = Path(__file__).parents[1] / "filecheck/passes/separate-phases.mlir"
    text = path.read_text(encoding="utf-8")
    context = make_context()
    module = parse_text(context, text, "f.mlir")
    DecomposeThreadblockPass().apply(context, module)
    accumulators = [op for op in module.walk() if isinstance(op, tb.ForloopAccumOp)]
    inserted = next(op for op in accumulators if isinstance(op.input.owner, tb.MatmulOp))
    location = inserted.location
    assert isinstance(location, FileLineColLoc)
    assert location.line.data == line_of(text, "!tb.stensor<64x32xf16>) ->")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_operators_of_a_schedule_have_the_lines_of_the_graph(arch: str) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    context = make_context()
    module = parse_text(context, text, "f.mlir")
    verifying(passes_as_written(arch)).apply(context, module)
    expected = {
        "tb.input %dx": {"sx"},
        "tb.input %dw": {"sw"},
        "tb.matmul": {"am"},
        "forloop_accum rms": {"ar"},
        "tb.div": {"d"},
    }
    buffers = [op for op in module.walk() if op.name in ("sched.alloc", "sched.empty")]
    named = {op.results[0].name_hint: op for op in buffers if op.name == "sched.alloc"}
    for part, names in expected.items():
        for name in names & named.keys():
            location = named[name].location
            assert isinstance(location, FileLineColLoc)
            # A product and the sum of it over the loop are one operator of the schedule.
            assert location.line.data == line_of(text, part), name
    computing = ("sched.map", "sched.mma", "sched.warpgroup_mma", "sched.map")
    for op in module.walk():
        if op.name in computing:
            assert isinstance(op.location, FileLineColLoc), op


def test_the_lines_of_a_python_program() -> None:
    graph = mi.new_kernel_graph("large")
    x = graph.new_input((16, 65536), name="x")
    block = mi.new_threadblock_graph((1, 1, 1), (128, 1, 1))
    tile = block.new_input(x, (-1, -1, -1), 0)
    block.new_output(block.exp(tile), (-1, -1, -1), 0)
    graph.mark_output(*graph.customized([x], block))
    here = Path(__file__).read_text(encoding="utf-8")
    line = line_of(here, "graph.mark_output(*graph.customized([x], block))")
    with pytest.raises(DiagnosticException, match="of shared memory") as raised:
        mugraph.compile(graph, "sm_80", plan=mugraph.Plan(tiles="written"))
    assert place_in(raised.value) == f"{__file__}:{line}:24"
    assert f"{__file__}:{line}:24: error: " in describe_error(raised.value)


def test_what_the_interpreter_cannot_run_has_its_line_and_no_dump_of_the_module() -> None:
    graph = mi.new_kernel_graph("rows")
    table, rows = graph.new_input((8, 4)), graph.new_input((3,), dtype=mi.int32)
    graph.mark_output(mi.exp(table))
    graph.mark_output(mi.gather(table, rows))
    line = line_of(Path(__file__).read_text(encoding="utf-8"), "graph.mark_output(mi.gather(")
    with pytest.raises(ExecutionError, match="9 names no row") as error:
        run_function(graph.module(), None, [np.ones((8, 4)), np.array([1, 9, 2])])
    (note,) = error.value.__notes__
    assert note == f"{__file__}:{line}:23"


def test_what_a_tensor_expression_reads_unwritten_has_its_line() -> None:
    text = "fn f(x: f32[8]): f32[8] {\n  par 8 i { reg a: f32\n    result[i] = a[0] + x[i] }\n}\n"
    module = read_texpr(text, "f.te", {})
    with pytest.raises(ExecutionError, match="which nothing has written") as error:
        run_function(module, None, [np.ones(8)])
    assert str(place_in(error.value)) == "f.te:3:17"


def test_cuda_says_on_request_where_its_lines_come_from() -> None:
    context = make_context()
    module = parse_text(context, EXAMPLE.read_text(encoding="utf-8"), 'a "name".mlir')
    verifying(passes_as_written("sm_80")).apply(context, module)
    plain, annotated = print_module(module), print_module(module, line_info=True)
    lines = annotated.splitlines()
    assert "#line" not in plain
    assert plain.splitlines() == [line for line in lines if not line.startswith("#line ")]
    div = line_of(EXAMPLE.read_text(encoding="utf-8"), "tb.div")
    at = next(i for i, line in enumerate(lines) if "ops::Div" in line or "ops::Mul," in line)
    assert lines[at - 1] == f'#line {div} "a \\"name\\".mlir"'
    # What follows the kernel belongs to the generated text, at its own line.
    after = next(i for i, line in enumerate(lines) if line.endswith('"kernel.cu"'))
    assert lines[after] == f'#line {after + 2} "kernel.cu"'
