"""Abstract memory of a block: what was written last, and what not everyone knows to be over.

``Memory`` knows nothing of loops.  It is fed the touches of a schedule in one order that its
synchronisation allows, and asks of each whether another order of the threads, or a later landing
of an asynchronous copy, could give it other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mugraph.passes.schedule.analysis.hazards.clocks import Clock, Marks
from mugraph.passes.schedule.analysis.hazards.program import LOOP, Program, Touch

Key: TypeAlias = tuple[int, int]
"""A touch by its index, and the granule of shared memory that its footprint counts from."""

TILE_BITS = 20
"""Bits of a granule's code that hold the tile; the bits above hold the buffer."""
TILES = (1 << TILE_BITS) - 1
NOTHING = 0
"""The code of a granule that nothing has written."""


@dataclass(eq=False, slots=True)
class Event:
    """A touch as it happens: in which iteration, and where its stage starts.

    ``meant`` is the iteration whose tile the touch means, counted without those skipped.  It has
    happened before what a strand does if the strand's clock has reached ``epoch`` in ``component``;
    for a write by a bulk copy these are a phase of the full barrier of its stage.  Bulk copies must
    also know that its loads are settled: ``settling`` has reached ``settled``, 0 for other events.
    """

    touch: Touch
    start: int
    iteration: int
    meant: int
    strand: int
    component: int
    epoch: int
    settling: int
    settled: int
    low: int = field(init=False)
    """The first granule of shared memory touched."""
    high: int = field(init=False)
    """One past the last granule of shared memory touched."""

    def __post_init__(self) -> None:
        self.low = self.start + self.touch.footprint.low
        self.high = self.start + self.touch.footprint.high

    @property
    def tile(self) -> int:
        """The iteration whose stage or tile the touch means."""
        return self.touch.access.stage.iteration_at(self.iteration)

    @property
    def key(self) -> Key:
        """What tells events apart as far as memory goes."""
        return self.touch.index, self.start


Group: TypeAlias = dict[Key, Event]
"""Events, the newest of each key, the oldest first."""


def put(group: Group, *events: Event) -> None:
    """Adds events as the newest ones, in place of older ones of the same key."""
    for event in events:
        group.pop(event.key, None)
        group[event.key] = event


@dataclass(eq=False)
class CopyGroups:
    """The ``cp.async`` of a strand in flight, oldest group first, and those not committed yet.

    Or what its products of warp groups still read, a group each.
    """

    open_group: Group = field(default_factory=Group)
    groups: list[Group] = field(default_factory=list[Group])

    def in_flight(self) -> Iterator[Event]:
        """Every copy that may still land, the newest first."""
        for group in (self.open_group, *reversed(self.groups)):
            yield from reversed(group.values())

    def commit(self, kept: int) -> None:
        """Closes the group of open copies.

        Groups older than the ``kept`` newest behave alike and are merged, so that their number is
        bounded.
        """
        self.groups.append(self.open_group)
        self.open_group = {}
        if len(self.groups) > kept + 1:
            oldest = self.groups.pop(0)
            put(oldest, *self.groups[0].values())
            self.groups[0] = oldest

    def land(self, pending: int) -> Iterator[Event]:
        """All groups but the newest ``pending`` have landed; gives what they held."""
        landed = max(len(self.groups) - pending, 0)
        for group in self.groups[:landed]:
            yield from group.values()
        self.groups = self.groups[landed:]

    def state(self) -> object:
        """All of it in a form that compares equal for equal states."""
        return frozenset(self.open_group), tuple(frozenset(group) for group in self.groups)


def code_of(event: Event) -> int:
    """What the granules hold that an event wrote: its buffer, and its tile where tiles move."""
    code = (event.touch.buffer_index + 1) << TILE_BITS
    return code + event.meant + 1 if event.touch.moves else code


class Unfinished(NamedTuple):
    """The fragments of asynchronous products: those added to, and those read as operands."""

    accumulators: frozenset[object]
    operands: frozenset[object]

    def joined(self, other: Unfinished) -> Unfinished:
        """The fragments of both."""
        return Unfinished(self.accumulators | other.accumulators, self.operands | other.operands)


