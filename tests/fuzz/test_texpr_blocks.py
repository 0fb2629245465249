"""Random programs whose threads exchange elements: barriers are enough, and none is to spare."""

from __future__ import annotations

import pytest

from fuzz.texpr_blocks import check


@pytest.mark.one_in(2)
@pytest.mark.parametrize("first", range(0, 16, 8))
def test_every_barrier_is_needed_and_no_other(first: int) -> None:
    answers = [check(seed) for seed in range(first, first + 8)]
    assert not [answer.wrong for answer in answers if answer.wrong]
    assert sum(answer.barriers for answer in answers) > 8


def test_barriers_under_conditions_serve_what_is_behind_them() -> None:
    # Programs with conditions on the block and on iterations between the same parallel loops.
    answers = [check(seed) for seed in (17, 93, 118, 123, 137, 270, 282)]
    assert not [answer.wrong for answer in answers if answer.wrong]
    assert [answer.barriers for answer in answers] == [1, 3, 6, 2, 3, 4, 4]
