"""The file of a mapped tensor expression: kernels, and the host function that launches them."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.host import open_execute, workspace_bytes
from mugraph.codegen.cuda.names import Names, sanitize
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
from mugraph.dialects.tensor_types import element_bytes_of, op_label
from mugraph.passes.texpr.te_promote import OFFSET


def print_texpr(function: FuncOp, writer: Writer) -> str:
    """The CUDA C++ text of a function that ``--te-lower`` has lowered; ends with a newline."""
    writer.lines(["#define NUM_GPUS 1", "#define USE_NVSHMEM 0", '#include "te.h"', ""])
    names = Names()
    kernels = [op for op in function.body.block.ops if isinstance(op, KernelOp)]
    symbols: dict[KernelOp, str] = {}
    for kernel in kernels:
        symbols[kernel] = names.fresh(f"{kernel.symbol.data}_kernel")
        with writer.of_operation(kernel):
            TexprKernelPrinter(writer, kernel).print_kernel(symbols[kernel])
    _print_execute(function, symbols, names, writer)
    return writer.text()


def _print_execute(
    function: FuncOp, symbols: dict[KernelOp, str], names: Names, writer: Writer
) -> None:
    loop = next((op for op in function.body.block.ops if isinstance(op, (ParOp, SeqOp))), None)
    if loop is not None:
        raise CodegenError(
            f"{op_label(loop)} of {op_label(function)} is in no kernel; run --te-lower first"
        )
    needed = workspace_bytes(function)
    open_execute(writer, needed)
    pointers: dict[SSAValue, str] = {}
    arguments = function.body.block.args
    inputs = {position: index for index, position in enumerate(input_parameters(function))}
    outputs = {position: index for index, position in enumerate(written_parameters(function))}
    for position, argument in enumerate(arguments):
        type_ = argument.type
        assert isinstance(type_, BufferType)
        element = scalar_type(type_.element_type)
        name = pointers[argument] = names.of(argument)
        alignment = argument_alignment(function, position)
        given: list[tuple[str, str]] = []
        if position in inputs:
            given.append((f"input_tensors.at({inputs[position]})", f"input {inputs[position]}"))
        if position in outputs:
            given.append((f"output_tensors.at({outputs[position]})", f"output {outputs[position]}"))
        for place, what in given:
            hint = f" ({sanitize(argument.name_hint)})" if argument.name_hint else ""
            writer.line(f'mugraph::check_alignment({place}, {alignment}, "{what}{hint}");')
        const = "" if position in outputs else " const"
        writer.line(f"auto* const {name} = static_cast<{element}{const}*>({given[-1][0]});")
        if len(given) == 2:
            size = type_.elements * element_bytes_of(type_)
            writer.line(f"mugraph::te::begin_with({name}, {given[0][0]}, {size}, stream);")
    if needed:
        writer.line(f'mugraph::check_alignment(buf, {DEFAULT_ALIGNMENT}, "the workspace");')
    for op in function.body.block.ops:
        match op:
            case NewOp():
                offset = op.attributes.get(OFFSET)
                if not isinstance(offset, IntegerAttr):
                    raise CodegenError("a buffer of the function has no place; run --te-promote")
                element = scalar_type(op.result.type.element_type)
                name = pointers[op.result] = names.of(op.result)
                place = f"static_cast<char*>(buf) + {offset.value.data}"
                writer.line(f"auto* const {name} = reinterpret_cast<{element}*>({place});")
            case KernelOp():
                passed = [pointers[buffer] for buffer in kernel_buffers(op)]
                symbol = symbols[op]
                threads = op.threads.iterations
                given_text = ", ".join(["stream", *passed])
                writer.line(
                    f'mugraph::launch("{symbol}", {symbol}, dim3({op.iterations}), '
                    f"dim3({threads}), {op.smem_bytes}, {given_text});"
                )
            case ReturnOp():
                pass
            case _:
                raise CodegenError(
                    f"the CUDA target cannot print {op_label(op)}; print a module that --te-lower "
                    "made"
                )
    if not needed:
        writer.line("(void)buf;")
    writer.close()
