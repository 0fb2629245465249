"""A kernel that looks rows up."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts
from mugraph.dialects.element_types import PLACES
from mugraph.dialects.indirect import (
    LaunchesKernel,
    ReadsLengths,
    ReadsRows,
    TakesDistinctNumbers,
    gathered_shape,
)
from mugraph.dialects.kn.compute import CastOp
from mugraph.dialects.kn.kernel import KernelOp, MovesElements, prefer_same_innermost
from mugraph.dialects.kn.overlap import RuntimePart
from mugraph.dialects.kn.reshape import RegroupOp
from mugraph.dialects.kn.view import ViewOp
from mugraph.dialects.layout_problem import LayoutProblem
from mugraph.dialects.pieces import verify_moved_types
from mugraph.dialects.tensor_types import element_type_of, shape_of, value_label


@irdl_op_definition
class GatherOp(KernelOp, RuntimePart, ReadsRows, HasDeviceCuts):
    """The rows of a table that a tensor of i32 or i64 names: embeddings of tokens.

    A row is what the table has at a place of its first dimension.  The kernel takes the nearest row
    for a number that names none; the interpreter refuses it.
    ``%y = kn.gather %table rows %tokens : (tensor<1000x64xf16>, tensor<2x5xi32>) ->
    tensor<2x5x64xf16>``.
    """

    name = "kn.gather"

    table = operand_def(TensorType)
    rows = operand_def(TensorType)

    assembly_format = (
        "$table `rows` $rows (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self, table: SSAValue, rows: SSAValue, result_type: Attribute | None = None
    ) -> None:
        shape = gathered_shape(shape_of(table.type), shape_of(rows.type))
        type_ = result_type or TensorType(element_type_of(table.type), shape)
        super().__init__(operands=[table, rows], result_types=[type_])

    @property
    def row_rank(self) -> int:
        """How many dimensions a row has: the result's last ones."""
        return len(shape_of(self.table.type)) - 1

    def rows_named(self, operand: int) -> int | None:
        """The table's rows, of the second operand."""
        return shape_of(self.table.type)[0] if operand == 1 else None

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Dimensions of the numbers, and of a row."""
        rank = len(shape_of(self.rows.type))
        numbers = [DeviceCut((None, dim), (dim,)) for dim in range(rank)]
        rows = [DeviceCut((1 + dim, None), (rank + dim,)) for dim in range(self.row_rank)]
        return [*numbers, *rows]

    def tensors_moved(self) -> Sequence[SSAValue]:
        """All but the table."""
        return self.rows, self.result

    def expected_shape(self) -> tuple[int, ...]:
        """The extents of the numbers, then those of a row."""
        return gathered_shape(shape_of(self.table.type), shape_of(self.rows.type))

    def verify_(self) -> None:
        """As any kernel; numbers of rows are i32 or i64, and elements stay as they are."""
        super().verify_()
        verify_numbers(self.rows)
        verify_moved_types(self, (self.table, self.result))

    def add_layout_constraints(self, problem: LayoutProblem) -> None:
        """Rows of the table and of the result share their innermost dimension."""
        prefer_same_innermost(problem, self, self.table, self.result, [0])


def verify_numbers(rows: SSAValue) -> None:
    """Raises ``OperatorError`` where numbers of rows are of other types than i32 and i64."""
    number = element_type_of(rows.type)
    if number not in PLACES:
        raise OperatorError(
            f"numbers of rows are of i32 or i64, but {value_label(rows)} has elements of {number}"
        )


def count_of_rows(numbers: SSAValue) -> int | None:
    """How many rows the smallest table has in which a tensor names some; ``None`` for no table.

    A length may be any number of them, and one more.
    """
    counts: list[int] = []
    for use in numbers.uses:
        op = use.operation
        if isinstance(op, ReadsRows):
            count = op.rows_named(use.index)
            counts += [] if count is None else [count]
        if isinstance(op, ReadsLengths) and (most := op.largest_length(use.index)) is not None:
            counts.append(most + 1)
        if isinstance(op, LaunchesKernel):
            count = count_of_rows(op.argument_of(use.index))
            counts += [] if count is None else [count]
        elif isinstance(op, CastOp | MovesElements | RegroupOp | ViewOp):
            found = map(count_of_rows, op.results)
            counts += [count for count in found if count is not None]
    return min(counts, default=None)


def must_be_distinct(numbers: SSAValue) -> bool:
    """Whether no two numbers of a tensor may be the same."""
    for use in numbers.uses:
        op = use.operation
        if isinstance(op, TakesDistinctNumbers) and op.takes_distinct(use.index):
            return True
        if isinstance(op, LaunchesKernel) and must_be_distinct(op.argument_of(use.index)):
            return True
        seen = isinstance(op, CastOp | MovesElements | RegroupOp | ViewOp)
        if seen and any(map(must_be_distinct, op.results)):
            return True
    return False
