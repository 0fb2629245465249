"""Kernels that combine parts of sums in the blocks that compute them, as clusters or last ones."""

from __future__ import annotations

import math

from xdsl.ir import BlockArgument

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.mugraph.plan.early import FEW_ROWS, brings_mostly_weights, has_weights
from mugraph.passes.targets import Target

COMBINED_NS = 1000.0
"""What a kernel that combines parts takes less in clusters of the one that computes them.

A step of Llama-3.2-1B, 16 layers, takes 803 us on an H200 with it, and 811 without; with the
largest carve-out of shared memory 771 and 784 (``benchmarks/results/decode_layers_h200.md``).
"""

ATTENTION_COMBINED_NS = 1200.0
"""The same of attention, whose blocks may load their table before they wait.

Two layers of Qwen3-8B take 486.8 us on an H200 with attention in 8 parts in clusters, and 489.2
with 23 parts and a kernel that combines them.
"""


def may_combine_in_clusters(graph: CustomizedOp, blocks: int, parts: int, target: Target) -> bool:
    """Whether blocks that compute so many parts of each sum may be clusters that combine them.

    They are those of a program with weights, all of which run at once.  Blocks that bring weights
    start long before they may use them, and share launches; those of a norm inside of attention
    are few, and count for nothing.
    """
    fits = parts > 1 and target.blocks_per_cluster % parts == 0 and blocks <= target.multiprocessors
    return fits and has_weights(graph) and not brings_mostly_weights(graph)


def producer_of_parts(graph: CustomizedOp) -> CustomizedOp | None:
    """The kernel whose parts a kernel combines, all in its loop; ``None`` if it does not."""
    if graph.decided.split_k != 1:
        return None
    owners = {
        graph.operands[op.dtensor.index].owner
        for op in graph.body.block.ops
        if isinstance(op, tb.InputOp) and op.loop_dim >= 0 and isinstance(op.dtensor, BlockArgument)
    }
    producer = owners.pop() if len(owners) == 1 else None
    return producer if isinstance(producer, CustomizedOp) else None


def may_combine_in_last_blocks(graph: CustomizedOp, producer: CustomizedOp) -> bool:
    """Whether the last of the blocks that compute parts of few rows may combine them.

    They bring weights.  Of one row other plans are as they were timed.
    """
    few = all(1 < shape_of(result.type)[-2] <= FEW_ROWS for result in graph.results)
    return few and has_weights(producer) and brings_mostly_weights(producer)


def plan_combination(graph: CustomizedOp, target: Target) -> Plan:
    """How a kernel that combines parts should be cut for the blocks that compute them.

    One block of each cluster, or the last one, combines all of its parts at once.  Empty where it
    cannot.
    """
    producer, parts = producer_of_parts(graph), graph.forloop_range
    if producer is None:
        return Plan()
    blocks = math.prod(producer.grid_dim)
    alike = blocks == parts * math.prod(graph.grid_dim)
    in_clusters = may_combine_in_clusters(producer, blocks, parts, target)
    if not (alike and (in_clusters or may_combine_in_last_blocks(graph, producer))):
        return Plan()
    return Plan(forloop=1, block=producer.block_dim)
