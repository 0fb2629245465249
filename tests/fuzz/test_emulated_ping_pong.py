"""Ping-pong roles, on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from schedules import passes_as_written

from fuzz.emulated import build, check_emulated
from fuzz.products import product
from fuzz.properties import Compiled, make_case, parse
from mugraph.codegen.cuda import print_module
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


def compiled(consumers: int, iterations: int) -> Compiled:
    """The graph by one launched block, in three stages, of five iterations or of three."""
    depth = 64 * iterations
    graph = GATED.replace("320", str(depth)).replace("forloop 5", f"forloop {iterations}")
    module = parse(graph)
    case = make_case(module)
    context = make_context()
    steps = passes_as_written("sm_90a", loads="tma", stages=(3,), ping_pong=consumers, blocks=1)
    for step in steps:
        step.apply(context, module)
    return Compiled(case, module, print_module(module))


@pytest.mark.usefixtures("needs_emulator")
@pytest.mark.parametrize(("consumers", "iterations"), [(2, 5), (3, 5), (2, 3)])
def test_ping_pong_roles_compute_every_block(
    consumers: int, iterations: int, tmp_path: Path
) -> None:
    one = compiled(consumers, iterations)
    assert f"place += {consumers}, before += {iterations * consumers}, ++round" in one.cuda
    check_emulated(build([one], tmp_path), 0, one, tmp_path / "run")


@pytest.mark.usefixtures("needs_emulator")
def test_roles_of_the_blocks_of_a_cluster_alternate(tmp_path: Path) -> None:
    module = parse(product(64, 128, 64, blocks=6, loop=5))
    case = make_case(module)
    context = make_context()
    steps = passes_as_written("sm_90a", loads="tma", stages=(4,), ping_pong=2, cluster=2, blocks=2)
    for step in steps:
        step.apply(context, module)
    one = Compiled(case, module, print_module(module))
    # One cluster of two blocks, each with three blocks of the grid.
    assert "place += 4, before += 10, ++round" in one.cuda
    assert "mugraph::bulk_multicast<2>(" in one.cuda
    check_emulated(build([one], tmp_path, cluster=2), 0, one, tmp_path / "run")
