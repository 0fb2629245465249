"""Which sides of thresholds numbers are made on."""

import numpy as np
import pytest
from xdsl.dialects.builtin import f8E4M3FN, f16, i8

from mugraph.runtime.interpreter.coverage import BITS, CoverageArithmetic, CoverageArray, Sides
from mugraph.runtime.interpreter.functions import clamp, gelu, relu


@pytest.fixture
def arithmetic() -> CoverageArithmetic:
    return CoverageArithmetic()


def unseen(*results: CoverageArray) -> list[str]:
    """What no element of some results has been made on."""
    sides = results[0].sides
    for result in results:
        sides.note(int(np.bitwise_or.reduce(result.made_on, axis=None)))
    return sides.unseen()


def test_a_clamp_has_three_sides(arithmetic: CoverageArithmetic) -> None:
    x = arithmetic.exact(np.array([-7.0, 0.5]))
    assert unseen(clamp(x, -1.0, 6.0)) == ["above 6"]
    assert arithmetic.sides.constants == {-1.0, 6.0}


@pytest.mark.parametrize(
    ("values", "missing"),
    [([1.0, 2.0], ["below 0"]), ([-1.0], ["from 0 to inf"]), ([-1.0, 3.0], [])],
)
def test_relu_has_two_sides(
    arithmetic: CoverageArithmetic, values: list[float], missing: list[str]
) -> None:
    assert unseen(relu(arithmetic.exact(np.array(values)))) == missing


def test_either_operand_of_a_maximum_is_a_side(arithmetic: CoverageArithmetic) -> None:
    x, y = (arithmetic.exact(np.array(numbers)) for numbers in ([1.0, 2.0], [0.0, 0.0]))
    assert unseen(np.maximum(x, y)) == ["a larger second operand"]


def test_where_a_running_maximum_starts_is_none(arithmetic: CoverageArithmetic) -> None:
    start = arithmetic.full((2,), -np.inf)
    assert unseen(np.maximum(start, arithmetic.exact(np.array([1.0, -1.0])))) == []


def test_types_of_8_bits_saturate(arithmetic: CoverageArithmetic) -> None:
    x = arithmetic.exact(np.array([0.3, 1000.0]))
    assert unseen(arithmetic.round(x, i8)) == ["below -128"]
    y = CoverageArithmetic().exact(np.array([0.3, -1000.0]))
    assert unseen(arithmetic.round(y, f8E4M3FN)) == ["above 448"]


def test_other_types_and_numbers_of_the_type_have_no_threshold(
    arithmetic: CoverageArithmetic,
) -> None:
    x = arithmetic.exact(np.array([0.5, 3.0]))
    assert unseen(arithmetic.round(x, f16), arithmetic.round(x, f8E4M3FN)) == []


def test_operands_that_are_absorbed_do_not_count(arithmetic: CoverageArithmetic) -> None:
    x, tiny = (arithmetic.exact(np.array([number])) for number in (1.0, 1e-30))
    assert unseen(x + tiny) == ["a second operand that counts"]
    assert unseen(tiny + x * 0.0) == ["a second operand that counts"]
    # Nor do those that are less than float64 holds, in a sigmoid of 1000.
    other = CoverageArithmetic().exact(np.array([1000.0]))
    assert unseen(1.0 + np.exp(-other)) == ["a second operand that counts"]


def test_what_is_hidden_has_not_been_seen(arithmetic: CoverageArithmetic) -> None:
    """By a clamp, an underflow, a factor of 0, a larger operand of a maximum or of a sum."""
    y = relu(arithmetic.exact(np.array([-1.0, 3.0])))
    hidden: list[CoverageArray] = [
        clamp(y, 5.0, 6.0),
        np.exp(y * -1000.0 - 1000.0) + 1.0,
        y * 0.0,
        np.maximum(y, arithmetic.exact(np.array([9.0, 9.0]))),
        y + 1e30,
    ]
    for result in hidden[:4]:
        assert {"below 0", "from 0 to inf"} <= set(unseen(result))
    same = arithmetic.exact(np.array([0.0, 3.0]))
    assert {"below 0", "from 0 to inf"} <= set(unseen(np.maximum(y, same)))
    # A 0 would be another number below 0.
    assert "from 0 to inf" in unseen(hidden[4])
    assert "below 0" not in unseen(hidden[4])


def test_where_something_is_quantized_small_operands_do_not_count(
    arithmetic: CoverageArithmetic,
) -> None:
    x, small = (arithmetic.exact(np.array([number])) for number in (100.3, 0.1))
    arithmetic.round(x, i8)
    assert "a second operand that counts" in unseen(x + small)


def test_gelu_bends(arithmetic: CoverageArithmetic) -> None:
    x = arithmetic.exact(np.array([9.0]))
    assert unseen(gelu(x)) == ["from -4.25 to 4.25", "above 4.25"]


def test_sides_are_those_of_the_elements_that_are_compared(arithmetic: CoverageArithmetic) -> None:
    x = arithmetic.exact(np.array([[-1.0, 1.0], [1.0, 2.0]]))
    rows = relu(x).sum(axis=1)
    assert unseen(rows[1:]) == ["below 0"]
    assert unseen(rows[:1]) == []


def test_a_product_is_made_on_the_sides_of_its_row_and_column(
    arithmetic: CoverageArithmetic,
) -> None:
    x = relu(arithmetic.exact(np.array([[-1.0, 1.0], [1.0, 2.0]])))
    y = arithmetic.exact(np.ones((2, 3)))
    assert unseen(np.matmul(x, y)[1:]) == ["below 0"]
    assert unseen(np.matmul(x, y)[:1]) == []


def test_more_sides_than_bits_are_told_apart_one_part_after_another() -> None:
    sides = Sides()
    count = BITS + 5
    for first in (0, BITS):
        sides.first = first
        x = CoverageArithmetic(sides=sides).exact(np.array([-1.0]))
        clamped = [clamp(x, 0.0, number + 1.0) for number in range(count)]
        for one in clamped:
            sides.note(int(np.bitwise_or.reduce(one.made_on, axis=None)))
    # They share "below 0"; nothing else has been seen.
    assert len(sides.numbers) == 1 + 2 * count
    assert len(sides.unseen()) == 2 * count
