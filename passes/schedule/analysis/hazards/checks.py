"""What is wrong with accesses, as memory and clocks know them when they happen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.tensor_types import value_label
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards import messages
from mugraph.passes.schedule.analysis.hazards.clocks import Clocks
from mugraph.passes.schedule.analysis.hazards.cursor import Cursor
from mugraph.passes.schedule.analysis.hazards.memory import Event, Memory
from mugraph.passes.schedule.analysis.hazards.program import Program, Step


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


class Checks:
    """Holds accesses against what has happened, and keeps the hazards: one a kind and operators."""

    def __init__(self, program: Program, memory: Memory, clocks: Clocks) -> None:
        self.program = program
        self.memory = memory
        self.clocks = clocks
        self.findings: dict[tuple[object, ...], Finding] = {}
        self._block_strands = {strand.index for strand in program.strands if strand.role is None}

    def report(self, key: tuple[object, ...], make: Callable[[], Finding]) -> None:
        """Keeps a hazard, the first of its key."""
        if key not in self.findings:
            self.findings[key] = make()

    def check_launch(self, step: Step, cursor: Cursor) -> None:
        """Nothing that depends on the kernels before comes before the wait for them."""
        if not step.dependent or self.clocks.of[cursor.strand.index][self.clocks.grid]:
            return
        for access in step.dependent:
            if access.stage.happens_at(cursor.iteration, cursor.iterations):
                self.report(
                    (HazardKind.DEPENDENT_LAUNCH, step.place, access.operand),
                    lambda access=access: messages.before_the_grid(
                        step.place, cursor.named_iteration, access
                    ),
                )

    def check_fragments(self, step: Step, cursor: Cursor) -> None:
        """What is read in registers, the strand has written."""
        # What the whole block wrote is there in each of its roles.
        writers = {cursor.strand.index} | self._block_strands
        for fragment in step.fragments_read:
            if self.memory.fragments.get(fragment) not in writers:
                self._report_fragment(step, fragment, cursor)

    def check_step(self, reads: Sequence[Event], writes: Sequence[Event]) -> None:
        """What an operator writes, against all before and against what it reads itself."""
        for event in writes:
            self.check_order(event)
            for read in reads:
                if read.touch.buffer is not event.touch.buffer and not _is_in_place(event, read):
                    self._check_pair(event, read, any_threads=True)

    def check_products(self, step: Step, cursor: Cursor) -> None:
        """Against the products that go on behind the program.

        Products in a row may add to one accumulator; nothing else may use it, nor write what they
        read.
        """
        unfinished = self.memory.unfinished.get(cursor.strand.index, ())
        added = frozenset[object]().union(*(product.accumulators for product in unfinished))
        read = frozenset[object]().union(*(product.operands for product in unfinished))
        product = step.operation if isinstance(step.operation, sched.WarpgroupMmaOp) else None
        sums = (
            [] if product is None else [sched.registers_of(value) for value in product.accumulators]
        )
        for fragment in (*step.fragments_read, *step.fragments_written):
            if fragment in added and fragment not in sums:
                self.report(
                    (HazardKind.IN_FLIGHT, step.place, fragment),
                    lambda value=fragment: messages.unfinished_product(
                        step.place, cursor.named_iteration, value
                    ),
                )
        for fragment in step.fragments_written:
            if fragment in read:
                self.report(
                    (HazardKind.IN_FLIGHT, step.place, fragment),
                    lambda value=fragment: messages.unfinished_operand(
                        step.place, cursor.named_iteration, value
                    ),
                )

    def check_order(self, event: Event) -> None:
        """Against all that the strand does not know to be over, and against copies in flight."""
        memory = self.memory
        clock = self.clocks.of[event.strand]
        for other in reversed(memory.writes.values()):
            if clock[other.component] < other.epoch:
                if other.touch.is_bulk:
                    self._check_in_flight(event, other)
                else:
                    self._check_pair(event, other)
        if event.touch.is_write:
            for other in reversed(memory.reads.values()):
                if clock[other.component] < other.epoch:
                    self._check_pair(event, other)
                elif event.touch.is_bulk and clock[other.settling] < other.settled:
                    self._check_settled(event, other)
            for other in memory.still_read():
                self._check_in_flight(event, other)
        for other in memory.in_flight():
            self._check_in_flight(event, other)
        if not event.touch.is_generic:
            granule = memory.first_unfenced(event)
            writer = None if granule is None else memory.last_writer(granule)
            if granule is not None and writer is not None:
                make = partial(messages.missing_fence, self._scene(event), writer, granule)
                self._report_pair(HazardKind.MISSING_FENCE, event, writer, make)

    def _report_pair(
        self, kind: HazardKind, event: Event, other: Event, make: Callable[[], Finding]
    ) -> None:
        self.report((kind, event.touch.place, other.touch.place), make)

    def _check_settled(self, event: Event, read: Event) -> None:
        granule = self.memory.conflict(event, read, any_threads=True)
        if granule is not None:
            make = partial(messages.unsettled, self._scene(event), read, granule)
            self._report_pair(HazardKind.MISSING_FENCE, event, read, make)

    def _check_in_flight(self, event: Event, copy: Event) -> None:
        granule = self.memory.conflict(event, copy, any_threads=True)
        if granule is not None:
            is_closed = copy.key not in self.memory.copies_of(copy.strand).open_group
            scene = self._scene(event)
            make = partial(messages.in_flight, scene, copy, granule, is_closed=is_closed)
            self._report_pair(HazardKind.IN_FLIGHT, event, copy, make)

    def check_unfinished(self) -> None:
        """No copy may land once the kernel has ended."""
        known = [max(reached) for reached in zip(*self.clocks.of, strict=True)]
        for event in self.memory.writes.values():
            if event.touch.is_bulk and known[event.component] < event.epoch:
                self.report(
                    (HazardKind.IN_FLIGHT, event.touch.place),
                    lambda event=event: messages.unfinished(self._scene(event)),
                )
        for event in self.memory.still_read():
            self.report(
                (HazardKind.IN_FLIGHT, event.touch.place),
                lambda event=event: messages.unfinished(self._scene(event)),
            )

    def _check_pair(self, event: Event, other: Event, *, any_threads: bool = False) -> None:
        granule = self.memory.conflict(event, other, any_threads=any_threads)
        if granule is not None:
            make = partial(messages.race, self._scene(event), other, granule)
            self._report_pair(messages.race_kind(event, other), event, other, make)

    def check_value(self, event: Event) -> None:
        """What is read is what the buffer was given last, of the iteration meant."""
        granule = self.memory.unexpected(event)
        if granule is None:
            return
        memory = self.memory
        writer = memory.last_writer(granule)
        buffer = event.touch.buffer
        own = memory.last_writer(granule, lambda write: write.touch.buffer is buffer)
        scene = self._scene(event)
        if writer is None or own is None:
            self.report(
                (HazardKind.NEVER_WRITTEN, event.touch.place, buffer),
                lambda: messages.never_written(scene, granule),
            )
        elif writer.touch.buffer is not buffer:
            make = partial(messages.overwritten, scene, writer, own, granule)
            self._report_pair(HazardKind.OVERWRITTEN, event, writer, make)
        else:
            make = partial(messages.wrong_tile, scene, writer, granule)
            self._report_pair(HazardKind.WRONG_TILE, event, writer, make)

    def _scene(self, event: Event) -> messages.Scene:
        return messages.Scene(self.program, event)

    def _report_fragment(self, step: Step, fragment: SSAValue, cursor: Cursor) -> None:
        def make() -> Finding:
            block, where = "", "first"
            if cursor.named_position:
                block = f" for block {cursor.named_position} of its list"
                where = "in a phase, which runs for each block"
            return Finding(
                HazardKind.NEVER_WRITTEN,
                (step.operation,),
                f"{step.place.describe(cursor.named_iteration)} reads the fragment "
                f"{value_label(fragment)}, to which nothing has been written{block}; fill it "
                f"{where}",
            )

        self.report((HazardKind.NEVER_WRITTEN, step.place, fragment), make)
