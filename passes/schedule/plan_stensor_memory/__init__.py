"""``--plan-stensor-memory``: shared buffers of a scheduled kernel get offsets."""

from __future__ import annotations

import math
from dataclasses import replace

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.cute import ComposedLayout
from mugraph.dialects.programming_model import LINE_BYTES, MAX_THREAD_REGISTERS, whole_lines
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.structure import runs_once
from mugraph.dialects.tensor_types import element_bytes_of, resolved_layout_of
from mugraph.passes.each import KernelPass, TargetPass
from mugraph.passes.memory.lifetimes import buffer_lifetimes
from mugraph.passes.memory.packing.allocate import Request
from mugraph.passes.memory.packing.certificate import (
    SHARED_MEMORY_CERTIFICATE,
    certificate_attribute,
)
from mugraph.passes.memory.packing.pack import (
    CertifiedPlan,
    pack_in_place,
)
from mugraph.passes.schedule.analysis.registers import (
    OVERCOUNTED,
    fragment_registers,
    registers_needed,
    runs_straight,
)
from mugraph.passes.schedule.plan_stensor_memory.in_place import in_place_pairs
from mugraph.passes.schedule.plan_stensor_memory.overflow import overflow_message
from mugraph.passes.schedule.set_register_budgets import TRANSPOSED_REGISTERS, find_budgeted
from mugraph.passes.targets import Target


def alignment_of(buffer: sched.AllocOp) -> int:
    """What the buffer's offset must be a multiple of, in bytes.

    Swizzles act on offsets within the buffer, so that lines of all banks are enough.  A bulk copy's
    swizzle acts on addresses: there the buffer starts where its pattern does.
    """
    layout = resolved_layout_of(buffer.result)
    is_bulk = any(isinstance(use.operation, sched.BulkCopyOp) for use in buffer.result.uses)
    if not is_bulk or not isinstance(layout, ComposedLayout):
        return LINE_BYTES
    swizzle = layout.swizzle
    bits = swizzle.bits + swizzle.base + abs(swizzle.shift)
    return max(LINE_BYTES, element_bytes_of(buffer.result.type) << bits)


def memory_requests(kernel: sched.KernelOp) -> dict[sched.AllocOp, Request]:
    """Size, lifetime and alignment of every buffer that the kernel uses."""
    lifetimes = buffer_lifetimes(kernel)
    return {
        buffer: Request(buffer.total_bytes(), life, alignment_of(buffer))
        for buffer, life in lifetimes.items()
    }


def certified_plan(kernel: sched.KernelOp, requests: dict[sched.AllocOp, Request]) -> CertifiedPlan:
    """The plan of a kernel's buffers, in the order of ``requests``.

    Results may also take the bytes of operands that they overwrite.
    """
    pairs = _pairs(kernel, requests)
    return pack_in_place(list(requests.values()), pairs, LINE_BYTES)


def _pairs(kernel: sched.KernelOp, requests: dict[sched.AllocOp, Request]) -> list[tuple[int, int]]:
    """The pairs of buffers that may share bytes, as positions in ``requests``."""
    position = {buffer: index for index, buffer in enumerate(requests)}
    return [
        (position[pair.operand], position[pair.result])
        for pair in in_place_pairs(kernel)
        if requests[pair.operand].lifetime.last == requests[pair.result].lifetime.first
    ]


def channel_bytes(kernel: sched.KernelOp) -> int:
    """The size of all mbarriers of the block, in whole lines of shared memory."""
    keepers = [op for op in kernel.body.block.ops if isinstance(op, KeepsMbarriers)]
    return whole_lines(sum(keeper.barrier_bytes() for keeper in keepers))


def with_channels(kernel: sched.KernelOp, found: CertifiedPlan) -> CertifiedPlan:
    """The plan with the mbarriers behind all buffers: they live for the whole kernel."""
    extra = channel_bytes(kernel)
    plan = replace(found.plan, peak=found.plan.peak + extra)
    return found._replace(plan=plan, bound=found.bound + extra)


def place_channels(kernel: sched.KernelOp, end: int) -> None:
    """Gives all mbarriers of the block their place, in the last bytes before ``end``."""
    offset = end - channel_bytes(kernel)
    for op in kernel.body.block.ops:
        if isinstance(op, KeepsMbarriers):
            op.offset = IntegerAttr(offset, i64)
            offset += op.barrier_bytes()


WORKING_REGISTERS = 80
"""What a thread needs besides its fragments: addresses, operands loaded ahead, epilogues."""


CHAIN_PRODUCTS, CHAIN_BLOCKS = 8, 3
"""Products of a kernel without a loop, from which on as many blocks share a multiprocessor as its
fragments alone have room for: two would wait at barriers most of the time.

What chunks of a gated delta rule compute, 13 products of d 128 by 256 threads, took 68.2 us on an
H200 in two blocks of 119 registers a thread, and 65.5 in three of 80, which spill 32 bytes.
"""
RECOMPUTED_REGISTERS = 8
"""Addresses that the compiler computes again rather than hold, where that lets in another block."""
MUCH_HELD = 144
"""Registers from which on a chain of warp groups can do without twice as many.

Attention of 64 rows and 64 keys with 128 values a row has room in 128 registers, so that three
blocks share a multiprocessor: 256 x 4 prompts of 256 tokens take 73 us on an H200, and 86 with two.
Where masks also say where keys end it spills, and so do tiles that need 112, in 96 registers.
"""


