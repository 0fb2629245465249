"""Which dimensions a threadblock graph has, and how its grid and its for-loop cut them.

Tiles of operands and results are indexed together, as in Einstein's notation: the columns of the
left factor of a product are the rows of the right one.  Dimensions of tiles that are numbered by
one index anywhere are one :class:`Dimension` of the graph.  What each operator does along its
indices it says itself (``HasTileIndices``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import Operation, SSAValue
from xdsl.utils.disjoint_set import IntDisjointSet

from mugraph.dialects import tb
from mugraph.dialects.interfaces import CarriesState, HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.maps import mapped_axes
from mugraph.dialects.tensor_types import op_label, shape_of, value_label


@dataclass
class Dimension:
    """Dimensions of tiles that are cut together."""

    name: str
    """How diagnostics name it."""
    extent: int
    """The elements that all blocks and iterations have together."""
    tile: int
    """The elements of one tile."""
    axes: tuple[int, ...] = ()
    """The grid's axes of extent over 1 that cut it, outermost first."""
    looped: bool = False
    """Whether the for-loop cuts it."""
    fixed: list[str] = field(default_factory=list[str])
    """Why its tiles must stay as they are, in words; none where they need not."""
    summed: list[Operation] = field(default_factory=list[Operation])
    """The operators that sum over it."""
    multiple: int = 1
    """What the extent of a tile must be a multiple of."""
    bound: bool = False
    """Whether an input says how it is cut."""
    whole: list[str] = field(default_factory=list[str])
    """Why all of its tiles must have all of their elements; none where the last may have fewer."""

    def cut(self) -> tuple[int, tuple[int, ...], bool]:
        """How it is cut, to be compared."""
        return self.extent, self.axes, self.looped


def product_index(op: Operation) -> TileIndex | None:
    """The index that a product of two tiles is summed over; ``None`` for other operators."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.AccumulatorOp | tb.ElementwiseOp):
        return None
    if len(op.operands) < 2:
        return None
    for index in op.tile_indices():
        if index.kind is IndexKind.SUMMED and sum(dim is not None for dim in index.operands) > 1:
            return index
    return None


def is_of_product(value: SSAValue) -> bool:
    """Whether a tile is what is computed, element by element, of a product of its extents."""
    op = value.owner
    if not isinstance(op, Operation) or product_index(op) is not None:
        return isinstance(op, Operation)
    extents = shape_of(value.type)
    return any(is_of_product(each) for each in op.operands if shape_of(each.type) == extents)


@dataclass
class TileSpace:
    """The dimensions of a graph, and those of each of its tiles.

    It is of the graph as it was when it was made.
    """

    graph: CustomizedOp
    dimensions: list[Dimension] = field(default_factory=list[Dimension])
    numbers: dict[SSAValue, tuple[int | None, ...]] = field(
        default_factory=dict[SSAValue, tuple[int | None, ...]]
    )
    """For each tile the number of each dimension; ``None`` where its tensor has one element."""
    fixed_axes: dict[int, str] = field(default_factory=dict[int, str])
    """Axes of the grid whose extents must stay as they are, and why."""
    models: dict[frozenset[int], object] = field(default_factory=dict[frozenset[int], object])
    """What an estimate has found of it, by the dimensions that the loop goes along."""

    def of(self, value: SSAValue) -> tuple[Dimension | None, ...]:
        """The dimensions of a tile."""
        return tuple(
            None if number is None else self.dimensions[number] for number in self.numbers[value]
        )

    @cached_property
    def products(self) -> list[Operation]:
        """The operators that sum products of two tiles."""
        return [op for op in self.graph.body.block.ops if product_index(op) is not None]

    @cached_property
    def sums(self) -> list[tuple[int | None, ...]]:
        """The dimensions of each accumulator's result."""
        ops = self.graph.body.block.ops
        return [self.numbers[op.result] for op in ops if isinstance(op, tb.AccumulatorOp)]

    def outputs(self) -> list[tb.OutputOp]:
        """The operators that store results, in order."""
        return [op for op in self.graph.body.block.ops if isinstance(op, tb.OutputOp)]


