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
from typing import NamedTuple, TypeGuard

from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.sharding import Axes, DeviceProgram, Mesh
from mugraph.errors import UserError
from mugraph.passes.program.partition.meetings import (
    far_values,
    gathered_last,
    gives,
    takes,
    with_meetings,
)
from mugraph.passes.program.partition.segments import (
    Delivery,
    Exchange,
    Fetch,
    Meeting,
    Step,
    View,
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


class Tell(NamedTuple):
    """Lets another stream of a device go on that hears of this."""

    what: int


class Hear(NamedTuple):
    """Waits until another stream of a device tells of something in this call."""

    what: int


Event = Write | Read | Count | Raise | Await | Run | Tell | Hear
Clock = list[int]
"""How many events of each stream are known to have happened."""


class Streams(NamedTuple):
    """What a device does in a call: its functions, and beside them copies and meetings for these.

    Copies from others are one by one, and so are meetings; a meeting does not wait for a copy.
    """

    functions: list[Event]
    copies: list[Event]
    meetings: list[Event]


def events_of(
    steps: Sequence[Step], returned: Sequence[SSAValue], mesh: Mesh, device: int
) -> Streams:
    """What a device does in a call: tensors of exchanges are numbered in the order of steps.

    A copy of an exchange that functions wait for, too, reads as it begins and as something takes
    it.  What copies to others wait for is awaited before the first of them.
    """
    return _Writer(steps, mesh, device).streams(returned)


class _Writer:
    """Writes the events of a device."""

    def __init__(self, steps: Sequence[Step], mesh: Mesh, device: int) -> None:
        self._steps, self._mesh, self._device = steps, mesh, device
        self._exchanges = [step for step in steps if isinstance(step, Exchange | Delivery)]
        self._given = {value for step in steps for value in gives(step)}
        self._far = _reads(self._exchanges, mesh, device)
        self._made = _writes(self._exchanges, mesh, device)
        self._aside: dict[SSAValue, int] = {
            op.result: number
            for number, step in enumerate(steps)
            if is_beside(step)
            for op in step.peers
        }
        """What copies read beside functions, and the numbers of the exchanges."""
        self._gathered = gathered_last(steps)
        self._under_way: dict[SSAValue, list[Event]] = {}
        """What something does first that takes a copy."""
        self._before_copies: list[Event] = []
        """What copies to other devices wait for."""
        self._functions: list[Event] = []
        self._copies: list[Event] = []
        self._meetings: list[Event] = []

    def streams(self, returned: Sequence[SSAValue]) -> Streams:
        """The events of all steps, and of the end of a call, when all copies have ended."""
        for number in turns_of(self._steps, self._mesh, self._device):
            step = self._steps[number]
            if is_beside(step):
                self._meet_beside(number, step)
            elif isinstance(step, Exchange | Delivery | Meeting):
                self._meet(number, step)
            else:
                self._do(number, step)
        for value in [*self._under_way]:
            self._take(value)
        self._functions += dict.fromkeys(
            read for value in returned for read in self._far.get(value, ())
        )
        return Streams(self._functions, self._copies, self._meetings)

    def _do(self, number: int, step: Step) -> None:
        """What a device does by itself."""
        if isinstance(step, View) and step.op.input in self._under_way:
            before = self._under_way[step.op.input]
            self._under_way[step.op.result] = [*before, Run(number)]
            return
        if isinstance(step, Fetch) and step.op.input in self._aside:
            self._fetch_beside(number, step)
            return
        for value in takes(step):
            self._take(value)
        taken = [step.result] if isinstance(step, kn.AllSliceOp) else takes(step)
        reads = [*dict.fromkeys(read for value in taken for read in self._far.get(value, ()))]
        self._functions += reads
        if isinstance(step, Fetch):
            self._under_way[step.op.result] = [*reads, Run(number)]
        self._functions.append(Run(number))
        for write in (write for value in gives(step) for write in self._made.get(value, ())):
            if write.owner != self._device:
                self._functions += self._before_copies
                self._before_copies = []
            self._functions.append(write)

    def _take(self, value: SSAValue) -> None:
        """Waits for a copy, if a value is one that is under way."""
        self._functions += self._under_way.pop(value, ())

    def _fetch_beside(self, number: int, step: Fetch) -> None:
        """Copies from another device behind the meeting of the exchange.

        What this device made itself is copied from where it is, and waits for no other one.  The
        kernel that meets for the last exchange copies, too.
        """
        reads = self._far[step.op.input]
        if all(read.owner == self._device for read in reads):
            peer = step.op.input.owner
            assert isinstance(peer, kn.PeerOp)
            self._under_way[step.op.result] = [*self._far.get(peer.input, ()), Run(number)]
            return
        exchange = self._aside[step.op.input]
        copied = [*reads, Run(number), Tell(number)]
        if self._gathered is not None and exchange == self._gathered.exchange:
            self._meetings += copied
        else:
            self._copies += [Hear(self._met(exchange)), *copied]
        self._under_way[step.op.result] = [Hear(number)]

    def _meet(self, number: int, step: Exchange | Delivery | Meeting) -> None:
        """Meets where functions wait for it, or copies to others do."""
        self._functions += self._before_copies
        if not isinstance(step, Meeting):
            self._functions += self._laid_out(step)
        meets, awaits = self._meeting(step)
        is_for_copies = isinstance(step, Meeting) and step.beside
        self._functions += meets if is_for_copies else [*meets, *awaits]
        self._before_copies = awaits if is_for_copies else []

    def _meet_beside(self, number: int, step: Exchange) -> None:
        """Meets on the stream of meetings, behind what functions have done."""
        self._functions.append(Tell(number))
        self._meetings.append(Hear(number))
        if self._before_copies:
            self._meetings += [*self._before_copies, Tell(~number)]
            self._before_copies = [Hear(~number)]
        meets, awaits = self._meeting(step)
        self._meetings += [*self._laid_out(step), *meets, *awaits, Tell(self._met(number))]

    def _met(self, number: int) -> int:
        """What the stream of meetings tells when a device has met the others in an exchange."""
        return len(self._steps) + number

    def _laid_out(self, step: Exchange | Delivery) -> list[Event]:
        """What no function made is copied to where it is read."""
        tensor = self._exchanges.index(step)
        values = (step.value,) if isinstance(step, Exchange) else step.op.pieces
        copied = [each for each in values if each not in self._given]
        reads = dict.fromkeys(read for each in copied for read in self._far.get(each, ()))
        writes = [late for each in copied for late in self._made[each] if late.tensor == tensor]
        return [*reads, *writes]

    def _meeting(self, step: Exchange | Delivery | Meeting) -> tuple[list[Event], list[Event]]:
        """What a device says to the others, and what it waits for."""
        axes, device = step.axes, self._device
        others = [other for other in _group(self._mesh, axes, device) if other != device]
        said = [Raise(axes, other, device) for other in others]
        return [Count(axes), *said], [Await(axes, other) for other in others]


def is_beside(step: Step) -> TypeGuard[Exchange]:
    """Whether copies from others wait for an exchange, and functions go on."""
    return isinstance(step, Exchange) and step.beside


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
                owner = group[op.taken_place(group.index(device))]
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
    """A tensor as a stream laid it out in a call, and when it was read since, in which stream."""

    call: int
    stream: int
    at: int
    reads: dict[int, int] = field(default_factory=dict[int, int])


@dataclass
class Devices:
    """Devices in the midst of their calls, and what each of them knows to have happened."""

    events: Sequence[Sequence[Event]]
    """Of one call: of the functions of each device, then of the copies and the meetings of each."""
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
    told: dict[tuple[int, int, int], Clock] = field(
        default_factory=dict[tuple[int, int, int], Clock]
    )
    """What streams of a device told, by device, what it is, and call."""
    faults: dict[str, None] = field(default_factory=dict[str, None])

    def __post_init__(self) -> None:
        """Nobody has done anything."""
        self.clocks = [[0] * len(self.events) for _ in self.events]

    def device_of(self, stream: int) -> int:
        """Whose stream it is."""
        return stream % (len(self.events) // len(Streams._fields))

    def step(self, stream: int, event: Event, call: int) -> bool:
        """Lets a stream do an event; false where it has to wait."""
        clock, device = self.clocks[stream], self.device_of(stream)
        match event:
            case Await(axes, member):
                flag = self.awaited(device, axes, member)
                if flag is None:
                    return False
                clock[:] = map(max, clock, flag.clock)
            case Count(axes):
                self.counts[device, axes] = self.counts.get((device, axes), 0) + 1
            case Raise(axes, at, member):
                self._raise(stream, axes, at, member)
            case Write():
                self._write(stream, event, call)
            case Read():
                self._read(stream, event, call)
            case Tell(what):
                self.told[device, what, call] = [*clock]
            case Hear(what):
                told = self.told.get((device, what, call))
                if told is None:
                    return False
                clock[:] = map(max, clock, told)
            case Run():
                pass
        clock[stream] += 1
        return True

    def awaited(self, device: int, axes: Axes, member: int) -> Flag | None:
        """The first flag that lets a device go on."""
        times = self.counts.get((device, axes), 0)
        written = self.flags.get((axes, device, member), [])
        return next((flag for flag in written if flag.times >= times), None)

    def _raise(self, stream: int, axes: Axes, at: int, member: int) -> None:
        device = self.device_of(stream)
        written = self.flags.setdefault((axes, at, member), [])
        if any(flag.writer != device for flag in written):
            self.fault(
                f"the flag of device {member} at device {at} is written by devices "
                f"{written[0].writer} and {device}"
            )
        times = self.counts.get((device, axes), 0)
        written.append(Flag(times, device, [*self.clocks[stream]]))

    def _write(self, stream: int, event: Write, call: int) -> None:
        clock, device = self.clocks[stream], self.device_of(stream)
        key = (event.owner, event.tensor, device)
        before = self.tensors.get(key)
        if before is not None:
            for reader, at in before.reads.items():
                if clock[reader] < at:
                    self.fault(
                        f"device {device} lays out tensor {event.tensor} of call {call} while "
                        f"device {self.device_of(reader)} may still read that of call {before.call}"
                    )
        self.tensors[key] = Laid(call, stream, clock[stream] + 1)

    def _read(self, stream: int, event: Read, call: int) -> None:
        device, (tensor, owner, writer) = self.device_of(stream), event
        laid = self.tensors.get((owner, tensor, writer))
        clock = self.clocks[stream]
        is_known = laid is not None and (writer == device or clock[laid.stream] >= laid.at)
        if laid is None or laid.call != call or not is_known:
            self.fault(
                f"device {device} reads tensor {tensor} of device {writer} in call {call}, which "
                "may have laid out another call's"
            )
        if laid is not None and writer != device:
            laid.reads[stream] = clock[stream] + 1

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
        for stream, own in enumerate(events):
            while places[stream] < lengths[stream]:
                call, number = divmod(places[stream], len(own))
                if not devices.step(stream, own[number], call):
                    break
                places[stream] += 1
                goes_on = True
    for stream, own in enumerate(events):
        if places[stream] < lengths[stream]:
            call, number = divmod(places[stream], len(own))
            event, device = own[number], devices.device_of(stream)
            if isinstance(event, Hear):
                continue  # another stream of the device waits, too
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
    return faults_of(streams_of(steps, returned, mesh))


def streams_of(
    steps: Sequence[Step], returned: Sequence[SSAValue], mesh: Mesh
) -> list[list[Event]]:
    """What all devices do in a call: their functions, their copies, then their meetings beside."""
    every = [events_of(steps, returned, mesh, device) for device in mesh.devices]
    return [events for kind in zip(*every, strict=True) for events in kind]


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
