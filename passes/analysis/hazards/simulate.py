"""Runs a schedule on abstract memory and collects every hazard.

*Why all threads at once.*  Control does not depend on the thread, so that all threads execute one
sequence of operators; barriers cut it into epochs.  Two accesses of different threads are ordered
exactly if a barrier stands between them, two of one thread always are, and what ``cp.async``
writes happens anywhere between the copy and the wait for its group.  Without a hazard between
threads, every execution therefore leaves the same bytes as program order, and following program
order once tells whether every read sees its own buffer's value.

*Why a bounded number of iterations.*  What an iteration does to the abstract memory depends on
that memory, on the iteration modulo the least common multiple L of all numbers of stages, and on
which copies ahead still run.  So once the state before iteration ``it`` equals that before ``it -
L`` (tiles counted from the iteration), the next iterations repeat the last L one for one, as long
as copies ahead run; they are skipped in multiples of L and the loop goes on with its last ones.
The state is compared, not guessed: a loop that does not repeat is followed to its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from mugraph.dialects.sched import BarrierOp, CommitOp, FragmentOp, WaitOp
from mugraph.dialects.tensor_types import value_label
from mugraph.passes.analysis.hazards import messages
from mugraph.passes.analysis.hazards.findings import Finding, HazardKind
from mugraph.passes.analysis.hazards.memory import Event, Memory, relative_codes
from mugraph.passes.analysis.hazards.program import Program, Segment, Step, Touch


@dataclass(frozen=True, eq=False)
class _Snapshot:
    iteration: int
    ordering: object
    written: npt.NDArray[np.int32 | np.int64]

    def repeats(self, other: _Snapshot) -> bool:
        """Whether two states are equal, each seen from its own iteration."""
        return self.ordering == other.ordering and np.array_equal(
            relative_codes(self.written, self.iteration),
            relative_codes(other.written, other.iteration),
        )


def _is_in_place(write: Event, read: Event) -> bool:
    """Whether each thread writes exactly what it read with the same instruction.

    Only then is one operator safe that reads and writes the same bytes through two buffers: it may
    read several vectors before it writes the first.
    """
    return (
        write.start == read.start
        and write.touch.access.access_bytes == read.touch.access.access_bytes
        and write.touch.access.element_bytes == read.touch.access.element_bytes
        and np.array_equal(write.touch.access.offsets, read.touch.access.offsets)
    )


class Simulation:
    """One run of a program; ``without`` is an operator to leave out.

    With ``first_only`` it ends at the first hazard; with ``every_iteration`` it skips none.
    """

    def __init__(
        self,
        program: Program,
        *,
        without: Operation | None = None,
        first_only: bool = False,
        every_iteration: bool = False,
    ) -> None:
        self.program = program
        self.without = without
        self.first_only = first_only
        self.every_iteration = every_iteration
        waits = [
            step.operation.pending_groups
            for segment in program.segments
            for step in segment.steps
            if isinstance(step.operation, WaitOp)
        ]
        self.memory = Memory(program, max(waits, default=0))
        self.skipped = 0
        self._findings: dict[tuple[object, ...], Finding] = {}

    def run(self) -> list[Finding]:
        """All hazards, one a kind and pair of operators."""
        for segment in self.program.segments:
            if segment.iterations is None:
                self._run_steps(segment, 0, 1)
            else:
                self._run_loop(segment, segment.iterations)
        return list(self._findings.values())

    @property
    def _is_done(self) -> bool:
        return self.first_only and bool(self._findings)

    def _run_loop(self, segment: Segment, iterations: int) -> None:
        period = math.lcm(
            *(
                touch.buffer.stage_count
                for step in segment.steps
                for touch in (*step.reads, *step.writes)
            )
        )
        ahead = max(step.ahead for step in segment.steps)
        snapshots: list[_Snapshot] = []
        iteration = 0
        skipped = 0
        while iteration < iterations and not self._is_done:
            may_skip = not skipped and not self.every_iteration
            if may_skip and iteration + period <= iterations - ahead:
                now = _Snapshot(iteration, self.memory.ordering_state(), self.memory.written.copy())
                if iteration >= period and now.repeats(snapshots[iteration - period]):
                    skipped = (iterations - ahead - iteration) // period * period
                    iterations -= skipped
                    self.skipped = skipped
                    self.memory.skip(iteration - period, skipped)
                snapshots.append(now)
            if iteration < iterations:
                self._run_steps(segment, iteration, iterations)
            iteration += 1
        self.skipped = 0

    def _run_steps(self, segment: Segment, iteration: int, iterations: int) -> None:
        memory = self.memory
        for step in segment.steps:
            op = step.operation
            if op is self.without:
                continue
            match op:
                case BarrierOp():
                    memory.barrier()
                case CommitOp():
                    memory.commit()
                case WaitOp():
                    memory.wait(op.pending_groups)
                case FragmentOp():
                    memory.fragments.discard(op.result)
                case _:
                    self._run_step(step, iteration, iterations)
            if self._is_done:
                return

    def _run_step(self, step: Step, iteration: int, iterations: int) -> None:
        memory = self.memory
        for fragment in step.fragments_read:
            if fragment not in memory.fragments:
                self._report_fragment(step, fragment, iteration)
        memory.fragments.update(step.fragments_written)
        reads = self._events(step.reads, iteration, iterations)
        writes = self._events(step.writes, iteration, iterations)
        for event in reads:
            self._check_order(event)
            self._check_value(event)
        for event in reads:
            memory.reads[event.key] = event
        for event in writes:
            self._check_order(event)
            for read in reads:
                if read.touch.buffer is not event.touch.buffer and not _is_in_place(event, read):
                    self._check_pair(event, read, any_threads=True)
        for event in writes:
            memory.write(event)
            group = memory.open_group if event.touch.is_async else memory.writes
            group[event.key] = event

    def _events(self, touches: tuple[Touch, ...], iteration: int, iterations: int) -> list[Event]:
        return [
            Event(
                touch,
                touch.start(iteration),
                iteration + self.skipped,
                touch.access.stage.iteration_at(iteration),
            )
            for touch in touches
            if touch.access.stage.happens_at(iteration, iterations)
        ]

    def _check_order(self, event: Event) -> None:
        """Against everything since the last barrier, and against copies in flight."""
        memory = self.memory
        for other in memory.writes.values():
            self._check_pair(event, other)
        if event.touch.is_write:
            for other in memory.reads.values():
                self._check_pair(event, other)
        for other in memory.in_flight():
            granule = memory.conflict(event, other, any_threads=True)
            if granule is not None:
                is_closed = other.key not in memory.open_group
                self._report(
                    (HazardKind.IN_FLIGHT, event.touch.place, other.touch.place),
                    lambda at=granule, copy=other, closed=is_closed: messages.in_flight(
                        self._scene(event), copy, at, is_closed=closed
                    ),
                )

    def _check_pair(self, event: Event, other: Event, *, any_threads: bool = False) -> None:
        granule = self.memory.conflict(event, other, any_threads=any_threads)
        if granule is not None:
            kind = messages.race_kind(event, other)
            self._report(
                (kind, event.touch.place, other.touch.place),
                lambda: messages.race(self._scene(event), other, granule),
            )

    def _check_value(self, event: Event) -> None:
        granule = self.memory.unexpected(event)
        if granule is None:
            return
        memory = self.memory
        writer = memory.last_writer(granule)
        buffer = event.touch.buffer
        own = memory.last_writer(granule, lambda write: write.touch.buffer is buffer)
        scene = self._scene(event)
        if writer is None or own is None:
            self._report(
                (HazardKind.NEVER_WRITTEN, event.touch.place, buffer),
                lambda: messages.never_written(scene, granule),
            )
        elif writer.touch.buffer is not buffer:
            self._report(
                (HazardKind.OVERWRITTEN, event.touch.place, writer.touch.place),
                lambda: messages.overwritten(scene, writer, own, granule),
            )
        else:
            self._report(
                (HazardKind.WRONG_TILE, event.touch.place, writer.touch.place),
                lambda: messages.wrong_tile(scene, writer, granule),
            )

    def _scene(self, event: Event) -> messages.Scene:
        return messages.Scene(self.program, event)

    def _report(self, key: tuple[object, ...], make: Callable[[], Finding]) -> None:
        if key not in self._findings:
            self._findings[key] = make()

    def _report_fragment(self, step: Step, fragment: SSAValue, iteration: int) -> None:
        def make() -> Finding:
            return Finding(
                HazardKind.NEVER_WRITTEN,
                (step.operation,),
                f"{step.place.describe(iteration + self.skipped)} reads the fragment "
                f"{value_label(fragment)}, to which nothing has been written; fill it first",
            )

        self._report((HazardKind.NEVER_WRITTEN, step.place, fragment), make)
