"""All cases of the tables on the GPU of this machine; ``python -m cases run`` gives a summary.

``MUGRAPH_CASES`` may hold patterns of case ids, separated by spaces.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mugraph.codegen.architecture import choose_architecture
from mugraph.passes.targets import default_targets
from mugraph.runtime.toolchain import device_architecture

sys.path.insert(0, str(Path(__file__).parents[1]))
from cases.build import Settings, build
from cases.case import Case
from cases.catalogue import select
from cases.device import Outcome, run_all

# A thousand tests that are skipped one by one take seconds.
if device_architecture() is None:
    pytest.skip("no NVIDIA GPU and driver on this machine", allow_module_level=True)

CASES = select(os.environ.get("MUGRAPH_CASES", "").split())


@pytest.fixture(scope="session")
def outcomes(gpu_architecture: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    settings = Settings(
        tmp_path_factory.mktemp("cases"),
        choose_architecture(gpu_architecture, [*default_targets()]),
    )
    built = build(CASES, settings)
    return {outcome.id: outcome for outcome in run_all(built, settings.folder)}


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, outcomes: dict[str, Outcome]) -> None:
    assert not outcomes[case.id].error
