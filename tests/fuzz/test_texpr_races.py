"""Random tensor expressions: races are found exactly, and the printer's text reads back."""

from __future__ import annotations

import pytest

from fuzz.texpr_races import check, make
from mugraph.texpr import build_module, texpr_text


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_races_are_found_and_none_is_made_up(first: int) -> None:
    answers = [answer for seed in range(first, first + 20) if (answer := check(seed)) is not None]
    assert not [wrong for _, wrong in answers if wrong]
    assert {racy for racy, _ in answers} == {True, False}


def test_printed_text_reads_back() -> None:
    programs = [program for seed in range(40) if (program := make(seed)) is not None]
    assert len(programs) > 20
    for text, _ in programs:
        module = build_module(text, "random.te", {})
        assert str(build_module(texpr_text(module), "printed.te", {})) == str(module)
