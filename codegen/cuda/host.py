"""The host side of a generated file: what launches the kernels of one operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from mugraph.codegen.cuda.channels import map_parameters, print_host_maps
from mugraph.codegen.cuda.cpp import (
    CodegenError,
    Writer,
    function_type,
    placed_type,
    stored_type,
)
from mugraph.codegen.cuda.grid import launched_grid
from mugraph.codegen.cuda.names import Names, sanitize
from mugraph.codegen.cuda.pieces import Piece, print_pieces
from mugraph.codegen.cuda.walks import (
    broadcast_strides,
    memory_order,
    print_move,
    strides_in_memory,
    walk,
)
from mugraph.dialects import kn, sched
from mugraph.dialects.alignment import DEFAULT_ALIGNMENT, argument_alignment, result_alignment
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.interfaces import HasWorkspace, SharesMemory
from mugraph.dialects.kn.overlap import RuntimePart
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES, memory_root, returned_root
from mugraph.dialects.named_extents import argument_names, buckets_of
from mugraph.dialects.tensor_types import op_label, shape_of, value_label


class Joined(NamedTuple):
    """What launches of one text have in common that share a launch."""

    kernels: tuple[str, ...]
    """Their names."""
    consumed: tuple[tuple[int, int], ...] | None
    """The tensors in distributed shared memory; ``None`` where there are no clusters."""
    own: tuple[bool, ...]
    """Which of them have blocks of their own."""

    @classmethod
    def of(cls, launches: Sequence[sched.LaunchOp]) -> Joined:
        """That of some launches."""
        first, last = launches[0], launches[-1]
        consumed = None if last.cluster is None else last.consumed(first)
        names = tuple(each.kernel.root_reference.data for each in launches)
        return cls(names, consumed, tuple(each.has_blocks for each in launches))


@dataclass
class HostPrinter:
    """What printing a kernel-level operator needs."""

    writer: Writer
    names: Names
    kernel_names: Mapping[Any, str]
    places: dict[SSAValue, str]
    element: Callable[[SSAValue], str] = stored_type
    """The C++ type of a tensor's elements."""
    joined_names: Mapping[Joined, str] = field(default_factory=dict[Joined, str])
    """The kernel that runs those of several symbols side by side."""
    largest_carveout: bool = False
    """Whether kernels that overlap have the largest carve-out of shared memory."""
    joins: bool = False
    """Whether what is printed is a part of a launch, which :meth:`run` returns."""
    waits: bool = False
    """Whether the next kernel starts when all that was launched before is complete."""
    copied: set[kn.ScatterOp] = field(default_factory=set["kn.ScatterOp"])
    """The scatters whose table has been copied where the result lies elsewhere."""
    program_launches: Mapping[Operation, Callable[[HostPrinter], None]] = field(
        default_factory=dict[Operation, Callable[["HostPrinter"], None]]
    )
    """What prints the launch of a persistent kernel, by the first of its launches."""

    def queue(self, *, overlaps: bool, cooperative: bool = False) -> str:
        """Where a kernel is launched, whether the one before may still run, or all blocks must."""
        overlaps, self.waits = overlaps and not self.waits, False
        if cooperative:
            return "mugraph::cooperative(stream)"
        if not overlaps:
            return "stream"
        return f"mugraph::{'beside_others' if self.largest_carveout else 'overlapping'}(stream)"

    def declare(self, value: SSAValue) -> str:
        """Declares the pointer of a DTensor, or an index, in the current block; returns its name.

        An index comes as a pointer to 64 bits in host memory.
        """
        if value not in self.places:
            raise CodegenError(
                f"{value_label(value)} has no place in the workspace; run --plan-dtensor-memory"
            )
        name = self.names.of(value)
        if isinstance(value.type, IndexType):
            self.writer.line(f"int64_t const {name} = *(int64_t const*){self.places[value]};")
            return name
        type_ = self.element(value)
        self.writer.line(f"{type_} *{name} = ({type_}*){self.places[value]};")
        return name

    def declare_all(self, values: Sequence[SSAValue]) -> list[str]:
        """Declares the pointers of an operator's tensors, each once; returns all their names."""
        declared = {value: self.declare(value) for value in dict.fromkeys(values)}
        return [declared[value] for value in values]

    def run(self, op: RuntimePart, kernel: str, arguments: Sequence[str]) -> None:
        """Prints the launch of a kernel of the runtime, or its part of one."""
        given = ", ".join(arguments)
        if self.joins:
            self.writer.line(f"return {kernel}::part({given});")
        else:
            self.writer.line(f"{kernel}::run({self.queue(overlaps=op.overlaps)}, {given});")


def workspace_bytes(function: FuncOp) -> int:
    """The bytes of device memory that a call of the function, or of its buckets, needs."""
    module = function.parent_op()
    buckets = buckets_of(module, function) if isinstance(module, ModuleOp) else [function]
    return max(map(own_workspace_bytes, buckets))


