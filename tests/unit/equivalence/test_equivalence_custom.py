"""Custom operators: unknown functions of their operands in proofs, numbers in tests."""

from __future__ import annotations

import pytest
from equivalence_programs import subject
from schedules import passes_as_written

from mugraph.reading import make_context
from mugraph.runtime.equivalence import Answer, Checker, Evidence
from mugraph.runtime.equivalence.prove import prove

SCAN = """
func.func private @scan(%x: !te.buffer<8x16xf32>, %y: !te.buffer<8x16xf32> {te.result}) {
  te.par %i = 8 {
    %s = te.new : !te.buffer<1xf32, register>
    %zero = arith.constant 0.0 : f32
    te.bind %zero, %s[0] : !te.buffer<1xf32, register>
    te.seq %j = 16 {
      %a = te.view %x[%i, %j] : !te.buffer<8x16xf32>
      %b = te.view %s[0] : !te.buffer<1xf32, register>
      %c = arith.OPERATOR %a, %b : f32
      te.bind %c, %s[0] : !te.buffer<1xf32, register>
      te.bind %c, %y[%i, %j] : !te.buffer<8x16xf32>
    }
  }
  func.return
}
"""


def graph(loop: int, *, operator: str = "addf", after: str = "") -> str:
    """Running sums of the rows of a product whose depth of 16 takes ``loop`` iterations."""
    depth = 16 // loop
    return (
        SCAN.replace("OPERATOR", operator)
        + f"""
func.func @f(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {{
  %o = kn.customized %x, %w grid [2, 1, 1] block [64, 1, 1] forloop {loop} {{
  ^bb0(%dx: tensor<16x16xf32>, %dw: tensor<16x16xf32>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<16x16xf32> -> !tb.stensor<8x{depth}xf32>
    %sw = tb.input %dw imap [-1, -1, -1] fordim 0 : tensor<16x16xf32> -> !tb.stensor<{depth}x16xf32>
    %m = tb.matmul %sx, %sw : (!tb.stensor<8x{depth}xf32>, !tb.stensor<{depth}x16xf32>)
      -> !tb.stensor<8x16xf32>
    %q = tb.forloop_accum none %m : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xf32>
    %y = tb.custom @scan(%q) : (!tb.stensor<8x16xf32>) -> !tb.stensor<8x16xf32>
    {after}
    tb.output {"%z" if after else "%y"} omap [0, -1, -1] : !tb.stensor<8x16xf32>
      -> tensor<16x16xf32>
  }} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  func.return %o : tensor<16x16xf32>
}}
"""
    )


def test_equal_functions_of_equal_operands_are_equal() -> None:
    one, other = subject(graph(1)), subject(graph(4))
    assert prove(one.function, other.function).holds


@pytest.mark.parametrize(
    "text",
    [
        graph(1, operator="subf"),
        graph(1, after="%z = tb.exp %y : !tb.stensor<8x16xf32> -> !tb.stensor<8x16xf32>"),
    ],
)
def test_other_functions_are_told_apart(text: str) -> None:
    reference = subject(graph(1))
    assert not prove(subject(text).function, reference.function).holds
    assert Checker(reference).check(subject(text)).answer is Answer.DIFFERENT


def test_a_schedule_is_tested_in_float64_and_in_finite_fields() -> None:
    scheduled = subject(graph(4))
    for step in passes_as_written("sm_80"):
        step.apply(make_context(), scheduled.module)
    verdict = Checker(subject(graph(4)), seeds=(0,)).check(scheduled)
    assert verdict.answer is Answer.TESTED
    assert set(verdict.seconds) == set(Evidence)
    assert "do not decide" not in str(verdict)
