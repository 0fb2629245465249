"""The checker's answers, and what they say they rest on."""

import numpy as np
import pytest
from equivalence_programs import (
    RMSNORM_REFERENCE,
    attention,
    elementwise,
    parse,
    rmsnorm_linear,
    subject,
)

from mugraph.runtime.equivalence import Answer, Checker, CheckError, Evidence
from mugraph.runtime.equivalence.budget import Budget
from mugraph.runtime.equivalence.finite_field import FieldReference, degrees_of
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.degrees import Degrees

TESTS = (Evidence.FLOAT64, Evidence.FINITE_FIELD)


def test_a_proof_is_enough() -> None:
    verdict = Checker(subject(RMSNORM_REFERENCE)).check(subject(rmsnorm_linear(3, 4)))
    assert verdict.answer is Answer.PROVED
    assert list(verdict.seconds) == [Evidence.PROOF]


def test_thorough_tests_what_is_proved() -> None:
    checker = Checker(subject(RMSNORM_REFERENCE), thorough=True)
    verdict = checker.check(subject(rmsnorm_linear(3, 4)))
    assert verdict.answer is Answer.PROVED
    assert list(verdict.seconds) == list(Evidence)
    assert "3 random evaluations in float64" in str(verdict)
    assert "error probability at most" in str(verdict)


def test_what_has_no_proof_is_tested() -> None:
    """(a / s) * s is a, but its normal form has a sum of two quotients."""
    one = subject(elementwise("s add a b", "q div a s", "x mul q s"))
    verdict = Checker(subject(elementwise("x mul_scalar a 1.0"))).check(one)
    assert verdict.answer is Answer.TESTED
    assert str(verdict).startswith(
        "tested equal: no proof, since the normal forms of result 0 differ; 3 random evaluations "
        "in float64"
    )


@pytest.mark.parametrize("evidence", TESTS)
def test_split_attention_differs_under_the_contiguous_meaning(evidence: Evidence) -> None:
    checker = Checker(subject(attention(1, 1)), evidence=[evidence])
    assert checker.check(subject(attention(4, 2))).answer is Answer.TESTED
    verdict = checker.check(subject(attention(4, 2, "contiguous")))
    assert verdict.answer is Answer.DIFFERENT
    assert verdict.difference is not None and verdict.difference.result == 0


def test_a_counterexample_can_be_run() -> None:
    one, other = attention(4, 2, "contiguous"), attention(1, 1)
    difference = Checker(subject(other)).check(subject(one)).difference
    assert difference is not None
    inputs = [difference.arrays[f"input{n}"] for n in range(3)]
    left, right = (run_function(parse(text), None, inputs, "float64")[0] for text in (one, other))
    assert f"{left[difference.element]:.17g}" == difference.one
    before = tuple(np.argwhere(~np.isclose(left, right, 1e-9))[0])
    assert difference.element == before


def test_a_misplaced_epsilon_is_found() -> None:
    """A relative change of 1e-7 is far over the rounding of float64."""
    one = subject(elementwise("x mul_scalar a 1.0000001"))
    verdict = Checker(subject(elementwise("x mul_scalar a 1.0")), evidence=TESTS).check(one)
    assert verdict.answer is Answer.DIFFERENT


def test_roots_that_differ_in_finite_fields_decide_nothing() -> None:
    """sqrt(a) sqrt(b) is sqrt(a b) for positive numbers, which an unknown function cannot know."""
    one = subject(elementwise("p sqrt a", "q sqrt b", "x mul p q"))
    verdict = Checker(subject(elementwise("m mul a b", "x sqrt m")), evidence=TESTS).check(one)
    assert verdict.answer is not Answer.DIFFERENT
    assert "they take roots and the like as unknown functions" in str(verdict)


def test_exponentials_of_exponentials_are_not_in_finite_fields() -> None:
    twice = subject(elementwise("e exp a", "x exp e"))
    checker = Checker(twice, evidence=[Evidence.FINITE_FIELD])
    verdict = checker.check(twice)
    assert verdict.answer is Answer.UNDECIDED
    assert "exponentials of exponentials" in str(verdict)


def test_a_reference_that_is_nowhere_finite_is_undecided() -> None:
    nowhere = subject(elementwise("z mul_scalar a 0.0", "x div b z"))
    verdict = Checker(nowhere, evidence=TESTS).check(nowhere)
    assert verdict.answer is Answer.UNDECIDED
    assert "no element is finite" in str(verdict)


def test_signatures_must_agree() -> None:
    message = "@f takes 4x6, 4x6, but @reference, which it is compared with, takes 4x48, 48x24"
    with pytest.raises(CheckError, match=message):
        Checker(subject(RMSNORM_REFERENCE)).check(subject(elementwise("x add a b")))


