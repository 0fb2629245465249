"""A kernel that puts rows where numbers say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.irdl import operand_def, prop_def

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts
from mugraph.dialects.indirect import ReadsRows
from mugraph.dialects.kn.gather import verify_numbers
from mugraph.dialects.kn.kernel import KernelOp, prefer_same_innermost
from mugraph.dialects.kn.overlap import RuntimePart
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.pieces import verify_moved_types
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tensor_types import (
    dims,
    element_bytes_of,
    layout_of,
    row_major_strides,
    shape_of,
    strides_of,
)

STORED = "kn.stored"
"""The attribute of a scatter whose rows the kernel stores that computes them: ``--store-rows``."""


@dataclass(frozen=True)
class PlacedRows:
    """Where the elements of one row of a table lie: in pieces without gaps, equally far apart."""

    rows: int
    """How many rows the table has."""
    elements: int
    """Those of a piece."""
    row_stride: int
    """From a row to the next, in elements."""
    apart: int
    """From a piece of a row to its next, in elements."""
    number_bytes: int
    """Of what says which row, 4 or 8."""


@irdl_op_definition
class ScatterOp(KernelOp, RuntimePart, ReadsRows, HasDeviceCuts):
    """A table with some of its rows replaced: new keys in a cache.

    Row ``i`` of ``values`` along ``dim`` is put at the place ``rows[i]`` of the table along it.  A
    number below 0 counts from the end; of two that name one row, either may stay.  The kernel
    leaves out rows whose number names none; the interpreter refuses them.
    ``%y = kn.scatter %new into %table rows %at dim 1 : (tensor<8x1x64xf16>, tensor<8x99x64xf16>,
    tensor<1xi64>) -> tensor<8x99x64xf16>``.

    The result of a function may be in the memory of the table: see :meth:`table_to_write`.
    """

    name = "kn.scatter"

    values = operand_def(TensorType)
    table = operand_def(TensorType)
    rows = operand_def(TensorType)
    dim = prop_def(IntegerAttr.constr(i64))

    assembly_format = (
        "$values `into` $table `rows` $rows `dim` $dim (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self,
        values: SSAValue,
        table: SSAValue,
        rows: SSAValue,
        dim: int,
        result_type: Attribute | None = None,
    ) -> None:
        super().__init__(
            operands=[values, table, rows],
            result_types=[result_type or table.type],
            properties={"dim": IntegerAttr(dim, i64)},
        )

    def moved_elements(self) -> int:
        """Those of the new rows."""
        return math.prod(shape_of(self.values.type))

    @property
    def row_dim(self) -> int:
        """The dimension along which the table has its rows."""
        return self.dim.value.data

    def rows_named(self, operand: int) -> int | None:
        """The table's rows, of the third operand."""
        return shape_of(self.table.type)[self.row_dim] if operand == 2 else None

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Other dimensions than that of the rows."""
        dims = [d for d in range(len(shape_of(self.table.type))) if d != self.row_dim]
        return [DeviceCut((dim, dim, None), (dim,)) for dim in dims]

    def tensors_moved(self) -> Sequence[SSAValue]:
        """The new rows and their numbers, where the table is written in place."""
        return (self.values, self.rows) if self.table_to_write() else super().tensors_moved()

    def table_to_write(self) -> BlockArgument | None:
        """The argument whose memory the result may lie in, so that only the new rows are written.

        Nothing else reads the old rows of such a table, and both have one layout.  ``None`` where
        the result needs memory of its own, into which the table is copied first.
        """
        table = self.table
        same = _strides(table) == _strides(self.result)
        return table if isinstance(table, BlockArgument) and same and table.has_one_use() else None

    @property
    def is_stored(self) -> bool:
        """Whether the kernel that computes the rows stores them, so that this is no launch."""
        return STORED in self.attributes

    def set_stored(self) -> None:
        """Says that it does."""
        self.attributes[STORED] = UnitAttr()

    def placed_rows(self) -> PlacedRows | None:
        """Where the row lies, if it is one of a table that is written in place; else ``None``.

        Pieces are the dimensions behind that of the rows; those before number them.
        """
        if self.table_to_write() is None or shape_of(self.rows.type) != (1,):
            return None
        shape, strides, dim = shape_of(self.table.type), _strides(self.table), self.row_dim
        before = [pair for pair in zip(shape[:dim], strides, strict=False) if pair[0] != 1]
        inner = [n for n in range(dim + 1, len(shape)) if shape[n] != 1]
        elements = math.prod(shape[dim + 1 :])
        packed = row_major_strides(shape[dim + 1 :])
        even = all(far == near * count for (_, far), (count, near) in pairwise(before))
        if not even or any(strides[n] != packed[n - dim - 1] for n in inner):
            return None
        apart = before[-1][1] if before else 0
        number = element_bytes_of(self.rows.type)
        return PlacedRows(shape[dim], elements, strides[dim], apart, number)

    def expected_shape(self) -> tuple[int, ...]:
        """The table's extents; raises ``ShapeError`` where the rows do not fit it."""
        table, rows = shape_of(self.table.type), shape_of(self.rows.type)
        if not 0 <= self.row_dim < len(table):
            raise ShapeError(f"dim {self.row_dim} is none of the table's {len(table)} dimensions")
        if len(rows) != 1:
            raise ShapeError(f"numbers of rows have one dimension, not {dims(rows)}")
        wanted = (*table[: self.row_dim], rows[0], *table[self.row_dim + 1 :])
        if shape_of(self.values.type) != wanted:
            raise ShapeError(
                f"the values (argument 0) of {rows[0]} rows along dimension {self.row_dim} of a "
                f"table (argument 1) of {dims(table)} must have {dims(wanted)}, not "
                f"{dims(shape_of(self.values.type))}"
            )
        return table

    def verify_(self) -> None:
        """As any kernel; numbers of rows are i32 or i64, and elements stay as they are."""
        super().verify_()
        verify_numbers(self.rows)
        verify_moved_types(self, (self.table, self.values, self.result))

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Table, new rows and result share their innermost dimension."""
        prefer_same_innermost(problem, self, self.table, self.result)
        prefer_same_innermost(problem, self, self.values, self.result)


def _strides(value: SSAValue) -> tuple[int, ...]:
    """Those of the layout, or row-major ones where none is written."""
    layout = layout_of(value.type)
    return row_major_strides(shape_of(value.type)) if layout is None else strides_of(layout)
