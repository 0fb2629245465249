"""How each operator of a schedule is printed: one function an operator.

Every operation prints a comment naming its IR operator, then a call of the header of the same
name in ``runtime/include/mugraph``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch

from xdsl.ir import Operation, SSAValue

from mugraph.codegen.cuda.cpp import (
    CodegenError,
    Writer,
    epilogue_type,
    fp32_bits,
    fp32_literal,
    function_type,
    iteration_layout,
    layout_type,
    stored_type,
)
from mugraph.codegen.cuda.names import Names
from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import PRODUCT_ATOMS, mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.ragged import RaggedDim
from mugraph.dialects.rows import LinearRows
from mugraph.dialects.sched.compute_accesses import reduced_modes
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.analysis.registers import UNROLLED_VALUES

MAX_INT = 2**31 - 1
MAX_TILE_ELEMENTS = 2**32
"""What the unsigned 32-bit offsets inside a tile reach (``runtime/include/mugraph/layout.h``)."""


@dataclass
class KernelPrinter:
    """What printing an operator needs: where to write, names, and which iteration it runs in."""

    writer: Writer
    names: Names
    kernel: sched.KernelOp
    iteration: str | None = None
    role: sched.RoleOp | None = None
    maps: Mapping[object, str] = field(default_factory=dict[object, str])

    @property
    def threads(self) -> int:
        """Threads that run the operators: of the role, or of the block."""
        return self.kernel.threads if self.role is None else self.role.threads

    @property
    def block_thread(self) -> str:
        """The thread's number in its block."""
        x, y, z = self.kernel.block_dim
        index = "threadIdx.x"
        if y > 1 or z > 1:
            index += f" + {x} * threadIdx.y"
        if z > 1:
            index += f" + {x * y} * threadIdx.z"
        return index

    def describe(self, op: Operation) -> str:
        """The operator and its operands, with sanitised names, for a comment."""
        operands = ", ".join(self.names.of(operand) for operand in op.operands)
        return f"// {op.name} {operands}".rstrip()

    def pointer(self, value: SSAValue, iteration: str | None = None) -> str:
        """Where a buffer, the stage of a buffer or the tile of a tensor starts."""
        iteration = iteration if iteration is not None else self.iteration
        name = self.names.of(value)
        owner = value.owner
        if isinstance(owner, sched.AllocOp) and owner.stage_count > 1:
            elements = owner.stage_bytes() // element_bytes_of(value.type)
            return offset_by(name, stage_of(iteration or "0", owner.stage_count), elements)
        if isinstance(owner, sched.TileOp) and owner.iteration_stride():
            return offset_by(
                name, wide_index(iteration or "0", owner.source), owner.iteration_stride()
            )
        return name

    def layout(self, value: SSAValue, domain: Sequence[int], order: Sequence[int]) -> str:
        """A buffer's layout over an iteration domain."""
        return iteration_layout(resolved_layout_of(value), shape_of(value.type), domain, order)


def stage_of(iteration: str, stages: int) -> str:
    """Which copy of a buffer an iteration uses."""
    if iteration.isdigit():
        return str(int(iteration) % stages)
    return f"{_grouped(iteration)} % {stages}"


def wide_index(index: str, tensor: SSAValue) -> str:
    """An index of a tensor, in 64 bits where its offsets need them."""
    if index.isdigit() or physical_elements(resolved_layout_of(tensor)) <= MAX_INT:
        return index
    return f"static_cast<int64_t>({index})"


def offset_by(pointer: str, index: str, stride: int) -> str:
    """``pointer + index * stride``, computed where the index is a number."""
    if index.isdigit():
        return f"{pointer} + {int(index) * stride}" if int(index) * stride else pointer
    return f"{pointer} + {_grouped(index)} * {stride}"


def _grouped(expression: str) -> str:
    is_sum = " + " in expression or " - " in expression
    is_sum = is_sum and not expression.startswith("static_cast")
    return f"({expression})" if is_sum else expression


@singledispatch
def print_operation(op: Operation, printer: KernelPrinter) -> None:
    """Prints one operator of a schedule."""
    raise CodegenError(f"the CUDA target cannot print {op_label(op)} yet")


