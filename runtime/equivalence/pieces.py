"""Sums in pieces of one extent: what loops of other lengths, and other devices, add up alike.

The sum of 256 elements and that of 4 sums of 64 have other normal forms where something else tells
the 4 apart, such as what each iteration of a loop stores.  In pieces of 64 both are the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.indices import ZERO, Affine, Variable, affine, fresh_variable
from mugraph.runtime.equivalence.terms import (
    Application,
    Element,
    Exponential,
    Factor,
    Factors,
    Key,
    NormalForm,
    Power,
    Term,
)

MOST_ALONE = 8
"""Elements of a sum that may be taken one by one."""
MOST_SUMMANDS = 64
"""The same where all sums of a form are as short: a loop takes one summand after the other."""


def piece_extents(*forms: NormalForm) -> list[int]:
    """Extents of sums that some other sum in the forms is a multiple of, the largest first."""
    extents = frozenset[int]().union(*(form.summed_extents for form in forms))
    return sorted(
        (one for one in extents | {1} if any(two > one and two % one == 0 for two in extents)),
        reverse=True,
    )


def in_pieces(form: NormalForm, extent: int) -> NormalForm:
    """The form with each sum over a multiple of ``extent`` as sums over so many numbers.

    Raises ``NoProofError`` where there are too many terms.
    """
    summands = (math.prod(v.extent for v in term.bound) for term in form.terms)
    is_short = max(summands, default=1) <= MOST_SUMMANDS
    return Pieces(extent, MOST_SUMMANDS if is_short else MOST_ALONE).of(form)


@dataclass
class Pieces:
    """Takes sums apart, those of each normal form once."""

    extent: int
    alone: int
    """Of a sum that is taken apart one by one, the most elements."""
    done: dict[NormalForm, NormalForm] = field(default_factory=dict[NormalForm, NormalForm])

    def of(self, form: NormalForm) -> NormalForm:
        """The form with each sum in pieces."""
        if not any(map(self.cuts, form.summed_extents)):
            return form
        if form not in self.done:
            total = NormalForm()
            for term in form.terms:
                for piece in self.of_term(term):
                    total = nf.add(total, piece)
            self.done[form] = total
        return self.done[form]

    def cuts(self, long: int) -> bool:
        """Whether a sum over so many numbers is taken apart."""
        if self.extent == 1:
            return 1 < long <= self.alone
        return long > self.extent and long % self.extent == 0

    def of_term(self, term: Term) -> Iterator[NormalForm]:
        """A term's sum, for each choice of pieces of its long variables."""
        body = NormalForm((Term(term.coefficient, (), term.factors),))
        extents = [self.extent if self.cuts(v.extent) else v.extent for v in term.bound]
        names = [fresh_variable(extent) for extent in extents]
        indices = [affine(name) if name.extent > 1 else ZERO for name in names]
        starts = [range(0, v.extent, e) for v, e in zip(term.bound, extents, strict=True)]
        for chosen in itertools.product(*starts):
            values = {
                v: index + Affine((), start)
                for v, index, start in zip(term.bound, indices, chosen, strict=True)
            }
            yield nf.sum_over(self.inside(nf.substitute(body, values)), names)

    def inside(self, form: NormalForm) -> NormalForm:
        """The form with sums in pieces that are nested in its factors."""
        if not any(map(self.cuts, form.summed_extents)):
            return form
        return with_factors(form, lambda factor, power: with_inner(factor, power, self.of))


def with_factors(
    form: NormalForm, of_factor: Callable[[Factor, Fraction], NormalForm]
) -> NormalForm:
    """The form with another one for each factor and its power."""
    total = NormalForm()
    for term in form.terms:
        bound, factors = freed(term)
        product = nf.constant(term.coefficient)
        for factor, power in factors:
            product = nf.multiply(product, of_factor(factor, power))
        total = nf.add(total, nf.sum_over(product, bound))
    return total


def with_inner(
    factor: Factor, power: Fraction, inner: Callable[[NormalForm], NormalForm]
) -> NormalForm:
    """A factor's power, with another form for each one that the factor holds."""
    match factor:
        case Exponential(exponent):
            return nf.exponential(nf.scale(inner(exponent), power))
        case Power(base):
            factor = Power(inner(base))
        case Application(function, arguments):
            factor = Application(function, tuple(map(inner, arguments)))
        case _:
            pass
    return NormalForm((Term(Fraction(1), (), ((factor, power),)),))


def freed(term: Term) -> tuple[list[Variable], Factors]:
    """A term's factors with variables in the place of those that its sum binds."""
    names = {v: fresh_variable(v.extent) for v in term.bound}
    values = {v: affine(name) for v, name in names.items()}
    return [*names.values()], nf.Substitution(values).of_factors(term.factors)


def joined(form: NormalForm) -> NormalForm:
    """The form with sums over neighbouring ranges of the same terms as one sum.

    So the sum of what several devices add up is the sum of one.
    """
    alike: dict[Key, list[Term]] = {}
    for term in form.terms:
        if term.bound:
            alike.setdefault(_likeness(term), []).append(term)
    several = [term for terms in alike.values() if len(terms) > 1 for term in terms]
    if not several:
        return form
    left = {term.shape_key: term for term in form.terms}
    extents = sorted({v.extent for term in several for v in term.bound})
    for term in several:
        current = left.get(term.shape_key)
        while current is not None:
            current = _join_next(current, left, extents)
    return NormalForm(tuple(term for _, term in sorted(left.items())))


def _likeness(term: Term) -> Key:
    """What terms that one sum has been cut into have in common."""
    factors = tuple(
        (type(factor).__name__, factor.tensor if isinstance(factor, Element) else 0, power)
        for factor, power in term.factors
    )
    return (term.coefficient, len(term.bound), factors)


def _join_next(term: Term, left: dict[Key, Term], extents: Sequence[int]) -> Term | None:
    """Joins a term with one that goes on where it ends; ``None`` where there is none."""
    bound, factors = freed(term)
    for place, variable in enumerate(bound):
        others = [*bound[:place], *bound[place + 1 :]]
        for extent in extents:
            more, both = fresh_variable(extent), fresh_variable(variable.extent + extent)
            following = affine(more) + Affine((), variable.extent)
            found = _summed(term, factors, {variable: following}, [more, *others])
            if found is None or left.get(found.shape_key) != found:
                continue
            whole = _summed(term, factors, {variable: affine(both)}, [both, *others])
            if whole is not None and whole.shape_key not in left:
                del left[term.shape_key], left[found.shape_key]
                left[whole.shape_key] = whole
                return whole
    return None


def _summed(
    term: Term, factors: Factors, values: Mapping[Variable, Affine], bound: Sequence[Variable]
) -> Term | None:
    """A term with other values of a variable, summed; ``None`` where that is not one term."""
    body = NormalForm((Term(term.coefficient, (), factors),))
    summed = nf.sum_over(nf.substitute(body, values), bound)
    return summed.terms[0] if len(summed.terms) == 1 else None
