"""The file of a mapped tensor expression: kernels, and the host function that launches them."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.host import (
    HostPrinter,
    alignment_check,
    print_execute,
    print_host_operation,
    workspace_bytes,
)
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.texpr.kernel import TexprKernelPrinter, kernel_buffers
from mugraph.codegen.cuda.texpr.scalars import scalar_type
from mugraph.dialects.alignment import DEFAULT_ALIGNMENT, argument_alignment
from mugraph.dialects.te import (
    BufferType,
    KernelOp,
    NewOp,
    ParOp,
    SeqOp,
    input_parameters,
    written_parameters,
)
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    element_type_of,
    op_label,
    value_label,
)
from mugraph.passes.texpr.te_promote import OFFSET


def print_texpr(function: FuncOp, writer: Writer) -> str:
    """The CUDA C++ text of a function that ``--te-lower`` has lowered; ends with a newline."""
    loop = next((op for op in function.body.block.ops if isinstance(op, (ParOp, SeqOp))), None)
    if loop is not None:
        raise CodegenError(
            f"{op_label(loop)} of {op_label(function)} is in no kernel; run --te-lower first"
        )
    writer.lines(["#define NUM_GPUS 1", "#define USE_NVSHMEM 0", '#include "te.h"', ""])
    names = Names()
    symbols: dict[KernelOp, str] = {}
    for kernel in [op for op in function.body.block.ops if isinstance(op, KernelOp)]:
        symbol = symbols[kernel] = names.fresh(f"{kernel.symbol.data}_kernel")
        with writer.of_operation(kernel):
            TexprKernelPrinter(writer, kernel).print_kernel(symbol)
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
            offset = op.attributes.get(OFFSET)
            if not isinstance(offset, IntegerAttr):
                raise CodegenError("a buffer of the function has no place; run --te-promote")
            places[op.result] = f"((char*)buf + {offset.value.data})"
    if workspace_bytes(function):
        checks.append(alignment_check("buf", DEFAULT_ALIGNMENT, "the workspace"))
    printer = HostPrinter(writer, names, symbols, places, _element)
    print_execute(function, printer, [*checks, *copies])
    return writer.text()


def _element(value: SSAValue) -> str:
    return scalar_type(element_type_of(value.type))


@print_host_operation.register
def _(op: NewOp, printer: HostPrinter) -> None:
    printer.writer.line(f"// {value_label(op.result)} is at {printer.places[op.result]}")


@print_host_operation.register
def _(op: KernelOp, printer: HostPrinter) -> None:
    name, threads = printer.kernel_names[op], op.threads.iterations
    pointers = printer.declare_all(kernel_buffers(op))
    printer.writer.line(
        f'mugraph::launch("{name}", {name}, dim3({op.iterations}), dim3({threads}), '
        f"{op.smem_bytes}, {', '.join(['stream', *pointers])});"
    )
