"""The partition that is estimated to take the least time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

from xdsl.ir import Operation

from mugraph.dialects import tb
from mugraph.dialects.maps import AXES
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import SECTOR_BYTES
from mugraph.passes.costs.kernels import (
    OVERLAP_NS,
    KernelShape,
    Load,
    PhaseWork,
    estimate,
)
from mugraph.passes.mugraph.plan.bounds import PART_BYTES, TiledKernels
from mugraph.passes.mugraph.plan.limits import (
    ALIKE_NS,
    WORTH_FILLING,
    Longest,
    among_the_least,
    nearly_the_least,
)
from mugraph.passes.mugraph.plan.parts import can_have
from mugraph.passes.mugraph.plan.shape import (
    KernelModel,
    TiledKernel,
    product_index,
    shape_under,
)
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.loops import LoopAnalysis
from mugraph.passes.mugraph.retile.partition import (
    Cut,
    LoopCheck,
    Partition,
    choose_partition,
    has_one_of,
    partition_of,
    require_same_function,
)
from mugraph.passes.targets import Target

BLOCKS = (64, 128, 256, 512)
"""Numbers of threads to choose from."""
SHORTEST_TILE, SHORTEST_PRODUCT = 16, 32
"""Elements along what the loop cuts, at least: of all tiles, and of those of products.

With 16 an iteration has a step of tensor cores for each tile that is waited for; three products of
64 rows took 28 us on an H200, and 18 with 32 (``benchmarks/results/programs_h200.md``).
"""
LONGEST_TILE = 512
"""Elements along what the loop cuts, of all tiles but those of one iteration."""
LONGEST_ROW = 8192
"""The same in kernels without products."""
UNEVEN_TILES = (16, 32, 64, 128, 256)
"""Tiles of dimensions that they do not divide: whole for products and bulk copies but the last."""
USUAL_THREADS = 256
"""Enough to copy and to share products, few enough to have many registers each."""
USUAL_LOOP_BYTES = 24 * 1024
"""Tiles of one iteration: long enough to outweigh what it costs, short enough for some stages."""
SPLITS = (2, 4, 8, 16, 32)
"""Over how many blocks a loop may be divided."""
WAVES = 8
"""Blocks for each multiprocessor, at most."""
FEW_BLOCKS = 8
"""Multiprocessors for each block, at most: a split of the loop can still fill the others."""
SMALLEST_ROW_BYTES = SECTOR_BYTES
"""Tiles have no shorter rows than this, unless the tensor has."""
FEWEST_SUMS = 128
"""A block that combines parts has as many sums."""
OPERATORS_OF_COMBINATION = 3
"""On each part: a product with its weight, the accumulator, and its rescaling."""
WORTHWHILE = 0.97
"""The present partition stays where no other takes so little of its time."""
NEARLY_ALL = 0.95
"""The part of the multiprocessors that should have a block: memory delivers more to more of them
than the estimate knows (``benchmarks/results/h200_plans.md``)."""


class TileChoice(NamedTuple):
    """A partition, over how many blocks its loop is divided, and nanoseconds."""

    partition: Partition
    split: int
    time: float
    loop_bytes: int
    """What an iteration loads."""

    def keeps_busy(self, target: Target) -> bool:
        """Whether nearly all multiprocessors have a block."""
        blocks = math.prod(self.partition.grid) * self.split
        return blocks >= NEARLY_ALL * target.multiprocessors


def divisors(number: int) -> list[int]:
    """All of them, from 1 on."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return sorted({*small, *(number // divisor for divisor in small)})


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


def products_of(space: TileSpace) -> list[Operation]:
    """The operators that sum products of two tiles."""
    return [op for op in space.graph.body.block.ops if product_index(op) is not None]


class Blocks(NamedTuple):
    """Into how many blocks a dimension is cut, and in tiles of how many elements if not evenly."""

    blocks: int
    tile: int | None = None


def uneven_tiles(extent: int, shortest: int, longest: int) -> list[int]:
    """The tiles of powers of two that do not divide a dimension, and are shorter than it."""
    return [
        tile
        for tile in UNEVEN_TILES
        if shortest <= tile <= longest and tile < extent and extent % tile
    ]


def numbers_matrices(space: TileSpace, number: int) -> bool:
    """Whether a dimension numbers the matrices of a product, of which it multiplies several."""
    return any(number in space.numbers[op.operands[0]][:-2] for op in products_of(space))


