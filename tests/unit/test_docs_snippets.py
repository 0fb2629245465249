"""The Python of the documents runs, and so do the commands of the walkthrough."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import mugraph
import mugraph.build as mi

ROOT = Path(__file__).resolve().parents[2]


def snippets(page: str, *languages: str) -> list[tuple[str, str]]:
    """The blocks of a page in these languages, with the language of each."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.S | re.M)
    return [(language, code) for language, code in found if language in languages]


def names_of(page: str) -> dict[str, object]:
    """What the Python of a page defines, all of it in order."""
    names: dict[str, object] = {}
    for _, code in snippets(page, "python"):
        exec(compile(code, page, "exec"), names)
    return names


def test_the_page_on_python() -> None:
    names: dict[str, object] = {}
    # On the interpreter also where there is a GPU, whose arrays the snippet does not make.
    code = snippets("python.md", "python")[0][1].replace(
        "mugraph.compile(graph)", 'mugraph.compile(graph, arch="cpu")'
    )
    exec(code, names)
    result = names["result"]
    assert isinstance(result, np.ndarray) and result.shape == (16, 6144)
    assert np.isfinite(result).all()


def test_the_kernel_on_the_page_on_cute_kernels() -> None:
    names = names_of("cute-kernels.md")
    a, b, c = (names[name] for name in "abc")
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    np.testing.assert_allclose(c, a @ b.T, rtol=1e-5)  # type: ignore[arg-type]
    assert 'te.kernel "product" %block = 6' in str(names["module"])


def test_the_program_on_the_page_on_python() -> None:
    """With queries of zeros all keys that one sees weigh the same: all but those after its own."""
    names: dict[str, object] = {"mi": mi}
    (code,) = [code for _, code in snippets("python.md", "python") if "mi.softmax" in code]
    exec(compile(code, "python.md", "exec"), names)
    graph = names["graph"]
    assert isinstance(graph, mi.KernelGraph)
    random = np.random.default_rng(0)
    queries, turns = np.zeros((2, 6, 16), np.float16), np.ones((6, 16), np.float16)
    keys, values = random.standard_normal((2, 2, 8, 16)).astype(np.float16)
    result = mugraph.compile(graph, arch="cpu")(queries, keys, values, turns, turns)
    seen = [values[:, : row + 3].astype(float).mean(axis=1) for row in range(6)]
    np.testing.assert_allclose(result.astype(float), np.stack(seen, 1), atol=2e-3)


def test_the_walkthrough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tool is started once as the page says, and then called in this process."""
    monkeypatch.chdir(tmp_path)
    folder = os.path.dirname(sys.executable)
    monkeypatch.setenv("PATH", os.pathsep.join((folder, os.environ["PATH"])))
    names: dict[str, object] = {}
    started: set[str] = set()
    for language, code in snippets("walkthrough.md", "python", "sh"):
        if language == "python":
            exec(compile(code, "walkthrough.py", "exec"), names)
            continue
        for line in code.splitlines():
            tool, *arguments = shlex.split(line)
            if tool not in started:
                started.add(tool)
                subprocess.run([tool, *arguments], check=True, capture_output=True)
                continue
            monkeypatch.setattr("sys.argv", [tool, *arguments])
            (script,) = entry_points(group="console_scripts", name=tool)
            assert script.load()() in (None, 0), line
    assert "rope_norm_custom0" in (tmp_path / "rope_norm.cu").read_text(encoding="utf-8")
    assert re.search(r"walkthrough\.py:\d+:\d+$", str(names["message"]))


def test_the_pages_for_those_who_come_from_elsewhere() -> None:
    assert isinstance(names_of("from-mirage.md")["graph"], mi.KernelGraph)
    random = np.random.default_rng(0)
    names = names_of("from-triton.md")
    for name, reference in (
        ("graph", lambda x, w: silu(x @ w)),
        ("swiglu", lambda gate, up: silu(gate) * up),
    ):
        graph = names[name]
        assert isinstance(graph, mi.KernelGraph)
        kernel = mugraph.compile(graph, arch="cpu")
        one, other = (
            (random.standard_normal(tensor.shape) / 4).astype(np.float16)
            for tensor in kernel.interface.inputs
        )
        expected = reference(one.astype(float), other.astype(float))
        np.testing.assert_allclose(kernel(one, other), expected, atol=5e-3)
    graph = names_of("from-cutlass.md")["graph"]
    assert isinstance(graph, mi.KernelGraph) and "!tb.stensor<128x64xf16>" in str(graph)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))
