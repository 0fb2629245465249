"""Element-wise operators, in memory and in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import (
    CodegenError,
    epilogue_type,
    fp32_bits,
    fp32_literal,
    function_type,
    layout_type,
)
from mugraph.codegen.cuda.fragments import fragment_class, fragment_type_of, held_by, held_layout
from mugraph.codegen.cuda.printer import MAX_INT, KernelPrinter, partition_of, print_operation
from mugraph.codegen.cuda.transfers import existing_elements, ragged_arguments
from mugraph.dialects import sched
from mugraph.dialects.maps import AXES
from mugraph.dialects.sched.structure import most_iterations
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import element_bytes_of, op_label, shape_of


def print_mask_of_product(op: sched.MaskOp, printer: KernelPrinter) -> None:
    """A mask on what threads hold of a product."""
    shape = shape_of(op.destination.type)
    existing = [str(shape[-2]), str(shape[-1])]
    for entry in op.ragged:
        existing[entry.dim - len(shape)] = existing_elements(
            entry.bound, printer.tile_of(printer.iteration), None, printer.parts
        )
    fragment = fragment_class(fragment_type_of(op.destination))
    source, destination = printer.names.of(op.source), printer.names.of(op.destination)
    printer.writer.line(
        f"tb::MaskFragment<{fp32_bits(op.constant)}, {fragment}>::store({destination}, {source}, "
        f"thread, {', '.join([*existing, *conditions_of(op, (-2, -1), printer)])});  "
        f"{printer.describe(op)}"
    )


def conditions_of(op: sched.MaskOp, order: Sequence[int], printer: KernelPrinter) -> list[str]:
    """The conditions of a mask, on places along some dimensions of the tile.

    Others have one element.
    """
    shape, kernel = shape_of(op.destination.type), sched.enclosing_kernel(op)
    lengths = [length.largest + 1 for length in kernel.held_lengths]
    counts = [*kernel.grid_dim, most_iterations(kernel), *lengths]
    found: list[str] = []
    for form in op.forms():
        steps, moves = form.coefficients[: len(shape)], form.coefficients[len(shape) :]
        reach = abs(form.constant) + sum(
            abs(step) * (count - 1)
            for step, count in zip(form.coefficients, [*shape, *counts], strict=True)
        )
        if reach > MAX_INT:
            raise CodegenError(
                f"{op_label(op)} has a condition that reaches {reach}, more than 32 bits hold"
            )
        layout = layout_type(tuple(shape[dim] for dim in order), tuple(steps[dim] for dim in order))
        tile = printer.tile_of(printer.iteration)
        if (parts := kernel.block_parts) is not None:
            in_turn = kernel.grid_dim[parts.axis]
            moves = [step // in_turn if at == len(AXES) else step for at, step in enumerate(moves)]
            tile = f"({tile}) * {printer.parts}"
        start = start_of(form.constant, moves, printer, tile)
        found.append(f"tb::where<{layout}>({start})")
    return found


def start_of(
    constant: int, moves: Sequence[int], printer: KernelPrinter, iteration: str = "0"
) -> str:
    """A number that moves with the block along x, y and z, the iteration, and lengths."""
    indices = [f"static_cast<int>(blockIdx.{axis})" for axis in "xyz"]
    indices.append(f"({iteration})" if " " in iteration else iteration)
    indices += printer.lengths
    terms = [f"{step} * {index}" for step, index in zip(moves, indices, strict=True) if step]
    if constant or not terms:
        terms.append(str(constant))
    return " + ".join(terms)


@print_operation.register
def _(op: sched.MaskOp, printer: KernelPrinter) -> None:
    if sched.is_of_product(op.destination):
        print_mask_of_product(op, printer)
        return
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    epilogue = epilogue_of(op)
    writer = printer.writer
    dims, counts = ragged_arguments(
        op.ragged, domain, partition, printer.tile_of(printer.iteration), None, printer.parts
    )
    destination = printer.pointer(op.destination)
    in_registers = isinstance(op.destination.type, sched.TileType)
    writer.open(f"{{  {printer.describe(op)}")
    is_held = isinstance(op.source.type, sched.TileType)
    if op.condition is not None or is_held or (in_registers and not epilogue.accumulates):
        masked = held_operand(op.source, op, "Source", printer)
        how = f"{fp32_bits(op.constant)}, {partition.threads}, {partition.vector}"
        if op.ragged or op.condition is None:
            masked = f"tb::masked<{how}{dims}>({masked}, thread{counts})"
        if op.condition is not None:
            conditions = conditions_of(op, partition.order, printer)
            masked = f"tb::kept<{how}>({', '.join([masked, 'thread', *conditions])})"
        print_map(op, f"ops::Chain<>, {epilogue_type(epilogue)}", masked, printer)
        writer.close()
        return
    writer.line(f"using Source = {printer.layout(op.source, domain, partition.order)};")
    writer.line(f"using Target = {held_layout(op.destination, domain, partition, printer)};")
    method = "accumulate" if in_registers else "update" if epilogue.accumulates else "store"
    writer.line(
        f"tb::Mask<{fp32_bits(op.constant)}, {epilogue_type(epilogue)}, {partition.threads}, "
        f"{partition.vector}, Target, Source{dims}>::{method}({destination}, thread, "
        f"{printer.pointer(op.source)}{counts});"
    )
    writer.close()


@print_operation.register
def _(op: sched.FillOp, printer: KernelPrinter) -> None:
    value = op.value.value.data
    name = printer.names.of(op.destination)
    writer = printer.writer
    if isinstance(op.destination.type, sched.TileType):
        is_plain = op.destination.type.arrangement is None
        if is_plain and (value != 0.0 or op.destination.type.rows is not None):
            writer.line(f"tb::fill_values({name}, {fp32_literal(value)});  {printer.describe(op)}")
            return
        fragment = fragment_class(op.destination.type)
        if value == 0.0 and op.destination.type.sliced_axis != -1:
            writer.line(f"{fragment}::clear({name});  {printer.describe(op)}")
        else:
            call = f"{fragment}::fill({name}, {fp32_literal(value)})"
            writer.line(f"{call};  {printer.describe(op)}")
        return
    owner = op.destination.owner
    if not isinstance(owner, sched.AllocOp):
        raise CodegenError(f"{op_label(op)}: only buffers and fragments can be filled")
    elements = owner.total_bytes() // element_bytes_of(op.destination.type)
    layout = layout_type(elements, 1)
    writer.line(
        f"tb::Fill<{printer.threads}, {layout}>::run({name}, {fp32_literal(value)}, thread);  "
        f"{printer.describe(op)}"
    )


@print_operation.register
def _(op: sched.RenewOp, printer: KernelPrinter) -> None:
    held, after = printer.names.of(op.destination), printer.names.of(op.after)
    printer.writer.line(f"tb::renew({held}, {after});  {printer.describe(op)}")


def _source_layouts(
    printer: KernelPrinter, sources: Sequence[SSAValue], domain: Sequence[int], order: Sequence[int]
) -> list[str]:
    return [printer.layout(source, domain, order) for source in sources]


@print_operation.register
def _(op: sched.MapOp, printer: KernelPrinter) -> None:
    held = [isinstance(value.type, sched.TileType) for value in op.operands]
    if sched.is_of_product(op.destination):
        print_map_of_fragments(op, printer)
        return
    if any(held[:-1]) or (held[-1] and not epilogue_of(op).accumulates):
        print_held_elementwise(op, printer)
        return
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    epilogue = epilogue_of(op)
    writer = printer.writer
    names = [f"Source{index}" for index in range(len(op.sources))]
    layouts = _source_layouts(printer, op.sources, domain, partition.order)
    pointers = ", ".join(printer.pointer(source) for source in op.sources)
    destination = printer.pointer(op.destination)
    in_registers = isinstance(op.destination.type, sched.TileType)
    writer.open(f"{{  {printer.describe(op)}")
    for name, layout in zip(names, layouts, strict=True):
        writer.line(f"using {name} = {layout};")
    writer.line(f"using Target = {held_layout(op.destination, domain, partition, printer)};")
    method = "accumulate" if in_registers else "update" if epilogue.accumulates else "store"
    writer.line(
        f"tb::Elementwise<{function_type(op.function.data)}, {epilogue_type(epilogue)}, "
        f"{partition.threads}, {partition.vector}, {', '.join(['Target', *names])}>::{method}("
        f"{destination}, thread, {pointers});"
    )
    writer.close()


def print_held_elementwise(op: sched.MapOp, printer: KernelPrinter) -> None:
    """An element-wise operator with operands in registers."""
    epilogue = epilogue_of(op)
    functions = f"{function_type(op.function.data)}, {epilogue_type(epilogue)}"
    destination = printer.pointer(op.destination)
    writer = printer.writer
    if op.linear is None:
        method = "accumulate_values" if epilogue.accumulates else "map_values"
        sources = ", ".join(printer.names.of(source) for source in op.sources)
        writer.line(f"tb::{method}<{functions}>({destination}, {sources});  {printer.describe(op)}")
        return
    writer.open(f"{{  {printer.describe(op)}")
    sources = ", ".join(
        held_operand(source, op, f"Source{index}", printer)
        for index, source in enumerate(op.sources)
    )
    print_map(op, functions, sources, printer)
    writer.close()


def print_map_of_fragments(op: sched.MapOp, printer: KernelPrinter) -> None:
    """An element-wise operator on what threads hold of a product."""
    epilogue = epilogue_of(op)
    method = "update" if epilogue.accumulates else "store"
    destination = fragment_type_of(op.destination)
    values = [printer.names.of(op.destination)]
    for source in op.sources:
        name, type_ = printer.names.of(source), fragment_type_of(source)
        by_column = type_.sliced_axis == -2 and destination.sliced_axis != -2
        values.append(f"tb::by_column({name})" if by_column else name)
    printer.writer.line(
        f"tb::MapFragment<{function_type(op.function.data)}, {epilogue_type(epilogue)}, "
        f"{held_by(op.destination)}>::{method}({', '.join(values)});  "
        f"{printer.describe(op)}"
    )


def print_map(
    op: sched.MapOp | sched.MaskOp, functions: str, sources: str, printer: KernelPrinter
) -> None:
    """The call of ``tb::Map`` into registers or memory."""
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    accumulates = epilogue_of(op).accumulates
    writer = printer.writer
    if isinstance(op.destination.type, sched.TileType):
        method = "accumulate" if accumulates else "assign"
    else:
        writer.line(f"using Target = {printer.layout(op.destination, domain, partition.order)};")
        method = "update<Target>" if accumulates else "store<Target>"
    writer.line(
        f"tb::Map<{functions}, {partition.threads}, {partition.vector}, {math.prod(domain)}>::"
        f"{method}({printer.pointer(op.destination)}, thread, {sources});"
    )


def held_operand(
    source: SSAValue, op: sched.MapOp | sched.MaskOp, name: str, printer: KernelPrinter
) -> str:
    """An operand of ``tb::Map``, in memory, in registers, or rows in registers."""
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    if not isinstance(source.type, sched.TileType):
        printer.writer.line(f"using {name} = {printer.layout(source, domain, partition.order)};")
        return (
            f"tb::in_memory<{partition.threads}, {partition.vector}, {name}>("
            f"{printer.pointer(source)}, thread)"
        )
    held = printer.names.of(source)
    rows = source.type.rows
    if rows is None:
        return f"tb::in_registers<{partition.vector}>({held})"
    return f"tb::in_rows<{partition.vector}, {rows.rounds}>({held})"
