"""What tests of several folders need of the machine."""

from __future__ import annotations

import gc
import shutil
from collections.abc import Iterator

import pytest
from checked_later import CheckedLater
from hypothesis import settings
from thorough import THOROUGH, usual

from mugraph.runtime.toolchain import ToolchainError
from mugraph.tools import ALLOCATIONS_PER_COLLECTION

# As in the tools: nearly all that a test makes it keeps to its end.
gc.set_threshold(ALLOCATIONS_PER_COLLECTION)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out parameters that only thorough runs take, but where one is asked for by its id."""
    if THOROUGH or any("[" in asked for asked in config.args):
        return
    kept = usual(items)
    if left_out := set(items).difference(kept):
        config.hook.pytest_deselected(items=list(left_out))
        items[:] = kept


def pytest_collection_finish() -> None:
    """Leaves out of all later collections what was imported and collected: it stays to the end."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """Collects once more, and leaves out what remains: pytest and Python collect twice each."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(scope="session", autouse=True)
def _what_waits_is_checked() -> Iterator[None]:
    yield
    CheckedLater.check(whatever_waits=True)


@pytest.fixture(scope="module", autouse=True)
def _enough_that_waits_is_checked(_what_waits_is_checked: None) -> Iterator[None]:
    yield
    CheckedLater.check(whatever_waits=False)
