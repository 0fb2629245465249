"""In which order the threads of a block touch memory, as a run finds it.

Where a kernel has no hazard, every run touches each element in the order of any other run.  So two
kernels without hazards whose threads do the same between their barriers, waits and fences compute
the same if each touch finds what the same touch left there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from mugraph.dialects import te
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.hazards.clocks import IntArray

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
