"""What an estimate of its time decides of a kernel's plan."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace

from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.maps import AXES
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import GROUP_THREADS
from mugraph.passes.costs.chains import chain_ns, gains_blocks, is_chain
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import (
    LAUNCH_NS,
    OVERLAP_NS,
    estimate,
    ring_of,
    stages_of,
    time_in_epilogues,
)
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.costs.residency import resident_blocks
from mugraph.passes.mugraph.plan.clusters import plan_combination
from mugraph.passes.mugraph.plan.early import (
    brings_weights,
    comes_before_states,
    has_weights,
    holds_weights,
    leaves_room,
    lets_next_start,
    stages_beside,
    stages_in_flight,
    stages_meanwhile,
    takes_few_turns,
    waits_for_few_blocks,
    waits_for_shorter,
)
from mugraph.passes.mugraph.plan.parts import can_have, can_persist
from mugraph.passes.mugraph.plan.shape import KernelModel, shape_under
from mugraph.passes.mugraph.plan.tiles import (
    Division,
    TileChoice,
    choose_least_time,
    in_one_iteration,
    why_kept,
)
from mugraph.passes.mugraph.retile import regroup, retile
from mugraph.passes.mugraph.retile.dimensions import TileSpace, find_dimensions
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.outline import find_outlined, outline
from mugraph.passes.mugraph.retile.partition import choose_partition, partition_of
from mugraph.passes.mugraph.retile.running_maxima import drop_weights, take_out_running_maxima
from mugraph.passes.schedule.pipeline_loads.stages import choose_stages
from mugraph.passes.targets import Target

LAUNCHES_LONG = 5
"""Launches that a kernel must last to be long.

A batch norm of 64 x 2048 x 16, estimated at 4.0 us, took 4.04 on an H200 with the next kernel early
and 3.49 with it late (``benchmarks/results/concatenations_h200.md``); a group norm of 64 x 2048 x
16, estimated at 5.7, 4.15 and 4.26."""

STREAMED, STREAMED_TURNS = 4, 64
"""Stages of kernels that stream a matrix of weights for a row, in so many iterations or more.

