"""``--read-windows``: kernels load windows of a tensor where it lies."""

from __future__ import annotations

import math

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block

from mugraph.dialects import kn, tb
from mugraph.dialects.kn.customized import match_arguments
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of
from mugraph.passes.each import FunctionPass, TargetPass
from mugraph.passes.program.fuse_kernels.times import (
    product_time,
    time_as_written,
    time_of_kernel,
)
from mugraph.passes.targets import Target

TILE = 64
"""Elements along the first and the last dimension that a block writes."""
PRODUCT_TILE = (64, 64, 32)
"""How products are cut at first, along m, n and k: ``--plan`` chooses."""
THREADS = 128


def loads_of(op: kn.WindowsOp) -> list[tb.InputOp] | None:
    """The loads of custom kernels that alone use windows; ``None`` where others do."""
    found: list[tb.InputOp] = []
    for use in op.result.uses:
        graph = use.operation
        if not isinstance(graph, kn.CustomizedOp):
            return None
        for inner in graph.body.block.args[use.index].uses:
            load = inner.operation
            if not isinstance(load, tb.InputOp) or load.ends:
                return None
            if load.through is not None or load.windows is not None:
                return None
            found.append(load)
    return found


def read_in_place(op: kn.WindowsOp, loads: list[tb.InputOp]) -> None:
    """Rewrite: kernels get the tensor for its windows."""
    source = op.input
    for load in loads:
        new = tb.InputOp(
            load.dtensor, load.map_, load.loop_dim, load.result.type, windows=op.windows
        )
        new.result.name_hint = load.result.name_hint
        Rewriter.replace_op(load, new)
    op.result.replace_all_uses_with(source)
    match_arguments(source)
    Rewriter.erase_op(op)


def write(op: kn.WindowsOp) -> None:
    """Rewrite: a kernel writes the windows."""
    shape = op.windows.shape
    tile, map_, grid = list(shape), [-1, -1, -1], [1, 1, 1]
    for axis, dim in enumerate(dict.fromkeys((0, len(shape) - 1))):
        tile[dim] = min(TILE, shape[dim])
        map_[axis], grid[axis] = dim, math.ceil(shape[dim] / tile[dim])
    body = Block(arg_types=[op.input.type])
    body.args[0].name_hint = op.input.name_hint
    type_ = op.result.type
    tile_type = tb.STensorType(tile, element_type_of(type_))
    load = tb.InputOp(body.args[0], map_, -1, tile_type, windows=op.windows)
    body.add_ops([load, tb.OutputOp(load.result, map_, type_)])
    graph = kn.CustomizedOp([op.input], [type_], grid, [THREADS, 1, 1], 1, body)
    graph.results[0].name_hint = op.result.name_hint
    Rewriter.replace_op(op, graph)


def product_of(op: kn.WindowsOp) -> kn.MatmulOp | None:
    """The product of matrices that alone uses windows; ``None`` where there is no such one."""
    users = [use.operation for use in op.result.uses]
    if len(users) != 1 or not isinstance(users[0], kn.MatmulOp):
        return None
    product = users[0]
    plain = layout_of(op.result.type) is None and product.compute is None
    return product if plain and len(shape_of(product.result.type)) == 2 else None


def product_kernel(product: kn.MatmulOp, op: kn.WindowsOp) -> kn.CustomizedOp:
    """A kernel of a product that loads windows; it is in no function yet."""
    (m, n), k = shape_of(product.result.type), shape_of(product.lhs.type)[1]
    extents = (m, n, k)
    tile = tuple(map(min, PRODUCT_TILE, extents))
    parts = [math.ceil(extent / size) for extent, size in zip(extents, tile, strict=True)]
    operands = [op.input if one is op.result else one for one in product.operands]
    body = Block(arg_types=[one.type for one in operands])
    loads: list[tb.InputOp] = []
    for argument, operand, map_, loop_dim, shape in (
        (body.args[0], product.lhs, (0, -1, -1), 1, (tile[0], tile[2])),
        (body.args[1], product.rhs, (-1, 1, -1), 0, (tile[2], tile[1])),
    ):
        argument.name_hint = operand.name_hint
        windows = op.windows if operand is op.result else None
        type_ = tb.STensorType(shape, element_type_of(operand.type))
        loads.append(tb.InputOp(argument, map_, loop_dim, type_, windows=windows))
    sums = tb.STensorType(tile[:2], element_type_of(product.result.type))
    part = tb.MatmulOp(loads[0].result, loads[1].result, sums)
    part.precision = product.precision
    total = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, part.result, sums)
    store = tb.OutputOp(total.result, (0, 1, -1), product.result.type)
    body.add_ops([*loads, part, total, store])
    grid, block = [parts[0], parts[1], 1], [THREADS, 1, 1]
    return kn.CustomizedOp(operands, [product.result.type], grid, block, parts[2], body)


def multiply_in_place(op: kn.WindowsOp, product: kn.MatmulOp, target: Target) -> bool:
    """Makes a kernel of a product that loads windows, where that takes less time than writing them.

    Whether it did.
    """
    graph = product_kernel(product, op)
    library = max(time_as_written(product, target), product_time([product], target))
    if time_of_kernel(graph, target) > time_as_written(op, target) + library:
        graph.erase()
        return False
    graph.results[0].name_hint = product.result.name_hint
    graph.location = product.location
    Rewriter.replace_op(product, graph)
    Rewriter.erase_op(op)
    return True


class ReadWindowsPass(TargetPass, FunctionPass):
    """Lets kernels read windows (``kn.windows``) from the tensor itself, without a copy.

    A kernel that is the only user of windows loads them from the tensor: ``tb.input %x modes ...
    origin ...``. A product that is their only user becomes such a kernel if the estimate for
    ``arch`` says that it takes less time than a copy of the windows and cuBLAS. All other windows
    are copied.
    """

    name = "read-windows"

    def run(self, function: FuncOp) -> None:
        """Rewrites in a µGraph."""
        for op in list(function.body.block.ops):
            if isinstance(op, kn.WindowsOp):
                _take_out(op, self.target)


def _take_out(op: kn.WindowsOp, target: Target) -> None:
    loads = None if layout_of(op.result.type) is not None else loads_of(op)
    if loads:
        read_in_place(op, loads)
        return
    product = product_of(op)
    if product is None or not multiply_in_place(op, product, target):
        write(op)
