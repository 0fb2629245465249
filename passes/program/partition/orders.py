"""Whether devices that read one another's memory are kept in order by their flags, come what may.

What a device does is a list of events: it lays out a tensor, reads one of another device, counts a
meeting, raises a flag at another device, waits for one.  Flags say how often a device has met; they
only grow, and nobody takes one away.  Therefore whether a device goes on does not depend on the
order in which others arrive: if all of them end in one order, they do so in any.  What is known to
have happened before an event is the least that any order guarantees: who waits for a count knows
what the device had done that raised the first flag of at least that count, and no more.

A program is right if in call after call each tensor is laid out before it is read, and read by all
before it is laid out again.  Three calls show all there is: in the second and the third one devices
do the same after the same, with counts that are larger by as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.sharding import Axes, DeviceProgram, Mesh
from mugraph.errors import UserError
from mugraph.passes.program.partition.meetings import far_values, gives, takes, with_meetings
from mugraph.passes.program.partition.segments import (
    Delivery,
    Exchange,
    Fetch,
    Meeting,
    Step,
    segments_of,
)
from mugraph.passes.program.partition.turns import turns_of

CALLS = 3


class Write(NamedTuple):
    """Lays out the tensor of an exchange in the memory of a device, or delivers a part of it."""

    tensor: int
    owner: int


class Read(NamedTuple):
    """Reads the tensor of an exchange in the memory of a device, or what one delivered there."""

    tensor: int
    owner: int
    writer: int


class Count(NamedTuple):
    """Counts one meeting more of a group."""

    axes: Axes


class Raise(NamedTuple):
    """Writes the count into a flag at a device: that of a member, which should be the writer."""

    axes: Axes
    at: int
    member: int


class Await(NamedTuple):
    """Waits until the flag of a member has the count of this device."""

    axes: Axes
    member: int


class Run(NamedTuple):
    """Computes what a step gives of what was read for it."""

    step: int


Event = Write | Read | Count | Raise | Await | Run
Clock = list[int]
"""How many events of each device are known to have happened."""


def events_of(
    steps: Sequence[Step], returned: Sequence[SSAValue], mesh: Mesh, device: int
) -> list[Event]:
    """What a device does in a call: tensors of exchanges are numbered in the order of steps.

    A copy that goes on beside other steps reads as it begins and as something takes it.  What such
    copies wait for is awaited before the first of them.
    """
    exchanges = [step for step in steps if isinstance(step, Exchange | Delivery)]
    given = {value for step in steps for value in gives(step)}
    far = _reads(exchanges, mesh, device)
    made = _writes(exchanges, mesh, device)
    under_way: dict[SSAValue, Fetch] = {}
    events: list[Event] = []
    beside: list[Event] = []
    """What copies to other devices wait for."""
    for number in turns_of(steps, mesh, device):
        step = steps[number]
        for value in takes(step):
            if value in under_way:
                fetch = under_way.pop(value)
                events += [*far[fetch.op.input], Run(steps.index(fetch))]
        taken = [step.result] if isinstance(step, kn.AllSliceOp) else takes(step)
        events += dict.fromkeys(read for value in taken for read in far.get(value, ()))
        if isinstance(step, Fetch):
            under_way[step.op.result] = step
        if not isinstance(step, Exchange | Delivery | Meeting):
            events.append(Run(number))
        for write in (write for value in gives(step) for write in made.get(value, ())):
            if write.owner != device:
                events += beside
                beside = []
            events.append(write)
        if isinstance(step, Exchange | Delivery | Meeting):
            events += beside
            beside = []
        if isinstance(step, Exchange | Delivery):
            # What no function made is copied to where it is read.
            tensor = exchanges.index(step)
            values = (step.value,) if isinstance(step, Exchange) else step.op.pieces
            copied = [each for each in values if each not in given]
            events += dict.fromkeys(read for each in copied for read in far.get(each, ()))
            events += [late for each in copied for late in made[each] if late.tensor == tensor]
        if isinstance(step, Exchange | Delivery | Meeting):
            others = [d for d in _group(mesh, step.axes, device) if d != device]
            events.append(Count(step.axes))
            events += [Raise(step.axes, other, device) for other in others]
            awaits: list[Event] = [Await(step.axes, other) for other in others]
            beside = awaits if isinstance(step, Meeting) and step.beside else []
            events += [] if beside else awaits
    events += dict.fromkeys(read for value in returned for read in far.get(value, ()))
    return events


def _reads(
    exchanges: Sequence[Exchange | Delivery], mesh: Mesh, device: int
) -> dict[SSAValue, list[Read]]:
    """What a device reads of others where it takes a value."""
    found: dict[SSAValue, list[Read]] = {}
    for number, exchange in enumerate(exchanges):
        group = _group(mesh, exchange.axes, device)
        if isinstance(exchange, Delivery):
            for value in far_values(exchange.value):
                found[value] = [Read(number, device, writer) for writer in group]
        else:
            for op in exchange.peers:
                owner = group[op.kept_place]
                reads = [Read(number, owner, owner)]
                found |= dict.fromkeys(far_values(op.result), reads)
    return found


def _writes(
    exchanges: Sequence[Exchange | Delivery], mesh: Mesh, device: int
) -> dict[SSAValue, list[Write]]:
    """Where a device lays out the values that it makes."""
    found: dict[SSAValue, list[Write]] = {}
    for number, exchange in enumerate(exchanges):
        if isinstance(exchange, Delivery):
            group = _group(mesh, exchange.axes, device)
            for value, owner in zip(exchange.op.pieces, group, strict=True):
                found.setdefault(value, []).append(Write(number, owner))
        else:
            found.setdefault(exchange.value, []).append(Write(number, device))
    return found


def _group(mesh: Mesh, axes: Axes, device: int) -> tuple[int, ...]:
    return next(group for group in mesh.groups(axes) if device in group)


class Flag(NamedTuple):
    """A count that was written, by whom, and what had happened then."""

    times: int
    writer: int
    clock: Clock


@dataclass
class Laid:
    """A tensor as a device laid it out in a call, and when it was read since, by whom."""

    call: int
    at: int
    reads: dict[int, int] = field(default_factory=dict[int, int])


@dataclass
class Devices:
    """Devices in the midst of their calls, and what each of them knows to have happened."""

    events: Sequence[Sequence[Event]]
    """Of one call of each device."""
    clocks: list[Clock] = field(default_factory=list[Clock])
    counts: dict[tuple[int, Axes], int] = field(default_factory=dict[tuple[int, Axes], int])
    flags: dict[tuple[Axes, int, int], list[Flag]] = field(
        default_factory=dict[tuple[Axes, int, int], list[Flag]]
    )
    """By group, device at which it is, and member."""
    tensors: dict[tuple[int, int, int], Laid] = field(
        default_factory=dict[tuple[int, int, int], Laid]
    )
    """By the device at which it is, its number, and who wrote it."""
    faults: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        """Nobody has done anything."""
        self.clocks = [[0] * len(self.events) for _ in self.events]

    def step(self, device: int, event: Event, call: int) -> bool:
        """Lets a device do an event; false where it has to wait."""
        clock = self.clocks[device]
        match event:
            case Await(axes, member):
                flag = self.awaited(device, axes, member)
                if flag is None:
                    return False
                clock[:] = map(max, clock, flag.clock)
            case Count(axes):
                self.counts[device, axes] = self.counts.get((device, axes), 0) + 1
            case Raise(axes, at, member):
                self._raise(device, axes, at, member)
            case Write():
                self._write(device, event, call)
            case Read():
                self._read(device, event, call)
            case Run():
                pass
        clock[device] += 1
        return True

    def awaited(self, device: int, axes: Axes, member: int) -> Flag | None:
        """The first flag that lets a device go on."""
        times = self.counts.get((device, axes), 0)
        written = self.flags.get((axes, device, member), [])
        return next((flag for flag in written if flag.times >= times), None)

    def _raise(self, device: int, axes: Axes, at: int, member: int) -> None:
        written = self.flags.setdefault((axes, at, member), [])
        if any(flag.writer != device for flag in written):
            self.fault(
                f"the flag of device {member} at device {at} is written by devices "
                f"{written[0].writer} and {device}"
            )
        times = self.counts.get((device, axes), 0)
        written.append(Flag(times, device, [*self.clocks[device]]))

    def _write(self, device: int, event: Write, call: int) -> None:
        clock = self.clocks[device]
        key = (event.owner, event.tensor, device)
        before = self.tensors.get(key)
        if before is not None:
            for reader, at in before.reads.items():
                if clock[reader] < at:
                    self.fault(
                        f"device {device} lays out tensor {event.tensor} of call {call} while "
                        f"device {reader} may still read that of call {before.call}"
                    )
        self.tensors[key] = Laid(call, clock[device] + 1)

    def _read(self, device: int, event: Read, call: int) -> None:
        tensor, owner, writer = event
        laid = self.tensors.get((owner, tensor, writer))
        clock = self.clocks[device]
        if laid is None or laid.call != call or (writer != device and clock[writer] < laid.at):
            self.fault(
                f"device {device} reads tensor {tensor} of device {writer} in call {call}, which "
                "may have laid out another call's"
            )
        if laid is not None and writer != device:
            laid.reads[device] = clock[device] + 1

    def fault(self, sentence: str) -> None:
        """Notes what is wrong, once."""
        self.faults[sentence] = None


def faults_of(events: Sequence[Sequence[Event]]) -> list[str]:
    """What can go wrong in some order of arrival, as sentences; nothing where all is in order."""
    devices = Devices(events)
    places = [0] * len(events)
    lengths = [len(each) * CALLS for each in events]
    goes_on = True
    while goes_on:
        goes_on = False
        for device, own in enumerate(events):
            while places[device] < lengths[device]:
                call, number = divmod(places[device], len(own))
                if not devices.step(device, own[number], call):
                    break
                places[device] += 1
                goes_on = True
    for device, own in enumerate(events):
        if places[device] < lengths[device]:
            call, number = divmod(places[device], len(own))
            event = own[number]
            assert isinstance(event, Await)
            devices.fault(
                f"device {device} waits for ever in call {call}: for device {event.member} to have "
                f"met {devices.counts.get((device, event.axes), 0)} times"
            )
    return list(devices.faults)


def check_order(steps: Sequence[Step], returned: Sequence[SSAValue], mesh: Mesh) -> list[str]:
    """What can go wrong with what devices read of one another; nothing where all is in order."""
    if not any(isinstance(step, Exchange | Delivery) for step in steps):
        return []
    return faults_of([events_of(steps, returned, mesh, device) for device in mesh.devices])


def steps_in_order(program: DeviceProgram) -> list[Step]:
    """What a device does, with meetings that keep all of them in order.

    Raises ``UserError`` where that cannot be proved.
    """
    last = program.function.get_return_op()
    assert last is not None
    steps = with_meetings(segments_of(program), last.operands)
    faults = check_order(steps, last.operands, program.mesh)
    if faults:
        name = program.function.sym_name.data
        raise UserError(f"{name}: its devices are not kept in order: {faults[0]}.")
    return steps
