"""The types of what an exported model takes and gives, which torch must know to read its file."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

from mugraph.errors import UserError

_TYPE = re.compile(r'"type\\*": \\*"([A-Za-z_][\w.]*\.\w+)\\*"')
"""A class in a tree of results: JSON of ``torch.utils._pytree``, within strings of other JSON."""


def import_result_types(path: Path) -> None:
    """Imports the modules of the classes that a file of ``torch.export.save`` has trees of.

    They register these with torch, as transformers does those of its models' results; classes that
    torch knows need no import.  A module that is not installed is left out: torch then says which
    class it does not know.  Raises ``UserError`` where a module fails while it is imported.
    """
    known = import_module("torch.utils._pytree").SERIALIZED_TYPE_TO_PYTHON_TYPE
    types: set[str] = set()
    with ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                types.update(_TYPE.findall(archive.read(name).decode(errors="replace")))
    for type_ in sorted(types.difference(known)):
        module = type_.rpartition(".")[0]
        try:
            import_module(module)
        except ImportError:
            continue
        except (Exception, SystemExit) as error:
            raise UserError(
                f"{path} has results of {type_}, but importing {module} failed: "
                f"{type(error).__name__}: {error}"
            ) from error
