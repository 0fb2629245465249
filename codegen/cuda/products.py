"""Products of matrices, their operands and their results."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, epilogue_type
from mugraph.codegen.cuda.fragments import (
    atom_class,
    atom_of,
    fragment_class,
    fragment_type_of,
    held_by,
    matrix_type,
    rows_class,
)
from mugraph.codegen.cuda.printer import KernelPrinter, print_operation
from mugraph.codegen.cuda.transfers import existing_elements
from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import (
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.passes.costs.warp_layouts import UNROLLED_VALUES


@print_operation.register
def _(op: sched.MmaOp, printer: KernelPrinter) -> None:
    mma = fragment_type_of(op.accumulator).tiled_mma
    if mma is None:
        raise CodegenError(f"{op_label(op)}: the accumulator is not a tensor-core fragment")
    atom = atom_of(mma)
    warps_m, warps_n = mma.thr_layout[:2]
    flags = "".join("true, " if flag else "false, " for flag in op.ldmatrix)
    kind = "Matmul"
    instruction = mma_atom(mma.atom)
    if instruction.is_scalar or instruction.reads_runs:
        kind, flags = "SwappedMatmul" if instruction.reads_runs else "ScalarMatmul", ""
    elif instruction.reads_lines:
        kind, flags = "LineMatmul", f"{str(op.ldmatrix[0]).lower()}, "
    writer = printer.writer
    thread = "tb::recomputed(thread)" if is_large_beside(op.accumulator) else "thread"
    writer.open(f"{{  {printer.describe(op)}")
    lhs, rhs = op.matrices()
    through = ""
    if op.through is not None:
        along_k = "1, " if mma.thr_layout[2] == 1 and not op.lhs_in_registers else ""
        through = f", {along_k}{epilogue_type(op.through.data)}"
    if op.is_sliced:
        chain = through or ", ops::Chain<>"
        through = chain + "".join(f", {apart}" for apart in op.strides_of_slices())
    if op.lhs_in_registers:
        writer.line(f"using B = {matrix_type(rhs)};")
        rows = shape_of(op.accumulator.type)[-2]
        writer.line(
            f"tb::RegisterMatmul<{warps_m}, {rows}, B, {str(op.ldmatrix[1]).lower()}, {atom}"
            f"{through}>::mma({printer.names.of(op.accumulator)}, {printer.names.of(op.lhs)}, "
            f"{printer.pointer(op.rhs)}, thread);"
        )
        writer.close()
        return
    for name, matrix in zip("AB", (lhs, rhs), strict=True):
        writer.line(f"using {name} = {matrix_type(matrix)};")
    writer.line(
        f"tb::{kind}<{warps_m}, {warps_n}, A, B, {flags}{atom}{through}>::mma("
        f"{printer.names.of(op.accumulator)}, {printer.pointer(op.lhs)}, "
        f"{printer.pointer(op.rhs)}, {thread});"
    )
    writer.close()


def is_large_beside(fragment: SSAValue) -> bool:
    """Whether a product has registers of its own, and so many that addresses should not be kept."""
    owner = sched.registers_of(fragment).owner
    beside = isinstance(owner, sched.EmptyOp) and not isinstance(owner.parent_op(), sched.KernelOp)
    return beside and fragment_type_of(fragment).values_per_thread() >= UNROLLED_VALUES


@print_operation.register
def _(op: sched.StoreOp, printer: KernelPrinter) -> None:
    type_ = fragment_type_of(op.source)
    epilogue = epilogue_of(op)
    source = printer.names.of(op.source)
    method = "update" if epilogue.accumulates else "store"
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    matrix = op.matrix()
    if op.by_quads and matrix is not None and type_.tiled_mma is not None:
        if (tile := sched.tile_of_named_rows(op.destination)) is not None:
            destination, rows = printer.start_in_rows(tile), f", {printer.rows_written(tile)}"
        else:
            destination, rows = printer.pointer(op.destination), ""
        writer.line(f"using Target = {matrix_type(matrix)};")
        writer.line(
            f"tb::QuadStore<{fragment_class(type_)}, {atom_class(type_.tiled_mma)}, "
            f"{type_.get_shape()[-2]}, Target>::run<{epilogue_type(epilogue)}>({destination}, "
            f"{source}, thread{rows});"
        )
        writer.close()
        return
    destination = printer.pointer(op.destination)
    if type_.rows is not None:
        if epilogue.accumulates:
            raise CodegenError(f"{op_label(op)}: rows cannot be added to a buffer")
        layout = printer.layout(op.destination, type_.get_shape(), type_.rows.partition.order)
        writer.line(f"using Target = {layout};")
        writer.line(
            f"tb::store_rows<{epilogue_type(epilogue)}, {rows_class(type_.rows)}, Target>("
            f"{destination}, {source}, thread);"
        )
        writer.close()
        return
    if op.origin is not None:
        assert matrix is not None  # verified
        writer.line(f"using Target = {matrix_type(matrix)};")
        writer.line(
            f"{fragment_class(type_)}::store_columns<{epilogue_type(epilogue)}, Target, "
            f"{op.first_column}>({destination}, {source}, thread);"
        )
        writer.close()
        return
    if matrix is not None:
        writer.line(f"using Target = {matrix_type(matrix)};")
        arguments = f"{epilogue_type(epilogue)}, Target"
        if type_.parts > 1:
            arguments += f", {strides_of(resolved_layout_of(op.destination))[0]}"
        fragment = fragment_class(type_)
        if type_.sliced_axis == -1 and epilogue.accumulates:
            raise CodegenError(f"{op_label(op)}: numbers of rows cannot be added to a buffer")
    else:
        partition = type_.partition
        if partition is None or epilogue.accumulates:
            raise CodegenError(f"{op_label(op)}: this fragment cannot be added to a buffer")
        layout = printer.layout(op.destination, type_.get_shape(), partition.order)
        writer.line(f"using Target = {layout};")
        arguments = epilogue_type(epilogue)
        fragment = f"tb::LinearFragment<{partition.threads}, {partition.vector}, Target>"
    writer.line(f"{fragment}::{method}<{arguments}>({destination}, {source}, thread);")
    writer.close()


@print_operation.register
def _(op: sched.LoadOp, printer: KernelPrinter) -> None:
    writer = printer.writer
    iteration = printer.iteration + op.ahead_of
    destination, source = printer.names.of(op.destination), printer.pointer(op.source, iteration)
    writer.open(f"{{  {printer.describe(op)}")
    mma = fragment_type_of(op.destination).tiled_mma
    if mma is None or not op.loads_operand:
        writer.line(f"using Source = {matrix_type(op.matrix())};")
        tile, shape = printer.tile_of(iteration), shape_of(op.source.type)
        ragged = {
            each.dim: existing_elements(each.bound, tile, None, printer.parts)
            for each in op.ragged()
        }
        last = range(len(shape))[-2:] if op.loads_matrix else ragged
        exist = "".join(f", {ragged.get(dim, shape[dim])}" for dim in last if ragged)
        parts = f", {op.stride_of_parts()}" if op.parts > 1 else ""
        load = "load_lines" if op.loads_lines() else "load"
        writer.line(
            f"{held_by(op.destination)}::{load}<{epilogue_type(epilogue_of(op))}, Source{parts}>("
            f"{destination}, {source}, thread{exist});"
        )
    else:
        rows, depth = shape_of(op.source.type)[-2:]
        writer.line(f"using A = {matrix_type(op.matrix())};")
        writer.line(
            f"tb::RegisterOperand<{mma.thr_layout[0]}, {rows}, {depth}, {atom_of(mma)}>::"
            f"load<A, {str(op.uses_ldmatrix).lower()}>({destination}, {source}, thread);"
        )
    writer.close()
