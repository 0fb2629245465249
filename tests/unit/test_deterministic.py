"""The same input gives the same CUDA, byte by byte, whatever Python's hash seed is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = ("0", "1", "4711")


def cuda_text(path: Path, seed: str) -> bytes:
    """What ``mg-opt`` prints in a process of its own with this hash seed."""
    done = subprocess.run(
        [sys.executable, "-m", "mugraph.tools.mg_opt", "--transpile", "-t", "cuda", str(path)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    return done.stdout


@pytest.mark.parametrize("name", ["attention_split_kv", "rmsnorm_in_loop"])
def test_hash_seeds_do_not_change_the_cuda_text(name: str) -> None:
    texts = {cuda_text(EXAMPLES / f"{name}.mlir", seed) for seed in SEEDS}
    assert len(texts) == 1
    assert b"__global__" in texts.pop()
