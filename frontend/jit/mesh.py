"""A program of several devices behind a call on each of them: ``mugraph.compile(..., mesh=...)``.

Each process compiles what stands between collectives and runs it on its device; the collectives are
those of ``torch.distributed``, in process groups of the caller's ``DeviceMesh``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mugraph.codegen.c_abi import interface_as_written, read_once
from mugraph.dialects import kn
from mugraph.dialects.launch_extents import extents_of
from mugraph.dialects.sharding import Axes, DeviceProgram, Mesh, Sharding
from mugraph.dialects.tensor_types import (
    dims,
    element_type_of,
    shape_of,
    value_label,
)
from mugraph.jit.arguments import (
    ArgumentError,
    check_count,
    check_view,
    is_torch_tensor,
    view_of,
)
from mugraph.jit.exchange import exchange, laid_out
from mugraph.jit.groups import expect_alike, group_of, place_of
from mugraph.jit.kernel import Kernel, as_sequence
from mugraph.jit.peers import PeerMemory, empty, peer_memory
from mugraph.passes.program.partition.meetings import gathered_last, takes
from mugraph.passes.program.partition.orders import steps_in_order
from mugraph.passes.program.partition.segments import (
    Delivery,
    Exchange,
    Fetch,
    Join,
    Meeting,
    Segment,
    Step,
    View,
    first_alike,
    is_far,
    peer_of,
)
from mugraph.passes.program.partition.turns import turns_of


class MeshKernel:
    """A compiled program of several devices: every device of the mesh calls it with its parts.

    Parts are torch tensors on this device, or ``DTensor`` of the mesh, whose placements must be the
    program's.  Of DTensors results are DTensors.  Kernels and collectives are enqueued on torch's
    current stream of the device that the parts are on: NCCL's may be captured in a CUDA graph, by
    all devices alike, after a call outside of it.
    """

    def __init__(
        self,
        program: DeviceProgram,
        module: ModuleOp,
        device_mesh: Any,
        compile_segments: Callable[[Sequence[ModuleOp]], Sequence[Kernel]],
    ) -> None:
        self.module = module
        """The program of each device, as ``--partition`` left it."""
        self._program = program
        self._device_mesh = device_mesh
        last = program.function.get_return_op()
        assert last is not None
        self._returned = tuple(last.operands)
        self._steps = steps_in_order(program)
        self._kernels = _kernels(self._steps, compile_segments)
        # All processes make all groups, in one order, also those that they are not in.
        axes = dict.fromkeys(axes for step in self._steps for axes in _axes_of(step))
        self._groups = {each: group_of(device_mesh, program.mesh, each) for each in axes}
        device = place_of(device_mesh, program.mesh, tuple(range(len(program.mesh.shape))))
        self._order = turns_of(self._steps, program.mesh, device)
        self._joins = {
            value: (step, index)
            for step in self._steps
            if isinstance(step, Join)
            for index, value in enumerate(step.op.inputs)
        }
        self._gathered = gathered_last(self._steps)
        """The exchange for which devices meet as its copies are joined, and that join."""
        self._known_memory: PeerMemory | None = None
        self._are_alike = False
        written = interface_as_written(program.function)
        in_place = read_once(written, program.function.args, self._steps)
        self.interface = replace(written, in_place=in_place)
        """This device's parts of arguments and results, as the program says they lie."""

    @property
    def _memory(self) -> PeerMemory:
        """Where devices lay tensors out for one another; all of them make it in the first call."""
        if self._known_memory is None:
            exchanges = [step for step in self._steps if isinstance(step, Exchange | Delivery)]
            self._known_memory = peer_memory(self._device_mesh, exchanges, self._groups)
        return self._known_memory

    @property
    def name(self) -> str:
        """The function's name."""
        return self._program.function.sym_name.data

    @property
    def functions(self) -> list[Kernel]:
        """The compiled functions of one device, in the order in which this one runs them."""
        return [self._kernels[number] for number in self._order if number in self._kernels]

    @property
    def meetings(self) -> dict[int, str]:
        """What devices meet for in a call, by the numbers of the meetings."""
        found: dict[int, str] = {}
        for number, step in enumerate(self._steps):
            match step:
                case Exchange():
                    found[number] = f"{value_label(step.value)} is read by the others"
                case Delivery():
                    found[number] = f"parts of {value_label(step.value)} are delivered"
                case Meeting():
                    found[number] = "what the others have read may be replaced"
                case _:
                    pass
        return found

    @property
    def arguments(self) -> tuple[Sharding, ...]:
        """How each argument lies on the mesh."""
        return self._program.arguments

    @property
    def results(self) -> tuple[Sharding, ...]:
        """How each result lies on the mesh."""
        return self._program.results

    def parts(self, *wholes: Any) -> list[Any]:
        """This device's parts of whole tensors, one an argument."""
        check_count(self.name, "argument", len(self.arguments), len(wholes))
        types = self._program.argument_types
        for index, whole in enumerate(wholes):
            if tuple(whole.shape) != shape_of(types[index]):
                raise ArgumentError(
                    f"argument {index} of {self.name} is {dims(shape_of(types[index]))} in all, "
                    f"got {dims(tuple(whole.shape))}"
                )
        return [self._part(*pair) for pair in zip(wholes, self.arguments, strict=True)]

    def part_of_result(self, index: int, whole: Any) -> Any:
        """This device's part of what a result is in all."""
        return self._part(whole, self.results[index])

    def _part(self, whole: Any, sharding: Sharding) -> Any:
        mesh = self._program.mesh
        for dim, axes in enumerate(sharding.split_axes):
            size = whole.shape[dim] // mesh.size(axes)
            whole = whole.narrow(dim, place_of(self._device_mesh, mesh, axes) * size, size)
        return whole.contiguous()

    def __call__(self, *inputs: Any, out: Any = None) -> Any:
        """This device's parts of the results: the one, or a tuple of several.

        ``out`` are tensors to write them to, parts or DTensors, one or a sequence; one of
        ``interface.in_place`` may be the argument that it names.  Raises ``ArgumentError`` naming
        the argument or the output that does not fit.
        """
        check_count(self.name, "argument", len(self.arguments), len(inputs))
        if not self._are_alike:
            together = [_said(step) for step in self._steps if _axes_of(step)]
            expect_alike(self._device_mesh, self.name, together)
            self._are_alike = True
        arguments = self._program.function.args
        local = self._local("argument", inputs, arguments, self.arguments)
        values: dict[SSAValue, Any] = dict(zip(arguments, local, strict=True))
        wanted = [] if out is None else as_sequence(out, len(self._returned))
        places = [] if out is None else self._places(wanted)
        call = _Call(values, dict(zip(self._returned, places, strict=False)))
        for number in self._order:
            step = self._steps[number]
            # What takes a range waits for the copy that it is of, not the range itself; a join
            # copies first what is here.
            for value in takes(step) if not isinstance(step, View | Join) else ():
                self._arrive(value, call)
            self._do(number, step, call)
        for value in [*call.under_way]:
            self._arrive(value, call)
        outputs = [self._own(values[value]) for value in self._returned]
        for place, output in zip(places, outputs, strict=False):
            if place.data_ptr() != output.data_ptr():
                place.copy_(output)
        outputs = wanted or outputs
        if any(map(_is_dtensor, inputs)):
            outputs = [self._global(*pair) for pair in zip(outputs, self.results, strict=True)]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _do(self, number: int, step: Step, call: _Call) -> None:
        values = call.values
        match step:
            case Segment():
                values |= self._run(number, step, call)
            case Exchange():
                meets = self._gathered is None or number != self._gathered.exchange
                held = self._memory.exchange(step, values[step.value], number, meets=meets)
                call.exchanges |= {op.result: step for op in step.peers}
                call.ran = False
                place = self._groups[step.axes].place
                values |= {op.result: held[op.taken_place(place)] for op in step.peers}
            case Delivery():
                pieces = [values.get(piece) for piece in step.op.pieces]
                values[step.value] = self._memory.deliver(step, pieces, number)
            case Meeting():
                self._memory.meet(step, number)
            case View(op):
                box = zip(extents_of(op.start), shape_of(op.result.type), strict=True)
                part = values[op.input][tuple(slice(at, at + extent) for at, extent in box)]
                values[op.result] = laid_out(part, op.result.type)
                if op.input in call.under_way:
                    call.under_way[op.result] = call.under_way[op.input]
                self._memory.send(op.result, values[op.result])
            case Fetch(op):
                peer = peer_of(op.input)
                assert peer is not None
                place = self._groups[peer.grid_axes].place
                if peer.taken_place(place) == place:
                    # This device's is there before it is laid out; what joins it copies it.
                    values[op.result] = values[peer.input if peer is op.input.owner else op.input]
                elif self._gathered is not None and number > self._gathered.exchange:
                    values[op.result] = values[op.input]
                else:
                    copy, arrives = self._memory.fetch(
                        call.exchanges[peer.result],
                        values[op.input],
                        self._joined_place(op.result, call),
                        ran=call.ran,
                    )
                    values[op.result], call.under_way[op.result] = copy, arrives
            case Join(op):
                values[op.result] = self._join(number, step, call)
            case _:
                value = values[step.input]
                if is_far(step.input) and not isinstance(step, kn.AllSliceOp):
                    value = value.clone()
                exchanged = exchange(step, value, self._groups[step.grid_axes])
                values[step.result] = laid_out(exchanged, step.result.type)
        if not isinstance(step, Exchange | Meeting | View | Fetch):
            # It was put into the stream of the call, and may give back memory there.
            call.ran = True

    def _run(self, number: int, segment: Segment, call: _Call) -> dict[SSAValue, Any]:
        """What a function between meetings gives; what others read it writes where they do."""
        kernel = self._kernels[number]
        inputs = [call.values[value] for value in segment.takes]
        places = [self._place_of(value, call) for value in segment.gives]
        if all(place is None for place in places):
            given = kernel(*inputs)
        else:
            outputs = zip(places, kernel.interface.outputs, strict=True)
            given = kernel(
                *inputs,
                out=[empty(each, inputs[0].device) if p is None else p for p, each in outputs],
            )
        made = dict(zip(segment.gives, as_sequence(given, len(segment.gives)), strict=True))
        for value, tensor in made.items():
            self._memory.send(value, tensor)
        return made

    def _arrive(self, value: SSAValue, call: _Call) -> None:
        """Waits for a copy from another device, if a value is one that is under way."""
        arrives = call.under_way.pop(value, None)
        if arrives is not None:
            arrives()

    def _place_of(self, value: SSAValue, call: _Call) -> Any:
        """Where a function writes what it gives; ``None`` where anywhere."""
        place = self._memory.place_of(value)
        if place is None:
            place = self._joined_place(value, call)
        return call.out.get(value) if place is None else place

    def _joined_place(self, value: SSAValue, call: _Call) -> Any:
        """The place of a part in the tensor that it is joined to; ``None`` for others."""
        step, index = self._joins.get(value, (None, 0))
        if step is None:
            return None
        type_ = step.op.result.type
        if step.op.result not in call.joined:
            place = self._joined_place(step.op.result, call)
            call.joined[step.op.result] = self._memory.empty_of(type_) if place is None else place
        whole = call.joined[step.op.result]
        if whole is None:
            return None
        start = sum(shape_of(each.type)[step.op.joined_dim] for each in step.op.inputs[:index])
        shape = shape_of(value.type)
        return laid_out(
            whole.narrow(step.op.joined_dim, start, shape[step.op.joined_dim]), value.type
        )

    def _join(self, number: int, step: Join, call: _Call) -> Any:
        """Parts one after the other; those that were not written there are copied.

        What is here is copied while the copies of other devices' parts are under way.
        """
        inputs = step.op.inputs
        places = {value: self._joined_place(value, call) for value in inputs}
        whole = call.joined.get(step.op.result)
        if whole is None:
            for value in inputs:
                self._arrive(value, call)
            parts = [call.values[value] for value in inputs]
            return import_module("torch").cat(parts, step.op.joined_dim)
        under_way = [value for value in inputs if value in call.under_way]
        here = [(places[value], call.values[value]) for value in inputs if value not in under_way]
        self._put([pair for pair in here if pair[0].data_ptr() != pair[1].data_ptr()], number)
        for value in under_way:
            self._arrive(value, call)
            place, part = places[value], call.values[value]
            if place.data_ptr() != part.data_ptr():
                place.copy_(part)
        return whole

    def _put(self, parts: Sequence[tuple[Any, Any]], join: int) -> None:
        """Copies parts to where a join has them, and meets for those that are gathered at last.

        The place is the first of a pair.
        """
        if self._gathered is not None and join == self._gathered.join:
            number = self._gathered.exchange
            exchange = self._steps[number]
            assert isinstance(exchange, Exchange)
            self._memory.gather(exchange, parts, number)
            return
        for place, part in parts:
            place.copy_(part)

    def _own(self, held: Any) -> Any:
        """A result that the next call leaves alone."""
        return held.clone() if self._memory.holds(held) else held

    def _places(self, out: Sequence[Any]) -> list[Any]:
        """Where this device writes its parts of the results."""
        outputs = self.interface.outputs
        if len(out) != len(outputs):
            raise ArgumentError(f"{self.name} has {len(outputs)} outputs, got {len(out)} in out")
        places = self._local("output", out, self._returned, self.results)
        for index, (tensor, place) in enumerate(zip(outputs, places, strict=True)):
            check_view("output", index, tensor, view_of("output", index, tensor, place, None))
        return places

    def _local(
        self, role: str, given: Sequence[Any], own: Sequence[SSAValue], lie: Sequence[Sharding]
    ) -> list[Any]:
        """This device's parts of arguments or outputs; of DTensors, if they lie as ``lie`` says."""
        found: list[Any] = []
        for index, (value, part, sharding) in enumerate(zip(given, own, lie, strict=True)):
            what = f"{role} {index} of {self.name}"
            if not is_torch_tensor(value):
                raise ArgumentError(
                    f"{what} is a {type(value).__name__}; expected a torch.Tensor, this device's "
                    "part, or a DTensor"
                )
            if _is_dtensor(value):
                expected = placements(sharding, self._program.mesh)
                if tuple(value.placements) != expected:
                    raise ArgumentError(
                        f"{what} is placed as {tuple(value.placements)}, expected {expected}; "
                        "redistribute it"
                    )
                value = value.to_local()
                value = value if role == "output" else value.contiguous()
            if tuple(value.shape) != shape_of(part.type):
                raise ArgumentError(
                    f"{what} is the part of one device, {dims(shape_of(part.type))}, got "
                    f"{dims(tuple(value.shape))}; {self.name}.parts(...) takes arguments out of "
                    "whole tensors"
                )
            found.append(value)
        return found

    def _global(self, value: Any, sharding: Sharding) -> Any:
        if _is_dtensor(value):
            return value
        tensors: Any = import_module("torch.distributed.tensor")
        return tensors.DTensor.from_local(
            value, self._device_mesh, placements(sharding, self._program.mesh), run_check=False
        )


