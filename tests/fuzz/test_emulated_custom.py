"""Custom operators through every pass and interpreter, and on the CPU emulator of CUDA."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fuzz.emulated import check_together, emulating_compiler
from fuzz.properties import Compiled, compile_checked
from mugraph.runtime.toolchain import ToolchainError

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "custom_operators").glob("*.mlir"))

ERROR = 0.02
"""Results are of f16 and of a few units."""


@pytest.fixture(scope="module")
def needs_compiler() -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no generated kernel was executed")
    try:
        emulating_compiler()
    except ToolchainError as error:
        pytest.skip(f"no generated kernel was executed: {error}")


@pytest.fixture(scope="module")
def compiled() -> list[Compiled]:
    return [compile_checked(path.read_text(encoding="utf-8"), errors=ERROR) for path in EXAMPLES]


@pytest.mark.usefixtures("needs_compiler")
def test_kernels_compute_what_the_interpreter_does(
    compiled: list[Compiled], tmp_path: Path
) -> None:
    failures = check_together(compiled, tmp_path)
    assert [failure for failure in failures if failure is not None] == []
