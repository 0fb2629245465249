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
from mugraph.passes.program.partition.orders import Await, Devices, Event, Hear, Read, Run, Write
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
    """A tensor as a stream laid it out, as which of its events."""

    stream: int
    at: int
    array: Array


@dataclass
class LateDevices:
    """The devices of a program between their events."""

    program: DeviceProgram
    steps: Sequence[Step]
    events: Sequence[Sequence[Event]]
    """Of one call: of the functions of each device, then of the copies and the meetings of each."""
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
        devices = self.program.mesh.devices
        results: list[list[list[Array]]] = [[] for _ in devices]
        places = [0] * len(self.events)
        self.values = [self._arguments(device, calls[0]) for device in devices]
        left = {stream for stream, own in enumerate(self.events) if own}
        for device in set(devices) - left:
            # It returns what it was given.
            given = [self._arguments(device, call) for call in calls]
            results[device] = [[values[v] for v in self.returned] for values in given]
        while left:
            waiting = [stream for stream in sorted(left) if self._can_go(order, stream, places)]
            if not waiting:
                stuck = sorted({order.device_of(stream) for stream in left})
                raise ExecutionError(f"devices {stuck} wait for one another for ever")
            stream = int(self.random.choice(waiting))
            call, number = divmod(places[stream], len(self.events[stream]))
            event, device = self.events[stream][number], order.device_of(stream)
            self._do(order, stream, event)
            order.step(stream, event, call)
            places[stream] += 1
            if number + 1 < len(self.events[stream]):
                continue
            if call + 1 == len(calls):
                left.discard(stream)
            if stream == device:
                results[device].append([self.values[device][v].copy() for v in self.returned])
                if call + 1 < len(calls):
                    self.values[device] = self._arguments(device, calls[call + 1])
        return [list(of_devices) for of_devices in zip(*results, strict=True)]

    def _can_go(self, order: Devices, stream: int, places: Sequence[int]) -> bool:
        call, number = divmod(places[stream], len(self.events[stream]))
        device = order.device_of(stream)
        match self.events[stream][number]:
            case Await(axes, member):
                return order.awaited(device, axes, member) is not None
            case Hear(what):
                return (device, what, call) in order.told
            case _:
                return True

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

    def _do(self, order: Devices, stream: int, event: Event) -> None:
        device = order.device_of(stream)
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
                version = Version(stream, order.clocks[stream][stream] + 1, values[value].copy())
                self.versions.setdefault((owner, tensor, device), []).append(version)
            case Read(tensor, owner, writer):
                exchange = self._exchange(tensor)
                array = self._seen(order, stream, event)
                group = self._group(exchange, device)
                if isinstance(exchange, Delivery):
                    self._get(device, exchange, group.index(writer), array)
                    return
                for op in exchange.peers:
                    if group[op.taken_place(group.index(device))] == owner:
                        self._hold(device, op.result, array)
            case _:
                pass

    def _exchange(self, tensor: int) -> Exchange | Delivery:
        return [step for step in self.steps if isinstance(step, Exchange | Delivery)][tensor]

    def _group(self, exchange: Exchange | Delivery, device: int) -> tuple[int, ...]:
        return next(g for g in self.program.mesh.groups(exchange.axes) if device in g)

    def _seen(self, order: Devices, stream: int, read: Read) -> Array:
        """A state of a tensor that a read may give."""
        tensor, owner, writer = read
        versions = self.versions.get((owner, tensor, writer), [])
        if writer == order.device_of(stream):
            return versions[-1].array
        known = order.clocks[stream]
        must = [n for n, version in enumerate(versions) if version.at <= known[version.stream]]
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
        place = op.taken_place(op.mesh.place(device, op.grid_axes))
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
            peer = step.op.input.owner
            assert isinstance(peer, kn.PeerOp)
            place = peer.mesh.place(device, peer.grid_axes)
            is_own = peer.taken_place(place) == place
            values[step.op.result] = values[peer.input if is_own else step.op.input].copy()
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
