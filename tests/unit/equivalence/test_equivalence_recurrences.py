"""Proofs about loops that carry a state: by their iterations, however many each function has."""

from __future__ import annotations

from cases.tables.recurrences import cumulative_sum
from equivalence_programs import subject

from mugraph.runtime.equivalence import Answer, Checker, Verdict
from mugraph.runtime.equivalence.check import Evidence

ROW = "!tb.stensor<8x1xf32>"


def check(one: str, other: str) -> Verdict:
    return Checker(subject(other)).check(subject(one))


def loop(iterations: int, body: str, stored: str = "last", extent: int = 1) -> str:
    """A loop over the columns of a matrix, with a state of one number a row."""
    tile, result = f"8x{64 // iterations}xf32", f"tensor<8x{extent}xf32>"
    fordim = " fordim 1" if stored != "last" else ""
    return f"""
    func.func @f(%x: tensor<8x64xf32>) -> {result} {{
      %y = kn.customized %x grid [1, 1, 1] block [32, 1, 1] forloop {iterations} {{
      ^bb0(%dx: tensor<8x64xf32>):
        %t = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x64xf32> -> !tb.stensor<{tile}>
        %s = tb.carried : {ROW}
        {body}
        %last = tb.carry %n to %s : ({ROW}, {ROW}) -> {ROW}
        tb.output %{stored} omap [-1, -1, -1]{fordim} : {ROW} -> {result}
      }} : (tensor<8x64xf32>) -> {result}
      func.return %y : {result}
    }}"""


HALVED = f"""
        %d = tb.mul_scalar %s by 0.5 : {ROW} -> {ROW}
        %r = tb.reduction %t dim 1 : !tb.stensor<8x16xf32> -> {ROW}
        %n = tb.add %d, %r : ({ROW}, {ROW}) -> {ROW}"""
HALVED_AFTER = f"""
        %r = tb.reduction %t dim 1 : !tb.stensor<8x16xf32> -> {ROW}
        %u = tb.add %s, %r : ({ROW}, {ROW}) -> {ROW}
        %n = tb.mul_scalar %u by 0.5 : {ROW} -> {ROW}"""
TWO_STEPS = f"""
        %a, %b = tb.split %t dim 1 : (!tb.stensor<8x32xf32>) ->
            (!tb.stensor<8x16xf32>, !tb.stensor<8x16xf32>)
        %d = tb.mul_scalar %s by 0.25 : {ROW} -> {ROW}
        %p = tb.reduction %a dim 1 : !tb.stensor<8x16xf32> -> {ROW}
        %q = tb.reduction %b dim 1 : !tb.stensor<8x16xf32> -> {ROW}
        %h = tb.mul_scalar %p by 0.5 : {ROW} -> {ROW}
        %u = tb.add %h, %q : ({ROW}, {ROW}) -> {ROW}
        %n = tb.add %d, %u : ({ROW}, {ROW}) -> {ROW}"""
SUM = HALVED.replace("by 0.5", "by 1.0")
WHOLE_SUM = """
    func.func @f(%x: tensor<8x64xf32>) -> tensor<8x1xf32> {
      %y = kn.reduction %x dim 1 : tensor<8x64xf32> -> tensor<8x1xf32>
      func.return %y : tensor<8x1xf32>
    }"""


def test_two_steps_an_iteration_are_as_one_step_in_twice_as_many() -> None:
    assert check(loop(4, HALVED), loop(2, TWO_STEPS)).answer is Answer.PROVED


def test_a_state_that_adds_up_is_a_sum() -> None:
    assert check(loop(4, SUM), WHOLE_SUM).answer is Answer.PROVED


def test_what_each_iteration_stores_is_told_apart() -> None:
    before = loop(4, HALVED, "s", 4)
    assert check(before, before).answer is Answer.PROVED
    assert check(before, loop(4, HALVED, "n", 4)).answer is Answer.DIFFERENT