class _Call:
    """What a device knows in a call."""

    def __init__(self, values: dict[SSAValue, Any], out: dict[SSAValue, Any]) -> None:
        self.values = values
        self.out = out
        """Where the caller wants results."""
        self.joined: dict[SSAValue, Any] = {}
        """Tensors whose parts are written where they belong; ``None`` where they are not."""
        self.under_way: dict[SSAValue, Callable[[], None]] = {}
        """Copies from other devices, and what waits for them."""
        self.exchanges: dict[SSAValue, Exchange] = {}
        """Of which exchange a tensor of another device is."""
        self.ran = False
        """Whether anything was put into the stream of the call since the last exchange."""


def _axes_of(step: Step) -> Sequence[Axes]:
    """The axes of the group that a step is of, if it is of one."""
    match step:
        case Exchange() | Delivery() | Meeting():
            return [step.axes]
        case kn.CollectiveOp():
            return [step.grid_axes]
        case _:
            return []


def _said(step: Step) -> str:
    """What a step is that several devices do together."""
    match step:
        case Exchange(value) | Delivery(value=value):
            what = f"reading {_extents(value)}"
        case kn.CollectiveOp():
            what = f"{step.name} of {_extents(step.input)}"
        case _:
            what = "a meeting"
    return f"{what} along axes {list(*_axes_of(step))}"


