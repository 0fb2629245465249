"""Tuning on a GPU: right, never slower than before, and resumed where it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import mugraph
import mugraph.build as mi
from mugraph.passes.mugraph.known_plans import PlanDatabase
from mugraph.reading import make_context
from mugraph.tune import Options, gpu_here, tunable_kernels, tune_program
from mugraph.tune.records import read_records

torch = pytest.importorskip("torch")
ARCH = "native"


def gated_mlp(rows: int) -> mi.KernelGraph:
    """silu(X · W1) * (X · W2)."""
    graph = mi.new_kernel_graph(f"gated_mlp_{rows}")
    x = graph.new_input((rows, 1536))
    w1, w2 = (graph.new_input((1536, 4096)) for _ in range(2))
    graph.mark_output(mi.silu(x @ w1) * (x @ w2))
    return graph


@pytest.fixture
def database(gpu_architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a database of its own."""
    path = tmp_path / "plans.jsonl"
    monkeypatch.setenv("MUGRAPH_PLANS", str(path))
    return path


def options(path: Path) -> Options:
    gpu = gpu_here()
    assert gpu is not None
    return Options(path, gpu, candidates=8, seconds=40.0)


def test_a_tuned_kernel_is_right_and_not_slower(database: Path, gpu_architecture: str) -> None:
    graph = gated_mlp(24)
    (entry,) = tune_program(graph.module(), make_context(), gpu_architecture, options(database))
    assert entry.microseconds <= entry.before
    assert len({record.code for record in read_records(options(database).records)}) > 4
    kernel = mugraph.compile(graph, ARCH, tune=True)
    generator = np.random.default_rng(3)
    x, w1, w2 = (
        (generator.standard_normal(shape) * scale).astype(np.float16)
        for shape, scale in (((24, 1536), 1.0), ((1536, 4096), 0.025), ((1536, 4096), 0.025))
    )
    result = kernel(*(torch.from_numpy(each).cuda() for each in (x, w1, w2)))
    gate, up = (x.astype(np.float64) @ w.astype(np.float64) for w in (w1, w2))
    expected = gate / (1 + np.exp(-gate)) * up
    apart = np.linalg.norm(result.cpu().numpy().astype(np.float64) - expected)
    assert apart < 2e-3 * np.linalg.norm(expected)


def test_what_was_killed_goes_on(database: Path, gpu_architecture: str) -> None:
    graph, path = gated_mlp(40), database.with_name("graph.mlir")
    path.write_text(str(graph.module()), encoding="utf-8")
    command = [sys.executable, "-m", "mugraph.tools.mg_tune", str(path), "--candidates", "8"]
    records = options(database).records
    killed = subprocess.Popen(command, env=os.environ)
    end = time.monotonic() + 300.0
    while sum(bool(one.times) for one in read_records(records)) < 3:
        assert killed.poll() is None and time.monotonic() < end
        time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = read_records(records)
    assert before and not database.exists()
    subprocess.run(command, env=os.environ, check=True)
    after = read_records(records)
    assert after[: len(before)] == before
    (kernel,), _ = tunable_kernels(graph.module(), make_context(), gpu_architecture)
    entry = PlanDatabase.read(database).find(kernel.structure, options(database).gpu)
    assert entry is not None and entry.microseconds <= entry.before
