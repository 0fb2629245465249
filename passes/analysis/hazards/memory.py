"""Abstract memory of a block: what was written last, what was touched since the last barrier.

``Memory`` knows nothing of loops.  It is fed the touches of a schedule in program order, and asks
of each whether another order of the threads, or a later landing of an asynchronous copy, could
give it other bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mugraph.passes.analysis.hazards.program import LOOP, Program, Touch

Key: TypeAlias = tuple[int, int]
"""A touch by its index, and the granule of shared memory that its footprint counts from."""

TILE_BITS = 20
"""Bits of a granule's code that hold the tile; the bits above hold the buffer."""
TILES = (1 << TILE_BITS) - 1
NOTHING = 0
"""The code of a granule that nothing has written."""


@dataclass(frozen=True, eq=False)
class Event:
    """A touch as it happens: in which iteration, and where its stage starts.

    ``meant`` is the iteration whose tile the touch means, counted without those skipped.
    """

    touch: Touch
    start: int
    iteration: int
    meant: int

    @property
    def tile(self) -> int:
        """The iteration whose stage or tile the touch means."""
        return self.touch.access.stage.iteration_at(self.iteration)

    @property
    def key(self) -> Key:
        """What tells events apart as far as memory goes."""
        return self.touch.index, self.start

    @property
    def low(self) -> int:
        """The first granule of shared memory touched."""
        return self.start + self.touch.footprint.low

    @property
    def high(self) -> int:
        """One past the last granule of shared memory touched."""
        return self.start + self.touch.footprint.high


Group: TypeAlias = dict[Key, Event]
"""Asynchronous copies that one commit closed."""


def code_of(event: Event) -> int:
    """What the granules hold that an event wrote: its buffer, and its tile where tiles move."""
    code = (event.touch.buffer_index + 1) << TILE_BITS
    return code + event.meant + 1 if event.touch.moves else code


class Memory:
    """Shared memory and registers of a block, between two steps.

    ``written`` holds a code a granule.  ``reads`` and ``writes`` are the events since the last
    barrier, which no other thread is ordered with; ``groups`` the copies in flight, oldest group
    first, and ``open_group`` those not committed yet.
    """

    def __init__(self, program: Program, newest_waited_for: int) -> None:
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
        self.tiled = {touch.buffer_index for touch in touches if touch.moves}
        self.reads: Group = {}
        self.writes: Group = {}
        self.open_group: Group = {}
        self.groups: list[Group] = []
        self.fragments: set[object] = set()
        self.history: list[Event] = []
        self._kept_groups = newest_waited_for + 1
        self._conflicts: dict[tuple[int, int, int, bool], int] = {}

    def barrier(self) -> None:
        """All accesses before are ordered with all accesses after."""
        self.reads = {}
        self.writes = {}

    def commit(self) -> None:
        """Closes the group of open copies.

        Groups older than any wait leaves in flight behave alike and are merged, so that their
        number is bounded.
        """
        self.groups.append(self.open_group)
        self.open_group = {}
        if len(self.groups) > self._kept_groups + 1:
            oldest = self.groups.pop(0)
            self.groups[0] = oldest | self.groups[0]

    def wait(self, pending: int) -> None:
        """All groups but the newest ``pending`` have landed; other threads do not know yet."""
        landed = max(len(self.groups) - pending, 0)
        for group in self.groups[:landed]:
            self.writes |= group
        self.groups = self.groups[landed:]

    def in_flight(self) -> Iterable[Event]:
        """Every copy that may still land."""
        for group in (*self.groups, self.open_group):
            yield from group.values()

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

    def skip(self, since: int, iterations: int) -> None:
        """Names the events of the loop from iteration ``since`` on as those so many later."""

        def later(event: Event) -> Event:
            if event.touch.place.phase != LOOP or event.iteration < since:
                return event
            return replace(event, iteration=event.iteration + iterations)

        def renamed(group: Group) -> Group:
            return {key: later(event) for key, event in group.items()}

        self.reads, self.writes = renamed(self.reads), renamed(self.writes)
        self.open_group = renamed(self.open_group)
        self.groups = [renamed(group) for group in self.groups]
        self.history = [later(event) for event in self.history]

    def ordering_state(self) -> object:
        """All but ``written``, in a form that compares equal for equal states."""
        return (
            frozenset(self.reads),
            frozenset(self.writes),
            frozenset(self.open_group),
            tuple(frozenset(group) for group in self.groups),
            frozenset(self.fragments),
        )


def relative_codes(
    codes: npt.NDArray[np.int32 | np.int64], iteration: int
) -> npt.NDArray[np.int32 | np.int64]:
    """Codes with the tiles of ``iteration`` and later counted from it.

    Tiles that are past can never be the right ones again, except tile 0, which operators after
    the loop mean; they become two classes.
    """
    tiles = codes & TILES
    renamed = np.where(tiles > iteration, tiles - iteration + 2, np.minimum(tiles, 2))
    return codes - tiles + renamed
