"""Memory as hazards see it: who wrote and read each place last, and who knows.

Memory is told apart in granules, of what all accesses of the kernel move whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import te
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te.points import Rows
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.evaluate import addresses_of_numbers
from mugraph.passes.texpr.analysis.hazards.clocks import Clocks, IntArray
from mugraph.passes.texpr.analysis.hazards.grid import ON_CHIP, race_kind
from mugraph.passes.texpr.analysis.hazards.touches import describe, named, says
from mugraph.passes.texpr.analysis.roles import takes_turns

Report: TypeAlias = Callable[..., None]
"""Takes a hazard: its kind, the operators, the later one first, what is said of it, and perhaps two
threads and an element."""
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
    clash: tuple[int, int] | None = None
    """Two rows of a write by different threads to one place."""


class Shadow:
    """Shared memory of blocks while their kernel is followed, and elements of device memory.

    ``blocks`` are those of a cluster that are followed together.  ``elements`` are the numbers of
    those that are followed, of each buffer in order.
    """

    def __init__(
        self,
        kernel: te.KernelOp,
        clocks: Clocks,
        elements: Mapping[SSAValue, Rows],
        report: Report,
        blocks: int = 1,
    ) -> None:
        self.of_block = kernel.threads.iterations
        self.threads = self.of_block * blocks
        self.clocks = clocks
        self.report = report
        self.granule = _granule(kernel)
        self._elements = elements
        self._firsts: dict[SSAValue, int] = {}
        self._granules = -(-(kernel.smem_bytes or 0) // self.granule) + 1
        """Those of a block."""
        granules = self._granules * blocks
        for buffer, numbers in elements.items():
            self._firsts[buffer] = granules
            granules += len(numbers)
        self._by_engines = any(isinstance(op, te.BulkLoadOp) for op in kernel.walk())
        self._hands_over = takes_turns(kernel.threads)
        self.writer = np.full(granules, -1, np.int64)
        """Who has written a granule last: a thread, or what its clocks call the copy."""
        self.written_in = np.zeros(granules, np.int64)
        self.fenced_in = np.full(granules, -1, np.int64)
        """Of ordinary stores, in which epoch their thread has run a fence since."""
        self._last = np.zeros(granules, np.int64)
        self._writes: list[Event] = []
        self.others: list[Event] = []
        """What has read or combined elements, and need not be known to all."""
        self._mine = np.zeros(granules, np.int64)

    def event(self, access: Access, threads: Rows, numbers: Rows) -> Event:
        """Rows by thread and element as rows by granule of memory."""
        if access.buffer in self._firsts:
            places = np.searchsorted(self._elements[access.buffer], numbers)
            return self._event(access, threads, places + self._firsts[access.buffer], numbers)
        size = element_bytes_of(access.type)
        new = access.buffer.owner
        assert isinstance(new, te.NewOp) and new.byte_offset is not None
        block, inside = threads // self.of_block, addresses_of_numbers(access.type, numbers)
        if access.type.memory_space is te.Space.CLUSTER:
            block, inside = np.divmod(inside, access.type.elements_of_block)
        addresses = inside * size + new.byte_offset
        parts = max(1, size // self.granule)
        firsts = addresses // self.granule + block * self._granules
        places = (firsts[:, None] + np.arange(parts)).reshape(-1)
        threads, numbers = np.repeat(threads, parts), np.repeat(numbers, parts)
        if self.granule > size:
            _, kept = np.unique(places * self.threads + threads, return_index=True)
            threads, numbers, places = threads[kept], numbers[kept], places[kept]
        return self._event(access, threads, places, numbers)

    def _event(self, access: Access, threads: Rows, places: Rows, numbers: Rows) -> Event:
        writes = access.kind is te.AccessKind.WRITE
        clash = _clash_in(places, threads) if writes else None
        return Event(access, threads, places, numbers, self.epochs_of(threads), None, clash)

    def epochs_of(self, threads: Rows) -> IntArray:
        """The epochs that threads are in."""
        return self.clocks.epochs[threads].astype(np.int64)

    def fence(self, threads: Rows) -> None:
        """Threads have run a fence behind what they have written."""
        now = np.flatnonzero((self.fenced_in == NEVER) & np.isin(self.writer, threads))
        self.fenced_in[now] = self.epochs_of(self.writer[now])

    def touch(self, event: Event, under_way: Iterable[Event]) -> None:
        """What threads read, write or combine with numbers."""
        if event.access.kind is te.AccessKind.WRITE:
            self.write(event, under_way)
            return
        self.check_written(event)
        if event.access.writes or any(other.access.writes for other in self.others):
            self._check_others(event, under_way, by_copy=False)
        if self._by_engines and not event.access.writes:
            event.settled = np.full(len(event.places), NEVER)
        self.others.append(event)

    def write(self, event: Event, under_way: Iterable[Event], agents: Rows | None = None) -> None:
        """A write of threads, or of copies: ``agents`` are what clocks call these.

        ``under_way`` are the reads by engines that are not over.
        """
        if event.clash is not None:
            self._report_pair(event, *event.clash[:1], event, event.clash[1])
        self.check_written(event)
        self._check_others(event, under_way, by_copy=agents is not None)
        self.writer[event.places] = event.threads if agents is None else agents
        self.written_in[event.places] = event.epochs
        self.fenced_in[event.places] = NEVER if agents is None else -1
        self._last[event.places] = len(self._writes)
        self._writes.append(event)

    def check_written(self, event: Event) -> None:
        """Whether what was written last has happened before."""
        writers = self.writer[event.places]
        known = self.clocks.ordered(event.threads, writers, self.written_in[event.places])
        wrong = np.flatnonzero((writers >= 0) & ~known)
        if len(wrong):
            row = _plainest(wrong, event.threads[wrong], writers[wrong], event.places[wrong])
            self._report_pair(event, row, self._writes[int(self._last[event.places[row]])])

    def check_fence(self, event: Event) -> None:
        """Whether fences have happened between ordinary stores and what an engine reads."""
        fenced, writers = self.fenced_in[event.places], self.writer[event.places]
        known = (event.threads == writers) & (fenced < NEVER)
        known |= self.clocks.known[event.threads, writers] >= fenced
        wrong = np.flatnonzero((fenced >= 0) & ~known)
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
        for event in self.others if self._by_engines else ():
            if event.settled is not None:
                now = (event.settled == NEVER) & np.isin(event.threads, threads)
                event.settled[now] = self.epochs_of(event.threads[now])

    def _check_others(self, event: Event, under_way: Iterable[Event], *, by_copy: bool) -> None:
        """Whether all that reads these places, or combines them otherwise, has happened before."""
        order = np.argsort(event.places, kind="stable")
        places, starts, counts = np.unique(
            event.places[order], return_index=True, return_counts=True
        )
        self._mine[places] = np.arange(1, len(places) + 1)
        for other in (*self.others, *under_way):
            if not event.access.conflicts(other.access):
                continue
            rows = self._mine[other.places]
            hit = np.flatnonzero(rows)
            if not len(hit):
                continue
            # Of each row there each of this place here.
            groups = rows[hit] - 1
            many = counts[groups]
            first = np.repeat(starts[groups] - np.r_[0, np.cumsum(many)[:-1]], many)
            mine = order[first + np.arange(len(first))]
            hit = np.repeat(hit, many)
            known = self.clocks.known[event.threads[mine], other.threads[hit]] >= other.epochs[hit]
            same = (event.threads[mine] == other.threads[hit]) & (other.epochs[hit] < NEVER)
            wrong = np.flatnonzero(~(known | same))
            if len(wrong):
                threads, others = event.threads[mine[wrong]], other.threads[hit[wrong]]
                one = _plainest(wrong, threads, others, other.places[hit[wrong]])
                self._report_pair(event, int(mine[one]), other, int(hit[one]))
            elif by_copy and other.settled is not None:
                self._check_settled(event, mine, other, hit)
        self._mine[places] = 0

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
        self.others = [
            event
            for event in self.others
            if (known[event.threads] < event.epochs).any()
            or (event.settled is not None and (known[event.threads] < event.settled).any())
        ]

    def _report_pair(
        self, event: Event, row: int, other: Event, other_row: int | None = None
    ) -> None:
        if other_row is None:
            other_row = int(np.flatnonzero(other.places == event.places[row])[0])
        op, before = event.access.op, other.access.op
        thread, earlier = int(event.threads[row]), int(other.threads[other_row])
        number = int(other.numbers[other_row])
        kind = race_kind(other.access, event.access)
        missing = "neither a barrier nor an mbarrier orders them"
        if not self._hands_over:
            scope = "warp" if thread // WARP == earlier // WARP else "block"
            if thread // self.of_block != earlier // self.of_block:
                scope = "cluster"
            missing = f"no barrier of the {scope} orders them"
        if isinstance(before, te.BulkLoadOp):
            kind, missing = HazardKind.IN_FLIGHT, "nothing has waited for the phase of its mbarrier"
        elif isinstance(before, te.AsyncCopy) and thread == earlier:
            missing = "no 'te.wait' for the copy stands between them"
        elif other.epochs[other_row] == NEVER:
            wait = "cp_async_bulk_wait_group"
            if isinstance(before, te.WarpgroupMmaOp):
                wait = "warpgroup.wait_group"
            kind, missing = HazardKind.IN_FLIGHT, f"no '{wait}' covers it"
        self.report(
            kind,
            (op, before),
            f"{describe(other.access, number)} in {self.thread(earlier)}; "
            f"{describe(event.access, int(event.numbers[row]))} in {self.thread(thread)}, and "
            f"{missing}",
            (thread, earlier),
            number,
        )

    def thread(self, number: int) -> str:
        """``thread 3``, or ``thread 3 of block 1 of the cluster``."""
        block, thread = divmod(number, self.of_block)
        several = self.threads > self.of_block
        return f"thread {thread}" + (f" of block {block} of the cluster" if several else "")

    def unfinished(self) -> Iterator[Access]:
        """The writes by copies that nobody knows to have landed."""
        known = self.clocks.known.max(axis=0)
        copied = np.flatnonzero(self.writer >= self.threads)
        late = copied[known[self.writer[copied]] < self.written_in[copied]]
        for number in sorted({int(one) for one in self._last[late]}):
            yield self._writes[number].access


def _clash_in(places: IntArray, threads: IntArray) -> tuple[int, int] | None:
    """Two rows of one place and different threads, preferably of different warps."""
    order = np.lexsort((threads, places))
    firsts = np.flatnonzero(np.r_[True, np.diff(places[order]) != 0])
    lasts = np.r_[firsts[1:], len(order)] - 1
    one, other = order[firsts], order[lasts]
    wrong = np.flatnonzero(threads[one] != threads[other])
    if not len(wrong):
        return None
    at = _plainest(wrong, threads[one[wrong]], threads[other[wrong]], places[one[wrong]])
    return int(one[at]), int(other[at])


def _plainest(rows: IntArray, threads: IntArray, others: IntArray, places: IntArray) -> int:
    """The row that shows a hazard best: in two warps, at the first place."""
    return int(rows[np.lexsort((places, threads // WARP == others // WARP))[0]])


def _granule(kernel: te.KernelOp) -> int:
    """The bytes of shared memory that are told apart: what all accesses move whole."""
    sizes: list[int] = []
    for touch in te.touches_in(kernel):
        if touch.type.memory_space not in ON_CHIP:
            continue
        size = element_bytes_of(touch.type)
        moved = size * touch.box[-1]
        sizes.append(_UNIT if touch.offsets is not None or moved % _UNIT == 0 else size)
    for op in kernel.walk():
        if isinstance(op, te.AllReduceOp) and op.scratch is not None:
            sizes.append(element_bytes_of(op.scratch.type))
    return min(sizes, default=_UNIT)