class _Builder:
    """Joins dimensions while it walks over a graph."""

    def __init__(self, graph: CustomizedOp) -> None:
        self.graph = graph
        self.found: list[Dimension] = []
        self.joined = IntDisjointSet(size=0)
        self.numbers: dict[SSAValue, tuple[int | None, ...]] = {}

    def new(self, dimension: Dimension) -> int:
        self.found.append(dimension)
        return self.joined.add()

    def join(self, numbers: Iterable[int]) -> int:
        """One dimension of several, the first of them with what is known of the others."""
        first, *others = dict.fromkeys(self.joined[number] for number in numbers)
        one = self.found[first]
        for other in others:
            two = self.found[other]
            self.joined.union_left(first, other)
            if two.bound and one.bound and one.cut() != two.cut():
                one.fixed.append(f"{two.name} goes with it and is cut in another way")
            if two.bound and not one.bound:
                one.name, one.bound = two.name, True
                one.extent, one.axes, one.looped = two.extent, two.axes, two.looped
            one.fixed += two.fixed
            one.summed += two.summed
            one.whole += two.whole
            one.multiple = math.lcm(one.multiple, two.multiple)
        return first

    def input(self, op: tb.InputOp) -> None:
        """A dimension of its own for each of the tensor's that has more than one element."""
        grid = self.graph.grid_dim
        numbers: list[int | None] = []
        for dim, extent in enumerate(op.tensor_shape):
            axes = tuple(mapped_axes(op.map_, grid, dim))
            looped = op.loop_dim == dim
            if extent == 1 and not axes and not (looped and self.graph.forloop_range > 1):
                numbers.append(None)
                continue
            name = f"dimension {dim} of {value_label(op.dtensor)}"
            tile = shape_of(op.result.type)[dim]
            fixed: list[str] = []
            if op.through is not None and dim < len(op.numbers_shape):
                name = f"dimension {dim} of {value_label(op.through)}"
                fixed.append(f"{op_label(op)} reads rows through it")
            found = Dimension(name, extent, tile, axes, looped, fixed, bound=True)
            numbers.append(self.new(found))
        self.numbers[op.result] = tuple(numbers)

    def carried(self, op: tb.CarriedOp) -> None:
        """Dimensions that are cut as those of what updates the state, if an input says how."""
        numbers: list[int | None] = []
        for dim, extent in enumerate(shape_of(op.result.type)):
            name = f"dimension {dim} of {value_label(op.result)}"
            dimension = Dimension(name, extent, extent, whole=[f"{op_label(op)} is a state"])
            numbers.append(None if extent == 1 else self.new(dimension))
        self.numbers[op.result] = tuple(numbers)

    def operator(self, op: Operation) -> None:
        """Joins the dimensions that an operator numbers together."""
        tiles = [value for value in op.operands if value in self.numbers]
        if not isinstance(op, HasTileIndices):
            for value in tiles:
                for number in self.numbers[value]:
                    if number is not None:
                        dimension = self.found[self.joined[number]]
                        dimension.fixed.append(f"{op_label(op)} needs it whole")
            for result in op.results:
                self.result(op, result, {})
            return
        of_results: dict[int, int | None] = {}
        for index in op.tile_indices():
            joined = self.index(op, index)
            if index.result is not None:
                of_results[index.result] = joined
        for result in op.results:
            self.result(op, result, of_results)

    def index(self, op: Operation, index: TileIndex) -> int | None:
        """The dimension that an index runs through, ``None`` for a single element."""
        numbered = [
            self.numbers[value][dim]
            for value, dim in zip(op.operands, index.operands, strict=True)
            if dim is not None
        ]
        several = [number for number in numbered if number is not None]
        if not several:
            return None
        joined = self.join(several)
        dimension = self.found[joined]
        if len(several) < len(numbered) and not index.broadcasts:
            dimension.fixed.append(f"other operands of {op_label(op)} have one element there")
        if index.kind is IndexKind.WHOLE:
            dimension.fixed.append(f"{op_label(op)} needs it whole")
        if index.kind is IndexKind.SUMMED:
            dimension.summed.append(op)
            dimension.multiple = math.lcm(dimension.multiple, index.period)
        return joined

    def result(self, op: Operation, result: SSAValue, known: dict[int, int | None]) -> None:
        numbers: list[int | None] = []
        for dim, extent in enumerate(shape_of(result.type)):
            if dim in known:
                numbers.append(known[dim])
            elif extent == 1:
                numbers.append(None)
            else:
                name = f"dimension {dim} of {value_label(result)}"
                reason = f"{op_label(op)} has results of that extent"
                numbers.append(self.new(Dimension(name, extent, extent, fixed=[reason])))
        self.numbers[result] = tuple(numbers)

    def build(self) -> TileSpace:
        for op in self.graph.body.block.ops:
            if isinstance(op, tb.InputOp):
                self.input(op)
            elif isinstance(op, tb.CarriedOp):
                self.carried(op)
            elif not isinstance(op, tb.OutputOp):
                self.operator(op)
        for dimension in self.found:
            if not (dimension.bound or dimension.fixed):
                dimension.fixed.append("no input says how it is cut")
        roots = list(self.joined.roots())
        place = {root: position for position, root in enumerate(roots)}
        numbers = {
            value: tuple(
                None if number is None else place[self.joined[number]] for number in of_value
            )
            for value, of_value in self.numbers.items()
        }
        return TileSpace(self.graph, [self.found[root] for root in roots], numbers)


