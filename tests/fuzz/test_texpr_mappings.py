"""Random programs small enough to enumerate: the chosen mapping is the cheapest of the family."""

from __future__ import annotations

import pytest
from thorough import inputs

from fuzz.texpr_mappings import check


@pytest.mark.parametrize("first", range(0, inputs(20, 30), 10))
def test_the_chosen_mapping_costs_least_of_all_digit_permutations(first: int) -> None:
    answers = [answer for seed in range(first, first + 10) if (answer := check(seed)) is not None]
    assert not [answer.wrong for answer in answers if answer.wrong]
    assert sum(answer.mappings for answer in answers) > 1000
