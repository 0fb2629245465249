"""What operators of a threadblock graph share: epilogues, checks, indices of their tiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.element_types import is_integer
from mugraph.dialects.elementwise import Epilogue, EpilogueAttr
from mugraph.dialects.interfaces import (
    HasLayoutConstraints,
    HasRaggedTiles,
    HasSharedAccesses,
    HasTileIndices,
    IndexKind,
    TileIndex,
)
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of

NO_EPILOGUE = Epilogue()


class AccessesTiles(HasLayoutConstraints, HasSharedAccesses, HasTileIndices):
    """An operator on tiles in shared memory.

    It says which layouts it takes, how it touches its tiles, and which of their dimensions are one
    index.
    """


class TileOperator(AccessesTiles, HasRaggedTiles):
    """The same on tiles of which some elements may not exist: most operators."""


def epilogue_of(op: Operation) -> Epilogue:
    """The epilogue of an operator; empty where it has none."""
    attribute = cast("EpilogueAttr | None", op.properties.get("epilogue"))
    return NO_EPILOGUE if attribute is None else attribute.data


def expect_shape(op: Operation, expected: Sequence[int], result: SSAValue) -> None:
    """Raises ``VerifyException`` unless ``result`` has the expected extents."""
    if shape_of(result.type) != tuple(expected):
        raise VerifyException(
            f"{op_label(op)}: the result has {dims(shape_of(result.type))}, expected "
            f"{dims(expected)}"
        )


def verify_epilogue(op: Operation, result: SSAValue) -> None:
    """Raises ``VerifyException`` where an epilogue computes on integers."""
    if is_integer(element_type_of(result.type)) and epilogue_of(op).functions:
        raise VerifyException(
            f"{op_label(op)}: its epilogue computes on floating-point numbers, but the result has "
            f"elements of {element_type_of(result.type)}; insert a 'tb.cast' to f32 before them"
        )


def parallel_indices(
    rank: int, operands: int, dims: Iterable[int] | None = None, *, broadcasts: bool = False
) -> list[TileIndex]:
    """An index for each dimension, or some of them, that all operands and results share."""
    return [
        TileIndex(IndexKind.PARALLEL, (dim,) * operands, dim, broadcasts)
        for dim in (range(rank) if dims is None else dims)
    ]


def moved_indices(rank: int, operands: int, dim: int) -> list[TileIndex]:
    """Those of parts that stand one after the other along a dimension, where each is whole."""
    whole = [
        TileIndex(
            IndexKind.WHOLE, tuple(dim if part == other else None for other in range(operands))
        )
        for part in range(operands)
    ]
    return [*parallel_indices(rank, operands, all_but(rank, dim)), *whole]


def product_indices(rank: int) -> list[TileIndex]:
    """Leading dimensions, rows, columns, and the one that a matrix product sums over."""
    return [
        *parallel_indices(rank, 2, range(rank - 2)),
        TileIndex(IndexKind.PARALLEL, (rank - 2, None), rank - 2),
        TileIndex(IndexKind.PARALLEL, (None, rank - 1), rank - 1),
        TileIndex(IndexKind.SUMMED, (rank - 1, rank - 2)),
    ]


def all_but(rank: int, dim: int) -> list[int]:
    """The other dimensions."""
    return [other for other in range(rank) if other != dim]
