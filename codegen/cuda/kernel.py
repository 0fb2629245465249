"""A ``sched.kernel`` as a ``__global__`` function."""

from __future__ import annotations

from mugraph.codegen.cuda.cpp import CodegenError, Writer, stored_type
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.operations import KernelPrinter, print_operation
from mugraph.dialects import sched
from mugraph.dialects.tensor_types import op_label


def print_kernel(kernel: sched.KernelOp, name: str, writer: Writer) -> None:
    """Prints one kernel under the given C++ name; raises :class:`CodegenError` if unplanned."""
    if kernel.smem_bytes is None:
        raise CodegenError(
            f"{op_label(kernel)} has no shared-memory plan; run --plan-stensor-memory first"
        )
    names = Names()
    parameters: list[str] = []
    for argument in kernel.body.block.args:
        constness = " const" if argument.index < kernel.input_count else ""
        type_ = stored_type(argument)
        parameters.append(f"{type_}{constness}* __restrict__ {names.of(argument)}")
    bounds = f"{kernel.threads}"
    if kernel.resident_blocks is not None:
        bounds += f", {kernel.resident_blocks}"
    writer.open(f"__global__ void __launch_bounds__({bounds}) {name}({', '.join(parameters)}) {{")
    writer.line("extern __shared__ __align__(128) char smem[];")
    writer.line(f"int const thread = {_thread_index(kernel)};")
    printer = KernelPrinter(writer, names, kernel)
    for op in kernel.body.block.ops:
        print_operation(op, printer)
    writer.close()
    writer.line()


def _thread_index(kernel: sched.KernelOp) -> str:
    x, y, z = kernel.block_dim
    index = "threadIdx.x"
    if y > 1 or z > 1:
        index += f" + {x} * threadIdx.y"
    if z > 1:
        index += f" + {x * y} * threadIdx.z"
    return index
