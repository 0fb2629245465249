"""Kernels that make tables of rows in groups: the tokens of experts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import number_of
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.element_types import PLACES
from mugraph.dialects.indirect import MakesDistinctNumbers, ReadsRows, TakesDistinctNumbers
from mugraph.dialects.interfaces import HasLayoutConstraints
from mugraph.dialects.kn.overlap import CanOverlap
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.tensor_types import dims, element_type_of, op_label, shape_of, value_label


def most_tiles(rows: int, groups: int, size: int) -> int:
    """How many tiles of ``size`` rows there are at most: of each group all but one are full."""
    filled = min(rows, groups)
    return filled + (rows - filled) // size


class _TableOp(WorkspaceOp, HasLayoutConstraints, CanOverlap):
    """An operator that makes lists of i32 of a list of i32 or i64."""

    def verify_operand(self, operand: SSAValue) -> None:
        """Raises ``VerifyException`` unless an operand's type is that of a list."""
        if len(shape_of(operand.type)) != 1 or element_type_of(operand.type) not in PLACES:
            raise VerifyException(
                f"{op_label(self)}: {value_label(operand)} is {operand.type}; expected one "
                "dimension, of i32 or i64"
            )

    def verify_lists(self, operand: SSAValue, extents: Sequence[int]) -> None:
        """Raises ``VerifyException`` unless types are those of lists, results of these extents."""
        self.verify_operand(operand)
        for result, extent in zip(self.results, extents, strict=True):
            if shape_of(result.type) != (extent,) or element_type_of(result.type) != i32:
                raise VerifyException(
                    f"{op_label(self)}: {value_label(result)} is {result.type}; expected {extent} "
                    "elements of i32"
                )


@irdl_op_definition
class GroupTilesOp(_TableOp, MakesDistinctNumbers):
    """How rows in groups, side by side, fall into tiles of ``size`` rows, of one group each.

    ``ends`` says behind which row each group ends, and does not fall; a group may have no rows, and
    rows behind the last end are of the last group.  The results are the group of each tile, the
    first row of each tile, and where each row is found among the rows of all tiles, one behind the
    other.  A tile has ``size`` rows of the tensor whatever their groups, the last ones at its end:
    ``places`` name those that count.  There are as many tiles as any ends take; ``used`` says how
    many have such rows, and those behind are of the last group.  The interpreter refuses ends that
    fall or are beyond the rows, and kernels take the nearest that are not.

    ``%group, %start, %place, %used = kn.group_tiles %ends size 64 : (tensor<8xi32>) ->
    (tensor<23xi32>, tensor<23xi32>, tensor<1024xi32>, tensor<1xi32>)``.
    """

    name = "kn.group_tiles"

    ends = operand_def(TensorType)
    size = prop_def(IntegerAttr.constr(i64))
    groups = result_def(TensorType)
    starts = result_def(TensorType)
    places = result_def(TensorType)
    used = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$ends `size` $size (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        ends: SSAValue,
        rows: int,
        size: int,
        result_types: Sequence[Attribute] | None = None,
    ) -> None:
        groups = shape_of(ends.type)[0] if len(shape_of(ends.type)) == 1 else 1
        tiles = most_tiles(rows, groups, size) if size > 0 else 1
        super().__init__(
            operands=[ends],
            result_types=result_types or [TensorType(i32, [n]) for n in (tiles, tiles, rows, 1)],
            properties={"size": IntegerAttr(size, i64)},
        )

    def distinct_lists(self) -> Mapping[SSAValue, int]:
        """The places of rows, in all tiles."""
        return {self.places: shape_of(self.groups.type)[0] * self.rows_of_a_tile}

    rows_of_a_tile = number_of("size")
    """How many rows a tile has."""

    def verify_(self) -> None:
        """Checks the types, and that a tile has as many rows as there are at most."""
        super().verify_()
        rows, size = shape_of(self.places.type), self.rows_of_a_tile
        if len(rows) != 1 or not 1 <= size <= rows[0]:
            raise OperatorError(
                f"tiles of {size} rows of a tensor of {dims(rows)}; expected 1 row to as many as "
                "there are"
            )
        groups = shape_of(self.ends.type)
        tiles = most_tiles(rows[0], groups[0] if groups else 1, size)
        self.verify_lists(self.ends, (tiles, tiles, rows[0], 1))


@irdl_op_definition
class SortGroupsOp(_TableOp, ReadsRows, MakesDistinctNumbers):
    """A counting sort of rows by the group of each, in which rows of a group keep their order.

    The results are the row that comes to each place, the place that each row comes to, and the
    place behind the last row of each group.  A group is a number from 0 to one less than there are
    ends; the interpreter refuses others, and kernels take the nearest.

    ``%order, %place, %end = kn.sort_groups %groups : (tensor<1024xi32>) -> (tensor<1024xi32>,
    tensor<1024xi32>, tensor<8xi32>)``.
    """

    name = "kn.sort_groups"

    groups = operand_def(TensorType)
    order = result_def(TensorType)
    places = result_def(TensorType)
    ends = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$groups (`workspace` $workspace^)? attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self, groups: SSAValue, count: int, result_types: Sequence[Attribute] | None = None
    ) -> None:
        rows = list(shape_of(groups.type))
        super().__init__(
            operands=[groups],
            result_types=result_types or [TensorType(i32, n) for n in (rows, rows, [count])],
        )

    def distinct_lists(self) -> Mapping[SSAValue, int]:
        """The order and the places, each a permutation of the rows."""
        (rows,) = shape_of(self.groups.type)
        return {self.order: rows, self.places: rows}

    def rows_named(self, operand: int) -> int | None:
        """Of the first operand, a group each: as many as there are ends."""
        return shape_of(self.ends.type)[0] if operand == 0 else None

    def verify_(self) -> None:
        """Checks the types."""
        super().verify_()
        rows, ends = shape_of(self.groups.type), shape_of(self.ends.type)
        self.verify_lists(self.groups, (*rows[:1], *rows[:1], *ends[:1]) if rows else (1, 1, 1))


@irdl_op_definition
class InvertPlacesOp(_TableOp, TakesDistinctNumbers):
    """Which row is at each place, for a list of the places of rows; -1 where none is.

    The result has one dimension, or two, whose places are counted in row-major order.  No two rows
    have one place: the interpreter refuses such lists, and places that the result does not have.
    With kernels any of the rows stands at a place that several have, and places that there are not
    are left out.

    ``%row = kn.invert_places %place : tensor<1024xi32> -> tensor<23x64xi32>``.
    """

    name = "kn.invert_places"

    places = operand_def(TensorType)
    rows = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$places (`workspace` $workspace^)? attr-dict `:` type($places) `->` type($rows)"
    )

    def takes_distinct(self, operand: int) -> bool:
        """Of the places."""
        return True

    def __init__(self, places: SSAValue, extents: Sequence[int]) -> None:
        super().__init__(operands=[places], result_types=[TensorType(i32, extents)])

    def verify_(self) -> None:
        """Checks the types, and that there is a place for each row."""
        super().verify_()
        rows, places = shape_of(self.places.type), shape_of(self.rows.type)
        if len(places) not in (1, 2) or math.prod(places) < math.prod(rows):
            raise OperatorError(
                f"{dims(rows)} rows are at {dims(places)} places; expected one dimension or two, "
                "and a place for each row"
            )
        self.verify_operand(self.places)
        if element_type_of(self.rows.type) != i32:
            raise VerifyException(
                f"{op_label(self)}: {value_label(self.rows)} is {self.rows.type}; expected i32"
            )
