"""``--alternate-consumers``: roles of one warp group take the blocks of the grid in turn.

While one of them finishes a tile and writes it, the next one multiplies: the tensor cores go on
through the epilogue, which else all warps of a block are in together.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.launch_extents import MAX_THREADS
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.kernel import WARP_THREADS, WARPGROUP
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.turns import shared_buffers_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.analysis.lifetimes import channel_buffers
from mugraph.passes.bulk_stores import resident_blocks
from mugraph.passes.options import member_named
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named


class Pass(Enum):
    """When a role lets the next one read the rings."""

    ISSUED = "issued"
    """When its last product is on its way."""
    FINISHED = "finished"
    """When its last product has ended and its stages are released."""


@dataclass(frozen=True)
class Alternating:
    """A kernel whose role that computes can be several, and what of memory is that role's own."""

    kernel: sched.KernelOp
    role: sched.RoleOp
    loop: sched.ForloopOp
    epilogue: sched.EpilogueOp
    own: tuple[sched.AllocOp, ...]


def find_alternating(kernel: sched.KernelOp) -> Alternating | str:
    """The kernel, if its role that computes can take turns with others like it; else why not."""
    if kernel.persistent_blocks is None:
        return "its blocks take one block of the grid each; only roles that go on can take turns"
    roles = roles_of(kernel)
    if len(roles) != 2 or roles[0].is_elected or not roles[1].is_elected:
        return "it has not just one role that computes and one that loads"
    role = roles[0]
    if role.warp_count != WARPGROUP:
        return (
            f"its role that computes has {role.warp_count} warps, and roles of {WARPGROUP} take "
            "turns; give the graph that many threads (retile{block=128})"
        )
    loops = [op for op in role.phases if isinstance(op, sched.ForloopOp)]
    ends = [op for op in role.phases if isinstance(op, sched.EpilogueOp)]
    if len(loops) != 1 or len(ends) != 1:
        return "its role that computes has no loop with an epilogue behind it"
    rings = channel_buffers(kernel)
    own = [buffer for buffer in shared_buffers_of(role) if buffer not in rings]
    return Alternating(kernel, role, loops[0], ends[0], tuple(own))


def alternate(found: Alternating, turns: int, pass_turn: Pass) -> None:
    """Rewrite: as many roles as turns, each with buffers of its own, and their order."""
    kernel, role, threads = found.kernel, found.role, _threads(found, turns)
    order = sched.TurnsOp()
    order.result.name_hint = "order"
    barrier = next(op for op in kernel.body.block.ops if isinstance(op, sched.BarrierOp))
    Rewriter.insert_op(order, InsertPoint.before(barrier))
    _order_steps(found, order.result, pass_turn)
    name = role.role.data
    for turn in reversed(range(1, turns)):
        owned: dict[SSAValue, SSAValue] = {}
        for buffer in found.own:
            copy = buffer.clone()
            copy.result.name_hint = f"{buffer.result.name_hint or 'buffer'}_{turn}"
            Rewriter.insert_op_after(copy, buffer)
            owned[buffer.result] = copy.result
        other = role.clone(owned)
        _take_turn(other, name, turn)
        Rewriter.insert_op_after(other, role)
    _take_turn(role, name, 0)
    kernel.block = DenseArrayBase.from_list(i64, [threads, 1, 1])


def _threads(found: Alternating, turns: int) -> int:
    """The threads of a block with so many roles."""
    return found.kernel.threads + (turns - 1) * found.role.warp_count * WARP_THREADS


def _take_turn(role: sched.RoleOp, name: str, turn: int) -> None:
    role.role = StringAttr(f"{name}_{turn}")
    role.turn = IntegerAttr(turn, i64)


def _order_steps(found: Alternating, order: SSAValue, pass_turn: Pass) -> None:
    """Lets the role wait for its turn before the loop, and pass it behind the loop."""
    awaits = sched.AwaitTurnOp(order)
    before = found.loop.prev_op
    if isinstance(before, sched.PrologueOp):
        before.body.block.add_op(awaits)
    else:
        Rewriter.insert_op(sched.PrologueOp(Block([awaits])), InsertPoint.before(found.loop))
    ops = list(found.epilogue.body.block.ops)
    last = 0
    if pass_turn is Pass.FINISHED:
        releases = [i for i, op in enumerate(ops) if isinstance(op, sched.ReleaseOp)]
        last = max(releases, default=-1) + 1
    found.epilogue.body.block.insert_op_before(sched.PassTurnOp(order), ops[last])