def _fix_repeated(space: TileSpace) -> None:
    """A tile that one index numbers twice, as of a matrix times itself, stays as it is."""
    for value, numbers in space.numbers.items():
        for number in {n for n in numbers if n is not None and numbers.count(n) > 1}:
            space.dimensions[number].fixed.append(f"{value_label(value)} has it twice")


def _fix_stored(space: TileSpace) -> None:
    """Results must be cut as the tiles that make them are, or they depend on the partition."""
    grid = space.graph.grid_dim
    for number, output in enumerate(space.outputs()):
        shape = output.tensor_shape
        for dim, dimension in enumerate(space.of(output.stensor)):
            axes = tuple(mapped_axes(output.map_, grid, dim))
            looped = output.loop_dim == dim
            if dimension is None:
                expected: tuple[int, tuple[int, ...]] = (1, ())
            else:
                expected = (dimension.extent, dimension.axes)
            if (shape[dim], axes) == expected and (
                not looped or (dimension is not None and dimension.looped)
            ):
                continue
            reason = (
                f"tiles that belong together are stored side by side along dimension {dim} of "
                f"result {number}"
            )
            for axis in {*axes, *expected[1]}:
                space.fixed_axes.setdefault(axis, reason)
            if dimension is not None:
                dimension.fixed.append(reason)


def _fix_axes_of_lengths(space: TileSpace) -> None:
    """Axes for each of whose blocks there is a length stay as they are."""
    for held in space.graph.held_lengths:
        if held.axis >= 0:
            space.fixed_axes.setdefault(held.axis, "a length is held for each of its blocks")
            for dimension in space.dimensions:
                if held.axis in dimension.axes:
                    dimension.fixed.append("a length is held for each block along it")


def _fix_shared_axes(space: TileSpace) -> None:
    """An axis that cuts unrelated dimensions pairs their tiles, and stays as it is.

    But where no operator combines elements along them each result depends on one of them only, and
    they may be cut together.
    """
    for axis, extent in enumerate(space.graph.grid_dim):
        cut = [dimension for dimension in space.dimensions if axis in dimension.axes]
        if extent == 1 or len(cut) < 2:
            continue
        if any(d.summed or d.fixed or d.looped or d.axes != (axis,) for d in cut):
            names = " and ".join(dimension.name for dimension in cut)
            space.fixed_axes.setdefault(axis, f"it cuts {names}, which are not the same")


def _fix_carried(space: TileSpace) -> None:
    """A loop that carries a state goes through the tiles that it has, each in one iteration."""
    for op in space.graph.body.block.ops:
        if isinstance(op, CarriesState):
            for dimension in space.dimensions:
                if dimension.looped:
                    dimension.fixed.append(
                        f"{op_label(op)} carries a state from each iteration to the next"
                    )
            return


def find_dimensions(graph: CustomizedOp) -> TileSpace:
    """The dimensions of a verified threadblock graph."""
    space = _Builder(graph).build()
    _fix_repeated(space)
    _fix_stored(space)
    _fix_axes_of_lengths(space)
    _fix_shared_axes(space)
    _fix_carried(space)
    return space


def fixed_reasons(reasons: Sequence[str]) -> str:
    """Why a dimension stays as it is, for a diagnostic."""
    return " and ".join(dict.fromkeys(reasons))
