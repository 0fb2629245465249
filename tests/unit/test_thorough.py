"""Which parameters of a test every run takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from thorough import usual


@dataclass(frozen=True)
class Collected:
    """As much of a test as the choice asks for."""

    nodeid: str
    every: int | None = None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        assert name == "one_in"
        return None if self.every is None else pytest.mark.one_in(self.every).mark


def test_one_in_so_many_parameters_of_a_marked_test_is_kept_from_the_first_on() -> None:
    tests = [
        *(Collected(f"file::marked[{number}]", 3) for number in range(7)),
        *(Collected(f"file::plain[{number}]") for number in range(2)),
        Collected("file::single", 3),
        *(Collected(f"other::marked[{number}]", 3) for number in range(2)),
    ]
    kept = [test.nodeid for test in usual(cast("list[Any]", tests))]
    assert kept == [
        *(f"file::marked[{number}]" for number in (0, 3, 6)),
        *(f"file::plain[{number}]" for number in range(2)),
        "file::single",
        "other::marked[0]",
    ]