@print_operation.register
def _(op: sched.AllocOp, printer: KernelPrinter) -> None:
    if op.byte_offset is None:
        raise CodegenError(
            f"{op_label(op)} has no offset in shared memory; run --plan-stensor-memory first"
        )
    type_ = stored_type(op.result)
    name = printer.names.of(op.result)
    printer.writer.line(
        f"{type_}* const {name} = reinterpret_cast<{type_}*>(smem + {op.byte_offset});  "
        f"// {op.name}, {op.stage_count} x {op.stage_bytes()} bytes"
    )


def atom_of(mma: TiledMmaAttr) -> str:
    """The class of an instruction in the runtime, and the warps along k if there are several.

    Refuses instructions that the runtime lacks.
    """
    if mma.atom not in PRODUCT_ATOMS and not is_of_warpgroups(mma_atom(mma.atom)):
        raise CodegenError(
            f"the CUDA target's matrix products use {', '.join(sorted(PRODUCT_ATOMS))}; it cannot "
            f"print {mma} yet"
        )
    has_one_along_k = mma_atom(mma.atom).is_scalar or is_of_warpgroups(mma_atom(mma.atom))
    if has_one_along_k and mma.thr_layout[2] != 1:
        raise CodegenError(
            "the CUDA target's products by single threads or by groups of warps have one of them "
            f"along k; it cannot print {mma}"
        )
    along_k = f", {mma.thr_layout[2]}" if mma.thr_layout[2] > 1 else ""
    return f"{atom_class(mma)}{along_k}"


def atom_class(mma: TiledMmaAttr) -> str:
    """The class of an instruction: the runtime's, or of warp groups that of the file itself."""
    return mma.atom if is_of_warpgroups(mma_atom(mma.atom)) else f"atoms::{mma.atom}"


def fragment_class(type_: sched.FragmentType) -> str:
    """The class of the runtime that knows which thread holds which value of a fragment."""
    shape = type_.get_shape()
    mma = type_.tiled_mma
    if mma is not None:
        atom = atom_of(mma)
        warps_m, warps_n = mma.thr_layout[:2]
        return f"tb::MmaFragment<{warps_m}, {warps_n}, {shape[-2]}, {shape[-1]}, {atom}>"
    if type_.rows is not None:
        return rows_class(type_.rows)
    rows = type_.row_mma
    if rows is not None:
        return f"tb::RowFragment<{rows.thr_layout[0]}, {shape[-2]}, {atom_of(rows)}>"
    columns = type_.column_mma
    if columns is not None:
        warps_m, warps_n = columns.thr_layout[:2]
        return f"tb::ColumnFragment<{warps_m}, {warps_n}, {shape[-1]}, {atom_of(columns)}>"
    partition = type_.partition
    if partition is None:
        raise CodegenError(f"the CUDA target cannot hold {type_} in registers yet")
    layout = domain_layout(shape, partition.order)
    return f"tb::LinearFragment<{partition.threads}, {partition.vector}, {layout}>"


def rows_class(rows: LinearRows) -> str:
    """The class of the runtime that knows which thread holds which row."""
    partition = rows.partition
    return (
        f"tb::LinearRows<{partition.threads}, {partition.vector}, {math.prod(rows.shape)}, "
        f"{rows.extent}>"
    )


def domain_layout(shape: Sequence[int], order: Sequence[int]) -> str:
    """An iteration domain on its own: a compact layout of its extents."""
    extents = tuple(shape[dim] for dim in order)
    compact = tuple(reversed(row_major_strides(tuple(reversed(extents)))))
    return layout_type(extents, compact)


def fragment_type_of(value: SSAValue) -> sched.FragmentType:
    """The type of a fragment."""
    if not isinstance(value.type, sched.FragmentType):
        raise CodegenError(f"the CUDA target expected a fragment, got {value.type}")
    return value.type


@print_operation.register
def _(op: sched.FragmentOp, printer: KernelPrinter) -> None:
    name, type_ = printer.names.of(op.result), stored_type(op.result)
    # Pairs of 16 bits are moved as words.
    aligned = "alignas(4) " if element_bytes_of(op.result.type) < 4 else ""
    held = fragment_class(fragment_type_of(op.result))
    printer.writer.line(f"{aligned}{type_} {name}[{held}::kValues];")


