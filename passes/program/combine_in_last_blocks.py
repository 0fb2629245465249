"""``--combine-in-last-blocks``: the last block that computes a part of a tile combines all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import kn, sched
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES, memory_root
from mugraph.dialects.sched.programs import is_task
from mugraph.passes.each import FunctionPass, TargetPass
from mugraph.passes.memory.lifetimes import views_of
from mugraph.passes.memory.packing.allocate import aligned
from mugraph.passes.program.plan_dtensor_memory import ALIGNMENT, plan_dtensor_memory
from mugraph.passes.schedule.analysis.hazards.last_blocks import read_of_others
from mugraph.passes.targets import Target

COUNTING_BYTES = 128
"""What ``tb::is_last`` takes of shared memory besides, with what aligns the rest behind it."""


def fits(launches: Sequence[sched.LaunchOp], consumer: sched.LaunchOp, target: Target) -> bool:
    """Analysis: whether blocks of a launch have room for those of a consumer, and to count."""
    needed = max(each.resolve().smem_bytes or 0 for each in (*launches, consumer))
    return needed + COUNTING_BYTES <= target.shared_memory_per_block


def numbers_needed(launch: sched.LaunchOp) -> list[SSAValue]:
    """Analysis: the tensors with the numbers of rows that a launch stores."""
    stored = [
        use.operation
        for output in launch.outputs
        for seen in views_of(output)
        for use in seen.uses
        if isinstance(use.operation, kn.ScatterOp) and use.operation.is_stored
    ]
    return [memory_root(scatter.rows) for scatter in stored]


def is_there(value: SSAValue, launch: sched.LaunchOp) -> bool:
    """Analysis: whether what computes or views a tensor stands in front of a launch."""
    owner = value.owner
    return not isinstance(owner, Operation) or owner.is_before_in_block(launch)


def producer_in(
    launches: Sequence[sched.LaunchOp], consumer: sched.LaunchOp, target: Target
) -> sched.LaunchOp | None:
    """Choice: the kernel of one launch whose last blocks could run a consumer of its parts.

    The consumer needs nothing else that this launch, or one behind it, computes.
    """
    sources = [each for each in launches if consumer.consumed(each)]
    if len(sources) != 1:
        return None
    (producer,) = sources
    others = [value for value in consumer.arguments if value.owner is not producer]
    others += numbers_needed(consumer)
    size = producer.task_count() // consumer.task_count()
    if consumer.last_fault(producer, size) is not None or not fits(launches, consumer, target):
        return None
    if not all(is_there(value, launches[0]) for value in others):
        return None
    return producer if read_of_others(producer, consumer) is None else None


def pairs_in(function: FuncOp, target: Target) -> Iterator[tuple[sched.LaunchOp, sched.LaunchOp]]:
    """Choice: producers that share a launch, of which one brings weights, and their consumers.

    One of each launch.  A kernel alone is left to ``--combine-in-clusters``: other blocks than
    those that compute parts are what the last ones need not wait for.
    """
    open_: list[list[sched.LaunchOp]] = []
    for launch in launches_of(function.body.block.ops):
        launches = [op for op in launch if isinstance(op, sched.LaunchOp)]
        if len(launches) == 1 and len(launch) == 1:
            found = [(each, op) for each in open_ if (op := producer_in(each, launches[0], target))]
            for together, producer in found[:1]:
                open_.remove(together)
                yield producer, launches[0]
            continue
        own = len(launches) == len(launch) and all(op.has_blocks for op in launches)
        if own and any(op.resolve().constant_inputs for op in launches):
            open_.append(launches)


def combine_in_last_blocks(function: FuncOp, target: Target) -> None:
    """Rewrite: puts consumers behind their producers, and counters behind the workspace."""
    pairs = list(pairs_in(function, target))
    if not pairs:
        return
    for producer, consumer in pairs:
        block = producer.parent
        assert block is not None
        consumer.detach()
        block.insert_op_after(consumer, producer)
        consumer.set_joined()
        size = producer.task_count() // consumer.task_count()
        consumer.last = IntegerAttr(size, i64)
    plan_dtensor_memory(function)
    planned = function.attributes[WORKSPACE_BYTES]
    assert isinstance(planned, IntegerAttr)
    start = aligned(planned.value.data, ALIGNMENT)
    end = start
    for _, consumer in pairs:
        consumer.counters = IntegerAttr(start, i64)
        assert consumer.counter_bytes is not None
        end = max(end, consumer.counter_bytes.stop)
    function.attributes[WORKSPACE_BYTES] = IntegerAttr(end, i64)


class CombineInLastBlocksPass(TargetPass, FunctionPass):
    """Lets the last block that computes a part of a tile combine the parts.

    The pass takes kernels that share a launch, of which one computes parts of tiles that another
    kernel combines: keys in parts beside queries and values.  The combining kernel needs no launch
    then.  Each block counts in device memory once it has stored its part, and the one that counts
    last runs the block of the combining kernel.  No block waits for another one.  Parts are summed
    in their order, whichever block is last.  Counters lie behind the workspace; a call sets
    them to zero, and each launch leaves them so.  Only kernels that start early, in programs of one
    block of operators, and only launches of several kernels that bring weights.  The workspace is
    planned anew.  Pre-condition: ``--store-rows``.

    Before::

        %q = sched.launch @f_custom0 %x, %v : ...
        %p = sched.launch @f_custom1 %x, %w {kn.joined} : ...
        %k = sched.launch @f_custom2 %p : ...

    After::

        %q = sched.launch @f_custom0 %x, %v : ...
        %p = sched.launch @f_custom1 %x, %w {kn.joined} : ...
        %k = sched.launch @f_custom2 %p last 8 counters 4096 {kn.joined} : ...
    """

    name = "combine-in-last-blocks"

    def run(self, function: FuncOp) -> None:
        """Rewrites a µGraph whose workspace is planned."""
        planned = WORKSPACE_BYTES in function.attributes and len(function.body.blocks) == 1
        if planned and not any(map(is_task, function.walk())):
            combine_in_last_blocks(function, self.target)