def test_degrees_count_what_is_multiplied() -> None:
    assert degrees_of(subject(elementwise("p mul a b", "x div p a"))) == [Degrees(2, 1)]
    assert degrees_of(subject(elementwise("p div a b", "q div b a", "x add p q"))) == [
        Degrees(2, 2)
    ]
    assert degrees_of(subject(elementwise("e exp a", "x div e b"))) == [Degrees(1, 1, True)]
    norm = degrees_of(subject(rmsnorm_linear(2, 4)))
    assert norm == [Degrees(2, 1, roots=True)]
    # Every row sum is one denominator, which all summands of the product have for themselves.
    assert degrees_of(subject(RMSNORM_REFERENCE)) == [Degrees(49, 48, roots=True)]


def test_the_error_probability_falls_with_every_evaluation() -> None:
    same = subject(elementwise("p mul a b", "x div p a"))
    reference = FieldReference(same)
    once = reference.error_probability(same, [0])
    # Degrees 2 and 1 twice: (3 + 1 + 1) / p.
    assert once == 5 / 524243
    assert reference.error_probability(same, [0, 1]) == once * 5 / 524219


def test_small_fields_err() -> None:
    """a^227 is a modulo 227: the fields of the paper cannot tell them apart, larger ones can."""
    steps, power = ["s1 square a"], 1
    names = {1: "a", 2: "s1"}
    for exponent in range(2, 8):
        steps.append(f"s{exponent} square s{exponent - 1}")
        names[2**exponent] = f"s{exponent}"
    product = "a"
    for place in range(1, 8):
        if 227 >> place & 1:
            steps.append(f"m{place} mul {product} {names[2**place]}")
            product, power = f"m{place}", power + 2**place
    assert power == 227
    steps.append(f"x mul_scalar {product} 1.0")
    one, other = subject(elementwise(*steps)), subject(elementwise("x mul_scalar a 1.0"))
    small = Checker(other, evidence=[Evidence.FINITE_FIELD], primes=[(227, 113)])
    verdict = small.check(one)
    assert verdict.answer is Answer.TESTED
    assert "degrees too high to bound the error probability" in str(verdict)
    assert Checker(other, evidence=[Evidence.FINITE_FIELD]).check(one).answer is Answer.DIFFERENT


def _chain(length: int) -> str:
    steps: list[str] = []
    for number in range(length):
        before = f"x{number - 1}" if number else "a"
        steps += [f"e{number} exp {before}", f"x{number} add e{number} {before}"]
    return elementwise(*steps)


def test_each_kind_of_evidence_has_a_budget() -> None:
    reference = subject(_chain(60))
    verdict = Checker(reference, budget=0.02).check(subject(_chain(60)))
    assert verdict.answer is Answer.UNDECIDED
    for kind in ("no proof, since", "float64 does not decide:", "finite-field does not decide:"):
        assert f"{kind} the budget of 0.02 s is spent" in str(verdict)
    assert sum(verdict.seconds.values()) < 5


def test_a_budget_is_counted_in_steps() -> None:
    """The same steps on every machine, and the same answer."""
    one = subject(_chain(6)).function
    budgets = [Budget(), Budget()]
    assert all(prove(one, one, budget).holds for budget in budgets)
    taken = [budget.steps for budget in budgets]
    assert taken[0] == taken[1] > 0


def test_a_quotient_of_powers_of_a_long_sum_is_given_up_at_once() -> None:
    """Before all products of its terms have been made."""
    names = "abcdefghijklmnopqrst"
    steps = [f"s{n} add {f's{n - 1}' if n > 1 else 'a'} {names[n]}" for n in range(1, len(names))]
    text = elementwise(
        *steps, f"v square s{len(steps)}", "w square v", "x div w w", inputs=len(names)
    )
    budget = Budget()
    proof = prove(subject(text).function, subject(text).function, budget)
    assert "more than 256 different terms" in proof.reason
    assert budget.steps < 50_000


def test_functions_that_share_steps_are_not_written_out() -> None:
    """silu takes its operand twice: 26 of them would be 2^26 terms."""
    steps = [f"x{n} silu {f'x{n - 1}' if n else 'a'}" for n in range(26)]
    one = subject(elementwise(*steps)).function
    assert prove(one, one, Budget(10)).holds


def test_very_deep_functions_are_given_up() -> None:
    steps = [f"x{n} exp {f'x{n - 1}' if n else 'a'}" for n in range(300)]
    one = subject(elementwise(*steps)).function
    assert prove(one, one, Budget(10)).reason


def test_functions_of_other_numbers_are_not_compared() -> None:
    types = ("f16", "i8")
    text = "func.func @f(%a: tensor<2xT>) -> tensor<2xT> {{ func.return %a : tensor<2xT> }}"
    one, other = (subject(text.format().replace("T>", f"{type_}>")) for type_ in types)
    with pytest.raises(CheckError, match="argument 0 of @f has elements of f16, but of @f"):
        Checker(other).check(one)
