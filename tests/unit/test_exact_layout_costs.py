"""What layouts cost: narrow rows, a copy by hand, and the best without a choice."""

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser

from mugraph.dialects.tensor_types import layout_of, strides_of
from mugraph.passes.mugraph.resolve_layout import (
    ResolveLayoutPass,
    layout_problem_of,
)
from mugraph.passes.mugraph.resolve_layout.explain_layouts import tensor_report
from mugraph.passes.mugraph.resolve_layout.problem import tensors_of
from mugraph.passes.mugraph.resolve_layout.solve import solve
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

EXAMPLES = sorted((Path(__file__).parent.parent.parent / "examples").glob("*.mlir"))

# Two columns a block: rows of 4 bytes, which padding to 16 bytes would make four times as large.
ROWS = "tensor<4096x64xf16, #cute.layout<(4096,64):(64,1)>>"
TWO_COLUMNS = f"""
func.func @f(%x: {ROWS}, %y: {ROWS}) -> {ROWS} {{
  %o = kn.customized %x, %y grid [32, 1, 1] block [128, 1, 1] forloop 16 {{
  ^bb0(%dx: {ROWS}, %dy: {ROWS}):
    %sx = tb.input %dx imap [1, -1, -1] fordim 0 : {ROWS} -> !tb.stensor<256x2xf16>
    %sy = tb.input %dy imap [1, -1, -1] fordim 0 : {ROWS} -> !tb.stensor<256x2xf16>
    %m = tb.mul %sx, %sy : (!tb.stensor<256x2xf16>, !tb.stensor<256x2xf16>)
      -> !tb.stensor<256x2xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<256x2xf16> -> !tb.stensor<256x2xf16>
    tb.output %a omap [1, -1, -1] : !tb.stensor<256x2xf16> -> tensor<256x64xf16>
  }} : ({ROWS}, {ROWS}) -> tensor<256x64xf16>
  func.return %o : tensor<256x64xf16>
}}""".replace(f"-> {ROWS} {{", "-> tensor<256x64xf16> {", 1)


def parse(text: str) -> ModuleOp:
    return Parser(make_context(), text).parse_module()


def test_narrow_rows_are_not_padded() -> None:
    module = parse(TWO_COLUMNS)
    ResolveLayoutPass().apply(make_context(), module)
    tiles = {
        result.name_hint: strides_of(layout)
        for op in module.walk()
        for result in op.results
        if (layout := layout_of(result.type)) is not None
    }
    assert {tiles[name] for name in ("sx", "sy", "m", "a")} == {(2, 1)}


def test_the_price_of_a_copy_by_hand() -> None:
    # 16 rows of 64 f16 by cp.async: 64 sectors at 4800 bytes a ns, 16 wavefronts and 4 warp
    # instructions by one multiprocessor of 4 schedulers at 1.98 GHz, as there is one block.
    text = """
func.func @f(%x: tensor<16x64xf16>) -> tensor<16x64xf16> {
  %o = kn.customized %x grid [1, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<16x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<16x64xf16> -> !tb.stensor<16x64xf16>
    %a = tb.forloop_accum none %sx : !tb.stensor<16x64xf16> -> !tb.stensor<16x64xf16>
    tb.output %a omap [-1, -1, -1] : !tb.stensor<16x64xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %o : tensor<16x64xf16>
}"""
    function = next(op for op in parse(text).walk() if isinstance(op, FuncOp))
    problem = layout_problem_of(function, target_named("sm_90a"))
    solution = solve(problem)
    tile = next(value for value in tensors_of(function) if value.name_hint == "sx")
    terms = tensor_report(problem, solution, tile, 1 << 10).terms
    cycle = 1000 / 1.98
    assert terms["device memory, 'tb.input' %sx"] == round(64 * 32 * 1000 / 4800)
    assert terms["shared memory, 'tb.input' %sx"] == round(16 * cycle)
    assert terms["instructions, 'tb.input' %sx"] == round(4 * cycle / 4)


def test_the_runner_up_is_the_best_without_the_choice() -> None:
    function = next(op for op in parse(TWO_COLUMNS).walk() if isinstance(op, FuncOp))
    problem = layout_problem_of(function, target_named("sm_90a"))
    solution = solve(problem)
    for value in tensors_of(function):
        report = tensor_report(problem, solution, value, 1 << 10)
        if report.runner_up is None:
            assert report.is_fixed
            continue
        layout, other = report.runner_up
        assert layout != report.layout
        assert other.is_optimal and other.cost >= solution.cost


def test_like_kernels_are_charged_alike() -> None:
    kernel = """
  %{y} = kn.customized %{x}, %{w} grid [2, 1, 1] block [128, 1, 1] forloop 2 {{
  ^bb0(%dx: tensor<64x128xf16>, %dw: tensor<128x128xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x128xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<128x128xf16> -> !tb.stensor<64x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x64xf16>)
      -> !tb.stensor<64x64xf16>
    %{a} = tb.forloop_accum none %m : !tb.stensor<64x64xf16> -> !tb.stensor<64x64xf16>
    tb.output %{a} omap [1, -1, -1] : !tb.stensor<64x64xf16> -> tensor<64x128xf16>
  }} : (tensor<64x128xf16>, tensor<128x128xf16>) -> tensor<64x128xf16>"""

    def costs(name: str) -> tuple[list[object], ...]:
        """What is charged of three kernels of which the last has a tile of another name."""
        arguments = "%x: tensor<64x128xf16>, %w: tensor<128x128xf16>"
        of_layers = ("x", "y", "a"), ("y", "z", "a"), ("z", "o", name)
        layers = [kernel.format(x=x, w="w", y=y, a=a) for x, y, a in of_layers]
        text = f"""
func.func @f({arguments}) -> tensor<64x128xf16> {{{"".join(layers)}
  func.return %o : tensor<64x128xf16>
}}"""
        function = next(op for op in parse(text).walk() if isinstance(op, FuncOp))
        problem = layout_problem_of(function, target_named("sm_90a"))
        paid = [(cost.weight, cost.when) for cost in problem.soft]
        return [*problem.variables], paid, [*problem.at_most_one]

    # Kernels whose operators have other names are looked at for themselves.
    again, alone = costs("a"), costs("b")
    assert again == alone and again[2]
