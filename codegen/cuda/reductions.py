"""Sums and maxima along a dimension."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.codegen.cuda.cpp import epilogue_type, layout_type
from mugraph.codegen.cuda.fragments import held_by, held_layout, rows_class
from mugraph.codegen.cuda.printer import KernelPrinter, partition_of, print_operation
from mugraph.dialects import sched
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import base_layout, resolved_layout_of, shape_of, strides_of


def reduction_source(op: sched.ReduceOp, order: Sequence[int]) -> str:
    """The layout of a reduction's source: what is reduced, and the results in order."""
    reduced, outputs = op.modes(order)
    return layout_type(
        (reduced.shape, outputs.shape),
        (reduced.stride, outputs.stride),
        resolved_layout_of(op.source),
    )


COMBINERS = {sched.Combiner.SUM: "ops::Add", sched.Combiner.MAX: "ops::Max"}


def print_row_reduction(op: sched.ReduceOp, rows: LinearRows, printer: KernelPrinter) -> None:
    """A reduction to the rows of a fragment, from registers or from memory."""
    epilogue = epilogue_of(op)
    names = [printer.names.of(value) for value in op.operands[1:]]
    method = "track" if len(names) > 1 else "update" if epilogue.accumulates else "assign"
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    source = printer.pointer(op.source)
    if not isinstance(op.source.type, sched.TileType):
        layout = reduction_source(op, rows.partition.order)
        writer.line(f"using Source = {layout};")
        method += "_from<Source>"
    writer.line(
        f"tb::ReduceRows<{COMBINERS[op.combination]}, {epilogue_type(epilogue)}, "
        f"{rows_class(rows)}>::{method}({', '.join([*names, source])}, thread);"
    )
    writer.close()


def print_parts_of_warps(op: sched.ReduceOp, rows: LinearRows, printer: KernelPrinter) -> None:
    """What each warp makes of its part of each row."""
    writer = printer.writer
    shape = shape_of(op.destination.type)
    writer.open(f"{{  {printer.describe(op)}")
    writer.line(f"using Target = {printer.layout(op.destination, shape, rows.partition.order)};")
    writer.line(
        f"tb::ReduceRows<{COMBINERS[op.combination]}, ops::Chain<>, {rows_class(rows)}>::"
        f"write_parts<Target>({printer.pointer(op.destination)}, {printer.names.of(op.source)}, "
        "thread);"
    )
    writer.close()


def print_sum_of_parts(op: sched.ReduceOp, printer: KernelPrinter) -> None:
    """Sums of what lies along a dimension that they do not have."""
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    epilogue = epilogue_of(op)
    writer = printer.writer
    destination = printer.pointer(op.destination)
    in_registers = isinstance(op.destination.type, sched.TileType)
    part = op.layout_of_part(partition.order)
    plain = base_layout(part)
    writer.open(f"{{  {printer.describe(op)}")
    writer.line(f"using Part = {layout_type(plain.flat_shape, plain.flat_stride, part)};")
    writer.line(f"using Target = {held_layout(op.destination, domain, partition, printer)};")
    if in_registers and not epilogue.accumulates:
        writer.line(f"{held_by(op.destination)}::clear({destination});")
    method = "accumulate" if in_registers else "update" if epilogue.accumulates else "store"
    writer.line(
        f"tb::SumParts<{epilogue_type(epilogue)}, {partition.threads}, {partition.vector}, Target, "
        f"Part, {op.groups().count}, {strides_of(resolved_layout_of(op.source))[op.reduced_dim]}>"
        f"::{method}({destination}, thread, {printer.pointer(op.source)});"
    )
    writer.close()


def print_reduction_of_product(op: sched.ReduceOp, printer: KernelPrinter) -> None:
    """What lanes make of the rows that they hold of a product."""
    epilogue = epilogue_of(op)
    method, values = "update" if epilogue.accumulates else "store", [op.destination, op.source]
    if op.difference is not None:
        method, values = "track", [op.destination, op.difference, op.source]
    printer.writer.line(
        f"tb::ReduceFragmentRows<{COMBINERS[op.combination]}, {epilogue_type(epilogue)}, "
        f"{str(not op.is_partial).lower()}, "
        f"{held_by(op.source)}, {held_by(op.destination)}>::{method}("
        f"{', '.join(map(printer.names.of, values))});  {printer.describe(op)}"
    )


@print_operation.register
def _(op: sched.ReduceOp, printer: KernelPrinter) -> None:
    if sched.is_of_product(op.destination):
        print_reduction_of_product(op, printer)
        return
    if op.drops_dim:
        print_sum_of_parts(op, printer)
        return
    if op.rows is not None:
        print_rows = print_row_reduction if op.parts is None else print_parts_of_warps
        print_rows(op, op.rows, printer)
        return
    partition = partition_of(op, printer)
    results = shape_of(op.destination.type)
    source = reduction_source(op, partition.order)
    epilogue = epilogue_of(op)
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    writer.line(f"using Source = {source};")
    writer.line(f"using Target = {printer.layout(op.destination, results, partition.order)};")
    reduction = {sched.Combiner.SUM: "ReduceSum<", sched.Combiner.MAX: "Reduce<ops::Max, "}
    call = (
        f"tb::{reduction[op.combination]}{epilogue_type(epilogue)}, {partition.threads}, "
        f"{op.lane_count}, Target, Source>::"
    )
    source, target = printer.pointer(op.source), printer.pointer(op.destination)
    if op.difference is not None:
        layout = printer.layout(op.difference, results, partition.order)
        writer.line(f"using Difference = {layout};")
        difference = printer.pointer(op.difference)
        writer.line(f"{call}track<Difference>({target}, {difference}, {source}, thread);")
    else:
        method = "update" if epilogue.accumulates else "store"
        writer.line(f"{call}{method}({target}, {source}, thread);")
    writer.close()
