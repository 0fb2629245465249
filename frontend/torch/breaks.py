"""What ``torch.compile`` itself leaves out of its graphs, whatever the backend is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module

_HINT = re.compile(r"^ *Hint: (.+)$", re.MULTILINE)

COUNTED = ("graph_break", "unimplemented")
"""What torch counts by reason: graphs that end there, and functions that it runs in Python."""


@contextmanager
def graph_breaks() -> Generator[Counter[str]]:
    """Counts by reason where ``torch.compile`` ends a graph, or leaves a function to Python.

    The counter is filled at the end.  A reason is torch's first line, and its first hint where
    it has one.
    """
    counters: Mapping[str, Mapping[str, int]] = import_module("torch._dynamo.utils").counters
    before = [Counter(counters[name]) for name in COUNTED]
    found: Counter[str] = Counter()
    yield found
    for name, known in zip(COUNTED, before, strict=True):
        for text, count in (Counter(counters[name]) - known).items():
            found[_reason(text)] += count


def _reason(text: str) -> str:
    """The first line of torch's text, and of its hints."""
    first = text.strip().splitlines()[0].rstrip(".")
    hint = _HINT.search(text)
    return f"{first}. {hint[1].rstrip('.')}." if hint else f"{first}."
