"""The notebooks run from top to bottom, and print what is committed."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebooks import NOTEBOOKS, executed, read

MOST_BYTES = 300_000


def outputs(notebook: Any) -> list[tuple[str, Any]]:
    """The code of every cell, with what it showed."""
    return [(cell.source, cell.outputs) for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["embed_three_passes", "inspect_transpiler"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_committed_is_what_it_prints(path: Path) -> None:
    committed = read(path)
    nbformat.validate(committed)
    assert path.stat().st_size < MOST_BYTES
    for (source, before), (_, now) in zip(outputs(committed), outputs(executed(path)), strict=True):
        assert now == before, f"the output changed; see it after 'make notebooks':\n{source}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_committed_is_of_one_machine(path: Path) -> None:
    shown = [output for _, cell in outputs(read(path)) for output in cell]
    assert all(output.get("name") != "stderr" for output in shown)
    assert " object at 0x" not in str(shown)
    assert str(Path.home()) + "/" not in str(shown)
