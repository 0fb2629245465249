"""``examples/cpp_generate`` on a GPU: its tokens are those of PyTorch."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mugraph.runtime.toolchain import find_toolchain

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")

# PyTorch warns of its own parts, and of what transformers keeps while it exports.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in ("DeprecationWarning", "FutureWarning", "UserWarning")
]

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp_generate"
PROMPT, COUNT = [5, 17, 42], 40


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tokens_without_python(gpu_architecture: str, device: str, tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine")
    path, output = tmp_path / "decode.pt2", tmp_path / "compiled"
    main = runpy.run_path(str(EXAMPLE / "export.py"))["main"]
    asked = ["--expect", str(COUNT), *map(str, PROMPT)]
    expected = main([str(path), "--device", device, *asked])
    compile_command = [sys.executable, "-m", "mugraph.tools.mg_compile", str(path)]
    run([*compile_command, "--arch", gpu_architecture, "-o", str(output)])
    toolchain, program = find_toolchain(), tmp_path / "generate"
    command = [str(toolchain.nvcc), "-std=c++17", str(EXAMPLE / "main.cpp"), "-o", str(program)]
    libraries = [f"-L{path}" for path in (*toolchain.library_paths, output / "lib")]
    run([*command, f"-I{output / 'include'}", *libraries, "-ldecode"])
    files = sorted((output / "share" / "decode").glob("*.safetensors"))
    weights = [word for file in files for word in ("--weights", str(file))]
    clean = {name: each for name, each in os.environ.items() if not name.startswith("PYTHON")}
    clean["LD_LIBRARY_PATH"] = str(output / "lib")
    for graph in ([], ["--no-graph"]):
        words = [str(program), *graph, "--tokens", str(COUNT), *weights, *map(str, PROMPT)]
        said = run(words, clean)
        assert [int(each) for each in said.split()] == expected


def run(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
