"""Runs a schedule on abstract memory and collects every hazard.

*Why all threads at once.*  Control does not depend on the thread, so that all threads of a strand
(the block, or a role) execute one sequence of operators, and roles meet in channels, each wait of
which is for one arrival that it names.  So what happens before what is the same in every execution,
and the run follows one of them with vector clocks.  Two accesses of different threads are ordered
exactly if the clock of the later one's strand says so, two of one thread always are, what
``cp.async`` writes happens anywhere between the copy and the wait for its group, and what a bulk
copy writes anywhere between the copy and the wait for its stage.  Without a hazard between threads,
every execution therefore leaves the same bytes as the one followed, which tells whether every read
sees its own buffer's value.  A run that cannot go on is a deadlock in every execution.

*Why a bounded number of iterations.*  What an iteration does to the abstract memory depends on
that memory, on the iteration modulo the least common multiple L of all numbers of stages, and on
which copies ahead still run.  So once the state before iteration ``it`` equals that before ``it -
L`` (tiles, epochs and phases counted from the present), the next iterations repeat the last L one
for one, as long as copies ahead run; they are skipped in multiples of L and the loops go on with
their last ones.  The state is compared, not guessed: loops that do not repeat are followed to their
end.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards import messages
from mugraph.passes.schedule.analysis.hazards.checks import Checks
from mugraph.passes.schedule.analysis.hazards.clocks import Clocks
from mugraph.passes.schedule.analysis.hazards.cursor import Course, Cursor
from mugraph.passes.schedule.analysis.hazards.memory import Event, Memory, put, relative_codes
from mugraph.passes.schedule.analysis.hazards.program import Program, Step, Touch
from mugraph.passes.schedule.analysis.hazards.protocol import Counted, Moment, Protocol


@dataclass(frozen=True, eq=False)
class _Snapshot:
    iteration: int
    ordering: object
    written: npt.NDArray[np.int32 | np.int64]
    back: int
    ran: Counter[Counted]
    """How often steps of channels had run."""

    def repeats(self, other: _Snapshot) -> bool:
        """Whether two states are equal, each seen from its own iteration."""
        return self.ordering == other.ordering and np.array_equal(
            relative_codes(self.written, self.iteration, self.back),
            relative_codes(other.written, other.iteration, self.back),
        )


class Simulation:
    """One run of a program; ``without`` is an operator to leave out.

    Of a block that takes ``length`` blocks of the grid, the most that there are if it is not given.
    With ``first_only`` it ends at the first hazard; with ``every_iteration`` it skips none.  With
    ``synchronisation_only`` it leaves memory out and follows barriers and channels.
    """

    def __init__(
        self,
        program: Program,
        *,
        length: int | None = None,
        without: Operation | None = None,
        first_only: bool = False,
        every_iteration: bool = False,
        synchronisation_only: bool = False,
    ) -> None:
        self.program = program
        self.length = program.lengths[0] if length is None else length
        self.without = without
        self.first_only = first_only
        self.every_iteration = every_iteration
        self.synchronisation_only = synchronisation_only
        operations = [step.operation for segment in program.segments for step in segment.steps]
        waits = [op.pending_groups for op in operations if isinstance(op, sched.WaitOp)]
        ends = [op.pending_products for op in operations if isinstance(op, sched.WarpgroupWaitOp)]
        self.memory = Memory(program, max(waits, default=0), max(ends, default=0))
        strands = list(program.strands)
        self.clocks = Clocks(len(strands), program.channels, program.order_barriers)
        self._has_bulk = any(touch.is_bulk for touch in program.touches)
        self._back = program.looks_back()
        self.checks = Checks(program, self.memory, self.clocks)
        self.protocol = Protocol(self.clocks, self.checks.report)
        self._not_set_up: list[sched.ChannelOp | sched.OrderBarrierOp] = []
        self._running: list[int] = []

    def run(self) -> list[Finding]:
        """All hazards, one a kind and pair of operators."""
        return list(self.findings().values())

    def findings(self) -> dict[tuple[object, ...], Finding]:
        """All hazards, by their kinds and operators."""
        for section in self.program.sections:
            ping_pong = [
                strand for strand in section if strand.role and strand.role.ping_pong is not None
            ]
            course = Course(self.length, self.program.loop_range, len(ping_pong) or 1)
            if not self._run_section(course, [Cursor(strand, course) for strand in section]):
                return self.checks.findings
        self.checks.check_unfinished()
        return self.checks.findings

    @property
    def _is_done(self) -> bool:
        return self.first_only and bool(self.checks.findings)

    def _run_section(self, course: Course, cursors: list[Cursor]) -> bool:
        """Runs strands side by side to their ends; whether all of them got there."""
        before, self._running = self._running, [cursor.strand.index for cursor in cursors]
        self.clocks.begin(self._running, before)
        if any(cursor.strand.role is not None for cursor in cursors):
            for channel in self._not_set_up:
                self.checks.report(
                    (HazardKind.PROTOCOL, channel), lambda op=channel: messages.not_set_up(op)
                )
        stages = [
            touch.buffer.stage_count
            for cursor in cursors
            for segment in cursor.strand.segments
            if segment.iterations is not None or course.length > 1
            for step in segment.steps
            for touch in (*step.reads, *step.writes)
        ]
        stages += [channel.stage_count for channel in self.program.channels]
        stages += [segment.at_once for cursor in cursors for segment in cursor.strand.segments]
        period = math.lcm(*stages)
        snapshots: dict[tuple[int, int], _Snapshot] = {}
        of_blocks: dict[int, _Snapshot] = {}
        while any(cursor.step is not None for cursor in cursors) and not self._is_done:
            if not self.every_iteration:
                self._skip_blocks(course, cursors, period, of_blocks, snapshots)
                if self._skip(course, cursors, period, snapshots):
                    continue
            moved = [self._follow(cursor) for cursor in cursors]
            if not any(moved):
                self._report_deadlock(cursors)
                return False
        return not self._is_done

    def _skip(
        self,
        course: Course,
        cursors: list[Cursor],
        period: int,
        snapshots: dict[tuple[int, int], _Snapshot],
    ) -> bool:
        """Skips iterations if the state repeats; else notes the state.

        All strands are in their loops for one block of the list, or wait at an order barrier.
        """
        live = [cursor for cursor in cursors if cursor.step is not None]
        looping = [cursor for cursor in live if cursor.in_loop]
        if not looping or not all(cursor.is_warm for cursor in looping):
            return False
        if not all(cursor.in_loop or cursor.has_only_awaited for cursor in live):
            return False
        position = looping[0].position
        if any(cursor.position != position for cursor in looping):
            return False
        base = min(cursor.before + cursor.iteration for cursor in looping)
        room = min(cursor.repeats_up_to - cursor.iteration for cursor in looping)
        # A state is compared with that of a period before: of those between none is noted.
        first = next((at for block, at in snapshots if block == position), base)
        if room < period or (base - first) % period:
            return False
        places = [
            (
                c.strand.index,
                c.segment_index,
                c.step_index,
                c.before + c.iteration - base if c.in_loop else c.position,
            )
            for c in live
        ]
        snapshot = self._snapshot(base, live, tuple(places))
        earlier = snapshots.get((position, base - period))
        if earlier is None or not snapshot.repeats(earlier):
            snapshots[position, base] = snapshot
            return False
        skipped = room // period * period
        since = {cursor.strand.index: cursor.iteration - period for cursor in looping}
        self.protocol.repeat(earlier.ran, skipped // period)
        self.memory.skip(course.before(position), since, skipped)
        course.skip_iterations(position, skipped)
        for cursor in looping:
            cursor.skip(skipped, period)
        return True

    def _skip_blocks(
        self,
        course: Course,
        cursors: list[Cursor],
        period: int,
        snapshots: dict[int, _Snapshot],
        iterations: dict[tuple[int, int], _Snapshot],
    ) -> None:
        """Skips blocks of the list if the state repeats where a strand begins the next one.

        No strand has come to the end of the list then, and none does in what is skipped.  States of
        ``iterations`` before it are forgotten: what has run since is no period of theirs.
        """
        if course.length == 1 or not all(cursor.in_phases for cursor in cursors):
            return
        position = min(cursor.position for cursor in cursors)
        blocks = math.lcm(course.ping_pong, period // math.gcd(period, course.loop_range))
        furthest = max(cursor.position for cursor in cursors)
        room = (course.length - 1 - furthest) // blocks * blocks
        if not room or position in snapshots:
            return
        places = [
            (c.segment_index, c.step_index, c.iteration, c.iterations, c.position - position)
            for c in cursors
        ]
        snapshot = self._snapshot(course.before(position), cursors, tuple(places))
        earlier = snapshots.get(position - blocks)
        if earlier is None or not snapshot.repeats(earlier):
            snapshots[position] = snapshot
        else:
            self.protocol.repeat(earlier.ran, room // blocks)
            course.skip_blocks(room)
            iterations.clear()

    def _snapshot(self, base: int, live: list[Cursor], places: object) -> _Snapshot:
        marks = self.clocks.marks(self.memory.epochs())
        ordering = (
            places,
            self.clocks.state([cursor.strand.index for cursor in live], marks),
            self.memory.ordering_state(marks),
        )
        written = self.memory.written.copy()
        return _Snapshot(base, ordering, written, self._back, self.protocol.ran)

    def _follow(self, cursor: Cursor) -> bool:
        """Runs a strand up to the end of an iteration or a phase; whether it did anything."""
        moved = False
        while (step := cursor.step) is not None:
            if step.operation is not self.without and not self._run_step(step, cursor):
                return moved
            moved = True
            position = cursor.position
            over = cursor.advance()
            if cursor.position != position:
                self.memory.begin_block(cursor.strand.written_in_phases)
            if over or self._is_done:
                break
        return moved

    def _run_step(self, step: Step, cursor: Cursor) -> bool:
        """Runs a step of a strand; false where it must wait."""
        memory, strand = self.memory, cursor.strand.index
        match step.operation:
            case sched.ChannelOp() | sched.OrderBarrierOp() as op:
                self._not_set_up.append(op)
            case sched.BarrierOp():
                self.clocks.barrier(strand)
                self._not_set_up = []
                self._forget(strand)
            case sched.ClusterBarrierOp():
                pass  # between blocks; what it orders in one of them other steps order, too
            case sched.ProxyFenceOp():
                memory.fence(strand)
                self.clocks.settle(strand)
            case sched.BulkWaitOp():
                memory.wait_for_stores(strand, self.clocks.epochs[strand])
            case sched.CommitOp():
                memory.commit(strand)
            case sched.WaitOp() as op:
                memory.wait(strand, op.pending_groups, self.clocks.epochs[strand])
            case sched.GridWaitOp():
                self.clocks.of[strand][self.clocks.grid] = 1
            case sched.WarpgroupWaitOp() as op:
                memory.wait_for_products(strand, op.pending_products, self.clocks.epochs[strand])
            case sched.EmptyOp() as op:
                memory.fragments.pop(op.result, None)
            case sched.ChannelStepOp() as op:
                reference = op.stage
                if not reference.happens_at(cursor.iteration, cursor.iterations):
                    return True
                if not self.protocol.run(
                    op, self._moment(step, cursor, reference), cursor.meant(reference)
                ):
                    return False
                self._forget(strand)
            case sched.OrderStepOp() as op:
                if not self.protocol.order_step(
                    op, self._order_moment(step, cursor), cursor.position
                ):
                    return False
                self._forget(strand)
            case sched.WarpgroupMmaOp() as op if not op.stage.happens_at(
                cursor.iteration, cursor.iterations
            ):
                # It counts for waits, with nothing in it.
                memory.multiply(strand, (), ())
            case _:
                self._run_accesses(step, cursor)
        return True

    def _moment(self, step: Step, cursor: Cursor, reference: sched.StageReference) -> Moment:
        iteration = cursor.named_iteration
        before = cursor.course.named_before(cursor.position)
        meant = before + reference.iteration_at(iteration)
        return Moment(step.place, cursor.strand, iteration, meant)

    def _order_moment(self, step: Step, cursor: Cursor) -> Moment:
        return Moment(step.place, cursor.strand, 0, cursor.named_position)

    def _forget(self, strand: int) -> None:
        """A strand has told, or learnt, something."""
        if self.synchronisation_only:
            return
        self.memory.tell(strand)
        self.memory.forget(self.clocks.known_to_all(self._running))

    def _run_accesses(self, step: Step, cursor: Cursor) -> None:
        memory = self.memory
        strand = cursor.strand
        if self.synchronisation_only:
            if isinstance(step.operation, sched.BulkCopyOp):
                self._events(step, step.writes, cursor)
            return
        self.checks.check_launch(step, cursor)
        self.checks.check_fragments(step, cursor)
        product = step.operation if isinstance(step.operation, sched.WarpgroupMmaOp) else None
        self.checks.check_products(step, cursor)
        memory.fragments.update(dict.fromkeys(step.fragments_written, strand.index))
        reads = self._events(step, step.reads, cursor)
        writes = self._events(step, step.writes, cursor)
        for event in reads:
            self.checks.check_order(event)
            self.checks.check_value(event)
        if product is not None and product.is_async:
            held = (sched.registers_of(product.lhs),) if product.lhs_in_registers else ()
            sums = map(sched.registers_of, product.accumulators)
            memory.multiply(strand.index, reads, sums, held)
            return
        for event in reads:
            in_flight = event.touch.is_bulk
            put(memory.stores_of(strand.index) if in_flight else memory.reads, event)
        self.checks.check_step(reads, writes)
        for event in writes:
            memory.write(event)
            if event.touch.is_async:
                put(memory.copies_of(strand.index).open_group, event)
            else:
                put(memory.writes, event)

    def _events(self, step: Step, touches: tuple[Touch, ...], cursor: Cursor) -> list[Event]:
        return [
            self._event(step, touch, cursor)
            for touch in touches
            if touch.access.stage.happens_at(cursor.iteration, cursor.iterations)
        ]

    def _event(self, step: Step, touch: Touch, cursor: Cursor) -> Event:
        strand = component = cursor.strand.index
        reference = touch.access.stage
        meant = cursor.meant(reference)
        epoch = self.clocks.epochs[strand]
        op = touch.place.operation
        if isinstance(op, sched.BulkCopyOp) and touch.is_write:
            moment = self._moment(step, cursor, reference)
            component, epoch = self.protocol.copy(op, moment, meant)
        settles = self._has_bulk and not touch.is_write and touch.is_generic
        return Event(
            touch,
            touch.start(cursor.iteration, cursor.before),
            cursor.named_iteration,
            meant,
            strand,
            component,
            epoch,
            self.clocks.settling(strand),
            self.clocks.settled[strand] + 1 if settles else 0,
        )

    def _report_deadlock(self, cursors: list[Cursor]) -> None:
        waiting: list[Moment] = []
        for cursor in cursors:
            step = cursor.step
            if step is not None and isinstance(step.operation, sched.ChannelStepOp):
                waiting.append(self._moment(step, cursor, step.operation.stage))
            elif step is not None and isinstance(step.operation, sched.OrderStepOp):
                waiting.append(self._order_moment(step, cursor))
        ended = [cursor.strand for cursor in cursors if cursor.step is None]
        self.checks.report((HazardKind.DEADLOCK,), lambda: self.protocol.deadlock(waiting, ended))
