"""How a kernel may be cut: its grids, its loops, and over how many blocks a loop is divided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial

from mugraph.dialects.maps import AXES
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import (
    GROUP_ROWS,
)
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.mugraph.plan.dimension_tiles import (
    LONG_UNEVEN_TILES,
    LONGEST_ROW,
    LONGEST_TILE,
    SHORTEST_PRODUCT,
    SHORTEST_TILE,
    UNEVEN_TILES,
    block_counts,
    has_converted_columns,
    is_sliced,
    loaded_products,
    numbers_matrices,
    padded_tiles,
    passes_products_on,
    uneven_tiles,
)
from mugraph.passes.mugraph.plan.filled_rounds import Blocks, filled
from mugraph.passes.mugraph.plan.held_tiles import reduces_rows
from mugraph.passes.mugraph.plan.moved import waits_for_loads
from mugraph.passes.mugraph.plan.reduced_rows import padded_rows, with_padded_rows
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.partition import (
    Cut,
    LoopCheck,
    Partition,
    choose_partition,
    divisors,
    has_one_of,
    partition_of,
    whole_depths,
    with_whole_steps,
)
from mugraph.passes.mugraph.retile.split import has_whole_parts
from mugraph.passes.targets import Target

WHOLE_ROW = 64
"""Elements along what the loop of products cuts, in whole swizzled rows of 128 bytes: where they
divide it, tiles are powers of two.  With 192 a product took 38 us that takes 25 with 64 or 128
(``benchmarks/results/shapes_h200_plans.md``)."""
UNEVEN_LOOP_TILES = tuple(range(16, 257, 16))
"""The same along what a loop cuts where no shortest tile divides it: many, so that the iterations
of one can be divided over blocks."""
CHAINED_LOOP_TILES = (*range(64, 128, 16), *UNEVEN_TILES)
"""The same of loops whose products pass on what they give: as long as registers have room for.

