"""``--cluster-blocks``: blocks that multiply by the same tiles bring them for each other.

Blocks of a cluster reach each other's shared memory.  Of a tile that all of them need, each loads a
part, and bulk copies bring it to all (multicast).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named


@dataclass(frozen=True)
class Cluster:
    """A kernel, and the copies of tiles that ``blocks`` blocks in a row have in common."""

    kernel: sched.KernelOp
    copies: tuple[sched.BulkCopyOp, ...]
    blocks: int
    persistent: int | None
    """How many blocks are launched where each takes several blocks of the grid."""


def axis_of_rows(kernel: sched.KernelOp, blocks: int) -> int | None:
    """The one axis along which so many blocks differ that start one after the other, if one."""
    axes = kernel.axes_in_runs(blocks)
    return axes[0] if len(axes) == 1 and kernel.grid_dim[0] % blocks == 0 else None


def persistent_in_clusters(kernel: sched.KernelOp, blocks: int, target: Target) -> int | None:
    """How many blocks go on to others of the grid: no cluster may have to wait for another's end.

    ``None`` where each block of the grid is launched.
    """
    if kernel.persistent_blocks is None:
        return None
    resident = -(-kernel.persistent_blocks // target.multiprocessors)
    most = resident * target.multiprocessors_in_clusters(blocks)
    return min(kernel.persistent_blocks, most) // blocks * blocks


def find_cluster(kernel: sched.KernelOp, blocks: int, target: Target) -> Cluster | str:
    """The copies whose tiles blocks in a row have in common, if they can share their boxes.

    Else why they cannot, for a note.
    """
    if kernel.cluster is not None:
        return "its blocks are in clusters as it is"
    axis = axis_of_rows(kernel, blocks)
    if axis is None:
        rows = f", in groups of {kernel.raster_rows} rows," if kernel.raster_rows > 1 else ""
        return f"its grid {list(kernel.grid_dim)}{rows} has no rows of {blocks} blocks throughout"
    loads = [
        op
        for op in kernel.walk()
        if isinstance(op, sched.BulkCopyOp)
        and op.is_load
        and isinstance(op.tile.owner, sched.TileOp)
    ]
    if not loads:
        return "no bulk copies load its tiles (pipeline=channels)"
    common = [op for op in loads if _is_common(op, axis)]
    if not common:
        return f"blocks in a row have no tile in common along axis {'xyz'[axis]} of its grid"
    copies = tuple(op for op in common if len(op.bulk_tile().starts) % blocks == 0)
    if not copies:
        boxes = " or ".join(str(n) for n in sorted({len(op.bulk_tile().starts) for op in common}))
        return f"tiles in common come in {boxes} boxes, no multiple of {blocks}"
    released = {op.channel for op in kernel.walk() if isinstance(op, sched.ReleaseOp)}
    if any(copy.channel not in released for copy in copies):
        return "what its blocks have in common is loaded once, not in a ring"
    persistent = persistent_in_clusters(kernel, blocks, target)
    if persistent == 0:
        return f"fewer than {blocks} of its blocks run at once"
    return Cluster(kernel, copies, blocks, persistent)


def _is_common(load: sched.BulkCopyOp, axis: int) -> bool:
    """Whether blocks that differ along an axis of the grid load the same tile."""
    return isinstance(load.tile.owner, sched.TileOp) and load.tile.owner.map_[axis] < 0


def make_cluster(found: Cluster) -> None:
    """Rewrite: the copies to all blocks of clusters, and barriers of these around the roles."""
    kernel = found.kernel
    kernel.cluster = DenseArrayBase.from_list(i64, [found.blocks, 1, 1])
    if found.persistent is not None:
        kernel.persistent = IntegerAttr(found.persistent, i64)
    for copy in found.copies:
        copy.multicast = UnitAttr()
    roles = roles_of(kernel)
    Rewriter.insert_op(sched.ClusterBarrierOp(), InsertPoint.before(roles[0]))
    for role in roles:
        role.body.block.add_op(sched.ClusterBarrierOp())


@dataclass(frozen=True)
class ClusterBlocksPass(ModulePass):
    """Lets blocks that start one after the other bring common tiles for each other (multicast).

    With ``size=2`` two blocks in a row, down a column of the raster's groups, are a cluster where
    they have the tiles of some input in common: of these each block loads every second box, to both
    (``sched.bulk_copy multicast``), and stages are released in both.  A barrier of the cluster
    stands before the roles and at the end of each.  ``size=1`` leaves kernels as they are, and a
    note says why another size does.

    Persistent blocks become as many as run at once in whole clusters.

    Measured on an H200 (``benchmarks/results/clusters_h200.md``), products of 4096 and 8192 take 1
    to 3 % longer in clusters of two, so that ``--transpile`` makes none unless it is told to: what
    two neighbouring blocks read at about the same time reaches the L2 cache once as it is.

    Pre-condition: ``--schedule-threadblock``, with channels; run ``--persist-blocks`` before it.
    """

    name = "cluster-blocks"

    arch: str = DEFAULT_TARGET
    size: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Treats every kernel of the module; a note to stderr for each that stays as it is."""
        target = target_named(self.arch)
        if self.size < 1:
            raise PassFailedException(f"--{self.name}: size {self.size} must be at least 1")
        if self.size == 1:
            return
        if not target.has_clusters:
            print(
                f"--{self.name}: note: {self.arch} has no clusters: blocks stay by themselves",
                file=sys.stderr,
            )
            return
        if self.size > target.blocks_per_cluster:
            raise PassFailedException(
                f"--{self.name}: size {self.size}: {self.arch} has clusters of up to "
                f"{target.blocks_per_cluster} blocks"
            )
        for kernel in op.body.block.ops:
            if not isinstance(kernel, sched.KernelOp):
                continue
            found = find_cluster(kernel, self.size, target)
            if isinstance(found, Cluster):
                make_cluster(found)
            else:
                print(
                    f"--{self.name}: note: {op_label(kernel)} has no clusters: {found}",
                    file=sys.stderr,
                )


__all__ = ["Cluster", "ClusterBlocksPass", "axis_of_rows", "find_cluster", "make_cluster"]
