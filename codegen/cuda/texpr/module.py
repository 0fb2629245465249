"""The file of a mapped tensor expression: kernels, and the host function that launches them."""

from __future__ import annotations

import math
from typing import cast

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.codegen.cuda.buckets import extent_checks
from mugraph.codegen.cuda.channels import (
    map_declarations,
    map_names,
    print_host_maps,
    print_map_prefetch,
)
from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.execute import print_execute, print_init
from mugraph.codegen.cuda.host import (
    HostPrinter,
    alignment_check,
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
from mugraph.dialects import te
from mugraph.dialects.alignment import DEFAULT_ALIGNMENT, argument_alignment
from mugraph.dialects.te.sizes import ends_of, size_arguments, size_of
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    op_label,
    value_label,
)


def print_texpr(function: FuncOp, writer: Writer) -> str:
    """The CUDA C++ text of a function that ``--te-lower`` has lowered; ends with a newline."""
    loop = next(
        (op for op in function.body.block.ops if isinstance(op, (te.ParOp, te.SeqOp))), None
    )
    if loop is not None:
        raise CodegenError(
            f"{op_label(loop)} of {op_label(function)} is in no kernel; run --te-lower first"
        )
    writer.lines(["#define NUM_GPUS 1", "#define USE_NVSHMEM 0", '#include "te.h"'])
    is_asynchronous = any(map(uses_mbarriers, function.walk()))
    if is_asynchronous:
        writer.lines(['#include "arch/warpgroup.h"', '#include "atoms.h"', '#include "channels.h"'])
    if any(isinstance(op, te.KernelOp) and op.is_cooperative for op in function.body.block.ops):
        writer.line('#include "arch/grid_barrier.h"')
    writer.line()
    print_instructions(function, writer)
    names = Names()
    symbols: dict[te.KernelOp, str] = {}
    for kernel in [op for op in function.body.block.ops if isinstance(op, te.KernelOp)]:
        symbol = symbols[kernel] = names.fresh(f"{kernel.symbol.data}_kernel")
        with writer.of_operation(kernel):
            _print_kernel(kernel, symbol, writer, swizzles_addresses=is_asynchronous)
    places: dict[SSAValue, str] = {}
    sizes = size_arguments(function)
    first = len(te.input_parameters(function))
    for number, argument in enumerate(sizes.values(), first):
        places[argument] = f"input_tensors.at({number})"
    checks = extent_checks(function, {name: places[one] for name, one in sizes.items()})
    copies: list[str] = []
    for what, positions in (
        ("input", te.input_parameters(function)),
        ("output", te.written_parameters(function)),
    ):
        for number, position in enumerate(positions):
            argument, place = function.body.block.args[position], f"{what}_tensors.at({number})"
            alignment = argument_alignment(function, position)
            checks.append(alignment_check(place, alignment, f"{what} {number}", argument))
            # What is read and written is an output, which starts as the input.
            if argument in places:
                size = _bytes_text(argument)
                moved = f"{place}, {places[argument]}, {size}"
                copies.append(f"mugraph::te::begin_with({moved}, stream);")
            places[argument] = place
    for op in function.body.block.ops:
        if isinstance(op, te.NewOp):
            places[op.result] = f"((char*)buf + {planned_offset(op)})"
    if workspace_bytes(function):
        checks.append(alignment_check("buf", DEFAULT_ALIGNMENT, "the workspace"))
    printer = HostPrinter(writer, names, symbols, places, _element)
    print_execute(function, printer, [*checks, *copies])
    print_init(writer)
    return writer.text()


def _bytes_text(argument: SSAValue) -> str:
    """The bytes of a buffer, in a call."""
    shape, ends = cast(te.BufferType, argument.type).get_shape(), ends_of(argument)
    known = {dim: size_of(size) for dim, size in ends.items()}
    names = {dim: f"extent_{one.name}" for dim, one in known.items() if one is not None}
    size = element_bytes_of(argument.type)
    size *= math.prod(extent for dim, extent in enumerate(shape) if dim not in names)
    return " * ".join([str(size), *names.values()])


def _element(value: SSAValue) -> str:
    return scalar_type(element_type_of(value.type))


def _tensors_of(kernel: te.KernelOp) -> dict[SSAValue, bool]:
    """Buffers of device memory that a kernel accesses, parameters first; whether it writes each.

    Behind them the sizes that a call says.
    """
    found: dict[SSAValue, bool] = {}
    for touch in te.touches_in(kernel):
        owner = touch.buffer.owner
        if not (isinstance(owner, te.NewOp) and kernel.is_ancestor(owner)):
            found[touch.buffer] = found.get(touch.buffer, False) or touch.writes

    def order(value: SSAValue) -> tuple[int, int]:
        return (0, value.index) if isinstance(value, BlockArgument) else (1, 0)

    function = kernel.parent_op()
    sizes = size_arguments(function).values() if isinstance(function, FuncOp) else ()
    return {value: found[value] for value in sorted(found, key=order)} | dict.fromkeys(sizes, False)


def _print_kernel(
    kernel: te.KernelOp, name: str, writer: Writer, *, swizzles_addresses: bool
) -> None:
    if kernel.smem_bytes is None:
        raise CodegenError(
            f"kernel '{kernel.symbol.data}' has no places for its buffers; run --te-promote"
        )
    threads, names = kernel.threads.iterations, Names()
    tensors = _tensors_of(kernel)
    parameters = [
        f"int const {names.of(buffer)}"
        if isinstance(buffer.type, IndexType)
        else f"{_element(buffer)}{'' if written else ' const'}* __restrict__ {names.of(buffer)}"
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
    wide, high, _ = kernel.grid_dim
    number = "blockIdx.x" if high == 1 else f"blockIdx.x + {wide} * blockIdx.y"
    if kernel.grid_dim[2] > 1:
        number += f" + {wide * high} * blockIdx.z"
    printer.variable("block", kernel.variable, number)
    printer.block(kernel.body.block)
    writer.close()
    writer.line()


def _argument(kernel: te.KernelOp, number: int) -> SSAValue:
    function = kernel.parent_op()
    assert isinstance(function, FuncOp)
    return function.args[number]


@print_host_operation.register
def _(op: te.NewOp, printer: HostPrinter) -> None:
    printer.writer.line(f"// {value_label(op.result)} is at {printer.places[op.result]}")


@print_host_operation.register
def _(op: te.KernelOp, printer: HostPrinter) -> None:
    tensors = list(_tensors_of(op))
    name, pointers = printer.kernel_names[op], printer.declare_all(tensors)
    maps = map_parameters(op, tensors)
    pointers += print_host_maps(maps, tensors, printer.writer, printer.names, strides_of_call=True)
    grid: list[str] = [*map(str, op.grid_dim)]
    for cut in op.cuts:
        size = printer.names.of(_argument(op, cut.argument))
        grid[cut.axis] = f"({size} + {cut.step - 1}) / {cut.step}" if cut.step > 1 else size
    if op.grid_dim[1:] == (1, 1):
        grid = grid[:1]
    threads, smem = [op.threads.iterations], op.smem_bytes
    together = op.is_cooperative
    print_launch(printer, name, grid, threads, smem, pointers, cooperative=together)