@print_operation.register
def _(op: sched.TileOp, printer: KernelPrinter) -> None:
    if all(isinstance(use.operation, sched.BulkCopyOp) for use in op.result.uses):
        return  # tensor maps say where such tiles are
    elements = physical_elements(resolved_layout_of(op.result))
    if elements > MAX_TILE_ELEMENTS:
        raise CodegenError(
            f"{op_label(op)} spans {elements} elements of {value_label(op.source)}; inside a tile "
            f"offsets have 32 bits, at most {MAX_TILE_ELEMENTS}: choose smaller tiles"
        )
    name, source = printer.names.of(op.result), printer.names.of(op.source)
    start = source
    for axis, stride in zip("xyz", op.block_strides(), strict=True):
        if stride:
            start = offset_by(start, wide_index(f"blockIdx.{axis}", op.source), stride)
    printer.writer.line(f"auto* const {name} = {start};  // {op.name} {source}")


@print_operation.register
def _(op: sched.CommitOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"tb::commit_group();  // {op.name}")


@print_operation.register
def _(op: sched.WaitOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"tb::wait_group<{op.pending_groups}>();  // {op.name}")


@print_operation.register
def _(op: sched.BarrierOp, printer: KernelPrinter) -> None:
    role = printer.role
    if role is None:
        printer.writer.line(f"__syncthreads();  // {op.name}")
        return
    printer.writer.line(
        f"mugraph::named_barrier({role.barrier_number}, {role.threads});  // {op.name}"
    )


@print_operation.register
def _(op: sched.GridWaitOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"tb::grid_wait();  // {op.name}")


@print_operation.register
def _(op: sched.GridLaunchOp, printer: KernelPrinter) -> None:
    printer.writer.line(f"tb::grid_launch();  // {op.name}")


def partition_of(
    op: sched.CopyOp
    | sched.ElementwiseOp
    | sched.MaskOp
    | sched.ReduceOp
    | sched.MoveOp
    | sched.SumPartsOp,
    printer: KernelPrinter,
) -> LinearPartition:
    """Who does what of an operation; the headers count on every thread of the block."""
    attribute = op.partition
    if not isinstance(attribute, sched.LinearPartitionAttr):
        raise CodegenError(f"{op_label(op)}: the CUDA target cannot deal out {attribute} yet")
    partition = attribute.data
    if partition.threads != printer.threads:
        raise CodegenError(
            f"{op_label(op)} is dealt to {partition.threads} threads; the CUDA target deals to all "
            f"{printer.threads} of the {'block' if printer.role is None else 'role'}"
        )
    return partition


def scope_of(op: Operation, iteration: str, ahead: int) -> str:
    """Opens the scope of an operator that does nothing where the loop has no such iteration."""
    loop = sched.enclosing_loop(op)
    if not ahead or loop is None:
        return "{"
    return f"if ({iteration} < {loop.iterations}) {{" if ahead > 0 else f"if ({iteration} >= 0) {{"


@print_operation.register
def _(op: sched.CopyOp, printer: KernelPrinter) -> None:
    partition = partition_of(op, printer)
    shape = shape_of(op.source.type)
    held = [isinstance(value.type, sched.FragmentType) for value in op.operands]
    iteration = printer.iteration
    if op.fixed_iteration is not None:
        iteration = str(op.fixed_iteration)
    elif op.ahead_of:
        iteration = f"{printer.iteration} + {op.ahead_of}"
    scope = scope_of(op, iteration or "0", op.ahead_of)
    kind, method = ("CopyAsync" if op.is_async else "Copy"), "run"
    dims, counts = "", ""
    if op.checked_dims:
        kind += "Within"
        if not op.is_async:
            method = "load" if isinstance(op.source.type, sched.GlobalType) else "store"
        dims, counts = ragged_arguments(op.ragged(), shape, partition, iteration or "0")
    writer = printer.writer
    writer.open(f"{scope}  {printer.describe(op)}")
    if any(held):
        tile = op.operands[held.index(False)]
        writer.line(f"using Tile = {printer.layout(tile, shape, partition.order)};")
        source, destination = (printer.pointer(value, iteration) for value in op.operands)
        writer.line(
            f"tb::HeldCopy<{partition.threads}, {partition.vector}, Tile{dims}>::"
            f"{'store' if held[0] else 'load'}({destination}, {source}, thread{counts});"
        )
        writer.close()
        return
    writer.line(f"using Source = {printer.layout(op.source, shape, partition.order)};")
    writer.line(f"using Target = {printer.layout(op.destination, shape, partition.order)};")
    writer.line(
        f"tb::{kind}<{partition.threads}, {partition.vector}, Target, Source{dims}>::{method}("
        f"{printer.pointer(op.destination, iteration)}, "
        f"{printer.pointer(op.source, iteration)}, thread{counts});"
    )
    writer.close()


