"""What an estimate of its time decides of a kernel's plan."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects.alignment import row_alignment
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import CustomizedOp, RegroupOp
from mugraph.dialects.maps import AXES
from mugraph.dialects.plan import Plan
from mugraph.dialects.programming_model import GROUP_THREADS, VECTOR_BYTES
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.kernels import (
    OVERLAP_NS,
    ring_of,
    time_in_epilogues,
)
from mugraph.passes.mugraph.plan.clusters import plan_combination
from mugraph.passes.mugraph.plan.division import Division
from mugraph.passes.mugraph.plan.loading import CutKernel, how_it_loads
from mugraph.passes.mugraph.plan.parts import can_have, can_persist
from mugraph.passes.mugraph.plan.shape import KernelModel, shape_under
from mugraph.passes.mugraph.plan.tile_choice import TileChoice
from mugraph.passes.mugraph.plan.tiles import (
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
from mugraph.passes.targets import Target

MOST_ITERATIONS = 32
"""Up to which two consumers alternate where threads store results.

Products of 50,257 and 32,001 columns took 0.77 to 0.82 of the time of two consumers together on an
H200 at depths of 768 to 2048, 0.92 and 1.03 at 3584, and 1.03 at 4096, in tiles of 64 of the depth
(``benchmarks/results/odd_rows_h200.md``).
"""
NEAR = 2
"""Of how many tensors in a row a change of a kernel looks at who makes and who uses them.

It looks at one: a kernel is merged with what uses its results, or computes what makes its operands.
"""


@contextmanager
def trial_of(graph: CustomizedOp, plan: Plan | None = None) -> Generator[CustomizedOp]:
    """A copy of a kernel, in a copy of its function, to ask what a change would cost.

    The function has there only what is :data:`NEAR` the kernel, which uses what is farther away
    where that stands.  Kernels behind it are empty, but where its own plan, or ``plan``, merges one
    with it.
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
    near = _near(graph)
    for op in block.ops:
        if op not in near and not isinstance(op, ReturnOp):
            continue
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


def _near(graph: CustomizedOp) -> set[Operation]:
    """The operators of a kernel's function that are tied to it by at most :data:`NEAR` tensors.

    What makes a tensor and all that use it are tied by it; views do not count.
    """
    block = graph.parent
    distances: dict[Operation, int] = {graph: 0}
    waiting = deque[Operation]([graph])
    while waiting:
        op = waiting.popleft()
        if distances[op] == NEAR:
            continue
        tensors = [*op.results, *(each for each in op.operands if each.owner is not block)]
        tied = [each.owner for each in tensors]
        tied += [use.operation for each in tensors for use in each.uses]
        for other in tied:
            if not isinstance(other, Operation) or isinstance(other, ReturnOp):
                continue
            is_view = isinstance(other, SharesMemory | RegroupOp)
            distance = distances[op] + (not is_view)
            if distance <= NEAR and distance < distances.get(other, NEAR + 1):
                distances[other] = distance
                (waiting.appendleft if is_view else waiting.append)(other)
    return {*distances}


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
    return plan.over(how_it_loads(CutKernel(graph, plan, shape, target)))


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
    beside which others multiply then, take longer than that, or where threads store
    (:func:`waits_for_stores`).
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
    gained = 0.0 if ring is None else time_in_epilogues(own, ring, target)
    stores = waits_for_stores(space, shape, target) and own.iterations <= MOST_ITERATIONS
    if ring is None or (not stores and halves.time - gained >= choice.time):
        return None
    return halves if can_have(space, halves.partition, own, asked, target) else None


def waits_for_stores(space: TileSpace, shape: KernelShape, target: Target) -> bool:
    """Whether nothing multiplies on a multiprocessor while threads store results.

    They store rows that start anywhere, in blocks that are not persistent unless two consumers
    alternate (``--persist-blocks``).
    """
    ring = ring_of(shape, target)
    shifted = any(row_alignment(each) < VECTOR_BYTES for each in space.graph.results)
    return shifted and ring is not None and ring.resident == 1


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
