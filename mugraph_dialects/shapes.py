"""Shapes of results, the same at every level."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects.tensor_types import dims


class ShapeError(ValueError):
    """Operands whose extents do not go together."""


def broadcast_shape(shapes: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The extents of an element-wise result: equal ranks, extents equal or 1."""
    ranks = {len(shape) for shape in shapes}
    if len(ranks) != 1:
        listed = " and ".join(dims(shape) for shape in shapes)
        raise ShapeError(f"operands {listed} have different ranks; reshape one of them")
    result: list[int] = []
    for dim, extents in enumerate(zip(*shapes, strict=True)):
        widest = max(extents)
        if any(extent not in (1, widest) for extent in extents):
            listed = " and ".join(dims(shape) for shape in shapes)
            raise ShapeError(
                f"operands {listed} differ in dimension {dim}: extents must be equal or 1"
            )
        result.append(widest)
    return tuple(result)


def matmul_shape(lhs: Sequence[int], rhs: Sequence[int]) -> tuple[int, ...]:
    """The extents of the product of [..., M, K] and [..., K, N]."""
    if len(lhs) != len(rhs) or len(lhs) < 2:
        raise ShapeError(
            f"operands {dims(lhs)} and {dims(rhs)} must have the same rank, at least 2"
        )
    if lhs[-1] != rhs[-2]:
        raise ShapeError(
            f"operand 0 ({dims(lhs)}) has {lhs[-1]} columns but operand 1 ({dims(rhs)}) has "
            f"{rhs[-2]} rows; they are summed over and must be equal"
        )
    if tuple(lhs[:-2]) != tuple(rhs[:-2]):
        raise ShapeError(f"leading extents of operands {dims(lhs)} and {dims(rhs)} must be equal")
    return (*lhs[:-1], rhs[-1])
