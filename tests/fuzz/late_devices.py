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
from mugraph.dialects.launch_extents import extents_of
from mugraph.dialects.sharding import DeviceProgram, Sharding
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.program.partition.delivered import is_delivered
from mugraph.passes.program.partition.orders import Await, Devices, Event, Read, Run, Write
from mugraph.passes.program.partition.segments import (
    Delivery,
    Exchange,
    Fetch,
    Join,
    Segment,
    Step,
    View,
)
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
    versions: dict[tuple[int, int, int], list[Version]] = field(
        default_factory=dict[tuple[int, int, int], list[Version]]
    )
    """By the device at which a tensor is, its number, and who wrote it."""
    values: list[dict[SSAValue, Array]] = field(default_factory=list[dict[SSAValue, Array]])

    def run(self, calls: Sequence[Sequence[Array]]) -> list[list[list[Array]]]:
        """For each call the results on each device, of whole arguments.

        Raises ``ExecutionError`` where devices wait for one another for ever.
        """
        order = Devices(self.events)
        results: list[list[list[Array]]] = [[] for _ in self.events]
        places = [0] * len(self.events)
        self.values = [self._arguments(device, calls[0]) for device in range(len(self.events))]
        left = {device for device, own in enumerate(self.events) if own}
        for device in set(range(len(self.events))) - left:
            # It returns what it was given.
            given = [self._arguments(device, call) for call in calls]
            results[device] = [[values[v] for v in self.returned] for values in given]
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
            case Write(tensor, owner):
                exchange = self._exchange(tensor)
                value = exchange.value
                if isinstance(exchange, Delivery):
                    group = self._group(exchange, device)
                    value = exchange.op.pieces[group.index(owner)]
                version = Version(order.clocks[device][device] + 1, values[value].copy())
                self.versions.setdefault((owner, tensor, device), []).append(version)
            case Read(tensor, owner, writer):
                exchange = self._exchange(tensor)
                array = self._seen(order, device, event)
                group = self._group(exchange, device)
                if isinstance(exchange, Delivery):
                    self._get(device, exchange, group.index(writer), array)
                    return
                for op in exchange.peers:
                    if group[op.kept_place] == owner:
                        self._hold(device, op.result, array)
            case _:
                pass

    def _exchange(self, tensor: int) -> Exchange | Delivery:
        return [step for step in self.steps if isinstance(step, Exchange | Delivery)][tensor]

    def _group(self, exchange: Exchange | Delivery, device: int) -> tuple[int, ...]:
        return next(g for g in self.program.mesh.groups(exchange.axes) if device in g)

    def _seen(self, order: Devices, device: int, read: Read) -> Array:
        """A state of a tensor that a read may give."""
        tensor, owner, writer = read
        versions = self.versions.get((owner, tensor, writer), [])
        if writer == device:
            return versions[-1].array
        known = order.clocks[device][writer]
        must = [number for number, version in enumerate(versions) if version.at <= known]
        exchange = self._exchange(tensor)
        value = exchange.op.pieces[0] if isinstance(exchange, Delivery) else exchange.value
        may = [] if must else [np.full(shape_of(value.type), np.nan)]
        may += [version.array for version in versions[must[-1] if must else 0 :]]
        return may[int(self.random.integers(len(may)))]

    def _get(self, device: int, delivery: Delivery, place: int, array: Array) -> None:
        """Puts what a device delivered to its place among what the others did."""
        op = delivery.op
        whole = self.values[device].get(op.result, np.full(shape_of(op.result.type), np.nan)).copy()
        start = [place * e * (d == op.joined_dim) for d, e in enumerate(array.shape)]
        part_of(whole, start, array.shape)[...] = array
        self._hold(device, op.result, whole)

    def _hold(self, device: int, value: SSAValue, array: Array) -> None:
        """A tensor of another device, and the parts that are taken of it where it lies."""
        self.values[device][value] = array
        for use in value.uses:
            if isinstance(op := use.operation, kn.AllSliceOp):
                self._hold(device, op.result, self._part(op, device, array))
            elif isinstance(op, kn.SliceOp) and is_delivered(value):
                self._hold(device, op.result, self._range(op, array))

    def _part(self, op: kn.AllSliceOp, device: int, array: Array) -> Array:
        place = op.mesh.place(device, op.grid_axes)
        extents = shape_of(op.result.type)
        start = [place * e * (d == op.cut_dim) for d, e in enumerate(extents)]
        return part_of(array, start, extents)

    def _range(self, op: kn.SliceOp, array: Array) -> Array:
        return part_of(array, extents_of(op.start), shape_of(op.result.type))

    def _compute(self, device: int, step: Step) -> None:
        values = self.values[device]
        if isinstance(step, Segment):
            inputs = [values[value] for value in step.takes]
            values |= zip(
                step.gives, run_function(step.module, None, inputs, "float64"), strict=True
            )
        elif isinstance(step, View):
            values[step.op.result] = self._range(step.op, values[step.op.input])
        elif isinstance(step, Fetch):
            values[step.op.result] = values[step.op.input].copy()
        elif isinstance(step, Join):
            parts = [values[value] for value in step.op.inputs]
            values[step.op.result] = np.concatenate(parts, step.op.joined_dim)
        elif isinstance(step, kn.AllSliceOp):
            self._hold(device, step.result, self._part(step, device, values[step.input]))
        elif isinstance(step, kn.CollectiveOp):
            raise ExecutionError(
                f"{op_label(step)} is one of the library's, which is not run with late memory; "
                "--use-peers makes loads of it"
            )