def ragged_arguments(
    ragged: Sequence[RaggedDim], shape: Sequence[int], partition: LinearPartition, iteration: str
) -> tuple[str, str]:
    """The ragged dimensions as template arguments, and how many elements exist along each."""
    dims, counts = "", ""
    for entry in ragged:
        bound = entry.bound
        place = partition.order.index(entry.dim)
        before = math.prod(shape[dim] for dim in partition.order[:place])
        dims += f", mugraph::Along<{before}, {shape[entry.dim]}>"
        block = "0"
        for axis, blocks in zip("xyz", bound.blocks, strict=True):
            if blocks > 1:
                index = f"blockIdx.{axis}"
                block = index if block == "0" else f"({block}) * {blocks} + {index}"
        counts += (
            f", tb::existing<{bound.extent}, {bound.step}, {bound.tile}>({block}, "
            f"{iteration if bound.moves else '0'})"
        )
    return dims, counts


@print_operation.register
def _(op: sched.MaskOp, printer: KernelPrinter) -> None:
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    epilogue = epilogue_of(op)
    writer = printer.writer
    dims, counts = ragged_arguments(op.ragged, domain, partition, printer.iteration or "0")
    destination = printer.pointer(op.destination)
    in_registers = isinstance(op.destination.type, sched.FragmentType)
    writer.open(f"{{  {printer.describe(op)}")
    if isinstance(op.source.type, sched.FragmentType) or (
        in_registers and not epilogue.accumulates
    ):
        source = held_operand(op.source, op, "Source", printer)
        masked = (
            f"tb::masked<{fp32_bits(op.constant)}, {partition.threads}, {partition.vector}{dims}>("
            f"{source}, thread{counts})"
        )
        print_map(op, f"ops::Chain<>, {epilogue_type(epilogue)}", masked, printer)
        writer.close()
        return
    writer.line(f"using Source = {printer.layout(op.source, domain, partition.order)};")
    if in_registers:
        writer.line(f"using Target = {domain_layout(domain, partition.order)};")
    else:
        writer.line(f"using Target = {printer.layout(op.destination, domain, partition.order)};")
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
    if isinstance(op.destination.type, sched.FragmentType):
        is_plain = op.destination.type.arrangement is None
        if is_plain and (value != 0.0 or op.destination.type.rows is not None):
            writer.line(f"tb::fill_values({name}, {fp32_literal(value)});  {printer.describe(op)}")
            return
        fragment = fragment_class(op.destination.type)
        if value == 0.0 and op.destination.type.row_mma is None:
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


def _source_layouts(
    printer: KernelPrinter, sources: Sequence[SSAValue], domain: Sequence[int], order: Sequence[int]
) -> list[str]:
    return [printer.layout(source, domain, order) for source in sources]


@print_operation.register
def _(op: sched.ElementwiseOp, printer: KernelPrinter) -> None:
    held = [isinstance(value.type, sched.FragmentType) for value in op.operands]
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
    in_registers = isinstance(op.destination.type, sched.FragmentType)
    writer.open(f"{{  {printer.describe(op)}")
    for name, layout in zip(names, layouts, strict=True):
        writer.line(f"using {name} = {layout};")
    if in_registers:
        writer.line(f"using Target = {domain_layout(domain, partition.order)};")
    else:
        writer.line(f"using Target = {printer.layout(op.destination, domain, partition.order)};")
    method = "accumulate" if in_registers else "update" if epilogue.accumulates else "store"
    writer.line(
        f"tb::Elementwise<{function_type(op.function.data)}, {epilogue_type(epilogue)}, "
        f"{partition.threads}, {partition.vector}, {', '.join(['Target', *names])}>::{method}("
        f"{destination}, thread, {pointers});"
    )
    writer.close()


