"""Products that a library adds to a matrix, called as on a GPU, on the CPU emulator of CUDA."""

from __future__ import annotations

import pytest

from fuzz.emulated import MUGRAPHS
from fuzz.properties import Compiled, compile_checked


def graph(element: str) -> str:
    """X · W + S, after a kernel that makes S."""
    x, w, r = (f"tensor<{extents}x{element}>" for extents in ("8x16", "16x24", "8x24"))
    return f"""
func.func @fuzzed(%x: {x}, %w: {w}, %r: {r}) -> {r} {{
  %s = kn.relu %r : {r} -> {r}
  %y = kn.matmul_add %x, %w, %s : ({x}, {w}, {r}) -> {r}
  func.return %y : {r}
}}
"""


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    return [compile_checked(graph(element)) for element in ("f16", "bf16")]


@pytest.mark.usefixtures("needs_emulator")
def test_what_cublas_is_asked_for_is_what_the_interpreter_computes(
    compiled: list[Compiled],
) -> None:
    MUGRAPHS.add(*compiled)
