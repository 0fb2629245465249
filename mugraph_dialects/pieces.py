"""Parts of a tensor or tile along one dimension, the same at every level.

``kn`` and ``tb`` have the same operators on them; a level says of what type its operands are, and
what else it checks.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_of
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label

Move = tuple[SSAValue, SSAValue, tuple[int, ...]]
"""A source, a destination, and where the smaller of them starts in the larger one."""


class Concatenation(IRDLOperation, Abstract):
    """Operands one after the other along a dimension."""

    inputs = var_operand_def(Attribute)
    dim = prop_def(IntegerAttr.constr(type=i64))
    result = result_def(Attribute)
    traits = traits_def(Pure())

    def __init__(self, operands: Sequence[SSAValue], dim: int, result_type: Attribute) -> None:
        super().__init__(
            operands=[list(operands)],
            result_types=[result_type],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    joined_dim = number_of("dim")
    """The dimension along which they stand."""

    def moves(self) -> Sequence[Move]:
        """One an operand."""
        starts = starts_of(self.joined_dim, self.inputs)
        return [(part, self.result, start) for part, start in zip(self.inputs, starts, strict=True)]

    def verify_(self) -> None:
        """Checks what the level does, and that the operands make up the result."""
        super().verify_()
        verify_pieces(self, self.joined_dim, self.result, self.inputs)
        verify_moved_types(self)


class Cut(IRDLOperation, Abstract):
    """Cuts the operand along a dimension; the parts are the results, in order."""

    input = operand_def(Attribute)
    dim = prop_def(IntegerAttr.constr(type=i64))
    parts = var_result_def(Attribute)
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, dim: int, result_types: Sequence[Attribute]) -> None:
        super().__init__(
            operands=[operand],
            result_types=[list(result_types)],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    cut_dim = number_of("dim")
    """The dimension that is cut."""

    def moves(self) -> Sequence[Move]:
        """One a part."""
        starts = starts_of(self.cut_dim, self.parts)
        return [(self.input, part, start) for part, start in zip(self.parts, starts, strict=True)]

    def verify_(self) -> None:
        """Checks what the level does, and that the results make up the operand."""
        super().verify_()
        verify_pieces(self, self.cut_dim, self.input, self.parts)
        verify_moved_types(self)


def verify_moved_types(op: Operation, moved: Sequence[SSAValue] = ()) -> None:
    """Raises ``VerifyException`` unless operands and results that are moved have one element type.

    These are all of them unless ``moved`` says which.
    """
    first, *others = moved or [*op.operands, *op.results]
    for other in others:
        if element_type_of(other.type) != element_type_of(first.type):
            raise VerifyException(
                f"{op_label(op)} moves elements as they are, but {value_label(first)} has "
                f"{element_type_of(first.type)} and {value_label(other)} "
                f"{element_type_of(other.type)}; insert a '{op.dialect_name()}.cast' to convert one"
            )


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