With logits of a row, 151,936 x 4096 in bf16 and 64 of the depth an iteration, a step of two layers
took 425 us on an H200, 432 with three stages and 429 with six
(``benchmarks/results/narrow_weights_h200.md``).  Shorter loops were not timed so."""


@contextmanager
def trial_of(graph: CustomizedOp, plan: Plan | None = None) -> Generator[CustomizedOp]:
    """A copy of a kernel, in a copy of its function, to ask what a change would cost.

    Kernels behind it are empty there, but where its own plan, or ``plan``, merges one with it.
    """
    block = graph.parent
    assert block is not None
    function = block.parent_op()
    assert function is not None
    merges = (plan or graph.decided).merge
    trial, copy = function.clone_without_regions(), Block(arg_types=block.arg_types)
    trial.regions[0].add_block(copy)
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, copy.args, strict=True))
    copies: dict[Operation, Operation] = {}
    for op in block.ops:
        if isinstance(op, CustomizedOp) and graph in copies and not merges:
            copies[op] = op.clone_without_regions(values)
            copies[op].regions[0].add_block(Block(arg_types=op.body.block.arg_types))
        else:
            copies[op] = op.clone(values)
    copy.add_ops(copies.values())
    own = copies[graph]
    assert isinstance(own, CustomizedOp)
    try:
        yield own
    finally:
        trial.erase()


def filled_plan(graph: CustomizedOp, plan: Plan, target: Target) -> Plan:
    """A kernel's plan with what an estimate decides; what is written stays.

    A kernel whose tiles are as written is left as it is.
    """
    if plan.tiles is not None:
        return plan
    written = plan
    if not plan.cuts():
        with suppress(RetileError):
            combination = plan.over(plan_combination(graph, target))
            require_cuttable(graph, combination)
            plan = combination
    # Asked of the kernel as it is: without its running maxima other operators have one operand.
    may_outline = plan.outline is None and bool(find_outlined(graph))
    with trial_of(graph, plan) as trial:
        try:
            space = space_of(trial, plan)
            if not plan.cuts():
                plan = plan.over(chosen_tiles(space, target, plan, may_outline=may_outline))
                require_cuttable(graph, plan)
            shape = shape_under(space, choose_partition(space, plan))
        except RetileError:
            return written  # --retile says why, where that asks for what cannot be
    shape = shape.divided(plan.split_k or 1)
    early = has_weights(graph) and leaves_room(shape, target)
    alone = lets_next_start(graph, shape, target)
    is_whole = plan.loads is None and plan.split_k in (None, 1)
    if is_whole and holds_weights(graph, shape, target):
        every = Plan(loads="cp_async", stages=(shape.iterations,), pdl="early")
        return plan.over(replace(every, preferred=("stages",)))
    few = is_whole and takes_few_turns(graph, shape, target)
    if plan.needs_producer() or (producer_pays(shape, target) and not few):
        # A loop of one iteration has a producer only where that is said.
        loads = None if shape.iterations > 1 else "tma"
        stages = (1,) if loads is None and waits_to_start(shape, target) else None
        parts = (("loads", loads), ("stages", stages))
        preferred = tuple(name for name, part in parts if part) or None
        start = "early" if early else "end"
        return plan.over(Plan(pdl=start, loads=loads, stages=stages, preferred=preferred))
    meanwhile = early and brings_weights(graph) and waits_for_few_blocks(graph, target)
    if few and not meanwhile and waits_for_shorter(graph) and stages_beside(shape, target):
        beside = Plan(loads="cp_async", stages=(stages_beside(shape, target),), pdl="early")
        return plan.over(replace(beside, preferred=("stages",)))
    streams = streams_weights(graph, shape, target)
    loads = loads_by_threads(
        shape, target, early=early or alone, meanwhile=meanwhile, streams=streams
    )
    return plan.over(replace(loads, pdl="end") if comes_before_states(graph) else loads)


def time_under(graph: CustomizedOp, plan: Plan, target: Target) -> float | None:
    """Nanoseconds of a kernel that is cut as a whole plan says; ``None`` where it cannot be.

    Of a plan that outlines what blocks share only the kernel that is left counts.
    """
    with trial_of(graph, plan) as trial:
        try:
            space = space_of(outline(trial)[1] if plan.outline else trial, plan)
            partition = choose_partition(space, plan)
        except RetileError:
            return None
        kernel = KernelModel.of(space, partition.looped()).under(partition)
        division = Division(kernel, plan.split_k or 1)
        return division.time(division.shape(math.prod(partition.block)), target)


def why_tiles_stay(graph: CustomizedOp, target: Target) -> str:
    """A clause for a user: why no other tiles are chosen for a kernel that may have others."""
    with trial_of(graph) as trial:
        try:
            return why_kept(space_of(trial, graph.decided), target)
        except RetileError as error:
            return str(error)


def space_of(trial: CustomizedOp, plan: Plan) -> TileSpace:
    """The dimensions that a kernel has once its plan has regrouped operators.

    Raises :class:`RetileError` where that cannot be, or where a running maximum stays.
    """
    trial.decided = plan
    trial = regroup(trial)
    take_out_running_maxima(trial)
    drop_weights(trial)
    return find_dimensions(trial)


def require_cuttable(graph: CustomizedOp, plan: Plan) -> None:
    """Raises ``RetileError`` where a kernel cannot be cut as its plan says."""
    with trial_of(graph, plan) as trial:
        trial.decided = plan
        retile(trial)


def chosen_tiles(space: TileSpace, target: Target, written: Plan, *, may_outline: bool) -> Plan:
    """How a kernel should be cut, and whether what its blocks compute alike is outlined."""
    choice = choose_least_time(space, target, written)
    if choice is None:
        return Plan()
    choice = in_one_iteration(space, choice, target, written)
    if may_outline and find_outlined(space.graph):
        with trial_of(space.graph) as trial:
            before, rest = outline(trial)
            own = find_dimensions(rest)
            others = [
                choose_least_time(find_dimensions(kernel), target, Plan()) for kernel in before
            ]
            outlined = choose_least_time(own, target, written)
            times = [other.time - OVERLAP_NS for other in others if other is not None]
            if outlined is not None and outlined.time + sum(times) < choice.time:
                return replace(tiles_of(own, outlined), outline=True)
    in_turn = with_ping_pong(space, choice, written, target) if may_alternate(written) else None
    if in_turn is None:
        return tiles_of(space, choice)
    return replace(tiles_of(space, in_turn), ping_pong=2, preferred=("ping_pong",))


def may_alternate(written: Plan) -> bool:
    """Whether a plan leaves room for ping-pong."""
    return (
        written.ping_pong != 1
        and written.persistent is not False
        and written.loads != "cp_async"
        and not written.swap_ab
    )


def with_ping_pong(
    space: TileSpace, choice: TileChoice, written: Plan, target: Target
) -> TileChoice | None:
    """The tiles of two consumers of a warp group each in turn; ``None`` where one is better.

    Two have smaller tiles, so that more is loaded for each result.  It pays where the epilogues,
    beside which others multiply then, take longer than that.
    """
    shape = shape_under(space, choice.partition)
    if any(product.promoted for product in shape.loop.products):
        return None  # others multiply while a group adds up what it has
    persists = choice.split == 1 and can_persist(shape, target)
    if not persists or not (shape.threads == 2 * GROUP_THREADS or stands_alone(shape, target)):
        return None
    asked = replace(written, ping_pong=2, split_k=1)
    halves = choose_least_time(space, target, asked)
    if halves is None:
        return None
    own = shape_under(space, halves.partition)
    ring = ring_of(own, target)
    if ring is None or halves.time - time_in_epilogues(own, ring, target) >= choice.time:
        return None
    return halves if can_have(space, halves.partition, own, asked, target) else None


def stands_alone(shape: KernelShape, target: Target) -> bool:
    """Whether one warp group multiplies on a multiprocessor, so that none does in its epilogues."""
    ring = ring_of(shape, target)
    return shape.threads == GROUP_THREADS and ring is not None and ring.resident == 1


def tiles_of(space: TileSpace, choice: TileChoice) -> Plan:
    """The parts of a plan that lead to a chosen partition; none where it is the present one."""
    old, new = partition_of(space), choice.partition
    along = [-1] * len(AXES)
    numbers = space.numbers[space.outputs()[0].stensor]
    for axis in range(len(AXES)):
        if new.cut_by(axis) != old.cut_by(axis):
            cut = [dim for dim, number in enumerate(numbers) if number in new.cut_by(axis)]
            along[axis] = cut[0] if cut else -1
    uneven = [0 if number is None else new.cuts[number].tile or 0 for number in numbers]
    loop_tiles = {new.cuts[number].tile for number in new.looped()} - {None}
    return Plan(
        grid=new.grid if new.grid != old.grid else None,
        along=tuple(along) if max(along) >= 0 else None,
        forloop=new.forloop if new.forloop != old.forloop else None,
        tile=tuple(uneven) if any(uneven) else None,
        loop_tile=loop_tiles.pop() if loop_tiles else None,
        block=new.block if new.block != old.block else None,
        split_k=choice.split if choice.split > 1 else None,
    )


def loads_by_threads(
    shape: KernelShape, target: Target, *, early: bool, meanwhile: bool, streams: bool
) -> Plan:
    """How far ahead all threads load, and when the next kernel may start.

    A producer keeps as many bytes on their way as the memory needs, so that what starts beside it
    only takes from it: its next kernel starts at its end.  Where all threads load, they are late.
    A long kernel that only brings and stores each tile once hides the next one's launch, and so
    does one that is to begin it ``early``.  ``meanwhile``: it waits for a kernel of few blocks.
    ``streams``: it brings weights for a row.
    """
    stages = stages_by_threads(shape, target, meanwhile=meanwhile, streams=streams)
    preferred = None if stages is None else ("stages",)
    start = "early" if early or streams_long(shape, target) else "late"
    return Plan(loads="cp_async", stages=stages, pdl=start, preferred=preferred)


def streams_long(shape: KernelShape, target: Target) -> bool:
    """Whether a kernel without products loads all tiles at once, and lasts some launches.

    Beside a shorter one the blocks of the next kernel are only in the way.
    Source: ``benchmarks/results/h200_plans.md``, of two kernels.
    """
    time = estimate(shape, target)
    products = shape.loop.products or shape.after.products
    once = shape.iterations == 1 and not products
    return once and time is not None and time > LAUNCHES_LONG * LAUNCH_NS


def stages_by_threads(
    shape: KernelShape, target: Target, *, meanwhile: bool = False, streams: bool = False
) -> tuple[int, ...] | None:
    """More stages than ``--lower-threadblock`` takes where few blocks load, or for either reason.

    It takes as many bytes as Little's law says of all multiprocessors; requests come in bursts.
    Where threads wait for what they load, more stages leave room for fewer blocks: 1 x 50257 x 1001
    took 37.8 us on an H200, with two stages 46.4 and with three 56.7.

    Where few blocks run in the last round, they need more stages than all of them do: as many more
    are taken as leave the number of rounds.  Decode of 64 x 8 heads over 16,384 keys took 1121 us
    on an H200 in two rounds of three blocks and two stages, 959 in two rounds of two blocks and
    three stages, 1029 in four of one and four stages; of 53 x 8 heads over 10,000 keys 657, 519 and
    608.
    """
    if shape.loading.waited_for:
        return (1,)
    own = stages_in_flight(shape.blocks, shape, target)
    rounds = _rounds(shape, own, target)
    last = shape.blocks - sum(rounds[:-1])
    most = max(own, stages_in_flight(last, shape, target))
    alike = (n for n in range(own, most + 1) if len(_rounds(shape, n, target)) == len(rounds))
    wanted = max(*alike, stages_meanwhile(shape, target) if meanwhile else 1)
    if streams and len(_rounds(shape, STREAMED, target)) == len(rounds):
        wanted = max(wanted, STREAMED)
    taken = choose_stages(shape.loop_bytes, shape.blocks, shape.iterations, 0, target)
    return (wanted,) if wanted > taken else None


def streams_weights(graph: CustomizedOp, shape: KernelShape, target: Target) -> bool:
    """Whether blocks of several rounds wait for weights that are multiplied by one row."""
    alone = len(shape.loop.products) == 1 and not shape.loop.chained and not shape.loop.converts
    if not alone or shape.loop.products[0].sizes[0] > 1 or not brings_weights(graph):
        return False
    if shape.iterations < STREAMED_TURNS:
        return False
    own = stages_in_flight(shape.blocks, shape, target)
    moved = device_ns(shape.loading.tensor_bytes, target)
    return len(_rounds(shape, own, target)) > 1 and 2 * shape.product_ns(target) < moved


def _rounds(shape: KernelShape, stages: int, target: Target) -> list[int]:
    """How many blocks run in each round of those that run at once."""
    at_once = resident_blocks(shape, stages, target) * target.multiprocessors
    return [min(at_once, shape.blocks - first) for first in range(0, shape.blocks, at_once)]


def producer_pays(shape: KernelShape, target: Target) -> bool:
    """Whether a producer would pay where bulk copies can bring the tiles.

    A loop whose tiles are all on their way before it begins needs nobody to load.  Where warps
    exchange what products pass on through shared memory, the block's barriers hold up a producer's
    stages as long as they hold up its own loads.  Source: ``benchmarks/results/h200_plans.md``.
    """
    stages = stages_of(shape, target) or 1
    meets = any(
        work.chained and not work.stays_in_registers(shape.threads, target.warp_size)
        for work in (shape.loop, shape.after)
    )
    waits = shape.iterations > stages or is_chain(shape, stages, target)
    return waits and not meets and shape.prefers_bulk(target)


def waits_to_start(shape: KernelShape, target: Target) -> bool:
    """Whether more blocks beside each other gain more than stages do.

    A warp group that multiplies a chain of a few iterations waits for its first tiles about as long
    as it computes.  With one stage, and so three blocks instead of two, 160 x 4 prompts of 743
    tokens took 234 us on an H200 instead of 274, and 64 x 5 of 1024 tokens 194 instead of 218.
    """
    stages = stages_of(shape, target) or 1
    return (
        is_chain(shape, stages, target)
        and gains_blocks(shape, target)
        and chain_ns(shape, 1, target) < chain_ns(shape, stages, target)
    )