def _extents(value: SSAValue) -> str:
    return f"{dims(shape_of(value.type))} of {element_type_of(value.type)}"


def _kernels(
    steps: Sequence[Step], compile_segments: Callable[[Sequence[ModuleOp]], Sequence[Kernel]]
) -> dict[int, Kernel]:
    """A kernel for each step that is a function of one device; those that are alike share one."""
    numbers = [number for number, step in enumerate(steps) if isinstance(step, Segment)]
    segments = [step for step in steps if isinstance(step, Segment)]
    first = first_alike(segments)
    unique = list(dict.fromkeys(first))
    compiled = dict(
        zip(unique, compile_segments([segments[each].module for each in unique]), strict=True)
    )
    return {number: compiled[alike] for number, alike in zip(numbers, first, strict=True)}


def _is_dtensor(value: Any) -> bool:
    return hasattr(value, "to_local") and hasattr(value, "placements")


def placements(sharding: Sharding, mesh: Mesh) -> tuple[Any, ...]:
    """A sharding as DTensor says it, one placement an axis.

    Raises ``ArgumentError`` where axes cut a dimension in another order than DTensor knows.
    """
    tensors: Any = import_module("torch.distributed.tensor")
    found: list[Any] = [tensors.Replicate() for _ in mesh.shape]
    for dim, axes in enumerate(sharding.split_axes):
        if axes != tuple(sorted(axes)):
            raise ArgumentError(
                f"dimension {dim} is cut by axes {list(axes)}, the first one outermost; DTensor "
                "has the axes of a dimension in the order of the mesh: pass this device's part"
            )
        for axis in axes:
            found[axis] = tensors.Shard(dim)
    for axis in sharding.partial:
        found[axis] = tensors.Partial(str(sharding.combiner))
    return tuple(found)
