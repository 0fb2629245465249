"""Where quads of lanes may write the fragment of a product, 16 bytes a lane."""

from __future__ import annotations

import pytest

from mugraph.dialects import sched
from mugraph.reading import make_context, parse_text


def one_row(stride: int) -> sched.StoreOp:
    """The store of one row of 64 numbers, of eight that lie ``stride`` elements apart."""
    tensor = f"!sched.global<8x64xf16, (8,64):({stride},1)>"
    fragment = "!sched.tile<1x64xf32, #cute.tiled_mma<SM80_16x8x16_F32F16F16F32_TN, (1,1,1)>>"
    text = f"""
sched.kernel @k inputs 0 grid [8, 1, 1] block [32, 1, 1] forloop 1 {{
^bb0(%o: {tensor}):
  %t = sched.local_tile %o map [0, -1, -1] : {tensor} -> !sched.global<1x64xf16, (1,64):(0,1)>
  %p = sched.empty : {fragment}
  sched.epilogue {{
    %q = sched.fill %p with 0.000000e+00 : {fragment}
    sched.store %q to %t : {fragment} to !sched.global<1x64xf16, (1,64):(0,1)>
  }}
}}
"""
    module = parse_text(make_context(), text, "k")
    (store,) = [op for op in module.walk() if isinstance(op, sched.StoreOp)]
    return store


@pytest.mark.parametrize(("stride", "by_quads"), [(64, True), (72, True), (68, False), (67, False)])
def test_the_row_of_each_block_must_start_at_16_bytes(stride: int, by_quads: bool) -> None:
    assert one_row(stride).by_quads == by_quads
