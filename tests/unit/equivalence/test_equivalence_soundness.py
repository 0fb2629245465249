"""What is proved is so: on random functions proofs never contradict evaluation."""

from collections.abc import Iterable, Sequence

import pytest
from equivalence_programs import elementwise, subject
from hypothesis import given, settings
from hypothesis import strategies as st
from random_pairs import (
    CASTS,
    Program,
    Step,
    is_defined_somewhere,
    random_pair,
    really_differ,
    text_of,
)
from thorough import inputs

from mugraph.runtime.equivalence import Answer, Checker, Evidence, Verdict
from mugraph.runtime.equivalence.float64 import Float64Reference
from mugraph.runtime.equivalence.prove import prove

UNARY = ("exp", "silu", "square", "sqrt", "gelu", "sigmoid", "softplus", "tanh")
UNARY += ("relu", "log", "mul_scalar")
BINARY = ("add", "sub", "mul", "div", "pow")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A few operators on two inputs; small enough that two of them are often the same function."""
    values = ["a", "b"]
    steps: list[str] = []
    for number in range(draw(st.integers(1, 3))):
        operator = draw(st.sampled_from([*UNARY, *BINARY]))
        operands = [draw(st.sampled_from(values)) for _ in range(1 + (operator in BINARY))]
        if operator == "mul_scalar":
            operands.append(draw(st.sampled_from(["1.0", "2.0", "-1.0"])))
        values.append(f"x{number}")
        steps.append(" ".join([values[-1], operator, *operands]))
    return elementwise(*steps, shape=(2, 3))


@given(programs(), programs())
@settings(max_examples=inputs(20, 60), deadline=None)
def test_proofs_never_contradict_evaluation(one: str, other: str) -> None:
    left, right = subject(one), subject(other)
    if prove(left.function, right.function).holds:
        assert Float64Reference(right).test(left, [0, 1]).difference is None


def test_programs_of_one_step_fall_into_the_right_classes() -> None:
    """All functions of one operator on a and b: which of them are proved equal, and no others."""
    texts = [
        *(f"x {name} {value}" for name in UNARY[:-1] for value in "ab"),
        *(f"x {name} {left} {right}" for name in BINARY for left in "ab" for right in "ab"),
    ]
    classes = _classes(texts)
    assert sorted(map(sorted, classes)) == sorted(
        [
            # The operators that commute, squares, 1 and 0.
            ["x add a b", "x add b a"],
            ["x mul a b", "x mul b a"],
            ["x mul a a", "x square a"],
            ["x mul b b", "x square b"],
            ["x div a a", "x div b b"],
            ["x sub a a", "x sub b b"],
        ]
    )


def _classes(texts: Sequence[str]) -> Iterable[list[str]]:
    """The classes of texts that are proved equal to each other, of more than one."""
    left = [(text, subject(elementwise(text))) for text in texts]
    while left:
        _, first = left[0]
        same = [text for text, one in left if prove(one.function, first.function).holds]
        left = [(text, one) for text, one in left if text not in same]
        if len(same) > 1:
            yield same


def check(one: Program, other: Program, **options: object) -> Verdict:
    return Checker(subject(text_of(other)), **options).check(subject(text_of(one)))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("start", range(0, inputs(20, 40), 10))
def test_random_pairs_are_equal_only_if_they_are(start: int) -> None:
    """No answer of equality for functions that differ on dense inputs, or have no values there."""
    for seed in range(start, start + 10):
        one, other = random_pair(seed)
        if check(one, other).answer in (Answer.PROVED, Answer.TESTED):
            assert not really_differ(one, other), seed
            assert is_defined_somewhere(one) and is_defined_somewhere(other), seed


IDENTITY: Program = (Step("mul_scalar", (0,), (1.0,)),)


@pytest.mark.parametrize("type_", CASTS)
def test_a_cast_is_the_identity_unless_it_quantizes(type_: str) -> None:
    """To integers and to f8 it is a function of its own, for every kind of evidence."""
    cast: Program = (Step(type_, (0,)),)
    assert check(cast, cast, thorough=True).answer is Answer.PROVED
    rounds_only = type_ in ("f32", "bf16")
    assert check(cast, IDENTITY).answer is (Answer.PROVED if rounds_only else Answer.DIFFERENT)
    in_fields = check(cast, IDENTITY, evidence=[Evidence.FINITE_FIELD]).answer
    assert in_fields is (Answer.TESTED if rounds_only else Answer.UNDECIDED)


@pytest.mark.parametrize("type_", ["f8E4M3FN", "f8E5M2", "i8", "i32"])
def test_a_factor_does_not_pass_through_a_cast_that_quantizes(type_: str) -> None:
    after: Program = (Step(type_, (0,)), Step("mul_scalar", (2,), (2.0,)))
    before: Program = (Step("mul_scalar", (0,), (2.0,)), Step(type_, (2,)))
    assert check(after, before).answer is Answer.DIFFERENT


RELU: Program = (Step("relu", (0,)),)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (RELU, (Step("clamp", (0,), (0.0, 6.0)),)),
        (IDENTITY, (Step("clamp", (0,), (-50.0, 50.0)),)),
        (IDENTITY, (Step("clamp", (0,), (-30000.0, 60000.0)),)),
        (
            (Step("add_scalar", (0,), (50.0,)),),
            (Step("add_scalar", (0,), (50.0,)), Step("gelu", (2,))),
        ),
        ((Step("max", (0, 0)),), (Step("mul_scalar", (0,), (0.0,)), Step("max", (0, 2)))),
    ],
)
def test_inputs_cross_thresholds(one: Program, other: Program) -> None:
    for pair in ((one, other), (other, one)):
        assert check(*pair, evidence=[Evidence.FLOAT64]).answer is Answer.DIFFERENT


def test_a_threshold_that_no_input_crosses_leaves_it_undecided() -> None:
    far: Program = (Step("clamp", (0,), (-1.0, 100000.0)), Step("clamp", (2,), (-1.0, 100000.0)))
    verdict = check(far, (Step("clamp", (0,), (-1.0, 100000.0)),))
    assert verdict.answer is Answer.UNDECIDED
    assert "no inputs led to above 100000 at 'kn.clamp' %x0, " in str(verdict)


NOWHERE: Program = (
    Step("square", (0,)),
    Step("mul_scalar", (2,), (-1.0,)),
    Step("add_scalar", (3,), (-1.0,)),
    Step("sqrt", (4,)),
    Step("sub", (5, 5)),
    Step("add", (0, 6)),
)


@pytest.mark.parametrize("evidence", Evidence)
def test_what_is_nowhere_defined_is_not_equal_to_anything(evidence: Evidence) -> None:
    for other in (IDENTITY, NOWHERE):
        assert check(NOWHERE, other, evidence=[evidence]).answer is Answer.UNDECIDED


def test_a_proof_says_where_functions_are_defined() -> None:
    verdict = check((Step("sqrt", (0,)), Step("square", (2,))), IDENTITY)
    assert verdict.answer is Answer.PROVED
    assert "wherever both are defined (the root of in0[" in str(verdict)


@pytest.mark.parametrize("operator", ["log", "sqrt", "pow", "div"])
def test_sums_of_squares_need_no_evaluation(operator: str) -> None:
    """Such as the roots of norms: they are defined almost everywhere."""
    text = elementwise(
        "p square a",
        "q square b",
        "s add p q",
        f"x {operator} s{' a' if operator == 'pow' else ''}" if operator != "div" else "x div a s",
    )
    proof = prove(subject(text).function, subject(text).function)
    assert proof.holds and not proof.partial
