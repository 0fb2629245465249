"""What the rule of ``--plan-swizzle`` reads off accesses: along which dimensions lanes step."""

import numpy as np
import pytest

from mugraph.passes.schedule.plan_swizzle.patterns import Instruction, Pattern

ROWS, COLUMNS = 0, 1


def pattern(places: list[tuple[int, int]], width: int, element_bytes: int = 2) -> Pattern:
    """One instruction of a warp, whose other lanes are idle."""
    lanes = np.full((1, 32, 2), -1, dtype=np.int64)
    lanes[0, : len(places)] = places
    return Pattern("access", Instruction.LOAD, width, element_bytes, lanes, 1)


@pytest.mark.parametrize(
    ("places", "width", "dims", "together"),
    [
        pytest.param(
            [(0, 0), (0, 8), (0, 16), (0, 24), (1, 0), (1, 8)],
            8,
            {COLUMNS},
            8,
            id="threads go on from the end of a row to the next",
        ),
        pytest.param(
            [(0, 0), (1, 0), (2, 0), (3, 0)], 8, {ROWS}, 8, id="lines of ldmatrix lie below others"
        ),
        pytest.param(
            [(0, 0), (0, 2), (0, 4), (0, 6), (1, 0), (1, 2)],
            2,
            {ROWS, COLUMNS},
            8,
            id="four lanes of a product take eight columns",
        ),
        pytest.param([(0, 0), (0, 0)], 1, set[int](), 1, id="all lanes read one number"),
    ],
)
def test_lanes_step(
    places: list[tuple[int, int]], width: int, dims: set[int], together: int
) -> None:
    assert pattern(places, width).walks(COLUMNS, 32) == (dims, together)


def test_no_more_than_16_bytes_are_taken_together() -> None:
    lanes = [(0, 0), (0, 2), (0, 4), (0, 6), (1, 0)]
    assert pattern(lanes, 2, element_bytes=4).walks(COLUMNS, 32) == ({ROWS, COLUMNS}, 4)
