"""Schedules, at the level of logical values: stages, copies ahead, epilogues, fragments."""

import re
from pathlib import Path

import numpy as np
import pytest
from interpreter_programs import integers, normal, parse
from xdsl.utils.exceptions import VerifyException

from mugraph.runtime.interpreter import ExecutionError, blocks, run_function

X = "!sched.global<16x64xf16, (16,64):(64,1)>"
W = "!sched.global<64x24xf16, (64,24):(24,1)>"
O = "!sched.global<16x24xf16, (16,24):(24,1)>"  # noqa: E741
X_TILE = "!sched.global<16x16xf16, (16,16):(64,1)>"
W_TILE = "!sched.global<16x8xf16, (16,8):(24,1)>"
O_TILE = "!sched.global<16x8xf16, (16,8):(24,1)>"
SX = "!sched.shared<16x16xf16, (16,16):(16,1)>"
SW = "!sched.shared<16x8xf16, (16,8):(8,1)>"
ACC = "!sched.tile<16x8xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>"
BY = "by <32, vector 8, order [1, 0]>"

LINEAR = f"""
sched.kernel @kernel inputs 2 grid [3, 1, 1] block [32, 1, 1] {{
^bb0(%x: {X}, %w: {W}, %o: {O}):
  %xt = sched.local_tile %x map [-1, -1, -1] fordim 1 : {X} -> {X_TILE}
  %wt = sched.local_tile %w map [1, -1, -1] fordim 0 : {W} -> {W_TILE}
  %ot = sched.local_tile %o map [1, -1, -1] : {O} -> {O_TILE}
  %sx = sched.alloc stages 3 : {SX}
  %sw = sched.alloc stages 3 : {SW}
  %so = sched.alloc : {SW}
  %acc = sched.empty : {ACC}
  %acc_1 = sched.prologue {{
    sched.copy async %xt to %sx {BY} iteration 0 : {X_TILE} to {SX}
    sched.copy async %wt to %sw {BY} iteration 0 : {W_TILE} to {SW}
    sched.commit
    sched.copy async %xt to %sx {BY} iteration 1 : {X_TILE} to {SX}
    sched.copy async %wt to %sw {BY} iteration 1 : {W_TILE} to {SW}
    sched.commit
    %acc_2 = sched.fill %acc with 0.0 : {ACC}
    sched.yield %acc_2 : {ACC}
  }} -> {ACC}
  %acc_3 = sched.forloop 4 carrying %acc_1 : {ACC} {{
  ^bb0(%acc_4: {ACC}):
    sched.wait pending 1
    sched.barrier
    sched.copy async %xt to %sx {BY} ahead 2 : {X_TILE} to {SX}
    sched.copy async %wt to %sw {BY} ahead 2 : {W_TILE} to {SW}
    sched.commit
    %acc_5 = sched.mma %sx, %sw to %acc_4 ldmatrix [true, true] : {SX}, {SW} to {ACC}
    sched.yield %acc_5 : {ACC}
  }}
  sched.epilogue {{
    sched.store %acc_3 to %so then [mul_scalar(0.5)] : {ACC} to {SW}
    sched.barrier
    sched.copy %so to %ot {BY} : {SW} to {O_TILE}
  }}
}}
func.func @f(%x: tensor<16x64xf16>, %w: tensor<64x24xf16>) -> tensor<16x24xf16> {{
  %o = sched.launch @kernel %x, %w : (tensor<16x64xf16>, tensor<64x24xf16>) -> tensor<16x24xf16>
  func.return %o : tensor<16x24xf16>
}}
"""