def registers_wanted(kernel: sched.KernelOp) -> int:
    """An estimate of the registers that each thread should have: fragments and room to work.

    Where everything between products stays in fragments there is less besides them, and more warps
    hide what each waits for.  Warp groups need none for operands that they read from memory.
    Without a loop and products a thread needs what is alive at one time.
    """
    if runs_straight(kernel):
        return min(registers_needed(kernel) - OVERCOUNTED, MAX_THREAD_REGISTERS)
    wanted = min(fragment_registers(kernel) + WORKING_REGISTERS, MAX_THREAD_REGISTERS)
    operators = tuple(kernel.walk())
    by_groups = [op for op in operators if isinstance(op, sched.WarpgroupMmaOp)]
    if (sched.roles_of(kernel) and not by_groups) or not any(
        map(sched.computes_on_product, operators)
    ):
        return wanted
    needed = registers_needed(kernel)
    if any(op.atom.swaps_operands for op in by_groups):
        return min(wanted, needed + TRANSPOSED_REGISTERS)
    is_chain = any(op.lhs_in_registers for op in by_groups)
    masks = [op for op in operators if isinstance(op, sched.MaskOp)]
    masks_ends = len(masks) > 1 or any(op.outside is not None for op in masks)
    holds_much = is_chain and not masks_ends and needed >= MUCH_HELD
    return min(wanted, needed - RECOMPUTED_REGISTERS * (2 if holds_much else 1))


def is_long_chain(kernel: sched.KernelOp) -> bool:
    """Whether single warps go once through many products, between which barriers stand."""
    count = sum(isinstance(op, sched.MmaOp) for op in kernel.walk())
    return count >= CHAIN_PRODUCTS and runs_once(kernel) and not sched.roles_of(kernel)


def blocks_that_share(kernel: sched.KernelOp, smem: int, target: Target, threads: int = 0) -> int:
    """How many of a kernel's blocks, of so many bytes each, share a multiprocessor.

    As many as registers suffice for: an even share of them, or of products with swapped operands
    what threads that compute have where those that load leave them theirs
    (``--set-register-budgets``).  Other blocks gain less from each other: two of 128 x 160 sums
    took 87 us on an H100 for a product that two consumers in turn do in 71.  ``threads`` are those
    that a block will have, where they are not what it has.
    """
    grid, wanted = math.prod(kernel.grid_dim), registers_wanted(kernel)
    threads = threads or kernel.threads
    blocks = target.resident_blocks(grid, threads, smem, wanted)
    by_memory = target.resident_blocks(grid, threads, smem, 1)
    products = sched.warpgroup_products(kernel)
    if not all(op.atom.swaps_operands for op in products):
        return blocks
    if blocks < CHAIN_BLOCKS and is_long_chain(kernel):
        held = fragment_registers(kernel)
        few = target.resident_blocks(grid, threads, smem, max(held, 1))
        return max(blocks, min(few, CHAIN_BLOCKS))
    while blocks < by_memory:
        found = find_budgeted(kernel, target, blocks + 1)
        if found is None or found.budgets.computing < wanted:
            break
        blocks += 1
    return blocks


def plan_stensor_memory(kernel: sched.KernelOp, target: Target) -> None:
    """Writes offsets into the kernel's buffers; bytes and certificate into the kernel.

    Raises ``PassFailedException`` where the block's shared memory does not suffice.
    """
    requests = memory_requests(kernel)
    found = with_channels(kernel, certified_plan(kernel, requests))
    plan = found.plan
    if plan.peak > target.shared_memory_per_block:
        raise PassFailedException(overflow_message(kernel, requests, plan.peak, target))
    for buffer, offset in zip(requests, plan.offsets, strict=True):
        buffer.offset = IntegerAttr(offset, i64)
    place_channels(kernel, plan.peak)
    kernel.attributes[SHARED_MEMORY_CERTIFICATE] = certificate_attribute(found)
    resident = blocks_that_share(kernel, plan.peak, target)
    kernel.resident = IntegerAttr(resident, i64)
    kernel.smem = IntegerAttr(plan.peak, i64)


class PlanSTensorMemoryPass(TargetPass, KernelPass):
    """Gives every shared buffer of a scheduled kernel an offset in the block's memory.

    Buffers share bytes where their lifetimes allow; freed bytes are used again only after the next
    barrier, but for a result that each thread writes to the very places where it alone has read the
    operand for the last time.  Also says how many blocks share a multiprocessor (``resident``),
    from which the compiler knows how many registers a thread may use.

    The plan is the best of several heuristics.  ``sched.memory_certificate`` on the kernel records
    the peak, the lower bound and whether they meet.
    The mbarriers of channels and order barriers stand after all buffers.  Pre-condition:
    ``--pipeline-loads``; run ``--plan-swizzle`` before, as it changes sizes.

    After: ``sched.alloc stages 3 offset 4096 : ...`` and ``smem 61440`` on the kernel.
    """

    name = "plan-stensor-memory"

    def run(self, kernel: sched.KernelOp) -> None:
        """Plans a kernel."""
        plan_stensor_memory(kernel, self.target)
