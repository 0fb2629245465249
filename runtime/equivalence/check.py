"""Are two functions the same: a proof, or else tests, or a counterexample."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mugraph.runtime.equivalence.budget import DEFAULT_SECONDS, Budget
from mugraph.runtime.equivalence.errors import BudgetError
from mugraph.runtime.equivalence.finite_field import PRIMES, FieldReference
from mugraph.runtime.equivalence.float64 import Float64Reference
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.equivalence.subject import Difference, Subject, Test, expect_same_signature
from mugraph.runtime.interpreter.dispatch import watched_by
from mugraph.runtime.interpreter.errors import ExecutionError


class Evidence(StrEnum):
    """What an answer can rest on."""

    PROOF = "proof"
    FLOAT64 = "float64"
    FINITE_FIELD = "finite-field"


class Answer(StrEnum):
    """Whether two functions are the same."""

    PROVED = "proved equal"
    TESTED = "tested equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


@dataclass
class Verdict:
    """An answer, and what it rests on, in sentences."""

    answer: Answer
    reasons: list[str] = field(default_factory=list[str])
    difference: Difference | None = None
    test: Test | None = None
    """The evaluations in float64, if there were any."""
    seconds: dict[Evidence, float] = field(default_factory=dict[Evidence, float])
    """Of processor time, all threads together."""

    def __str__(self) -> str:
        return f"{self.answer}: {'; '.join(self.reasons) or 'nothing was tried'}"


@dataclass
class Checker:
    """Compares functions with a reference.

    Evidence is looked for in the order of :class:`Evidence`.  A proof ends the search unless
    ``thorough``; a certain difference always does.  Each kind of evidence has a ``budget`` in
    seconds of processor time; what is not done by then is not decided.
    """

    reference: Subject
    seeds: Sequence[int] = (0, 1, 2)
    evidence: Collection[Evidence] = tuple(Evidence)
    thorough: bool = False
    primes: Sequence[tuple[int, int]] = PRIMES
    budget: float = DEFAULT_SECONDS

    def __post_init__(self) -> None:
        self._float64 = Float64Reference(self.reference)
        self._fields = FieldReference(self.reference, self.primes)

    def check(self, subject: Subject) -> Verdict:
        """The answer for one function.

        Raises ``CheckError`` where signatures differ and ``ExecutionError`` where a function has
        an operator that cannot be executed.
        """
        expect_same_signature(subject, self.reference)
        verdict = Verdict(Answer.UNDECIDED)
        steps: dict[Evidence, Callable[[Subject, Verdict, Budget], None]] = {
            Evidence.PROOF: self._prove,
            Evidence.FLOAT64: self._test_float64,
            Evidence.FINITE_FIELD: self._test_fields,
        }
        for evidence, step in steps.items():
            if evidence not in self.evidence:
                continue
            start = time.process_time()
            budget = Budget(self.budget)
            try:
                with watched_by(lambda operator, budget=budget: budget.look()):
                    step(subject, verdict, budget)
            except BudgetError as error:
                verdict.reasons.append(f"{evidence} does not decide: {error}")
            verdict.seconds[evidence] = time.process_time() - start
            if verdict.answer is Answer.DIFFERENT:
                break
            if verdict.answer is Answer.PROVED and not self.thorough:
                break
        return verdict

    def _prove(self, subject: Subject, verdict: Verdict, budget: Budget) -> None:
        proof = prove(subject.function, self.reference.function, budget)
        if not proof.holds:
            verdict.reasons.append(f"no proof, since {proof.reason}")
            return
        where = ""
        if proof.partial:
            # Where nothing is defined, equal normal forms say nothing.
            test = self._evaluate(subject, verdict)
            if test.difference is not None:
                self._differs(verdict, test.difference)
                return
            undefined = _listed(proof.partial)
            if not test.is_defined_somewhere:
                verdict.reasons.append(
                    f"no proof, since no inputs were found for which both are defined: {undefined}"
                )
                return
            where = (
                f" wherever both are defined ({undefined}), as {test.compared} of {test.total} "
                "elements were in random evaluations"
            )
        verdict.answer = Answer.PROVED
        verdict.reasons.append(f"the normal forms of all results coincide{where}")

    def _evaluate(self, subject: Subject, verdict: Verdict) -> Test:
        if verdict.test is None:
            verdict.test = self._float64.test(subject, self.seeds)
        return verdict.test

    def _test_float64(self, subject: Subject, verdict: Verdict, budget: Budget) -> None:
        test = self._evaluate(subject, verdict)
        if test.difference is not None:
            self._differs(verdict, test.difference)
        elif test.unseen and not test.never_compared:
            verdict.reasons.append(
                f"evaluations in float64 do not decide: no inputs led to {_listed(test.unseen)}"
            )
        else:
            self._passed(
                verdict,
                test,
                "in float64",
                "no difference beyond the derived bounds of its rounding",
            )

    def _test_fields(self, subject: Subject, verdict: Verdict, budget: Budget) -> None:
        try:
            test = self._fields.test(subject, self.seeds)
        except ExecutionError as error:
            verdict.reasons.append(f"finite fields do not decide: {error}")
            return
        if test.difference is not None:
            if self._fields.uses_roots(subject):
                verdict.reasons.append(
                    "finite fields do not decide: they take roots and the like as unknown "
                    "functions, and differ"
                )
            else:
                self._differs(verdict, test.difference)
            return
        if not test.compared:
            verdict.reasons.append(
                "finite fields do not decide: no element is defined in them, as with exponentials "
                "of exponentials"
            )
            return
        # Unknown functions are defined everywhere, which roots are not.
        if self._fields.uses_roots(subject) and self._evaluate(subject, verdict).never_compared:
            verdict.reasons.append(
                "finite fields do not decide: no inputs were found for which both are defined"
            )
            return
        probability = self._fields.error_probability(subject, self.seeds)
        bound = (
            f"error probability at most {probability:.1e}"
            if probability < 1
            else "degrees too high to bound the error probability"
        )
        self._passed(verdict, test, "over finite fields", f"no difference ({bound})")

    def _passed(self, verdict: Verdict, test: Test, where: str, result: str) -> None:
        if test.never_compared:
            which = (
                f"{test.never_compared} elements are never" if test.compared else "no element is"
            )
            verdict.reasons.append(f"evaluations {where} do not decide: {which} finite")
            return
        left_out = test.total - test.compared
        verdict.reasons.append(
            f"{test.evaluations} random evaluation{'s' if test.evaluations > 1 else ''} {where}"
            + (f" and {test.probes} with inputs of other sizes" if test.probes else "")
            + (f", {left_out} of {test.total} elements left out as undefined" if left_out else "")
            + (f", {test.cut_short}" if test.cut_short else "")
            + f", {result}"
        )
        if verdict.answer is Answer.UNDECIDED:
            verdict.answer = Answer.TESTED

    def _differs(self, verdict: Verdict, difference: Difference) -> None:
        if verdict.answer is Answer.PROVED:
            raise AssertionError(
                f"a proof and a counterexample contradict each other ({difference})"
            )
        verdict.answer = Answer.DIFFERENT
        verdict.difference = difference
        verdict.reasons.append(str(difference))


_MOST_LISTED = 3


def _listed(texts: Sequence[str]) -> str:
    """The first few of them."""
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
