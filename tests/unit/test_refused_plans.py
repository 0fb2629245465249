"""Parts of plans that a kernel cannot have: one sentence says why, and what would fit."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from schedules import AS_WRITTEN
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

import mugraph
from benchmarks.h200.building import mugraph_of
from benchmarks.h200.workloads import WORKLOADS
from mugraph.dialects import sched
from mugraph.dialects.plan import Plan
from mugraph.passes.schedule.persist_blocks import PersistBlocksPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text

INPUTS = Path(__file__).resolve().parents[1] / "filecheck/passes/Inputs"
ROW = (INPUTS / "warpgroup-row.mlir").read_text(encoding="utf-8")
"""Four blocks and one ring, in a loop of five iterations; products of 64 rows by one warp group."""
GATE = (INPUTS / "warpgroup-gate.mlir").read_text(encoding="utf-8")
"""Two warp groups; sixteen blocks, which all run at once."""
ATTENTION = (INPUTS / "warpgroup-attention.mlir").read_text(encoding="utf-8")
"""Keys and values come through rings of their own."""
FEW = (INPUTS / "few-rows.mlir").read_text(encoding="utf-8")
"""Two products of 16 rows, of 64 columns and of 32."""
GRIDS = """
func.func @f(%x: tensor<64x{0}xf16>) -> tensor<64x{0}xf16> {{
  %o = kn.customized %x grid [4, 1, 1] block [128, 1, 1] forloop 4 {{
  ^bb0(%dx: tensor<64x{0}xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 0 : tensor<64x{0}xf16> -> !tb.stensor<4x{0}xf16>
    %e = tb.relu %sx : !tb.stensor<4x{0}xf16> -> !tb.stensor<4x{0}xf16>
    tb.output %e omap [0, -1, -1] fordim 0 : !tb.stensor<4x{0}xf16> -> tensor<64x{0}xf16>
  }} : (tensor<64x{0}xf16>) -> tensor<64x{0}xf16>
  func.return %o : tensor<64x{0}xf16>
}}
"""
"""Rows of so many elements."""


def transpiled(text: str, arch: str = "sm_90a", **parts: Any) -> ModuleOp:
    context = make_context()
    module = parse_text(context, text, "<text>")
    for step in transpile_pipeline(arch, replace(AS_WRITTEN, **parts)):
        step.apply(context, module)
    return module


KERNEL = "'kn.customized' %o cannot have "
CANNOT: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "tma-on-sm_80": (
        *(ROW, "sm_80", {"loads": "tma"}),
        f"--lower-threadblock: {KERNEL}loads = tma: sm_80 has no bulk copies; write "
        "loads = cp_async, or leave loads free",
    ),
    "tma-of-short-rows": (
        *(GRIDS.format(36), "sm_90a", {"loads": "tma"}),
        f"{KERNEL}loads = tma: %dx: ",
    ),
    "swap-on-sm_80": (
        *(FEW, "sm_80", {"swap_ab": True}),
        f"{KERNEL}swap_ab = true: no warp groups multiply on sm_80; leave swap_ab free",
    ),
    "swap-of-no-product": (
        *(GRIDS.format(64), "sm_90a", {"swap_ab": True}),
        f"{KERNEL}swap_ab = true: none of its products has 64 rows or fewer, or rows that are no "
        "multiple of 64; leave swap_ab free",
    ),
    "swap-of-32-columns": (
        *(FEW, "sm_90a", {"swap_ab": True}),
        f"{KERNEL}swap_ab = true: 'tb.matmul' %am: 32 columns are no multiple of 64; leave",
    ),
    "stages-of-many-iterations": (
        *(ROW, "sm_90a", {"stages": (9,)}),
        "cannot have stages = [9]: its loop has 5 iterations; write stages = [5]",
    ),
    "stages-of-many-rings": (
        *(ROW, "sm_90a", {"stages": (3, 2)}),
        "cannot have stages = [3, 2]: its loop has 1 ring; write stages = [3]",
    ),
    "stages-of-three-rings": (
        *(ATTENTION, "sm_90a", {"stages": (2, 3, 4)}),
        "cannot have stages = [2, 3, 4]: its loop has 2 rings; write stages = [2, 3]",
    ),
    "stages-that-do-not-fit": (
        *(GATE, "sm_90a", {"stages": (8,)}),
        "cannot have stages = [8]: the shared memory of a block has no room for them; write "
        "stages = [4]",
    ),
    "persistent-with-few-blocks": (
        *(GATE, "sm_90a", {"persistent": True}),
        "cannot have persistent = true: all of its 16 work tiles run at once; leave persistent",
    ),
    "persistent-without-warp-groups": (
        *(GRIDS.format(64), "sm_90a", {"persistent": True}),
        "cannot have persistent = true: its ",
    ),
    "ping-pong-with-few-blocks": (
        *(ROW, "sm_90a", {"ping_pong": 2}),
        "cannot have ping_pong = 2: its blocks are not persistent: each computes one work tile; "
        "leave ping_pong free",
    ),
    "ping-pong-without-persistence": (
        *(ROW, "sm_90a", {"ping_pong": 2, "persistent": False}),
        "--plan: 'kn.customized' %o: ping_pong = 2 needs persistent blocks; write "
        "persistent = true, or leave persistent free",
    ),
    "stores-on-sm_80": (
        *(ROW, "sm_80", {"stores": "tma"}),
        "cannot have stores = tma: sm_80 has no bulk copies; leave stores free",
    ),
    "a-tile-of-0": (
        *(ROW, "sm_90a", {"tiles": None, "grid": (0,)}),
        "--plan: grid = [0] must be one to three extents of at least 1",
    ),
    "a-loop-of-0": (
        *(ROW, "sm_90a", {"tiles": None, "forloop": 0}),
        "--plan: forloop = 0 must be at least 1",
    ),
    "no-consumers": (ROW, "sm_90a", {"ping_pong": 0}, "--plan: ping_pong = 0 must be at least 1"),
    "no-stages": (ROW, "sm_90a", {"stages": (2, 0)}, "--plan: stages = [2, 0] cannot be"),
    "one-number": (ROW, "sm_90a", {"stages": 3}, "--plan: stages = 3 must be a list"),
    "an-unknown-word": (
        *(ROW, "sm_90a", {"stores": "some"}),
        "--plan: stores = some is unknown; expected one of tma, threads",
    ),
    "a-preference-for-nothing": (
        *(ROW, "sm_90a", {"preferred": ("stages",)}),
        "--plan: preferred = [stages]: the plan leaves stages free",
    ),
}


@pytest.mark.parametrize("name", CANNOT)
def test_what_cannot_be_is_one_sentence(name: str) -> None:
    text, arch, parts, message = CANNOT[name]
    with pytest.raises(PassFailedException, match=re.escape(message)) as raised:
        transpiled(text, arch, **parts)
    assert "\n" not in str(raised.value) and ". " not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("rmsnorm_bs8", Plan(swap_ab=True)),
        ("gated_mlp", Plan(swap_ab=True)),
        ("lora", Plan(stages=(8,))),
        ("gemm4096_f16", Plan(stages=(8,))),
        ("gemm4096_f16", Plan(ping_pong=2)),
    ],
    ids=str,
)
def test_tiles_are_chosen_that_can_have_what_is_written(name: str, parts: Plan) -> None:
    """Those of least estimated time cannot: too few columns, too little memory, too many warps."""
    module = mugraph_of(WORKLOADS[name])
    for step in transpile_pipeline("sm_90a", parts):
        step.apply(make_context(), module)
    planned = [op.decided for op in module.walk() if isinstance(op, sched.KernelOp)]
    assert planned[0].parts().items() >= parts.parts().items()


def test_what_no_tiles_can_have_is_refused() -> None:
    """Its second product takes what the first one gives, which nobody loads."""
    module = mugraph_of(WORKLOADS["lora"])
    with pytest.raises(PassFailedException, match="cannot have swap_ab = true"):
        for step in transpile_pipeline("sm_90a", Plan(swap_ab=True)):
            step.apply(make_context(), module)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (ROW, {"loads": "tma", "stages": (3,), "stores": "tma", "persistent": False}),
        (ATTENTION, {"stages": (2, 3)}),
        (ROW, {"pdl": "early"}),
    ],
)
def test_what_can_be_is_kept_silently(
    text: str, parts: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    module = transpiled(text, **parts)
    assert capsys.readouterr().err == ""
    stages = [op.stage_count for op in module.walk() if isinstance(op, sched.ChannelOp)]
    # What comes once has a channel behind the rings.
    asked = parts.get("stages", ())
    assert tuple(stages[: len(asked)]) == asked


def test_what_is_preferred_is_left_with_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    module = transpiled(ROW, ping_pong=2, preferred=("ping_pong",))
    assert not any(isinstance(op, sched.OrderBarrierOp) for op in module.walk())
    note = "--ping-pong: note: 'sched.kernel' @row_custom0 cannot have ping_pong = 2: "
    assert note in capsys.readouterr().err


def test_preferred_stages_are_as_many_as_fit() -> None:
    module = transpiled(GATE, stages=(8,), preferred=("stages",))
    assert {op.stage_count for op in module.walk() if isinstance(op, sched.ChannelOp)} == {4}


def test_compile_keeps_or_refuses_a_plan() -> None:
    with pytest.raises(PassFailedException, match="stages = \\[0\\] cannot be"):
        mugraph.compile(ROW, "sm_90a", plan=mugraph.Plan(tiles="written", stages=(0,)))


def test_a_plan_over_another_keeps_what_either_prefers() -> None:
    written = Plan(stages=(2,), preferred=("stages",))
    asked = Plan(stages=(3,), ping_pong=2, preferred=("stages", "ping_pong"))
    assert written.over(asked) == Plan(stages=(2,), ping_pong=2, preferred=("stages", "ping_pong"))
    assert written.over(asked).without("stages") == Plan(ping_pong=2, preferred=("ping_pong",))
    assert Plan(stages=(2,)).over(asked).requires("stages")


def test_a_launch_has_no_negative_number_of_blocks() -> None:
    with pytest.raises(PassFailedException, match="--persist-blocks: blocks is -1; expected 1"):
        PersistBlocksPass(blocks=-1).apply(make_context(), ModuleOp([]))
