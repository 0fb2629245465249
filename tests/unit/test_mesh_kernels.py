"""Programs of several devices in processes of ``torch.distributed``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from thorough import THOROUGH

pytestmark = pytest.mark.skipif(
    not THOROUGH, reason="starts processes that load torch; MUGRAPH_THOROUGH=1 does"
)
ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "several_gpus" / "programs.py"


def run_on(processes: int, *command: str) -> str:
    """What a program printed that ran on so many processes of this machine."""
    pytest.importorskip("torch", reason="processes meet through torch.distributed")
    environment = {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
    }
    ran = subprocess.run(
        [
            sys.executable,
            *("-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(processes), *command),
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("name", ["mlp", "attention", "data", "experts"])
def test_every_example_runs_on_processes(name: str) -> None:
    assert "device 3: result 0" in run_on(4, str(EXAMPLE), name, "--cpu")


@pytest.mark.parametrize(("name", "needs"), [("mlp", "torch"), ("qwen3", "accelerate")])
def test_tensor_parallel_models_run_on_processes(name: str, needs: str) -> None:
    pytest.importorskip(needs, reason=f"the plan of {name} is by {needs}")
    script = str(ROOT / "examples" / "several_gpus" / "models.py")
    assert run_on(2, script, name, "--cpu").count("relative error") == 2


def test_a_tensor_parallel_decoder_ends_and_says_where_it_is_if_not(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="its layers are those of transformers")
    command = ["-m", "benchmarks.tensor_parallel", "--cpu", "--layers", "2"]
    written = tmp_path / "written.json"
    run_on(2, *command, "--output", str(written), "--limit", "200")
    (row,) = json.loads(written.read_text())["rows"]
    assert row["failures"] == {}
    assert sorted(row["relative_errors"]) == ["mugraph, 2 devices", "mugraph, one device"]
    with pytest.raises(AssertionError, match=r"device \d: no end after 1 s, while "):
        run_on(2, *command, "--output", str(written), "--limit", "1")


def test_each_collective_is_what_simulated_devices_do() -> None:
    assert run_on(4, str(ROOT / "tests" / "unit" / "mesh_kernels.py")).count("right") == 4
