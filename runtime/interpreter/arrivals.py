"""Devices that read one another's memory, in a random order of arrival, with memory that is late.

What a device has laid out is seen by another one no sooner than the flags guarantee, or sooner by
chance: a read gives any state of the tensor from the last one that must be seen to the newest, and
NaN where none must.  Events are those of ``passes/program/partition/orders.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import kn
from mugraph.dialects.sharding import DeviceProgram, Sharding
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.program.partition.orders import Await, Devices, Event, Read, Run, Write
from mugraph.passes.program.partition.segments import Exchange, Segment, Step
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import part_of
from mugraph.runtime.interpreter.run import run_function


class Version(NamedTuple):
    """A tensor as its owner laid it out, as which of its events."""

    at: int
    array: Array


@dataclass
class LateDevices:
    """The devices of a program between their events."""

    program: DeviceProgram
    steps: Sequence[Step]
    events: Sequence[Sequence[Event]]
    """Of one call of each device."""
    random: np.random.Generator
    returned: Sequence[SSAValue]
    versions: dict[tuple[int, int], list[Version]] = field(
        default_factory=dict[tuple[int, int], list[Version]]
    )
    values: list[dict[SSAValue, Array]] = field(default_factory=list[dict[SSAValue, Array]])

    def run(self, calls: Sequence[Sequence[Array]]) -> list[list[list[Array]]]:
        """For each call the results on each device, of whole arguments.

        Raises ``ExecutionError`` where devices wait for one another for ever.
        """
        order = Devices(self.events)
        results: list[list[list[Array]]] = [[] for _ in self.events]
        places = [0] * len(self.events)
        self.values = [self._arguments(device, calls[0]) for device in range(len(self.events))]
        left = set(range(len(self.events)))
        while left:
            waiting = [device for device in sorted(left) if self._can_go(order, device, places)]
            if not waiting:
                raise ExecutionError(f"devices {sorted(left)} wait for one another for ever")
            device = int(self.random.choice(waiting))
            call, number = divmod(places[device], len(self.events[device]))
            event = self.events[device][number]
            self._do(order, device, event)
            order.step(device, event, call)
            places[device] += 1
            if number + 1 == len(self.events[device]):
                results[device].append([self.values[device][v].copy() for v in self.returned])
                if call + 1 == len(calls):
                    left.discard(device)
                else:
                    self.values[device] = self._arguments(device, calls[call + 1])
        return [list(of_devices) for of_devices in zip(*results, strict=True)]

    def _can_go(self, order: Devices, device: int, places: Sequence[int]) -> bool:
        event = self.events[device][places[device] % len(self.events[device])]
        if not isinstance(event, Await):
            return True
        return order.awaited(device, event.axes, event.member) is not None

    def _arguments(self, device: int, wholes: Sequence[Array]) -> dict[SSAValue, Array]:
        function, mesh = self.program.function, self.program.mesh

        def part(argument: SSAValue, whole: Array, sharding: Sharding) -> Array:
            extents = shape_of(argument.type)
            return part_of(whole, sharding.start(extents, mesh, device), extents).copy()

        return {
            argument: part(argument, whole, sharding)
            for argument, whole, sharding in zip(
                function.args, wholes, self.program.arguments, strict=True
            )
        }

    def _do(self, order: Devices, device: int, event: Event) -> None:
        values = self.values[device]
        match event:
            case Run(number):
                self._compute(device, self.steps[number])
            case Write(tensor):
                array = values[self._exchange(tensor).value].copy()
                version = Version(order.clocks[device][device] + 1, array)
                self.versions.setdefault((device, tensor), []).append(version)
            case Read(tensor, owner):
                array = self._seen(order, device, tensor, owner)
                for op in self._exchange(tensor).peers:
                    group = next(g for g in op.mesh.groups(op.grid_axes) if device in g)
                    if group[op.kept_place] == owner:
                        self._hold(device, op.result, array)
            case _:
                pass

    def _exchange(self, tensor: int) -> Exchange:
        return [step for step in self.steps if isinstance(step, Exchange)][tensor]

    def _seen(self, order: Devices, device: int, tensor: int, owner: int) -> Array:
        """A state of a tensor that a read may give."""
        versions = self.versions.get((owner, tensor), [])
        if owner == device:
            return versions[-1].array
        known = order.clocks[device][owner]
        must = [number for number, version in enumerate(versions) if version.at <= known]
        nothing = np.full(shape_of(self._exchange(tensor).value.type), np.nan)
        may = [nothing] if not must else []
        may += [version.array for version in versions[must[-1] if must else 0 :]]
        return may[int(self.random.integers(len(may)))]

    def _hold(self, device: int, value: SSAValue, array: Array) -> None:
        """A tensor of another device, and the parts that are taken of it where it lies."""
        self.values[device][value] = array
        for use in value.uses:
            if isinstance(op := use.operation, kn.AllSliceOp):
                self._hold(device, op.result, self._part(op, device, array))

    def _part(self, op: kn.AllSliceOp, device: int, array: Array) -> Array:
        place = op.mesh.place(device, op.grid_axes)
        extents = shape_of(op.result.type)
        start = [place * e * (d == op.cut_dim) for d, e in enumerate(extents)]
        return part_of(array, start, extents)

    def _compute(self, device: int, step: Step) -> None:
        values = self.values[device]
        if isinstance(step, Segment):
            inputs = [values[value] for value in step.takes]
            values |= zip(
                step.gives, run_function(step.module, None, inputs, "float64"), strict=True
            )
        elif isinstance(step, kn.AllSliceOp):
            self._hold(device, step.result, self._part(step, device, values[step.input]))
        elif isinstance(step, kn.CollectiveOp):
            raise ExecutionError(
                f"{op_label(step)} is one of the library's, which is not run with late memory; "
                "--use-peers makes loads of it"
            )
