"""Proofs about states that decay: by induction over a loop, and digit by digit, at any length."""

from __future__ import annotations

from pathlib import Path

import pytest
from equivalence_programs import subject

from mugraph.passes.program.chunk_scans import chunk_scans
from mugraph.runtime.equivalence import Answer, Checker
from mugraph.runtime.equivalence.budget import Budget
from mugraph.runtime.equivalence.prove import Proof, prove

EXAMPLES = Path("examples/recurrences")
IN_CHUNKS = (EXAMPLES / "linear_attention.mlir").read_text()
"""One kernel of 64 iterations, each of 64 tokens."""
BY_TOKEN = """
func.func @f(%q: tensor<16x4096x64xbf16>, %k: tensor<16x64x4096xbf16>,
    %v: tensor<16x4096x64xbf16>, %g: tensor<16x4096x1xf32>)
    -> (tensor<16x4096x64xbf16>, tensor<16x64x64xf32>) {
  %rows = kn.transpose %k dims [0, 2, 1] : tensor<16x64x4096xbf16> -> tensor<16x4096x64xbf16>
  %keys = kn.reshape %rows : tensor<16x4096x64xbf16> -> tensor<16x4096x64x1xbf16>
  %queries = kn.reshape %q : tensor<16x4096x64xbf16> -> tensor<16x4096x64x1xbf16>
  %values = kn.reshape %v : tensor<16x4096x64xbf16> -> tensor<16x4096x1x64xbf16>
  %decay = kn.exp %g : tensor<16x4096x1xf32> -> tensor<16x4096x1xf32>
  %decays = kn.reshape %decay : tensor<16x4096x1xf32> -> tensor<16x4096x1x1xf32>
  %added = kn.mul %keys, %values : (tensor<16x4096x64x1xbf16>, tensor<16x4096x1x64xbf16>)
      -> tensor<16x4096x64x64xf32>
  %h = kn.scan %added decay %decays dim 1 : (tensor<16x4096x64x64xf32>, tensor<16x4096x1x1xf32>)
      -> tensor<16x4096x64x64xf32>
  %read = kn.mul %h, %queries : (tensor<16x4096x64x64xf32>, tensor<16x4096x64x1xbf16>)
      -> tensor<16x4096x64x64xf32>
  %sum = kn.reduction %read dim 2 : tensor<16x4096x64x64xf32> -> tensor<16x4096x1x64xf32>
  %sums = kn.reshape %sum : tensor<16x4096x1x64xf32> -> tensor<16x4096x64xf32>
  %o = kn.cast %sums : tensor<16x4096x64xf32> -> tensor<16x4096x64xbf16>
  %left = kn.slice %h from [0, 4095, 0, 0] : tensor<16x4096x64x64xf32> -> tensor<16x1x64x64xf32>
  %s = kn.reshape %left : tensor<16x1x64x64xf32> -> tensor<16x64x64xf32>
  func.return %o, %s : tensor<16x4096x64xbf16>, tensor<16x64x64xf32>
}"""


def proof(one: str, other: str) -> Proof:
    return prove(subject(one).function, subject(other).function, Budget(1))


def test_linear_attention_in_chunks_is_that_by_token() -> None:
    assert proof(IN_CHUNKS, BY_TOKEN).holds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "-inf where affine_set<(h, i, j) : (i - j >= 0)>",
            "-inf where affine_set<(h, i, j) : (i - j - 1 >= 0)>",
        ),
        ("tb.sub %whole, %columns", "tb.add %whole, %columns"),
        ("tb.carried :", "tb.carried from 1.0 :"),
    ],
)
def test_other_chunks_are_another_function(old: str, new: str) -> None:
    assert old in IN_CHUNKS
    assert not proof(IN_CHUNKS.replace(old, new, 1), BY_TOKEN).holds


SCAN = """
func.func @f(%x: tensor<16x256xf32>, %a: tensor<1x256xf32>) -> tensor<16x256xf32> {
  %d = kn.sigmoid %a : tensor<1x256xf32> -> tensor<1x256xf32>
  %y = kn.scan %x decay %d dim 1 : (tensor<16x256xf32>, tensor<1x256xf32>) -> tensor<16x256xf32>
  func.return %y : tensor<16x256xf32>
}"""


def test_sigmoids_as_decays_have_chunks() -> None:
    chunked = subject(SCAN)
    assert chunk_scans(chunked.function, wanted=64) == []
    assert prove(chunked.function, subject(SCAN).function, Budget(1)).holds
    exclusive = subject(SCAN.replace("dim 1", "exclusive dim 1"))
    assert not prove(chunked.function, exclusive.function, Budget(1)).holds


TILE = "!tb.stensor<8x1xf32>"


