"""How much tests take: a part of it in every run, all of it for ``make fuzz``.

Numbers of random inputs come from :func:`inputs`.  Of the parameters of a test of which most take
branches that others take too, ``@pytest.mark.one_in(N)`` keeps a part (:func:`usual`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeVar

import pytest

THOROUGH = bool(os.environ.get("MUGRAPH_THOROUGH"))

T = TypeVar("T", bound=pytest.Item)


def inputs(usual: int, thorough: int) -> int:
    """So many inputs in every run, and so many with ``MUGRAPH_THOROUGH=1``."""
    return thorough if THOROUGH else usual


def usual(tests: Sequence[T]) -> list[T]:
    """Tests of every run, in their order.

    Of the parameters of a test that is marked ``one_in(N)`` the first is kept, and each N-th behind
    it.
    """
    kept: list[T] = []
    seen: defaultdict[str, int] = defaultdict(int)
    for test in tests:
        mark = test.get_closest_marker("one_in")
        name = test.nodeid.partition("[")[0]
        if mark is None or seen[name] % mark.args[0] == 0:
            kept.append(test)
        seen[name] += 1
    return kept
