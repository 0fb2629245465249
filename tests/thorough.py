"""How many random inputs tests take: a part of them in every run, all of them for ``make fuzz``."""

from __future__ import annotations

import os

THOROUGH = bool(os.environ.get("MUGRAPH_THOROUGH"))


def inputs(usual: int, thorough: int) -> int:
    """So many inputs in every run, and so many with ``MUGRAPH_THOROUGH=1``."""
    return thorough if THOROUGH else usual
