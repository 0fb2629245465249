"""Where barriers stand, of all places that would do."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects import te
from mugraph.passes.texpr.te_sync.dependences import Dependence
from mugraph.passes.texpr.te_sync.leaves import Leaf


def choose_barriers(
    leaves: Sequence[Leaf], dependences: Sequence[Dependence]
) -> dict[int, te.Scope]:
    """Where barriers stand: in front of the leaves given, fewest when the program runs.

    Barriers of the grid or cluster first; a dependence within blocks, and then within warps, that
    these do not cover needs one of its own.  Exact.
    """
    weights = [leaf.weight for leaf in leaves]
    there = {
        te.Scope.GRID: set[int](),
        te.Scope.CLUSTER: set[int](),
        te.Scope.BLOCK: {i for i, leaf in enumerate(leaves) if leaf.is_barrier},
        te.Scope.WARP: {i for i, leaf in enumerate(leaves) if leaf.is_warp_barrier},
    }
    covered: set[int] = set()
    chosen: dict[int, te.Scope] = {}
    for scope, free in there.items():
        covered |= free
        open_ = [one.places for one in dependences if one.scope is scope]
        found = hitting_set([one for one in open_ if not one & covered], weights)
        covered |= found
        chosen |= dict.fromkeys(found, scope)
    return chosen


def hitting_set(sets: Sequence[frozenset[int]], weights: Sequence[int]) -> set[int]:
    """The points of least weight, and then number, that meet every set.

    By branching on the points of the smallest set that is not met yet.
    """
    # A set that holds another is met with it.
    distinct = set(sets)
    minimal = [one for one in distinct if not any(other < one for other in distinct)]
    best: list[tuple[tuple[int, int], set[int]]] = []

    def search(chosen: set[int], banned: set[int]) -> None:
        cost = (sum(weights[i] for i in chosen), len(chosen))
        if best and cost >= best[0][0]:
            return
        left = [one - banned for one in minimal if not one & chosen]
        if not left:
            best[:] = [(cost, chosen)]
            return
        smallest = min(left, key=lambda one: (len(one), sorted(one)))
        refused: set[int] = set()
        for point in sorted(smallest, key=lambda i: (weights[i], i)):
            search({*chosen, point}, banned | refused)
            refused.add(point)

    search(set(), set())
    return best[0][1]
