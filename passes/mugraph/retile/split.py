"""Divides the for-loop of a kernel over blocks: partial sums, and a kernel that combines them.

The first kernel has one more axis of the grid, along which blocks have some of the iterations
each.  What they accumulate is stored, the parts of one sum one after the other along a dimension
that has whole tiles only (:func:`parts_dim`).  The second kernel loads them, one an iteration,
accumulates them, and does what the kernel did after its loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.kn import CustomizedOp, Phase, accumulates, phases_of
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.maps import AXES
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label
from mugraph.passes.mugraph.retile.accumulators import divide
from mugraph.passes.mugraph.retile.dimensions import TileSpace, find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.loops import LoopAnalysis
from mugraph.passes.mugraph.retile.partition import Partition
from mugraph.passes.mugraph.retile.writer import KernelWriter, replace_kernel


class SplitPlan(NamedTuple):
    """How the loop of a graph is divided over blocks."""

    splits: int
    """Over how many."""
    used: tuple[int, ...]
    """The axes of extent over 1 of the graph; they become the first axes, in this order."""

    @property
    def axis(self) -> int:
        """The new axis."""
        return len(self.used)

    def extents(self, grid: Sequence[int], last: int) -> tuple[int, ...]:
        """A grid with ``last`` blocks along the new axis."""
        extents = [grid[axis] for axis in self.used] + [last]
        return tuple(extents + [1] * (len(AXES) - len(extents)))

    def map_(self, old: Sequence[int], last: int) -> tuple[int, ...]:
        """A map with ``last`` as the dimension that the new axis cuts."""
        entries = [old[axis] for axis in self.used] + [last]
        return tuple(entries + [-1] * (len(AXES) - len(entries)))


def plan_split(space: TileSpace, splits: int) -> SplitPlan:
    """How to divide the loop; raises :class:`RetileError` where it cannot be divided so."""
    graph = space.graph
    label = op_label(graph)
    if graph.forloop_range % splits or splits < 2:
        raise RetileError(
            f"{label}: a for-loop of {graph.forloop_range} iterations cannot be divided over "
            f"{splits} blocks; choose a number of at least 2 that divides it, or another 'forloop'"
        )
    used = tuple(axis for axis, extent in enumerate(graph.grid_dim) if extent > 1)
    if len(used) == len(AXES):
        raise RetileError(
            f"{label}: the grid has no axis left to divide the for-loop over; all three of "
            f"{list(graph.grid_dim)} cut something"
        )
    looped = frozenset(n for n, dimension in enumerate(space.dimensions) if dimension.looped)
    LoopAnalysis(space, looped)
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp) and op.loop_dim >= 0:
            split = op.slicing().split(op.loop_dim)
            if split.bound() is not None and not split.ends_with_tensor:
                raise RetileError(
                    f"{label}: the for-loop cuts dimension {op.loop_dim} of "
                    f"{value_label(op.dtensor)}, which blocks divide, into tiles that are not all "
                    "whole; choose a 'forloop' that divides it first"
                )
        if accumulates(op) and not isinstance(op, tb.AccumulatorOp):
            raise RetileError(
                f"{op_label(op)} has an epilogue that accumulates; run --retile before "
                "--fuse-threadblock"
            )
    return SplitPlan(splits, used)


def has_whole_parts(space: TileSpace, partition: Partition) -> bool:
    """Whether each sum has a dimension of which all blocks have as many elements."""

    def is_whole(number: int | None) -> bool:
        if number is None:
            return True
        extent = space.dimensions[number].extent
        return extent % partition.tile(number, extent) == 0

    return all(any(map(is_whole, numbers)) for numbers in space.sums)


def parts_dim(space: TileSpace, tile: SSAValue, wanted: int | None = None) -> int:
    """The dimension along which the parts of a sum are stored: the first one with whole tiles only.

    One that blocks divide into tiles of several elements comes behind others: the kernel that
    combines the parts can then be cut finely along it, also where it needs whole rows, as for a
    norm.  It is the ``wanted`` one where that has whole tiles only.  Raises :class:`RetileError`
    where the last blocks have fewer elements along all of them.
    """
    whole = [
        (dimension is not None and dimension.tile > 1 and bool(dimension.axes), dim)
        for dim, dimension in enumerate(space.of(tile))
        if dimension is None or dimension.extent % dimension.tile == 0
    ]
    if whole:
        return wanted if wanted in {dim for _, dim in whole} else min(whole)[1]
    raise RetileError(
        f"{op_label(space.graph)}: its last blocks have fewer elements than the others along each "
        f"dimension of {value_label(tile)}, and parts of sums are stored side by side along one; "
        "choose tiles that divide it"
    )


def common_parts_dim(space: TileSpace) -> int:
    """The dimension along which the parts of the largest sum of a kernel are stored."""
    sums = [op.result for op in space.graph.body.block.ops if isinstance(op, tb.AccumulatorOp)]
    return parts_dim(space, max(sums, key=lambda tile: math.prod(shape_of(tile.type))))


def stored_map(
    space: TileSpace, tile: SSAValue, plan: SplitPlan, wanted: int | None = None
) -> tuple[int, ...]:
    """How blocks store their parts: the new axis along :func:`parts_dim`, others along theirs.

    Blocks that have the same part store it side by side, along a dimension of one element if there
    is one.
    """
    numbers = space.numbers[tile]
    single = [dim for dim, number in enumerate(numbers) if number is None]
    entries: list[int] = []
    for axis in plan.used:
        cut = [
            dim
            for dim, number in enumerate(numbers)
            if number is not None and axis in space.dimensions[number].axes
        ]
        entries.append([*cut, *reversed(single), len(numbers) - 1][0])
    dim = parts_dim(space, tile, wanted)
    return (*entries, dim, *(-1,) * (len(AXES) - len(entries) - 1))


@dataclass
class _Split:
    """The two kernels, while they are written."""

    space: TileSpace
    plan: SplitPlan
    part_type: Attribute
    parts_dim: int | None = None
    """Along which dimension parts are stored, where a sum has whole tiles along it."""
    first: KernelWriter = field(default_factory=KernelWriter)
    second: KernelWriter = field(default_factory=KernelWriter)
    parts: list[tuple[tb.AccumulatorOp, SSAValue, tb.OutputOp]] = field(
        default_factory=list[tuple[tb.AccumulatorOp, SSAValue, tb.OutputOp]]
    )
    """Each accumulator with its part in the first kernel and what stores that."""
    results: dict[tb.OutputOp, tuple[int, int]] = field(
        default_factory=dict[tb.OutputOp, tuple[int, int]]
    )
    """Which result of which kernel each old output has become."""

    def __post_init__(self) -> None:
        for kernel in (self.first, self.second):
            kernel.axes = {old: new for new, old in enumerate(self.plan.used)}

    def add_input(self, kernel: KernelWriter, op: tb.InputOp, last: int) -> None:
        """Loads a tile of the old graph in one of the new ones."""
        kernel.load(self.space.graph, op, self.plan.map_(op.map_, last), op.loop_dim)

    def add_output(self, kernel: KernelWriter, op: tb.OutputOp, last: int) -> None:
        """Stores a result of the old graph in one of the new ones."""
        new = kernel.copy(op)
        map_ = self.plan.map_(op.map_, last)
        new.properties["omap"] = integer_array(map_)
        number = 0 if kernel is self.first else 1
        self.results[op] = (number, len(kernel.stored) - 1)

    def whole_extents(self, op: tb.AccumulatorOp, map_: Sequence[int]) -> list[int]:
        """The extents of all parts of an accumulator, stored as a map says."""
        graph, shape = self.space.graph, list(shape_of(op.result.type))
        parts = map_[self.plan.axis]
        for dim, dimension in enumerate(self.space.of(op.result)):
            if dimension is not None and dim != parts and not dimension.axes:
                shape[dim] = dimension.extent  # a tile may be longer
        grid = self.plan.extents(graph.grid_dim, self.plan.splits)
        for axis, dim in enumerate(map_):
            if dim < 0:
                continue
            dimension = self.space.of(op.result)[dim]
            axes = () if dimension is None else dimension.axes
            if dimension is None or axis == self.plan.axis or self.plan.used[axis] not in axes:
                shape[dim] *= grid[axis]  # blocks store theirs side by side
            elif dim != parts:
                shape[dim] = dimension.extent
            else:
                shape[dim] *= grid[axis]
        return shape

    def add_accumulator(self, op: tb.AccumulatorOp) -> None:
        """Accumulates in each block, and stores what it has accumulated."""
        count = self.space.graph.forloop_range
        divided = divide(op, self.first.values[op.operands[0]], count)
        for part in divided.accumulate:
            self.first.add(part)
        value = divided.accumulate[-1].results[0]
        value.name_hint = op.result.name_hint
        map_ = stored_map(self.space, op.result, self.plan, self.parts_dim)
        shape = self.whole_extents(op, map_)
        exact = is_integer(element_type_of(value.type))
        type_ = TensorType(element_type_of(value.type) if exact else self.part_type, shape)
        self.parts.append((op, value, tb.OutputOp(value, map_, type_)))

    def write_first(self) -> CustomizedOp:
        """The kernel of the loop."""
        graph = self.space.graph
        needed = _needed_in_loop(graph)
        for op, phase in phases_of(graph.body.block, graph.forloop_range).items():
            if isinstance(op, tb.InputOp):
                if op in needed:
                    self.add_input(self.first, op, op.loop_dim)
            elif phase is Phase.AFTER:
                continue
            elif isinstance(op, tb.AccumulatorOp):
                self.add_accumulator(op)
            elif isinstance(op, tb.OutputOp):
                self.add_output(self.first, op, op.loop_dim)
            elif isinstance(op, tb.MaskOp) and op.condition is not None:
                self.first.copy_mask(op, self.plan.map_(op.map_, op.loop_dim), op.loop_dim)
            else:
                self.first.copy(op)
        for _, _, store in self.parts:
            self.first.add(store)
        grid = self.plan.extents(graph.grid_dim, self.plan.splits)
        iterations = graph.forloop_range // self.plan.splits
        first = self.first.finished(grid, graph.block_dim, iterations)
        if graph.held_lengths and not any(op.loop_dim >= 0 for op in self.results):
            first.interleaved = UnitAttr()
        return first

    def add_sum_of_parts(self, load: tb.InputOp, dim: int) -> SSAValue:
        """The sum of the parts that an iteration loads, where they are single along a dimension.

        Tiles of the second kernel can then be made to hold several parts.
        """
        shape = shape_of(load.result.type)
        if shape[dim] > 1 or len(shape) == 1:
            return load.result
        summed = tb.ReductionOp(load.result, dim, load.result.type)
        summed.result.name_hint = load.result.name_hint
        return self.second.add(summed).results[0]

    def write_second(self, parts: Sequence[SSAValue]) -> CustomizedOp | None:
        """The kernel of what comes after the loop; ``None`` where nothing does."""
        graph = self.space.graph
        after = [
            op
            for op, phase in phases_of(graph.body.block, graph.forloop_range).items()
            if phase is Phase.AFTER
        ]
        wanted = {value for op in after for value in op.operands}
        for op in graph.body.block.ops:
            if isinstance(op, tb.InputOp) and op.result in wanted:
                self.add_input(self.second, op, -1)
        for (op, value, store), part in zip(self.parts, parts, strict=True):
            argument = self.second.argument(part, f"{op.result.name_hint or 'part'}_parts")
            map_ = (*store.map_[: self.plan.axis], *(-1,) * (len(AXES) - self.plan.axis))
            type_ = tb.STensorType(shape_of(value.type), element_type_of(part.type))
            dim = store.map_[self.plan.axis]
            load = tb.InputOp(argument, map_, dim, type_)
            load.result.name_hint = f"{op.result.name_hint or 'part'}_part"
            self.second.add(load)
            divided = divide(op, op.operands[0], graph.forloop_range)
            combined = divided.combine(
                self.add_sum_of_parts(load, dim) if divided.adds else load.result, op.result.type
            )
            for step in combined:
                self.second.add(step)
            combined[-1].results[0].name_hint = op.result.name_hint
            self.second.values[op.result] = combined[-1].results[0]
        for op in after:
            if isinstance(op, tb.OutputOp):
                self.add_output(self.second, op, -1)
            else:
                self.second.copy(op)
        if not self.second.stored:
            return None
        grid = self.plan.extents(graph.grid_dim, 1)
        return self.second.finished(grid, graph.block_dim, self.plan.splits)


def _needed_in_loop(graph: CustomizedOp) -> set[Operation]:
    """The inputs that operators of the loop use."""
    phases = phases_of(graph.body.block, graph.forloop_range)
    users = [op for op, phase in phases.items() if phase is Phase.LOOP]
    return {
        value.owner for op in users for value in op.operands if isinstance(value.owner, Operation)
    }


def split_loop(
    graph: CustomizedOp, splits: int, part_type: Attribute, *, alike: bool = False
) -> tuple[CustomizedOp, CustomizedOp | None]:
    """Replaces a graph by the kernel of its loop and the one that combines, if there is one.

    The loop is divided over ``splits`` blocks, which store their sums in ``part_type``.  ``alike``:
    parts of all sums are stored along one dimension if they can be, so that a running maximum of
    their rows can be stored beside them.  Raises :class:`RetileError` where the results would be
    others.
    """
    space = find_dimensions(graph)
    dim = common_parts_dim(space) if alike else None
    split = _Split(space, plan_split(space, splits), part_type, dim)
    first = split.write_first()
    stored = len(first.results) - len(split.parts)
    for (op, _, _), result in zip(split.parts, first.results[stored:], strict=True):
        result.name_hint = f"{op.result.name_hint or 'part'}_parts"
    try:
        second = split.write_second(first.results[stored:])
    except RetileError:
        first.erase()
        raise
    kernels = [first] if second is None else [first, second]
    places = [split.results[output] for output in space.outputs()]
    results = [kernels[kernel].results[place] for kernel, place in places]
    replace_kernel(graph, kernels, results, "the divided loop does not go together")
    return first, second
