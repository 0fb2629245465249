"""Custom operators through every pass and interpreter, and on the CPU emulator of CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.custom_operators import OPERATORS, Tile, graph_of, parse
from fuzz.emulated import MUGRAPHS
from fuzz.properties import Compiled, compile_checked

ROPE = OPERATORS.with_name("rope.mlir")
BACKWARDS = Path(__file__).parents[1] / "filecheck" / "passes" / "Inputs" / "custom-backwards.te"
"""Softmax of rows that stays a custom operator."""
ERROR = 0.02
"""Results are of f16 and of a few units."""


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    texts = [
        graph_of("row_softmax", [Tile(3, 40, "f32")], Tile(3, 40), threads=64),
        graph_of("top1", [Tile(8, 32)], Tile(8, 32)),
        graph_of("cumsum", [Tile(8, 64)], Tile(8, 64)),
        graph_of("smooth", [Tile(4, 64, "f32")], Tile(4, 64, "f32")),
        ROPE.read_text(encoding="utf-8"),
    ]
    modules = [parse(texts[0], BACKWARDS.read_text(encoding="utf-8")), *map(parse, texts)]
    return [compile_checked(str(module), errors=ERROR) for module in modules]


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_what_the_interpreter_does(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)
