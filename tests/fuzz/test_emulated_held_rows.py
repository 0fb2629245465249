"""Rows that threads hold in registers: rows that start anywhere, and what is computed again."""

from __future__ import annotations

import pytest
from row_programs import layer_norm, softmax

import mugraph.build as mi
from fuzz.emulated import MUGRAPHS
from fuzz.properties import (
    Compiled,
    compile_planned,
)
from mugraph.dialects.plan import Plan

STAGES = ("promote-registers", "pipeline-loads", "set-register-budgets")


OF_SOFTMAX, OF_NORM = 2.0**-6, 2.0**-5
"""How far rounding may carry a softmax, times its columns, and a norm in bf16."""
PROGRAMS = (
    (
        softmax(150, 1003),
        Plan(grid=(150,), along=(0,), tile=(1, 1008)),
        OF_SOFTMAX / 1003,
        ("::load_shifted(", "tb::renew(", "ops::ScaledExp<", "tb::StoreShifted<"),
    ),
    (softmax(1500, 147), None, OF_SOFTMAX / 147, ("ops::ScaledExp<",)),
    (softmax(2, 2048), None, OF_SOFTMAX / 2048, ("ops::ScaledExp<",)),
    (
        layer_norm(3, 1031, mi.bfloat16),
        Plan(grid=(3,), along=(0,), tile=(1, 1032)),
        OF_NORM,
        ("::load_shifted(", "tb::renew("),
    ),
    (layer_norm(7, 264, mi.bfloat16), None, OF_NORM, ("tb::renew(",)),
    (
        layer_norm(2117, 40, mi.bfloat16),
        Plan(tile=(2, 48), block=(32, 1, 1)),
        OF_NORM,
        ("tb::packed_block<2>()", "__syncwarp()"),
    ),
    (
        layer_norm(2117, 40, mi.bfloat16),
        Plan(tile=(2, 64), block=(32, 1, 1)),
        OF_NORM,
        ("tb::packed_block<2>()",),
    ),
)
"""Each with a plan, how far off it may be, and what its text must have."""


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    """Each program after every pass, checked where registers and loads change."""
    found: list[Compiled] = []
    for module, plan, error, wanted in PROGRAMS:
        found.append(compile_planned(module, STAGES, error, plan))
        assert [text for text in wanted if text not in found[-1].cuda] == []
    return found


@pytest.mark.usefixtures("needs_emulator")
def test_the_cuda_is_right(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)