def own_workspace_bytes(function: FuncOp) -> int:
    """The bytes of device memory that the function needs for intermediates."""
    attribute = function.attributes.get(WORKSPACE_BYTES)
    if not isinstance(attribute, IntegerAttr):
        raise CodegenError(
            f"{op_label(function)} has no plan for its intermediates; print what --transpile made, "
            "or run --plan-dtensor-memory first"
        )
    return attribute.value.data


def find_places(function: FuncOp) -> dict[SSAValue, str]:
    """Where each DTensor lives: an input, an output or an offset of the workspace."""
    places: dict[SSAValue, str] = {
        argument: f"input_tensors.at({argument.index})" for argument in function.body.block.args
    }
    returns = [op for op in function.walk() if isinstance(op, ReturnOp)]
    for index, value in enumerate(returns[0].operands if returns else ()):
        if isinstance(value, BlockArgument):
            raise CodegenError(
                f"result {index} of {op_label(function)} is its argument {value_label(value)}, "
                "which no kernel writes; run --insert-copies first"
            )
        root = returned_root(value)
        if root is None:
            raise CodegenError(
                f"result {index} of {op_label(function)} is {value_label(value)}, a part of a "
                "tensor: return a 'kn.copy' of it"
            )
        if root in places:
            raise CodegenError(
                f"result {index} of {op_label(function)} repeats an earlier result "
                f"({value_label(value)}); run --insert-copies first"
            )
        places[root] = f"output_tensors.at({index})"
    for op in function.body.block.ops:
        if isinstance(op, SharesMemory):
            places |= {result: _place_in(op, result, places) for result in op.results}
        if not isinstance(op, HasWorkspace):
            continue
        for result, offset in zip(op.results, op.workspace_offsets() or (), strict=False):
            if offset != kn.NOT_IN_WORKSPACE:
                places[result] = f"((char*)buf + {offset})"
    return places


def _place_in(op: SharesMemory, result: SSAValue, places: Mapping[SSAValue, str]) -> str:
    """Where a tensor lives that lies in the memory of another one."""
    place, skipped = places[op.memory_of(result)], op.bytes_before(result)
    return f"((char const*){place} + {skipped})" if skipped else place


@singledispatch
def print_host_operation(op: Operation, printer: HostPrinter) -> None:
    """Prints the launch of one kernel-level operator."""
    raise CodegenError(
        f"the CUDA target cannot print {op_label(op)}; print a module that --transpile made"
    )


@print_host_operation.register
def _(op: kn.ViewOp, printer: HostPrinter) -> None:
    printer.writer.line(f"// {value_label(op.result)} is in the memory of {value_label(op.input)}")


def print_launch(
    printer: HostPrinter,
    name: str,
    grid: Sequence[object],
    block: Sequence[object],
    smem: int | None,
    arguments: Sequence[str],
    *,
    overlaps: bool = False,
    cooperative: bool = False,
) -> None:
    """Prints the launch of a kernel; grid and block are extents along x, y and z, or fewer."""
    blocks, threads = (f"dim3({', '.join(map(str, extents))})" for extents in (grid, block))
    given = ", ".join([printer.queue(overlaps=overlaps, cooperative=cooperative), *arguments])
    printer.writer.line(f'mugraph::launch("{name}", {name}, {blocks}, {threads}, {smem}, {given});')


def declare_arguments(launches: Sequence[sched.LaunchOp], printer: HostPrinter) -> list[str]:
    """Declares the tensors of launches, each once; returns what they give their kernels."""
    stored = [stored_scatters(launch) for launch in launches]
    scatters = [scatter for each in stored for scatter in each.values()]
    tensors = [value for launch in launches for value in (*launch.arguments, *launch.outputs)]
    values = [*tensors, *(v for op in scatters for v in (op.table, op.rows, op.result))]
    names = dict(zip(values, printer.declare_all(values), strict=True))
    for scatter in scatters:
        print_table(scatter, names, printer)
    given: list[str] = []
    for launch, scatters_of in zip(launches, stored, strict=True):
        placed = launch.resolve().placed_rows
        for argument, value in enumerate((*launch.arguments, *launch.outputs)):
            pointer = names[value]
            if (scatter := scatters_of.get(argument)) is not None:
                type_ = placed_type(placed[argument], printer.element(value))
                pointer = f"{type_}({pointer}, {names[scatter.result]}, {names[scatter.rows]})"
            given.append(pointer)
    return given


@print_host_operation.register
def _(op: sched.LaunchOp, printer: HostPrinter) -> None:
    kernel = op.resolve()
    name = printer.kernel_names[kernel.sym_name.data]
    pointers = declare_arguments([op], printer)
    grid, overlaps = launched_grid(kernel, pointers), kernel.waits_for_grids()
    tensors = (*op.arguments, *op.outputs)
    maps = map_parameters(kernel)
    pointers += print_host_maps(maps, tensors, printer.writer, printer.names)
    together = kernel.packed_blocks
    x, *others = kernel.block_dim
    block, smem = (x * together, *others), (kernel.smem_bytes or 0) * together
    print_launch(printer, name, grid, block, smem, pointers, overlaps=overlaps)


