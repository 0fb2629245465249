"""Parts of sums that the blocks of a cluster hand over to one of them, in its shared memory."""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.sched.launch import LaunchOp
from mugraph.dialects.sched.local_tile import LocalTileOp
from mugraph.dialects.tensor_types import element_bytes_of, op_label, value_label

PART_ALIGNMENT = 128
"""Of the parts of a tensor, in bytes."""


class ClusterPart(NamedTuple):
    """A tensor that a kernel behind another one reads, and of which each cluster has a run."""

    output: int
    """The parameter of the kernel in front."""
    input: int
    """That of the kernel behind."""
    elements: int
    """Of the run of a cluster; run i is of cluster i."""
    offset: int
    """Where it lies in the shared memory of the first block of the cluster, in bytes."""


def clusters_of(front: LaunchOp, behind: LaunchOp) -> int:
    """How many clusters the blocks of a launch are: the kernel behind has a block for each."""
    return math.prod(front.resolve().grid_dim) // behind.cluster_size


def cluster_parts(front: LaunchOp, behind: LaunchOp) -> list[ClusterPart]:
    """The tensors that go from one kernel to the one behind it, in shared memory.

    They lie behind what either kernel has there.
    """
    writer = front.resolve()
    offset = max(writer.smem_bytes or 0, behind.resolve().smem_bytes or 0)
    parts: list[ClusterPart] = []
    for index, argument in enumerate(behind.arguments):
        if argument.owner is not front:
            continue
        offset = -(-offset // PART_ALIGNMENT) * PART_ALIGNMENT
        output = writer.input_count + front.outputs.index(argument)
        run = run_of(front, output)
        parts.append(ClusterPart(output, index, run, offset))
        offset += run * element_bytes_of(argument.type)
    return parts


def run_of(front: LaunchOp, output: int) -> int:
    """The elements of a tensor that lie between what two clusters one after the other write."""
    argument = front.resolve().body.block.args[output]
    tiles = [use.operation for use in argument.uses]
    if len(tiles) != 1 or not isinstance(tiles[0], LocalTileOp):
        raise VerifyException(
            f"{op_label(front)}: {value_label(argument)} must be stored as one tile a block, where "
            "a kernel behind reads it"
        )
    return tiles[0].block_strides()[0]


def smem_of(front: LaunchOp, behind: LaunchOp) -> int:
    """Shared memory of a block, in bytes."""
    own = max(launch.resolve().smem_bytes or 0 for launch in (front, behind))
    ends = [
        part.offset + part.elements * element_bytes_of(behind.arguments[part.input].type)
        for part in cluster_parts(front, behind)
    ]
    return max([own, *ends])
