"""``--persist-blocks``: as many blocks as run at once, each for several work tiles.

The role that loads goes on to the next work tile while the others finish this one, so that none
starts with empty rings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.kernel import unplanned_kernels
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.passes.memory.lifetimes import channel_buffers
from mugraph.passes.options import refuse, require_natural
from mugraph.passes.schedule.bulk_stores import (
    alignments_of,
    resident_blocks,
    store_in_bulk,
)
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

PhaseType = TypeVar("PhaseType", bound=Operation)


class PersistentKernel(NamedTuple):
    """A kernel whose roles can go on, the phases of its roles, and how many blocks run at once.

    Where a ring has as many stages as the loop iterations, all its fills stand before the loop.
    """

    kernel: sched.KernelOp
    fills: sched.PrologueOp
    ends: sched.EpilogueOp
    releases: tuple[sched.ReleaseOp, ...]
    blocks: int


def find_persistent(
    kernel: sched.KernelOp, target: Target, blocks: int = 0
) -> PersistentKernel | str:
    """The kernel, if its blocks can take several work tiles and there are enough of them.

    Else why not.  Warp groups multiply what lies in shared memory, all of it moves with the loop,
    through rings whose stages are released an iteration later, and nothing but rings lies there.
    ``blocks`` are launched, or as many as run at once.
    """
    roles = roles_of(kernel)
    if len(roles) != 2 or roles[0].is_elected or not roles[1].is_elected:
        return "it has no producer that loads for one role of consumers"
    computing, loading = roles
    loop = _only(computing, sched.ForloopOp)
    ends, fills = _only(computing, sched.EpilogueOp), _only(loading, sched.PrologueOp)
    if loop is None or ends is None or fills is None:
        return "its consumers have no loop with an epilogue behind it"
    products = [op for op in loop.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    if not products or not all(op.is_async and not op.lhs_in_registers for op in products):
        return "its loop is not of products of warp groups that read shared memory"
    wait = ends.body.block.first_op
    if not isinstance(wait, sched.WarpgroupWaitOp) or wait.pending_products:
        return "its last product does not end in the epilogue"
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    releases = tuple(op for op in loop.body.block.ops if isinstance(op, sched.ReleaseOp))
    rings = {op.result for op in channels}
    if {op.channel for op in releases} != rings or any(op.ahead_of != -1 for op in releases):
        return "some of its tiles do not come through rings of several stages"
    buffers = [op for op in kernel.body.walk() if isinstance(op, sched.AllocOp)]
    if set(buffers) != set(channel_buffers(kernel)):
        return "it keeps more in shared memory than its rings"
    blocks = blocks or (resident_blocks(kernel, target) or 1) * target.multiprocessors
    tiles = math.prod(kernel.grid_dim)
    if blocks >= tiles:
        return f"all of its {tiles} work tiles run at once"
    return PersistentKernel(kernel, fills, ends, releases, blocks)


def _only(role: sched.RoleOp, kind: type[PhaseType]) -> PhaseType | None:
    """The phase of that kind, if there is one."""
    found = [op for op in role.body.block.ops if isinstance(op, kind)]
    return found[0] if len(found) == 1 else None


def persist(found: PersistentKernel) -> None:
    """Rewrite: fills wait for free stages, all stages are released, and the blocks are few."""
    for channel, iteration, first in _fills(list(found.fills.body.block.ops)):
        acquire = sched.AcquireOp(channel, iteration=iteration)
        Rewriter.insert_op(acquire, InsertPoint.before(first))
    last = loop_iterations(found.kernel) - 1
    wait = found.ends.body.block.first_op
    assert wait is not None
    for release in reversed(found.releases):
        freed = sched.ReleaseOp(release.channel, iteration=last)
        Rewriter.insert_op_after(freed, wait)
    found.kernel.persistent = IntegerAttr(found.blocks, i64)


def results_leave_in_bulk(
    found: PersistentKernel, alignments: Sequence[int], target: Target
) -> bool:
    """Whether shared memory suffices for the results beside the rings, which go on.

    Where threads write results themselves nothing is gained, as measured on an H200: their warps
    are those that would multiply.
    """
    trial = found.kernel.clone()
    again = find_persistent(trial, target, found.blocks)
    assert isinstance(again, PersistentKernel)
    persist(again)
    with tiles_by_registers(trial):
        store_in_bulk(trial, alignments, target)
    return not any(
        isinstance(op.operands[1].type, sched.GlobalType)
        for op in trial.walk()
        if isinstance(op, sched.StoreOp | sched.CopyOp)
    )


def _fills(ops: Sequence[Operation]) -> list[tuple[SSAValue, int, Operation]]:
    """The channels and iterations that operators fill, each with the first of them."""
    found: dict[tuple[SSAValue, int], Operation] = {}
    for op in ops:
        if isinstance(op, sched.BulkCopyOp | sched.PublishOp) and op.channel is not None:
            found.setdefault((op.channel, op.fixed_iteration or 0), op)
    return [(channel, iteration, op) for (channel, iteration), op in found.items()]


@dataclass(frozen=True)
class PersistBlocksPass(ModulePass):
    """Launches as many blocks as run at once, of which each has several work tiles.

    For kernels in which warp groups multiply what comes through rings, whose results can leave by
    bulk copies, and that have more blocks than run at once, or than ``blocks``: ``sched.kernel ...
    persistent 132``.  Rings go on from one work tile to the next: what fills them waits for
    free stages from the start, and the last stage is released, too, once its product has ended.
    Tiles of the next one so come while the results of this one leave.  ``persistent = false`` in
    its plan leaves a kernel as it is; ``true`` is an error where that cannot be.

    Pre-condition: ``--pipeline-products``; run ``--bulk-stores`` and ``--plan-stensor-memory``
    after it.
    """

    name = "persist-blocks"

    arch: str = DEFAULT_TARGET
    blocks: int = 0

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Treats every kernel of the module whose memory is not planned yet."""
        target = target_named(self.arch)
        require_natural(self.blocks, f"--{self.name}: blocks")
        launches = [launch for launch in op.walk() if isinstance(launch, sched.LaunchOp)]
        for kernel in unplanned_kernels(op):
            if kernel.persistent_blocks is not None or kernel.decided.persistent is False:
                continue
            found = find_persistent(kernel, target, self.blocks)
            mine = [launch for launch in launches if launch.resolve() is kernel]
            alignments = alignments_of(kernel, mine)
            if isinstance(found, PersistentKernel):
                if results_leave_in_bulk(found, alignments, target):
                    persist(found)
                    continue
                found = "its results cannot leave by bulk copies beside the rings"
            if kernel.decided.persistent:
                refuse(kernel, "persistent", self.name, found, "leave persistent free")


__all__ = ["PersistBlocksPass", "PersistentKernel", "find_persistent", "persist"]
