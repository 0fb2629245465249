"""``objective=farkas``: the seed's objective, the distance between neighbouring threads.

Of a mapping, phi(s, j) is the sum over all accesses, and all pairs of neighbouring threads of a
warp, of the distance between the elements that they touch at step s and iteration j of loops around
an access; the mapping with the least d such that d - phi(s, j) >= 0 everywhere is chosen (Feautrier
1992; seed 003).  An affine access adds the same to the elements of both threads at every (s, j),
so that d - phi is constant on the domain: the multipliers that Farkas' lemma asks for are all 0
but the constant one, which is d - phi itself, and what is left is an integer program in the places
of the digits.  Its objective is a sum over the digits in order, which branching with that sum as
bound solves exactly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te import Space
from mugraph.dialects.tensor_types import row_major_strides, value_label
from mugraph.passes.texpr.te_map.bands import Band
from mugraph.passes.texpr.te_map.cost import BandAccess, places_of
from mugraph.passes.texpr.te_map.family import deals, primes_of
from mugraph.passes.texpr.te_map.search import LaneClass, permutations

Factors = tuple[int, ...]
"""How far an access moves, in elements, where each index of a band grows by one."""


def nearest(bands: Sequence[Band], threads: int, spaces: Mapping[SSAValue, Space]) -> LaneClass:
    """The mapping of bands of equal extents of the least distance between neighbouring threads.

    Threads take no neighbours.  Raises ``PassFailedException`` where an access is not affine.
    """
    factors = [factors_of(band, place) for band in bands for place in places_of(band, dict(spaces))]
    best: tuple[int, LaneClass] | None = None
    for deal in deals(bands[0].extents, threads):
        primes = [
            [*primes_of(count), *primes_of(steps)]
            for count, steps in zip(deal.counts, deal.steps, strict=True)
        ]
        for radices in itertools.product(*(list(permutations(each)) for each in primes)):
            start = LaneClass(deal, tuple(radices), ())
            for found in _extend(start, factors, 0, [0] * len(factors), best):
                best = found
    assert best is not None
    return best[1]


def factors_of(band: Band, place: BandAccess) -> Factors:
    """How an access moves with the indices of a band."""
    found, operands = place.touch.expressions, place.touch.indices
    own = [loop.variable for loop in band.loops]
    inside = [AffineExpr.dimension(at) for at, one in enumerate(operands) if one in own]
    linear = (AffineBinaryOpKind.Add, AffineBinaryOpKind.Mul)
    for part in itertools.chain.from_iterable(expression.dfs() for expression in found):
        is_linear = not isinstance(part, AffineBinaryOpExpr) or part.kind in linear
        if not is_linear and any(one in inside for one in part.dfs()):
            name = place.buffer.name_hint or value_label(place.buffer)
            raise PassFailedException(
                "--te-map: objective=farkas takes indices without division and modulo; an access "
                f"to {name} in '{band.title}' has one"
            )
    strides = [1] if len(found) == 1 else list(row_major_strides(place.type.get_shape()))
    factors: list[int] = []
    for variable in own:
        unit = [int(one is variable) for one in operands]
        nothing = [0] * len(operands)
        factors.append(
            sum(
                stride * (one.eval(unit, []) - one.eval(nothing, []))
                for stride, one in zip(strides, found, strict=True)
            )
        )
    return tuple(factors)


def _extend(
    chosen: LaneClass,
    factors: Sequence[Factors],
    distance: int,
    behind: Sequence[int],
    best: tuple[int, LaneClass] | None,
) -> Iterator[tuple[int, LaneClass]]:
    """Better and better lanes that begin with some digits.

    ``distance`` is what those contribute, ``behind`` how far each access is moved by their greatest
    values together, from which the next digit carries.
    """
    lanes = math.prod(chosen.radix(place) for place in chosen.lanes)
    if lanes >= min(WARP, chosen.deal.busy):
        if best is None or distance < best[0]:
            yield distance, chosen
        return
    steps: list[tuple[int, list[int], LaneClass]] = []
    for dimension in reversed(range(len(chosen.radices))):
        for position in range(len(chosen.radices[dimension])):
            place = (dimension, position)
            longer = LaneClass(chosen.deal, chosen.radices, (*chosen.lanes, place))
            if place in chosen.lanes or not longer.fits():
                continue
            radix, stride = chosen.radix(place), chosen.stride(place)
            pairs = (WARP - 1) // lanes - (WARP - 1) // (lanes * radix)
            moves = [each[dimension] * stride for each in factors]
            far = sum(abs(move - back) for move, back in zip(moves, behind, strict=True))
            after = [back + (radix - 1) * move for move, back in zip(moves, behind, strict=True)]
            steps.append((distance + pairs * far, after, longer))
    for total, after, longer in sorted(steps, key=lambda one: one[0]):
        if best is not None and total >= best[0]:
            return
        for found in _extend(longer, factors, total, after, best):
            best = found
            yield found


def distance_of(chosen: LaneClass, factors: Sequence[Factors]) -> int:
    """The objective of some lanes: of one warp at one step, over all accesses."""
    distance, lanes = 0, 1
    behind = [0] * len(factors)
    for place in chosen.lanes:
        radix, stride = chosen.radix(place), chosen.stride(place)
        pairs = (WARP - 1) // lanes - (WARP - 1) // (lanes * radix)
        moves = [each[place[0]] * stride for each in factors]
        distance += pairs * sum(abs(m - b) for m, b in zip(moves, behind, strict=True))
        behind = [b + (radix - 1) * m for m, b in zip(moves, behind, strict=True)]
        lanes *= radix
    return distance
