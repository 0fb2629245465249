"""Functions of what differs from one range of places to the next, such as of concatenations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.terms import Below, NormalForm, Term


def in_each_range(function: Callable[..., NormalForm], *forms: NormalForm) -> NormalForm:
    """A function of forms: what it is on each side of the bounds of their terms.

    So a function of a concatenation is a concatenation, as sums, maxima and slices of it need.  The
    function must compute what is at a place of what is there.
    """
    total = NormalForm()
    for holds, case in ranges_of(*forms):
        total = nf.add(total, nf.multiply(holds, function(*case)))
    return total


def ranges_of(*forms: NormalForm) -> Iterator[tuple[NormalForm, Sequence[NormalForm]]]:
    """1 in a range of places and 0 elsewhere, with what forms are there, for all ranges."""
    bounds = {limit for form in forms for term in form.terms for limit in _own_bounds(term)}
    if not bounds:
        yield nf.constant(1), forms
        return
    first = min(bounds, key=lambda limit: limit.key)
    for limit in (first, first.opposite):
        known = nf.below(limit.index, limit.bound)
        for holds, case in ranges_of(*(_assuming(limit, form) for form in forms)):
            yield nf.multiply(known, holds), case


def _own_bounds(term: Term) -> list[Below]:
    """The bounds of a term on what it does not sum over."""
    bounds = (factor for factor, _ in term.factors if isinstance(factor, Below))
    return [limit for limit in bounds if term.sums_over_none_of(limit)]


def _assuming(limit: Below, form: NormalForm) -> NormalForm:
    """A form where an index is below a bound: terms that are not 0 there, without that factor."""
    total = NormalForm()
    for term in form.terms:
        bounds = _own_bounds(term)
        if not any(map(limit.excludes, bounds)):
            implied = [other for other in bounds if limit.implies(other)]
            left = tuple(each for each in term.factors if each[0] not in implied)
            kept = Term(term.coefficient, term.bound, left)
            total = nf.add(total, NormalForm((kept,)))
    return total
