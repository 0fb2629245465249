"""The file of a mapped tensor expression: kernels, and the host function that launches them."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.codegen.cuda.channels import (
    map_declarations,
    map_names,
    print_host_maps,
    print_map_prefetch,
)
from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.host import (
    HostPrinter,
    alignment_check,
    print_execute,
    print_host_operation,
    print_launch,
    workspace_bytes,
)
from mugraph.codegen.cuda.kernel import open_kernel, print_shared_memory
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.texpr.asynchronous import (
    map_parameters,
    print_instructions,
    uses_mbarriers,
)
from mugraph.codegen.cuda.texpr.program import TexprPrinter, planned_offset
from mugraph.codegen.cuda.texpr.scalars import scalar_type
from mugraph.dialects.alignment import DEFAULT_ALIGNMENT, argument_alignment
from mugraph.dialects.te import (
    BufferType,
    KernelOp,
    NewOp,
    ParOp,
    SeqOp,
    input_parameters,
    touches_in,
    written_parameters,
)
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    op_label,
    value_label,
)


def print_texpr(function: FuncOp, writer: Writer) -> str:
    """The CUDA C++ text of a function that ``--te-lower`` has lowered; ends with a newline."""
    loop = next((op for op in function.body.block.ops if isinstance(op, (ParOp, SeqOp))), None)
    if loop is not None:
        raise CodegenError(
            f"{op_label(loop)} of {op_label(function)} is in no kernel; run --te-lower first"
        )
    writer.lines(["#define NUM_GPUS 1", "#define USE_NVSHMEM 0", '#include "te.h"'])
    is_asynchronous = any(map(uses_mbarriers, function.walk()))
    if is_asynchronous:
        writer.lines(['#include "arch/warpgroup.h"', '#include "atoms.h"', '#include "channels.h"'])
    writer.line()
    print_instructions(function, writer)
    names = Names()
    symbols: dict[KernelOp, str] = {}
    for kernel in [op for op in function.body.block.ops if isinstance(op, KernelOp)]:
        symbol = symbols[kernel] = names.fresh(f"{kernel.symbol.data}_kernel")
        with writer.of_operation(kernel):
            _print_kernel(kernel, symbol, writer, swizzles_addresses=is_asynchronous)
    places: dict[SSAValue, str] = {}
    checks: list[str] = []
    copies: list[str] = []
    for what, positions in (
        ("input", input_parameters(function)),
        ("output", written_parameters(function)),
    ):
        for number, position in enumerate(positions):
            argument, place = function.body.block.args[position], f"{what}_tensors.at({number})"
            alignment = argument_alignment(function, position)
            checks.append(alignment_check(place, alignment, f"{what} {number}", argument))
            # What is read and written is an output, which starts as the input.
            if argument in places:
                size = cast(BufferType, argument.type).elements * element_bytes_of(argument.type)
                moved = f"{place}, {places[argument]}, {size}"
                copies.append(f"mugraph::te::begin_with({moved}, stream);")
            places[argument] = place
    for op in function.body.block.ops:
        if isinstance(op, NewOp):
            places[op.result] = f"((char*)buf + {planned_offset(op)})"
    if workspace_bytes(function):
        checks.append(alignment_check("buf", DEFAULT_ALIGNMENT, "the workspace"))
    printer = HostPrinter(writer, names, symbols, places, _element)
    print_execute(function, printer, [*checks, *copies])
    return writer.text()


def _element(value: SSAValue) -> str:
    return scalar_type(element_type_of(value.type))


def _tensors_of(kernel: KernelOp) -> dict[SSAValue, bool]:
    """Buffers of device memory that a kernel accesses, parameters first; whether it writes each."""
    found: dict[SSAValue, bool] = {}
    for touch in touches_in(kernel):
        owner = touch.buffer.owner
        if not (isinstance(owner, NewOp) and kernel.is_ancestor(owner)):
            found[touch.buffer] = found.get(touch.buffer, False) or touch.writes

    def order(value: SSAValue) -> tuple[int, int]:
        return (0, value.index) if isinstance(value, BlockArgument) else (1, 0)

    return {value: found[value] for value in sorted(found, key=order)}


def _print_kernel(kernel: KernelOp, name: str, writer: Writer, *, swizzles_addresses: bool) -> None:
    if kernel.smem_bytes is None:
        raise CodegenError(
            f"kernel '{kernel.symbol.data}' has no places for its buffers; run --te-promote"
        )
    threads, names = kernel.threads.iterations, Names()
    tensors = _tensors_of(kernel)
    parameters = [
        f"{_element(buffer)}{'' if written else ' const'}* __restrict__ {names.of(buffer)}"
        for buffer, written in tensors.items()
    ]
    maps = map_names(map_parameters(kernel, list(tensors)), list(tensors), names)
    parameters += map_declarations(maps)
    cluster = (kernel.cluster_blocks, 1, 1) if kernel.cluster_blocks > 1 else None
    open_kernel(writer, name, parameters, [threads], cluster)
    if kernel.smem_bytes:
        print_shared_memory(writer, swizzles_addresses=swizzles_addresses)
    if maps:
        print_map_prefetch(maps, writer, "threadIdx.x")
    printer = TexprPrinter(writer, names, threads)
    printer.maps = {
        (list(tensors)[key.argument], key.box, key.span, key.tile.steps): maps[key] for key in maps
    }
    printer.variable("block", kernel.variable, "blockIdx.x")
    printer.block(kernel.body.block)
    writer.close()
    writer.line()


@print_host_operation.register
def _(op: NewOp, printer: HostPrinter) -> None:
    printer.writer.line(f"// {value_label(op.result)} is at {printer.places[op.result]}")


@print_host_operation.register
def _(op: KernelOp, printer: HostPrinter) -> None:
    tensors = list(_tensors_of(op))
    name, pointers = printer.kernel_names[op], printer.declare_all(tensors)
    maps = map_parameters(op, tensors)
    pointers += print_host_maps(maps, tensors, printer.writer, printer.names)
    print_launch(printer, name, [op.iterations], [op.threads.iterations], op.smem_bytes, pointers)
