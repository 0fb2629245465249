"""Shared memory as hazards see it: who wrote and read each place last, and who knows.

Memory is told apart in granules, of what all accesses of the kernel move whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.locations import place_of
from mugraph.dialects.te.points import Rows
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.evaluate import addresses_of_numbers
from mugraph.passes.texpr.analysis.hazards.clocks import Clocks, IntArray
from mugraph.passes.texpr.analysis.hazards.grid import race_kind
from mugraph.passes.texpr.analysis.hazards.touches import touched_element
from mugraph.passes.texpr.te_promote import OFFSET

Report: TypeAlias = Callable[[HazardKind, tuple[Operation, ...], str], None]
"""Takes a hazard: its kind, the operators, the later one first, and what is said of it."""
NEVER = np.iinfo(np.int32).max
"""The epoch of what is under way: nobody knows that it is over."""
_UNIT = 16
"""The bytes that engines move together."""


@dataclass(eq=False)
class Event:
    """What an operator touches at a moment: a row a thread and granule of shared memory."""

    access: Access
    threads: IntArray
    places: IntArray
    numbers: IntArray
    epochs: IntArray
    """Of the threads; of what is not over yet later than any."""
    settled: IntArray | None = None
    """Of loads of threads: in which epochs they are known to have brought their values."""


class Shadow:
    """Shared memory of a block while its kernel is followed."""

    def __init__(self, kernel: te.KernelOp, clocks: Clocks, report: Report) -> None:
        self.threads = kernel.threads.iterations
        self.clocks = clocks
        self.report = report
        self.granule = _granule(kernel)
        granules = -(-(kernel.smem_bytes or 0) // self.granule) + 1
        self.writer = np.full(granules, -1, np.int64)
        """Who has written a granule last: a thread, or the mbarrier that a copy counts at."""
        self.written_in = np.zeros(granules, np.int64)
        self.unfenced = np.zeros(granules, np.bool_)
        """Whether that was an ordinary store, and its thread has run no fence since."""
        self._last = np.zeros(granules, np.int64)
        self._writes: list[Event] = []
        self.reads: list[Event] = []
        self._mine = np.zeros(granules, np.int64)

    def event(self, access: Access, threads: Rows, numbers: Rows) -> Event:
        """Rows by thread and element as rows by granule of memory."""
        size = element_bytes_of(access.type)
        addresses = addresses_of_numbers(access.type, numbers) * size + _offset(access.buffer)
        parts = max(1, size // self.granule)
        places = (addresses[:, None] // self.granule + np.arange(parts)).reshape(-1)
        threads, numbers = np.repeat(threads, parts), np.repeat(numbers, parts)
        if self.granule > size:
            _, kept = np.unique(places * self.threads + threads, return_index=True)
            threads, numbers, places = threads[kept], numbers[kept], places[kept]
        return Event(access, threads, places, numbers, self.epochs_of(threads))

    def epochs_of(self, threads: Rows) -> IntArray:
        """The epochs that threads are in."""
        return self.clocks.epochs[threads].astype(np.int64)

    def fence(self, threads: Rows) -> None:
        """Threads have run a fence behind what they have written."""
        self.unfenced &= ~np.isin(self.writer, threads)

    def write(
        self, event: Event, under_way: Iterable[Event], agent: int | None = None, epoch: int = 0
    ) -> None:
        """A write of threads, or of a copy that counts at an mbarrier.

        ``under_way`` are the reads by engines that are not over.
        """
        self.check_written(event)
        self._check_read(event, under_way, by_copy=agent is not None)
        self.writer[event.places] = event.threads if agent is None else agent
        self.written_in[event.places] = event.epochs if agent is None else epoch
        self.unfenced[event.places] = agent is None
        self._last[event.places] = len(self._writes)
        self._writes.append(event)

    def check_written(self, event: Event) -> None:
        """Whether what was written last has happened before."""
        writers = self.writer[event.places]
        known = self.clocks.ordered(event.threads, writers, self.written_in[event.places])
        wrong = np.flatnonzero((writers >= 0) & ~known)
        if len(wrong):
            row = int(wrong[0])
            self._report_pair(event, row, self._writes[int(self._last[event.places[row]])])

    def check_fence(self, event: Event) -> None:
        """Whether fences stand between ordinary stores and what an engine reads."""
        wrong = np.flatnonzero(self.unfenced[event.places])
        if len(wrong):
            place = event.places[wrong[0]]
            writer = self._writes[int(self._last[place])]
            self.report(
                HazardKind.MISSING_FENCE,
                (event.access.op, writer.access.op),
                f"{says(event.access, int(event.numbers[wrong[0]]))}, which "
                f"{named(writer.access.op)} wrote by an ordinary store in thread "
                f"{self.writer[place]}, and no 'fence_proxy' orders them",
            )

    def settle(self, threads: Rows) -> None:
        """The loads of threads have brought their values: they wait, or run a fence, behind them.

        Arrivals at mbarriers, and barriers of a warp, overtake loads that nothing has used yet.
        """
        for event in self.reads:
            if event.settled is not None:
                now = (event.settled == NEVER) & np.isin(event.threads, threads)
                event.settled[now] = self.epochs_of(event.threads[now])

    def _check_read(self, event: Event, under_way: Iterable[Event], *, by_copy: bool) -> None:
        """Whether all that reads these places has happened before."""
        self._mine[event.places] = np.arange(1, len(event.places) + 1)
        for other in (*self.reads, *under_way):
            rows = self._mine[other.places]
            hit = np.flatnonzero(rows)
            if not len(hit):
                continue
            mine = rows[hit] - 1
            known = self.clocks.known[event.threads[mine], other.threads[hit]] >= other.epochs[hit]
            same = (event.threads[mine] == other.threads[hit]) & (other.epochs[hit] < NEVER)
            wrong = np.flatnonzero(~(known | same))
            if len(wrong):
                self._report_pair(event, int(mine[wrong[0]]), other, int(hit[wrong[0]]))
            elif by_copy and other.settled is not None:
                self._check_settled(event, mine, other, hit)
        self._mine[event.places] = 0

    def _check_settled(self, event: Event, mine: Rows, other: Event, rows: Rows) -> None:
        """Whether the loads of places that a copy overwrites have brought their values."""
        assert other.settled is not None
        settled = other.settled[rows]
        known = self.clocks.known[event.threads[mine], other.threads[rows]] >= settled
        same = (event.threads[mine] == other.threads[rows]) & (settled < NEVER)
        wrong = np.flatnonzero(~(known | same))
        if len(wrong):
            row = int(rows[wrong[0]])
            self.report(
                HazardKind.MISSING_FENCE,
                (event.access.op, other.access.op),
                f"{says(other.access, int(other.numbers[row]))} in thread {other.threads[row]}, "
                f"and may still do so when {named(event.access.op)} writes there: arrivals "
                "overtake loads; a 'fence_proxy' before the arrival orders them",
            )

    def drop_known(self, running: Rows) -> None:
        """Forgets reads that all threads that still run know to be over."""
        known = self.clocks.known[running].min(axis=0)
        self.reads = [
            event
            for event in self.reads
            if (known[event.threads] < event.epochs).any()
            or (event.settled is not None and (known[event.threads] < event.settled).any())
        ]

    def _report_pair(
        self, event: Event, row: int, other: Event, other_row: int | None = None
    ) -> None:
        if other_row is None:
            other_row = int(np.flatnonzero(other.places == event.places[row])[0])
        later = says(event.access, int(event.numbers[row]))
        earlier = says(other.access, int(other.numbers[other_row]))
        op, before = event.access.op, other.access.op
        kind = race_kind(other.access, event.access)
        if isinstance(before, te.BulkLoadOp):
            kind, missing = HazardKind.IN_FLIGHT, "nothing has waited for the phase of its mbarrier"
        elif other.epochs[other_row] == NEVER:
            wait = "cp_async_bulk_wait_group"
            if isinstance(before, te.WarpgroupMmaOp):
                wait = "warpgroup.wait_group"
            kind, missing = HazardKind.IN_FLIGHT, f"no '{wait}' covers it"
        else:
            missing = "neither a barrier nor an mbarrier orders them"
        self.report(
            kind,
            (op, before),
            f"{earlier} in thread {other.threads[other_row]}; {later} in thread "
            f"{event.threads[row]}, and {missing}",
        )

    def unfinished(self) -> Iterator[Access]:
        """The writes by copies that nobody knows to have landed."""
        known = self.clocks.known.max(axis=0)
        copied = np.flatnonzero(self.writer >= self.threads)
        late = copied[known[self.writer[copied]] < self.written_in[copied]]
        for number in sorted({int(one) for one in self._last[late]}):
            yield self._writes[number].access


def _granule(kernel: te.KernelOp) -> int:
    """The bytes of shared memory that are told apart: what all accesses move whole."""
    sizes: list[int] = []
    for touch in te.touches_in(kernel):
        if touch.type.memory_space is not te.Space.SHARED:
            continue
        size = element_bytes_of(touch.type)
        moved = size * touch.box[-1]
        sizes.append(_UNIT if touch.offsets is not None or moved % _UNIT == 0 else size)
    return min(sizes, default=_UNIT)


def _offset(buffer: SSAValue) -> int:
    owner = buffer.owner
    offset = owner.attributes.get(OFFSET) if isinstance(owner, Operation) else None
    assert isinstance(offset, IntegerAttr)
    return offset.value.data


def says(access: Access, number: int) -> str:
    """``'te.bulk_load' (gemm.py:54:13) writes sa[0]``."""
    return f"{named(access.op)} {touched_element(access, number)}"


def named(op: Operation) -> str:
    """``'te.bulk_load' (gemm.py:54:13)``."""
    place = place_of(op)
    return f"'{op.name}'" if place is None else f"'{op.name}' ({place})"


__all__ = ["NEVER", "Event", "Shadow", "named", "says"]
