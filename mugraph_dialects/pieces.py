"""Parts of a tensor or tile along one dimension, the same at every level."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.tensor_types import dims, op_label, shape_of, value_label


def verify_pieces(op: Operation, dim: int, whole: SSAValue, parts: Sequence[SSAValue]) -> None:
    """Raises ``VerifyException`` unless ``parts`` make up ``whole`` along ``dim``."""
    shape = shape_of(whole.type)
    if not 0 <= dim < len(shape):
        raise VerifyException(
            f"{op_label(op)}: dimension {dim} does not exist in {dims(shape)}: expected 0 to "
            f"{len(shape) - 1}"
        )
    if not parts:
        raise VerifyException(f"{op_label(op)} has no parts; it needs at least one")
    total = 0
    for index, part in enumerate(parts):
        extents = shape_of(part.type)
        if len(extents) != len(shape) or any(
            extents[other] != shape[other] for other in range(len(shape)) if other != dim
        ):
            raise VerifyException(
                f"{op_label(op)}: part {index} ({value_label(part)}) has {dims(extents)}; it must "
                f"equal the whole tensor's {dims(shape)} but for dimension {dim}"
            )
        total += extents[dim]
    if total != shape[dim]:
        raise VerifyException(
            f"{op_label(op)}: the parts have {total} elements along dimension {dim} together, the "
            f"whole tensor ({value_label(whole)}) has {shape[dim]}"
        )


def starts_of(dim: int, parts: Sequence[SSAValue]) -> list[tuple[int, ...]]:
    """Where each part starts in the whole tensor."""
    starts: list[tuple[int, ...]] = []
    reached = 0
    for part in parts:
        shape = shape_of(part.type)
        starts.append(tuple(reached if other == dim else 0 for other in range(len(shape))))
        reached += shape[dim]
    return starts
