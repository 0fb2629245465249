"""How mbarriers, bulk copies and products of warp groups are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
)

from mugraph.codegen.cuda.channels import MapParameter
from mugraph.codegen.cuda.cpp import Writer
from mugraph.codegen.cuda.texpr.program import TexprPrinter, planned_offset, print_asynchronous
from mugraph.codegen.cuda.texpr.scalars import scalar_type
from mugraph.codegen.cuda.warpgroup import print_warpgroup_atom, shared_matrix_type
from mugraph.dialects import te
from mugraph.dialects.te.sizes import ends_of

_FUNCTIONS: dict[type[Operation], str] = {
    te.MbarrierFenceOp: "mbarrier_init_fence",
    te.ProxyFenceOp: "proxy_fence",
    te.BulkCommitOp: "commit_bulk_stores",
    te.WarpgroupCommitOp: "commit_products",
}
"""The functions of the runtime without arguments."""
_OF_HEADERS = (
    te.NewMbarriersOp,
    te.BulkCopyOp,
    te.WarpgroupMmaOp,
    te.NamedBarrierOp,
    te.ProxyFenceOp,
)


def uses_mbarriers(op: Operation) -> bool:
    """Whether an operator needs the headers of mbarriers and of warp groups."""
    return isinstance(op, _OF_HEADERS)


def print_instructions(function: FuncOp, writer: Writer) -> None:
    """Prints every instruction of warp groups that a function uses, once."""
    found = {
        op.instruction.name: op.instruction
        for op in function.walk()
        if isinstance(op, te.WarpgroupMmaOp)
    }
    if found:
        writer.lines(
            [
                "namespace atoms = mugraph::atoms;",
                "using mugraph::half_t;",
                "using mugraph::bfloat16_t;",
                "",
            ]
        )
    for name in sorted(found):
        print_warpgroup_atom(found[name], writer)
        writer.line()


def map_parameters(kernel: te.KernelOp, tensors: Sequence[SSAValue]) -> list[MapParameter]:
    """The tensor maps that a kernel takes after its tensors, in order."""
    found = [
        MapParameter(
            tensors.index(op.tensor),
            tile.box,
            tile.span,
            tile,
            tuple((dim, tensors.index(size)) for dim, size in ends_of(op.tensor).items()),
        )
        for op in kernel.walk()
        if isinstance(op, te.BulkCopyOp)
        for tile in (op.described(),)
    ]
    return list(dict.fromkeys(found))


def _mbarrier(
    printer: TexprPrinter, barriers: SSAValue, number: AffineExpr, operands: Sequence[SSAValue]
) -> str:
    name = printer.text(barriers)
    index = printer.index(number, list(operands))
    return name if index == "0" else f"{name} + {index}"


def _of(op: te.MbarrierOp, printer: TexprPrinter) -> str:
    return _mbarrier(printer, op.barriers, op.number, op.indices)


@print_asynchronous.register
def _(op: te.NewMbarriersOp, printer: TexprPrinter) -> None:
    name, place = printer.names.of(op.result), f"smem + {planned_offset(op)}"
    printer.writer.line(f"uint64_t* const {name} = reinterpret_cast<uint64_t*>({place});")


@print_asynchronous.register
def _(op: te.MbarrierInitOp, printer: TexprPrinter) -> None:
    printer.writer.line(f"mugraph::mbarrier_init({_of(op, printer)}, {op.expected});")


@print_asynchronous.register(te.MbarrierFenceOp)
@print_asynchronous.register(te.ProxyFenceOp)
@print_asynchronous.register(te.BulkCommitOp)
@print_asynchronous.register(te.WarpgroupCommitOp)
def _(op: Operation, printer: TexprPrinter) -> None:
    printer.writer.line(f"mugraph::{_FUNCTIONS[type(op)]}();")


@print_asynchronous.register
def _(op: te.MbarrierArriveOp, printer: TexprPrinter) -> None:
    if op.bytes:
        printer.writer.line(f"mugraph::mbarrier_arrive_expect({_of(op, printer)}, {op.bytes});")
    else:
        printer.writer.line(f"mugraph::mbarrier_arrive({_of(op, printer)});")


@print_asynchronous.register
def _(op: te.MbarrierWaitOp, printer: TexprPrinter) -> None:
    parity = printer.index(op.parity, list(op.parity_indices))
    printer.writer.line(f"mugraph::mbarrier_wait({_of(op, printer)}, {parity});")


@print_asynchronous.register
def _(op: te.MbarrierAddressOp, printer: TexprPrinter) -> None:
    address = f"mugraph::te::shared_address({_of(op, printer)})"
    printer.define(op.result, f"static_cast<int>({address})", "address")


@print_asynchronous.register
def _(op: te.NamedBarrierOp, printer: TexprPrinter) -> None:
    printer.writer.line(f"mugraph::named_barrier({op.name_of_barrier}, {op.threads});")


# Bulk copies.


def _box(op: te.BulkCopyOp, printer: TexprPrinter) -> tuple[str, str, str]:
    """The box's place in shared memory, its tensor map, and where it begins in the tensor."""
    described = op.described()
    name = printer.maps[op.tensor, described.box, described.span, described.steps]
    first = printer.index(op.buffer_map.data.results[0], list(op.buffer_indices))
    place = printer.text(op.buffer) + ("" if first == "0" else f" + {first}")
    starts = [printer.index(one, list(op.tensor_indices)) for one in op.tensor_map.data.results]
    return place, f"&{name}", ", ".join(reversed(starts))


