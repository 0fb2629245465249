"""The types of what an exported model takes and gives, which torch must know to read its file."""

from __future__ import annotations

import re
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

_TYPE = re.compile(r'"type\\*": \\*"([A-Za-z_][\w.]*)\.\w+\\*"')
"""A class in a tree of results: JSON of ``torch.utils._pytree``, within strings of other JSON."""


def import_result_types(path: Path) -> None:
    """Imports the modules of the classes that a file of ``torch.export.save`` has trees of.

    They register these with torch, as transformers does those of its models' results.  A module
    that is not installed is left out: torch then says which class it does not know.
    """
    modules: set[str] = set()
    with ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                modules.update(_TYPE.findall(archive.read(name).decode(errors="replace")))
    for module in sorted(modules):
        with suppress(ImportError):
            import_module(module)
