"""Ping-pong roles, on the CPU."""

from __future__ import annotations

import pytest
from schedules import passes_as_written

from fuzz.emulated import MUGRAPHS
from fuzz.products import product
from fuzz.properties import Compiled, make_case, parse
from mugraph.codegen.cuda import print_module
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context

GATED = """
func.func @fuzzed(%signed: tensor<64x320xf16>, %signed_1: tensor<320x160xf16>, \
%signed_2: tensor<320x160xf16>) -> tensor<64x160xf16> {
  %o = kn.customized %signed, %signed_1, %signed_2 grid [5, 1, 1] block [128, 1, 1] forloop 5 {
  ^bb0(%dx: tensor<64x320xf16>, %dw: tensor<320x160xf16>, %dv: tensor<320x160xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<64x320xf16> -> !tb.stensor<64x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<320x160xf16> -> !tb.stensor<64x32xf16>
    %sv = tb.input %dv imap [1, -1, -1] fordim 0 : tensor<320x160xf16> -> !tb.stensor<64x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<64x64xf16>, !tb.stensor<64x32xf16>) -> \
!tb.stensor<64x32xf16>
    %n = tb.matmul %sx, %sv : (!tb.stensor<64x64xf16>, !tb.stensor<64x32xf16>) -> \
!tb.stensor<64x32xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %an = tb.forloop_accum none %n : !tb.stensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %open = tb.silu %am : !tb.stensor<64x32xf16> -> !tb.stensor<64x32xf16>
    %hidden = tb.add %open, %an : (!tb.stensor<64x32xf16>, !tb.stensor<64x32xf16>) -> \
!tb.stensor<64x32xf16>
    tb.output %hidden omap [1, -1, -1] : !tb.stensor<64x32xf16> -> tensor<64x160xf16>
  } : (tensor<64x320xf16>, tensor<320x160xf16>, tensor<320x160xf16>) -> tensor<64x160xf16>
  func.return %o : tensor<64x160xf16>
}
"""
"""silu(X·W) + X·V in blocks of 64 x 32: five, so that they do not divide evenly."""


def compiled_by(text: str, ping_pong: int, **options: object) -> Compiled:
    """A µGraph whose blocks are computed in turns by so many roles."""
    module = parse(text)
    case = make_case(module)
    steps = passes_as_written("sm_90a", loads="tma", ping_pong=ping_pong, **options)
    verifying(steps).apply(make_context(), module)
    return Compiled(case, module, print_module(module))


def gated(consumers: int, iterations: int) -> Compiled:
    """The graph by one launched block, in three stages, of five iterations or of three."""
    graph = GATED.replace("320", str(64 * iterations)).replace("forloop 5", f"forloop {iterations}")
    return compiled_by(graph, consumers, stages=(3,), blocks=1)


@pytest.mark.usefixtures("needs_emulator")
def test_ping_pong_roles_compute_every_block() -> None:
    compiled: list[Compiled] = []
    for consumers, iterations in ((2, 5), (3, 5), (2, 3)):
        compiled.append(gated(consumers, iterations))
        # After twice the ring, its stages begin where they were, and are not counted.
        moved = iterations * consumers
        counted = f", first_stage += {moved}" if moved % 6 else ""
        assert f"place += {consumers}, ++round{counted}) {{" in compiled[-1].cuda
    # One cluster of two blocks, each with three blocks of the grid.
    graph = product(64, 128, 64, blocks=6, loop=5)
    compiled.append(compiled_by(graph, 2, stages=(4,), cluster=2, blocks=2))
    assert "place += 4, ++round, first_stage += 10" in compiled[-1].cuda
    assert "mugraph::bulk_multicast<2>(" in compiled[-1].cuda
    MUGRAPHS.add(*compiled)
