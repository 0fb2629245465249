"""Random evaluation over finite fields: exact, so that there is no question of rounding.

Two µGraphs that are the same quotient of polynomials, in the inputs and in exponentials of such
quotients, agree wherever both are defined.  If they are not the same, they agree at a random point
with a small probability only.  Let n1/d1 and n2/d2 be an element of both, with degrees of at most
N1, D1, N2, D2.  It goes unnoticed only where d1 d2 (n1 d2 - n2 d1) is 0, whose degree is at most
max(N1 + D2, N2 + D1) + D1 + D2.  By the lemma of Schwartz and Zippel a polynomial of degree n is 0
at a point whose coordinates are drawn from s values each with a probability of at most n / s.
Inputs are drawn from p values modulo p; exponentials from the q powers of a root of unity.

That argument takes exponentials of different arguments as independent variables, which they are
where the arguments are independent, as in a softmax of a matrix product.  It takes a polynomial
that is 0 modulo p to be 0; each evaluation has another p.  Roots, logarithms and other
functions that are no quotients of polynomials are unknown functions here: where they agree that is
evidence, where they do not it is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from mugraph.runtime.equivalence.subject import Array, Difference, Subject, Test, first_place
from mugraph.runtime.interpreter.degrees import DegreeArithmetic, DegreeArray, Degrees
from mugraph.runtime.interpreter.fields import FieldArithmetic, FieldArray, FieldPair

PRIMES = ((524243, 262121), (524219, 262109), (524099, 262049), (523763, 261881))
"""Pairs p = 2q + 1: the largest below 2^19, so that 2^15 products of residues sum up exactly.

The paper's p = 227 and q = 113 fit 16 bits in the memory of a GPU; larger ones err less.
"""


def field_pair(primes: tuple[int, int], seed: int) -> FieldPair:
    """Fields with tables of their own for the seed."""
    return FieldPair(*primes, seed)


def degrees_of(subject: Subject) -> list[Degrees]:
    """The degrees of each result."""
    arithmetic = DegreeArithmetic()
    inputs = [arithmetic.input(shape) for shape in subject.input_shapes]
    results: list[DegreeArray] = subject.evaluate(inputs, arithmetic)
    return [result.degrees for result in results]


@dataclass
class FieldReference:
    """The second of two functions, evaluated once for each seed."""

    subject: Subject
    primes: Sequence[tuple[int, int]] = PRIMES
    _results: dict[int, list[FieldArray]] = field(default_factory=dict[int, list[FieldArray]])

    @cached_property
    def degrees(self) -> list[Degrees]:
        """Of the reference."""
        return degrees_of(self.subject)

    def fields(self, seed: int) -> FieldPair:
        """The fields of a seed."""
        return field_pair(self.primes[seed % len(self.primes)], seed)

    def inputs(self, seed: int) -> list[FieldArray]:
        """The inputs of a seed."""
        arithmetic = FieldArithmetic(fields=self.fields(seed))
        generator = np.random.default_rng(seed)
        types = self.subject.function.function_type.inputs.data
        return [arithmetic.input(type_, generator) for type_ in types]

    def evaluate(self, subject: Subject, seed: int) -> list[FieldArray]:
        """The results of a function on the inputs of a seed."""
        return subject.evaluate(self.inputs(seed), FieldArithmetic(fields=self.fields(seed)))

    def error_probability(self, subject: Subject, seeds: Sequence[int]) -> float:
        """How probably a function that differs passes the test of these seeds; at most 1."""
        probability = 1.0
        for seed in seeds:
            fields = self.fields(seed)
            worst = 0.0
            for one, other in zip(degrees_of(subject), self.degrees, strict=True):
                degree = max(one.numerator + other.denominator, other.numerator + one.denominator)
                degree += one.denominator + other.denominator
                powers = one.exponentials or other.exponentials
                worst = max(worst, degree / (fields.q if powers else fields.p))
            probability *= min(1.0, worst)
        return probability

    def test(self, subject: Subject, seeds: Sequence[int]) -> Test:
        """Compares a function with the reference modulo p."""
        test = Test()
        for seed in seeds:
            if seed not in self._results:
                self._results[seed] = self.evaluate(self.subject, seed)
            pairs = [
                (one.components[0], other.components[0])
                for one, other in zip(
                    self.evaluate(subject, seed), self._results[seed], strict=True
                )
            ]
            defined = [~(np.isnan(ours) | np.isnan(theirs)) for ours, theirs in pairs]
            test.evaluations += 1
            test.count(defined)
            for number, (ours, theirs) in enumerate(pairs):
                wrong = defined[number] & (ours != theirs)
                if wrong.any():
                    test.difference = self._difference(seed, number, wrong, ours, theirs)
                    return test
        return test

    def _difference(
        self, seed: int, number: int, wrong: Array, ours: Array, theirs: Array
    ) -> Difference:
        place = first_place(wrong)
        fields = self.fields(seed)
        kept = {
            f"input{n}_mod_{prime}": part.astype(np.int64)
            for n, array in enumerate(self.inputs(seed))
            for part, prime in zip(array.components, (fields.p, fields.q), strict=True)
        }
        return Difference(
            f"finite fields, seed {seed} (p = {fields.p}, q = {fields.q})",
            number,
            place,
            f"{ours[place]:.0f}",
            f"{theirs[place]:.0f} modulo p",
            kept,
        )

    def uses_roots(self, subject: Subject) -> bool:
        """Whether either function has a root or the like, so that a difference decides nothing."""
        return any(degrees.roots for degrees in (*degrees_of(subject), *self.degrees))
