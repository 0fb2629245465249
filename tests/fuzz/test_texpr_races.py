"""Races of random tensor expressions: found exactly."""

from __future__ import annotations

import pytest

from fuzz.texpr_races import check


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_races_are_found_and_none_is_made_up(first: int) -> None:
    answers = [answer for seed in range(first, first + 20) if (answer := check(seed)) is not None]
    assert not [wrong for _, wrong in answers if wrong]
    assert {racy for racy, _ in answers} == {True, False}
