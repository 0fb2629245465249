"""GPU tests run where there is a GPU and what it takes to compile for it, and say so elsewhere."""

from __future__ import annotations

import pytest

from mugraph.errors import UserError
from mugraph.runtime.toolchain import device_architecture, find_toolchain


@pytest.fixture(scope="session")
def gpu_architecture() -> str:
    """The GPU's architecture; skips, saying why, where there is none to run on."""
    architecture = device_architecture()
    if architecture is None:
        pytest.skip("no NVIDIA GPU and driver on this machine")
    try:
        find_toolchain()
    except UserError as error:
        pytest.skip(str(error))
    return architecture
