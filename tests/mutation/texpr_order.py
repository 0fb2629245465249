"""Whether mutants compute the same as their originals: in which order threads touch memory.

Where a kernel has no hazard, every run touches each element in the order of any other run.  So two
kernels without hazards whose threads do the same between their barriers, waits and fences compute
the same if each touch finds what the same touch left there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.at_sizes import kernels_at_sizes
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.hazards.block import BlockRun, FollowedRole
from mugraph.passes.texpr.analysis.hazards.clocks import IntArray
from mugraph.passes.texpr.analysis.hazards.grid import Grid, check_grid
from mugraph.passes.texpr.analysis.hazards.shadow import Event

Names: TypeAlias = dict[tuple[object, ...], int]
"""The number of each access in each iteration, for all runs that are compared."""
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Found(NamedTuple):
    """What was left at some places: by which access and agent, and what was combined with it."""

    labels: IntArray
    agents: IntArray
    combined: npt.NDArray[np.uint64]


class Order:
    """What each touch of a run finds; the same touches have the same numbers in other runs."""

    def __init__(self, kernel: te.KernelOp, names: Names) -> None:
        self._names = names
        self._keys = dict(_keys_of(kernel))
        self._rows: list[npt.NDArray[np.uint64]] = []

    def label(self, access: Access, iteration: tuple[int, ...]) -> int:
        """The number of an access in an iteration of the loops around it."""
        where = source_name(access.buffer), str(access.expressions), access.kind
        key = (self._keys[access.op], *where, *iteration)
        return self._names.setdefault(key, len(self._names))

    def note(self, label: int, threads: IntArray, places: IntArray, found: Found) -> None:
        """Threads touch places, where they find this."""
        columns = (threads, places, found.labels, found.agents, found.combined)
        every = (np.full(len(threads), label), *columns)
        self._rows.append(np.stack([one.astype(np.uint64) for one in every], axis=1))

    def combine(self, label: int, threads: IntArray) -> npt.NDArray[np.uint64]:
        """A number of what each thread combines, whose sums are the same in any order."""
        mixed = (np.uint64(label) * _MIX + threads.astype(np.uint64) + np.uint64(1)) * _MIX
        return (mixed ^ (mixed >> np.uint64(29))) * _MIX

    def rows(self) -> npt.NDArray[np.uint64]:
        """All that was noted, in an order that does not depend on the turns of threads."""
        if not self._rows:
            return np.empty((0, 6), np.uint64)
        rows = np.concatenate(self._rows)
        return rows[np.lexsort(rows.T)]


def _keys_of(kernel: te.KernelOp) -> Iterator[tuple[Operation, tuple[object, ...]]]:
    """What tells an operator that touches memory from others: its own text, and its number."""
    seen: dict[tuple[object, ...], int] = {}
    for op in kernel.walk():
        if isinstance(op, (te.HasTouches, te.AllReduceOp)):
            operands = tuple((one.name_hint, str(one.type)) for one in op.operands)
            key = (op.name, str(sorted(op.properties.items(), key=str)), operands)
            seen[key] = seen.get(key, -1) + 1
            yield op, (*key, seen[key])


def touch_alike(one: te.KernelOp, other: te.KernelOp) -> bool:
    """Whether two kernels without hazards, which differ in how threads wait, compute the same.

    They do if each touch of memory finds what the same touch of the same thread left there before:
    in the blocks that are followed, at the sizes that are followed.  What blocks of one kernel pass
    on through device memory is not followed, so that it says no.
    """
    names: Names = {}
    kernels = zip(kernels_at_sizes(one), kernels_at_sizes(other), strict=True)
    return all(_same_order(mine.kernel, theirs.kernel, names) for mine, theirs in kernels)


def _same_order(one: te.KernelOp, other: te.KernelOp, names: Names) -> bool:
    if one.is_cooperative or other.is_cooperative:
        return False
    grids = check_grid(one), check_grid(other)
    for block in grids[0].blocks:
        mine = _rows_of_block(one, grids[0], block, names)
        theirs = _rows_of_block(other, grids[1], block, names)
        if not np.array_equal(mine, theirs):
            return False
    return True


def _rows_of_block(
    kernel: te.KernelOp, grid: Grid, block: int, names: Names
) -> npt.NDArray[np.uint64]:
    order, run = Order(kernel, names), BlockRun(kernel, grid.shared_in_block, block)
    _keep(run, order)
    run.findings()
    return order.rows()


def _keep(run: BlockRun, order: Order) -> None:
    """Lets a run tell ``order`` what each touch of memory finds."""
    memory, touched = run.memory, run.touched
    label_of: dict[Event, int] = {}
    labels = np.full(len(memory.writer), -1, np.int64)
    """Of what has written each granule last."""
    combined = np.zeros(len(memory.writer), np.uint64)
    """What has been combined with each granule since it was written."""

    def named(event: Event, role: FollowedRole) -> Event:
        label_of[event] = order.label(event.access, tuple(role.values.values()))
        return event

    def all_named(found: Callable[..., Iterable[Event]]) -> Callable[..., Iterator[Event]]:
        return lambda *asked: (named(event, asked[-1]) for event in found(*asked))

    reduced, check, touch, write = (
        touched.by_reduction,
        memory.check_written,
        memory.touch,
        memory.write,
    )

    def check_written(event: Event) -> None:
        writers = memory.writer[event.places]
        before = np.where(writers < 0, -1, labels[event.places])
        found = Found(before, writers, combined[event.places])
        order.note(label_of[event], event.threads, event.places, found)
        check(event)

    def touch_so(event: Event, under_way: Iterable[Event]) -> None:
        touch(event, under_way)
        if event.access.writes and event.access.kind is not te.AccessKind.WRITE:
            mixed = order.combine(label_of[event], event.threads)
            np.add.at(combined, event.places, mixed)

    def write_so(event: Event, *how: Any) -> None:
        write(event, *how)
        labels[event.places] = label_of[event]
        combined[event.places] = 0

    touched.by_threads = all_named(touched.by_threads)
    touched.by_engine = all_named(touched.by_engine)
    touched.by_reduction = lambda *asked: named(reduced(*asked), asked[-1])
    memory.check_written, memory.touch, memory.write = check_written, touch_so, write_so
