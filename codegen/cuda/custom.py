"""How the steps of custom operators are printed: with the loops of their source."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.codegen.cuda.cpp import stored_type
from mugraph.codegen.cuda.printer import KernelPrinter
from mugraph.codegen.cuda.texpr.program import TexprPrinter
from mugraph.dialects import sched
from mugraph.dialects.cute import ComposedLayout
from mugraph.dialects.te.indices import number_coordinates
from mugraph.dialects.tensor_types import base_layout, resolved_layout_of, shape_of


class StepPrinter(TexprPrinter):
    """Prints what a thread does in a step; buffers of the block lie as the schedule says."""

    def __init__(self, op: sched.CustomOp, printer: KernelPrinter) -> None:
        super().__init__(printer.writer, printer.names, op.thread_count)
        self._operands = dict(zip(op.parameters, op.buffers, strict=True))
        self.inlined[op.thread] = "thread"

    def element(
        self, buffer: SSAValue, expressions: Sequence[AffineExpr], operands: Sequence[SSAValue]
    ) -> str:
        """An element of a buffer, by the layout of the operand if it is one."""
        operand = self._operands.get(buffer)
        if operand is None:
            return super().element(buffer, expressions, operands)
        layout = resolved_layout_of(operand)
        if len(expressions) != len(shape_of(operand.type)):
            expressions = number_coordinates(expressions[0], shape_of(operand.type))
        offset = AffineExpr.constant(0)
        for mode, expression in zip(base_layout(layout), expressions, strict=True):
            offset = _sum(offset, _along(expression, mode.flat_shape, mode.flat_stride))
        text = self.index(offset, operands)
        if isinstance(layout, ComposedLayout) and layout.swizzle.bits:
            one = layout.swizzle
            text = f"mugraph::te::swizzle<{one.bits}, {one.base}, {one.shift}>({text})"
        return f"{self.text(buffer)}[{text}]"


def _along(expression: AffineExpr, extents: Sequence[int], strides: Sequence[int]) -> AffineExpr:
    """The offset along a dimension, whose modes have these extents and strides."""
    if expression == AffineExpr.constant(0):
        return expression
    total = AffineExpr.constant(0)
    rest = expression
    for place, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        is_last = place == len(extents) - 1
        digit = rest if is_last else rest % extent
        total = _sum(total, digit if stride == 1 else digit * stride)
        if not is_last:
            rest = rest // extent
    return total


def _sum(left: AffineExpr, right: AffineExpr) -> AffineExpr:
    zero = AffineExpr.constant(0)
    if zero in (left, right):
        return right if left == zero else left
    return left + right


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
