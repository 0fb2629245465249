"""Pairs of rows that touch the same place, belong to different agents, and need an order."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from mugraph.passes.texpr.analysis.hazards.touches import CLASSES, IntArray, classes_conflict

BoolArray = npt.NDArray[np.bool_]


def conflicts(places: IntArray, agents: IntArray, classes: IntArray) -> list[tuple[int, int]]:
    """Two rows for each pair of classes of which different agents touch one place; the earlier row
    first.

    Exact: a pair of classes is left out only if no two rows of them are in conflict.
    """
    found: list[tuple[int, int]] = []
    if not len(places):
        return found
    order = np.lexsort((agents, classes, places))
    p, c, a = places[order], classes[order], agents[order]
    starts = np.flatnonzero(np.r_[True, (p[1:] != p[:-1]) | (c[1:] != c[:-1])])
    ends = np.r_[starts[1:], len(p)] - 1
    # Of each place and class the rows of the least and the greatest agent.
    place, kind = p[starts], c[starts]
    present = np.unique(kind)
    for one, other in itertools.combinations_with_replacement(present.tolist(), 2):
        if not classes_conflict(one, other):
            continue
        pick = kind == one
        first = np.flatnonzero(pick)
        if one == other:
            several = first[a[starts[first]] != a[ends[first]]]
            if len(several):
                group = int(several[0])
                found.append(_ordered(order, int(starts[group]), int(ends[group])))
            continue
        second = np.flatnonzero(kind == other)
        both, mine, theirs = np.intersect1d(
            place[first], place[second], assume_unique=True, return_indices=True
        )
        if not len(both):
            continue
        g, h = first[mine], second[theirs]
        low_high = a[starts[g]] != a[ends[h]]
        high_low = a[ends[g]] != a[starts[h]]
        for differs, rows in ((low_high, (starts[g], ends[h])), (high_low, (ends[g], starts[h]))):
            where = np.flatnonzero(differs)
            if len(where):
                at = int(where[0])
                found.append(_ordered(order, int(rows[0][at]), int(rows[1][at])))
                break
    assert len(present) <= CLASSES
    return found


def _ordered(order: npt.NDArray[np.intp], one: int, other: int) -> tuple[int, int]:
    first, second = int(order[one]), int(order[other])
    return (first, second) if first < second else (second, first)
