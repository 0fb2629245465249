"""Threads of `.te` text that hand over by instructions: what is believed, and what is proved."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.utils.exceptions import ParseError, PassFailedException

from mugraph.codegen.cuda import CudaTarget
from mugraph.dialects import te
from mugraph.passes.texpr.analysis.hazards import find_texpr_hazards
from mugraph.passes.texpr.te_lower import TeLowerPass
from mugraph.reading import make_context, parse_text
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import read_texpr

RING = """
fn doubled(a: f32[16, 32]): f32[16, 32] {
    par 2 |block| #grid {
        new tile: f32[2, 32] #shared
        new full: mbarrier[2] #arrivals(1)
        new empty: mbarrier[2] #arrivals(32)
        fully par 64 |t| #align(32) #block {
            if t == 32 {
                seq 8 |k| {
                    mbarrier.wait(empty[k % 2], 1 - k / 2 % 2)
                    mbarrier.arrive(full[k % 2], 128)
                    tma.load(a[block * 8 + k : 1, 0 : 32], tile[k % 2 : 1, 0 : 32], full[k % 2])
                }
            }
            if t < 32 {
                seq 8 |k| {
                    let s = k % 2
                    mbarrier.wait(full[s], k / 2 % 2)
                    result[block * 8 + k, t] = tile[s, t] * 2.0
                    fence.proxy()
                    mbarrier.arrive(empty[s])
                }
            }
        }
    }
}
"""
"""A thread loads rows through two stages, and a warp doubles them."""


def lowered(text: str) -> ModuleOp:
    module = read_texpr(text, "ring.te", {})
    TeLowerPass("sm_90a").apply(Context(), module)
    return module


def test_a_ring_is_right_before_and_after_mapping() -> None:
    a = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    for module in (read_texpr(RING, "ring.te", {}), lowered(RING)):
        function = module.body.block.first_op
        assert isinstance(function, FuncOp)
        for seed in (None, 0, 1):
            (found,) = run_texpr(function, [a], seed=seed).outputs.values()
            np.testing.assert_array_equal(found, 2 * a)


LINES = [line for line in RING.splitlines() if re.match(r" *(mbarrier|tma|fence)\.", line)]


@pytest.mark.parametrize("line", LINES, ids=[one.split("(")[0].strip() for one in LINES])
def test_each_instruction_is_needed(line: str) -> None:
    with pytest.raises(PassFailedException, match=r"--te-check-handover: kernel 'doubled': .*"):
        lowered(RING.replace(line + "\n", "", 1))


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        (
            "k / 2 % 2)\n                    result",
            "1 - k / 2 % 2)\n                    result",
            "",
        ),
        ("arrive(full[k % 2], 128)", "arrive(full[k % 2], 64)", "wait for ever"),
        ("#arrivals(32)", "#arrivals(31)", ""),
        ("#arrivals(1)", "#arrivals(2)", "wait for ever"),
        ("arrive(empty[s])", "arrive(empty[1 - s])", ""),
    ],
)
def test_a_wrong_phase_or_count_is_an_error(before: str, after: str, sentence: str) -> None:
    assert before in RING
    with pytest.raises(PassFailedException, match=f"te-check-handover.*{sentence}"):
        lowered(RING.replace(before, after))


def test_buffers_of_boxes_have_the_swizzle_of_their_rows() -> None:
    types = {
        op.result.name_hint: str(op.result.type)
        for op in lowered(RING).walk()
        if isinstance(op, te.NewOp)
    }
    assert types["tile"] == "!te.buffer<2x32xf32, S<3,2,3> o (2,32):(32,1), shared>"


def test_shared_memory_without_instructions_is_checked_as_ever() -> None:
    text = re.sub(r"\n *(mbarrier|tma|fence)\.[^\n]*", "", RING)
    with pytest.raises(ParseError, match="both touch tile"):
        read_texpr(text.replace("result[block", "tile[0, 0] = 1.0\nresult[block"), "ring.te", {})


def test_device_memory_is_checked_as_ever() -> None:
    with pytest.raises(ParseError, match="both touch result"):
        read_texpr(RING.replace("k, t] =", "k, 0] ="), "ring.te", {})


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("fence.proxy()", "fence.mbarrier()", "there is no instruction fence.mbarrier; there are"),
        ("mbarrier.wait(full[s], k / 2 % 2)", "mbarrier.wait(full[s])", "full\\[i\\], parity"),
        ("mbarrier.arrive(empty[s])", "mbarrier.arrive(tile[s])", "expected an mbarrier"),
        ("tile[k % 2 : 1, 0 : 32], full", "tile[k % 2 : 1, 0 : 16], full", "box of 32 elements"),
        (" #arrivals(1)", "", "how many arrivals end a phase"),
        ("#arrivals(1)", "#arrivals(0)", "a phase has 1 to"),
        ("fully par 64 |t| #align(32)", "par 64 |t|", "in a 'fully par'"),
        ("fully par", "seq 2 |again| { fully par", "the mbarriers full are of one 'fully par'"),
        ("a: f32[16, 32]", "a: f32[16, 33]", "multiple of 16 bytes apart"),
    ],
)
def test_what_cannot_be_is_one_sentence(before: str, after: str, sentence: str) -> None:
    assert before in RING
    text = RING.replace(before, after)
    text += "}" * (text.count("{") - text.count("}"))
    with pytest.raises(ParseError, match=sentence):
        read_texpr(text, "ring.te", {})


def test_named_indices_stand_in_indices_and_are_numbers() -> None:
    """What is used in indices alone leaves no number behind."""
    text = """fn f(): i32[8] {
        par 4 i { let j = i + 1; let k = j + i - 1; result[k + 1] = j * j; result[k] = 0 }
    }"""
    module = read_texpr(text, "f.te", {})
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    (found,) = run_texpr(function, []).outputs.values()
    np.testing.assert_array_equal(found, [0, 1, 0, 4, 0, 9, 0, 16])
    assert sum(isinstance(op, te.IndexValueOp) for op in function.walk()) == 1


def hazards_of(text: str) -> list[str]:
    module = parse_text(make_context(), text, "text.mlir")
    kernel = next(op for op in module.walk() if isinstance(op, te.KernelOp))
    return [finding.message for finding in find_texpr_hazards(kernel)]


COPIES = """
func.func @f(%x: !te.buffer<4x32xf32>, %y: !te.buffer<4x32xf32> {te.result}) {
  te.kernel "f" %block = 1 smem 264 {
    %t = te.new {te.offset = 0 : i64} : !te.buffer<2x32xf32, shared>
    %full = te.new_mbarriers {te.offset = 256 : i64} : !te.mbarriers<1>
    te.threads %thread = 64 {
      te.step "set up" {
        te.if %thread == 0 { te.mbarrier_init %full[0], 32 : !te.mbarriers<1> }
      }
      te.barrier block
      te.step "copy" {
        te.if 31 - %thread >= 0 {
          te.copy_async 1, %x[0, %thread] : !te.buffer<4x32xf32>
            to %t[0, %thread] : !te.buffer<2x32xf32, shared>
        }
      }
      te.commit
      te.wait 0
      te.step "hand over" {
        te.if 31 - %thread >= 0 { te.mbarrier_arrive %full[0] : !te.mbarriers<1> }
        te.if %thread - 32 >= 0 {
          te.mbarrier_wait %full[0] parity [0] : !te.mbarriers<1>
          %v = te.view %t[0, 63 - %thread] : !te.buffer<2x32xf32, shared>
          te.bind %v, %y[0, %thread - 32] : !te.buffer<4x32xf32>
        }
      }
    }
  }
  func.return
}
"""
"""Copies of one warp, which another one waits for at an mbarrier."""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", ""),
        ("te.wait 0", "'te.copy_async' .* writes t\\[0, 0\\] in thread 0; 'te.view'"),
        ("te.commit", "'te.copy_async' .* writes t"),
        ("te.mbarrier_wait %full[0] parity [0] : !te.mbarriers<1>", "nor an mbarrier orders them"),
        ("te.barrier block", "no barrier stands between it and"),
    ],
)
def test_copies_of_threads_are_followed_beside_mbarriers(line: str, sentence: str) -> None:
    found = hazards_of(COPIES.replace(line, "") if line else COPIES)
    assert bool(found) == bool(line)
    assert not line or re.search(sentence, found[0])


def test_threads_that_write_one_element_at_once_are_reported_beside_mbarriers() -> None:
    """Also where one operator does it, and nobody reads the element."""
    assert any("write" in one for one in hazards_of(COPIES.replace("%t[0, %thread]", "%t[0, 0]")))


def test_a_barrier_of_the_warp_does_not_wait_for_copies() -> None:
    """The second group is read by other threads of the warp, and was not waited for."""
    text = """
    func.func @f(%x: !te.buffer<2x32xf32>, %y: !te.buffer<2x32xf32> {te.result}) {
      te.kernel "f" %block = 1 smem 256 {
        %t = te.new {te.offset = 0 : i64} : !te.buffer<2x32xf32, shared>
        te.threads %thread = 32 {
          te.seq %k = 2 {
            te.step "copy" {
              te.copy_async 1, %x[%k, %thread] : !te.buffer<2x32xf32>
                to %t[%k, %thread] : !te.buffer<2x32xf32, shared>
            }
            te.commit
          }
          te.wait 1
          te.barrier warp
          te.step "read" {
            %v = te.view %t[ROW, 31 - %thread] : !te.buffer<2x32xf32, shared>
            te.bind %v, %y[0, %thread] : !te.buffer<2x32xf32>
          }
          te.wait 0
        }
      }
      func.return
    }
    """
    assert hazards_of(text.replace("ROW", "0")) == []
    assert hazards_of(text.replace("ROW", "1"))


ARRIVE = "mbarrier.arrive(empty[s])"
BY_ASM = f'asm("mbarrier.arrive.shared.b64 _, [%0];", empty[s]) means {ARRIVE}'


def test_inline_ptx_says_what_it_does_by_instructions() -> None:
    text = RING.replace(ARRIVE, BY_ASM)
    module = lowered(text)
    cuda = io.StringIO()
    CudaTarget().emit(make_context(), module, cuda)
    assert 'asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :  : "r"(' in cuda.getvalue()
    a = np.random.default_rng(0).standard_normal((16, 32)).astype(np.float32)
    again = parse_text(make_context(), str(module), "printed.mlir")
    again.verify()
    for one in (read_texpr(text, "ring.te", {}), module, again):
        function = one.body.block.first_op
        assert isinstance(function, FuncOp)
        (found,) = run_texpr(function, [a]).outputs.values()
        np.testing.assert_array_equal(found, 2 * a)


@pytest.mark.parametrize(
    "meaning",
    ["mbarrier.arrive(empty[1 - s])", "mbarrier.arrive(full[s])", "{ }", "fence.proxy()"],
)
def test_what_inline_ptx_means_is_proved(meaning: str) -> None:
    with pytest.raises(PassFailedException, match="te-check-handover"):
        lowered(RING.replace(ARRIVE, BY_ASM.replace(ARRIVE, meaning)))


COPY = """
fn f(a: f32[64, 4]): f32[64, 4] {
    new t: f32[64, 4] #shared
    fully par 64 |i| #block {
        asm("cp.async.ca.shared.global [%0], [%1], 16;", out t[i : 1, 0 : 4], a[i : 1, 0 : 4])
        asm("cp.async.wait_all;")
    }
    par 64 i { par 4 j { result[i, j] = t[63 - i, j] } }
}
"""


def test_a_copy_that_no_parallel_loop_waits_for_is_an_error() -> None:
    read_texpr(COPY, "copy.te", {})
    text = COPY.replace('asm("cp.async.wait_all;")', "")
    with pytest.raises(ParseError, match=r"cp.async.ca.shared.global is under way when .* ends"):
        read_texpr(text, "copy.te", {})
    bulk = text.replace("cp.async.ca.shared.global [%0], [%1], 16;", "cp.async.bulk.tensor.2d %0;")
    with pytest.raises(ParseError, match=r"cp.async.bulk.tensor.2d is under way when"):
        read_texpr(bulk, "copy.te", {})


STORE = """
fn turned(a: f32[2, 64]): f32[2, 64] {
    par 2 |block| #grid {
        new tile: f32[64] #shared
        fully par 64 |t| #align(32) #block {
            tile[63 - t] = a[block, t]
            fence.proxy()
            barrier.sync(1, 64)
            if t == 0 {
                tma.store(tile[0 : 64], result[block : 1, 0 : 64])
                tma.commit()
                tma.wait(0)
            }
        }
    }
}
"""
"""Threads write a row, which one of them stores."""


def test_a_store_is_right() -> None:
    a = np.random.default_rng(0).standard_normal((2, 64)).astype(np.float32)
    for module in (read_texpr(STORE, "store.te", {}), lowered(STORE)):
        function = module.body.block.first_op
        assert isinstance(function, FuncOp)
        (found,) = run_texpr(function, [a]).outputs.values()
        np.testing.assert_array_equal(found, a[:, ::-1])


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("fence.proxy()\n", "\n", "no 'fence_proxy' orders them"),
        (
            "fence.proxy()\n            barrier.sync(1, 64)",
            "barrier.sync(1, 64)\nfence.proxy()",
            "",
        ),
        ("barrier.sync(1, 64)", "barrier.sync(1, 32)", "64 threads come to .* 32 wait at"),
        ("barrier.sync(1, 64)", "barrier.sync(1, 96)", "wait for ever"),
        ("tma.commit()\n", "\n", "may still be reading tile"),
    ],
)
def test_a_fence_comes_before_the_barrier_of_all_threads(
    before: str, after: str, sentence: str
) -> None:
    assert before in STORE
    with pytest.raises(PassFailedException, match=f"te-check-handover.*{sentence}"):
        lowered(STORE.replace(before, after))
