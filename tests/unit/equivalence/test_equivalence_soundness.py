"""What is proved is so: on random functions proofs never contradict evaluation."""

from collections.abc import Iterable, Sequence

from equivalence_programs import elementwise, subject
from hypothesis import given, settings
from hypothesis import strategies as st

from mugraph.runtime.equivalence.float64 import Float64Reference
from mugraph.runtime.equivalence.prove import prove

UNARY = ("exp", "silu", "square", "sqrt", "gelu", "sigmoid", "tanh", "relu", "log", "mul_scalar")
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
@settings(max_examples=60, deadline=None)
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
