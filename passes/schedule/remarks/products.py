"""Remarks about products: why warp groups do not multiply, and where they wait for a result."""

from __future__ import annotations

import math
from collections.abc import Iterator

from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.matrix_descriptor import TRANSPOSED_BYTES, matrix_descriptor
from mugraph.dialects.interfaces import writers_of
from mugraph.dialects.programming_model import GROUP_ROWS, GROUP_THREADS
from mugraph.dialects.sched.mappings import matrix_layout
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    shape_of,
)
from mugraph.passes.schedule.analysis.epilogues import epilogue_time
from mugraph.passes.schedule.analysis.remarks import Kind, Obstacle, Remark
from mugraph.passes.schedule.explain_schedule.products import layout_by_warps, product_of
from mugraph.passes.schedule.lower_threadblock.small_products import (
    choose_small_layout,
    swap_obstacle,
)
from mugraph.passes.schedule.lower_threadblock.warpgroups import group_obstacle, require_family
from mugraph.passes.schedule.plan_swizzle import possible_layouts
from mugraph.passes.schedule.remarks.scheduled import Scheduled, shown
from mugraph.passes.schedule.use_warpgroups import find_chains, is_faster


def product_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Why single warps multiply on a target whose warp groups could."""
    if not scheduled.target.multiplies_in_warpgroups:
        return
    for op in scheduled.kernel.body.walk():
        if isinstance(op, sched.MmaOp) and (why := product_obstacle(op, scheduled)) is not None:
            *_, rows, columns = shape_of(op.accumulator.type)
            name = op.accumulator.name_hint
            product = f"the product %{name}" if name else "a product"
            size = f"{dims((rows, columns))} of depth {shape_of(op.rhs.type)[-2]}"
            lost = f"{product}, {size}, is computed by mma.sync and not by WGMMA"
            yield scheduled.remark(Kind.WGMMA, lost, why, shown(op.accumulator))


def product_obstacle(op: sched.MmaOp, scheduled: Scheduled) -> Obstacle | None:
    """Why warp groups do not compute a product; ``None`` where an estimate prefers single warps."""
    kernel = scheduled.kernel
    product = product_of(op, kernel)
    rows, columns, threads = product.rows, product.columns, product.threads
    types = product.types
    why = group_obstacle(product.depth, types, threads)
    if why is not None:
        return why
    few = rows % GROUP_ROWS != 0
    if few and (why := swap_obstacle(rows, columns, product.depth, types, threads)) is not None:
        return Obstacle(
            f"its {rows} rows are no multiple of {GROUP_ROWS}, and its operands cannot be "
            f"swapped: {why.reason}",
            why.mend,
            why.dimension,
        )
    if few and not product.sums_once:
        return Obstacle(
            f"its {rows} rows are no multiple of {GROUP_ROWS}, and operands can be swapped only "
            "if the loop just adds up the product of each iteration",
            f"cut tiles of a multiple of {GROUP_ROWS} rows",
            0,
        )
    *leading, _, _ = shape_of(op.lhs.type)
    if any(extent != 1 for extent in leading):
        return Obstacle(
            f"a tile of {shown(op.lhs)} is {math.prod(leading)} matrices",
            "let the grid or the loop cut its leading dimensions to 1",
            0,
        )
    for value, transposed in ((op.lhs, False), (op.rhs, True)):
        if (why := _operand_obstacle(value, transposed=transposed)) is not None:
            return why
    if few:
        by_warps = layout_by_warps(op, product, scheduled.target)
        if choose_small_layout(product, by_warps, scheduled.target) is by_warps:
            return None
        return Obstacle("its plan says swap_ab = false", "leave it out")
    if threads % GROUP_THREADS:
        whole = -(-threads // GROUP_THREADS) * GROUP_THREADS
        return Obstacle(
            f"{threads} threads are no multiple of a warp group of {GROUP_THREADS}",
            f"give the block whole warp groups (plan <block = [{whole}]>)",
        )
    if require_family(types).longest(columns) is None:
        return Obstacle(f"{columns} columns are no multiple of 8", "cut wider tiles", 1)
    if op.at is not None:
        return Obstacle(
            "registers do not hold its sums, which are computed in pieces", "cut smaller tiles"
        )
    for chain in find_chains(kernel):
        if op in chain.products:
            if not is_faster(chain, scheduled.target):
                return None
            return Obstacle("--use-warpgroups did not run", "run it")
    return Obstacle(
        "its warps are not all along m, or warp groups do not compute another product of its role"
    )


def _operand_obstacle(value: SSAValue, *, transposed: bool) -> Obstacle | None:
    """Why descriptors cannot say where an operand in shared memory lies."""
    if isinstance(value.type, sched.TileType):
        return None
    for op in writers_of(value):
        if isinstance(op, sched.BulkCopyOp):
            continue
        if isinstance(op, sched.CopyOp):
            reason = f"{shown(value)} is not loaded by TMA"
            return Obstacle(reason, "see the remark on its load")
        mend = "pad the tensor, so that tiles are whole" if isinstance(op, sched.MaskOp) else ""
        return Obstacle(f"'{op.name}' writes {shown(value)}, which TMA must load", mend)
    reasons: list[str] = []
    for layout in possible_layouts(value) or []:
        matrix = matrix_layout(layout, shape_of(value.type), transposed=transposed)
        try:
            matrix_descriptor(matrix, element_bytes_of(value.type))
        except LayoutError as error:
            reasons.append(f"{shown(value)} may be {layout}: {error}")
        else:
            return None
    if not reasons:
        return None
    # A byte cannot change places with its neighbours on the way, as two of them can.
    stays = element_bytes_of(value.type) != TRANSPOSED_BYTES
    mend = "store the tensor so that the summed dimension is contiguous" if stays else ""
    return Obstacle(reasons[0], mend)


def epilogue_remarks(scheduled: Scheduled) -> Iterator[Remark]:
    """Whether the tensor cores of a persistent kernel wait for a long epilogue."""
    kernel = scheduled.kernel
    time = None if kernel.persistent_blocks is None else epilogue_time(kernel, scheduled.target)
    if time is not None and time.is_long and not sched.ping_pong_roles(kernel):
        yield scheduled.remark(
            Kind.EPILOGUE,
            f"its warp groups multiply nothing for about {time.epilogue:.0f} cycles behind each "
            f"{time.loop:.0f} of products",
            Obstacle(
                "the same role writes the result",
                "let two consumers take work tiles in turn (plan <block = [128], ping_pong = 2>)",
            ),
        )
