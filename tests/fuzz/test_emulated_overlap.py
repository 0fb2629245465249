"""Kernels that begin while the one before them runs: what they touch before they wait, on the CPU.

Device memory that is not constant faults there until a block has waited.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuzz.emulated import MUGRAPHS, Broken
from fuzz.properties import Compiled, compile_checked
from mugraph.dialects import sched

CHAIN = """
func.func @fuzzed(%signed: tensor<16x256xf16>, %signed_1: tensor<256x64xf16> {mugraph.constant}) \
-> tensor<16x64xf16> {
  %s = kn.relu %signed : tensor<16x256xf16> -> tensor<16x256xf16>
  %y = kn.customized %s, %signed_1 grid [2, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<16x256xf16>, %dw: tensor<256x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x256xf16> -> !tb.stensor<16x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x64xf16>, !tb.stensor<64x32xf16>) -> \
!tb.stensor<16x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %am omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x64xf16>
  } : (tensor<16x256xf16>, tensor<256x64xf16>) -> tensor<16x64xf16>
  %r = kn.reduction %y dim 1 : tensor<16x64xf16> -> tensor<16x8xf16>
  %z = kn.add %y, %y : (tensor<16x64xf16>, tensor<16x64xf16>) -> tensor<16x64xf16>
  func.return %z : tensor<16x64xf16>
}
"""


@pytest.fixture(scope="module")
def overlapping(needs_emulator: None) -> Compiled:
    # The target is drawn from the text: one of them has the instructions.
    drawn = (compile_checked(CHAIN + "\n" * blanks) for blanks in range(64))
    return next(one for one in drawn if "grid_wait" in one.cuda)


def test_only_constant_tensors_are_loaded_before_the_wait(overlapping: Compiled) -> None:
    early = [
        op.operands[0].name_hint
        for wait in overlapping.module.walk()
        if isinstance(wait, sched.GridWaitOp)
        for op in (wait.parent.ops if wait.parent is not None else ())
        if isinstance(op, (sched.CopyOp, sched.BulkCopyOp)) and op.is_before_in_block(wait)
    ]
    assert len(early) > 1 and set(early) == {"dw_tile"}
    assert overlapping.cuda.count("mugraph::overlapping(stream)") == 4
    # The last two do not wait at all, and before an access.
    early_access = (
        "{ half_t const early = *dx; (void)*const_cast<half_t const volatile*>(&early); } "
        "tb::grid_wait();"
    )
    MUGRAPHS.add(overlapping)
    for instead in ("", early_access):
        cuda = overlapping.cuda.replace("tb::grid_wait();", instead)
        MUGRAPHS.add(Broken(replace(overlapping, cuda=cuda)))
