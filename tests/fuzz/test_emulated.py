"""Generated CUDA of a few random µGraphs, executed on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.emulated import check_together
from fuzz.properties import Compiled, PropertyError, compile_checked
from fuzz.search import WELL_FORMED, draw_case
from fuzz.test_fuzz import GOOD_REGRESSIONS

SEED = 2
CASES = 8


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    texts = [path.read_text(encoding="utf-8") for path in GOOD_REGRESSIONS]
    drawn = (draw_case(WELL_FORMED, SEED, number) for number in range(CASES))
    texts += [case.text for case in drawn if case is not None]
    return [compile_checked(text) for text in texts]


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_what_the_interpreter_does(
    compiled: list[Compiled], tmp_path: Path
) -> None:
    failures = check_together(compiled, tmp_path)
    assert [failure for failure in failures if failure is not None] == []


@pytest.mark.usefixtures("needs_emulator")
def test_a_kernel_without_its_barriers_is_caught(compiled: list[Compiled], tmp_path: Path) -> None:
    one = next(case for case in compiled if case.cuda.count("__syncthreads();") > 2)
    hasty = Compiled(one.case, one.module, one.cuda.replace("__syncthreads();", ""))
    (failure,) = check_together([hasty], tmp_path)
    assert isinstance(failure, PropertyError)
