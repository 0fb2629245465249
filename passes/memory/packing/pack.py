"""Packing with a certificate: the choice behind both memory planning passes, with no IR in it.

First fit in the order of birth; where it meets the lower bound it is optimal and nothing else is
tried.  Then greedy placements in several orders, of which the best one counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Packing, Request, order_of_birth
from mugraph.passes.memory.packing.bounds import Instance, instance_of, max_load
from mugraph.passes.memory.packing.greedy import GreedyPacking

FIRST_FIT = "first fit"
"""The method of a plan that places each buffer, in the order of birth, as low as it fits."""

MAX_CHOICES = 4
"""Up to this many pairs of buffers every choice of those that share bytes is tried."""


class CertifiedPlan(NamedTuple):
    """A plan, and the bytes that no plan can do without.

    ``method`` says what found it; the plan is proved optimal where ``bound`` is its peak.
    """

    plan: Packing
    bound: int
    method: str

    @property
    def is_optimal(self) -> bool:
        """Whether no plan needs fewer bytes."""
        return self.plan.peak <= self.bound


def components(requests: Sequence[Request]) -> list[list[int]]:
    """Groups of requests, such that those of different groups never live at the same time."""
    groups: list[list[int]] = []
    end = -1
    for index in sorted(range(len(requests)), key=lambda i: requests[i].lifetime.first):
        life = requests[index].lifetime
        if not groups or life.first > end:
            groups.append([])
            end = life.last
        groups[-1].append(index)
        end = max(end, life.last)
    return [sorted(group) for group in groups]


def pack(requests: Sequence[Request], alignment: int) -> CertifiedPlan:
    """The plan of lowest peak that was found, with a lower bound on every plan's.

    Offsets are multiples of ``alignment`` bytes and of each request's own.  Ties go to the earlier
    method.
    """
    offsets = [0] * len(requests)
    peak = bound = 0
    method = FIRST_FIT
    for group in components(requests):
        found = _pack_together([requests[index] for index in group], alignment)
        for index, offset in zip(group, found.plan.offsets, strict=True):
            offsets[index] = offset
        bound = max(bound, found.bound)
        if found.plan.peak > peak:
            peak, method = found.plan.peak, found.method
    return CertifiedPlan(Packing(tuple(offsets), peak), bound, method)


def _pack_together(requests: Sequence[Request], alignment: int) -> CertifiedPlan:
    instance = instance_of(requests, alignment)
    bound = max_load(instance) * instance.unit
    packing = GreedyPacking(instance)
    best = CertifiedPlan(
        _plan_of(instance, packing.place(order_of_birth(requests))), bound, FIRST_FIT
    )
    for name, order in _orders(instance).items():
        if best.is_optimal:
            break
        plan = _plan_of(instance, packing.place(order))
        if plan.peak < best.plan.peak:
            best = CertifiedPlan(plan, bound, f"greedy, {name}")
    return best


def _orders(instance: Instance) -> dict[str, list[int]]:
    """Orders in which greedy placements take buffers, by name."""
    loads = [sum(instance.sizes[buffer] for buffer in section) for section in instance.sections]
    lengths = [last - first + 1 for first, last in instance.spans]
    sizes = instance.sizes
    crowds = [max(loads[first : last + 1]) for first, last in instance.spans]
    keys: dict[str, Callable[[int], tuple[int, ...]]] = {
        "largest first": lambda i: (sizes[i], lengths[i]),
        "longest first": lambda i: (lengths[i], sizes[i]),
        "most area first": lambda i: (sizes[i] * lengths[i], sizes[i]),
        "most crowded first": lambda i: (crowds[i], sizes[i] * lengths[i]),
        "long and large first": lambda i: (sizes[i] * lengths[i] ** 3, sizes[i]),
    }
    return {
        name: sorted(range(len(sizes)), key=lambda i, key=key: (*(-x for x in key(i)), i))
        for name, key in keys.items()
    }


def _plan_of(instance: Instance, offsets: Sequence[int]) -> Packing:
    unit = instance.unit
    ends = (offset + size for offset, size in zip(offsets, instance.sizes, strict=True))
    return Packing(tuple(offset * unit for offset in offsets), max(ends, default=0) * unit)


def pack_in_place(
    requests: Sequence[Request],
    pairs: Sequence[tuple[int, int]],
    alignment: int,
) -> CertifiedPlan:
    """As :func:`pack`, where of some pairs of requests both may have one offset.

    Of each pair the second may take the bytes of the first although both live in one region; no
    request is first in two pairs or second in two.  The bound is one on every choice of pairs: no
    region holds less than it does with all of them.
    """
    apart = pack(requests, alignment)
    if not pairs:
        return apart
    joined = _joined(requests, pairs)
    together = instance_of([request for request, _ in joined], alignment)
    bound = max_load(together) * together.unit
    best = apart._replace(bound=min(bound, apart.plan.peak))
    if best.is_optimal:
        return best
    every = len(pairs) <= MAX_CHOICES
    choices = range(1, 1 << len(pairs)) if every else [(1 << len(pairs)) - 1]
    least = apart.bound
    for choice in choices:
        chosen = [pair for bit, pair in enumerate(pairs) if choice >> bit & 1]
        groups = _joined(requests, chosen)
        found = pack([request for request, _ in groups], alignment)
        least = min(least, found.bound)
        if found.plan.peak < best.plan.peak:
            offsets = [0] * len(requests)
            for (_, members), offset in zip(groups, found.plan.offsets, strict=True):
                for member in members:
                    offsets[member] = offset
            method = f"{found.method}, {len(chosen)} in place"
            best = CertifiedPlan(Packing(tuple(offsets), found.plan.peak), best.bound, method)
    if every:
        best = best._replace(bound=max(best.bound, least))
    return best._replace(bound=min(best.bound, best.plan.peak))


def _joined(
    requests: Sequence[Request], pairs: Sequence[tuple[int, int]]
) -> list[tuple[Request, list[int]]]:
    """Requests with each chain of pairs as one, and the requests that each stands for."""
    group = list(range(len(requests)))
    for first, second in pairs:
        old, new = group[second], group[first]
        group = [new if member == old else member for member in group]
    members: dict[int, list[int]] = {}
    for index, leader in enumerate(group):
        members.setdefault(leader, []).append(index)
    joined: list[tuple[Request, list[int]]] = []
    for indices in members.values():
        lives = [requests[index].lifetime for index in indices]
        whole = Lifetime(min(life.first for life in lives), max(life.last for life in lives))
        size = max(requests[index].size for index in indices)
        alignment = math.lcm(*(requests[index].alignment for index in indices))
        joined.append((Request(size, whole, alignment), indices))
    return joined