def vector_kernel(steps: str, result: str = "8x12") -> str:
    """One block that reads x (8 rows of 12) into %a and writes %r, in its prologue."""
    rows, columns = result.split("x")
    shared = f"!sched.shared<{result}xf16, ({rows},{columns}):({columns},1)>"
    device = f"!sched.global<{result}xf16, ({rows},{columns}):({columns},1)>"
    a = "!sched.shared<8x12xf16, (8,12):(12,1)>"
    f = "!sched.tile<8x12xf32, #sched.linear<32, vector 4, order [1, 0]>>"
    steps = steps.replace("$A", a).replace("$R", shared).replace("$F", f)
    steps = steps.replace("$BY", "by <32, vector 4, order [1, 0]>")
    return f"""
    sched.kernel @kernel inputs 1 grid [1, 1, 1] block [32, 1, 1] {{
    ^bb0(%x: !sched.global<8x12xf16, (8,12):(12,1)>, %o: {device}):
      %a = sched.alloc : {a}
      %r = sched.alloc : {shared}
      %f = sched.empty : {f}
      %g = sched.empty : {f}
      sched.prologue {{
        sched.copy %x to %a by <32, vector 4, order [1, 0]>
          : !sched.global<8x12xf16, (8,12):(12,1)> to {a}
        {steps}
        sched.copy %r to %o by <32, vector 1, order [1, 0]> : {shared} to {device}
      }}
    }}
    func.func @f(%x: tensor<8x12xf16>) -> tensor<{result}xf16> {{
      %o = sched.launch @kernel %x : (tensor<8x12xf16>) -> tensor<{result}xf16>
      func.return %o : tensor<{result}xf16>
    }}"""