def states(first: float, added: str) -> str:
    """A loop whose first state decays and whose second one adds up what ``added`` names."""
    types = f"({TILE}, {TILE}) -> {TILE}"
    return f"""
    func.func @f(%x: tensor<8x32xf32>, %a: tensor<8x32xf32>) -> tensor<8x1xf32> {{
      %y = kn.customized %x, %a grid [1, 1, 1] block [32, 1, 1] forloop 32 {{
      ^bb0(%dx: tensor<8x32xf32>, %da: tensor<8x32xf32>):
        %t = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x32xf32> -> {TILE}
        %l = tb.input %da imap [-1, -1, -1] fordim 1 : tensor<8x32xf32> -> {TILE}
        %d = tb.exp %l : {TILE} -> {TILE}
        %s = tb.carried from {first} : {TILE}
        %u = tb.carried : {TILE}
        %m = tb.mul %s, %d : {types}
        %n = tb.add %m, %t : {types}
        %w = tb.add %u, %{added} : {types}
        %left = tb.carry %n to %s : {types}
        %all = tb.carry %w to %u : {types}
        tb.output %all omap [-1, -1, -1] : {TILE} -> tensor<8x1xf32>
      }} : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x1xf32>
      func.return %y : tensor<8x1xf32>
    }}"""


SUM_OF_STATES = """
func.func @f(%x: tensor<8x32xf32>, %a: tensor<8x32xf32>) -> tensor<8x1xf32> {
  %d = kn.exp %a : tensor<8x32xf32> -> tensor<8x32xf32>
  %h = kn.scan %x decay %d dim 1 : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %y = kn.reduction %h dim 1 : tensor<8x32xf32> -> tensor<8x1xf32>
  func.return %y : tensor<8x1xf32>
}"""


def test_a_state_may_add_up_another_one() -> None:
    assert proof(states(0.0, "n"), SUM_OF_STATES).holds
    assert not proof(states(0.0, "s"), SUM_OF_STATES).holds
    assert not proof(states(1.0, "n"), SUM_OF_STATES).holds


WITH_A_FIRST_STATE = SUM_OF_STATES.replace(
    "  %y =",
    """  %logs = kn.scan %a dim 1 : (tensor<8x32xf32>) -> tensor<8x32xf32>
  %all = kn.exp %logs : tensor<8x32xf32> -> tensor<8x32xf32>
  %s = kn.add %h, %all : (tensor<8x32xf32>, tensor<8x32xf32>) -> tensor<8x32xf32>
  %y =""",
).replace("kn.reduction %h", "kn.reduction %s")


def test_the_first_state_decays_too() -> None:
    assert proof(states(1.0, "n"), WITH_A_FIRST_STATE).holds


def test_a_state_of_another_form_is_executed_by_iterations() -> None:
    squared = states(0.0, "n").replace("%n = tb.add %m", "%n = tb.mul %m")
    assert Checker(subject(squared)).check(subject(squared)).answer is Answer.PROVED


BY_ROWS = """
func.func @f(%x: tensor<5x8xf32>, %a: tensor<5x1xf32>) -> tensor<5x8xf32> {
  %y = kn.customized %x, %a grid [1, 1, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%dx: tensor<5x8xf32>, %da: tensor<5x1xf32>):
    %row = tb.input %dx imap [-1, -1, -1] fordim 0 : tensor<5x8xf32> -> !tb.stensor<1x8xf32>
    %b = tb.input %da imap [-1, -1, -1] fordim 0 : tensor<5x1xf32> -> !tb.stensor<1x1xf32>
    %d = tb.sigmoid %b : !tb.stensor<1x1xf32> -> !tb.stensor<1x1xf32>
    %h = tb.carried : !tb.stensor<1x8xf32>
    %kept = tb.mul %h, %d : (!tb.stensor<1x8xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x8xf32>
    %new = tb.add %kept, %row : (!tb.stensor<1x8xf32>, !tb.stensor<1x8xf32>) -> !tb.stensor<1x8xf32>
    %last = tb.carry %new to %h
        : (!tb.stensor<1x8xf32>, !tb.stensor<1x8xf32>) -> !tb.stensor<1x8xf32>
    tb.output %NEW omap [-1, -1, -1] fordim 0 : !tb.stensor<1x8xf32> -> tensor<5x8xf32>
  } : (tensor<5x8xf32>, tensor<5x1xf32>) -> tensor<5x8xf32>
  func.return %y : tensor<5x8xf32>
}"""


def test_what_an_iteration_leaves_may_be_stored() -> None:
    scan = """
    func.func @f(%x: tensor<5x8xf32>, %a: tensor<5x1xf32>) -> tensor<5x8xf32> {
      %d = kn.sigmoid %a : tensor<5x1xf32> -> tensor<5x1xf32>
      %y = kn.scan %x decay %d dim 0 : (tensor<5x8xf32>, tensor<5x1xf32>) -> tensor<5x8xf32>
      func.return %y : tensor<5x8xf32>
    }"""
    assert proof(BY_ROWS.replace("%NEW", "%new"), scan).holds
    assert not proof(BY_ROWS.replace("%NEW", "%kept"), scan).holds
    assert not proof(BY_ROWS.replace("%NEW", "%h"), scan).holds
