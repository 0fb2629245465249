"""``--ping-pong``: consumers of one warp group alternate over work tiles.

While one of them finishes a tile and writes it, the next one multiplies: the tensor cores go on
through the epilogue, which else all warps of a block are in together.
"""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from mugraph.dialects import sched
from mugraph.dialects.launch_extents import MAX_THREADS, integer_array
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.kernel import WARP, WARPGROUP
from mugraph.dialects.sched.order_barrier import shared_buffers_of
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import loop_and_epilogue
from mugraph.dialects.sched.tile_values import end_of
from mugraph.passes.each import TargetPass, UnplannedKernelPass
from mugraph.passes.memory.lifetimes import channel_buffers
from mugraph.passes.options import refuse
from mugraph.passes.schedule.bulk_stores import resident_blocks
from mugraph.passes.targets import Target


class Alternating(NamedTuple):
    """A kernel whose role that computes can be several, and what of memory is that role's own."""

    kernel: sched.KernelOp
    role: sched.RoleOp
    loop: sched.ForloopOp
    epilogue: sched.EpilogueOp
    own: tuple[sched.AllocOp, ...]


def find_alternating(kernel: sched.KernelOp) -> Alternating | str:
    """The kernel, if its role that computes can alternate with others like it; else why not."""
    if kernel.persistent_blocks is None:
        return "its blocks are not persistent: each computes one work tile"
    roles = roles_of(kernel)
    if len(roles) != 2 or roles[0].is_elected or not roles[1].is_elected:
        return "it has not just one role that computes and one that loads"
    role = roles[0]
    if role.warp_count != WARPGROUP:
        return (
            f"its consumers are {role.warp_count} warps, and ping-pong is of consumers of "
            f"{WARPGROUP} (block = [{WARPGROUP * WARP}])"
        )
    phases = loop_and_epilogue(role.body.block)
    if phases is None:
        return "its role that computes has no loop with an epilogue after it"
    rings = channel_buffers(kernel)
    own = [buffer for buffer in shared_buffers_of(role) if buffer not in rings]
    return Alternating(kernel, role, *phases, tuple(own))


def alternate(found: Alternating, count: int) -> None:
    """Rewrite: ``count`` roles, each with buffers of its own, and their order."""
    kernel, role, threads = found.kernel, found.role, _threads(found, count)
    order = sched.OrderBarrierOp()
    order.result.name_hint = "order"
    barrier = next(op for op in kernel.body.block.ops if isinstance(op, sched.BarrierOp))
    Rewriter.insert_op(order, InsertPoint.before(barrier))
    _order_steps(found, order.result)
    name = role.role.data
    for index in reversed(range(1, count)):
        owned: dict[SSAValue, SSAValue] = {}
        for buffer in found.own:
            copy = buffer.clone()
            copy.result.name_hint = f"{buffer.result.name_hint or 'buffer'}_{index}"
            Rewriter.insert_op_after(copy, buffer)
            owned[buffer.result] = copy.result
        other = role.clone(owned)
        _number(other, name, index)
        Rewriter.insert_op_after(other, role)
    _number(role, name, 0)
    kernel.block = integer_array([threads, 1, 1])


def _threads(found: Alternating, count: int) -> int:
    """The threads of a block with so many roles."""
    return found.kernel.threads + (count - 1) * found.role.warp_count * WARP


def _number(role: sched.RoleOp, name: str, index: int) -> None:
    role.role = StringAttr(f"{name}_{index}")
    role.ping_pong = IntegerAttr(index, i64)


def _order_steps(found: Alternating, order: SSAValue) -> None:
    """Lets the role wait for the one before it before the loop, and arrive after the loop."""
    awaits = sched.OrderWaitOp(order)
    before = found.loop.prev_op
    if isinstance(before, sched.PrologueOp):
        Rewriter.insert_op(awaits, end_of(before.body.block))
    else:
        Rewriter.insert_op(sched.PrologueOp(Block([awaits])), InsertPoint.before(found.loop))
    first = found.epilogue.body.block.first_op
    assert first is not None
    found.epilogue.body.block.insert_op_before(sched.OrderArriveOp(order), first)


def fitting_blocks(found: Alternating, count: int, target: Target) -> int | None:
    """How many blocks run at once with so many roles; ``None`` where not even one fits."""
    trial = found.kernel.clone()
    again = find_alternating(trial)
    assert isinstance(again, Alternating)
    alternate(again, count)
    resident = resident_blocks(trial, target)
    return None if resident is None else resident * target.multiprocessors


def roles_fit(kernel: sched.KernelOp, target: Target) -> bool:
    """Whether a persistent kernel can have as many roles as its plan says, more than one."""
    count, found = kernel.decided.ping_pong or 1, find_alternating(kernel)
    if count == 1 or isinstance(found, str) or _threads(found, count) > MAX_THREADS:
        return False
    return fitting_blocks(found, count, target) is not None


class PingPongPass(TargetPass, UnplannedKernelPass):
    """Ping-pong: consumers of one warp group each alternate over work tiles of persistent blocks.

    For kernels whose plan says so (``ping_pong = 2``), whose blocks are persistent
    (``--persist-blocks``) and whose consumers are one warp group: the role is there twice,
    ``sched.role "consumers_0" warps 4 ping_pong 0``, each with fragments and results' buffers of
    its own.  The rings are read in the order of the work tiles: a role waits (``sched.order_wait``)
    until the one before has issued its last product (``sched.order_arrive``), and its epilogue runs
    beside the loop of the next.  Where a kernel cannot have it, that is an error.

    It pays where the epilogue takes long beside the loop.  On an H200, silu(X W1) * (X W2) with X
    of 4096 x K took 0.85 of the time of one role of two warp groups for K = 256, 0.91 for 512, 0.94
    for 1024, 0.98 for 2048 and 1.02 for 4096: one warp group has smaller tiles, so that more is
    loaded for each result (``benchmarks/results/h200_ping_pong.md``).  ``--plan`` writes it where
    it should pay.

    Pre-condition: ``--bulk-stores``; run ``--plan-stensor-memory`` after it.
    """

    name = "ping-pong"

    def run(self, kernel: sched.KernelOp) -> None:
        """Lets roles of a kernel alternate."""
        count = kernel.decided.ping_pong or 1
        reason = alternated(kernel, count, self.target) if count > 1 else None
        if reason is not None:
            refuse(kernel, "ping_pong", self.name, reason, "leave ping_pong free")


def alternated(kernel: sched.KernelOp, count: int, target: Target) -> str | None:
    """Makes so many roles of the one that computes; why the kernel stays as it is, if it does."""
    found = find_alternating(kernel)
    if isinstance(found, str):
        return found
    threads = _threads(found, count)
    if threads > MAX_THREADS:
        return f"with {count} a block has {threads} threads, more than {MAX_THREADS}"
    blocks = fitting_blocks(found, count, target)
    if blocks is None:
        return (
            f"shared memory has no room for the results of {count}; give its rings fewer stages, "
            "or it smaller tiles"
        )
    alternate(found, count)
    kernel.persistent = IntegerAttr(min(kernel.persistent_blocks or blocks, blocks), i64)
    return None
