"""What is said where there is no instruction of a name: the nearest, and which there are."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_MOST_LISTED = 24


def no_atom(kind: str, name: str, names: Iterable[str]) -> str:
    """A sentence: that there is no atom of a name, those it may mean, and all by their shapes.

    ``SM80_16x8x16`` gets all names that begin so.  ``M`` and ``N`` stand for the extents that
    products may have, ``*`` for types.
    """
    known = list(names)
    begin = [one for one in known if name and one.startswith(name)][:_MOST_LISTED]
    near = begin or difflib.get_close_matches(name, known, n=3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    families = list(known)
    if len(known) > _MOST_LISTED:
        families = list(dict.fromkeys(map(_family, known)))
    return f"There is no {kind} {name!r}.{hint} There are {', '.join(families)}."


def _family(name: str) -> str:
    """``SM90_64xNx16_*`` of ``SM90_64x128x16_F32F16F16_SS``: without types."""
    found = re.match(r"((?:UniversalFMA|SM\d+(?:_2SM)?)_?)(\d+x\d+x\d+)?", name)
    if found is None or (found[2] is None and not name.startswith("UniversalFMA")):
        return name
    shape = found[2] or ""
    if found[1].startswith("SM100"):
        shape = re.sub(r"^\d+x\d+x", "MxNx", shape)
    if found[1].startswith("SM90"):
        shape = re.sub(r"^64x\d+x", "64xNx", shape)
        shape = re.sub(r"^\d+x64x", "Nx64x", shape)
    return f"{found[1]}{shape}{'_' if shape else ''}*"
