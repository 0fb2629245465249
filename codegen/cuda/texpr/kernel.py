"""A ``te.kernel`` as a ``__global__`` function."""

from __future__ import annotations

from typing import cast

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.texpr.program import TexprPrinter
from mugraph.codegen.cuda.texpr.scalars import scalar_type
from mugraph.dialects.te import BufferType, KernelOp, touches_in


def kernel_buffers(kernel: KernelOp) -> list[SSAValue]:
    """The buffers of device memory that a kernel accesses: parameters first, in order."""
    found: dict[SSAValue, None] = {}
    for op in kernel.walk():
        for operand in op.operands:
            if isinstance(operand.type, BufferType) and not kernel.is_ancestor(_owner(operand)):
                found[operand] = None

    def order(value: SSAValue) -> tuple[int, int]:
        return (0, value.index) if isinstance(value, BlockArgument) else (1, 0)

    return sorted(found, key=order)


def _owner(value: SSAValue) -> Operation:
    owner = value.owner
    op = owner.parent_op() if isinstance(owner, Block) else owner
    assert op is not None
    return op


def writes_to(kernel: KernelOp, buffer: SSAValue) -> bool:
    """Whether a kernel changes a buffer."""
    return any(touch.buffer is buffer and touch.writes for touch in touches_in(kernel))


class TexprKernelPrinter(TexprPrinter):
    """Prints the operators of a kernel."""

    def __init__(self, writer: Writer, kernel: KernelOp) -> None:
        super().__init__(writer, Names(), kernel.threads.iterations)
        self.kernel = kernel

    def print_kernel(self, name: str) -> None:
        """Prints the function."""
        kernel, writer = self.kernel, self.writer
        parameters: list[str] = []
        for buffer in kernel_buffers(kernel):
            const = "" if writes_to(kernel, buffer) else " const"
            type_ = scalar_type(cast(BufferType, buffer.type).element_type)
            parameters.append(f"{type_}{const}* __restrict__ {self.names.of(buffer)}")
        threads = kernel.threads.iterations
        blocks = kernel.cluster_blocks
        cluster = f"__cluster_dims__({blocks}, 1, 1) " if blocks > 1 else ""
        writer.open(
            f"__global__ void {cluster}__launch_bounds__({threads}) "
            f"{name}({', '.join(parameters)}) {{"
        )
        if kernel.smem_bytes is None:
            raise CodegenError(
                f"kernel '{kernel.symbol.data}' has no places for its buffers; run --te-promote"
            )
        if kernel.smem_bytes:
            writer.line("extern __shared__ __align__(128) char smem[];")
        self.variable("block", kernel.variable, "blockIdx.x")
        self.block(kernel.body.block)
        writer.close()
        writer.line()