class Memory:
    """Shared memory and registers of a block, between two steps.

    ``written`` holds a code a granule.  ``reads`` and ``writes`` are the events that some strand
    does not know to be over; in flight are ``copies``, the ``cp.async`` of each strand, ``stores``,
    the reads by its bulk copies to device memory, and ``products``, those by its products of warp
    groups, whose fragments are in ``unfinished``.  ``stored``, in kernels with bulk
    copies, tells of each granule that a plain store of strand s wrote last: 2 s + 1, or 2 s + 2
    behind a fence; 0 elsewhere, and where the strand has since told others of the fence.
    """

    def __init__(
        self, program: Program, newest_waited_for: int, newest_product_waited_for: int
    ) -> None:
        self.program = program
        touches = program.touches
        ends = [
            touch.base
            + touch.footprint.high
            + touch.stage_granules * (touch.buffer.stage_count - 1)
            for touch in touches
        ]
        wide = len(program.buffers) >= 1 << (31 - TILE_BITS)
        dtype = np.int64 if wide else np.int32
        self.written: npt.NDArray[np.int32 | np.int64] = np.zeros(max(ends, default=0), dtype)
        has_bulk = any(touch.is_bulk for touch in touches)
        self.stored = np.zeros(self.written.shape if has_bulk else 0, np.uint8)
        self.tiled = {touch.buffer_index for touch in touches if touch.moves}
        self.reads: Group = {}
        self.writes: Group = {}
        self.copies: dict[int, CopyGroups] = {}
        self.stores: dict[int, Group] = {}
        self.products: dict[int, CopyGroups] = {}
        self.unfinished: dict[int, list[Unfinished]] = {}
        self.fragments: dict[object, int] = {}
        """The strand that has written a fragment."""
        self.history: list[Event] = []
        self._kept_groups = newest_waited_for + 1
        self._kept_products = newest_product_waited_for + 1
        self._conflicts: dict[tuple[int, int, int, bool], int] = {}

    def forget(self, known: Clock) -> None:
        """Drops the events that have happened before whatever comes, as everyone knows."""

        def kept(group: Group) -> Group:
            return {
                key: event for key, event in group.items() if known[event.component] < event.epoch
            }

        self.reads, self.writes = kept(self.reads), kept(self.writes)

    def begin_block(self, fragments: Iterable[object]) -> None:
        """A strand begins its next block of the grid: these hold values of the one before."""
        for fragment in fragments:
            self.fragments.pop(fragment, None)

    def copies_of(self, strand: int) -> CopyGroups:
        """The asynchronous copies of a strand."""
        return self.copies.setdefault(strand, CopyGroups())

    def stores_of(self, strand: int) -> Group:
        """The bulk copies of a strand to device memory that may still read."""
        return self.stores.setdefault(strand, {})

    def commit(self, strand: int) -> None:
        """Closes the group of a strand's open copies."""
        self.copies_of(strand).commit(self._kept_groups)

    def wait(self, strand: int, pending: int, epoch: int) -> None:
        """All groups of a strand but the newest ``pending`` have landed; others do not know yet."""
        landed = self.copies_of(strand).land(pending)
        put(self.writes, *(replace(event, epoch=epoch) for event in landed))

    def fence(self, strand: int) -> None:
        """Each thread of a strand has run a fence behind what it stored."""
        self.stored[self.stored == 2 * strand + 1] = 2 * strand + 2

    def tell(self, strand: int) -> None:
        """The threads of a strand have told others how far they are."""
        if self.stored.size:
            self.stored[self.stored == 2 * strand + 2] = 0

    def wait_for_stores(self, strand: int, epoch: int) -> None:
        """The bulk copies of a strand to device memory have read their buffers."""
        finished = self.stores.pop(strand, {})
        put(self.reads, *(replace(event, epoch=epoch) for event in finished.values()))

    def multiply(
        self,
        strand: int,
        events: Iterable[Event],
        accumulators: Iterable[object],
        held: Iterable[object] = (),
    ) -> None:
        """A product of warp groups begins, which goes on behind the program.

        ``held`` are the operands that it reads from registers.
        """
        products = self.products.setdefault(strand, CopyGroups())
        put(products.open_group, *events)
        products.commit(self._kept_products)
        begun = Unfinished(frozenset(accumulators), frozenset(held))
        unfinished = [*self.unfinished.get(strand, []), begun]
        if len(unfinished) > self._kept_products + 1:
            unfinished[:2] = [unfinished[0].joined(unfinished[1])]
        self.unfinished[strand] = unfinished

    def wait_for_products(self, strand: int, pending: int, epoch: int) -> None:
        """All products of a strand but the newest ``pending`` are finished."""
        finished = self.products.setdefault(strand, CopyGroups()).land(pending)
        put(self.reads, *(replace(event, epoch=epoch) for event in finished))
        unfinished = self.unfinished.get(strand, [])
        self.unfinished[strand] = unfinished[max(len(unfinished) - pending, 0) :]

    def still_read(self) -> Iterator[Event]:
        """The reads by bulk copies and by products that are not over, the newest first."""
        for stores in self.stores.values():
            yield from reversed(stores.values())
        for products in self.products.values():
            yield from products.in_flight()

    def in_flight(self) -> Iterator[Event]:
        """Every ``cp.async`` that may still land."""
        for copies in self.copies.values():
            yield from copies.in_flight()

    def conflict(self, event: Event, other: Event, *, any_threads: bool) -> int | None:
        """A granule of shared memory that both events touch, by different threads.

        With ``any_threads`` one thread is enough.
        """
        low, high = max(event.low, other.low), min(event.high, other.high)
        if low >= high:
            return None
        distance = other.start - event.start
        key = (event.touch.index, other.touch.index, distance, any_threads)
        found = self._conflicts.get(key)
        if found is None:
            ours = event.touch.footprint.owners[low - event.low : high - event.low]
            theirs = other.touch.footprint.owners[low - other.low : high - other.low]
            clash = (ours != 0) & (theirs != 0)
            if not any_threads:
                clash &= (ours != theirs) | (ours < 0)
            found = low + int(clash.argmax()) - event.start if clash.any() else -1
            self._conflicts[key] = found
        return None if found < 0 else event.start + found

    def write(self, event: Event) -> None:
        """Records what an event leaves in memory once it has happened."""
        footprint = event.touch.footprint
        region = self.written[event.low : event.high]
        if footprint.is_whole:
            region[...] = code_of(event)
        else:
            np.copyto(region, code_of(event), where=footprint.touched)
        self.history.append(event)
        if self.stored.size:
            mark = 0 if event.touch.is_bulk else 2 * event.strand + 1
            self.stored[event.low : event.high][footprint.touched] = mark

    def first_unfenced(self, event: Event) -> int | None:
        """A granule of an event that a plain store wrote last, without a fence since."""
        stored = (self.stored[event.low : event.high] > 0) & event.touch.footprint.touched
        return event.low + int(stored.argmax()) if stored.any() else None

    def unexpected(self, event: Event) -> int | None:
        """A granule that a read finds with something else than the value it should see.

        It should see what was last written to the same buffer, and the tile of its own iteration
        where tiles move.
        """
        touch = event.touch
        plain = (touch.buffer_index + 1) << TILE_BITS
        tile = plain + event.meant + 1
        first, second = (tile, plain) if touch.buffer_index in self.tiled else (plain, tile)
        region = self.written[event.low : event.high]
        wrong = region != first
        if not touch.footprint.is_whole:
            wrong &= touch.footprint.touched
        if not wrong.any():
            return None
        wrong &= region != second
        return event.low + int(wrong.argmax()) if wrong.any() else None

    def last_writer(
        self, granule: int, chosen: Callable[[Event], bool] = lambda event: True
    ) -> Event | None:
        """The last event that wrote a granule, among those chosen."""
        for event in reversed(self.history):
            if event.low <= granule < event.high and chosen(event):
                position = granule - event.low
                if event.touch.footprint.touched[position]:
                    return event
        return None

    def skip(self, before: int, since: dict[int, int], iterations: int) -> None:
        """Names events of loops as those so many iterations later.

        Those of each strand from an iteration ``since`` on, of the block of the grid with
        ``before`` iterations before it.
        """

        def later(event: Event) -> Event:
            first = since.get(event.strand)
            if event.touch.place.phase != LOOP or first is None or event.iteration < first:
                return event
            if event.meant < before:
                return event
            return replace(event, iteration=event.iteration + iterations)

        def renamed(group: Group) -> Group:
            return {key: later(event) for key, event in group.items()}

        self.reads, self.writes = renamed(self.reads), renamed(self.writes)
        for copies in self.copies.values():
            copies.open_group = renamed(copies.open_group)
            copies.groups = [renamed(group) for group in copies.groups]
        for products in self.products.values():
            products.groups = [renamed(group) for group in products.groups]
        self.stores = {strand: renamed(group) for strand, group in self.stores.items()}
        self.history = [later(event) for event in self.history]

    def epochs(self) -> Iterator[tuple[int, int]]:
        """The epochs, by component of clocks, that events to come may be compared with."""
        for event in (*self.reads.values(), *self.writes.values()):
            yield event.component, event.epoch
            if event.settled:
                yield event.settling, event.settled

    def ordering_state(self, marks: Marks) -> object:
        """All but ``written``, in a form that compares equal for equal states."""

        def counted(group: Group) -> frozenset[object]:
            return frozenset(
                (
                    key,
                    marks.rank(event.component, event.epoch),
                    event.settled and marks.rank(event.settling, event.settled),
                )
                for key, event in group.items()
            )

        return (
            counted(self.reads),
            counted(self.writes),
            tuple((strand, copies.state()) for strand, copies in self.copies.items()),
            frozenset(self.fragments.items()),
            tuple((strand, frozenset(group)) for strand, group in self.stores.items()),
            tuple((strand, products.state()) for strand, products in self.products.items()),
            tuple((strand, tuple(ends)) for strand, ends in self.unfinished.items()),
            self.stored.tobytes(),
        )


def relative_codes(
    codes: npt.NDArray[np.int32 | np.int64], iteration: int, back: int
) -> npt.NDArray[np.int32 | np.int64]:
    """Codes with the tiles of ``back`` iterations before ``iteration``, and later, counted from it.

    Tiles that are past can never be the right ones again, except tile 0, which operators after
    the loop mean; they become two classes.
    """
    tiles = codes & TILES
    first = iteration - back
    renamed = np.where(tiles > first, tiles - first + 2, np.minimum(tiles, 2))
    return codes - tiles + renamed
