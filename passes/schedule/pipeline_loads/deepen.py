"""More stages of rings, once it is known what else a block keeps in shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.channel import RunsAtIteration
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.passes.schedule.pipeline_loads.rings import (
    feeds_of,
    producer_of,
    set_stages,
    wanted_stages,
)
from mugraph.passes.schedule.pipeline_loads.stages import Stages
from mugraph.passes.targets import Target


def ring_choices(kernel: sched.KernelOp, resident: int, target: Target) -> Iterator[Stages]:
    """The stages that rings may have, as many as they should have first, at last those they have.

    The latter alone where its plan says how many there are, or where consumers that alternate need
    room for a result each.
    """
    moving = [feed for feed in feeds_of(kernel) if feed.moves]
    present = tuple(feed.stages for feed in moving)
    stages = present
    if kernel.decided.stages is None and (kernel.decided.ping_pong or 1) == 1:
        stages = wanted_stages(kernel, moving, resident, target)
    while any(one > other for one, other in zip(stages, present, strict=True)):
        if max(stages) < loop_iterations(kernel):
            yield tuple(map(max, stages, present))
        stages = tuple(count - 1 for count in stages)
    yield present


def deepen_rings(kernel: sched.KernelOp, stages: Stages) -> None:
    """Rewrite: rings of so many stages, none of which is less than before.

    Further stages are filled before the loop, and the loop fills as far ahead of itself.
    """
    producer = producer_of(kernel)
    assert producer is not None  # it has rings
    moving = [feed for feed in feeds_of(kernel) if feed.moves]
    rings: dict[SSAValue, int] = {
        feed.channel.result: count for feed, count in zip(moving, stages, strict=True)
    }
    fills = [op for op in producer.walk() if isinstance(op, sched.ProduceOp)]
    before = [op for op in fills if op.channel in rings and op.fixed_iteration is not None]
    last = before[-1]
    for iteration in range(max(stages)):
        for channel, count in rings.items():
            own = [op for op in before if op.channel is channel]
            if len(own) <= iteration < count:
                fill = own[0].clone()
                _move_to(fill, "iteration", iteration)
                Rewriter.insert_op(fill, InsertPoint.after(last))
                last = fill
    for op in fills:
        if op.channel in rings and op.fixed_iteration is None:
            _move_to(op, "ahead", rings[op.channel])
    set_stages(moving, stages)


def _move_to(fill: sched.ProduceOp, name: str, number: int) -> None:
    """Lets a fill, and its copies, be of another iteration."""
    for op in fill.walk():
        if isinstance(op, RunsAtIteration):
            op.properties[name] = IntegerAttr(number, i64)
