"""Which threads must meet between which parts of a block's program, and where they may."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import islpy as isl
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import te
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.texpr.analysis.between import (
    Moment,
    between,
    cells,
    differs_between_blocks,
)
from mugraph.passes.texpr.analysis.domains import Access, domain_of
from mugraph.passes.texpr.analysis.evaluate import expanded
from mugraph.passes.texpr.analysis.groups import CopyGroups, Landing
from mugraph.passes.texpr.analysis.pairs import Pairs, pairs_of
from mugraph.passes.texpr.te_sync.between_blocks import pairs_across
from mugraph.passes.texpr.te_sync.leaves import Leaf


@dataclass(frozen=True)
class Dependence:
    """Two leaves between which threads of a scope must meet, at one of some places.

    A place is the number of the leaf that a barrier stands in front of.
    """

    source: int
    target: int
    scope: te.Scope
    places: frozenset[int]


def dependences_of(leaves: Sequence[Leaf], holder: te.ThreadsOp) -> list[Dependence]:
    """All dependences between different threads of a block, or of blocks that may meet.

    Exact: of each pair of steps in which threads touch one element, also in other iterations of
    loops and under conditions, the places that control comes to between the two.
    """
    groups = CopyGroups(holder)
    found: list[Dependence] = []
    for source, first in enumerate(leaves):
        for target, second in enumerate(leaves):
            common = [a for a, b in zip(first.loops, second.loops, strict=False) if a is b]
            if source < target:
                found += _needed(_Way(leaves, source, target, common, None, groups))
            for depth, loop in enumerate(common):
                found += _needed(_Way(leaves, source, target, common[:depth], loop, groups))
    return found


@dataclass(frozen=True)
class _Way:
    """From a leaf to another: in one iteration of loops, or to a later one of the carrying loop."""

    leaves: Sequence[Leaf]
    source: int
    target: int
    common: Sequence[te.SeqOp]
    carried: te.SeqOp | None
    groups: CopyGroups

    @property
    def first(self) -> Leaf:
        """Where it begins."""
        return self.leaves[self.source]

    @property
    def second(self) -> Leaf:
        """Where it ends."""
        return self.leaves[self.target]

    @cached_property
    def moments(self) -> tuple[Moment, Moment]:
        """Both ends, in the names that accesses there have."""
        same = _same(self.groups.holder, self.common)
        first, second = self.first.op, self.second.op
        return (
            Moment(first, _shared_names(first, "a", same)),
            Moment(second, _shared_names(second, "b", same)),
        )

    @cached_property
    def dimensions(self) -> list[str]:
        """The variables of both ends that all threads share."""
        return list(dict.fromkeys(name for one in self.moments for name in one.names.values()))

    @cached_property
    def places(self) -> dict[int, isl.Set]:
        """The leaves in front of which control may come on the way, and for which pairs it does."""
        return self._between(self.moments, self.carried)

    def landed(self, landing: Landing) -> dict[int, isl.Set]:
        """As ``places``, on the way from a wait to the target.

        What has landed for one thread is visible to the others after a barrier there.
        """
        _, end = self.moments
        around = [one.variable for one in domain_of(landing.wait).loops]
        names = {value: end.names[value] for value in around if value in end.names}
        carried = landing.carried
        if carried is not None:
            names[carried.variable] = f"({names[carried.variable]} - 1)"
        return self._between((Moment(landing.wait, names), end), carried)

    @cached_property
    def kernel(self) -> te.KernelOp:
        """The kernel of the block."""
        kernel = self.groups.holder.parent_op()
        assert isinstance(kernel, te.KernelOp)
        return kernel

    def of_blocks(self, places: Mapping[int, isl.Set]) -> dict[int, isl.Set]:
        """Those of the places that all blocks that may meet come to, if one does."""
        return {
            place: pairs
            for place, pairs in places.items()
            if not any(
                differs_between_blocks(one, self.kernel) for one in self.leaves[place].needed
            )
        }

    def _is_of_threads(self, condition: te.IfOp) -> bool:
        _, variables = expanded(condition.map.data.results, list(condition.indices))
        return self.groups.holder.variable in variables

    def _between(
        self, moments: tuple[Moment, Moment], carried: te.SeqOp | None
    ) -> dict[int, isl.Set]:
        order = self.groups.order
        first, last = (order[one.op] for one in moments)
        alone = {*moments[0].names} ^ {*moments[1].names}
        found: dict[int, isl.Set] = {}
        for i, leaf in enumerate(self.leaves):
            inside = first < order[leaf.place] and order[leaf.op] <= last
            if carried is None:
                near = inside or any(loop.variable in alone for loop in leaf.loops)
            else:
                near = carried in leaf.loops
            # What only some threads come to is no barrier of all.
            if near and not any(map(self._is_of_threads, leaf.needed)):
                found[i] = between(leaf.place, list(leaf.needed), moments, order, self.dimensions)
        return found


def _same(holder: te.ThreadsOp, common: Sequence[te.SeqOp]) -> set[te.LoopOp]:
    """The loops in one iteration of which both ends of a way are."""
    kernel = holder.parent_op()
    return {*common, *([kernel] if isinstance(kernel, te.KernelOp) else [])}


def _needed(way: _Way) -> list[Dependence]:
    """The dependences from a leaf to another."""
    found: dict[tuple[te.Scope, frozenset[int]], None] = {}
    holder = way.groups.holder
    for one in way.first.accesses:
        for other in way.second.accesses:
            if not one.conflicts(other):
                continue
            across = pairs_across(one, other, holder, way.common)
            if across is not None:
                _carry(across, way.carried)
                places = partial(way.of_blocks, way.places)
                scope = te.Scope.GRID if way.kernel.is_cooperative else te.Scope.CLUSTER
                _add(found, across, [(scope, [])], way.dimensions, [], places)
            if isinstance(one.op, te.StepOp) or isinstance(other.op, te.StepOp):
                continue  # the life of a part, which its own block does not outlive
            pairs = _pairs(one, other, holder, way.common, way.carried)
            if pairs is None:
                continue
            scopes = _scopes(pairs, holder)
            if not isinstance(one.op, te.AsyncCopy):
                _add(found, pairs, scopes, way.dimensions, [], lambda: way.places)
                continue
            for landing, constraints in _landings(pairs, way.groups):
                places = partial(way.landed, landing)
                _add(found, pairs, scopes, way.dimensions, constraints, places)
    return [Dependence(way.source, way.target, scope, places) for scope, places in found]


def _add(
    found: dict[tuple[te.Scope, frozenset[int]], None],
    pairs: Pairs,
    scopes: Sequence[tuple[te.Scope, list[str]]],
    dimensions: Sequence[str],
    extra: Sequence[str],
    places: Callable[[], Mapping[int, isl.Set]],
) -> None:
    """Adds what pairs of accesses need: of whom a barrier, and the places that meet it.

    ``scopes`` are who must meet, and for which pairs.
    """
    for scope, apart in scopes:
        met = pairs.at(dimensions, *apart, *extra)
        if met.is_empty():
            return
        for one in cells(met, places()):
            found[scope, one] = None


def _scopes(pairs: Pairs, holder: te.ThreadsOp) -> list[tuple[te.Scope, list[str]]]:
    """Who must meet, and for which pairs: those of different threads, and of different warps.

    The latter are among the former; a barrier of the block is one of its warps, too.
    """
    if holder.iterations == 1:
        return []
    if pairs.one.buffer is not pairs.other.buffer:
        return [(te.Scope.BLOCK, [])]
    first, second = (names[holder.variable] for names in pairs.names)
    threads = (te.Scope.WARP, [f"{first} != {second}"])
    if holder.iterations <= WARP:
        return [threads]
    warps = f"floor({first} / {WARP}) != floor({second} / {WARP})"
    return [threads, (te.Scope.BLOCK, [warps])]


def _pairs(
    one: Access,
    other: Access,
    holder: te.ThreadsOp,
    common: Sequence[te.SeqOp],
    carried: te.SeqOp | None,
) -> Pairs | None:
    """The iterations in which two accesses touch the same bytes; ``None`` where none may."""
    shared = one.buffer is other.buffer
    if not shared and not _overlap(one.buffer, other.buffer):
        return None
    same = _same(holder, common)
    names = one.domain.named("a", same), other.domain.named("b", same)
    pairs = pairs_of(one, other, names, of_bytes=not shared)
    _carry(pairs, carried)
    return pairs


def _carry(pairs: Pairs, carried: te.SeqOp | None) -> None:
    """Lets the second access be in a later iteration of a loop."""
    if carried is not None:
        first, second = (name[carried.variable] for name in pairs.names)
        pairs.constraints.append(f"{first} < {second}")


def _landings(pairs: Pairs, groups: CopyGroups) -> list[tuple[Landing, list[str]]]:
    """The waits behind which copies have landed before another access to the same bytes.

    Of each pair the first wait that makes sure of it, and what holds of those pairs.  Raises
    ``PassFailedException`` where no wait does.
    """
    if not pairs.exist():
        return []
    group = groups.closed_before(pairs.one.op).text(pairs.names[0])
    found: list[tuple[Landing, list[str]]] = []
    open_: list[str] = []
    for landing in reversed(list(groups.waits_before(pairs.other.op))):
        landed = landing.of(group, pairs.names[1])
        if pairs.exist(*open_, landed):
            found.append((landing, [*open_, landed]))
        open_.append(f"not ({landed})")
    if pairs.exist(*open_):
        name = pairs.other.buffer.name_hint or "a buffer"
        raise PassFailedException(
            f"--te-sync: '{pairs.other.op.name}' touches {name} where an asynchronous copy may be "
            "under way: no 'te.wait' before it is for the copy's group"
        )
    return found


def _shared_names(op: Operation, prefix: str, same: set[te.LoopOp]) -> Mapping[SSAValue, str]:
    """The names of what all threads of a block share of the loops around an operator."""
    domain = domain_of(op)
    threads = {loop.variable for loop in domain.loops if isinstance(loop, te.ThreadsOp)}
    names = domain.named(prefix, same)
    return {value: name for value, name in names.items() if value not in threads}


def _overlap(one: SSAValue, other: SSAValue) -> bool:
    """Whether two buffers of a block share bytes of shared memory."""
    ranges: list[tuple[int, int]] = []
    for buffer in (one, other):
        new = buffer.owner
        if not isinstance(new, te.NewOp) or new.result.type.memory_space is not te.Space.SHARED:
            return False
        start = new.byte_offset
        if start is None:
            raise PassFailedException("--te-sync: a shared buffer has no place; run --te-promote")
        type_ = new.result.type
        ranges.append((start, start + type_.elements * element_bytes_of(type_)))
    (a, b), (c, d) = ranges
    return a < d and c < b
