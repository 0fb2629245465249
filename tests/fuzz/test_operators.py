"""Every operator through every pass, and as generated CUDA executed on the CPU."""

from __future__ import annotations

import pytest

from fuzz.emulated import MUGRAPHS
from fuzz.operator_cases import (
    accumulators,
    elementwise_functions,
    norms,
    products,
    rearrangements,
    running_maxima,
)
from fuzz.properties import Compiled, compile_checked

CASES = {
    "elementwise": elementwise_functions(96),
    "reductions": [*accumulators(), *running_maxima(), *norms()],
    "rearrangements": [*rearrangements(), *products()],
}


@pytest.fixture(scope="module", params=CASES)
def compiled(request: pytest.FixtureRequest) -> list[Compiled]:
    return [compile_checked(text) for text in CASES[request.param]]


def test_every_pass_keeps_the_function(compiled: list[Compiled]) -> None:
    assert all(case.cuda for case in compiled)


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_what_the_interpreter_does(compiled: list[Compiled]) -> None:
    MUGRAPHS.add(*compiled)
