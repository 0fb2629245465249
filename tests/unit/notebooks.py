"""The notebooks of the examples: runs them, and writes what they print where it is asked to.

``python tests/unit/notebooks.py`` runs all of them and writes their outputs; ``make notebooks``
does that.
"""

from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> Any:
    """The notebook as it is in the file."""
    return nbformat.read(path, as_version=4)


def executed(path: Path) -> Any:
    """The notebook with the outputs of a run of all its cells, in order, in a fresh kernel."""
    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(FOLDER)}},
    )
    client.execute()
    # The kernel adds its versions here; no reader needs them.
    notebook.metadata.language_info = {"name": "python"}
    return notebook


if __name__ == "__main__":
    for notebook_path in NOTEBOOKS:
        nbformat.write(executed(notebook_path), notebook_path)
        print(notebook_path)
