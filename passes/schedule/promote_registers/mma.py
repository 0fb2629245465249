"""Chains of tensor-core products in registers: what is chosen, and the rewrite."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.schedule.analysis.registers import registers_needed, tiles_of
from mugraph.passes.schedule.promote_registers.mma_analysis import (
    Chain,
    find_chains,
    has_columns,
    phases_of_kernel,
)
from mugraph.passes.schedule.promote_registers.mma_columns import scale_columns
from mugraph.passes.schedule.promote_registers.mma_peephole import simplify
from mugraph.passes.schedule.promote_registers.mma_pieces import join_pieces
from mugraph.passes.schedule.promote_registers.mma_rewrite import rewrite_chain
from mugraph.passes.schedule.set_register_budgets import most_registers
from mugraph.passes.schedule.use_warpgroups import multiply_by_groups
from mugraph.passes.targets import Target


def choose_arrangement(chain: Chain, threads: int) -> TiledMmaAttr | None:
    """How the warps share the products of a chain; ``None`` where it does not pay.

    All warps along m where rows must lie in one warp, unless a product then takes more instructions
    in sequence than it does now; otherwise that which the products have.
    """
    present = {sched.arrangement_in(product.accumulator) for product in chain.products}
    first = next(iter(present))
    if first is None or len({mma.atom for mma in present if mma is not None}) > 1:
        return None
    if first.thr_layout[2] > 1:
        are_sliced = all(isinstance(op, sched.MmaOp) and op.is_sliced for op in chain.products)
        return first if are_sliced and len(present) == 1 and not chain.has_rows else None
    columns = mma_atom(first.atom).shape_mnk[1]
    if any(
        isinstance(op, sched.ReduceOp) and shape_of(op.source.type)[-1] % columns
        for op in chain.operators
    ):
        return None  # what is past a row in its last instruction would be reduced, too
    by_all = columns if chain.has_rows else columns * first.thr_layout[1]
    if any(
        has_columns(source, op.destination) and shape_of(source.type)[-1] % by_all
        for op in chain.operators
        if isinstance(op, sched.MapOp)
        for source in op.sources
    ):
        return None  # numbers of columns are those of whole instructions of all warps
    if not chain.has_rows:
        return first if len(present) == 1 else None
    if mma_atom(first.atom).is_scalar:
        return None
    if mma_atom(first.atom).swaps_operands:
        return None  # lanes that share a row are no neighbours
    if is_of_warpgroups(mma_atom(first.atom)):
        # Groups are where the operands' boxes let them be.
        return first if len(present) == 1 and first.thr_layout[1] == 1 else None
    along_m = TiledMmaAttr(first.atom, (threads // 32, 1, 1))
    for product in chain.products:
        if _tiles(product.accumulator, along_m) > _tiles(product.accumulator, None):
            return None
    return along_m


def _tiles(accumulator: SSAValue, arrangement: TiledMmaAttr | None) -> int:
    """Instruction tiles of a warp."""
    type_ = accumulator.type
    assert isinstance(type_, sched.TileType)
    if arrangement is not None:
        type_ = sched.TileType.of(type_.get_shape(), type_.element_type, arrangement)
    tiles = tiles_of(type_)
    assert tiles is not None
    return tiles.m * tiles.n


def promote_mma(kernel: sched.KernelOp, target: Target) -> bool:
    """Moves chains of products to registers where they fit; says whether any was.

    Element-wise operators and reductions of rows between products then work on what threads hold,
    and left operands are multiplied as they lie in registers.  Products that were cut in pieces, as
    registers hold other sums that chains need no more, are joined where all chains then fit.
    Barriers stay where they are.
    """
    for trial in (join_pieces(kernel.clone()), kernel.clone()):
        if trial is not None and _promote_all(trial) and fits_registers(trial, target):
            kernel.body.detach_block(0)
            kernel.body.add_block(trial.body.detach_block(0))
            return True
    return False


def computing_threads(kernel: sched.KernelOp) -> int:
    """How many threads compute: those of the block, or of the role that does."""
    phase = next(phases_of_kernel(kernel))
    return sched.enclosing_threads(phase)


def fits_registers(kernel: sched.KernelOp, target: Target) -> bool:
    """Whether threads have the registers that chains need.

    Warp groups take no operands to registers, and get those that the role that loads leaves.
    """
    registers = target.registers_per_multiprocessor
    if registers_needed(kernel) <= register_limit(kernel.threads, registers):
        return True
    by_groups = kernel.clone()
    passes_on = target.moves_registers and target.multiplies_in_warpgroups
    if not passes_on or not multiply_by_groups(by_groups, target):
        return False
    return registers_needed(by_groups) <= most_registers(by_groups, target)


def _promote_all(kernel: sched.KernelOp) -> bool:
    """Rewrites every chain for which warps can be arranged; says whether there is one."""
    promoted = False
    threads = computing_threads(kernel)
    while True:
        chosen = (
            (chain, arrangement)
            for chain in find_chains(kernel)
            if (arrangement := choose_arrangement(chain, threads)) is not None
        )
        found = next(chosen, None)
        if found is None:
            break
        rewrite_chain(kernel, *found)
        promoted = True
    simplify(kernel)
    scale_columns(kernel)
    return promoted