def print_held_elementwise(op: sched.ElementwiseOp, printer: KernelPrinter) -> None:
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


def print_map(
    op: sched.ElementwiseOp | sched.MaskOp, functions: str, sources: str, printer: KernelPrinter
) -> None:
    """The call of ``tb::Map`` into registers or memory."""
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    accumulates = epilogue_of(op).accumulates
    writer = printer.writer
    if isinstance(op.destination.type, sched.FragmentType):
        method = "accumulate" if accumulates else "assign"
    else:
        writer.line(f"using Target = {printer.layout(op.destination, domain, partition.order)};")
        method = "update<Target>" if accumulates else "store<Target>"
    writer.line(
        f"tb::Map<{functions}, {partition.threads}, {partition.vector}, {math.prod(domain)}>::"
        f"{method}({printer.pointer(op.destination)}, thread, {sources});"
    )


def held_operand(
    source: SSAValue, op: sched.ElementwiseOp | sched.MaskOp, name: str, printer: KernelPrinter
) -> str:
    """An operand of ``tb::Map``, in memory, in registers, or rows in registers."""
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    if not isinstance(source.type, sched.FragmentType):
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


@print_operation.register
def _(op: sched.MoveOp, printer: KernelPrinter) -> None:
    partition = partition_of(op, printer)
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    for name, value in (("Source", op.source), ("Target", op.destination)):
        layout = op.layout_of_part(value)
        plain = base_layout(layout)
        writer.line(f"using {name} = {layout_type(plain.flat_shape, plain.flat_stride, layout)};")
    writer.line(
        f"tb::Copy<{partition.threads}, {partition.vector}, Target, Source>::run("
        f"{printer.pointer(op.destination)}, {printer.pointer(op.source)}, thread);"
    )
    writer.close()


