"""What ``--explain-schedule`` says of products of few rows: what each way costs, and why not."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.programming_model import GROUP_ROWS
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    shape_of,
    value_label,
)
from mugraph.passes.costs.warp_layouts import WarpLayout, choose_atom, choose_warp_layout
from mugraph.passes.schedule.lower_threadblock.small_products import (
    SmallProduct,
    describe,
    swap_obstacle,
    swapped_layout,
    way_cost,
)
from mugraph.passes.schedule.pipeline_loads.rings import feeds_of
from mugraph.passes.targets import Target

BY_WARPS, BY_GROUPS = "mma.sync", "wgmma with swapped operands"


def product_lines(kernel: sched.KernelOp, target: Target) -> Iterator[str]:
    """A line for each product of a kernel with channels whose rows are no multiple of 64."""
    if not sched.roles_of(kernel) or not target.multiplies_in_warpgroups:
        return
    for op in kernel.body.walk():
        if not isinstance(op, sched.MmaOp | sched.WarpgroupMmaOp):
            continue
        if shape_of(op.accumulator.type)[-2] % GROUP_ROWS:
            yield _line(op, kernel, target)


def _line(op: sched.MmaOp | sched.WarpgroupMmaOp, kernel: sched.KernelOp, target: Target) -> str:
    product = product_of(op, kernel)
    size = f"{product.rows}x{product.columns} of depth {product.depth}"
    by_warps = layout_by_warps(op, product, target)
    head = f"  product {value_label(op.accumulator)}, {size}: "
    costs = [f"{BY_WARPS} {describe(way_cost(product, by_warps, target))}"]
    obstacle = _obstacle(op, product)
    if obstacle is not None:
        return f"{head}{costs[0]}; no {BY_GROUPS}, as {obstacle}"
    swapped = way_cost(product, swapped_layout(product), target)
    costs.append(f"{BY_GROUPS} {describe(swapped)}")
    if isinstance(op, sched.MmaOp) and not product.sums_once:
        costs.append("single warps keep what is used in each iteration")
    # What was chosen comes first.
    ordered = reversed(costs) if isinstance(op, sched.WarpgroupMmaOp) else costs
    return head + "; ".join(ordered)


def product_of(op: sched.MmaOp | sched.WarpgroupMmaOp, kernel: sched.KernelOp) -> SmallProduct:
    """What an estimate needs of a product of a scheduled kernel."""
    *_, rows, columns = shape_of(op.accumulator.type)
    rings = [feed.channel for feed in feeds_of(kernel) if feed.moves]
    loop = sched.enclosing_loop(op)
    owner = sched.registers_of(op.accumulator).owner
    return SmallProduct(
        rows,
        columns,
        shape_of(op.rhs.type)[-2],
        operand_names(op.lhs, op.rhs),
        element_bytes_of(op.rhs.type),
        enclosing_threads(op),
        1 if loop is None else loop_iterations(kernel),
        sum(ring.stage_payload() for ring in rings),
        min((ring.stage_count for ring in rings), default=1),
        math.prod(kernel.grid_dim),
        loop is None or not isinstance(owner, Operation) or sched.enclosing_loop(owner) is None,
    )


def layout_by_warps(
    op: sched.MmaOp | sched.WarpgroupMmaOp, product: SmallProduct, target: Target
) -> WarpLayout:
    """The arrangement of single warps: that of the product, or what it would have been."""
    held = op.accumulator.type
    mma = held.tiled_mma if isinstance(held, sched.TileType) else None
    if isinstance(op, sched.MmaOp) and mma is not None:
        return WarpLayout(mma_atom(mma.atom), *mma.thr_layout)
    return choose_warp_layout(
        product.rows,
        product.columns,
        product.depth,
        choose_atom(product.types, product.threads, target, ieee=False),
        product.threads,
        target,
        element_bytes=product.element_bytes,
        iterations=product.iterations if product.sums_once else 1,
    )


def _obstacle(op: sched.MmaOp | sched.WarpgroupMmaOp, product: SmallProduct) -> str | None:
    """Why warp groups cannot swap the operands of a product."""
    if isinstance(op, sched.WarpgroupMmaOp):
        return None
    found = swap_obstacle(
        product.rows, product.columns, product.depth, product.types, product.threads
    )
    if found is not None:
        return found.reason
    for value in (op.lhs, op.rhs):
        writers = [use.operation for use in value.uses]
        if isinstance(value.type, sched.TileType) or not any(
            isinstance(writer, sched.BulkCopyOp) for writer in writers
        ):
            return f"{value_label(value)} does not come by a bulk copy"
    return None
