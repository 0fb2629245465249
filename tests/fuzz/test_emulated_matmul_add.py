"""Products that a library adds to a matrix, called as on a GPU, on the CPU emulator of CUDA."""

from __future__ import annotations

import pytest

from fuzz.emulated import MUGRAPHS
from fuzz.properties import Compiled, compile_checked


def graph(element: str, extents: tuple[int, int, int], *, by_columns: bool) -> str:
    """X · W + S, after a kernel that makes S; W is row-major or column-major."""
    m, k, n = extents
    x, w, r = (f"tensor<{a}x{b}x{element}>" for a, b in ((m, k), (k, n), (m, n)))
    if by_columns:
        w = f"tensor<{k}x{n}x{element}, #cute.layout<({k},{n}):(1,{k})>>"
    return f"""
func.func @fuzzed(%x: {x}, %w: {w}, %r: {r}) -> {r} {{
  %s = kn.relu %r : {r} -> {r}
  %y = kn.matmul_add %x, %w, %s : ({x}, {w}, {r}) -> {r}
  func.return %y : {r}
}}
"""


EXTENTS = (
    (8, 16, 24),
    # Rows of results and of what kernels make are padded, those of arguments are not.
    (7, 5, 3),
    (33, 17, 65),
    # Single rows and columns.
    (16, 24, 1),
    (1, 24, 9),
    (9, 1, 8),
    (1, 1, 1),
)


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    return [
        compile_checked(graph(element, extents, by_columns=by_columns))
        for element in ("f16", "bf16")
        for extents in EXTENTS
        for by_columns in (False, True)
    ]


@pytest.mark.usefixtures("needs_emulator")
def test_what_cublas_is_asked_for_is_what_the_interpreter_computes(
    compiled: list[Compiled],
) -> None:
    MUGRAPHS.add(*compiled)
