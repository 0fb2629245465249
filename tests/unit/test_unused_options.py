"""Options that a kernel has no use for: a note says why, and impossible values are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.passes.persist_blocks import PersistBlocksPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module

INPUTS = Path(__file__).resolve().parents[1] / "filecheck/passes/Inputs"
ROW = "warpgroup-row.mlir"
"""Four blocks in a row, which have the tiles of A in common, of two boxes each; one ring."""
ATTENTION = "warpgroup-attention.mlir"
"""Keys and values come through rings of their own."""


def transpiled(
    name: str, arch: str = "sm_90a", pipeline: str = "channels", **options: Any
) -> ModuleOp:
    context = make_context()
    module = read_module(str(INPUTS / name), context)
    for step in transpile_pipeline(arch, pipeline=pipeline, **options):
        step.apply(context, module)
    return module


def clusters(module: ModuleOp) -> list[int]:
    return [op.cluster_blocks for op in module.walk() if isinstance(op, sched.KernelOp)]


@pytest.mark.parametrize(
    ("arch", "pipeline", "cluster", "reason"),
    [
        ("sm_90a", "channels", 4, "tiles in common come in 2 boxes, no multiple of 4"),
        ("sm_90a", "channels", 7, "its grid [4, 1, 1] has no rows of 7 blocks throughout"),
        ("sm_90a", "async-copies", 2, "no bulk copies load its tiles (pipeline=channels)"),
    ],
)
def test_a_note_says_why_blocks_are_no_clusters(
    arch: str, pipeline: str, cluster: int, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = transpiled(ROW, arch, pipeline, cluster=cluster)
    note = f"--cluster-blocks: note: 'sched.kernel' @row_custom0 has no clusters: {reason}\n"
    assert note in capsys.readouterr().err
    assert clusters(module) == [1]


def test_blocks_that_are_clusters_have_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert clusters(transpiled(ROW, cluster=2)) == [2]
    assert "--cluster-blocks" not in capsys.readouterr().err


def test_keys_of_one_block_are_in_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(clusters(transpiled(ATTENTION, cluster=2))) == {1}
    assert "--cluster-blocks: note: " in capsys.readouterr().err


def test_a_target_without_clusters_has_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert clusters(transpiled(ROW, "sm_80", "auto", cluster=2)) == [1]
    assert "--cluster-blocks: note: sm_80 has no clusters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": 0}, "--cluster-blocks: size 0 must be at least 1"),
        ({"cluster": 16}, "--cluster-blocks: size 16: sm_90a has clusters of up to 8 blocks"),
        ({"turns": 0}, "--alternate-consumers: turns 0 must be at least 1"),
        ({"pass_turn": "last"}, "--alternate-consumers: unknown pass-turn 'last'"),
        ({"bytes_in_flight": -5}, "--schedule-threadblock: bytes-in-flight of -5 cannot be"),
        ({"stages": (2, 0)}, "--schedule-threadblock: stages of 0 cannot be"),
    ],
)
def test_values_that_cannot_be_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PassFailedException, match=message):
        transpiled(ROW, **options)


def test_more_numbers_of_stages_than_rings_have_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    transpiled(ROW, stages=(3, 2))
    note = "--schedule-threadblock: note: of stages=3,2 only the first 1 can be used"
    assert note in capsys.readouterr().err


def test_as_many_numbers_of_stages_as_rings_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    transpiled(ATTENTION, stages=(2, 3))
    assert "stages=" not in capsys.readouterr().err
    transpiled(ATTENTION, stages=(2, 3, 4))
    assert "of stages=2,3,4 only the first 2 can be used" in capsys.readouterr().err


def test_a_launch_has_no_negative_number_of_blocks() -> None:
    with pytest.raises(PassFailedException, match="--persist-blocks: blocks of -1 cannot be"):
        PersistBlocksPass(blocks=-1).apply(make_context(), ModuleOp([]))


@pytest.mark.parametrize(
    ("arch", "pipeline", "reason"),
    [
        ("sm_90a", "async-copies", "no role loads the tiles by bulk copies (pipeline=channels)"),
        ("sm_80", "auto", "no warp groups multiply on sm_80"),
    ],
)
def test_a_note_says_why_operands_are_not_swapped(
    arch: str, pipeline: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    transpiled("few-rows.mlir", arch, pipeline, small_m="swap")
    assert capsys.readouterr().err.count(f": {reason}\n") == 2
    transpiled("few-rows.mlir", arch, pipeline)
    assert "small-m" not in capsys.readouterr().err
