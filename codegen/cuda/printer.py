"""What printing an operator of a schedule needs, and the function that prints one.

Every operation prints a comment naming its IR operator, then a call of the header of the same
name in ``runtime/include/mugraph``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from xdsl.ir import Operation, SSAValue

from mugraph.codegen.cuda.cpp import CodegenError, Writer, iteration_layout
from mugraph.codegen.cuda.names import Names
from mugraph.codegen.cuda.stages import Iteration, StageCounters
from mugraph.dialects import sched
from mugraph.dialects.cute import Layout
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)

MAX_INT = 2**31 - 1


@dataclass
class KernelPrinter:
    """What printing an operator needs: where to write, names, and which iteration it runs in."""

    writer: Writer
    names: Names
    kernel: sched.KernelOp
    iteration: Iteration = field(default_factory=Iteration)
    role: sched.RoleOp | None = None
    maps: Mapping[object, str] = field(default_factory=dict[object, str])
    counters: StageCounters = field(default_factory=StageCounters)
    """What counts the stages of rings."""
    counter_names: dict[tuple[str, int, int], str] = field(
        default_factory=dict[tuple[str, int, int], str]
    )
    """The variables that count stages, of all roles, which may have them under one name."""
    span: str | None = None
    """The iterations that the block runs, where they depend on it, as an expression."""
    parts: str | None = None
    """The variable that says how many blocks take tiles in turn, where that is no constant."""
    lengths: list[str] = field(default_factory=list[str])
    """The variable of each length, in the order of the kernel's."""
    round: str | None = None
    """How many work tiles a ping-pong role had before, as an expression."""
    is_task: bool = False
    """Whether the kernel's blocks are tasks of blocks that may have more threads."""

    def print(self, op: Operation) -> None:
        """Prints one operator."""
        with self.writer.of_operation(op):
            print_operation(op, self)

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

    def arguments(self) -> list[str]:
        """The kernel's parameters for its tensors and numbers."""
        return [self.names.of(argument) for argument in self.kernel.body.block.args]

    def number(self, value: SSAValue) -> str:
        """A number that a call says, or that device memory holds.

        Of lengths that one argument holds that of the smallest range, as no value is above it.
        """
        pairs = zip(self.kernel.held_lengths, self.lengths, strict=False)
        arguments = self.kernel.body.block.args
        known = [(each.largest, name) for each, name in pairs if arguments[each.argument] is value]
        return min(known)[1] if known else self.names.of(value)

    def describe(self, op: Operation) -> str:
        """The operator and its operands, with sanitised names, for a comment."""
        operands = ", ".join(self.names.of(operand) for operand in op.operands)
        return f"// {op.name} {operands}".rstrip()

    def pointer(self, value: SSAValue, iteration: Iteration | None = None) -> str:
        """Where a buffer, the stage of a buffer or the tile of a tensor starts."""
        iteration = iteration or self.iteration
        name = self.names.of(value)
        owner = value.owner
        if isinstance(owner, sched.AllocOp) and owner.stage_count > 1:
            elements = owner.stage_bytes() // element_bytes_of(value.type)
            return offset_by(name, self.stage_index(iteration, owner.stage_count), elements)
        if not isinstance(owner, sched.LocalTileOp):
            return name
        if owner.windows is not None:
            raise CodegenError(
                f"{op_label(owner)} has windows of {value_label(owner.source)}, which only "
                "'sched.copy' to shared memory can load"
            )
        if owner.rows_in_tile > 1:
            raise CodegenError(
                f"{op_label(owner)}: numbers name {owner.rows_in_tile} rows of a tile of "
                f"{value_label(owner.source)}, which only 'sched.copy' to shared memory can load"
            )
        start = self.start_in_rows(owner, iteration)
        if owner.through is None:
            return start
        stride = strides_of(resolved_layout_of(owner.source))[0]
        return f"{start} + {self.row_of(owner, iteration)} * {stride}"

    def start_in_rows(self, tile: sched.LocalTileOp, iteration: Iteration | None = None) -> str:
        """Where a tile of a tensor starts; in the first row where numbers name them."""
        name, stride = self.names.of(tile.result), tile.iteration_stride()
        if not stride:
            return name
        tile_number = self.tile_of(iteration or self.iteration)
        if (parts := self.kernel.block_parts) is not None:
            tile_number = f"({tile_number}) * {self.parts}"
            stride //= self.kernel.grid_dim[parts.axis]
        return offset_by(name, wide_index(tile_number, tile.source), stride)

    def numbers_of(self, tile: sched.LocalTileOp, iteration: Iteration | None = None) -> str:
        """Where the numbers of a tile's rows start."""
        assert tile.through is not None  # asked by callers
        start = self.names.of(tile.through)
        for axis, stride in zip("xyz", tile.number_block_strides(), strict=True):
            if stride:
                start = offset_by(start, wide_index(f"blockIdx.{axis}", tile.through), stride)
        if stride := tile.number_iteration_stride():
            index = self.tile_of(iteration or self.iteration)
            start = offset_by(start, wide_index(index, tile.through), stride)
        return start

    def row_of(self, tile: sched.LocalTileOp, iteration: Iteration | None = None) -> str:
        """Which one row of the tensor a tile has."""
        rows = shape_of(tile.source.type)[0]
        return f"tb::row_of<{rows}>(*({self.numbers_of(tile, iteration)}))"

    def named_rows(self, tile: sched.LocalTileOp, partition: LinearPartition) -> str:
        """The type that finds the rows of a tile which a copy of all threads moves."""
        shape, strides = shape_of(tile.source.type), strides_of(resolved_layout_of(tile.source))
        extents = shape_of(tile.result.type)
        numbers = Layout(extents, tile.number_strides())
        places = iteration_layout(numbers, extents, extents, partition.order)
        return (
            f"tb::NamedRows<{partition.threads}, {partition.vector}, {places}, {shape[0]}, "
            f"{strides[0]}>"
        )

    def rows_written(self, tile: sched.LocalTileOp) -> str:
        """What finds the rows of a tensor that the rows of a product's tile are written to."""
        rows, step = shape_of(tile.source.type)[0], tile.number_strides()[-2]
        start = self.numbers_of(tile)
        return f"tb::RowsWritten<{rows}, {tile.stride_of_rows}, {step}>{{{start}}}"

    def window_places(self, tile: sched.LocalTileOp, partition: LinearPartition) -> str:
        """The type that finds what a copy of all threads moves of windows."""
        windows = tile.windows
        assert windows is not None  # asked by callers
        shape, strides = shape_of(tile.source.type), strides_of(resolved_layout_of(tile.source))
        sides = zip(shape, strides, windows.origin, strict=True)
        source = ", ".join(f"tb::TensorDim<{', '.join(map(str, side))}>" for side in sides)
        seen: list[str] = []
        extents = shape_of(tile.result.type)
        for dim, modes in enumerate(windows.modes):
            before = math.prod(
                extents[other] for other in partition.order[: partition.order.index(dim)]
            )
            along = [f"tb::WindowMode<{', '.join(map(str, mode))}>" for mode in modes]
            seen.append(f"tb::SeenDim<{', '.join([str(before), str(extents[dim]), *along])}>")
        return (
            f"tb::WindowPlaces<{partition.threads}, {partition.vector}, tb::TensorDims<{source}>, "
            f"{', '.join(seen)}>"
        )

    def starts_of(self, tile: sched.LocalTileOp, iteration: Iteration | None = None) -> str:
        """The coordinates at which a tile begins in its windows."""
        slicing = tile.slicing()
        starts: list[str] = []
        for dim, factors in enumerate(zip(*slicing.block_factors(), strict=True)):
            start = "0"
            for axis, factor in zip("xyz", factors, strict=True):
                if factor:
                    start = offset_by(start, f"static_cast<int>(blockIdx.{axis})", factor)
            if tile.loop_dim == dim:
                index = self.tile_of(iteration or self.iteration)
                start = offset_by(start, index, slicing.iteration_step())
            starts.append(start)
        return f"tb::Starts<{len(starts)}>{{{{{', '.join(starts)}}}}}"

    def counter(self, wish: str, stages: int, loop: int = 0) -> str:
        """The variable that counts rings of so many stages, in the ``loop``-th loop of a block."""
        key = wish, stages, loop
        if key not in self.counter_names:
            self.counter_names[key] = self.names.fresh(wish)
        return self.counter_names[key]

    def stage(self, iteration: Iteration, stages: int) -> str:
        """The place of an iteration in a ring of so many stages: a ``tb::Stage``, or its number."""
        return self.counters.stage(iteration, stages)

    def stage_index(self, iteration: Iteration, stages: int) -> str:
        """Which copy of a buffer of so many stages an iteration uses."""
        first = self.counters.first.get(stages, Iteration())
        starts_over = not first.start or loop_iterations(self.kernel) % stages == 0
        if not iteration.start and starts_over:
            return str((first.ahead + iteration.ahead) % stages)
        return f"{_grouped(self.stage(iteration, stages))}.index()"

    def tile_of(self, iteration: Iteration) -> str:
        """Which of the tiles along the loop an iteration has."""
        if self.span is None:
            return str(iteration)
        first = f"{self.span}.first"
        return first if iteration == Iteration() else f"{first} + {iteration}"

    def trip_count(self, loop: sched.ForloopOp) -> str:
        """How often a loop runs."""
        if self.span is not None:
            return f"{self.span}.count"
        count = loop.trip_count
        return str(count) if isinstance(count, int) else self.names.of(count)

    def layout(self, value: SSAValue, domain: Sequence[int], order: Sequence[int]) -> str:
        """A buffer's layout over an iteration domain."""
        return iteration_layout(resolved_layout_of(value), shape_of(value.type), domain, order)


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
    is_sum = is_sum and not expression.startswith("static_cast") and not expression.endswith(")")
    return f"({expression})" if is_sum else expression


@singledispatch
def print_operation(op: Operation, printer: KernelPrinter) -> None:
    """Prints one operator of a schedule."""
    raise CodegenError(f"the CUDA target cannot print {op_label(op)} yet")


def partition_of(
    op: sched.CopyOp | sched.MapOp | sched.MaskOp | sched.ReduceOp | sched.MoveOp,
    printer: KernelPrinter,
) -> LinearPartition:
    """Who does what of an operation; the headers count on every thread of the block."""
    computes = isinstance(op, sched.MapOp | sched.MaskOp | sched.ReduceOp)
    attribute = op.distribution if computes else op.partition
    if not isinstance(attribute, sched.LinearPartitionAttr):
        raise CodegenError(f"{op_label(op)}: the CUDA target cannot deal out {attribute} yet")
    partition = attribute.data
    if partition.threads != printer.threads:
        raise CodegenError(
            f"{op_label(op)} is dealt to {partition.threads} threads; the CUDA target deals to all "
            f"{printer.threads} of the {'block' if printer.role is None else 'role'}"
        )
    return partition
