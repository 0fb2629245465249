"""Computes tiles of a matrix product in the kernel that reads them.

A custom kernel that loads tiles of what ``kn.matmul`` has stored computes them of tiles of its
factors instead, which are whole along what is summed over.  The product itself is then computed
nowhere else, and not stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.writer import KernelWriter, replace_kernel, tensor_of


def product_of(value: SSAValue) -> kn.MatmulOp | None:
    """The matrix product that a tensor is, if custom kernels alone use it."""
    owner = value.owner
    users = [use.operation for use in value.uses]
    if not isinstance(owner, kn.MatmulOp) or owner.compute is not None:
        return None
    return owner if all(isinstance(user, CustomizedOp) for user in users) else None


def _without(map_: Sequence[int], dim: int) -> tuple[int, ...]:
    return tuple(-1 if entry == dim else entry for entry in map_)


def _factor(
    kernel: KernelWriter, load: tb.InputOp, factor: SSAValue, whole: int, other: int
) -> SSAValue:
    """The tile of a factor, whole along one dimension; the tile has no dimension ``other``.

    Of the left factor what is whole are the columns, and the product's columns are not there.
    """
    shape = list(shape_of(load.result.type))
    shape[whole] = shape_of(factor.type)[whole]
    loop_dim = -1 if load.loop_dim == other else load.loop_dim
    type_ = tb.STensorType(shape, element_type_of(factor.type))
    argument = kernel.argument(factor, factor.name_hint)
    hint = f"{factor.name_hint or 'factor'}_tile"
    return kernel.tile(argument, _without(load.map_, other), loop_dim, type_, hint)


def inline_products(graph: CustomizedOp) -> CustomizedOp:
    """Replaces a kernel by one that computes the products whose tiles it loads.

    Raises :class:`RetileError` where it loads none, or where the result does not verify.
    """
    kernel = KernelWriter()
    products: set[kn.MatmulOp] = set()
    for op in graph.body.block.ops:
        if not isinstance(op, tb.InputOp):
            kernel.copy(op)
            continue
        is_plain = op.through is None and op.windows is None
        product = product_of(tensor_of(graph, op)) if is_plain else None
        if product is None:
            kernel.load(graph, op, op.map_, op.loop_dim)
        else:
            products.add(product)
            rank = len(shape_of(op.result.type))
            rows, columns = rank - 2, rank - 1
            left = _factor(kernel, op, product.lhs, columns, columns)
            right = _factor(kernel, op, product.rhs, rows, rows)
            tile = tb.MatmulOp(left, right, op.result.type)
            tile.precision = product.precision
            tile.result.name_hint = op.result.name_hint
            kernel.values[op.result] = kernel.add(tile).results[0]
    if not products:
        raise RetileError(
            f"{op_label(graph)} loads no tiles of a 'kn.matmul' that custom kernels alone use, so "
            "there is nothing to inline"
        )
    new = kernel.finished(graph.grid_dim, graph.block_dim, graph.forloop_range)
    replace_kernel(
        graph, [new], new.results, f"{op_label(graph)} cannot compute what it loads itself"
    )
    for product in products:
        if not any(result.uses for result in product.results):
            Rewriter.erase_op(product)
    return new
