"""The sentences of findings that have an order: two operators, a byte, two threads, iterations."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.tensor_types import value_label
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.memory import Event
from mugraph.passes.schedule.analysis.hazards.program import Program, ProgramPoint


class Scene(NamedTuple):
    """What happens at the moment of a finding."""

    program: Program
    event: Event

    def address(self, granule: int) -> int:
        """A granule as a byte of shared memory."""
        return granule * self.program.granule

    def threads(self, event: Event, granule: int) -> list[int]:
        """Who touches a granule in an event."""
        return event.touch.threads_at(self.program.granule, granule - event.start)

    def describe(self, event: Event) -> str:
        """The operator of an event, its place and iteration."""
        return event.touch.place.describe(event.iteration)

    def says(self, event: Event, thread: int, granule: int) -> str:
        """``'sched.mma' of %a (...) reads %a at byte 0 of shared memory in thread 3``."""
        verb = "writes" if event.touch.is_write else "reads"
        return (
            f"{self.describe(event)} {verb} {_buffer(event)} at byte {self.address(granule)} of "
            f"shared memory in thread {thread}"
        )

    def finds(
        self, kind: HazardKind, other: Event, granule: int, threads: tuple[int, int], what: str
    ) -> Finding:
        """A finding on a byte that two events touch; ``what`` follows what the later one does."""
        return Finding(
            kind,
            (self.event.touch.place.operation, other.touch.place.operation),
            f"{self.says(self.event, threads[0], granule)}{what}",
            threads,
            self.address(granule),
        )

    def first_threads(self, other: Event, granule: int) -> tuple[int, int]:
        """The first thread of each event that touches a granule."""
        return self.threads(self.event, granule)[0], self.threads(other, granule)[0]


def _buffer(event: Event) -> str:
    return value_label(event.touch.access.value)


def _pair(scene: Scene, other: Event, granule: int) -> tuple[int, int]:
    """One thread of each event, different ones where there are."""
    ours, theirs = scene.threads(scene.event, granule), scene.threads(other, granule)
    for thread in ours:
        for against in theirs:
            if thread != against:
                return thread, against
    return ours[0], theirs[0]


def race_kind(event: Event, other: Event) -> HazardKind:
    """What kind of race two unordered events are, ``other`` being the earlier one."""
    if not event.touch.is_write:
        return HazardKind.READ_AFTER_WRITE
    return HazardKind.WRITE_AFTER_WRITE if other.touch.is_write else HazardKind.WRITE_AFTER_READ


def race(scene: Scene, other: Event, granule: int) -> Finding:
    """Two threads, or one operator through two buffers, with nothing to order them."""
    event = scene.event
    thread, against = _pair(scene, other, granule)
    verb = "writes" if other.touch.is_write else "reads"
    if thread == against:
        ending = "through another buffer, and nothing orders the accesses of one operator"
    elif event.strand == other.strand:
        ending = "and no barrier orders them"
    else:
        ending = "and neither a barrier nor a channel orders them"
    return scene.finds(
        race_kind(event, other),
        other,
        granule,
        (thread, against),
        f"; {scene.describe(other)} {verb} that byte, of "
        f"{_buffer(other)}, in thread {against}, {ending}",
    )


def in_flight(scene: Scene, copy: Event, granule: int, *, is_closed: bool) -> Finding:
    """An access to bytes of an asynchronous copy that may not have landed."""
    thread, against = scene.first_threads(copy, granule)
    verb = "writing"
    if copy.touch.access.proxy is sched.Proxy.WARPGROUP:
        verb, reason = "reading", "no 'sched.warpgroup_wait' between them covers it"
    elif copy.touch.is_bulk and not copy.touch.is_write:
        verb, reason = "reading", "no 'sched.bulk_wait' stands between them"
    elif copy.touch.is_bulk:
        reason = f"nothing has waited for its stage to be full with iteration {copy.tile}"
    elif is_closed:
        reason = "no 'sched.wait' between them covers the copy's group"
    else:
        reason = "no 'sched.commit' between them closes the copy's group"
    return scene.finds(
        HazardKind.IN_FLIGHT,
        copy,
        granule,
        (thread, against),
        f"; {scene.describe(copy)}, asynchronous, may still "
        f"be {verb} that byte, of {_buffer(copy)}, for thread {against}: {reason}",
    )


def missing_fence(scene: Scene, writer: Event, granule: int) -> Finding:
    """A bulk copy to bytes that plain stores wrote: the two take different paths to memory."""
    thread, against = scene.first_threads(writer, granule)
    return scene.finds(
        HazardKind.MISSING_FENCE,
        writer,
        granule,
        (thread, against),
        f"; {scene.describe(writer)} wrote that byte, of "
        f"{_buffer(writer)}, by a plain store in thread {against}, and no fence between the two "
        "paths to memory orders them",
    )


def unsettled(scene: Scene, read: Event, granule: int) -> Finding:
    """A bulk copy that may write under a load whose stage was released right behind it."""
    thread, against = scene.first_threads(read, granule)
    return scene.finds(
        HazardKind.MISSING_FENCE,
        read,
        granule,
        (thread, against),
        f"; {scene.describe(read)} reads that byte, of "
        f"{_buffer(read)}, in thread {against}, and may still do so: the release behind it "
        "overtakes loads. Release the stage behind the next 'sched.consume', or put a "
        "'sched.proxy_fence' before the release",
    )


def before_the_grid(place: ProgramPoint, iteration: int, access: sched.ThreadAccess) -> Finding:
    """An access to device memory while the kernel before may still run."""
    verb = "reads" if access.kind is sched.AccessKind.READ else "writes"
    return Finding(
        HazardKind.DEPENDENT_LAUNCH,
        (place.operation,),
        f"{place.describe(iteration)} {verb} {value_label(access.value)} in device memory before a "
        "'sched.grid_wait'; the kernel before this one may still be running and use it, and only "
        "inputs that are constant may be loaded so early",
    )


def unfinished_product(place: ProgramPoint, iteration: int, fragment: SSAValue) -> Finding:
    """An accumulator that is used while products are still added to it."""
    return Finding(
        HazardKind.IN_FLIGHT,
        (place.operation,),
        f"{place.describe(iteration)} uses {value_label(fragment)}, to which an asynchronous "
        "'sched.warpgroup_mma' may still be adding: no 'sched.warpgroup_wait' between covers it",
    )


def unfinished_operand(place: ProgramPoint, iteration: int, fragment: SSAValue) -> Finding:
    """A left operand in registers that is overwritten while products still read it."""
    return Finding(
        HazardKind.IN_FLIGHT,
        (place.operation,),
        f"{place.describe(iteration)} writes {value_label(fragment)}, which an asynchronous "
        "'sched.warpgroup_mma' may still be reading: no 'sched.warpgroup_wait' between covers it",
    )


def unfinished(scene: Scene) -> Finding:
    """A bulk copy that may still be under way when the block has ended."""
    event = scene.event
    if event.touch.is_write:
        verb = "writing"
        reason = f"nothing has waited for its stage to be full with iteration {event.tile}"
    else:
        is_product = event.touch.access.proxy is sched.Proxy.WARPGROUP
        waits = "warpgroup_wait" if is_product else "bulk_wait"
        verb, reason = "reading", f"no 'sched.{waits}' follows"
    return Finding(
        HazardKind.IN_FLIGHT,
        (event.touch.place.operation,),
        f"{scene.describe(event)}, asynchronous, may still be {verb} {_buffer(event)} when the "
        f"kernel ends: {reason}",
        (scene.threads(event, event.low)[0],),
        scene.address(event.low),
    )


def not_set_up(channel: sched.ChannelOp | sched.OrderBarrierOp) -> Finding:
    """A channel, or an order barrier, that roles may use before its mbarriers have been set up."""
    return Finding(
        HazardKind.PROTOCOL,
        (channel,),
        f"{value_label(channel.result)} is set up by one thread, and no 'sched.barrier' of the "
        "whole block stands between it and the roles, which may use it before",
    )


def never_written(scene: Scene, granule: int) -> Finding:
    """A read of bytes to which the buffer was never written."""
    event = scene.event
    thread = scene.threads(event, granule)[0]
    return Finding(
        HazardKind.NEVER_WRITTEN,
        (event.touch.place.operation,),
        f"{scene.says(event, thread, granule)}, to which nothing of {_buffer(event)} has been "
        "written",
        (thread,),
        scene.address(granule),
    )


def overwritten(scene: Scene, writer: Event, own: Event, granule: int) -> Finding:
    """A read of bytes in which another buffer now lies."""
    thread, against = _pair(scene, writer, granule)
    return scene.finds(
        HazardKind.OVERWRITTEN,
        writer,
        granule,
        (thread, against),
        f"; {scene.describe(own)} wrote it, but since then "
        f"{scene.describe(writer)} has written {_buffer(writer)} there, in thread {against}: the "
        "two buffers overlap",
    )


def wrong_tile(scene: Scene, writer: Event, granule: int) -> Finding:
    """A read that finds the tile of another iteration."""
    event = scene.event
    thread, against = scene.first_threads(writer, granule)
    return scene.finds(
        HazardKind.WRONG_TILE,
        writer,
        granule,
        (thread, against),
        f" and expects the tile of iteration "
        f"{event.tile}; what lies there is that of iteration "
        f"{writer.tile}, which {scene.describe(writer)} copied in thread "
        f"{against}",
    )
