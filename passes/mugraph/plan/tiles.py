"""The partition that is estimated to take the least time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.mugraph.plan.bounds import TiledKernels
from mugraph.passes.mugraph.plan.combination import USUAL_THREADS
from mugraph.passes.mugraph.plan.dimension_tiles import passes_products_on
from mugraph.passes.mugraph.plan.division import (
    Division,
    added_by_measurement,
    saved_in_clusters,
)
from mugraph.passes.mugraph.plan.early import (
    ABOUT_ALIKE,
    brings_mostly_weights,
    holds_weights,
    stays_whole_beside,
    stays_whole_beside_as_many,
    sums_few_rows,
)
from mugraph.passes.mugraph.plan.held_tiles import reduces_rows
from mugraph.passes.mugraph.plan.limits import (
    ALIKE_NS,
    WORTH_FILLING,
    Longest,
    among_the_least,
    nearly_the_least,
)
from mugraph.passes.mugraph.plan.partitions import (
    Divides,
    adds_up,
    dimensions_to_pad,
    lacks_padding,
    parallel_dimensions,
    partitions,
    splits,
)
from mugraph.passes.mugraph.plan.parts import can_have
from mugraph.passes.mugraph.plan.reduced_rows import blocks_of_rows, is_a_warp
from mugraph.passes.mugraph.plan.shape import (
    KernelModel,
    TiledKernel,
    shape_under,
)
from mugraph.passes.mugraph.plan.smaller_extents import (
    Candidate,
    Shrink,
    TimeOf,
    least_regret,
)
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.plan.weight_tiles import of_fewest_turns, of_longest_reads
from mugraph.passes.mugraph.plan.whole_loops import has_rows_of_groups, may_stay_whole, whole_loop
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.loops import LoopAnalysis
from mugraph.passes.mugraph.retile.partition import (
    LoopCheck,
    Partition,
    partition_of,
    require_same_function,
)
from mugraph.passes.targets import Target

BLOCKS = (64, 128, 256, 512)
"""Numbers of threads to choose from."""
MOST_THREADS = 1024
"""Also so many, where they hold all tiles: long rows."""
MOST_OF_PRODUCTS = 256
"""Of kernels with products.  With 512 threads none was the fastest, and many took two to five times
as long as is estimated (``benchmarks/results/shapes_h200_plans.md``)."""
MOST_OF_CHAINS = 3 * GROUP_THREADS
"""Also so many, where warp groups pass on what products give."""
FEWEST_MASKED_TURNS, FEWEST_MASKED_COLUMNS = 32, 128
"""Iterations of a block, on average, and columns of each, from which three groups may multiply a
chain that a mask leaves tiles out of: 16 heads of 16,384 tokens of depth 64 take 1,122 us on an
H200 so, and 1,209 in blocks of one; 32 heads of 8,192 take 575 and 617; 16 heads of 4,096 take 89
and 84 (``benchmarks/results/prefill_variants_h200.md``)."""
USUAL_LOOP_BYTES = 24 * 1024
"""Tiles of one iteration: long enough to outweigh what it costs, short enough for some stages."""
WORTHWHILE = 0.97
"""The present partition stays where no other takes so little of its time."""
WITHOUT_PADDING = 1.4
"""How much longer products of warps take than is estimated, where padding would give them to warp
groups: 1.2 to 2.3 times (``benchmarks/results/shapes_h200_plans.md``)."""
DIGITS = 3
"""Of an estimate that order plans that are alike otherwise."""


class _Bounded(NamedTuple):
    """A partition whose loop is divided over blocks, and nanoseconds that it takes at least."""

    least: float
    division: Division


def _bounded(
    space: TileSpace,
    target: Target,
    threads: int,
    divides: Divides,
    *,
    split: bool,
    as_they_lie: bool,
) -> list[_Bounded]:
    """All partitions and divisions, those first that may take least."""
    to_pad = dimensions_to_pad(space)
    cuts = list(partitions(space, target, divides, as_they_lie=as_they_lie))
    alike: dict[frozenset[int], list[int]] = {}
    for place, partition in enumerate(cuts):
        alike.setdefault(partition.looped(), []).append(place)
    whole: dict[int, TiledKernel] = {}
    bounds: list[tuple[int, int, float, float]] = []
    for looped, places in alike.items():
        model, own = KernelModel.of(space, looped), [cuts[place] for place in places]
        whole.update((place, model.under(cuts[place])) for place in places)
        kernels = TiledKernels(model, own, threads, target)
        may_divide = divides if split else None
        counts_of = [[*splits(space, partition, may_divide, to_pad)] for partition in own]
        different = sorted(set(itertools.chain(*counts_of)))
        for count, times in zip(different, kernels.least_times(different).tolist(), strict=True):
            for place, counts, time in zip(places, counts_of, times, strict=True):
                if count in counts and time < math.inf:
                    saved = saved_in_clusters(space, cuts[place], count, target)
                    bounds.append((place, count, time - saved, saved))
    found = [
        _Bounded(time, Division(whole[place], count, saved))
        for place, count, time, saved in sorted(bounds)
    ]
    found.sort(key=lambda bounded: bounded.least)
    return found


Fits = Callable[[Partition, KernelShape], bool]
"""Whether a kernel of such tiles can have what its plan says."""


def _candidates(
    space: TileSpace,
    target: Target,
    fits: Fits | None,
    limit: Longest,
    *,
    split: bool,
    as_they_lie: bool = False,
    most: float = math.inf,
) -> list[TileChoice]:
    """All allowed partitions but those that take too long for a limit.

    What the loads take shows of most of them that they do.  ``as_they_lie`` is that of
    ``partitions``.  Raises :class:`TakesLongerError` where all take ``most`` or longer.
    """
    # Few sets of dimensions are looped, each in many partitions.
    check = cache(partial(LoopAnalysis, space))
    divides = cache(partial(adds_up, check))
    allowed = cache(partial(is_allowed, space, check=check))
    largest = MOST_OF_PRODUCTS if space.products else MOST_THREADS
    usual = [threads for threads in (*BLOCKS, MOST_THREADS) if threads <= largest]
    usual += blocks_of_rows(space)
    usual += [MOST_OF_CHAINS] if passes_products_on(space) else []
    blocks = dict.fromkeys((space.graph.block_dim, *((threads, 1, 1) for threads in usual)))
    fewest = min(map(math.prod, blocks))
    to_pad = dimensions_to_pad(space)
    choices: list[TileChoice] = []
    longest = math.inf
    bounded = _bounded(space, target, fewest, divides, split=split, as_they_lie=as_they_lie)
    if bounded and bounded[0].least >= most:
        raise TakesLongerError
    for least, division in bounded:
        if least > longest:
            break
        partition = division.whole.partition
        timed: list[tuple[Partition, KernelShape, float]] = []
        for block in blocks:
            shape = division.shape(math.prod(block))
            if shape.threads > max(BLOCKS) and shape.held_registers(target) is None:
                continue
            if shape.threads == MOST_OF_CHAINS and not may_have_three_groups(
                division, shape, target
            ):
                continue
            time = division.time(shape, target)
            if time is not None and lacks_padding(partition, to_pad):
                time *= WITHOUT_PADDING
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


def may_have_three_groups(division: Division, shape: KernelShape, target: Target) -> bool:
    """Whether a block may be of three warp groups: they multiply a chain of all keys.

    Of causal masks, which leave nothing of many tiles, they compute more that is masked: 32 heads
    of 4096 tokens of depth 64 took 206 us on an H200, and 174 in blocks of one.  Of many keys that
    is little.
    """
    if division.split > 1 or not shape.is_chain_of_groups(target):
        return False
    columns = shape.loop.passed_on[-1]
    many = shape.turns >= FEWEST_MASKED_TURNS and columns >= FEWEST_MASKED_COLUMNS
    return shape.share == 1 or many


class TakesLongerError(Exception):
    """No partition takes less time than was asked for."""


def choose_least_time(
    space: TileSpace, target: Target, written: Plan, most: float = math.inf
) -> TileChoice | None:
    """The partition of least estimated time: the present one where no other is much better.

    Of those that leave room for what is written in the plan, where there are any.  ``None`` where
    no partition fits a block.  Raises :class:`TakesLongerError` where bounds show that the chosen
    one would take ``most`` nanoseconds or longer.
    """
    old = partition_of(space)
    now = shape_under(space, old)
    as_it_is = estimate(now, target)
    if space.graph.held_lengths or (as_it_is is not None and as_it_is < most):
        # Bounds are those of the largest length, and of the other partitions.
        most = math.inf

    def fits(partition: Partition, shape: KernelShape) -> bool:
        return can_have(space, partition, shape, written, target)

    present = as_it_is if fits(old, now) else None
    split = written.split_k != 1
    choices = _candidates(space, target, fits, nearly_the_least(), split=split, most=most)
    if not choices and written != Plan():
        choices = _candidates(space, target, None, nearly_the_least(), split=split)
    if not choices:
        return None
    fastest = min(choices, key=lambda choice: choice.time)
    # What was measured of parts is no reason to fuse otherwise, nor for a library: what that is
    # estimated to take was fitted beside parts without it.
    added = [(c.time, added_by_measurement(space, c, target)) for c in choices]
    compared = min((time - more for time, more in added if more), default=math.inf)
    held: list[TileChoice] = []
    if fastest.split > 1:
        held = _that_load_ahead(space, target, written, holds_weights)
        if not held and sums_few_rows(space.graph):
            held = _that_load_ahead(space, target, written, stays_whole_beside) or _that_load_ahead(
                space, target, written, stays_whole_beside_as_many
            )
    if held:
        # It is estimated to lose what comes before the wait, which is no reason to fuse otherwise.
        longest = ABOUT_ALIKE * min(choice.time for choice in held)
        alike = [choice for choice in held if choice.time <= longest]
        best = min(alike, key=lambda choice: (choice.partition.forloop, choice.time))
        return best._replace(time=min(best.time, fastest.time, compared))
    if written.split_k is None and may_stay_whole(space, fastest, target):
        whole = whole_loop(_that_stay_whole(space, target, fits), fastest)
        if whole is not None:
            return whole._replace(time=min(whole.time, compared))
    if not fastest.keeps_busy(target) and _waits_for_memory(space, fastest, target):
        near = (c for c in choices if c.time <= WORTH_FILLING * fastest.time)
        busy = [choice for choice in near if choice.keeps_busy(target) and choice.split == 1]
        choices = busy or choices
    few = of_fewest_turns(space, choices, target) if written.loads is None else []
    if few and fastest.split == 1:
        # What it is estimated to lose is no reason to fuse otherwise.
        best = min(few, key=partial(_effort, space, target))
        return best._replace(time=fastest.time)
    streamed = of_longest_reads(space, choices, target)
    if streamed and fastest.split == 1:
        best = min(streamed, key=lambda choice: choice.time)
        return best._replace(time=fastest.time)
    if space.graph.held_lengths:
        choices = _at_all_lengths(space, choices, target)
    limit = min(choice.time for choice in choices) + ALIKE_NS
    effort = partial(_effort, space, target)
    best = min((c for c in choices if c.time <= limit), key=effort)
    if space.graph.held_lengths:
        # What it gives up at the largest length is no reason to make two kernels of it.
        best = best._replace(time=min(best.time, fastest.time))
    no_gain = present is not None and best.time > WORTHWHILE * present
    ours = TileChoice(old, 1, present or 0.0, now.loop_bytes)
    stays = no_gain and best.split == 1 and not lacks_padding(old, dimensions_to_pad(space))
    if reduces_rows(space) and is_a_warp(shape_under(space, best.partition), target):
        stays = False
    if stays and ours.keeps_busy(target) >= best.keeps_busy(target):
        return ours
    return best._replace(time=min(best.time, compared))


def _that_load_ahead(
    space: TileSpace,
    target: Target,
    written: Plan,
    ahead: Callable[[CustomizedOp, KernelShape, Target], bool],
) -> list[TileChoice]:
    """Partitions with which blocks have much of a kernel's weights on their way before they wait.

    ``ahead`` says whether those of a shape have: all of them, or what half of the memory holds.
    """
    if written.split_k is not None or not brings_mostly_weights(space.graph):
        return []

    def fits(partition: Partition, shape: KernelShape) -> bool:
        return ahead(space.graph, shape, target) and can_have(
            space, partition, shape, written, target
        )

    limit = nearly_the_least()
    return _candidates(space, target, fits, limit, split=False, as_they_lie=True)


def _that_stay_whole(space: TileSpace, target: Target, fits: Fits) -> list[TileChoice]:
    """Partitions that do not divide the loop of a product of few rows that warp groups have."""

    def has_rows(partition: Partition, shape: KernelShape) -> bool:
        return has_rows_of_groups(space, partition, shape, target) and fits(partition, shape)

    limit = nearly_the_least()
    return _candidates(space, target, has_rows, limit, split=False, as_they_lie=True)


def _waits_for_memory(space: TileSpace, choice: TileChoice, target: Target) -> bool:
    """Whether device memory takes most of its time, and longer than tensor cores do.

    Elsewhere more blocks only load more: 8 x 768 x 768 took 1.9 us on an H200 by 48 blocks and 2.3
    by 192, 512 x 768 x 2304 with a bias 6.4 by 96 and 8.9 by 128.
    """
    shape = shape_under(space, choice.partition).divided(choice.split)
    moved = device_ns(shape.loading.tensor_bytes + shape.blocks * shape.stored_bytes, target)
    return moved > max(shape.product_ns(target), choice.time / 2)


def time_of_smaller(target: Target) -> TimeOf:
    """Nanoseconds of a partition at smaller extents, with what adds up a divided loop."""

    def time(model: KernelModel, candidate: Candidate, shrink: Shrink) -> float | None:
        division = Division(model.under(candidate.partition), candidate.split)
        threads = math.prod(candidate.partition.block)
        return division.time(shrink(division.shape(threads)), target)

    return time


def _at_all_lengths(
    space: TileSpace, choices: Sequence[TileChoice], target: Target
) -> list[TileChoice]:
    """Of partitions that are about as fast at the largest lengths those for all of them."""
    own = {Candidate(choice.partition, choice.split): choice for choice in choices}
    best = least_regret(space, list(own), time_of_smaller(target))
    return [own[candidate] for candidate in best]


def least_times(space: TileSpace, target: Target, written: Plan, count: int) -> list[TileChoice]:
    """The partitions of least estimated time, so many, that leave room for a plan; least first."""

    def fits(partition: Partition, shape: KernelShape) -> bool:
        return can_have(space, partition, shape, written, target)

    split = written.split_k != 1
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


def _effort(space: TileSpace, target: Target, choice: TileChoice) -> tuple[float, ...]:
    """What to have little of where times are alike: kernels, idle multiprocessors, blocks, axes.

    Blocks may be many that load rows at once, for threads that hold them; then threads are whole
    rows, if they can be, and of short rows a warp.
    """
    many = reduces_rows(space) and not choice.loop_bytes
    blocks = 0 if many else math.prod(choice.partition.grid) * choice.split
    threads = math.prod(choice.partition.block)
    is_usual = threads in blocks_of_rows(space)
    meets = many and not is_a_warp(shape_under(space, choice.partition), target)
    unusual = 0.0 if is_usual else abs(math.log2(threads / USUAL_THREADS))
    tiles = abs(math.log2(max(choice.loop_bytes, 1) / USUAL_LOOP_BYTES))
    axes = sum(extent > 1 for extent in choice.partition.grid)
    idle = not choice.keeps_busy(target)
    # Of such times only the grid is another: few columns of blocks are wide instructions, which
    # read less of shared memory.  2265 x 10240 x 8192 took 530 us on an H200 in tiles of 128 x 256
    # and 571 in tiles of 256 x 128, 4096 x 1024 x 3072 42.3 and 45.8.
    time = float(f"{choice.time:.{DIGITS}g}")
    last = space.numbers[space.outputs()[0].stensor][-1]
    axes_of_columns = () if last is None else choice.partition.cuts[last].axes
    columns = math.prod(choice.partition.grid[axis] for axis in axes_of_columns)
    return (
        choice.split > 1,
        idle,
        blocks,
        axes,
        meets,
        unusual,
        tiles,
        time,
        columns,
        *choice.partition.grid,
    )


def in_one_iteration(
    space: TileSpace, choice: TileChoice, target: Target, written: Plan
) -> TileChoice:
    """A choice with all tiles of the loop in one where it has no products, they fit, and it pays.

    What is written of the plan must go with it.  Every iteration waits at the barriers of its few
    operators, longer than is estimated; warp groups that multiply a chain have no such barriers.
    """
    whole = choice.partition.with_loop(1)
    shape = shape_under(space, whole)
    time = estimate(shape, target)
    if (
        choice.split > 1
        or shape.loop.products
        or shape_under(space, choice.partition).is_chain_of_groups(target)
        or time is None
        or time > WORTH_FILLING * choice.time
        or not can_have(space, whole, shape, written, target)
        or not is_allowed(space, whole)
    ):
        return choice
    return TileChoice(whole, 1, time, shape.loop_bytes)


def is_allowed(space: TileSpace, partition: Partition, check: LoopCheck | None = None) -> bool:
    """Whether a partition leaves the function as it is; ``check`` replaces the loop's analysis."""
    try:
        require_same_function(space, partition, check)
    except RetileError:
        return False
    return True
