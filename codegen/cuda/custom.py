"""How the steps of custom operators are printed: with the loops of their source."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import stored_type
from mugraph.codegen.cuda.printer import KernelPrinter
from mugraph.codegen.cuda.texpr.program import TexprPrinter
from mugraph.dialects import sched
from mugraph.dialects.tensor_types import AnyLayout, resolved_layout_of


class StepPrinter(TexprPrinter):
    """Prints what a thread does in a step; buffers of the block lie as the schedule says."""

    def __init__(self, op: sched.CustomOp, printer: KernelPrinter) -> None:
        super().__init__(printer.writer, printer.names, op.thread_count)
        self._operands = dict(zip(op.parameters, op.buffers, strict=True))
        self.inlined[op.thread] = "thread"

    def layout(self, buffer: SSAValue) -> AnyLayout | None:
        """How a buffer lies: as the operand that it stands for."""
        operand = self._operands.get(buffer)
        return super().layout(buffer) if operand is None else resolved_layout_of(operand)


def print_custom(op: sched.CustomOp, printer: KernelPrinter) -> None:
    """Prints a step of a custom operator, in a block of its own."""
    writer = printer.writer
    step = StepPrinter(op, printer)
    writer.open(f"{{  {printer.describe(op)}: {op.title.data}")
    written = op.buffers_written()
    for parameter, value in zip(op.parameters, op.buffers, strict=True):
        pointer = printer.pointer(value)
        if pointer == printer.names.of(value):
            step.inlined[parameter] = pointer
            continue
        const = "" if value in written else " const"
        name = printer.names.of(parameter)
        writer.line(f"{stored_type(value)}{const}* const {name} = {pointer};")
    step.block(op.body.block)
    writer.close()