def reduction_source(
    op: sched.ReduceOp, source: SSAValue, results: Sequence[int], order: Sequence[int]
) -> str:
    """The layout of a reduction's source: what is reduced, and the results in order."""
    reduced, outputs = reduced_modes(source, results, op.groups(), op.reduced_dim, order)
    return layout_type(
        (reduced.shape, outputs.shape),
        (reduced.stride, outputs.stride),
        resolved_layout_of(source),
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
    if not isinstance(op.source.type, sched.FragmentType):
        layout = reduction_source(op, op.source, rows.result_shape(), rows.partition.order)
        writer.line(f"using Source = {layout};")
        method += "_from<Source>"
    writer.line(
        f"tb::ReduceRows<{COMBINERS[op.combination]}, {epilogue_type(epilogue)}, "
        f"{rows_class(rows)}>::{method}({', '.join([*names, source])}, thread);"
    )
    writer.close()


@print_operation.register
def _(op: sched.ReduceWarpsOp, printer: KernelPrinter) -> None:
    rows = op.rows
    if rows is None:
        raise CodegenError(f"{op_label(op)}: the CUDA target cannot reduce {op.partition} yet")
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


@print_operation.register
def _(op: sched.ReduceOp, printer: KernelPrinter) -> None:
    if op.rows is not None:
        print_row_reduction(op, op.rows, printer)
        return
    partition = partition_of(op, printer)
    results = shape_of(op.destination.type)
    source = reduction_source(op, op.source, results, partition.order)
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


def matrix_type(matrix: AnyLayout) -> str:
    """A matrix, or a part of one, as a static layout."""
    plain = base_layout(matrix)
    return layout_type(plain.shape, plain.stride, matrix)


@print_operation.register
def _(op: sched.MmaOp, printer: KernelPrinter) -> None:
    mma = fragment_type_of(op.accumulator).tiled_mma
    if mma is None:
        raise CodegenError(f"{op_label(op)}: the accumulator is not a tensor-core fragment")
    atom = atom_of(mma)
    warps_m, warps_n = mma.thr_layout[:2]
    flags = "".join("true, " if flag else "false, " for flag in op.ldmatrix)
    kind, flags = ("ScalarMatmul", "") if mma_atom(mma.atom).is_scalar else ("Matmul", flags)
    writer = printer.writer
    thread = "tb::recomputed(thread)" if is_large_beside(op.accumulator) else "thread"
    writer.open(f"{{  {printer.describe(op)}")
    lhs, rhs = op.matrices()
    if op.lhs_in_registers:
        writer.line(f"using B = {matrix_type(rhs)};")
        rows = shape_of(op.accumulator.type)[-2]
        writer.line(
            f"tb::RegisterMatmul<{warps_m}, {rows}, B, {str(op.ldmatrix[1]).lower()}, {atom}>::mma("
            f"{printer.names.of(op.accumulator)}, {printer.names.of(op.lhs)}, "
            f"{printer.pointer(op.rhs)}, thread);"
        )
        writer.close()
        return
    for name, matrix in zip("AB", (lhs, rhs), strict=True):
        writer.line(f"using {name} = {matrix_type(matrix)};")
    writer.line(
        f"tb::{kind}<{warps_m}, {warps_n}, A, B, {flags}{atom}>::mma("
        f"{printer.names.of(op.accumulator)}, {printer.pointer(op.lhs)}, "
        f"{printer.pointer(op.rhs)}, {thread});"
    )
    writer.close()


def is_large_beside(fragment: SSAValue) -> bool:
    """Whether a product has registers of its own, and so many that addresses should not be kept."""
    owner = fragment.owner
    beside = isinstance(owner, sched.FragmentOp) and not isinstance(
        owner.parent_op(), sched.KernelOp
    )
    return beside and fragment_type_of(fragment).values_per_thread() >= UNROLLED_VALUES


@print_operation.register
def _(op: sched.StoreOp, printer: KernelPrinter) -> None:
    type_ = fragment_type_of(op.source)
    epilogue = epilogue_of(op)
    source, destination = printer.names.of(op.source), printer.pointer(op.destination)
    method = "update" if epilogue.accumulates else "store"
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    matrix = op.matrix()
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
    if matrix is not None:
        writer.line(f"using Target = {matrix_type(matrix)};")
        arguments = f"{epilogue_type(epilogue)}, Target"
        if type_.parts > 1:
            arguments += f", {strides_of(resolved_layout_of(op.destination))[0]}"
        fragment = fragment_class(type_)
        if type_.row_mma is not None and epilogue.accumulates:
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
def _(op: sched.SumPartsOp, printer: KernelPrinter) -> None:
    partition = partition_of(op, printer)
    domain = shape_of(op.destination.type)
    epilogue = epilogue_of(op)
    writer = printer.writer
    destination = printer.pointer(op.destination)
    in_registers = isinstance(op.destination.type, sched.FragmentType)
    part = op.layout_of_part()
    plain = base_layout(part)
    writer.open(f"{{  {printer.describe(op)}")
    writer.line(f"using Part = {layout_type(plain.flat_shape, plain.flat_stride, part)};")
    if in_registers:
        writer.line(f"using Target = {domain_layout(domain, partition.order)};")
    else:
        writer.line(f"using Target = {printer.layout(op.destination, domain, partition.order)};")
    if in_registers and not epilogue.accumulates:
        fragment = fragment_class(fragment_type_of(op.destination))
        writer.line(f"{fragment}::clear({destination});")
    method = "accumulate" if in_registers else "update" if epilogue.accumulates else "store"
    writer.line(
        f"tb::SumParts<{epilogue_type(epilogue)}, {partition.threads}, {partition.vector}, Target, "
        f"Part, {op.parts}, {op.part_stride}>::{method}({destination}, thread, "
        f"{printer.pointer(op.source)});"
    )
    writer.close()


@print_operation.register
def _(op: sched.AccumulateOp, printer: KernelPrinter) -> None:
    source, destination = printer.names.of(op.source), printer.names.of(op.destination)
    printer.writer.line(
        f"tb::accumulate<{epilogue_type(epilogue_of(op))}>({destination}, {source});  "
        f"{printer.describe(op)}"
    )


def held_by(value: SSAValue) -> str:
    """The class of the runtime of a fragment."""
    return fragment_class(fragment_type_of(value))


@print_operation.register
def _(op: sched.MapOp, printer: KernelPrinter) -> None:
    epilogue = epilogue_of(op)
    method = "update" if epilogue.accumulates else "store"
    destination = fragment_type_of(op.destination)
    values = [printer.names.of(op.destination)]
    for source in op.sources:
        name, type_ = printer.names.of(source), fragment_type_of(source)
        by_column = type_.column_mma is not None and destination.column_mma is None
        values.append(f"tb::by_column({name})" if by_column else name)
    printer.writer.line(
        f"tb::MapFragment<{function_type(op.function.data)}, {epilogue_type(epilogue)}, "
        f"{held_by(op.destination)}>::{method}({', '.join(values)});  "
        f"{printer.describe(op)}"
    )


@print_operation.register
def _(op: sched.LoadColumnsOp, printer: KernelPrinter) -> None:
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    writer.line(f"using Source = {matrix_type(op.matrix())};")
    writer.line(
        f"{held_by(op.destination)}::load<{epilogue_type(epilogue_of(op))}, Source>("
        f"{printer.names.of(op.destination)}, {printer.pointer(op.source)}, thread);"
    )
    writer.close()


@print_operation.register
def _(op: sched.ReduceRowsOp, printer: KernelPrinter) -> None:
    epilogue = epilogue_of(op)
    combine = {sched.Combiner.SUM: "ops::Add", sched.Combiner.MAX: "ops::Max"}[op.combination]
    method, values = "update" if epilogue.accumulates else "store", [op.destination, op.source]
    if op.difference is not None:
        method, values = "track", [op.destination, op.difference, op.source]
    printer.writer.line(
        f"tb::ReduceFragmentRows<{combine}, {epilogue_type(epilogue)}, "
        f"{str(not op.is_partial).lower()}, "
        f"{held_by(op.source)}, {held_by(op.destination)}>::{method}("
        f"{', '.join(map(printer.names.of, values))});  {printer.describe(op)}"
    )


@print_operation.register
def _(op: sched.LoadOp, printer: KernelPrinter) -> None:
    mma = fragment_type_of(op.destination).tiled_mma
    assert mma is not None  # verified
    rows, depth = shape_of(op.source.type)[-2:]
    writer = printer.writer
    writer.open(f"{{  {printer.describe(op)}")
    writer.line(f"using A = {matrix_type(op.matrix())};")
    writer.line(
        f"tb::RegisterOperand<{mma.thr_layout[0]}, {rows}, {depth}, {atom_of(mma)}>::"
        f"load<A, {str(op.uses_ldmatrix).lower()}>({printer.names.of(op.destination)}, "
        f"{printer.pointer(op.source)}, thread);"
    )
    writer.close()


def print_phase(op: sched.PhaseOp, printer: KernelPrinter) -> None:
    """Prints the operators of a prologue or an epilogue in order."""
    printer.writer.line()
    printer.writer.line(f"// {op.name}")
    for inner in op.body.block.ops:
        print_operation(inner, printer)


@print_operation.register
def _(op: sched.PrologueOp, printer: KernelPrinter) -> None:
    print_phase(op, printer)


@print_operation.register
def _(op: sched.EpilogueOp, printer: KernelPrinter) -> None:
    print_phase(op, printer)


@print_operation.register
def _(op: sched.ForloopOp, printer: KernelPrinter) -> None:
    writer = printer.writer
    writer.line()
    writer.line(f"// {op.name}")
    if op.iterations == 1:
        writer.open("{")
        inner = replace(printer, iteration="0")
    else:
        # Unrolling would multiply the code; the stages' indices are cheap to compute.
        writer.line("#pragma unroll 1")
        writer.open(f"for (int it = 0; it < {op.iterations}; ++it) {{")
        inner = replace(printer, iteration="it")
    for step in op.body.block.ops:
        print_operation(step, inner)
    writer.close()
