"""The first of each file of saved µGraphs, with few of its heads."""

from __future__ import annotations

import os
import re
from pathlib import Path

from interpreter_programs import parse
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp

from mugraph.tools.import_mirage import import_mirage

ROOT = Path(__file__).parents[3]
SAVED = Path(os.environ.get("MUGRAPH_SAVED_MUGRAPHS", ROOT.parent / "shared" / "mugraphs"))

HEADS = 2
"""Each head has rows of blocks of its own, so two show whether one is taken for another."""


def first_of(path: Path) -> ModuleOp:
    """The first graph of a file, of at most two heads, or of all with ``MUGRAPH_THOROUGH=1``."""
    module = import_mirage(path.read_text(encoding="utf-8"), 0, symbol=path.stem)[0]
    text = str(module)
    # Heads are the first of a tensor's three dimensions, and the first of the grid's.
    whole = {found[1] for found in re.finditer(r"\btensor<(\d+)x\d+x\d+xf16", text)}
    if THOROUGH or len(whole) != 1 or int(heads := whole.pop()) <= HEADS:
        return module
    few = re.sub(rf"(\btensor<|layout<\(|grid \[){heads}(?=x|,)", rf"\g<1>{HEADS}", text)
    return parse(few)
