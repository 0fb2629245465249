"""``--combine-in-clusters``: blocks combine the parts that they compute in shared memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.tensor_types import (
    base_layout,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.passes.each import TargetPass
from mugraph.passes.program.plan_dtensor_memory import plan_anew
from mugraph.passes.schedule.analysis.hazards.clusters import read_across_clusters
from mugraph.passes.targets import Target

PART_ELEMENTS = 32
"""The part of a cluster has a multiple of so many elements, so that vectors are aligned."""


@dataclass(frozen=True)
class Pair:
    """Kernels of which one consumes what the other computes, in all of their launches."""

    launches: list[tuple[sched.LaunchOp, sched.LaunchOp]]
    size: int
    """The blocks of a cluster."""


def cluster_of(producer: sched.LaunchOp, consumer: sched.LaunchOp, target: Target) -> int:
    """Choice: of how many blocks clusters are in which one kernel could consume another's; or 0.

    All run at once, and the last axis of the grid counts the blocks of a cluster.
    """
    kernels = (producer.resolve(), consumer.resolve())
    size = next((extent for extent in reversed(kernels[0].grid_dim) if extent > 1), 1)
    placed = all(kernel.smem_bytes is not None for kernel in kernels)
    small = producer.task_count() <= target.multiprocessors
    if not placed or target.blocks_per_cluster % size or not (small or is_planned(consumer)):
        return 0
    alike = consumer.consumed(producer) and consumer.cluster_fault(producer, size) is None
    return size if alike else 0


def is_planned(consumer: sched.LaunchOp) -> bool:
    """Whether the plan of a kernel says that its blocks are those of clusters."""
    return bool(consumer.resolve().decided.clusters)


def computes_early(producer: sched.LaunchOp, consumer: sched.LaunchOp) -> bool:
    """Whether all that a kernel reads is there before its producer, or is its result.

    A cluster runs before what stands between the two: views of other tensors.
    """
    return all(
        not isinstance(owner := value.owner, Operation)
        or owner is producer
        or owner.is_before_in_block(producer)
        for value in consumer.arguments
    )


def pairs_in(
    function: FuncOp, target: Target
) -> Iterator[tuple[sched.LaunchOp, sched.LaunchOp, int]]:
    """Analysis: launches of one kernel each, one after the other, that could be one of clusters.

    With how many blocks a cluster would have.
    """
    producer: sched.LaunchOp | None = None
    for launch in launches_of(
        op for op in function.body.block.ops if not isinstance(op, SharesMemory)
    ):
        op = launch[0] if len(launch) == 1 else None
        consumer = op if isinstance(op, sched.LaunchOp) else None
        if producer and consumer and (size := cluster_of(producer, consumer, target)):
            yield producer, consumer, size
            consumer = None
        producer = consumer


def pairs_of(module: ModuleOp, target: Target) -> Iterator[Pair]:
    """Choice: kernels for clusters: by their plans, or in programs with weights.

    Tasks of persistent kernels wait for what shares their memory as it was planned, so that
    programs with tasks stay as they are.
    """
    found: dict[tuple[object, ...], Pair] = {}
    launches: Counter[sched.KernelOp] = Counter()
    for function in module.walk():
        if not isinstance(function, FuncOp) or is_foreign(function):
            continue
        own = [op for op in function.walk() if isinstance(op, sched.LaunchOp)]
        launches.update(op.resolve() for op in own)
        weights = any(op.resolve().constant_inputs for op in own)
        if len(function.body.blocks) == 1 and not any(map(is_task, function.walk())):
            for producer, consumer, size in pairs_in(function, target):
                planned = is_planned(consumer)
                if planned != consumer.is_of_each_block(producer) or not (planned or weights):
                    continue
                if not planned and not computes_early(producer, consumer):
                    continue
                kernels = (producer.resolve(), consumer.resolve())
                alike = (*kernels, consumer.consumed(producer))
                found.setdefault(alike, Pair([], size)).launches.append((producer, consumer))
    for pair in found.values():
        if all(launches[each.resolve()] == len(pair.launches) for each in pair.launches[0]):
            yield pair


def layout_in_clusters(tile: sched.LocalTileOp) -> Layout | None:
    """Choice: how a tensor lies where what each cluster writes of it lies in one place.

    ``None`` where blocks cut a dimension along which their tiles are longer than one.
    """
    shape, own = shape_of(tile.source.type), strides_of(resolved_layout_of(tile.source))
    outer = [dim for dim in tile.map_ if dim >= 0][:-1]
    if any(shape_of(tile.result.type)[dim] != 1 for dim in outer):
        return None
    strides, reached = list(own), 1
    for dim in sorted(set(range(len(shape))) - set(outer), key=lambda dim: own[dim]):
        keeps = reached <= own[dim] < 2 * reached
        strides[dim] = own[dim] if keeps else reached
        reached = strides[dim] * shape[dim]
    reached = -(-reached // PART_ELEMENTS) * PART_ELEMENTS
    for dim in outer:
        strides[dim] = reached
        reached *= shape[dim]
    return Layout(tuple(shape), tuple(strides))


def lay(kernel: sched.KernelOp, parameter: int, layout: Layout) -> Layout:
    """Rewrite: lays a tensor of a kernel, and tiles of it, so; returns how it lay."""
    value = kernel.body.block.args[parameter]
    before = base_layout(resolved_layout_of(value))
    for use in list(value.uses):
        if isinstance(tile := use.operation, sched.LocalTileOp):
            own = Layout(tuple(shape_of(tile.result.type)), layout.stride)
            Rewriter.replace_value_with_new_type(tile.result, with_layout(tile.result.type, own))
    Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))
    return before


def layouts_of(
    producer: sched.LaunchOp, consumer: sched.LaunchOp
) -> dict[tuple[sched.KernelOp, int], Layout]:
    """Choice: how tensors between two kernels lie, by their parameters; empty if they cannot.

    Rows that are planned for clusters have theirs in one place as they lie.
    """
    front, layouts = producer.resolve(), dict[tuple[sched.KernelOp, int], Layout]()
    if is_planned(consumer):
        return {
            place: base_layout(resolved_layout_of(place[0].body.block.args[place[1]]))
            for output, index in consumer.consumed(producer)
            for place in ((front, output), (consumer.resolve(), index))
        }
    for output, index in consumer.consumed(producer):
        (tile,) = (use.operation for use in front.body.block.args[output].uses)
        assert isinstance(tile, sched.LocalTileOp)  # as verified
        layout = layout_in_clusters(tile)
        if layout is None:
            return {}
        layouts[front, output] = layouts[consumer.resolve(), index] = layout
    return layouts


def load_at_once(kernel: sched.KernelOp, parameter: int) -> None:
    """Rewrite: lets threads load a tensor in shared memory; asynchronous copies cannot."""
    for use in kernel.body.block.args[parameter].uses:
        for read in use.operation.results[0].uses:
            if isinstance(read.operation, sched.CopyOp):
                read.operation.asynchronous = None


def require_clusters(module: ModuleOp, target: Target) -> None:
    """Raises ``PassFailedException`` where a plan asks for clusters that a kernel cannot have."""
    for launch in module.walk():
        if not isinstance(launch, sched.LaunchOp) or launch.cluster is not None:
            continue
        if not launch.resolve().decided.requires("clusters") or not is_planned(launch):
            continue
        sizes = [2**power for power in range(1, target.blocks_per_cluster.bit_length())]
        needed = (
            "the kernel in front must have as many blocks, compute parts of the rows that it goes "
            "on with, for it alone, and store them as one number a block, those of a row along the "
            f"last axis of a grid, {', '.join(map(str, sizes))}"
        )
        raise PassFailedException(
            f"--combine-in-clusters: {op_label(launch.resolve())} cannot have clusters = true: "
            f"{needed if sizes else f'{target.name} has none'}; leave it out, or write "
            "preferred = [clusters]"
        )


def combine_in_clusters(pair: Pair) -> None:
    """Rewrite: lets clusters run both kernels."""
    producer, consumer = pair.launches[0]
    for _output, index in consumer.consumed(producer):
        load_at_once(consumer.resolve(), index)
    for producer, consumer in pair.launches:
        if not is_planned(consumer):
            block = producer.parent
            assert block is not None
            consumer.detach()
            block.insert_op_after(consumer, producer)
        consumer.set_joined()
        consumer.cluster = IntegerAttr(pair.size, i64)
        for _output, index in consumer.consumed(producer):
            value = consumer.arguments[index]
            layout = resolved_layout_of(consumer.resolve().body.block.args[index])
            Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))


class CombineInClustersPass(TargetPass):
    """Lets the blocks that compute parts combine them, by distributed shared memory.

    The pass joins a kernel that computes parts of tiles with the next kernel, if that one has a
    block for each of these tiles and no more threads, and nothing else reads the parts. The blocks
    that compute the parts of one tile are a cluster (``cluster`` on the launch). They write the
    parts to shared memory of the first block, which combines them. The tensors get layouts in which
    the parts of a tile lie in one place. Only programs with weights are changed, and only kernels
    whose blocks all run at once. Clusters have sizes that all devices of the target support.

    A kernel whose plan says ``clusters`` goes on with rows of which the kernel in front computes
    parts, such as the largest element and the sum.  It has as many blocks.  Each block of a cluster
    gives the numbers of its part to all others, and then runs its own block of that kernel.

    The workspace is planned anew.  Pre-condition: ``--join-launches``.

    Before::

        %p = sched.launch @f_custom0 %q, %k : ...
        %o = sched.launch @f_custom1 %p : ...

    After::

        %p = sched.launch @f_custom0 %q, %k : ...
        %o = sched.launch @f_custom1 %p cluster 8 {kn.joined} : ...
    """

    name = "combine-in-clusters"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function of the module."""
        target = self.target
        changed: list[sched.LaunchOp] = []
        for pair in list(pairs_of(op, target)):
            layouts = layouts_of(*pair.launches[0])
            before = {place: lay(*place, layout) for place, layout in layouts.items()}
            fit = bool(layouts) and all(
                read_across_clusters(*launches, pair.size) is None
                and launches[1].cluster_tensors(launches[0], pair.size)[1]
                <= target.shared_memory_per_block
                for launches in pair.launches
            )
            if not fit:
                for place, layout in before.items():
                    lay(*place, layout)
                continue
            combine_in_clusters(pair)
            changed += [producer for producer, _ in pair.launches]
        require_clusters(op, target)
        plan_anew(changed)
