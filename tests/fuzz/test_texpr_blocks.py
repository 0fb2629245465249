"""Random programs whose threads exchange elements: barriers are enough, and none is to spare."""

from __future__ import annotations

import pytest

from fuzz.texpr_blocks import check


@pytest.mark.parametrize("first", range(0, 16, 8))
def test_every_barrier_is_needed_and_no_other(first: int) -> None:
    answers = [check(seed) for seed in range(first, first + 8)]
    assert not [answer.wrong for answer in answers if answer.wrong]
    assert sum(answer.barriers for answer in answers) > 8