def fitting_blocks(found: Alternating, turns: int, target: Target) -> int | None:
    """How many blocks run at once with so many roles; ``None`` where not even one fits."""
    trial = found.kernel.clone()
    again = find_alternating(trial)
    assert isinstance(again, Alternating)
    alternate(again, turns, Pass.FINISHED)
    resident = resident_blocks(trial, target)
    return None if resident is None else resident * target.multiprocessors


def obstacle(kernel: sched.KernelOp, reason: str) -> str:
    """What is said of a kernel that stays as it is."""
    return f"{op_label(kernel)} has no roles that take turns: {reason}"


@dataclass(frozen=True)
class AlternateConsumersPass(ModulePass):
    """Lets ``turns`` roles of one warp group each take blocks of the grid in turn (ping-pong).

    For kernels whose blocks take several blocks of the grid (``--persist-blocks``) and whose role
    that computes is one warp group: the role is there ``turns`` times, ``sched.role "consumers_0"
    warps 4 turn 0``, each with fragments and results' buffers of its own.  The rings are read in
    the order of the blocks of the grid: a role waits (``sched.await_turn``) until the one before
    has read its last tile (``sched.pass_turn``), and its epilogue runs beside the loop of the next.
    ``pass-turn=issued`` passes the turn when the last product is on its way, ``finished`` when it
    has ended.  With ``turns=1`` nothing changes.  ``ping_pong`` of a kernel's plan counts in place
    of ``turns``.  A note says why a kernel stays as it is.

    It pays where the epilogue takes long beside the loop.  On an H200, silu(X W1) * (X W2) with X
    of 4096 x K took 0.85 of the time of one role of two warp groups for K = 256, 0.91 for 512, 0.94
    for 1024, 0.98 for 2048 and 1.02 for 4096: one warp group has smaller tiles, so that more is
    loaded for each result (``benchmarks/results/h200_turns.md``).  So ``--transpile`` does it only
    if asked to; ``--explain-schedule`` says where it should pay.

    Pre-condition: ``--bulk-stores``; run ``--plan-stensor-memory`` behind it.
    """

    name = "alternate-consumers"

    arch: str = DEFAULT_TARGET
    turns: int = 2
    pass_turn: str = Pass.ISSUED.value

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Treats every kernel of the module whose memory is not planned yet."""
        target = target_named(self.arch)
        if self.turns < 1:
            raise PassFailedException(f"--{self.name}: turns {self.turns} must be at least 1")
        place = member_named(Pass, self.pass_turn, f"--{self.name}: unknown pass-turn")
        for kernel in op.body.block.ops:
            if not isinstance(kernel, sched.KernelOp) or kernel.smem_bytes is not None:
                continue
            turns = kernel.decided.ping_pong or self.turns
            reason = alternated(kernel, turns, target, place) if turns > 1 else None
            if reason is not None:
                print(f"--{self.name}: note: {obstacle(kernel, reason)}", file=sys.stderr)


def alternated(kernel: sched.KernelOp, turns: int, target: Target, place: Pass) -> str | None:
    """Makes so many roles of the one that computes; why the kernel stays as it is, if it does."""
    found = find_alternating(kernel)
    if isinstance(found, str):
        return found
    threads = _threads(found, turns)
    if threads > MAX_THREADS:
        return f"with {turns} a block has {threads} threads, more than {MAX_THREADS}"
    blocks = fitting_blocks(found, turns, target)
    if blocks is None:
        return (
            f"shared memory has no room for the results of {turns}; give rings fewer "
            "stages (bytes-in-flight)"
        )
    alternate(found, turns, place)
    kernel.persistent = IntegerAttr(min(kernel.persistent_blocks or blocks, blocks), i64)
    return None


__all__ = ["AlternateConsumersPass", "Alternating", "Pass", "alternate", "find_alternating"]
