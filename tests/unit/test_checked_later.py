"""What waits to be checked with others is checked, and each failure says of which test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from checked_later import CheckedLater

Add = Callable[..., None]
OF = "of the generated kernels in "


def check(numbers: Sequence[int]) -> list[Exception | None]:
    """Even numbers are right; none can be checked beside a 13."""
    if 13 in numbers:
        raise ValueError("does not compile")
    return [ArithmeticError(number) if number % 2 else None for number in numbers]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> CheckedLater[int]:
    monkeypatch.setattr(CheckedLater, "kinds", [])
    return CheckedLater(check, enough=3)


@pytest.fixture
def add(later: CheckedLater[int], monkeypatch: pytest.MonkeyPatch) -> Add:
    def add(test: str, *numbers: int) -> None:
        monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{test} (call)")
        later.add(*numbers)

    return add


def test_enough_of_them_are_checked_together(add: Add) -> None:
    add("one", 2, 3)
    CheckedLater.check(whatever_waits=False)
    add("other", 4)
    with pytest.raises(ExceptionGroup) as raised:
        CheckedLater.check(whatever_waits=False)
    (wrong,) = raised.value.exceptions
    assert wrong.args == (3,) and wrong.__notes__ == [f"{OF}one"]
    CheckedLater.check(whatever_waits=True)


def test_what_does_not_compile_hides_nothing_else(later: CheckedLater[int], add: Add) -> None:
    with pytest.raises(ExceptionGroup) as raised, later.apart():
        add("one", 2, 13)
        add("other", 5)
    wrong = [(str(each), *each.__notes__) for each in raised.value.exceptions]
    assert wrong == [("does not compile", f"{OF}one"), ("5", f"{OF}other")]
