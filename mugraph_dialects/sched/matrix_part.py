"""A part of a buffer's last two dimensions: what a smaller fragment stands for."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerType
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.sched.mappings import matrix_layout, with_offset
from mugraph.dialects.tensor_types import (
    AnyLayout,
    base_layout,
    dims,
    op_label,
    resolved_layout_of,
    shape_of,
)


def start_of(at: DenseArrayBase[IntegerType] | None, rank: int) -> tuple[int, ...]:
    """Where a part starts, by its property ``at``: at the origin where there is none."""
    return (0,) * rank if at is None else extents_of(at)


def shape_of_one(value: SSAValue, start: DenseArrayBase[IntegerType] | None) -> tuple[int, ...]:
    """The extents of the matrix that begins at ``start`` in a buffer of several; of all without."""
    shape = shape_of(value.type)
    return shape if start is None else (*[1] * (len(shape) - 2), *shape[-2:])


def start_attribute(at: Sequence[int] | None) -> DenseArrayBase[IntegerType] | None:
    """Where a part starts, as a property; ``None`` stands for the origin of the whole."""
    return None if at is None else integer_array(at)


def verify_part(
    op: IRDLOperation,
    part: Sequence[int],
    start: Sequence[int],
    whole: Sequence[int],
    what: str,
    moved: str = "the fragment",
) -> None:
    """Raises ``VerifyException`` unless what begins at ``start`` lies within a whole."""
    if (
        len(part) != len(whole)
        or len(start) != len(whole)
        or any(
            at < 0 or at + extent > limit
            for at, extent, limit in zip(start, part, whole, strict=True)
        )
    ):
        place = f" at {list(start)}" if any(start) else ""
        raise VerifyException(
            f"{op_label(op)}: {moved} has {dims(part)}{place}, expected {dims(whole)}, "
            f"{what}, or a part of it"
        )


def part_of_matrix(
    value: SSAValue, start: Sequence[int], extents: Sequence[int], *, transposed: bool = False
) -> AnyLayout:
    """The layout of a part of a buffer's last two dimensions, as a matrix or its transpose."""
    layout = resolved_layout_of(value)
    offset = base_layout(layout)(*start)
    return with_offset(matrix_layout(layout, extents, transposed=transposed), offset)