@pytest.mark.parametrize("memory", [1, 2**28])
@pytest.mark.parametrize("precision", ["storage", "float64"])
def test_a_pipelined_product(precision: str, memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MEMORY_BYTES", memory)
    x, w = integers((16, 64), seed=1), integers((64, 24), seed=2)
    (result,) = run_function(parse(LINEAR), None, [x, w], precision)
    np.testing.assert_array_equal(result, x.astype(np.float64) @ w / 2)


def run_linear(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The product, and what it should be."""
    x, w = integers((16, 64), seed=1), integers((64, 24), seed=2)
    (result,) = run_function(parse(text), None, [x, w])
    return result, x.astype(np.float64) @ w / 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    sched.wait pending 1\n", ""),
        ("sched.wait pending 1", "sched.wait pending 2"),
        ("    sched.commit\n    %acc_5", "    %acc_5"),
        ("sched.commit\n    sched.copy", "sched.copy"),
    ],
    ids=["no wait", "a wait for too few", "no commit in the loop", "one group too few"],
)
def test_a_copy_that_nobody_waited_for_is_not_there(old: str, new: str) -> None:
    assert LINEAR.count(old) == 1
    with pytest.raises(ExecutionError, match=r"%sx is read in iteration \d before anything"):
        run_linear(LINEAR.replace(old, new))


TRIP_COUNT = Path(__file__).resolve().parents[2] / "filecheck/dialects/sched/trip-count.mlir"


@pytest.mark.parametrize("count", [0, 1, 5, 8])
def test_a_loop_runs_as_often_as_a_launch_says(count: int) -> None:
    """Of 8 tiles of 8 columns the first ``count`` are added."""
    x = integers((16, 64), seed=1).astype(np.float32)
    (result,) = run_function(parse(TRIP_COUNT.read_text()), "f", [x, np.array(count)])
    expected = x[:, : 8 * count].reshape(16, count, 8).sum(axis=1)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("count", "level", "message"),
    [
        (9, "logical", "'sched.copy' of %x_tile copies the tile of iteration 8, but the loop has"),
        (1.5, "logical", "argument 1 of function @f needs a whole number, got an array of float64"),
        (3, "address", "'sched.forloop' %total runs as often as %n says"),
    ],
)
def test_a_launch_that_says_what_a_loop_cannot(count: float, level: str, message: str) -> None:
    x = np.zeros((16, 64), np.float32)
    module = parse(TRIP_COUNT.read_text())
    with pytest.raises(ExecutionError, match=re.escape(message)):
        run_function(module, "f", [x, np.array(count)], level=level)


def test_synchronous_copies_ahead_use_stages_too() -> None:
    three = LINEAR.replace("async ", "")
    result, expected = run_linear(three)
    np.testing.assert_array_equal(result, expected)
    with pytest.raises(VerifyException, match="ahead 2 would overwrite a stage still in use"):
        run_linear(three.replace("stages 3", "stages 2"))


def test_an_accumulator_keeps_what_it_was_filled_with() -> None:
    result, expected = run_linear(LINEAR.replace("with 0.0", "with 8.0"))
    np.testing.assert_array_equal(result, expected + 4)


def test_a_stage_that_no_copy_fills() -> None:
    """The tile of iteration 3 goes where that of iteration 0 is, and stage 1 stays empty."""
    with pytest.raises(ExecutionError, match=r"%sx is read in iteration 1 before anything"):
        run_linear(LINEAR.replace("iteration 1", "iteration 3"))


def test_elementwise_with_an_epilogue_rounds_once() -> None:
    steps = """
    sched.map exp %a to %r then [square] $BY : $A to $R
    """
    x = normal((8, 12))
    (result,) = run_function(parse(vector_kernel(steps)), None, [x])
    np.testing.assert_array_equal(result, (np.exp(x.astype(np.float32)) ** 2).astype(np.float16))


def test_accumulation_in_a_fragment_is_fp32_and_in_a_buffer_is_rounded() -> None:
    in_fragment = """
    %zero = sched.fill %f with 2048.0 : $F
    %one = sched.map square %a to %zero then [accum] $BY : $A to $F
    %two = sched.map square %a to %one then [accum] $BY : $A to $F
    sched.store %two to %r : $F to $R
    """
    in_buffer = """
    sched.fill %r with 2048.0 : $R
    sched.map square %a to %r then [accum] $BY : $A to $R
    sched.map square %a to %r then [accum] $BY : $A to $R
    """
    x = np.ones((8, 12))
    (wide,) = run_function(parse(vector_kernel(in_fragment)), None, [x])
    (narrow,) = run_function(parse(vector_kernel(in_buffer)), None, [x])
    assert (wide == 2050).all()
    assert (narrow == 2048).all()


def test_fragments_add_through_an_epilogue() -> None:
    steps = """
    %zero = sched.fill %f with 0.0 : $F
    %one = sched.fill %g with 1.0 : $F
    %value = sched.map identity %a to %zero $BY : $A to $F
    %sum = sched.map identity %value to %one then [square, accum] : $F to $F
    sched.store %sum to %r then [sqrt] : $F to $R
    """
    x = integers((8, 12))
    (result,) = run_function(parse(vector_kernel(steps)), None, [x])
    expected = np.sqrt(x.astype(np.float32) ** 2 + 1).astype(np.float16)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("grouping", ["strided", "contiguous"])
def test_reduce(grouping: str) -> None:
    reduce = parse_reduce(grouping)
    x = integers((8, 12))
    (result,) = run_function(parse(vector_kernel(reduce, "8x3")), None, [x])
    wide = x.astype(np.float32).reshape(8, 4, 3).sum(1)
    if grouping == "contiguous":
        wide = x.astype(np.float32).reshape(8, 3, 4).sum(2)
    np.testing.assert_array_equal(result, (wide * 0.5).astype(np.float16))


def parse_reduce(grouping: str) -> str:
    return f"""
    sched.reduce %a to %r then [mul_scalar(0.5)] dim 1 {grouping} lanes 1
      by <32, vector 1, order [0, 1]> : $A to $R
    """


def test_a_buffer_that_was_not_written() -> None:
    fill = f"    %acc_2 = sched.fill %acc with 0.0 : {ACC}\n"
    text = LINEAR.replace(fill, "").replace("sched.yield %acc_2", "sched.yield %acc")
    with pytest.raises(ExecutionError, match=r"%acc is read in iteration 0 before anything"):
        run_function(parse(text), None, [integers((16, 64)), integers((64, 24))])


def test_a_tile_past_the_loop() -> None:
    text = LINEAR.replace("iteration 1", "iteration 4")
    with pytest.raises(VerifyException, match="iteration 4 does not exist, the loop has 4"):
        run_function(parse(text), None, [integers((16, 64)), integers((64, 24))])


def test_a_launch_that_does_not_fit_its_kernel() -> None:
    text = LINEAR.replace("inputs 2", "inputs 1")
    with pytest.raises(VerifyException, match=r"passes 2 inputs .*has 1 inputs and 2 outputs"):
        run_function(parse(text), None, [integers((16, 64)), integers((64, 24))])
