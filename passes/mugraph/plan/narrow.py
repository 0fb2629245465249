"""What costs little of products of numbers of few bits: threads make what they multiply."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.passes.mugraph.factor_products import narrow_source


def is_narrow(factor: SSAValue) -> bool:
    """Whether a factor of a product is computed of numbers of few bits, one by one."""
    return not isinstance(factor.owner, tb.InputOp) and narrow_source(factor) is not None


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
