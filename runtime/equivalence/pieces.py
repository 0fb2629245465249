"""Sums in pieces of one extent: what loops of other lengths add up alike.

The sum of 256 elements and that of 4 sums of 64 have other normal forms where something else tells
the 4 apart, such as what each iteration of a loop stores.  In pieces of 64 both are the same.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.indices import Affine, Variable, affine, fresh_variable
from mugraph.runtime.equivalence.terms import NormalForm, Term

MOST_SUMMANDS = 64
"""Of a sum that is written out, where a loop takes one summand after the other."""


def piece_extents(*forms: NormalForm) -> list[int]:
    """Extents of sums that some other sum in the forms is a multiple of, the largest first.

    1 is one of them where all sums are short.
    """
    terms = [term for form in forms for term in form.terms]
    extents = {v.extent for term in terms for v in term.bound}
    if all(math.prod(v.extent for v in term.bound) <= MOST_SUMMANDS for term in terms):
        extents.add(1)
    return sorted(
        (one for one in extents if any(two > one and two % one == 0 for two in extents)),
        reverse=True,
    )


def in_pieces(form: NormalForm, extent: int) -> NormalForm:
    """The form with each outer sum over a multiple of ``extent`` as sums over so many numbers.

    Raises ``NoProofError`` where there are too many terms.
    """
    total = NormalForm()
    for term in form.terms:
        for piece in _pieces(term, extent):
            total = nf.add(total, piece)
    return total


def _pieces(term: Term, extent: int) -> Iterator[NormalForm]:
    """A term's sum, for each choice of pieces of its long variables."""
    lengths = {v: extent if _is_cut(v, extent) else v.extent for v in term.bound}
    names = {v: fresh_variable(length) for v, length in lengths.items() if length > 1}
    body = NormalForm((Term(term.coefficient, (), term.factors),))
    starts = [range(0, v.extent, extent) if _is_cut(v, extent) else range(1) for v in term.bound]
    for chosen in itertools.product(*starts):
        values = {
            v: (affine(names[v]) if v in names else Affine((), 0)) + Affine((), start)
            for v, start in zip(term.bound, chosen, strict=True)
        }
        yield nf.sum_over(nf.substitute(body, values), names.values())


def _is_cut(variable: Variable, extent: int) -> bool:
    return variable.extent > extent and variable.extent % extent == 0


__all__ = ["in_pieces", "piece_extents"]
