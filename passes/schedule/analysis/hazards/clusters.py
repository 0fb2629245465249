"""Whether what a kernel reads in distributed shared memory comes from blocks of its cluster."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.workspace import memory_root
from mugraph.dialects.sched.mappings import IntArray
from mugraph.dialects.sched.structure import most_iterations
from mugraph.dialects.tensor_types import (
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.memory.lifetimes import views_of


def elements_of(argument: BlockArgument, kernel: sched.KernelOp) -> IntArray | None:
    """The elements of a tensor that each block may touch, a row of places for each block.

    Blocks are counted along x first.  Elements that a tile has beyond the tensor count, too.
    ``None`` where that is not known.
    """
    tiles = [use.operation for use in argument.uses]
    columns, rows, planes = kernel.grid_dim
    numbers = np.arange(columns * rows * planes)
    blocks = np.stack([numbers % columns, numbers // columns % rows, numbers // columns // rows])
    found: list[IntArray] = []
    for tile in tiles:
        if not isinstance(tile, sched.LocalTileOp) or not tile.is_plain:
            return None
        count = most_iterations(kernel) if tile.loop_dim >= 0 else 1
        steps = np.arange(count) * tile.iteration_stride()
        strides = strides_of(resolved_layout_of(tile.result))
        own = np.tensordot(strides, np.indices(shape_of(tile.result.type)), 1).ravel()
        starts = np.array(tile.block_strides()) @ blocks
        places = starts[:, None, None] + steps[:, None] + own
        found.append(places.reshape(len(numbers), -1))
    return np.concatenate(found, axis=1) if found else np.empty((len(numbers), 0), dtype=np.int64)


def read_across_clusters(
    producer: sched.LaunchOp, consumer: sched.LaunchOp, size: int
) -> SSAValue | None:
    """The first tensor that does not go from the blocks of each cluster to its blocks alone.

    Block b of a kernel is of cluster b modulo the number of clusters.  All that a cluster writes,
    and all that it reads, must lie in its part of the tensor (:class:`sched.ClusterTensor`), and
    what is read must have been written.
    """
    writer, reader = producer.resolve(), consumer.resolve()
    clusters = producer.task_count() // size
    tensors, _ = consumer.cluster_tensors(producer, size)
    for output, index in consumer.consumed(producer):
        argument = consumer.arguments[index]
        written = elements_of(writer.body.block.args[output], writer)
        read = elements_of(reader.body.block.args[index], reader)
        alone = all(
            use.operation is consumer or isinstance(use.operation, SharesMemory)
            for seen in views_of(memory_root(argument))
            for use in seen.uses
        )
        if written is None or read is None or not alone:
            return argument
        elements = max(tensors[output].elements, 1)
        for places in (written, read):
            if (places // elements != np.arange(len(places))[:, None] % clusters).any():
                return argument
        if not np.isin(read, written).all():
            return argument
    return None


def find_cluster_hazards(function: FuncOp) -> Iterator[Finding]:
    """Each kernel in clusters that reads what another cluster writes."""
    for op in function.walk():
        if isinstance(op, sched.LaunchOp) and op.cluster is not None:
            producer, size = op.in_front(), op.cluster.value.data
            assert isinstance(producer, sched.LaunchOp)  # as verified
            value = read_across_clusters(producer, op, size)
            if value is not None:
                message = (
                    f"{op_label(op)} reads parts of {value_label(value)} that its cluster of "
                    f"{size} does not write"
                )
                yield Finding(HazardKind.READ_AFTER_WRITE, (op, producer), message)
