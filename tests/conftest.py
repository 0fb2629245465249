"""What tests of several folders need of the machine."""

from __future__ import annotations

import shutil

import pytest

from mugraph.runtime.toolchain import ToolchainError


@pytest.fixture(scope="session")
def needs_emulator() -> None:
    """Skips, saying why, where generated CUDA cannot be compiled for the CPU."""
    from fuzz.emulated import emulating_compiler

    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no generated kernel was executed")
    try:
        emulating_compiler()
    except ToolchainError as error:
        pytest.skip(f"no generated kernel was executed: {error}")
