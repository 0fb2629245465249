"""Runs of neighbouring rows, one at each place."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import prop_def

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.kn.reshape import RegroupOp, lay_out_row_major
from mugraph.dialects.shapes import ShapeError
from mugraph.dialects.tensor_types import (
    dims,
    element_type_of,
    resolved_layout_of,
    shape_of,
    strides_of,
)


@irdl_op_definition
class RowWindowsOp(RegroupOp):
    """All runs of ``size`` neighbouring rows: the i-th has the rows i to i + size - 1.

    A row is what the tensor has at a place of its first dimension.  No kernel runs: runs share
    memory.  ``%w = kn.row_windows %x size 64 : tensor<200x256xf16> -> tensor<137x64x256xf16>``.
    """

    name = "kn.row_windows"

    size = prop_def(IntegerAttr.constr(i64))

    assembly_format = (
        "$input `size` $size (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(self, operand: SSAValue, size: int) -> None:
        rows, *inner = shape_of(operand.type)
        type_ = TensorType(element_type_of(operand.type), (max(rows - size, 0) + 1, size, *inner))
        super().__init__(
            operands=[operand],
            result_types=[type_],
            properties={"size": IntegerAttr(size, i64)},
        )

    def expected_shape(self) -> tuple[int, ...]:
        """As many runs as there are, the rows of one, and the extents of a row."""
        own, size = shape_of(self.input.type), self.size.value.data
        if not own or not 1 <= size <= own[0]:
            raise ShapeError(f"no {size} rows stand side by side in a tensor of {dims(own)}")
        return (own[0] - size + 1, size, *own[1:])

    def device_cuts(self) -> Sequence[DeviceCut]:
        """The dimensions of a row."""
        return [DeviceCut((dim,), (dim + 1,)) for dim in range(1, len(shape_of(self.input.type)))]

    def expand(self, parts: Expansion) -> SSAValue:
        """A view: runs are as far apart as rows."""
        source = lay_out_row_major(self.input)
        row, *inner = strides_of(resolved_layout_of(source))
        return self.view(source, [row, row, *inner], parts)
