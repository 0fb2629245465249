"""Random programs, fused: ``python -m fuzz.programs`` takes thousands."""

from __future__ import annotations

import pytest
from thorough import inputs

from fuzz.programs import check_program, draw_program, groups_by_chance

SEED = 23
SCHEDULED_EVERY = 4


@pytest.mark.parametrize("number", range(inputs(8, 40)))
def test_a_fused_program_is_the_same_function(number: int) -> None:
    scheduled = number % SCHEDULED_EVERY == 0
    assert check_program(draw_program(SEED, number), scheduled=scheduled) == "proved"


@pytest.mark.parametrize("number", range(inputs(5, 8)))
def test_kernels_that_no_estimate_would_choose_are_the_same_function(number: int) -> None:
    with groups_by_chance(number):
        assert check_program(draw_program(SEED + 1, number)) == "proved"


def test_a_program_whose_budget_was_once_a_finding_is_right() -> None:
    """A log-sum-exp beside a scan: in one loop its budget counted the same errors several times.

    Wrong numbers and budgets raise an error; whether a scan is proved is not asked here.
    """
    check_program(draw_program(5150001, 120))
