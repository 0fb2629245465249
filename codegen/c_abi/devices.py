"""The C function of a program whose devices read one another's memory: calls, copies and meetings.

What stands between meetings is a C function of one device each; this prints the function that calls
them.  A tensor that others read is written where they do, a result where the caller wants it, and
all else into the workspace.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from xdsl.ir import SSAValue

from mugraph.codegen.c_abi.header import parameters
from mugraph.codegen.c_abi.interface import (
    WORKSPACE_ALIGNMENT,
    CInterface,
    CPeers,
    interface_as_written,
)
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.dialects import kn
from mugraph.dialects.sharding import Axes, DeviceProgram
from mugraph.dialects.tensor_types import bytes_of, op_label, shape_of
from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Request
from mugraph.passes.memory.packing.pack import pack
from mugraph.passes.program.partition.meetings import reads
from mugraph.passes.program.partition.places import Places, places_of
from mugraph.passes.program.partition.segments import Exchange, Meeting, Segment, Step

_VARIABLES = ("workspace", "workspace_bytes", "stream", "kept", "code", "error")
"""What else there is in the function."""


class _Part(NamedTuple):
    """A device's part of a tensor: of each of ``rows`` some bytes."""

    rows: int
    pitch: int
    bytes: int


class DevicesFunction:
    """The C function of the steps of a device, where ``functions`` are those of single steps.

    Raises :class:`CodegenError` for steps that need more than loads from other devices.
    """

    def __init__(
        self,
        name: str,
        program: DeviceProgram,
        steps: Sequence[Step],
        functions: Mapping[int, CInterface],
    ) -> None:
        self._steps, self._functions = steps, functions
        _expect_loads(name, steps)
        last = program.function.get_return_op()
        assert last is not None
        self._returned = tuple(last.operands)
        axes = dict.fromkeys(_axes_of(step) for step in steps if not isinstance(step, Segment))
        places = {
            each: places_of(_exchanges(steps, each), program.mesh.size(each)) for each in axes
        }
        peers = {each: _peers(program, each, places[each].size, len(axes) == 1) for each in axes}
        self._peers = peers
        taken = [own for each in peers.values() for own in (each.name, each.place)]
        interface = interface_as_written(program.function, [*taken, *_VARIABLES])
        tensors = zip(program.function.args, interface.inputs, strict=True)
        self._addresses: dict[SSAValue, str] = {value: tensor.name for value, tensor in tensors}
        self._own: dict[Exchange, str] = {}
        for each in axes:
            self._lay_out(each, places[each])
        for value, tensor in zip(self._returned, interface.outputs, strict=True):
            if any(isinstance(step, Segment) and value in step.gives for step in steps):
                self._addresses.setdefault(value, tensor.name)
        self._kept = self._place_the_rest()
        needed = max(each.workspace_bytes for each in functions.values())
        self.interface = replace(
            interface,
            name=name,
            workspace_bytes=self._kept + needed,
            in_place=read_once(interface, program.function.args, steps),
            peers=tuple(peers.values()),
        )

    def _lay_out(self, axes: Axes, places: Places) -> None:
        """Notes where tensors of exchanges lie; one of two exchanges is made for the first."""
        name, place = self._peers[axes].name, self._peers[axes].place
        pairs = list(zip(_exchanges(self._steps, axes), places.starts, strict=True))
        for step, start in pairs:
            self._own[step] = f"{name}_.own({start})"
            self._addresses.setdefault(step.value, self._own[step])
            for op in step.peers:
                self._addresses[op.result] = f"{name}_.of({op.taken_place_text(place)}, {start})"

    def _place_the_rest(self) -> int:
        """Gives all other tensors places in the workspace; the bytes that they need."""
        made: dict[SSAValue, int] = {}
        last: dict[SSAValue, int] = {}
        roots: dict[SSAValue, SSAValue] = {}
        for number, step in enumerate(self._steps):
            for value in reads(step):
                last[roots.get(value, value)] = number
            if isinstance(step, Segment):
                made |= {each: number for each in step.gives if each not in self._addresses}
            elif isinstance(step, kn.AllSliceOp):
                if _part(step).rows == 1:
                    roots[step.result] = roots.get(step.input, step.input)
                else:
                    made[step.result] = number
        for value in self._returned:
            last[roots.get(value, value)] = len(self._steps)
        requests = [
            Request(bytes_of(value.type), Lifetime(first, last.get(value, first)))
            for value, first in made.items()
        ]
        plan = pack(requests, WORKSPACE_ALIGNMENT).plan
        for value, offset in zip(made, plan.offsets, strict=True):
            self._addresses[value] = f"kept + {offset}"
        for step in self._steps:
            if isinstance(step, kn.AllSliceOp) and step.result not in self._addresses:
                source = self._addresses[step.input]
                place = step.taken_place_text(self._peers[step.grid_axes].place)
                start = f"{place} * {_part(step).bytes}LL"
                self._addresses[step.result] = f"static_cast<char const*>({source}) + {start}"
        return -(-plan.peak // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT

    def text(self) -> str:
        """The file behind the header, which includes the headers of the functions."""
        own = self.interface
        name, needed = own.name, own.workspace_bytes
        functions = dict.fromkeys(each.name for each in self._functions.values())
        first = next(iter(functions))
        return "\n".join(
            [
                f'#include "{name}.h"',
                *(f'#include "{each}.h"' for each in functions),
                "",
                '#include "c_peers.h"',
                "",
                f'extern "C" size_t {name}_workspace_bytes(void) {{ return {needed}; }}',
                *(
                    f'extern "C" size_t {name}_{each.name}_bytes(void) {{ return {each.bytes}; }}'
                    for each in own.peers
                ),
                "",
                f'extern "C" const char *{name}_error(void) {{',
                "  return mugraph::c_interface::message();",
                "}",
                "",
                f'extern "C" int {name}_check_device(void) {{ return {first}_check_device(); }}',
                "",
                f'extern "C" int {name}_run({", ".join(parameters(own))}) {{',
                "  using namespace mugraph::c_interface;",
                *self._checks(),
                f"  char* const kept = static_cast<char*>({'workspace' if needed else 'nullptr'});",
                "  try {",
                *(f"    {line}" for line in self._calls()),
                "  } catch (std::exception const& error) {",
                '    return fail(MUGRAPH_CUDA_ERROR, "%s", error.what());',
                "  }",
                "  return MUGRAPH_SUCCESS;",
                "}",
                "",
            ]
        )

    def _checks(self) -> Iterator[str]:
        """What a call does first."""
        for each in self.interface.peers:
            yield (
                f'  const Peers {each.name}_{{"{each.name}", {each.name}, {each.devices}, '
                f"{each.place}}};"
            )
            yield f"  if (int const code = {each.name}_.check(); code != 0) return code;"
        for tensor in self.interface.tensors:
            check = f'check_pointer("{tensor.name}", {tensor.name}, {tensor.alignment})'
            yield f"  if (int const code = {check}; code != 0) return code;"
        needed = f"{self.interface.workspace_bytes}, {WORKSPACE_ALIGNMENT}"
        check = f"check_workspace({{workspace, workspace_bytes, {needed}}})"
        yield f"  if (int const code = {check}; code != 0) return code;"

    def _calls(self) -> Iterator[str]:
        """A line or two a step, and what copies results that were not written in place."""
        for number, step in enumerate(self._steps):
            match step:
                case Segment():
                    yield self._call(number, step)
                case Exchange():
                    own = self._own[step]
                    if self._addresses[step.value] != own:
                        yield self._copy(own, step.value)
                    yield self._meet(step.axes, number)
                case Meeting():
                    yield self._meet(step.axes, number)
                case kn.AllSliceOp() if _part(step).rows > 1:
                    rows, pitch, size = _part(step)
                    source, target = (self._addresses[each] for each in (step.input, step.result))
                    place = step.taken_place_text(self._peers[step.grid_axes].place)
                    start = f"{place} * {size}LL"
                    yield (
                        f"copy_part(stream, {target}, {source}, {rows}, {pitch}, {start}, {size});"
                    )
                case _:
                    pass
        for value, tensor in zip(self._returned, self.interface.outputs, strict=True):
            if self._addresses[value] != tensor.name:
                yield self._copy(tensor.name, value)

    def _call(self, number: int, step: Segment) -> str:
        function = self._functions[number]
        tensors = [self._addresses[value] for value in (*step.takes, *step.gives)]
        needed = function.workspace_bytes
        place = f"kept + {self._kept}" if needed else "nullptr"
        given = ", ".join([*tensors, place, str(needed), "stream"])
        return f"if (int const code = {function.name}_run({given}); code != 0) return code;"

    def _copy(self, target: str, value: SSAValue) -> str:
        return f"copy(stream, {target}, {self._addresses[value]}, {bytes_of(value.type)});"

    def _meet(self, axes: Axes, number: int) -> str:
        return f"{self._peers[axes].name}_.meet(stream, {number});"


def read_once(
    interface: CInterface, arguments: Sequence[SSAValue], steps: Sequence[Step]
) -> dict[int, int]:
    """Of results that may be written to arguments those whose argument one step alone reads."""
    readers = Counter(value for step in steps for value in reads(step))
    # What is copied beside functions is read while they go on.
    readers.update(step.value for step in steps if isinstance(step, Exchange) and step.beside)
    return {
        result: argument
        for result, argument in interface.in_place.items()
        if readers[arguments[argument]] == 1
    }


def _expect_loads(name: str, steps: Sequence[Step]) -> None:
    for step in steps:
        match step:
            case kn.AllSliceOp() | Segment() | Exchange() | Meeting():
                pass
            case kn.CollectiveOp():
                raise CodegenError(
                    f"{op_label(step)} is NCCL's, and @{name} also reads the memory of other "
                    "devices; make loads of all collectives by --use-peers=everywhere, or of none"
                )
            case _:
                raise CodegenError(
                    f"@{name} computes products in parts while devices exchange them, for which "
                    "there are no C functions yet; leave out --overlap-collectives"
                )
    if not any(isinstance(step, Segment) for step in steps):
        raise CodegenError(f"@{name} computes nothing, so there is nothing to compile")


def _axes_of(step: Step) -> Axes:
    return step.grid_axes if isinstance(step, kn.CollectiveOp) else step.axes  # type: ignore[union-attr]


def _exchanges(steps: Sequence[Step], axes: Axes) -> list[Exchange]:
    return [step for step in steps if isinstance(step, Exchange) and step.axes == axes]


def _peers(program: DeviceProgram, axes: Axes, size: int, is_only: bool) -> CPeers:
    behind = "" if is_only else f"_{'_'.join(map(str, axes))}"
    return CPeers(f"peers{behind}", f"place{behind}", axes, program.mesh.size(axes), size)


def _part(op: kn.AllSliceOp) -> _Part:
    shape = shape_of(op.input.type)
    assert op.cut_dim is not None
    rows = math.prod(shape[: op.cut_dim])
    pitch = bytes_of(op.input.type) // rows
    return _Part(rows, pitch, pitch // op.devices)
