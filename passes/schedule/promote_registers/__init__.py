"""``--promote-registers``: what only one thread needs stays in its registers."""

from __future__ import annotations

import math

from mugraph.dialects import sched
from mugraph.dialects.sched.structure import computing_threads
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.each import TargetPass, UnplannedKernelPass
from mugraph.passes.schedule.analysis.registers import OVERCOUNTED, registers_needed, runs_straight
from mugraph.passes.schedule.promote_registers.column_loads import load_columns
from mugraph.passes.schedule.promote_registers.direct_loads import load_directly
from mugraph.passes.schedule.promote_registers.divisors import invert_divisors
from mugraph.passes.schedule.promote_registers.hoist import hoist_invariant
from mugraph.passes.schedule.promote_registers.linear import (
    choose_promoted,
    find_domains,
    partition_domains,
    values_held,
)
from mugraph.passes.schedule.promote_registers.mma import promote_mma
from mugraph.passes.schedule.promote_registers.recompute import recompute
from mugraph.passes.schedule.promote_registers.rewrite import Promotion, apply
from mugraph.passes.schedule.promote_registers.row_loads import load_long_rows
from mugraph.passes.schedule.promote_registers.stages import double_buffer
from mugraph.passes.schedule.promote_registers.stored_operands import load_as_stored
from mugraph.passes.schedule.promote_registers.uses import uses_of
from mugraph.passes.schedule.promote_registers.write_back import write_back
from mugraph.passes.schedule.tile_values import tiles_by_registers
from mugraph.passes.targets import Target

__all__ = ["PromoteRegistersPass", "promote_registers"]


def plan_promotion(kernel: sched.KernelOp, without: int = 0) -> Promotion:
    """What of a kernel can be held in linear fragments, but for the ``without`` largest buffers."""
    uses = uses_of(kernel)
    domains = find_domains(uses)
    distinct, threads = list(dict.fromkeys(domains.values())), computing_threads(kernel)
    partition_domains(distinct, threads, domains)
    order = sorted(
        (value for value in domains if isinstance(value.owner, sched.AllocOp)),
        key=lambda value: -values_held(value, domains[value]),
    )
    for value in order[:without]:
        del domains[value]
    # What turns out to stay in memory may want narrower vectors.
    promoted = choose_promoted(uses, domains)
    partition_domains(distinct, threads, promoted)
    promoted = choose_promoted(uses, domains)
    gaining = {domains[value] for value in promoted if isinstance(value.owner, sched.AllocOp)}
    return Promotion(kernel, uses, domains, {v for v in promoted if domains[v] in gaining})


def promote_registers(kernel: sched.KernelOp, target: Target) -> bool:
    """Promotes what can be and what the registers of a thread suffice for; whether anything was."""
    limit = register_limit(kernel.threads, target.registers_per_multiprocessor)
    if runs_straight(kernel):
        limit += OVERCOUNTED
    alone = math.prod(kernel.grid_dim) <= target.multiprocessors
    without = 0
    while (promotion := plan_promotion(kernel, without)).promoted:
        # A block that has a multiprocessor alone keeps exponentials, where registers suffice.
        for exponentials in (False, True) if alone else (True,):
            trial = kernel.clone()
            apply(plan_promotion(trial, without))
            recompute(trial, exponentials=exponentials)
            if registers_needed(trial) <= limit:
                apply(promotion)
                recompute(kernel, exponentials=exponentials)
                return True
        without += 1
    return False


class PromoteRegistersPass(TargetPass, UnplannedKernelPass):
    """Keeps in registers what is read only by the threads that wrote it.

    Chains of tensor-core products: element-wise operators and reductions of rows between products
    become ``sched.map`` and ``sched.reduce`` on what threads hold of the products, which
    shuffles complete where lanes share a row; a left operand that is computed is multiplied from
    registers, where the layout algebra proves that accumulators are the instruction's operand A.
    Warps are then side by side along m, so that a row lies in one; that is not done where a
    product would take more instructions in sequence, or a thread more registers than it can have.

    Elsewhere a buffer becomes a tile in registers where every operator that touches it can be
    dealt out so that each thread finds what it needs among its own values: element-wise operators,
    masks, copies to and from device memory, and reductions of rows, whose results all threads of
    the row get, by shuffles or, of rows that several warps share, through one number a warp in
    shared memory.  Operators on one chain are dealt out alike, in 16-byte vectors where device
    memory allows.  A tile that a loop loads is copied to registers first where warps would reduce
    its rows in shared memory.  Numbers of columns, such as the weights of a norm, are loaded
    for each row that a thread has, if these are few.

    What warp groups computed is written to device memory from registers, by quads of lanes.

    A right matrix that functions make of narrower elements, one by one, is made in registers by the
    threads that multiply it.

    Numbers of rows that are only divided by are inverted once.

    What is computed and stays in registers is not rounded to the tensor's type.  Exponentials that
    are rounded to 16 bits for a product are taken as powers of two.

    Pre-condition: ``--lower-threadblock``.
    """

    name = "promote-registers"

    def run(self, kernel: sched.KernelOp) -> None:
        """Promotes in a kernel."""
        target = self.target
        with tiles_by_registers(kernel):
            invert_divisors(kernel)
            hoist_invariant(kernel)
            if promote_mma(kernel, target):
                write_back(kernel)
                load_directly(kernel)
            load_as_stored(kernel)
            loads = [*load_long_rows(kernel), *load_columns(kernel)]
            promote_registers(kernel, target)
            for load in loads:
                load.undo()
            double_buffer(kernel)
