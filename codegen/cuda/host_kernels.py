"""How kernel-level operators that mask, sum or move elements are printed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, fp32_bits, layout_type
from mugraph.codegen.cuda.host import (
    HostPrinter,
    declare_extent,
    print_host_operation,
    print_table,
    run_along,
)
from mugraph.codegen.cuda.pieces import MAX_SPAN, Piece, print_pieces, span
from mugraph.codegen.cuda.walks import (
    broadcast_strides,
    memory_order,
    print_move,
    strides_in_memory,
    walk,
    walked_modes,
)
from mugraph.dialects import kn
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import (
    bytes_of,
    element_bytes_of,
    op_label,
    row_major_strides,
    shape_of,
    value_label,
)

MOST_GROUPS = 4096
"""``kMostGroups`` of ``runtime/include/mugraph/kn/groups.h``."""
MOST_SORTED = 4096
"""``kMostSorted`` of ``runtime/include/mugraph/kn/top_k.h``."""


@print_host_operation.register
def _print_moves(op: kn.MovesElements, printer: HostPrinter) -> None:
    """One copy a part, between the part and its place in the whole tensor."""
    values = [value for move in op.moves() for value in move[:2]]
    pointers = dict(zip(values, printer.declare_all(values), strict=True))
    for source, destination, start in op.moves():
        printer.writer.open("{")
        where = printer.queue(overlaps=op.overlaps)
        print_move(printer.writer, where, pointers, destination, source, start)
        printer.writer.close()


@print_host_operation.register
def _(op: kn.CopyOp, printer: HostPrinter) -> None:
    """A copy of the whole tensor, or of its first rows: the beginning of its memory."""
    if op.rows is None:
        return _print_moves(op, printer)
    result, source = printer.declare_all((op.result, op.input))
    extent = declare_extent(op, op.rows.data, printer)
    shape = shape_of(op.input.type)
    # Dimensions before the rows have one element.
    rows = next((each for each in shape if each != 1), 1)
    bytes_ = bytes_of(op.input.type) // rows
    queued = printer.queue(overlaps=op.overlaps)
    printer.writer.line(
        f"kn::copy_first_rows({queued}, {result}, {source}, {extent} * {bytes_}LL);"
    )


@print_host_operation.register
def _(op: kn.MaskOp, printer: HostPrinter) -> None:
    if max(op.dims_of_lengths, default=-1) >= 0:
        raise CodegenError(
            f"{op_label(op)} has a length for each place along a dimension, which kernels of tiles "
            "alone read; run --fuse-kernels before"
        )
    domain, forms = shape_of(op.result.type), op.forms()
    strides = [strides_in_memory(value) for value in (op.result, op.input)]
    order = memory_order(domain, strides[0])
    result, source, *held = printer.declare_all((op.result, op.input, *op.lengths))
    rank = len(domain)
    names = ["Target", "Source", *(f"Form{number}" for number in range(len(forms)))]
    writer = printer.writer

    def print_piece(piece: Piece) -> None:
        for name, steps in zip(
            names, [*strides, *(form.coefficients[:rank] for form in forms)], strict=True
        ):
            writer.line(f"using {name} = {walk(piece.extents, steps, order)};")
        places = [
            piece.pointer(pointer, steps)
            for pointer, steps in zip((result, source), strides, strict=True)
        ]
        starts = [piece.pointer(f"{form.constant}LL", form.coefficients[:rank]) for form in forms]
        lengths = [
            held_length(value, name, most, [form.coefficients[rank + number] for form in forms])
            for number, (value, name, most) in enumerate(
                zip(op.lengths, held, op.largest, strict=True)
            )
        ]
        count = f"<{len(held)}>" if held else ""
        given = f"{{{', '.join(starts)}}}"
        if lengths:
            given += f", {{{', '.join(lengths)}}}"
        writer.line(
            f"kn::Mask<{fp32_bits(op.constant)}, {', '.join(names)}>::run{count}("
            f"{printer.queue(overlaps=op.overlaps)}, {', '.join(places)}, {{{given}}});"
        )

    reaches = [[abs(step) for step in form.coefficients[:rank]] for form in forms]
    print_pieces(writer, domain, [*strides, *reaches], print_piece)


def held_length(value: SSAValue, name: str, largest: int, steps: Sequence[int]) -> str:
    """A length that a tensor holds, and by how much each form grows with it."""
    is_wide = "true" if element_bytes_of(value.type) > 4 else "false"
    moves = ", ".join(f"{step}LL" for step in steps)
    return f"{{{name}, {is_wide}, {largest}, {{{moves}}}}}"


@print_host_operation.register
def _(op: kn.GatherOp, printer: HostPrinter) -> None:
    domain = shape_of(op.result.type)
    count, (row_stride, *row) = shape_of(op.table.type)[0], strides_in_memory(op.table)
    numbers = strides_in_memory(op.rows)
    strides = [
        strides_in_memory(op.result),
        (*[0] * len(numbers), *row),
        (*numbers, *[0] * len(row)),
    ]
    order = memory_order(domain, strides[0])
    pointers = printer.declare_all((op.result, op.table, op.rows))
    walks = list(zip(("Target", "Row", "Number"), pointers, strides, strict=True))
    kernel = f"kn::Gather<{count}, {row_stride}, Target, Row, Number>"
    run_along(op, kernel, walks, domain, order, printer)


@print_host_operation.register
def _(op: kn.ScatterOp, printer: HostPrinter) -> None:
    if op.is_stored:
        printer.writer.line(f"// {value_label(op.values)} is stored there by what computes it")
        return
    domain, dim = shape_of(op.values.type), op.row_dim
    result, table = strides_in_memory(op.result), op.table
    row = tuple(0 if other == dim else step for other, step in enumerate(result))
    (number,) = strides_in_memory(op.rows)
    numbers = tuple(number if other == dim else 0 for other in range(len(domain)))
    strides = [row, strides_in_memory(op.values), numbers]
    order = memory_order(domain, strides[1])
    operands = [op.values, op.table, op.rows, op.result]
    names = dict(zip(operands, printer.declare_all(operands), strict=True))
    print_table(op, names, printer)
    places = [names[op.result], names[op.values], names[op.rows]]
    walks = list(zip(("Row", "Source", "Number"), places, strides, strict=True))
    kernel = f"kn::Scatter<{shape_of(table.type)[dim]}, {result[dim]}, Source, Row, Number>"
    run_along(op, kernel, walks, domain, order, printer)


@print_host_operation.register
def _(op: kn.RunOperator, printer: HostPrinter) -> None:
    groups, dim = op.groups(), op.reduced_dim
    source_strides, result_strides = strides_in_memory(op.input), strides_in_memory(op.result)
    step = groups.step * source_strides[dim]
    starts = tuple(
        groups.start_step * stride if other == dim else stride
        for other, stride in enumerate(source_strides)
    )
    domain = shape_of(op.result.type)
    # Threads walk the source as it lies in memory: there is more of it.
    order = memory_order(domain, starts)
    source, result = printer.declare_all((op.input, op.result))
    writer = printer.writer

    def print_piece(piece: Piece) -> None:
        writer.line(f"using Target = {walk(piece.extents, result_strides, order)};")
        writer.line(f"using Source = {walk(piece.extents, starts, order)};")
        writer.line(
            f"kn::{_run_kernel(op, step)}{groups.count}, {step}, Target, Source>::run("
            f"{printer.queue(overlaps=op.overlaps)}, {piece.pointer(result, result_strides)}, "
            f"{piece.pointer(source, starts)});"
        )

    print_pieces(writer, domain, [result_strides, starts], print_piece)


def _run_kernel(op: kn.RunOperator, step: int) -> str:
    """The start of the kernel's type: its name, and what stands before the runs' extent."""
    if not isinstance(op, kn.ReductionOp):
        return "ArgMax<"
    index = "uint32_t" if span((op.groups().count,), (step,)) <= MAX_SPAN else "uint64_t"
    reduction = {Combiner.SUM: "ReduceSum<", Combiner.MAX: "Reduce<ops::Max, "}
    return f"{reduction[op.combination]}{index}, "


@print_host_operation.register
def _(op: kn.ScanOp, printer: HostPrinter) -> None:
    named = [*zip(("Target", "Source", "Decay"), (op.result, *op.operands), strict=False)]
    scan = "ExclusiveScan" if op.is_exclusive else "Scan"
    _print_runs(op, f"{scan}<{shape_of(op.result.type)[op.reduced_dim]}", named, printer)


@print_host_operation.register
def _(op: kn.TopKOp, printer: HostPrinter) -> None:
    if op.count > MOST_SORTED:
        raise CodegenError(
            f"{op_label(op)} finds {op.count} elements of a run; kn::TopK sorts at most "
            f"{MOST_SORTED} in the shared memory of a block: find fewer"
        )
    named = [("Values", op.values), ("Places", op.places), ("Source", op.input)]
    extent = shape_of(op.input.type)[op.reduced_dim]
    _print_runs(op, f"TopK<{extent}, {op.count}", named, printer)


@print_host_operation.register
def _(op: kn.GroupTilesOp, printer: HostPrinter) -> None:
    rows, groups, tiles = (shape_of(each.type)[0] for each in (op.places, op.ends, op.starts))
    _print_table(op, f"GroupTiles<{rows}, {groups}, {op.rows_of_a_tile}, {tiles}", printer)


@print_host_operation.register
def _(op: kn.SortGroupsOp, printer: HostPrinter) -> None:
    rows, count = (shape_of(each.type)[0] for each in (op.groups, op.ends))
    if count > MOST_GROUPS:
        raise CodegenError(
            f"{op_label(op)} sorts rows of {count} groups; kn::SortGroups counts at most "
            f"{MOST_GROUPS} in the shared memory of a block"
        )
    _print_table(op, f"SortGroups<{rows}, {count}", printer)


@print_host_operation.register
def _(op: kn.InvertPlacesOp, printer: HostPrinter) -> None:
    (rows,), (step,) = shape_of(op.places.type), strides_in_memory(op.places)
    *outer, inner = zip(shape_of(op.rows.type), strides_in_memory(op.rows), strict=True)
    grid = ", ".join(str(number) for dim in (*(outer or [(1, 0)]), inner) for number in dim)
    result, places = printer.declare_all((op.rows, op.places))
    where = printer.queue(overlaps=op.overlaps)
    printer.writer.line(
        f"kn::InvertPlaces<{rows}, {step}, {grid}>::run({where}, {result}, {places});"
    )


@print_host_operation.register
def _(op: kn.ExtentOp, printer: HostPrinter) -> None:
    number = printer.declare(op.result)
    extent = declare_extent(op, op.extent.data, printer)
    queued = printer.queue(overlaps=op.overlaps)
    printer.writer.line(f"kn::put_number({queued}, {number}, static_cast<int>({extent}));")


def _print_table(op: kn.GroupTilesOp | kn.SortGroupsOp, kernel: str, printer: HostPrinter) -> None:
    """Prints a kernel that makes lists of a list, each with a step between its elements."""
    steps = ", ".join(str(strides_in_memory(each)[0]) for each in (*op.operands, *op.results))
    pointers = printer.declare_all((*op.results, *op.operands))
    where = printer.queue(overlaps=op.overlaps)
    printer.writer.line(f"kn::{kernel}, {steps}>::run({where}, {', '.join(pointers)});")


@print_host_operation.register
def _(op: kn.RandomOp, printer: HostPrinter) -> None:
    domain = shape_of(op.result.type)
    strides, places = strides_in_memory(op.result), row_major_strides(domain)
    order = memory_order(domain, strides)
    result, seed, offset = printer.declare_all((op.result, op.seed, op.offset))
    writer = printer.writer

    def print_piece(piece: Piece) -> None:
        for name, steps in (("Target", strides), ("Places", places)):
            writer.line(f"using {name} = {walk(piece.extents, steps, order)};")
        writer.line(
            f"kn::Random<kn::Random{op.distribution.data.capitalize()}, Target, Places>::run("
            f"{printer.queue(overlaps=op.overlaps)}, {piece.pointer(result, strides)}, {seed}, "
            f"{offset}, {piece.pointer('0LL', places)});"
        )

    print_pieces(writer, domain, [strides, places], print_piece)


def _print_runs(
    op: kn.ScanOp | kn.TopKOp,
    kernel: str,
    named: Sequence[tuple[str, SSAValue]],
    printer: HostPrinter,
) -> None:
    """Prints a kernel on runs along a dimension, given the names of their layouts."""
    names, values = zip(*named, strict=True)
    dim = op.reduced_dim
    extents = shape_of(op.input.type)
    domain = tuple(1 if d == dim else extent for d, extent in enumerate(extents))
    strides = [broadcast_strides(value) for value in values]
    # Neighbouring threads have runs that are neighbours where the operand lies in memory.
    order = memory_order(domain, strides[values.index(op.input)])
    pointers = dict(zip(values, printer.declare_all(values), strict=True))
    writer = printer.writer

    def print_piece(piece: Piece) -> None:
        for name, steps in zip(names, strides, strict=True):
            starts = walk(piece.extents, steps, order)
            writer.line(f"using {name} = kn::Runs<{starts}, {steps[dim]}>;")
        places = [
            piece.pointer(pointers[value], steps)
            for value, steps in zip(values, strides, strict=True)
        ]
        writer.line(
            f"kn::{kernel}, {', '.join(names)}>::run("
            f"{printer.queue(overlaps=op.overlaps)}, {', '.join(places)});"
        )

    print_pieces(writer, domain, strides, print_piece)


@print_host_operation.register
def _(op: kn.RmsNormOp, printer: HostPrinter) -> None:
    shape = shape_of(op.input.type)
    rows = len(shape) - len(op.normalized)
    strides = [strides_in_memory(op.result), strides_in_memory(op.input)]
    for value, steps in zip((op.result, op.input), strides, strict=True):
        reach = span(op.normalized, steps[rows:])
        if reach > MAX_SPAN:
            raise CodegenError(
                f"{op_label(op)}: the elements of one mean span {reach} elements of "
                f"{value_label(value)}; kn::RmsNorm counts them in 32 bits, at most {MAX_SPAN}: "
                "choose a more compact layout, or use a custom kernel"
            )
    elements = memory_order(op.normalized, strides[1][rows:])
    order = memory_order(shape[:rows], strides[1][:rows])
    writer = printer.writer
    values = [op.result, op.input, *([] if op.weight is None else [op.weight])]
    pointers = printer.declare_all(values)
    weight: list[str] = []
    if op.weight is not None:
        row = walked_modes(op.normalized, strides_in_memory(op.weight), elements)
        weight = [layout_type((row[0], 1), (row[1], 0))]

    def print_piece(piece: Piece) -> None:
        layouts: list[str] = []
        for steps in strides:
            row = walked_modes(op.normalized, steps[rows:], elements)
            outer = walked_modes(piece.extents, steps[:rows], order)
            layouts.append(layout_type((row[0], outer[0] or 1), (row[1], outer[1] or 0)))
        names = ("Target", "Source", "Weight")[: len(values)]
        for name, text in zip(names, [*layouts, *weight], strict=True):
            writer.line(f"using {name} = {text};")
        places = [
            piece.pointer(pointer, steps[:rows])
            for pointer, steps in zip(pointers[:2], strides, strict=True)
        ]
        writer.line(
            f"kn::RmsNorm<{fp32_bits(op.epsilon_value)}, {', '.join(names)}>::run("
            f"{printer.queue(overlaps=op.overlaps)}, {', '.join([*places, *pointers[2:]])});"
        )

    # A launch takes whole rows: pieces are of the dimensions before them, a row being one element.
    print_pieces(writer, shape[:rows], [steps[:rows] for steps in strides], print_piece)
