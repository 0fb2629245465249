"""What the rewrite of one threadblock graph keeps at hand while it writes the kernel."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import sched, tb
from mugraph.dialects.copies import TileCopy, copy_vector, global_innermost
from mugraph.dialects.cute import Layout
from mugraph.dialects.cute.attributes import LayoutAttr
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import Epilogue, ScalarFunction
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import inherit_location
from mugraph.dialects.partition import (
    VECTOR_BYTES,
    LinearPartition,
    PartitionedOperand,
    choose_partition,
    iteration_order,
)
from mugraph.dialects.tb.layouts import partitioned_operand
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    element_bytes_of,
    element_type_of,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.dialects.windows import Windows
from mugraph.passes.costs.kept_sums import Pieces
from mugraph.passes.costs.warp_layouts import WarpLayout


def sum_type(type_: Attribute) -> Attribute:
    """What numbers of an element type are added up in: i32 for integers, otherwise fp32."""
    return i32 if is_integer(type_) else f32


@dataclass(frozen=True)
class Choices:
    """What was decided for one graph before it is rewritten."""

    warp_layouts: dict[tb.MatmulOp, WarpLayout]
    register_accumulators: frozenset[Operation]
    pieces: dict[tb.MatmulOp, Pieces]
    channels: bool = False
    """Whether a role of its own loads, through channels."""


@dataclass
class KernelBuilder:
    """Builds one kernel; ``here`` collects what the operator at hand becomes."""

    graph: CustomizedOp
    choices: Choices
    top: list[Operation] = field(default_factory=list[Operation])
    prologue: list[Operation] = field(default_factory=list[Operation])
    write_back: list[Operation] = field(default_factory=list[Operation])
    here: list[Operation] = field(default_factory=list[Operation])
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    tensors: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """The arguments of the kernel for those of the graph's body."""
    outputs: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @property
    def threads(self) -> int:
        """Threads in a block."""
        return self.graph.threads

    @contextmanager
    def made_for(self, op: Operation) -> Generator[None]:
        """What is added to the kernel in the block gets the location of an operator."""
        lists = (self.top, self.prologue, self.write_back)
        starts = [len(ops) for ops in lists]
        yield
        for ops, start in zip(lists, starts, strict=True):
            inherit_location(ops[start:], op)

    def moves(self, op: tb.InputOp) -> bool:
        """Whether an input's tile is loaded in the loop."""
        return op.loop_dim >= 0 and self.graph.forloop_range > 1

    def shared_type(self, value: SSAValue, element_type: Attribute | None = None) -> Attribute:
        """The type of the buffer of an STensor.

        A swizzle is chosen for elements of one width: a buffer of others starts without one.
        """
        own = element_type_of(value.type)
        layout = resolved_layout_of(value)
        if element_type is not None and element_type != own:
            layout = base_layout(layout)
        return sched.SharedType.of(shape_of(value.type), element_type or own, LayoutAttr(layout))

    def allocate(
        self,
        value: SSAValue,
        element_type: Attribute | None = None,
        layout: AnyLayout | None = None,
    ) -> SSAValue:
        """A new buffer for an STensor, of which later operators of the graph read."""
        type_ = self.shared_type(value, element_type)
        if layout is not None:
            type_ = with_layout(type_, layout)
        alloc = sched.AllocOp(type_)
        alloc.result.name_hint = value.name_hint
        self.top.append(alloc)
        self.buffers[value] = alloc.result
        return alloc.result

    def fragment(self, type_: Attribute, hint: str | None) -> SSAValue:
        """New registers, set to zero before the loop by whoever accumulates in them."""
        op = sched.EmptyOp(type_)
        op.result.name_hint = hint
        self.top.append(op)
        return op.result

    def buffer(self, value: SSAValue) -> SSAValue:
        """The buffer that holds an STensor; sums may be there in a wider type."""
        return self.buffers[value]

    def buffer_as_typed(self, value: SSAValue) -> SSAValue:
        """The buffer that holds an STensor in its own element type, for who takes it as it is.

        A sum in a wider type is first converted; later operators of the graph read what it was
        converted to.
        """
        buffer = self.buffers[value]
        if element_type_of(buffer.type) != element_type_of(value.type):
            converted = self.allocate(value)
            partition = self.partition(converted, [buffer])
            self.here.append(
                sched.MapOp(ScalarFunction("identity"), [buffer], converted, Epilogue(), partition)
            )
        return self.buffers[value]

    def partition(self, destination: SSAValue, sources: Sequence[SSAValue]) -> LinearPartition:
        """Who computes what of an element-wise operator on these tensors or buffers."""
        return choose_partition(
            shape_of(destination.type),
            [partitioned_operand(value) for value in (destination, *sources)],
            self.threads,
        )

    def mma_fragment_type(
        self, op: tb.MatmulOp, part: Sequence[int] | None = None
    ) -> sched.TileType:
        """The accumulator fragment of a matrix product, or of a part with these extents.

        Where warps stand along k, their partial sums side by side.
        """
        layout = self.choices.warp_layouts[op]
        extents = part or shape_of(op.result.type)
        return sched.TileType.of(
            (layout.k, *extents) if layout.k > op.slices else extents,
            sum_type(element_type_of(op.lhs.type)),
            layout.tiled_mma,
        )

    def pieces_of(self, op: tb.MatmulOp) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Where each piece of a product starts, and its extents."""
        *leading, rows, columns = shape_of(op.result.type)
        layout, pieces = self.choices.warp_layouts[op], self.choices.pieces[op]
        atom_m, atom_n, _ = layout.atom.shape_mnk
        height, width = pieces.m * layout.m * atom_m, pieces.n * layout.n * atom_n
        for column in range(0, columns, width):
            for row in range(0, rows, height):
                extents = min(height, rows - row), min(width, columns - column)
                yield (*(0 for _ in leading), row, column), (*leading, *extents)

    def register_accumulator(self, op: Operation, type_: sched.TileType) -> SSAValue:
        """Registers for an operator's sum, zero before the loop, stored to its buffer after it."""
        result = op.results[0]
        total = self.fragment(type_, result.name_hint)
        self.prologue.append(sched.FillOp(total, 0.0))
        if isinstance(op, tb.MatmulOp) and type_.parts > 1:
            parts = self.partial_sums(op)
            self.write_back.append(sched.StoreOp(total, parts, Epilogue()))
            self.write_back.append(self.sum_of_parts(parts, self.allocate(result), Epilogue()))
            return total
        self.write_back.append(sched.StoreOp(total, self.allocate(result), Epilogue()))
        return total

    def partial_sums(self, op: tb.MatmulOp) -> SSAValue:
        """A buffer for the partial sums of warps along k, one behind the other."""
        shape = (self.choices.warp_layouts[op].k, *shape_of(op.result.type))
        layout = LayoutAttr(Layout(shape, row_major_strides(shape)))
        type_ = sched.SharedType.of(shape, sum_type(element_type_of(op.lhs.type)), layout)
        alloc = sched.AllocOp(type_)
        hint = op.result.name_hint
        alloc.result.name_hint = f"{hint}_parts" if hint else None
        self.top.append(alloc)
        return alloc.result

    def sum_of_parts(
        self, parts: SSAValue, destination: SSAValue, epilogue: Epilogue
    ) -> sched.ReduceOp:
        """Adds partial sums through an epilogue into a buffer."""
        shape = shape_of(destination.type)
        strides = strides_of(resolved_layout_of(parts))[1:]
        part = PartitionedOperand(shape, strides, element_bytes_of(parts.type))
        operands = [partitioned_operand(destination), part]
        partition = choose_partition(shape, operands, self.threads)
        return sched.ReduceOp(parts, destination, 0, epilogue, partition=partition)

    def shared_accumulator(self, op: Operation, start: float = 0.0) -> SSAValue:
        """A buffer for an operator's sum, zero (or ``start``) before the loop."""
        type_ = sum_type(element_type_of(op.results[0].type))
        total = self.allocate(op.results[0], element_type=type_)
        self.prologue.append(sched.FillOp(total, start))
        return total

    def running_buffer(self, value: SSAValue, start: float) -> SSAValue:
        """A buffer for a value that each iteration makes of the one before; ``start`` at first."""
        buffer = self.allocate(value)
        self.prologue.append(sched.FillOp(buffer, start))
        return buffer

    def tile(
        self,
        argument: SSAValue,
        copy: TileCopy,
        through: SSAValue | None = None,
        ends: Mapping[int, SSAValue] | None = None,
        windows: Windows | None = None,
    ) -> SSAValue:
        """The view of a device tensor that a copy touches, of named rows or windows perhaps.

        ``ends``: dimensions that end where a length says, and what holds it.
        """
        layout = LayoutAttr(Layout(copy.tile, copy.view_strides()))
        type_ = sched.GlobalType.of(copy.tile, element_type_of(argument.type), layout)
        map_, fordim = copy.slicing.map_, copy.slicing.fordim
        op = sched.LocalTileOp(argument, map_, fordim, type_, through, windows)
        op.end_along(ends or {})
        op.result.name_hint = f"{argument.name_hint}_tile" if argument.name_hint else None
        self.top.append(op)
        return op.result

    def copy_partition(self, copy: TileCopy, other_element_bytes: int) -> LinearPartition:
        """Who moves what of a copy; vectors are at most 16 bytes on either side."""
        vector = copy_vector(copy)
        while vector * max(copy.element_bytes, other_element_bytes) > VECTOR_BYTES:
            vector //= 2
        order = iteration_order(copy.tile, global_innermost(copy))
        return LinearPartition(self.threads, vector, order)
