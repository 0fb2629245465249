"""``--online-softmax``: where it applies, and that nothing overflows any more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp

from fuzz.operator_cases import softmax_attention, tile
from fuzz.properties import parse
from mugraph.dialects import tb
from mugraph.passes.mugraph.online_softmax import OnlineSoftmaxPass
from mugraph.reading import make_context
from mugraph.runtime.equivalence.check import Answer, Checker
from mugraph.runtime.equivalence.subject import Subject
from mugraph.runtime.interpreter import execute_by_address, run_function

SCORES = (8, 16)
Array = npt.NDArray[np.float16]


def attention(more: str = "", *outputs: tuple[str, tuple[int, ...]]) -> str:
    return softmax_attention(SCORES, 8, iterations=4, threads=64, more=more, outputs=outputs)


def rewritten(text: str) -> ModuleOp:
    module = parse(text)
    OnlineSoftmaxPass().apply(make_context(), module)
    module.verify()
    return module


def inputs(scale: float) -> tuple[Array, Array]:
    random = np.random.default_rng(0)
    scores = (random.normal(size=(8, 64)) * scale).astype(np.float16)
    return scores, random.normal(size=(64, 8)).astype(np.float16)


def softmax_of(scores: Array, values: Array) -> npt.NDArray[np.float64]:
    wide = scores.astype(np.float64)
    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
    return weights @ values.astype(np.float64) / weights.sum(axis=1, keepdims=True)


def with_cast(text: str) -> str:
    """The exponentials in fp32, and rounded by a cast."""
    wide, narrow = tile(SCORES, "f32"), tile(SCORES)
    exponential = f"%e = tb.exp %t0 : {narrow} -> {narrow}"
    assert exponential in text
    cast = f"%e = tb.cast %e32 : {wide} -> {narrow}"
    return text.replace(exponential, f"%e32 = tb.exp %t0 : {narrow} -> {wide}\n    {cast}")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("scale", [1.0, 50.0, 2000.0])
@pytest.mark.parametrize("text", [attention(), with_cast(attention())], ids=["plain", "cast"])
def test_large_scores_come_right_at_every_stage(text: str, scale: float) -> None:
    scores, values = inputs(scale)
    expected = softmax_of(scores, values)
    module = parse(text)
    if scale > 20:
        (overflowing,) = run_function(module, None, [scores, values], "storage")
        assert not np.isfinite(overflowing).all()
    context = make_context()
    is_online = False
    for step in passes_as_written(online_softmax=True):
        step.apply(context, module)
        is_online = is_online or step.name == "online-softmax"
        if is_online:
            (result,) = run_function(module, None, [scores, values], "storage")
            np.testing.assert_allclose(result.astype(np.float64), expected, atol=4e-3)
    assert is_online
    (result,) = execute_by_address(module, None, [scores, values]).outputs
    np.testing.assert_allclose(result.astype(np.float64), expected, atol=4e-3)


def test_the_function_stays_the_same() -> None:
    before, after = parse(attention()), rewritten(attention())
    verdict = Checker(Subject.of(before)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED


def test_a_place_is_rewritten_once() -> None:
    once = rewritten(attention())
    assert str(rewritten(str(once))) == str(once)


def count_maxima(text: str) -> int:
    return sum(isinstance(op, tb.ReductionMaxOp) for op in rewritten(text).walk())


def test_every_place_is_rewritten() -> None:
    """A second attention on the first one's inputs, with other exponentials."""
    row, result = tile((8, 1)), tile((8, 8))
    second = f"""
    %h = tb.mul_scalar %t0 by 0.5 : {tile(SCORES)} -> {tile(SCORES)}
    %e2 = tb.exp %h : {tile(SCORES)} -> {tile(SCORES)}
    %p2 = tb.matmul %e2, %t1 : ({tile(SCORES)}, {tile((16, 8))}) -> {result}
    %o2 = tb.forloop_accum none %p2 : {result} -> {result}
    %s2 = tb.reduction %e2 dim 1 : {tile(SCORES)} -> {row}
    %l2 = tb.forloop_accum none %s2 : {row} -> {row}
    %q2 = tb.div %o2, %l2 : ({result}, {row}) -> {result}"""
    assert count_maxima(attention(second, ("%q2", (8, 8)))) == 2


ROW, RESULT = tile((8, 1)), tile((8, 8))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # The weighted exponentials themselves are stored.
        ("tb.output %q", "tb.output %o"),
        # The sum gets something added before it normalises.
        ("%q = tb.div %o, %l :", f"%l9 = tb.exp %l : {ROW} -> {ROW}\n%q = tb.div %o, %l9 :"),
        # Two factors against one.
        (
            "%q = tb.div %o, %l :",
            f"%o9 = tb.square %o : {RESULT} -> {RESULT}\n%q = tb.div %o9, %l :",
        ),
        # Not the exponentials are summed.
        ("tb.forloop_accum sum %e", "tb.forloop_accum sum %t0"),
        ("tb.forloop_accum sum %e", "tb.forloop_accum rms %e"),
        # There is no quotient.
        ("%q = tb.div %o, %l", "%q = tb.mul %o, %l"),
    ],
)
def test_other_places_are_left_alone(old: str, new: str) -> None:
    text = attention()
    assert old in text
    changed = text.replace(old, new)
    assert str(rewritten(changed)) == str(parse(changed))


def test_factors_cancel_in_other_forms() -> None:
    """A scaled quotient, and a softmax of one tile that no accumulator sees."""
    scaled = attention().replace(
        "%q = tb.div %o, %l :",
        f"%o9 = tb.mul_scalar %o by 0.5 : {RESULT} -> {RESULT}\n%q = tb.div %o9, %l :",
    )
    assert count_maxima(scaled) == 1
    of_tiles = f"""%e = tb.exp %t0 : {tile(SCORES)} -> {tile(SCORES)}
    %s = tb.reduction %e dim 1 : {tile(SCORES)} -> {ROW}
    %w = tb.div %e, %s : ({tile(SCORES)}, {ROW}) -> {tile(SCORES)}
    %p = tb.matmul %w, %t1 : ({tile(SCORES)}, {tile((16, 8))}) -> {RESULT}
    %q = tb.forloop_accum none %p : {RESULT} -> {RESULT}"""
    text = attention()
    start, end = text.index("%e = tb.exp"), text.index("tb.output")
    module = rewritten(text[:start] + of_tiles + text[end:])
    assert "tb.reduction_max" in str(module) and "rescale" not in str(module)
