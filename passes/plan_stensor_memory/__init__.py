"""``--plan-stensor-memory``: shared buffers of a scheduled kernel get offsets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.sched import AllocOp, CopyOp, FragmentOp, KernelOp, TileOp
from mugraph.dialects.sched.kernel import LINE_BYTES
from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label
from mugraph.passes.analysis.lifetimes import buffer_lifetimes
from mugraph.passes.plan_stensor_memory.allocate import Fit, Plan, Request, allocate, best_plan
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

BEST_FIT_OF_ALL = "best-of-all"


def memory_requests(kernel: KernelOp) -> dict[AllocOp, Request]:
    """Size and lifetime of every buffer that the kernel uses."""
    lifetimes = buffer_lifetimes(kernel)
    return {buffer: Request(buffer.total_bytes(), life) for buffer, life in lifetimes.items()}


def fit_named(name: str) -> Fit | None:
    """A heuristic by name, ``None`` for the best of all; raises ``PassFailedException``."""
    names = {member.value: member for member in Fit}
    if name != BEST_FIT_OF_ALL and name not in names:
        raise PassFailedException(
            f"--plan-stensor-memory: unknown fit '{name}'; expected {', '.join(names)} or "
            f"{BEST_FIT_OF_ALL}"
        )
    return names.get(name)


def choose_plan(requests: list[Request], fit: str) -> Plan:
    """The plan of one heuristic by name, or the best of all of them."""
    chosen = fit_named(fit)
    if chosen is None:
        return best_plan(requests, LINE_BYTES)
    return allocate(requests, chosen, LINE_BYTES)


def moves_with_the_loop(buffer: AllocOp) -> bool:
    """Whether the buffer holds tiles that the for-loop cuts, so that more iterations shrink it."""
    return any(
        isinstance(copy := use.operation, CopyOp)
        and isinstance(tile := copy.source.owner, TileOp)
        and tile.loop_dim >= 0
        for use in buffer.result.uses
    )


def advice(requests: dict[AllocOp, Request], peak: int, limit: int) -> str:
    """What would make a kernel fit, and which of its bytes each remedy shrinks."""
    moving = sum(
        request.size for buffer, request in requests.items() if moves_with_the_loop(buffer)
    )
    factor = -(-peak // limit)
    if not moving:
        return (
            "None of them is a tile that the for-loop cuts: give inputs a 'fordim', or split the "
            f"tensors over about {factor} times as many blocks ('grid')."
        )
    return (
        f"Tiles about {factor} times smaller would fit. {moving} bytes are tiles that the for-loop "
        "cuts: more iterations ('forloop') shrink them and what is computed from them; more blocks "
        "('grid') shrink the rest, too."
    )


def overflow_message(
    kernel: KernelOp, requests: dict[AllocOp, Request], peak: int, target: Target
) -> str:
    """Which buffers a kernel that does not fit has, how big they are, and what would fit."""
    limit = target.shared_memory_per_block
    rows = [
        f"  {value_label(buffer.result)}: {dims(shape_of(buffer.result.type))} "
        f"x {buffer.stage_count} stages, {request.size} bytes, "
        f"live in regions {request.lifetime.first} to {request.lifetime.last}"
        for buffer, request in sorted(requests.items(), key=lambda item: -item[1].size)
    ]
    return "\n".join(
        [
            f"--plan-stensor-memory: {op_label(kernel)} needs {peak} bytes of shared memory, a "
            f"block of {target.name} has {limit}:",
            *rows,
            advice(requests, peak, limit),
        ]
    )


WORKING_REGISTERS = 80
"""What a thread needs besides its fragments: addresses, operands loaded ahead, epilogues."""
MAX_REGISTERS = 255
"""What a thread can have."""


def registers_wanted(kernel: KernelOp) -> int:
    """An estimate of the registers that each thread should have: fragments and room to work."""
    fragments = sum(
        op.values_per_thread() for op in kernel.body.walk() if isinstance(op, FragmentOp)
    )
    return min(fragments + WORKING_REGISTERS, MAX_REGISTERS)


def plan_stensor_memory(kernel: KernelOp, target: Target, fit: str = BEST_FIT_OF_ALL) -> None:
    """Writes offsets into the kernel's buffers and the bytes needed into the kernel.

    Raises ``PassFailedException`` where the block's shared memory does not suffice.
    """
    requests = memory_requests(kernel)
    plan = choose_plan(list(requests.values()), fit)
    if plan.peak > target.shared_memory_per_block:
        raise PassFailedException(overflow_message(kernel, requests, plan.peak, target))
    for buffer, offset in zip(requests, plan.offsets, strict=True):
        buffer.offset = IntegerAttr(offset, i64)
    kernel.smem = IntegerAttr(plan.peak, i64)
    resident = target.resident_blocks(
        math.prod(kernel.grid_dim), kernel.threads, plan.peak, registers_wanted(kernel)
    )
    kernel.resident = IntegerAttr(resident, i64)


@dataclass(frozen=True)
class PlanSTensorMemoryPass(ModulePass):
    """Gives every shared buffer of a scheduled kernel an offset in the block's memory.

    Buffers share bytes where their lifetimes allow; freed bytes are used again only after the next
    barrier.  Also says how many blocks share a multiprocessor (``resident``), from which the
    compiler knows how many registers a thread may use.  ``fit`` is ``first``, ``best``, ``last``,
    ``worst`` or ``best-of-all``.
    Pre-condition: ``--schedule-threadblock``; run ``--plan-swizzle`` before, as it changes sizes.

    After: ``sched.alloc stages 3 offset 4096 : ...`` and ``smem 61440`` on the kernel.
    """

    name = "plan-stensor-memory"

    arch: str = DEFAULT_TARGET
    fit: str = BEST_FIT_OF_ALL

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Plans every kernel of the module."""
        target = target_named(self.arch)
        fit_named(self.fit)
        for kernel in op.walk():
            if isinstance(kernel, KernelOp):
                plan_stensor_memory(kernel, target, self.fit)
