"""A small slice of what ``make fuzz`` does, the same in every run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from thorough import inputs

from fuzz.emulated import MUGRAPHS, Broken
from fuzz.properties import Compiled, PropertyError, compile_checked, parse, require_diagnostic
from fuzz.ranges import Range, apply
from fuzz.search import BROKEN, WELL_FORMED, Property, draw_case, failure_of, shrink
from mugraph.dialects.elementwise import ScalarFunction

REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.mlir"))
BROKEN_REGRESSIONS = [path for path in REGRESSIONS if path.stem.startswith("broken_")]
GOOD_REGRESSIONS = [path for path in REGRESSIONS if path not in BROKEN_REGRESSIONS]
SEED = 1
EMULATED = inputs(2, 8)
"""So many of those drawn are executed on the CPU, too."""


@cache
def compiled(text: str) -> Compiled:
    return compile_checked(text)


def text_of(path: Path) -> str:
    return str(parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("number", range(inputs(5, 20)))
def test_drawn_mugraph(number: int) -> None:
    drawn = draw_case(WELL_FORMED, SEED, number)
    if drawn is not None:
        compiled(drawn.text)


@pytest.mark.parametrize(
    ("function", "width"),
    [(ScalarFunction("fp4"), 12), (ScalarFunction("nf4"), 2), (ScalarFunction("bits", (4, 2)), 3)],
)
def test_rounding_carries_codes_anywhere(function: ScalarFunction, width: float) -> None:
    assert apply(function, [Range(0.0, 15.0)]).error == 0
    assert apply(function, [Range(0.0, 15.0, 1e-3)]).error == width


@pytest.mark.parametrize("number", range(inputs(6, 30)))
def test_drawn_mistake(number: int) -> None:
    drawn = draw_case(BROKEN, SEED, number)
    if drawn is not None:
        require_diagnostic(drawn.text)


@pytest.mark.parametrize("path", GOOD_REGRESSIONS, ids=lambda path: path.stem)
def test_regression(path: Path) -> None:
    compiled(text_of(path))


@pytest.mark.usefixtures("needs_emulator")
def test_kernels_compute_what_the_interpreter_does() -> None:
    drawn = (draw_case(WELL_FORMED, SEED, number) for number in range(EMULATED))
    texts = [case.text for case in drawn if case is not None]
    whole = [compiled(text) for text in (*map(text_of, GOOD_REGRESSIONS), *texts)]
    one = next(case for case in whole if case.cuda.count("__syncthreads();") > 2)
    hasty = replace(one, cuda=one.cuda.replace("__syncthreads();", ""))
    MUGRAPHS.add(*whole, Broken(hasty))


@pytest.mark.parametrize("path", BROKEN_REGRESSIONS, ids=lambda path: path.stem)
def test_broken_regression(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    (first, *_) = text.splitlines()
    assert first.removeprefix("// ") in require_diagnostic(text)


def test_a_wrong_pass_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from mugraph.passes.mugraph import decompose_threadblock

    original = decompose_threadblock.tb.MulScalarOp

    def slightly_wrong(operand: object, type_: object, constants: tuple[float]) -> object:
        return original(operand, type_, (constants[0] * 1.01,))  # type: ignore[arg-type]

    monkeypatch.setattr(decompose_threadblock.tb, "MulScalarOp", slightly_wrong)
    for number in range(100):
        drawn = draw_case(WELL_FORMED, SEED, number)
        if drawn is None or "forloop_accum rms" not in drawn.text:
            continue
        failure = failure_of(WELL_FORMED, drawn.text)
        if failure is not None:
            assert failure.stage == "--decompose-threadblock, in float64"
            return
    pytest.fail("no random µGraph noticed the wrong constant")


def refuse_products(text: str) -> None:
    if "tb.matmul" in text:
        raise PropertyError("products", "there is one")


def test_a_failing_case_becomes_small() -> None:
    property_ = Property(WELL_FORMED.draw, refuse_products)
    cases = (draw_case(property_, SEED, number) for number in range(100))
    drawn = next(case for case in cases if case is not None and case.text.count("tb.matmul") > 1)
    small = shrink(property_, drawn, "products")
    assert "tb.matmul" in small.text
    assert len(small.text) < len(drawn.text) * 2 / 3