def _block_counts(space: TileSpace, number: int) -> list[Blocks]:
    """Into how many blocks a dimension may be cut so that rows of tiles stay long enough."""
    dimension = space.dimensions[number]
    if numbers_matrices(space, number):
        # Tiles of several matrices are cut into single ones at some cost.
        return [Blocks(dimension.extent)]
    smallest = 1
    for op in space.graph.body.block.ops:
        value = op.result if isinstance(op, tb.InputOp) else None
        if value is not None and space.numbers[value][-1] == number:
            smallest = max(smallest, SMALLEST_ROW_BYTES // 2)
    evenly = [
        Blocks(count)
        for count in divisors(dimension.extent)
        if dimension.extent // count >= smallest or count == 1
    ]
    uneven = uneven_tiles(dimension.extent, smallest, max(UNEVEN_TILES))
    return [*evenly, *(Blocks(-(-dimension.extent // tile), tile) for tile in uneven)]


def _grids(space: TileSpace, target: Target) -> Iterator[Partition]:
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
    most = WAVES * target.multiprocessors
    present = math.prod(old.grid)
    counts_of = [
        sorted(
            set[Blocks].intersection(*({*_block_counts(space, n)} for n in group)),
            key=lambda each: (each.blocks, each.tile or 0),
        )
        for group in axes
    ]
    for counts in itertools.product(*counts_of):
        blocks = others * math.prod(each.blocks for each in counts)
        if not min(present, target.multiprocessors // FEW_BLOCKS) <= blocks <= max(most, present):
            continue
        grid, cuts = list(old.grid), list(old.cuts)
        for (group, axis), (count, tile) in zip(axes.items(), counts, strict=True):
            grid[axis] = count
            for number in group:
                cuts[number] = Cut((axis,) if count > 1 else (), cuts[number].looped, tile)
        yield old._replace(grid=tuple(grid), cuts=tuple(cuts))


Divides = Callable[[frozenset[int]], bool]
"""Whether a loop over these dimensions may be divided."""


def _loop_tiles(space: TileSpace, looped: Sequence[int]) -> tuple[int, int]:
    """The fewest and the most elements of a tile along what the loop cuts."""
    if any(numbers_matrices(space, number) for number in looped):
        return 1, 1
    if products_of(space):
        return SHORTEST_PRODUCT, LONGEST_TILE
    return SHORTEST_TILE, LONGEST_ROW


def _loops(space: TileSpace, partition: Partition, divides: Divides) -> Iterator[Partition]:
    """The same with other numbers of iterations, as far as the loop's tiles may change."""
    yield partition
    if partition.forloop == 1 and not partition.looped():
        # The present grid alone gets a loop where the graph has none.
        if partition != partition_of(space):
            return
        try:
            partition = choose_partition(space, Plan(forloop=2))
        except RetileError:
            return
        cuts = tuple(
            cut._replace(looped=new.looped)
            for cut, new in zip(partition_of(space).cuts, partition.cuts, strict=True)
        )
        partition = partition._replace(cuts=cuts)
    looped = [n for n, cut in enumerate(partition.cuts) if cut.looped]
    if not looped or any(space.dimensions[number].fixed for number in looped):
        return
    if not divides(frozenset(looped)):
        return
    common = 0
    for number in looped:
        whole = partition.with_loop(1).split(number, space.dimensions[number].extent)
        common = math.gcd(common, whole.block_extent)
    shortest, longest = _loop_tiles(space, looped)
    for iterations in divisors(common):
        if shortest <= common // iterations <= longest or iterations == 1:
            yield partition.with_loop(iterations)
    extents = {space.dimensions[number].extent for number in looped}
    if extents != {common}:
        return  # blocks cut it, too, or each dimension in another way
    for tile in uneven_tiles(common, shortest, longest):
        yield partition.with_loop(-(-common // tile), tile)


def _partitions(space: TileSpace, target: Target, divides: Divides) -> Iterator[Partition]:
    """The present partition, and others, all with the present block."""
    seen: set[Partition] = set()
    for grid in (partition_of(space), *_grids(space, target)):
        for partition in _loops(space, grid, divides):
            if partition not in seen:
                seen.add(partition)
                yield partition


class Division(NamedTuple):
    """A loop divided over blocks: the kernel that has the loop, and one that combines its sums."""

    whole: TiledKernel
    split: int = 1

    def shape(self, threads: int) -> KernelShape:
        """The kernel that has the loop, with so many threads, as if it combined the sums itself."""
        return self.whole.shape.divided(self.split)._replace(threads=threads)

    def time(self, first: KernelShape, target: Target) -> float | None:
        """Nanoseconds of both kernels, the first of a :meth:`shape`; ``None`` where none fits."""
        if self.split == 1:
            return estimate(first, target)
        sums, whole = self.whole.sums, self.whole.shape
        first = first._replace(after=PhaseWork((), 0), stored_bytes=sums * PART_BYTES)
        time = estimate(first, target)
        second = combination_time(whole.blocks, sums, self.split, whole.stored_bytes, target)
        return None if time is None or second is None else time + second - OVERLAP_NS


def _splits(space: TileSpace, partition: Partition, divides: Divides | None) -> Iterator[int]:
    """Over how many blocks a partition's loop may be divided: not at all, and others."""
    yield 1
    looped = partition.looped()
    used = sum(extent > 1 for extent in partition.grid)
    if divides is None or used >= len(AXES) or not looped:
        return
    splits = [partition.split(n, space.dimensions[n].extent) for n in looped]
    ragged = any(split.bound() and split.chosen is None for split in splits)
    if ragged or not divides(looped):
        return
    for count in SPLITS:
        if partition.forloop % count == 0:
            yield count


class _Bounded(NamedTuple):
    """A partition whose loop is divided over blocks, and nanoseconds that it takes at least."""

    least: float
    division: Division


def _bounded(
    space: TileSpace, target: Target, threads: int, divides: Divides, *, split: bool
) -> list[_Bounded]:
    """All partitions and divisions, those first that may take least."""
    model_of = cache(partial(KernelModel.of, space))
    partitions = list(_partitions(space, target, divides))
    alike: dict[frozenset[int], list[int]] = {}
    for place, partition in enumerate(partitions):
        alike.setdefault(partition.looped(), []).append(place)
    whole: dict[int, TiledKernel] = {}
    bounds: list[tuple[int, int, float]] = []
    for looped, places in alike.items():
        model, own = model_of(looped), [partitions[place] for place in places]
        whole.update((place, model.under(partitions[place])) for place in places)
        kernels = TiledKernels(model, own, threads, target)
        splits = [[*_splits(space, partition, divides if split else None)] for partition in own]
        for count in sorted(set(itertools.chain(*splits))):
            times = kernels.least_times(count).tolist()
            bounds += [
                (place, count, time)
                for place, counts, time in zip(places, splits, times, strict=True)
                if count in counts and time < math.inf
            ]
    found = [_Bounded(time, Division(whole[place], count)) for place, count, time in sorted(bounds)]
    found.sort(key=lambda bounded: bounded.least)
    return found


@cache
def combination_time(
    blocks: int, parts: int, split: int, stored_bytes: int, target: Target
) -> float | None:
    """Nanoseconds of the kernel that adds up what blocks have stored, partitioned anew.

    Each of ``blocks`` tiles has ``parts`` sums, ``split`` times over.  The kernel's blocks divide
    the tiles further, along what is parallel, and load all parts of theirs at once.
    """
    times: list[float] = []
    spread = 1
    while spread <= max(1, parts // FEWEST_SUMS):
        own = parts // spread
        loaded = own * PART_BYTES * split
        shape = KernelShape(
            blocks * spread,
            USUAL_THREADS,
            1,
            (Load(loaded, parts * PART_BYTES * blocks * split, looped=False),),
            PhaseWork((), OPERATORS_OF_COMBINATION * own * split),
            PhaseWork((), own),
            stored_bytes // spread,
            own * PART_BYTES + loaded,
        )
        time = estimate(shape, target)
        if time is not None:
            times.append(time)
        spread *= 2
    return min(times, default=None)


Fits = Callable[[Partition, KernelShape], bool]
"""Whether a kernel of such tiles can have what its plan says."""


def _candidates(
    space: TileSpace, target: Target, fits: Fits | None, limit: Longest, *, split: bool
) -> list[TileChoice]:
    """All allowed partitions but those that take too long for a limit.

    What the loads take shows of most of them that they do.
    """
    # Few sets of dimensions are looped, each in many partitions.
    check = cache(partial(LoopAnalysis, space))
    divides = cache(partial(adds_up, check))
    allowed = cache(partial(is_allowed, space, check=check))
    blocks = dict.fromkeys((space.graph.block_dim, *((threads, 1, 1) for threads in BLOCKS)))
    fewest = min(map(math.prod, blocks))
    choices: list[TileChoice] = []
    longest = math.inf
    for least, division in _bounded(space, target, fewest, divides, split=split):
        if least > longest:
            break
        partition = division.whole.partition
        timed: list[tuple[Partition, KernelShape, float]] = []
        for block in blocks:
            shape = division.shape(math.prod(block))
            time = division.time(shape, target)
            if time is not None and time <= longest:
                timed.append((partition._replace(block=block), shape, time))
        if not timed or not allowed(partition):
            continue
        for candidate, shape, time in timed:
            if fits is None or fits(candidate, shape):
                loop_bytes = shape.loop_bytes
                choices.append(TileChoice(candidate, division.split, time, loop_bytes))
                longest = limit(time)
    return choices


def choose_least_time(space: TileSpace, target: Target, written: Plan) -> TileChoice | None:
    """The partition of least estimated time: the present one where no other is much better.

    Of those that leave room for what is written in the plan, where there are any.  ``None`` where
    no partition fits a block.
    """
    old = partition_of(space)
    now = shape_under(space, old)

    def fits(partition: Partition, shape: KernelShape) -> bool:
        return can_have(space, partition, shape, written, target)

    present = estimate(now, target) if fits(old, now) else None
    split = _may_split(space, written)
    choices = _candidates(space, target, fits, nearly_the_least(), split=split)
    if not choices and written != Plan():
        choices = _candidates(space, target, None, nearly_the_least(), split=split)
    if not choices:
        return None
    fastest = min(choices, key=lambda choice: choice.time)
    if not fastest.keeps_busy(target):
        near = (c for c in choices if c.time <= WORTH_FILLING * fastest.time)
        busy = [choice for choice in near if choice.keeps_busy(target) and choice.split == 1]
        choices = busy or choices
    limit = min(choice.time for choice in choices) + ALIKE_NS
    best = min((c for c in choices if c.time <= limit), key=partial(_effort, target))
    no_gain = present is not None and best.time > WORTHWHILE * present
    ours = TileChoice(old, 1, present or 0.0, now.loop_bytes)
    if no_gain and best.split == 1 and ours.keeps_busy(target) >= best.keeps_busy(target):
        return ours
    return best


def _may_split(space: TileSpace, written: Plan) -> bool:
    """Whether a plan and the grid leave room for blocks that share a loop."""
    free = sum(extent > 1 for extent in partition_of(space).grid) < len(AXES)
    return free and written.split_k != 1


def least_times(space: TileSpace, target: Target, written: Plan, count: int) -> list[TileChoice]:
    """The partitions of least estimated time, so many, that leave room for a plan; least first."""

    def fits(partition: Partition, shape: KernelShape) -> bool:
        return can_have(space, partition, shape, written, target)

    split = _may_split(space, written)
    choices = _candidates(space, target, fits, among_the_least(count), split=split)
    return sorted(choices, key=lambda choice: choice.time)[:count]


def why_kept(space: TileSpace, target: Target) -> str:
    """A clause for a user: why :func:`choose_least_time` has no other partition."""
    present = estimate(shape_under(space, partition_of(space)), target)
    if present is None:
        return f"no partition of it has tiles that fit a block of {target.name}"
    if not parallel_dimensions(space):
        return "no dimension that all its results have and no operator sums over is left to cut"
    return (
        f"it is estimated to take {present / 1000:.3g} µs on {target.name}, and no other partition "
        f"that its operators and its plan allow less than {WORTHWHILE:.0%} of that"
    )


def _effort(target: Target, choice: TileChoice) -> tuple[float, ...]:
    """What to have little of where times are alike: kernels, idle multiprocessors, blocks, axes."""
    blocks = math.prod(choice.partition.grid) * choice.split
    threads = math.prod(choice.partition.block)
    unusual = abs(math.log2(threads / USUAL_THREADS))
    tiles = abs(math.log2(max(choice.loop_bytes, 1) / USUAL_LOOP_BYTES))
    axes = sum(extent > 1 for extent in choice.partition.grid)
    idle = not choice.keeps_busy(target)
    return (
        choice.split > 1,
        idle,
        blocks,
        axes,
        unusual,
        tiles,
        choice.time,
        *choice.partition.grid,
    )


def in_one_iteration(space: TileSpace, choice: TileChoice, target: Target) -> TileChoice:
    """A choice with all tiles of the loop in one where it has no products, they fit, and it pays.

    Every iteration waits at the barriers of its few operators, longer than is estimated.
    """
    whole = choice.partition.with_loop(1)
    shape = shape_under(space, whole)
    time = estimate(shape, target)
    if (
        choice.split > 1
        or shape.loop.products
        or time is None
        or time > WORTH_FILLING * choice.time
        or not is_allowed(space, whole)
    ):
        return choice
    return TileChoice(whole, 1, time, shape.loop_bytes)


def adds_up(check: LoopCheck, looped: frozenset[int]) -> bool:
    """Whether a loop over these dimensions adds up the same in any number of tiles and blocks."""
    try:
        check(looped)
    except RetileError:
        return False
    return True


def is_allowed(space: TileSpace, partition: Partition, check: LoopCheck | None = None) -> bool:
    """Whether a partition leaves the function as it is; ``check`` replaces the loop's analysis."""
    try:
        require_same_function(space, partition, check)
    except RetileError:
        return False
    return True


__all__ = [
    "Division",
    "TileChoice",
    "choose_least_time",
    "divisors",
    "in_one_iteration",
    "is_allowed",
    "least_times",
    "parallel_dimensions",
    "why_kept",
]
