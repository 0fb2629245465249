"""Random tensor expressions: races are found exactly, and the printer's text reads back."""

from __future__ import annotations

import numpy as np
import pytest
from thorough import inputs
from xdsl.dialects.func import FuncOp

from fuzz.texpr_races import check, make
from mugraph.dialects.functions import argument_types
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.texpr import run_texpr
from mugraph.texpr import build_module, texpr_text


@pytest.mark.parametrize("first", range(0, inputs(40, 100), 20))
def test_races_are_found_and_none_is_made_up(first: int) -> None:
    answers = [answer for seed in range(first, first + 20) if (answer := check(seed)) is not None]
    assert not [wrong for _, wrong in answers if wrong]
    assert {racy for racy, _ in answers} == {True, False}


def _order_shows(text: str) -> bool:
    """Whether runs in several random orders leave different numbers."""
    function = build_module(text, "random.te", {}).body.block.first_op
    assert isinstance(function, FuncOp)
    generator = np.random.default_rng(0)
    inputs = [np.rint(generator.uniform(0, 50, shape_of(t))) for t in argument_types(function)]
    first, *others = (run_texpr(function, inputs, seed=seed) for seed in (None, 0, 1, 2))
    return not all(
        np.array_equal(one, other)
        for run in others
        for one, other in zip(
            [*run.outputs.values(), *run.anchors],
            [*first.outputs.values(), *first.anchors],
            strict=True,
        )
    )


def test_the_order_of_iterations_shows_only_where_there_is_a_race() -> None:
    programs = [program for seed in range(60) if (program := make(seed)) is not None]
    shows = {
        kind: [_order_shows(text) for text, racy in programs if racy is kind]
        for kind in (True, False)
    }
    assert len(shows[False]) > 15
    assert not any(shows[False])
    # A race may stay without consequence, as where both write the same number.
    assert sum(shows[True]) > len(shows[True]) / 2


def test_printed_text_reads_back() -> None:
    programs = [program for seed in range(40) if (program := make(seed)) is not None]
    assert len(programs) > 20
    for text, _ in programs:
        module = build_module(text, "random.te", {})
        assert str(build_module(texpr_text(module), "printed.te", {})) == str(module)