Of depth 192, tiles of 96 took 557 us on an H200, of 64 602."""
SPLITS = (2, 4, 8, 16, 32)
"""Over how many blocks a loop may be divided."""
ENOUGH_SPLITS = 8
"""Over so many a loop of chained products should be divisible, as decode has few other blocks."""
MOST_SLICES = 16
"""Pairs of matrices of an iteration that the warps of a block share, at most."""
WAVES, WAVES_OF_ROWS = 8, 64
"""Blocks for each multiprocessor, at most; also of kernels of rows that threads hold."""
FEW_BLOCKS = max(SPLITS)
"""Multiprocessors for each block, at most: a split of the loop can still fill the others."""


def parallel_dimensions(space: TileSpace) -> list[frozenset[int]]:
    """The dimensions that blocks may divide, those together that one axis cuts.

    Every result has one of them, and no operator sums over them.
    """
    old = partition_of(space)
    groups: list[frozenset[int]] = []
    for number in range(len(space.dimensions)):
        group = old.cut_together(number)
        dimensions = [space.dimensions[other] for other in group]
        if group in groups or any(
            d.fixed
            or d.summed
            or d.looped
            or len(d.axes) > 1
            or any(axis in space.fixed_axes for axis in d.axes)
            for d in dimensions
        ):
            continue
        if all(has_one_of(space, output, group) for output in space.outputs()):
            groups.append(group)
    return groups


def dimensions_to_pad(space: TileSpace) -> dict[int, int]:
    """The dimensions that blocks may cut into padded tiles, each with its extent."""
    groups = parallel_dimensions(space)
    return {
        number: space.dimensions[number].extent
        for group in groups
        if all(padded_tiles(space, each) for each in group)
        for number in group
    }


def lacks_padding(partition: Partition, to_pad: Mapping[int, int]) -> bool:
    """Whether tiles are as long as one of the dimensions that may be padded."""
    return any(partition.tile(number, extent) == extent for number, extent in to_pad.items())


def _multiplies_bytes(space: TileSpace) -> bool:
    """Whether numbers of 8 bits are multiplied as they are stored, and nothing is passed on."""
    factors = [value for op in space.products for value in op.operands]
    bytes_alone = all(element_bytes_of(value.type) == 1 for value in factors)
    return bool(factors) and bytes_alone and not passes_products_on(space)


def _columns_of_groups(space: TileSpace, groups: Sequence[frozenset[int]]) -> int | None:
    """Which of some dimensions has the columns of the one product, for warp groups to multiply.

    ``None`` where there is none, or there are several products, or too few rows.
    """
    if len(space.products) != 1 or not loaded_products(space):
        return None
    *_, row, column = space.numbers[space.products[0].results[0]]
    few = row is not None and space.dimensions[row].extent < GROUP_ROWS
    if few or column is None or has_converted_columns(space, column):
        return None
    return next((place for place, group in enumerate(groups) if column in group), None)


def _grids(space: TileSpace, target: Target, *, as_they_lie: bool) -> Iterator[Partition]:
    """Partitions with other grids, each dimension along the axis that it has, or a free one."""
    old = partition_of(space)
    taken = {axis for d in space.dimensions for axis in d.axes} | set(space.fixed_axes)
    free = [axis for axis in range(len(AXES)) if axis not in taken]
    axes: dict[frozenset[int], int] = {}
    for group in sorted(
        parallel_dimensions(space), key=lambda g: -max(space.dimensions[n].extent for n in g)
    ):
        own = space.dimensions[min(group)].axes
        if own:
            axes[group] = own[0]
        elif free:
            axes[group] = free.pop(0)
    others = math.prod(extent for axis, extent in enumerate(old.grid) if axis not in axes.values())
    of_rows = old.forloop == 1 and reduces_rows(space)
    most = (WAVES_OF_ROWS if of_rows else WAVES) * target.multiprocessors
    present = math.prod(old.grid)
    counts = partial(block_counts, space, of_rows=of_rows, as_they_lie=as_they_lie)
    counts_of = [
        sorted(
            set[Blocks].intersection(*({*counts(n)} for n in group)),
            key=lambda each: (each.blocks, each.tile or 0),
        )
        for group in axes
    ]
    columns = _columns_of_groups(space, list(axes))
    cuts_of = itertools.product(*counts_of)
    if columns is not None:
        extent = space.dimensions[min(list(axes)[columns])].extent
        narrow = partial(filled, extent=extent, others=others, at_once=target.multiprocessors)
        cuts_of = itertools.chain.from_iterable(narrow(parts, columns) for parts in cuts_of)
    for parts in cuts_of:
        blocks = others * math.prod(each.blocks for each in parts)
        if not min(present, target.multiprocessors // FEW_BLOCKS) <= blocks <= max(most, present):
            continue
        grid, cuts = list(old.grid), list(old.cuts)
        for (group, axis), (count, tile) in zip(axes.items(), parts, strict=True):
            grid[axis] = count
            for number in group:
                cuts[number] = Cut((axis,) if count > 1 else (), cuts[number].looped, tile)
        yield old._replace(grid=tuple(grid), cuts=tuple(cuts))


Divides = Callable[[frozenset[int]], bool]
"""Whether a loop over these dimensions may be divided."""


LoopTiles = Callable[[tuple[int, ...]], tuple[int, int]]
"""The fewest and the most elements of a tile along the dimensions that a loop cuts."""


def _loop_tiles(space: TileSpace, looped: tuple[int, ...]) -> tuple[int, int]:
    """Those of :data:`LoopTiles`."""
    if any(numbers_matrices(space, number) for number in looped):
        return 1, MOST_SLICES if is_sliced(space) else 1
    if space.products:
        return SHORTEST_PRODUCT, LONGEST_TILE
    return SHORTEST_TILE, LONGEST_ROW


def _with_a_loop(space: TileSpace) -> Partition | None:
    """The present partition with a loop of two iterations; ``None`` where there can be none."""
    try:
        return choose_partition(space, Plan(forloop=2))
    except RetileError:
        return None


def _loops(
    space: TileSpace,
    partition: Partition,
    divides: Divides,
    with_a_loop: Callable[[], Partition | None],
    loop_tiles: LoopTiles,
    *,
    everywhere: bool,
) -> Iterator[Partition]:
    """The same with other numbers of iterations, as far as the loop's tiles may change.

    ``everywhere``: in a graph without a loop all grids get one.
    """
    yield partition
    if partition.forloop == 1 and not partition.looped():
        chosen = with_a_loop()
        if chosen is None:
            return
        # The present grid alone gets a loop where the graph has none, but for groups of weights and
        # products of 8 bits: 1 x 4096 x 14336 is faster in one kernel than in four parts.
        of_groups = any(numbers_matrices(space, number) for number in chosen.looped())
        apart = of_groups or everywhere or _multiplies_bytes(space)
        if partition != partition_of(space) and not apart:
            return
        cuts = tuple(
            cut._replace(looped=new.looped)
            for cut, new in zip(partition.cuts, chosen.cuts, strict=True)
        )
        partition = chosen._replace(grid=partition.grid, cuts=cuts)
    looped = tuple(n for n, cut in enumerate(partition.cuts) if cut.looped)
    if not looped or any(space.dimensions[number].fixed for number in looped):
        return
    if not divides(frozenset(looped)):
        return
    common = 0
    for number in looped:
        whole = partition.with_loop(1).split(number, space.dimensions[number].extent)
        common = math.gcd(common, whole.block_extent)
    shortest, longest = loop_tiles(looped)
    in_powers = common % max(WHOLE_ROW, shortest) == 0 and bool(space.products)
    for iterations in divisors(common):
        tile = common // iterations
        if in_powers and tile.bit_count() > 1 and iterations > 1:
            continue
        if shortest <= tile <= longest or iterations == 1:
            yield partition.with_loop(iterations)
    extents = {space.dimensions[number].extent for number in looped}
    if extents != {common}:
        return  # blocks cut it, too, or each dimension in another way
    tiles = UNEVEN_LOOP_TILES
    if not space.products:
        tiles = LONG_UNEVEN_TILES
    elif common % max(shortest, 1) == 0:
        tiles = UNEVEN_TILES
        if passes_products_on(space):
            # Of 128 x 401 keys whole tiles of 32 can be divided over 4 blocks at most.
            divides_evenly = common % (shortest * ENOUGH_SPLITS) == 0
            tiles = CHAINED_LOOP_TILES if divides_evenly else UNEVEN_LOOP_TILES
    for tile in uneven_tiles(common, tiles, shortest, longest):
        yield partition.with_loop(-(-common // tile), tile)


def partitions(
    space: TileSpace, target: Target, divides: Divides, *, as_they_lie: bool = False
) -> Iterator[Partition]:
    """The present partition, and others, all with the present block.

    ``as_they_lie``: tiles may be short along the last dimension of tensors that lie otherwise, and
    a graph without a loop gets one in all grids.
    """
    seen: set[Partition] = set()
    with_a_loop = cache(partial(_with_a_loop, space))
    loop_tiles = cache(partial(_loop_tiles, space))
    present, depths = partition_of(space), whole_depths(space)
    padded = padded_rows(space) if reduces_rows(space) else {}
    for grid in (present, *_grids(space, target, as_they_lie=as_they_lie)):
        for cut in _loops(space, grid, divides, with_a_loop, loop_tiles, everywhere=as_they_lie):
            whole = cut if cut == present else with_whole_steps(cut, depths)
            of_padded_rows = with_padded_rows(space, whole, padded) if padded else ()
            for partition in (whole, *of_padded_rows):
                if partition not in seen:
                    seen.add(partition)
                    yield partition


def splits(
    space: TileSpace, partition: Partition, divides: Divides | None, to_pad: Mapping[int, int]
) -> Iterator[int]:
    """Over how many blocks a partition's loop may be divided: not at all, and others.

    Tiles that lack padding only come with a divided loop.
    """
    if not lacks_padding(partition, to_pad):
        yield 1
    looped = partition.looped()
    used = sum(extent > 1 for extent in partition.grid)
    if divides is None or used >= len(AXES) or not looped:
        return
    splits = [partition.split(n, space.dimensions[n].extent) for n in looped]
    # Where one block has all of a dimension, blocks that share its loop may end in ragged tiles.
    ragged = any(split.bound() and not split.ends_with_tensor for split in splits)
    if ragged or not has_whole_parts(space, partition) or not divides(looped):
        return
    uneven = any(partition.cuts[number].tile is not None for number in looped)
    for count in divisors(partition.forloop) if uneven or waits_for_loads(space) else SPLITS:
        if 1 < count <= max(SPLITS) and partition.forloop % count == 0:
            yield count


def adds_up(check: LoopCheck, looped: frozenset[int]) -> bool:
    """Whether a loop over these dimensions adds up the same in any number of tiles and blocks."""
    try:
        check(looped)
    except RetileError:
        return False
    return True