@print_asynchronous.register
def _(op: te.BulkLoadOp, printer: TexprPrinter) -> None:
    place, tensor_map, start = _box(op, printer)
    barrier = _mbarrier(printer, op.barriers, op.number, op.barrier_indices)
    printer.writer.line(f"mugraph::bulk_load({place}, {tensor_map}, {barrier}, {start});")


@print_asynchronous.register
def _(op: te.BulkStoreOp, printer: TexprPrinter) -> None:
    place, tensor_map, start = _box(op, printer)
    printer.writer.line(f"mugraph::bulk_store({tensor_map}, {place}, {start});")


@print_asynchronous.register
def _(op: te.BulkWaitOp, printer: TexprPrinter) -> None:
    printer.writer.line(f"mugraph::wait_bulk_stores<{op.groups}>();")


# Products of warp groups.


@print_asynchronous.register
def _(op: te.WarpgroupFenceOp, printer: TexprPrinter) -> None:
    for sums in op.sums:
        printer.writer.line(f"mugraph::pin({printer.text(sums)});")
    printer.writer.line("mugraph::begin_products();")


@print_asynchronous.register
def _(op: te.WarpgroupWaitOp, printer: TexprPrinter) -> None:
    printer.writer.line(f"mugraph::wait_products<{op.groups}>();")
    for sums in op.finished:
        printer.writer.line(f"mugraph::pin({printer.text(sums)});")


@print_asynchronous.register
def _(op: te.WarpgroupMmaOp, printer: TexprPrinter) -> None:
    matrices: list[str] = []
    for name, (buffer, indices, map_, _layout) in op.sides.items():
        element = scalar_type(cast(te.BufferType, buffer.type).element_type)
        moving, constant = _split_constant(map_.data.results[0])
        start = printer.index(moving, list(indices))
        place = printer.text(buffer) + ("" if start == "0" else f" + {start}")
        matrices.append(f"{shared_matrix_type(op.matrix(name), element)}{{{place}, {constant}}}")
    (sums, *_rest) = op.touches()
    first = printer.element(sums.buffer, sums.expressions, list(sums.indices))
    thread = "static_cast<int>(threadIdx.x) % 128"
    printer.writer.line(f"{op.instruction.name}::mma(&{first}, {', '.join(matrices)}, {thread});")


def _split_constant(expression: AffineExpr) -> tuple[AffineExpr, int]:
    """An expression as a sum of two, the second known when compiled."""
    match expression:
        case AffineConstantExpr(value):
            return AffineExpr.constant(0), value
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add, rest, AffineConstantExpr(value)):
            return rest, value
        case _:
            return expression, 0
