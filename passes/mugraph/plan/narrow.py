"""What costs little of products of numbers of few bits: threads make what they multiply."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of
from mugraph.passes.mugraph.factor_products import narrow_source


def is_narrow(factor: SSAValue) -> bool:
    """Whether a factor of a product is computed of numbers of few bits, one by one."""
    return not isinstance(factor.owner, tb.InputOp) and narrow_source(factor) is not None


def is_read_singly(factor: SSAValue) -> bool:
    """Whether neighbours along k of a right matrix of few bits lie apart in memory.

    Threads, which multiply neighbours along k, read each number alone then.  Of a tensor that is an
    argument without a layout its rows count: so do views that stand before a part of a program.
    """
    source = narrow_source(factor)
    if source is None or not isinstance(load := source.owner, tb.InputOp):
        return False
    graph, tensor = load.parent_op(), load.dtensor
    if not isinstance(tensor, BlockArgument) or graph is None:
        return False
    return _is_row_major(graph.operands[tensor.index])


def _is_row_major(tensor: SSAValue) -> bool:
    """Whether the last dimension of a tensor is that of an argument, whose elements lie so."""
    while isinstance(view := tensor.owner, kn.TransposeOp | kn.ReshapeOp):
        last = len(shape_of(tensor.type)) - 1
        if isinstance(view, kn.TransposeOp):
            stays = view.order[last] == last
        else:
            stays = shape_of(view.input.type)[-1] == shape_of(tensor.type)[-1]
        if not stays:
            return False
        tensor = view.input
    return isinstance(tensor, BlockArgument) and layout_of(tensor.type) is None


def is_read_in_place(part: SSAValue) -> bool:
    """Whether products by numbers of few bits alone use a part of a tile, from the left."""
    users = [use.operation for use in part.uses]
    return isinstance(part.owner, tb.SplitOp) and all(
        isinstance(user, tb.MatmulOp) and user.lhs is part and is_narrow(user.rhs) for user in users
    )


def is_in_registers(tile: SSAValue) -> bool:
    """Whether a tile is made by the threads that multiply it, or read where it was cut from."""
    return is_for_products(tile) or is_read_in_place(tile)


def is_converted(factor: SSAValue, lhs: SSAValue) -> bool:
    """Whether warp groups could convert a right matrix, whose left one comes as it is loaded."""
    return is_narrow(factor) and (isinstance(lhs.owner, tb.InputOp) or is_read_in_place(lhs))


def is_on_the_way(op: Operation) -> bool:
    """Whether an operator is a step between numbers of few bits and what is multiplied of them."""
    return isinstance(op, tb.UnaryOp) and is_for_products(op.result)


def is_for_products(tile: SSAValue) -> bool:
    """Whether a tile of few bits is a right matrix, or becomes one element by element, alone."""
    users = [use.operation for use in tile.uses]
    return (
        is_narrow(tile)
        and bool(users)
        and all(
            is_for_products(user.result)
            if isinstance(user, tb.UnaryOp)
            else isinstance(user, tb.MatmulOp) and user.rhs is tile
            for user in users
        )
    )


def adds_scaled(op: Operation) -> bool:
    """Whether an operator is no step of its own beside products that are scaled and added up.

    What scales a product in each iteration is added up by one multiply-add, and products that are
    added to each other are one sum.
    """
    if isinstance(op, tb.AddOp):
        return _is_product(op.result)
    if not isinstance(op, tb.ForloopAccumOp) or op.reduces_last():
        return False
    source = op.input.owner
    if isinstance(source, tb.ReductionOp):
        source = source.input.owner
    return isinstance(source, tb.MulOp) and _is_product(source.lhs)


def _is_product(value: SSAValue) -> bool:
    """Whether a tile is a product, or products added to each other."""
    op = value.owner
    if isinstance(op, tb.AddOp) and not tb.epilogue_of(op):
        return all(map(_is_product, op.operands))
    return isinstance(op, tb.MatmulOp)


def summed_products(op: tb.ReductionOp) -> Sequence[tb.MatmulOp]:
    """The products by numbers of few bits whose results, perhaps scaled, an operator sums.

    It sums over their pairs of matrices, which different warps can then have; none where it does
    not, or where single warps cannot multiply the matrices where they lie.
    """
    lead = shape_of(op.input.type)[:-2]
    if op.reduced_dim != 0 or tb.epilogue_of(op) or not lead or any(each > 1 for each in lead[1:]):
        return ()
    found = _products_of(op.input)
    return found if all(map(_can_be_sliced, found)) else ()


def _products_of(value: SSAValue) -> Sequence[tb.MatmulOp]:
    """The products that a tile is a scaled sum of, each used once; none where it is another."""
    op, whole = value.owner, shape_of(value.type)
    if isinstance(op, Block) or not value.has_one_use() or tb.epilogue_of(op):
        return ()
    if isinstance(op, tb.MatmulOp):
        return (op,)
    if isinstance(op, tb.AddOp):
        parts = [_products_of(part) for part in op.operands if shape_of(part.type) == whole]
        return [*parts[0], *parts[1]] if len(parts) == 2 and all(parts) else ()
    if not isinstance(op, tb.MulOp) or not isinstance(op.rhs.owner, tb.InputOp | tb.SplitOp):
        return ()
    is_of_pairs = shape_of(op.rhs.type)[0] == whole[0] and shape_of(op.lhs.type) == whole
    return _products_of(op.lhs) if is_of_pairs else ()


def _can_be_sliced(op: tb.MatmulOp) -> bool:
    """Whether single warps multiply matrices where they lie, and make the right one themselves."""
    in_place = isinstance(op.lhs.owner, tb.InputOp) or is_read_in_place(op.lhs)
    in_f32 = element_type_of(op.result.type) == f32 and not op.is_ieee
    return in_place and is_for_products(op.rhs) and in_f32
