"""The Python of the documents runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


def first_snippet(path: Path) -> str:
    found = re.search(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)
    assert found is not None
    return found.group(1)


def test_the_page_on_python() -> None:
    names: dict[str, object] = {}
    # On the interpreter also where there is a GPU, whose arrays the snippet does not make.
    code = first_snippet(ROOT / "docs" / "python.md").replace(
        "mugraph.compile(graph)", 'mugraph.compile(graph, arch="cpu")'
    )
    exec(code, names)
    result = names["result"]
    assert isinstance(result, np.ndarray) and result.shape == (16, 6144)
    assert np.isfinite(result).all()
