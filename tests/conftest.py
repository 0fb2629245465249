"""What tests of several folders need of the machine."""

from __future__ import annotations

import gc
import shutil

import pytest
from hypothesis import settings

from mugraph.runtime.toolchain import ToolchainError
from mugraph.tools import ALLOCATIONS_PER_COLLECTION

# As in the tools: nearly all that a test makes it keeps to its end.
gc.set_threshold(ALLOCATIONS_PER_COLLECTION)

# A run of the tests is the same run each time. `--hypothesis-profile=search` draws afresh.
settings.register_profile("fixed", derandomize=True, database=None)
settings.register_profile("search", settings.get_profile("default"))
settings.load_profile("fixed")


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
