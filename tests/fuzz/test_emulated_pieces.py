"""Kernels on whole tensors that are cut into several launches, executed on the CPU."""

from __future__ import annotations

import pytest

from fuzz.emulated import MUGRAPHS
from fuzz.properties import compile_checked, parse
from fuzz.test_fuzz import REGRESSIONS
from mugraph.codegen.cuda import pieces

WHOLE_TENSORS = next(path for path in REGRESSIONS if path.stem == "whole_tensor_kernels")


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_in_pieces_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit that small tensors exceed, since those of 2^31 elements are no test's size."""
    monkeypatch.setattr(pieces, "MAX_SPAN", 50)
    elementwise = (
        "func.func @fuzzed(%signed: tensor<7x9x4xf16>, %other: tensor<7x1x4xf32>) -> "
        "tensor<7x9x4xf16, #cute.layout<(7,9,4):(1,28,7)>> {"
        "%y = kn.add %signed, %other : (tensor<7x9x4xf16>, tensor<7x1x4xf32>) -> "
        "tensor<7x9x4xf16, #cute.layout<(7,9,4):(1,28,7)>> "
        "func.return %y : tensor<7x9x4xf16, #cute.layout<(7,9,4):(1,28,7)>> }"
    )
    texts = [WHOLE_TENSORS.read_text(encoding="utf-8"), elementwise]
    compiled = [compile_checked(str(parse(text))) for text in texts]
    assert all("for (int64_t i" in one.cuda for one in compiled)
    MUGRAPHS.add(*compiled)
