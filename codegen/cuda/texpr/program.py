"""What the threads of a block do, with the loops of the source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import singledispatch, singledispatchmethod
from typing import cast

from xdsl.dialects.builtin import f32, f64, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from mugraph.codegen.cuda.cpp import CodegenError, Writer
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.texpr.indices import INT_MAX, index_text, range_of, split_multiples
from mugraph.codegen.cuda.texpr.scalars import is_scalar, scalar_text, scalar_type
from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.cute import ComposedLayout, Layout
from mugraph.dialects.te.accesses import Placed
from mugraph.dialects.te.indices import compared, coordinates_of
from mugraph.dialects.te.iterations import is_only_stated
from mugraph.dialects.te.mapped import UNROLL
from mugraph.dialects.te.sizes import ends_of
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    layout_of,
    row_major_strides,
    source_name,
)

_BARRIERS = {
    te.Scope.WARP: "__syncwarp",
    te.Scope.BLOCK: "__syncthreads",
    te.Scope.CLUSTER: "mugraph::te::sync_cluster",
    te.Scope.GRID: "mugraph::te::sync_grid",
}


def planned_offset(op: Placed) -> int:
    """Where in memory something begins."""
    if op.byte_offset is None:
        name = source_name(op.results[0])
        raise CodegenError(f"{name} has no place in memory; run --te-promote")
    return op.byte_offset


@singledispatch
def print_asynchronous(op: Operation, printer: TexprPrinter) -> None:
    """Prints an operator on mbarriers, a bulk copy or a product of warp groups."""
    raise CodegenError(
        f"the CUDA target cannot print '{op.name}'; print a module that --te-lower made"
    )


class TexprPrinter:
    """Prints what the ``threads`` threads of a block do."""

    def __init__(self, writer: Writer, names: Names, threads: int) -> None:
        self.writer = writer
        self.names = names
        self.threads = threads
        self.inlined: dict[SSAValue, str] = {}
        self.maps: dict[tuple[SSAValue, tuple[int, ...], int, tuple[int, ...]], str] = {}
        """The tensor maps, by tensor, box and swizzle."""

    def variable(self, name: str, value: SSAValue, index: str) -> None:
        """A number of the grid or the block."""
        if not value.first_use or is_only_stated(value):
            return
        self.names.reserve(name)
        self.inlined[value] = name
        self.writer.line(f"int const {name} = static_cast<int>({index});")

    def block(self, block: Block) -> None:
        """Prints the operators of a block in order."""
        for op in block.ops:
            with self.writer.of_operation(op):
                self.print(op)

    def text(self, value: SSAValue) -> str:
        """A number or a buffer, as an expression."""
        return self.inlined.get(value) or self.names.of(value)

    def index(self, expression: AffineExpr, operands: Sequence[SSAValue]) -> str:
        """An index expression."""
        return index_text(expression, operands, self.text)

    def define(self, value: SSAValue, expression: str, name: str | None = None) -> None:
        """Declares a number."""
        if name is not None and value.name_hint is None:
            value.name_hint = name
        self.writer.line(f"{scalar_type(value.type)} const {self.names.of(value)} = {expression};")

    @singledispatchmethod
    def print(self, op: Operation) -> None:
        """Prints one operator."""
        if not is_scalar(op):
            print_asynchronous(op, self)
            return
        expression = scalar_text(op, [self.text(operand) for operand in op.operands])
        result = op.results[0]
        uses = list(result.uses)
        alone = len(uses) == 1 and uses[0].operation.parent_block() is op.parent_block()
        if op.name == "arith.constant" or alone:
            self.inlined[result] = expression
        elif uses:
            self.define(result, _without_brackets(expression))

    # Structure.

    @print.register
    def _(self, op: te.ThreadsOp) -> None:
        self.variable("thread", op.variable, "threadIdx.x")
        self.block(op.body.block)

    @print.register
    def _(self, op: te.StepOp) -> None:
        self.writer.line(f"// {op.title.data}")
        self.writer.open("{")
        self.block(op.body.block)
        self.writer.close()

    @print.register
    def _(self, op: te.SeqOp) -> None:
        if _only_states(op.body.block):
            return
        name = self.names.of(op.variable)
        ends, body = f"{name} < {op.iterations}", op.body.block
        if UNROLL in op.attributes:
            self.writer.line("#pragma unroll")
        elif (condition := op.end()) is not None:
            ends, body = f"{ends} && {self.holds(condition)}", condition.body.block
        self.writer.open(f"for (int {name} = 0; {ends}; ++{name}) {{")
        self.block(body)
        self.writer.close()

    @print.register
    def _(self, op: te.IfOp) -> None:
        self.writer.open(f"if ({self.holds(op)}) {{")
        self.block(op.body.block)
        self.writer.close()

    @print.register
    def _(self, op: te.WhenOp) -> None:
        self.writer.open(f"if ({_without_brackets(self.text(op.condition))}) {{")
        self.block(op.body.block)
        self.writer.close()

    def holds(self, op: te.Conditional) -> str:
        """Whether all conditions of an operator hold."""
        return " && ".join(self.condition(*one, op.indices) for one in op.conditions())

    def condition(self, expression: AffineExpr, equal: bool, indices: Sequence[SSAValue]) -> str:
        """``expression == 0`` or ``expression >= 0``, its constant on the other side."""
        left, token, bound = compared(expression, equal=equal)
        return f"{self.index(left, indices)} {token} {bound}"

    @print.register
    def _(self, op: te.IterationOp) -> None:
        pass  # what --te-check-mapping proves

    @print.register
    def _(self, op: te.ApplyOp) -> None:
        if is_only_stated(op.result):
            return
        text = self.index(op.expression, list(op.indices))
        self.writer.line(f"int const {self.names.of(op.result)} = {text};")

    @print.register
    def _(self, op: te.BarrierOp) -> None:
        self.writer.line(f"{_BARRIERS[op.threads]}();")

    # Buffers.

    @print.register
    def _(self, op: te.NewOp) -> None:
        type_ = op.result.type
        name, element = self.names.of(op.result), scalar_type(type_.element_type)
        match type_.memory_space:
            case te.Space.REGISTER:
                self.writer.line(f"alignas(16) {element} {name}[{type_.elements}];")
            case te.Space.SHARED | te.Space.CLUSTER:
                place = f"smem + {planned_offset(op)}"
                self.writer.line(
                    f"{element}* const {name} = reinterpret_cast<{element}*>({place});"
                )
            case _:
                raise CodegenError(f"buffer {name} has no memory; run --te-promote")

    def element(
        self, buffer: SSAValue, expressions: Sequence[AffineExpr], operands: Sequence[SSAValue]
    ) -> str:
        """An element of a buffer."""
        ends = ends_of(buffer)
        if max(ends, default=0):
            return f"{self.text(buffer)}[{self._sized_number(buffer, expressions, operands, ends)}]"
        shape = _type(buffer).get_shape()
        if _type(buffer).memory_space is te.Space.CLUSTER:
            return self._element_of_cluster(buffer, coordinates_of(expressions, shape), operands)
        layout = self.layout(buffer)
        plain = Layout(shape, row_major_strides(shape)) if layout is None else base_layout(layout)
        number = AffineExpr.constant(0)
        if len(expressions) == 1 and plain == Layout(shape, row_major_strides(shape)):
            number = expressions[0]
        else:
            for mode, expression in zip(plain, coordinates_of(expressions, shape), strict=True):
                number += _along(expression, mode.flat_shape, mode.flat_stride)
        text = self.index(number, operands)
        if isinstance(layout, ComposedLayout) and layout.swizzle.bits:
            one = layout.swizzle
            if range_of(number, operands)[1] >= 2**31:
                raise CodegenError("a swizzled buffer has at most 2^31 elements")
            # What the swizzle neither reads nor changes stays outside: the same for many accesses.
            period = 1 << (one.bits + one.base + one.shift)
            rest, multiple, named = split_multiples(number, operands, period)
            text = f"mugraph::te::swizzle<{one.bits}, {one.base}, {one.shift}>"
            text += f"({self.index(rest, named)})"
            if multiple != AffineExpr.constant(0):
                text = f"{self.index(multiple, named)} + {text}"
        return f"{self.text(buffer)}[{text}]"

    def _sized_number(
        self,
        buffer: SSAValue,
        expressions: Sequence[AffineExpr],
        operands: Sequence[SSAValue],
        ends: Mapping[int, SSAValue],
    ) -> str:
        """The row-major number of an element of a buffer whose rows are as long as a call says."""
        type_ = _type(buffer)
        number = "" if type_.elements <= INT_MAX else "int64_t(0)"
        for dim, (one, extent) in enumerate(zip(expressions, type_.get_shape(), strict=True)):
            index = self.index(one, operands)
            length = self.text(ends[dim]) if dim in ends else str(extent)
            if number:
                before = f"({number})" if " " in number else number
                number = f"{before} * {length} + {index}"
            else:
                number = index
        return number

    def _element_of_cluster(
        self, buffer: SSAValue, coordinates: Sequence[AffineExpr], operands: Sequence[SSAValue]
    ) -> str:
        """An element of a buffer of which each block of a cluster has a part."""
        block, *rest = coordinates
        number = AffineExpr.constant(0)
        for one, stride in zip(rest, row_major_strides(_type(buffer).get_shape())[1:], strict=True):
            number += one * stride
        part = self.text(buffer)
        if not _is_own_block(block, operands):
            part = f"mugraph::te::of_block({part}, {self.index(block, operands)})"
        return f"{part}[{self.index(number, operands)}]"

    def layout(self, buffer: SSAValue) -> AnyLayout | None:
        """How a buffer lies; ``None`` for row-major."""
        return layout_of(_type(buffer))

    def place(self, op: te.AccessOp) -> str:
        """The element that an operator accesses."""
        return self.element(op.buffer, op.index_map.results, list(op.indices))

    @print.register
    def _(self, op: te.ViewOp) -> None:
        if op.result.first_use:
            self.define(op.result, self.place(op), f"{op.buffer.name_hint or 'v'}_at")

    @print.register
    def _(self, op: te.BindOp) -> None:
        self.writer.line(f"{self.place(op)} = {_without_brackets(self.text(op.value))};")

    @print.register
    def _(self, op: te.RedOp) -> None:
        place, value = self.place(op), self.text(op.value)
        if op.buffer_type.memory_space is te.Space.REGISTER:
            combine = f"mugraph::te::combined<mugraph::te::{op.combines.capitalize()}>"
            self.writer.line(f"{place} = {combine}({place}, {value});")
        else:
            self.writer.line(f"mugraph::te::atomic_{op.combines}(&{place}, {value});")

    @print.register
    def _(self, op: te.AtomicOp) -> None:
        place, value = self.place(op), self.text(op.value)
        call = f"mugraph::te::atomic_{op.combines}(&{place}, {value})"
        if op.result.first_use:
            self.define(op.result, call, "before")
        else:
            self.writer.line(f"{call};")

    @print.register
    def _(self, op: te.LoadOp) -> None:
        self.copy(op, self.text(op.registers), f"&{self.place(op)}")

    @print.register
    def _(self, op: te.StoreOp) -> None:
        self.copy(op, f"&{self.place(op)}", self.text(op.registers))

    def copy(self, op: te.VectorOp, target: str, source: str) -> None:
        """Neighbouring elements at once."""
        self.writer.line(f"mugraph::te::copy<{op.width}>({target}, {source});")

    @print.register
    def _(self, op: te.AsyncCopy) -> None:
        source = self.element(op.source, op.source_map.data.results, list(op.source_indices))
        target = self.element(op.target, op.target_map.data.results, list(op.target_indices))
        name, given = op.name.removeprefix("te."), f"&{target}, &{source}"
        if isinstance(op, te.Conditional):
            given += f", {self.holds(op)}"
        self.writer.line(f"mugraph::te::{name}<{op.elements}>({given});")

    @print.register
    def _(self, op: te.CommitOp) -> None:
        self.writer.line("mugraph::te::commit_copies();")

    @print.register
    def _(self, op: te.WaitOp) -> None:
        self.writer.line(f"mugraph::te::wait_for_copies<{op.groups}>();")

    @print.register
    def _(self, op: te.SectionOp) -> None:
        pass  # an operand of instructions

    @print.register
    def _(self, op: te.AllReduceOp) -> None:
        operation = f"mugraph::te::{op.combines.capitalize()}"
        if op.threads is te.Scope.WARP:
            call = f"mugraph::te::all_reduce_warp<{operation}>({self.text(op.value)})"
            self.define(op.result, call, "total")
            return
        threads = self.threads
        repeats = "true" if enclosing(op, te.SeqOp) else "false"
        scratch = (
            self.text(op.scratch)
            if op.scratch is not None
            else (f"static_cast<{scalar_type(op.value.type)}*>(nullptr)")
        )
        self.define(
            op.result,
            f"mugraph::te::all_reduce<{operation}, {threads}, {repeats}>"
            f"({self.text(op.value)}, {scratch})",
            "total",
        )

    @print.register
    def _(self, op: te.AnchorOp) -> None:
        self.writer.line(f"mugraph::te::anchor({self.text(op.value)});")

    @print.register
    def _(self, op: te.IndexOfOp) -> None:
        self.inlined[op.result] = self.text(op.value)

    @print.register
    def _(self, op: te.IndexValueOp) -> None:
        self.define(op.result, self.index(op.expression, list(op.indices)), "number")

    # Inline PTX.

    @print.register
    def _(self, op: te.AsmOp) -> None:
        outputs: list[str] = []
        inputs: list[str] = []
        spellings: dict[int, list[tuple[bool, int]]] = {}
        touches = {touch.operand: touch for touch in op.operand_touches()}
        for position, (direction, argument) in enumerate(
            zip(op.operand_directions, op.arguments, strict=True)
        ):
            for constraint, text, is_register in self.registers(argument, touches.get(argument)):
                is_output = is_register and direction is not te.Direction.IN
                listed = outputs if is_output else inputs
                sign = {te.Direction.OUT: "=", te.Direction.INOUT: "+", te.Direction.IN: ""}[
                    direction
                ]
                listed.append(f'"{sign if is_output else ""}{constraint}"({text})')
                spellings.setdefault(position, []).append((is_output, len(listed) - 1))

        def operand(match: re.Match[str]) -> str:
            if match.group(0) == "%%":
                return "%%"
            if not match.group(1):
                return "%%"
            parts = [
                f"%{number if is_output else len(outputs) + number}"
                for is_output, number in spellings[int(match.group(1))]
            ]
            return parts[0] if len(parts) == 1 else f"{{{', '.join(parts)}}}"

        template = re.sub(r"%(\d*)", operand, op.template)
        template = template.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        spaces = {touch.type.memory_space for touch in touches.values()}
        touches_memory = op.meaning is not None or spaces - {te.Space.REGISTER}
        clobbers = ' : "memory"' if touches_memory else ""
        text = f'asm volatile("{template}" : {", ".join(outputs)} : {", ".join(inputs)}{clobbers});'
        if op.meaning is None:
            self.writer.line(text)
            return
        self.writer.lines(["#if defined(__CUDA_ARCH__)", text, "#else"])
        self.block(op.meaning.block)
        self.writer.line("#endif")

    def registers(self, argument: SSAValue, touch: te.Touch | None) -> list[tuple[str, str, bool]]:
        """Constraint and expression of each register of an operand; whether it can be written."""
        type_ = argument.type
        if touch is None or not isinstance(type_, te.BufferType):
            constraint = {f32: "f", f64: "d", i32: "r"}.get(type_, "h")  # type: ignore[arg-type]
            text = self.text(argument)
            return [(constraint, f"mugraph::bits_of({text})" if constraint == "h" else text, False)]
        buffer, starts = touch.buffer, touch.expressions
        indices = list(touch.indices)
        if type_.memory_space is not te.Space.REGISTER:
            address = f"&{self.element(buffer, starts, indices)}"
            if type_.memory_space is te.Space.SHARED:
                return [("r", f"mugraph::te::shared_address({address})", False)]
            return [("l", address, False)]
        size = element_bytes_of(type_)
        per = max(1, 4 // size)
        if type_.elements % per:
            raise CodegenError(
                f"{self.text(buffer)}: instructions take registers of two 16-bit elements, and "
                f"{type_.elements} are no whole number of them"
            )
        constraint = {"f32": "f", "f64": "d"}.get(str(type_.element_type), "r")
        found: list[tuple[str, str, bool]] = []
        for first in range(0, type_.elements, per):
            moved = _offset(starts, type_.get_shape(), first)
            text = self.element(buffer, moved, indices)
            if size == 2:
                text = f"reinterpret_cast<uint32_t&>({text})"
            found.append((constraint, text, True))
        return found


def _along(expression: AffineExpr, extents: Sequence[int], strides: Sequence[int]) -> AffineExpr:
    """The offset along a dimension, whose modes have these extents and strides."""
    if expression == AffineExpr.constant(0):
        return expression
    total = AffineExpr.constant(0)
    rest = expression
    for place, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        is_last = place == len(extents) - 1
        digit = rest if is_last else rest % extent
        total += digit * stride
        if not is_last:
            rest = rest // extent
    return total


def _offset(starts: Sequence[AffineExpr], shape: Sequence[int], number: int) -> list[AffineExpr]:
    """The index of an element of a box by its row-major number."""
    moved: list[AffineExpr] = []
    for start, stride, extent in zip(starts, row_major_strides(shape), shape, strict=True):
        step = number // stride % extent
        moved.append(start + step if step else start)
    return moved


def _is_own_block(block: AffineExpr, operands: Sequence[SSAValue]) -> bool:
    """Whether an index is the number that the block itself has in its cluster."""
    if not isinstance(block, AffineDimExpr):
        return False
    number = operands[block.position].owner
    if not isinstance(number, te.ApplyOp) or len(number.indices) != 1:
        return False
    loop = number.indices[0].owner
    kernel = loop.parent_op() if isinstance(loop, Block) else None
    if not isinstance(kernel, te.KernelOp):
        return False
    whole, blocks = AffineExpr.dimension(0), kernel.cluster_blocks
    return number.expression == (whole if blocks == kernel.iterations else whole % blocks)


def _only_states(block: Block) -> bool:
    """Whether operators only say which iteration runs, which is no code."""
    return all(
        isinstance(op, te.IterationOp)
        or (isinstance(op, te.ApplyOp) and is_only_stated(op.result))
        or (isinstance(op, te.SeqOp) and _only_states(op.body.block))
        for op in block.ops
    )


def _type(buffer: SSAValue) -> te.BufferType:
    return cast(te.BufferType, buffer.type)


def _without_brackets(text: str) -> str:
    """An expression without the brackets around the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            return text[1:-1] if position == len(text) - 1 else text
    return text
