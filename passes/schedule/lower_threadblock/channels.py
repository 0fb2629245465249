"""Whether a warp of its own loads the tiles of a kernel, and what other threads load beside it.

With a role for the loads the threads that compute find their tiles by waiting at a channel: no
barrier of theirs stands between a load and its readers, nor between these and the next load.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.bulk import BulkCopyError
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.ragged import ragged_dims
from mugraph.dialects.tensor_types import shape_of, value_label
from mugraph.passes.schedule.lower_threadblock.bulk_loads import (
    block_obstacles,
    comes_in_bulk,
    layouts_of_load,
    loop_obstacles,
)
from mugraph.passes.schedule.lower_threadblock.levels import Levels
from mugraph.passes.schedule.lower_threadblock.warpgroups import warpgroup_layout_of
from mugraph.passes.targets import Target

COVERS_A_LOAD = 1 << 21
"""Multiply-adds of f8 that take a block as long as a load from the second-level cache: 512 cycles.

8192 cubed with scales of blocks, those of x by columns, took 911 us on an H200 in tiles of 128 x
128, and 959 with scales by rows; 128 x 8192 x 8192 in tiles of 128 x 64 28.5, and 23.5
(``benchmarks/results/narrow_h200.md``)."""


def are_numbers_of_results(op: tb.InputOp, levels: Levels) -> bool:
    """Whether an input has numbers of rows or columns, or one, for operators behind the loop alone.

    Such as scales, or a bias.  The threads that compute can load them when they need them.
    """
    if op.loop_dim >= 0 or _is_found_elsewhere(op):
        return False
    late = {reader for level in levels.after for reader in level}
    readers = [use.operation for use in op.result.uses]
    return all(reader in late and _makes_more(reader, op.result) for reader in readers)


def _is_found_elsewhere(op: tb.InputOp) -> bool:
    """Whether more than its place in the grid and the loop says where an input lies, or ends."""
    return op.through is not None or op.windows is not None or bool(op.ends)


def _makes_more(reader: Operation, value: SSAValue) -> bool:
    """Whether an operator is element-wise, of results of more elements than a value."""
    return isinstance(reader, tb.ElementwiseOp) and math.prod(
        shape_of(reader.results[0].type)
    ) > math.prod(shape_of(value.type))


def are_numbers_of_products(op: tb.InputOp, threads: int) -> bool:
    """Whether an input has numbers of rows, or one, that scale what warp groups multiply in a loop.

    Such as scales of groups of k.  Where bulk copies cannot bring them, as numbers of rows that lie
    apart, the threads that have the products load them: each iteration those of its own.  So they
    do where bulk copies could, if sums have few bits and products take long: such sums are used in
    each iteration, and the next product can be issued before only where no ring brings the numbers
    (``--unroll-products``).
    """
    if op.loop_dim < 0 or _is_found_elsewhere(op):
        return False
    products = products_scaled_by(op)
    layouts = [warpgroup_layout_of(each, threads) for each in products]
    if not layouts or not all(layouts):
        return False
    if not comes_in_bulk(op):
        return True
    few_bits = all(layout and layout.atom.sum_bits is not None for layout in layouts)
    return few_bits and all(map(_covers_a_load, products)) and not ragged_dims(op.bounds())


def _covers_a_load(product: tb.MatmulOp) -> bool:
    """Whether a product takes as long as a load that is issued before it."""
    *_, rows, columns = shape_of(product.result.type)
    return rows * columns * shape_of(product.lhs.type)[-1] >= COVERS_A_LOAD


def are_numbers_of_rows(op: tb.InputOp) -> bool:
    """Whether an input is a number for each row, or one, which is loaded once and not in bulk.

    An example is the scale that rows are divided by.  Consumers load it before the loop.
    """
    if op.loop_dim >= 0 or _is_found_elsewhere(op) or shape_of(op.result.type)[-1] > 1:
        return False
    return not comes_in_bulk(op)


def products_scaled_by(op: tb.InputOp) -> Sequence[tb.MatmulOp]:
    """The products that numbers of rows, or one, multiply; none where anything else uses them.

    They may be multiplied by other numbers first.
    """
    return _scaled_by(op.result) if shape_of(op.result.type)[-1] == 1 else ()


def _scaled_by(numbers: SSAValue) -> Sequence[tb.MatmulOp]:
    found: list[tb.MatmulOp] = []
    for use in numbers.uses:
        reader = use.operation
        if not isinstance(reader, tb.MulOp):
            return ()
        own = [each.owner for each in reader.operands if isinstance(each.owner, tb.MatmulOp)]
        if not own and not tb.epilogue_of(reader):
            own = _scaled_by(reader.result)
        if not own:
            return ()
        found += own
    return found


def obstacles(graph: CustomizedOp, levels: Levels, target: Target) -> list[str]:
    """Why the loads of a graph cannot go through channels: a sentence each; none where they can."""
    found = [obstacle.reason for obstacle in block_obstacles(graph.threads, target)]
    if not levels.inputs:
        found.append("it loads nothing")
    for op in levels.inputs:
        if (
            are_numbers_of_results(op, levels)
            or are_numbers_of_products(op, graph.threads)
            or are_numbers_of_rows(op)
        ):
            continue
        try:
            layouts_of_load(op)
        except BulkCopyError as error:
            found.append(f"{value_label(op.dtensor)}: {error}")
    return found


def uses_channels(graph: CustomizedOp, levels: Levels, target: Target) -> list[str]:
    """Why a graph is not scheduled with channels; nothing where it is.

    A plan that says ``loads = tma`` has them wherever they can be.
    """
    loads = graph.decided.loads
    if loads == "cp_async":
        return ["its plan says loads = cp_async"]
    found = obstacles(graph, levels, target)
    if loads is None:
        moves = any(op.loop_dim >= 0 for op in levels.inputs)
        missing = loop_obstacles(moves=moves, iterations=graph.forloop_range)
        found += [obstacle.reason for obstacle in missing]
    return found