def declare_extent(op: Operation, name: str, printer: HostPrinter) -> str:
    """Declares what a call says of a named extent of the function that an operator is in."""
    function = enclosing(op, FuncOp)
    assert function is not None  # as it is printed in one
    for index, argument in enumerate(function.args):
        if isinstance(argument.type, IndexType) and argument_names(function, index) == (name,):
            return printer.declare(argument)
    raise CodegenError(f"{op_label(op)} has '{name}' rows, which no argument of its function says")


def run_along(
    op: RuntimePart,
    kernel: str,
    walks: Sequence[tuple[str, str, Sequence[int]]],
    domain: Sequence[int],
    order: Sequence[int],
    printer: HostPrinter,
) -> None:
    """Prints the launch of a kernel that walks through tensors, for each piece of the domain.

    ``walks`` has for each tensor the name that ``kernel`` gives to its walk, its pointer and its
    strides.
    """

    def print_piece(piece: Piece) -> None:
        for name, _, strides in walks:
            printer.writer.line(f"using {name} = {walk(piece.extents, strides, order)};")
        printer.run(op, kernel, [piece.pointer(pointer, strides) for _, pointer, strides in walks])

    print_pieces(printer.writer, domain, [strides for _, _, strides in walks], print_piece)


def print_table(op: kn.ScatterOp, names: Mapping[SSAValue, str], printer: HostPrinter) -> None:
    """Prints that a table which gets new rows is copied, where the result lies elsewhere."""
    if op in printer.copied:
        return
    printer.copied.add(op)
    start, waits = [0] * len(shape_of(op.result.type)), printer.waits
    printer.writer.open(f"if ({names[op.result]} != {names[op.table]}) {{")
    print_move(
        printer.writer, printer.queue(overlaps=op.overlaps), names, op.result, op.table, start
    )
    printer.writer.close()
    printer.waits = waits  # a copy that does not run keeps nobody waiting


def stored_scatters(launch: sched.LaunchOp) -> dict[int, kn.ScatterOp]:
    """The scatters whose rows the kernel of a launch stores, by its argument for the rows."""
    stored: dict[int, kn.ScatterOp] = {}
    for argument in launch.resolve().placed_rows:
        value: SSAValue = launch.outputs[argument - len(launch.arguments)]
        (user,) = (use.operation for use in value.uses)
        while isinstance(user, SharesMemory):
            (user,) = (use.operation for use in user.results[0].uses)
        assert isinstance(user, kn.ScatterOp)  # as --store-rows has found
        stored[argument] = user
    return stored


@print_host_operation.register
def _(op: kn.ElementwiseOp, printer: HostPrinter) -> None:
    domain = shape_of(op.result.type)
    values = (op.result, *op.operands)
    strides = [broadcast_strides(value) for value in values]
    # Threads walk the result as it lies in memory.
    order = memory_order(domain, strides_in_memory(op.result))
    *pointers, result = printer.declare_all((*op.operands, op.result))
    names = ["Target", *(f"Source{index}" for index in range(len(op.operands)))]
    kernel = f"kn::Elementwise<{function_type(op.function)}, {', '.join(names)}>"
    walks = list(zip(names, (result, *pointers), strides, strict=True))
    run_along(op, kernel, walks, domain, order, printer)


def alignment_check(place: str, alignment: int, what: str, value: SSAValue | None = None) -> str:
    """A statement that checks a pointer of a call, which messages call ``what``."""
    named = f" ({sanitize(value.name_hint)})" if value is not None and value.name_hint else ""
    return f'mugraph::check_alignment({place}, {alignment}, "{what}{named}");'


def alignment_checks(function: FuncOp, places: Mapping[SSAValue, str]) -> list[str]:
    """Checks of the pointers whose tensors custom kernels access in vectors, before any launch.

    Other kernels look at their pointers themselves, and choose accesses that fit.
    """
    launches = [op for op in function.walk() if isinstance(op, sched.LaunchOp)]
    touched = {memory_root(value) for op in launches for value in (*op.arguments, *op.outputs)}
    touched |= {scatter.result for op in launches for scatter in stored_scatters(op).values()}
    checks: list[str] = []
    if any(places.get(value, "").startswith("((char*)buf") for value in touched):
        checks.append(alignment_check("buf", DEFAULT_ALIGNMENT, "the workspace"))
    for index, argument in enumerate(function.body.block.args):
        if argument in touched and not isinstance(argument.type, IndexType):
            alignment = argument_alignment(function, index)
            checks.append(alignment_check(places[argument], alignment, f"input {index}", argument))
    last = function.body.block.last_op
    for index, value in enumerate(last.operands if isinstance(last, ReturnOp) else ()):
        if returned_root(value) in touched:
            alignment = result_alignment(function, index)
            checks.append(alignment_check(places[value], alignment, f"output {index}", value))
    return checks
