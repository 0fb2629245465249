"""Which partition of a threadblock graph a plan means, and whether it is allowed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.cute.atoms import warpgroup_family
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.launch_extents import MAX_THREADS
from mugraph.dialects.maps import AXES, PartitionError, Split
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.mugraph.retile.dimensions import (
    Dimension,
    TileSpace,
    fixed_reasons,
    is_of_product,
)
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.loops import LoopAnalysis


class Cut(NamedTuple):
    """How one dimension is cut: by which axes of the grid, outermost first, and by the loop.

    ``tile`` are the elements of a tile where they are more than what divides it evenly.
    """

    axes: tuple[int, ...] = ()
    looped: bool = False
    tile: int | None = None


class Partition(NamedTuple):
    """A grid, a block, a for-loop, and how each dimension of a graph is cut by them."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    forloop: int
    cuts: tuple[Cut, ...]

    def split(self, number: int, extent: int) -> Split:
        """How a dimension of that number and extent is split."""
        cut = self.cuts[number]
        blocks = tuple(extent if axis in cut.axes else 1 for axis, extent in enumerate(self.grid))
        split = Split(extent, blocks, self.forloop if cut.looped else 1)
        return split if cut.tile is None else split.in_tiles_of(cut.tile)

    def tile(self, number: int, extent: int) -> int:
        """The elements of a tile along a dimension: those of its :meth:`split`."""
        cut = self.cuts[number]
        if cut.tile is not None:
            return cut.tile
        for axis in cut.axes:
            extent = -(-extent // self.grid[axis])
        return -(-extent // self.forloop) if cut.looped else extent

    def with_loop(self, forloop: int, tile: int | None = None) -> Partition:
        """The same with so many iterations, in tiles of ``tile`` elements or as even as can be."""
        cuts = tuple(
            Cut(cut.axes, True, tile) if cut.looped and cut.tile != tile else cut
            for cut in self.cuts
        )
        return self._replace(forloop=forloop, cuts=cuts)

    def cut_by(self, axis: int) -> frozenset[int]:
        """The dimensions that an axis of the grid cuts."""
        return frozenset(number for number, cut in enumerate(self.cuts) if axis in cut.axes)

    def cut_together(self, number: int) -> frozenset[int]:
        """The dimension and all others that an axis cuts which cuts it."""
        return frozenset({number}).union(*(self.cut_by(axis) for axis in self.cuts[number].axes))

    def looped(self) -> frozenset[int]:
        """The dimensions that the loop cuts."""
        if self.forloop == 1:
            return frozenset()
        return frozenset(number for number, cut in enumerate(self.cuts) if cut.looped)


def partition_of(space: TileSpace) -> Partition:
    """The partition that a graph has."""
    graph = space.graph
    evenly = tuple(Cut(dimension.axes, dimension.looped) for dimension in space.dimensions)
    partition = Partition(graph.grid_dim, graph.block_dim, graph.forloop_range, evenly)
    cuts = tuple(
        cut
        if dimension.fixed or partition.split(number, dimension.extent).tile == dimension.tile
        else cut._replace(tile=dimension.tile)
        for number, (cut, dimension) in enumerate(zip(evenly, space.dimensions, strict=True))
    )
    return partition._replace(cuts=cuts)


def tile_shape_of(space: TileSpace, partition: Partition, value: SSAValue) -> tuple[int, ...]:
    """A tile's extents under a partition."""
    shape = list(shape_of(value.type))
    for dim, number in enumerate(space.numbers[value]):
        if number is not None and not space.dimensions[number].fixed:
            shape[dim] = partition.split(number, space.dimensions[number].extent).tile
    return tuple(shape)


def padded(extents: Sequence[int]) -> tuple[int, ...]:
    """Three extents, of which the last ones may be left out."""
    return (*extents, *(1,) * (len(AXES) - len(extents)))


def divisors(number: int) -> list[int]:
    """All of them, from 1 on."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


def choose_partition(space: TileSpace, plan: Plan) -> Partition:
    """The partition that a plan says; what it leaves free stays.

    Raises :class:`RetileError` where the plan does not say what an axis or the loop shall cut.
    """
    old = partition_of(space)
    block = old.block if plan.block is None else padded(plan.block)
    threads = math.prod(block)
    if block != old.block and (threads % WARP or threads > MAX_THREADS):
        raise RetileError(
            f"{op_label(space.graph)} cannot have {plan.text_of('block')}: a block has whole warps "
            f"of {WARP} threads, and at most {MAX_THREADS} threads; write a multiple of {WARP}"
        )
    along = [-1] * len(AXES) if plan.along is None else list(plan.along)
    along += [-1] * (len(AXES) - len(along))
    new = old._replace(
        grid=_grid_of_tiles(space, plan, along) if plan.grid is None else padded(plan.grid),
        block=block,
    )
    # What an axis of one block would cut is said by the map that stores the first result.
    for axis, dim in enumerate(space.outputs()[0].map_):
        if along[axis] < 0 and old.grid[axis] == 1 and new.grid[axis] > 1:
            along[axis] = dim
    new = _with_axes(space, new, along)
    cuts = [
        cut._replace(axes=tuple(axis for axis in cut.axes if new.grid[axis] > 1))
        for cut in new.cuts
    ]
    new = new._replace(cuts=tuple(cuts))
    for axis, extent in enumerate(new.grid):
        if extent > 1 and not any(axis in cut.axes for cut in new.cuts) and old.grid[axis] == 1:
            raise RetileError(
                f"{op_label(space.graph)}: grid axis {AXES[axis]} shall have {extent} blocks, but "
                "cuts nothing so far; say with 'along' which dimension of the result it cuts"
            )
    if plan.forloop is not None:
        new = _with_forloop(space, new, plan.forloop)
    elif plan.loop_tile is not None:
        new = _with_forloop(space, new, 2)
        whole = new.with_loop(1)
        longest = max(whole.split(n, space.dimensions[n].extent).tile for n in new.looped())
        new = new.with_loop(-(-longest // plan.loop_tile))
    new = _with_tiles(space, new, plan)
    return with_whole_steps(new, whole_depths(space)) if plan.cuts() else new


def whole_depths(space: TileSpace) -> dict[int, int]:
    """By the number of a dimension, depths of products in whole steps of instructions.

    Tiles are longer than the depth then, such as 80 for 72, and zeros stand behind it, so that warp
    groups can multiply.  So are the keys of attention that a loop brings in one iteration: 800 x
    100 tokens of depth 64 took 32.2 us on an H200 in tiles of 100 keys, and 21.6 in tiles of 112.
    """
    depths: dict[int, int] = {}
    for op in space.graph.body.block.ops:
        family = warpgroup_family(*operand_names(*op.operands)) if _is_product(op) else None
        number = space.numbers[op.operands[0]][-1] if family is not None else None
        if family is None or number is None:
            continue
        dimension, step = space.dimensions[number], family.depth
        if not (isinstance(op.operands[0].owner, tb.InputOp) or dimension.looped):
            continue
        if not dimension.fixed and dimension.extent > step and dimension.extent % step:
            depths[number] = -(-dimension.extent // step) * step
    return depths


def with_whole_steps(partition: Partition, depths: Mapping[int, int]) -> Partition:
    """The partition with depths of products that nothing cuts as :func:`whole_depths` says."""
    cuts = list(partition.cuts)
    for number, depth in depths.items():
        cut = partition.cuts[number]
        if cut._replace(looped=cut.looped and partition.forloop > 1) == Cut():
            cuts[number] = cut._replace(tile=depth)
    return partition._replace(cuts=tuple(cuts))


def _is_product(op: Operation) -> bool:
    """Whether an operator multiplies a matrix as it is loaded, by another or by a product."""
    if not isinstance(op, tb.MatmulOp) or op.is_ieee:
        return False
    of_left = isinstance(op.lhs.owner, tb.InputOp) or is_of_product(op.lhs)
    return of_left and isinstance(op.rhs.owner, tb.InputOp)


def _grid_of_tiles(space: TileSpace, plan: Plan, along: Sequence[int]) -> tuple[int, ...]:
    """The grid, with as many blocks along an axis as there are tiles of the extents of a plan."""
    grid, output = list(space.graph.grid_dim), space.outputs()[0]
    shape = output.tensor_shape
    cut = [old if new < 0 else new for old, new in zip(output.map_, along, strict=True)]
    for dim, tile in enumerate((plan.tile or ())[: len(shape)]):
        axes = [axis for axis, its_dim in enumerate(cut) if its_dim == dim]
        if tile and axes:
            for axis in axes[1:]:
                grid[axis] = 1
            grid[axes[0]] = -(-shape[dim] // tile)
    return tuple(grid)


def _with_tiles(space: TileSpace, partition: Partition, plan: Plan) -> Partition:
    """The partition in tiles of the extents that a plan says; others stay, or divide evenly."""
    old, label = partition_of(space), op_label(space.graph)
    wanted: dict[int, int] = {}
    numbers = space.numbers[space.outputs()[0].stensor]
    if plan.tile is not None and len(plan.tile) != len(numbers):
        raise RetileError(
            f"{label}: {plan.text_of('tile')} has {len(plan.tile)} extents, and its first result "
            f"{len(numbers)} dimensions; write one for each, or 0"
        )
    for dim, (number, tile) in enumerate(zip(numbers, plan.tile or (), strict=False)):
        if number is None or not tile:
            continue
        cut = partition.cuts[number]
        is_whole = not (cut.axes or cut.looped)
        if plan.grid is None and is_whole and tile < space.dimensions[number].extent:
            raise RetileError(
                f"{label}: {plan.text_of('tile')} cuts dimension {dim} of the first result, but no "
                "axis of the grid does; say with 'along' which one shall, or write 0 for it"
            )
        wanted[number] = tile
    if plan.loop_tile is not None:
        wanted.update(dict.fromkeys(partition.looped(), plan.loop_tile))
    cuts: list[Cut] = []
    for number, (cut, before) in enumerate(zip(partition.cuts, old.cuts, strict=True)):
        extent = space.dimensions[number].extent
        evenly = partition._replace(cuts=_replaced(partition.cuts, number, cut._replace(tile=None)))
        is_same = evenly.split(number, extent) == old.split(number, extent)._replace(chosen=None)
        tile = wanted.get(number, before.tile if is_same else None)
        try:
            if tile is not None and evenly.split(number, extent).in_tiles_of(tile).chosen is None:
                tile = None
        except PartitionError as error:
            name = space.dimensions[number].name
            raise RetileError(f"{label}: {name} cannot be cut so: {error}") from error
        cuts.append(cut._replace(tile=tile))
    return partition._replace(cuts=tuple(cuts))


def _replaced(cuts: Sequence[Cut], number: int, cut: Cut) -> tuple[Cut, ...]:
    return (*cuts[:number], cut, *cuts[number + 1 :])


def _with_axes(space: TileSpace, partition: Partition, along: Sequence[int]) -> Partition:
    """The partition with axes moved to dimensions of the first result."""
    output = space.outputs()[0]
    numbers = space.numbers[output.stensor]
    cuts = list(partition.cuts)
    for axis, dim in enumerate(along):
        if dim < 0:
            continue
        number = numbers[dim] if dim < len(numbers) else None
        if number is None:
            raise RetileError(
                f"{op_label(space.graph)}: grid axis {AXES[axis]} shall cut dimension {dim} of the "
                "first result, which has no such dimension of more than one element"
            )
        for at, cut in enumerate(cuts):
            axes = {*cut.axes} - {axis} | ({axis} if at == number else set[int]())
            cuts[at] = cut._replace(axes=tuple(sorted(axes)))
    return partition._replace(cuts=tuple(cuts))


def _with_forloop(space: TileSpace, partition: Partition, forloop: int) -> Partition:
    """The partition with another number of iterations, over what the loop may cut.

    Along the longest sum, but first along one over the results of several products, as of groups of
    k: that leaves each product whole.
    """
    new = partition.with_loop(forloop)
    if forloop == 1 or any(cut.looped for cut in partition.cuts):
        return new
    failures: list[RetileError] = []
    of_products = {number for op in space.products for number in space.numbers[op.operands[0]][:-2]}
    by_extent = sorted(
        enumerate(space.dimensions), key=lambda item: (item[0] not in of_products, -item[1].extent)
    )
    for number, dimension in by_extent:
        if not dimension.summed or dimension.fixed:
            continue
        cuts = list(new.cuts)
        cuts[number] = cuts[number]._replace(looped=True)
        candidate = new._replace(cuts=tuple(cuts))
        try:
            LoopAnalysis(space, candidate.looped())
        except RetileError as error:
            failures.append(error)
        else:
            return candidate
    if failures:
        raise failures[0]
    raise RetileError(
        f"{op_label(space.graph)}: a for-loop of {forloop} iterations has nothing to cut, for the "
        "operators sum over no dimension that may be cut"
    )


def has_one_of(space: TileSpace, output: tb.OutputOp, numbers: Set[int]) -> bool:
    """Whether a result has exactly one of some dimensions, once."""
    return sum(number in numbers for number in space.numbers[output.stensor]) == 1


LoopCheck = Callable[[frozenset[int]], object]
"""Raises :class:`RetileError` where the loop may not cut these dimensions."""


def require_same_function(space: TileSpace, new: Partition, check: LoopCheck | None = None) -> None:
    """Raises :class:`RetileError` where a partition would change what the graph computes.

    ``check`` stands for the analysis of the loop, for who asks of many partitions.
    """
    check = check or partial(LoopAnalysis, space)
    old = partition_of(space)
    label = op_label(space.graph)
    for axis, (before, after) in enumerate(zip(old.grid, new.grid, strict=True)):
        if axis not in space.fixed_axes:
            continue
        if before != after or old.cut_by(axis) != new.cut_by(axis):
            raise RetileError(
                f"{label}: grid axis {AXES[axis]} must keep its {before} blocks as they are, "
                f"because {space.fixed_axes[axis]}"
            )
    for number, dimension in enumerate(space.dimensions):
        _require_cut_allowed(space, number, dimension, old, new)
    if (old.forloop, old.looped()) != (new.forloop, new.looped()):
        for partition in (old, new):
            if partition.forloop > 1:
                check(partition.looped())


def _require_cut_allowed(
    space: TileSpace, number: int, dimension: Dimension, old: Partition, new: Partition
) -> None:
    extent = dimension.extent
    before, after = old.split(number, extent), new.split(number, extent)
    if before == after and old.cuts[number] == new.cuts[number]:
        return
    label = op_label(space.graph)
    if dimension.fixed:
        raise RetileError(
            f"{label}: {dimension.name} must stay cut as it is, because "
            f"{fixed_reasons(dimension.fixed)}"
        )
    if after.tile * (math.prod(after.blocks) * after.iterations - 1) >= extent:
        raise RetileError(
            f"{label}: {dimension.name} has {extent} elements, too few for "
            f"{math.prod(after.blocks)} blocks of {after.iterations} tiles each"
        )
    if dimension.whole and after.bound() is not None:
        raise RetileError(
            f"{label}: tiles of {after.tile} along {dimension.name} would not all be whole, and "
            f"{fixed_reasons(dimension.whole)}, of whole tiles only; choose a number that divides "
            f"{extent}"
        )
    if after.tile % dimension.multiple:
        raise RetileError(
            f"{label}: tiles of {after.tile} along {dimension.name} are no multiple of "
            f"{dimension.multiple}, as {op_label(dimension.summed[0])} needs"
        )
    if before.blocks == after.blocks:
        return
    if dimension.summed:
        raise RetileError(
            f"{label}: {op_label(dimension.summed[0])} sums over {dimension.name}, so that blocks "
            "would each have a part of the sum; write 'split_k' to divide it over blocks"
        )
    for partition in (old, new):
        if not partition.cuts[number].axes:
            continue
        together = partition.cut_together(number)
        for index, output in enumerate(space.outputs()):
            if not has_one_of(space, output, together):
                raise RetileError(
                    f"{label}: blocks cannot divide {dimension.name}, for result {index} does not "
                    "have this dimension, and they would overwrite each other"
                )
