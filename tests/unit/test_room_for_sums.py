"""Estimates and schedules agree on whether a block has room for the sums of a product."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import kn
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import LEVEL_ENDS, transpile_pipeline
from mugraph.reading import make_context, parse_text

SCALE, EXP = "tb.mul_scalar {} by 1.250000e-01", "tb.exp {}"
SUM = "tb.forloop_accum none {}"


def kernel(columns: int, steps: list[str]) -> str:
    """Products of 32 rows and a depth of 64 by 256 threads, and what is computed of them."""
    tile, lines, value = f"!tb.stensor<32x{columns}xf32>", list[str](), "%m"
    for number, step in enumerate(steps):
        lines.append(f"%{number} = {step.format(value)} : {tile} -> {tile}")
        value = f"%{number}"
    computed = "\n".join(lines)
    a, b, c = "tensor<1024x64xbf16>", f"tensor<64x{columns}xbf16>", f"tensor<1024x{columns}xf32>"
    sa, sb = "!tb.stensor<32x64xbf16>", f"!tb.stensor<64x{columns}xbf16>"
    return f"""
    func.func @f(%a: {a}, %b: {b}) -> {c} {{
      %o = kn.customized %a, %b grid [32, 1, 1] block [256, 1, 1] forloop 1 plan <tiles = written> {{
      ^bb0(%da: {a}, %db: {b}):
        %sa = tb.input %da imap [0, -1, -1] : {a} -> {sa}
        %sb = tb.input %db imap [-1, -1, -1] : {b} -> {sb}
        %m = tb.matmul %sa, %sb : ({sa}, {sb}) -> {tile}
        {computed}
        tb.output {value} omap [0, -1, -1] : {tile} -> {c}
      }} : ({a}, {b}) -> {c}
      func.return %o : {c}
    }}
    """  # noqa: E501


@pytest.mark.parametrize(
    ("columns", "steps", "fits"),
    [
        (1024, [], True),
        (1024, [SUM, SCALE], True),
        # The sums stand beside the product: 256 registers a thread, or 128 KiB beside 132.
        (1024, [SCALE], False),
        (1024, [EXP], False),
        (1024, [SCALE, SUM], False),
        (768, [SCALE], True),
        (512, [SCALE], True),
    ],
)
def test_sums_of_functions_have_room_beside_the_product(
    columns: int, steps: list[str], fits: bool
) -> None:
    target, context = target_named("sm_90a"), make_context()
    module = parse_text(context, kernel(columns, steps), "<text>")
    (graph,) = (op for op in module.walk() if isinstance(op, kn.CustomizedOp))
    space = find_dimensions(graph)
    assert (estimate(shape_under(space, partition_of(space)), target) is not None) == fits
    schedule = verifying(transpile_pipeline("sm_90a"), LEVEL_ENDS)
    if fits:
        schedule.apply(context, module)
    else:
        with pytest.raises(PassFailedException, match="bytes of shared memory"):
            schedule.apply(context, module)
