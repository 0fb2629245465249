"""Sums of what is before a place, each times the decays since: scans, and loops that carry a state.

Where decays are positive, the product of those behind one place up to another is the exponential of
a difference of two sums of their logarithms, each over all places up to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.functions import positive, positive_logarithm
from mugraph.runtime.equivalence.indices import Affine
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor, at_least_0, broadcast
from mugraph.runtime.equivalence.terms import DECAYS, PLACE, NormalForm

At = Callable[[Affine], NormalForm]
"""A normal form at a place of what is scanned."""
ONE_MORE = Affine((), 1)


def scanned(
    symbolic: Symbolic,
    shape: Sequence[int],
    dim: int,
    operand: SymbolicTensor,
    decay: SymbolicTensor | None = None,
    *,
    is_exclusive: bool = False,
) -> SymbolicTensor:
    """Sums over the places along a dimension that are at most an element's own.

    Those that are less, where it is exclusive.  Each is multiplied by the decays behind it.  Where
    their logarithms are not known, their product is a function of both places and of the decays
    along the dimension.
    """
    places = symbolic.places(shape)
    last = places[dim] + Affine((), -1 if is_exclusive else 0)

    def along(tensor: SymbolicTensor, place: Affine) -> NormalForm:
        read = [*places[:dim], place, *places[dim + 1 :]]
        (form,) = symbolic.read((tensor, broadcast(tensor, read)))
        return form

    def summand(place: Affine) -> NormalForm:
        return along(operand, place)

    if decay is None:
        return symbolic.tensor(places, sums_so_far(symbolic, shape[dim], last, summand))
    if positive_logarithm(along(decay, symbolic.scope.index(shape[dim]))) is not None:

        def logarithm(place: Affine) -> NormalForm:
            found = positive_logarithm(along(decay, place))
            assert found is not None
            return found

        total = sums_so_far(symbolic, shape[dim], last, summand, logarithm)
        return symbolic.tensor(places, total)
    earlier = symbolic.scope.index(shape[dim])
    anywhere = symbolic.any_place(symbolic.first_bound(decay), shape[dim])
    first, end, any_place = (nf.element(PLACE, [place]) for place in (earlier, last, anywhere))
    product = nf.application(DECAYS, [first, end, along(decay, anywhere), any_place])
    is_earlier = last + earlier.scaled(-1)
    if is_earlier.limits()[0] < 0:
        product = nf.multiply(at_least_0(is_earlier), product)
    total = symbolic.sum(nf.multiply(product, summand(earlier)), [earlier])
    return symbolic.tensor(places, total)


def sums_so_far(
    symbolic: Symbolic, extent: int, last: Affine, summand: At, logarithm: At | None = None
) -> NormalForm:
    """The sum of the summands at all places up to ``last``, of ``extent`` places.

    With the logarithms of decays, each is multiplied by all decays behind it up to ``last``.
    """
    earlier = symbolic.scope.index(extent)
    product = nf.multiply(_is_up_to(last, earlier), summand(earlier))
    if logarithm is not None:
        since = [sums_so_far(symbolic, extent, place, logarithm) for place in (last, earlier)]
        exponent = nf.add(since[0], nf.scale(since[1], -1))
        product = nf.multiply(nf.exponential(exponent), product)
    return symbolic.sum(product, [earlier])


def _is_up_to(last: Affine, place: Affine) -> NormalForm:
    """1 for places up to the last one, else 0."""
    return positive(nf.element(PLACE, [last + place.scaled(-1) + ONE_MORE]))
