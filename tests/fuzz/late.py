"""Programs whose devices read one another's memory, run late, and changed on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from fuzz.late_devices import LateDevices
from mugraph.dialects import kn
from mugraph.dialects.sharding import DeviceProgram, device_program, is_per_device
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.program.overlap import Way, overlap_collectives
from mugraph.passes.program.partition import PartitionPass
from mugraph.passes.program.partition.meetings import with_meetings
from mugraph.passes.program.partition.orders import (
    CALLS,
    Await,
    Count,
    Event,
    Raise,
    Streams,
    faults_of,
    streams_of,
)
from mugraph.passes.program.partition.segments import Step, segments_of
from mugraph.passes.program.use_peers import use_peers
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

Array = npt.NDArray[Any]
Events = list[list[Event]]
TOLERANCES = {"f32": 1e-4, "f16": 0.02}
"""How far results may be off, of themselves and of the largest one: f16 rounds by 0.0005 a step."""


class Late(NamedTuple):
    """A program of devices with what each of them does."""

    module: ModuleOp
    program: DeviceProgram
    steps: list[Step]
    returned: Sequence[SSAValue]

    @property
    def events(self) -> Events:
        """Of the functions of each device, in a call, and then of the copies of each."""
        return streams_of(self.steps, self.returned, self.program.mesh)

    @property
    def is_of_loads(self) -> bool:
        """Whether no collective is left to the library, which is not run late."""
        collectives = [step for step in self.steps if isinstance(step, kn.CollectiveOp)]
        return all(isinstance(step, kn.AllSliceOp) for step in collectives)


def late(
    module: ModuleOp,
    *,
    overlap: bool = False,
    way: Way | None = None,
    members: int | None = None,
) -> Late:
    """A program with its collectives as loads from other devices, partitioned where it is not.

    With ``overlap`` products are computed in parts, where they can be, of so many ``members``, or
    overlap in one way.
    """
    function = only_function(module)
    if not is_per_device(function):
        PartitionPass().apply(make_context(), module)
    if overlap:
        target = target_named("h200")
        overlap_collectives(function, target, everywhere=True, way=way, members=members)
    use_peers(function, everywhere=True)
    module.verify()
    program = device_program(function)
    last = function.get_return_op()
    assert program is not None
    assert last is not None
    return Late(module, program, with_meetings(segments_of(program), last.operands), last.operands)


def wrong(
    one: Late,
    events: Events,
    seed: int,
    calls: Sequence[Sequence[Array]] | None = None,
    tolerance: float | None = None,
) -> str | None:
    """How results differ from those of devices that run side by side; ``None`` if they do not.

    ``calls`` are the arguments of each call; without them they are drawn.  Without a ``tolerance``
    it is that of the element type.
    """
    if tolerance is None:
        types = map(element_type_of, one.program.argument_types)
        tolerance = TOLERANCES[str(next(types))]
    random = np.random.default_rng(seed)
    if calls is None:
        calls = [
            [random.standard_normal(shape_of(type_)) for type_ in one.program.argument_types]
            for _ in range(CALLS)
        ]
    devices = LateDevices(one.program, one.steps, events, random, one.returned)
    found = devices.run(calls)
    mesh = one.program.mesh
    for call, (inputs, of_devices) in enumerate(zip(calls, found, strict=True)):
        wholes = run_function(one.module, None, inputs, "float64")
        for device, results in enumerate(of_devices):
            for number, (result, whole) in enumerate(zip(results, wholes, strict=True)):
                sharding = one.program.results[number]
                if sharding.partial:
                    continue
                start = sharding.start(result.shape, mesh, device)
                part = whole[
                    tuple(slice(s, s + e) for s, e in zip(start, result.shape, strict=True))
                ]
                size = max(1.0, float(np.nanmax(np.abs(part), initial=0.0)))
                # What a program makes no number of, or none of its type, says nothing.
                known = np.abs(part) <= _largest(one.returned[number])
                off = tolerance * (np.abs(part) + size)
                if not (np.abs(result - part) <= off)[known].all():
                    return f"result {number} of device {device} in call {call} differs"
    return None


def _largest(value: SSAValue) -> float:
    """The largest number that a tensor holds, where it may be too small for what is computed."""
    is_half = str(element_type_of(value.type)) == "f16"
    return float(np.finfo(np.float16 if is_half else np.float32).max)


def mutants(events: Events) -> Iterator[tuple[str, Events]]:
    """What devices do with one event of one device, or of all, left out, twice, or elsewhere."""
    kinds: dict[type[Event], tuple[str, ...]] = {
        Await: ("left out", "twice", "another"),
        Raise: ("left out", "twice", "elsewhere", "another's"),
        Count: ("left out", "twice"),
    }
    count = len(events) // len(Streams._fields)
    firsts = range(0, len(events), count)
    streams = [(first, number) for first in firsts for number in range(len(events[first]))]
    for first, number in streams:
        event = events[first][number]
        for kind in kinds.get(type(event), ()):
            for devices in ([0], list(range(count))):
                changed = [list(own) for own in events]
                for device in devices:
                    own = changed[first + device]
                    own[number : number + 1] = _changed(own[number], kind, device, count)
                yield f"{type(event).__name__} {number} of {devices}: {kind}", changed


def _changed(event: Event, kind: str, device: int, count: int) -> list[Event]:
    match kind, event:
        case "twice", _:
            return [event, event]
        case "another", Await(axes, member):
            return [Await(axes, (member + 1) % count)]
        case "elsewhere", Raise(axes, at, member):
            return [Raise(axes, (at + 1) % count, member)]
        case "another's", Raise(axes, at, member):
            return [Raise(axes, at, (member + 1) % count)]
        case _:
            return []


def check_mutants(
    one: Late,
    most: int | None = None,
    seeds: int = 4,
    calls: Sequence[Sequence[Array]] | None = None,
    tolerance: float | None = None,
) -> tuple[int, int]:
    """How many mutants of a program are reported, and how many are harmless, as they should be.

    Of all of them, or of so many that are drawn.  Raises ``AssertionError`` for one that is not
    reported and computes something else.
    """
    found = [*mutants(one.events)]
    order = np.random.default_rng(seeds).permutation(len(found))[:most]
    reported = 0
    for name, events in [found[int(number)] for number in order]:
        if faults_of(events):
            reported += 1
            continue
        for seed in range(seeds):
            difference = wrong(one, events, seed, calls, tolerance)
            assert difference is None, f"{name} is not reported: {difference}"
    return reported, len(order) - reported
