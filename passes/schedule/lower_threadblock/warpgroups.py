"""Which products warp groups compute, and how they share them.

Warp groups read both operands from shared memory as bulk copies put them there, 64 rows at a time.
Of products with other numbers of rows most of an instruction would multiply nothing: they stay with
single warps, or warp groups compute them with swapped operands (``small_products.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from mugraph.dialects import tb
from mugraph.dialects.bulk import BulkCopyError
from mugraph.dialects.cute.atoms import WarpgroupFamily, WarpgroupForm, warpgroup_family
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.matrix_descriptor import matrix_descriptor
from mugraph.dialects.element_types import operand_names
from mugraph.dialects.programming_model import GROUP_ROWS, GROUP_THREADS
from mugraph.dialects.sched.mappings import matrix_layout
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.dialects.tensor_types import (
    AnyLayout,
    element_bytes_of,
    shape_of,
)
from mugraph.passes.costs.warp_layouts import WarpLayout
from mugraph.passes.schedule.analysis.remarks import Obstacle
from mugraph.passes.schedule.lower_threadblock.bulk_loads import layouts_of_load


def require_family(types: tuple[str, str]) -> WarpgroupFamily:
    """The instructions of warp groups for operands of which :func:`group_obstacle` has nothing."""
    family = warpgroup_family(*types)
    assert family is not None  # asked before
    return family


def group_obstacle(depth: int, types: tuple[str, str], threads: int) -> Obstacle | None:
    """Why warp groups among so many threads compute no product of such a depth, if they do not.

    ``types`` are the names of the operands' types.
    """
    family = warpgroup_family(*types)
    if family is None:
        return Obstacle(
            f"warp groups do not multiply {' by '.join(dict.fromkeys(types))}",
            "multiply f16, bf16, f8 or i8 where that is exact enough",
        )
    if depth % family.depth:
        return Obstacle(
            f"a depth of {depth} is no multiple of {family.depth}",
            f"cut tiles of a multiple of {family.depth} along k",
        )
    if threads < GROUP_THREADS:
        return Obstacle(
            f"{threads} threads are no warp group of {GROUP_THREADS}",
            f"give the block a warp group (plan <block = [{GROUP_THREADS}]>)",
        )
    return None


def choose_warpgroup_layout(
    rows: int, columns: int, depth: int, types: tuple[str, str], threads: int
) -> WarpLayout | None:
    """How the warp groups of a block share a product; ``None`` where they cannot.

    All groups take part.  The longest instructions along n first: each reads 64 rows of A and all
    its columns of B from shared memory.
    """
    if group_obstacle(depth, types, threads) is not None or threads % GROUP_THREADS:
        return None
    family = require_family(types)
    groups = threads // GROUP_THREADS
    found: list[tuple[int, WarpLayout]] = []
    for along_m in range(1, groups + 1):
        along_n, rest = divmod(groups, along_m)
        if rest or rows % (along_m * GROUP_ROWS) or columns % along_n:
            continue
        length = family.longest(columns // along_n)
        if length is not None:
            atom = family.atom(length, WarpgroupForm.SHARED)
            found.append((length, WarpLayout(atom, along_m, along_n)))
    return max(found, key=lambda entry: entry[0])[1] if found else None


def matrix_layout_of(value: SSAValue, *, transposed: bool) -> AnyLayout | None:
    """The layout in which bulk copies bring an operand, as (lines, k); ``None`` for others."""
    if not isinstance(value.owner, tb.InputOp):
        return None
    if any(isinstance(use.operation, tb.MovingOp) for use in value.uses):
        return None  # what cuts a tile in parts finds them by one stride a dimension
    try:
        layout = layouts_of_load(value.owner, boxes=True)[0]
    except BulkCopyError:
        return None
    return matrix_layout(layout, shape_of(value.type), transposed=transposed)


def is_read_by_warpgroups(op: tb.InputOp, layouts: Mapping[tb.MatmulOp, WarpLayout]) -> bool:
    """Whether a product of warp groups reads an input."""
    readers = [use.operation for use in op.result.uses]
    return any(
        isinstance(reader, tb.MatmulOp) and is_of_warpgroups(layouts[reader].atom)
        for reader in readers
    )


def reads_descriptors(op: tb.MatmulOp) -> bool:
    """Whether descriptors can say how both operands of a product come by bulk copies."""
    *leading, _, _ = shape_of(op.result.type)
    if any(extent != 1 for extent in leading) or op.is_ieee:
        return False
    for value, transposed in ((op.lhs, False), (op.rhs, True)):
        matrix = matrix_layout_of(value, transposed=transposed)
        if matrix is None:
            return False
        try:
            matrix_descriptor(matrix, element_bytes_of(value.type))
        except LayoutError:
            return False
    return True


def warpgroup_layout_of(op: tb.MatmulOp, threads: int) -> WarpLayout | None:
    """How warp groups share a product whose operands come by bulk copies, if they can."""
    if not reads_descriptors(op):
        return None
    *_, rows, columns = shape_of(op.result.type)
    types = operand_names(op.lhs, op.rhs)
    return choose_warpgroup_layout(rows, columns, shape_of(op.lhs.type)[-1], types, threads)
