"""How collectives are printed: as calls of NCCL, with communicators that the caller passes."""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.codegen.cuda.host import (
    HostPrinter,
    print_host_operation,
)
from mugraph.codegen.cuda.walks import (
    print_move,
    strides_in_memory,
)
from mugraph.dialects import kn
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.sharding import MESH, Axes, mesh_of
from mugraph.dialects.tensor_types import (
    op_label,
    row_major_strides,
    shape_of,
    value_label,
)

HEADER = "kn/collectives.h"
"""The runtime's header, which generated code includes where it has collectives."""
OPERATIONS = {Combiner.SUM: "ncclSum", Combiner.MAX: "ncclMax"}


class Communicator(NamedTuple):
    """A group of devices that a program's collectives are of: those that differ along axes."""

    axes: Axes
    devices: int


def communicators_of(function: FuncOp) -> list[Communicator]:
    """The groups that the collectives of a program of each device are of, by their axes."""
    if mesh_of(function) is None:
        return []
    collectives = [op for op in function.walk() if isinstance(op, kn.CollectiveOp)]
    return sorted({Communicator(op.grid_axes, op.devices) for op in collectives})


@print_host_operation.register
def _(op: kn.CollectiveOp, printer: HostPrinter) -> None:
    raise CodegenError(
        f"{op_label(op)} reads the memory of other devices, for which no CUDA text is printed; run "
        "it by mugraph.compile(program, mesh=DeviceMesh), or make a library of it by mg-compile"
    )


def _declare_group(op: kn.CollectiveOp, printer: HostPrinter) -> None:
    """Declares ``group``, of the communicator that follows the tensors of a call."""
    function = enclosing(op, FuncOp)
    if function is None or mesh_of(function) is None:
        raise CodegenError(
            f"{op_label(op)} is of several devices, but its function has no mesh; for four "
            f"devices add attributes {{{MESH} = [4], mugraph.per_device}}"
        )
    number = communicators_of(function).index(Communicator(op.grid_axes, op.devices))
    place = f"input_tensors.at({len(function.args) + number})"
    printer.writer.line(f"const kn::Communicator group({place}, {op.devices});")


def _expect_no_gaps(op: kn.CollectiveOp, value: SSAValue, dim: int | None) -> None:
    """Raises :class:`CodegenError` unless members' parts are ranges of a tensor's elements."""
    shape, strides = shape_of(value.type), strides_in_memory(value)
    if not kn.have_same_places(shape, strides, row_major_strides(shape)):
        raise CodegenError(
            f"{op_label(op)}: NCCL takes tensors that are row-major without gaps, and "
            f"{value_label(value)} has strides ({', '.join(map(str, strides))}); leave its layout "
            "out"
        )
    if dim is not None and math.prod(shape[:dim]) != 1:
        raise CodegenError(
            f"{op_label(op)} is along dimension {dim} of {value_label(value)}, which NCCL cannot "
            "cut or join; --contiguous-collectives moves it to the front"
        )


def _count(value: SSAValue) -> int:
    return math.prod(shape_of(value.type))


@print_host_operation.register
def _(op: kn.CombiningOp, printer: HostPrinter) -> None:
    _expect_no_gaps(op, op.input, op.cut_dim)
    _expect_no_gaps(op, op.result, op.cut_dim)
    _declare_group(op, printer)
    source, target = printer.declare_all((op.input, op.result))
    name = "all_reduce" if op.cut_dim is None else "reduce_scatter"
    printer.writer.line(
        f"kn::{name}(stream, group, {OPERATIONS[op.combination]}, {target}, {source}, "
        f"{_count(op.result)});"
    )


@print_host_operation.register
def _(op: kn.AllGatherOp, printer: HostPrinter) -> None:
    _expect_no_gaps(op, op.input, None)
    _expect_no_gaps(op, op.result, op.joined_dim)
    _declare_group(op, printer)
    source, target = printer.declare_all((op.input, op.result))
    printer.writer.line(f"kn::all_gather(stream, group, {target}, {source}, {_count(op.input)});")


@print_host_operation.register
def _(op: kn.AllToAllOp, printer: HostPrinter) -> None:
    _expect_no_gaps(op, op.input, op.cut_dim)
    _expect_no_gaps(op, op.result, op.joined_dim)
    _declare_group(op, printer)
    source, target = printer.declare_all((op.input, op.result))
    count = _count(op.input) // op.devices
    printer.writer.line(f"kn::all_to_all(stream, group, {target}, {source}, {count});")


@print_host_operation.register
def _(op: kn.AllSliceOp, printer: HostPrinter) -> None:
    """A copy from where this device's part begins, which the communicator knows."""
    _declare_group(op, printer)
    source, target = printer.declare_all((op.input, op.result))
    step = strides_in_memory(op.input)[op.cut_dim] * shape_of(op.result.type)[op.cut_dim]
    place = op.taken_place_text("group.place")
    printer.writer.line(f"auto const* part = {source} + {place} * {step}LL;")
    start = [0] * len(shape_of(op.result.type))
    pointers = {op.input: "part", op.result: target}
    print_move(printer.writer, "stream", pointers, op.result, op.input, start)