def test_another_recurrence_is_another_function() -> None:
    assert check(loop(4, HALVED), loop(4, HALVED_AFTER)).answer is Answer.DIFFERENT


def test_a_maximum_in_such_a_loop_is_tested() -> None:
    row = "!tb.stensor<8x16xf32>"
    body = f"""
        %m, %f = tb.reduction_max %t dim 1 : {row} -> ({ROW}, {ROW})
        %n = tb.add %s, %m : ({ROW}, {ROW}) -> {ROW}"""
    found = check(loop(4, body), loop(4, body))
    assert found.answer is Answer.TESTED
    assert "'tb.reduction_max' %m stands in a loop that carries a state" in str(found)


def test_sums_so_far_in_chunks_are_a_scan() -> None:
    scan = """
    func.func @f(%x: tensor<32x256xf32>, %u: tensor<64x64xf32>)
        -> (tensor<32x256xf32>, tensor<32x1xf32>) {
      %y = kn.scan %x dim 1 : (tensor<32x256xf32>) -> tensor<32x256xf32>
      %s = kn.reduction %x dim 1 : tensor<32x256xf32> -> tensor<32x1xf32>
      func.return %y, %s : tensor<32x256xf32>, tensor<32x1xf32>
    }"""
    chunked = cumulative_sum(32, 256, 64, "f32")
    assert check(chunked, scan).answer is Answer.PROVED
    reversed_in_chunks = chunked.replace("(j - i >= 0)", "(i - j >= 0)")
    assert check(reversed_in_chunks, scan).answer is Answer.DIFFERENT


def test_a_masked_exponent_is_0_over_finite_fields() -> None:
    function = """
    func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %m = kn.mask %x where affine_set<(i, j) : (i - j >= 0)> else -inf
          : tensor<8x8xf32> -> tensor<8x8xf32>
      %e = kn.exp %m : tensor<8x8xf32> -> tensor<8x8xf32>
      func.return %e : tensor<8x8xf32>
    }"""
    one = subject(function)
    found = Checker(one, evidence=(Evidence.FINITE_FIELD,)).check(one)
    assert found.answer is Answer.TESTED


def decayed(new: str) -> str:
    """A loop over steps: what each leaves of the state ``%s``, its decay ``%d`` and its row."""
    types = f"({ROW}, {ROW}) -> {ROW}"
    lines = "\n        ".join(f"{line} : {types}" for line in new.split("; "))
    return f"""
    func.func @f(%x: tensor<8x4xf32>, %a: tensor<8x4xf32>) -> tensor<8x4xf32> {{
      %y = kn.customized %x, %a grid [1, 1, 1] block [32, 1, 1] forloop 4 {{
      ^bb0(%dx: tensor<8x4xf32>, %da: tensor<8x4xf32>):
        %t = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x4xf32> -> {ROW}
        %d = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<8x4xf32> -> {ROW}
        %s = tb.carried : {ROW}
        {lines}
        %last = tb.carry %n to %s : ({ROW}, {ROW}) -> {ROW}
        tb.output %n omap [-1, -1, -1] fordim 1 : {ROW} -> tensor<8x4xf32>
      }} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      func.return %y : tensor<8x4xf32>
    }}"""


DECAYED_SCAN = """
    func.func @f(%x: tensor<8x4xf32>, %a: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %y = kn.scan %x decay %a dim 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
      func.return %y : tensor<8x4xf32>
    }"""


def test_a_loop_with_decays_is_a_scan() -> None:
    loop = decayed("%m = tb.mul %s, %d; %n = tb.add %m, %t")
    assert check(loop, DECAYED_SCAN).answer is Answer.PROVED


def test_a_loop_that_decays_what_it_adds_is_another_scan() -> None:
    loop = decayed("%m = tb.add %s, %t; %n = tb.mul %m, %d")
    assert check(loop, DECAYED_SCAN).answer is Answer.DIFFERENT
