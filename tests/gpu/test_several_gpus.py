"""Programs of several devices on the GPUs of this machine, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "several_gpus" / "programs.py"
QUIET = {
    "OMP_NUM_THREADS": "1",
    # NVLink multicast may put GPUs out of service that others share.
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
    "MUGRAPH_MEETING_SECONDS": "20",
}


@pytest.fixture(scope="session")
def gpus(gpu_architecture: str) -> int:
    """How many GPUs there are; skips, saying so, where that is one."""
    assert gpu_architecture
    torch = pytest.importorskip("torch", reason="processes meet through torch.distributed")
    count = torch.cuda.device_count()
    if count < 2:
        pytest.skip(f"programs of several devices need two GPUs; this machine has {count}")
    return count


def run_on(processes: int, *command: str) -> str:
    """What a program printed that ran on so many processes, each with a GPU."""
    ran = subprocess.run(
        [
            sys.executable,
            *("-m", "torch.distributed.run", "--standalone"),
            *("--nproc-per-node", str(processes), *command),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, **QUIET},
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("name", ["mlp", "attention", "data", "experts"])
def test_every_example_runs_by_nccl(gpus: int, name: str) -> None:
    assert "device 1: result 0" in run_on(2, str(EXAMPLE), name)


def test_a_tensor_parallel_model_of_torch_runs_by_nccl(gpus: int) -> None:
    assert gpus >= 2
    script = str(ROOT / "examples" / "several_gpus" / "models.py")
    assert run_on(2, script, "mlp").count("relative error") == 2


def test_devices_read_one_another_in_any_order_of_arrival(gpus: int) -> None:
    processes = 4 if gpus >= 4 else 2
    script = str(ROOT / "tests" / "gpu" / "peer_programs.py")
    assert run_on(processes, script).count("right") == processes


def test_a_library_runs_with_communicators_of_its_caller(gpus: int) -> None:
    assert gpus >= 2
    assert run_on(2, str(ROOT / "tests" / "gpu" / "library_programs.py")).count("right") == 2
