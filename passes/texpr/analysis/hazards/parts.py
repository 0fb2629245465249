"""Shared memory of other blocks of a cluster: there while these run, as clocks know."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mugraph.dialects import te
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.domains import Access
from mugraph.passes.texpr.analysis.hazards.clocks import Clocks, IntArray
from mugraph.passes.texpr.analysis.hazards.shadow import Event, Report
from mugraph.passes.texpr.analysis.hazards.touches import says


class Parts:
    """Who reaches into other blocks' parts of buffers, of ``blocks`` that are followed together."""

    def __init__(self, clocks: Clocks, blocks: int, report: Report) -> None:
        self.clocks = clocks
        self.blocks = blocks
        self.report = report
        self._last: dict[Access, IntArray] = {}
        """Of each access the last epoch of each thread in the part of each block; -1 for none."""

    def touch(self, event: Event) -> None:
        """A block has begun where a thread knows anything of one of its threads."""
        type_ = event.access.type
        if type_.memory_space is not te.Space.CLUSTER:
            return
        owners = event.numbers // type_.elements_of_block
        away = np.flatnonzero(owners != event.threads // (self.clocks.threads // self.blocks))
        if not len(away):
            return
        threads, owners = event.threads[away], owners[away]
        known = self._by_block(self.clocks.known[:, : self.clocks.threads])
        wrong = np.flatnonzero(known[threads, owners] < 0)
        if len(wrong):
            number = int(event.numbers[away[wrong[0]]])
            self._report(event.access, number, "may not run yet", "before")
        nothing = np.full((self.clocks.threads, self.blocks), -1, np.int64)
        last = self._last.setdefault(event.access, nothing)
        np.maximum.at(last, (threads, owners), event.epochs[away])

    def check_ends(self) -> None:
        """A block still runs where one of its threads knows, in the end, of the access."""
        known = self._by_block(self.clocks.known[:, : self.clocks.threads].T)
        for access, last in self._last.items():
            wrong = np.argwhere(last > known)
            if len(wrong):
                number = int(wrong[0][1]) * access.type.elements_of_block
                self._report(access, number, "may have ended", "behind")

    def _by_block(self, known: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The most of what is known of, or to, the threads of each block."""
        return known.reshape(self.clocks.threads, self.blocks, -1).max(axis=2)

    def _report(self, access: Access, number: int, state: str, where: str) -> None:
        block = number // access.type.elements_of_block
        self.report(
            HazardKind.NOT_RUNNING,
            (access.op,),
            f"{says(access, number)} in shared memory of block {block} of the cluster, which "
            f"{state}: no barrier of the cluster stands {where} it",
        )
