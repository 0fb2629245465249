"""Kernels that move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.device_cuts import DeviceCut, HasDeviceCuts
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn.kernel import MovesElements
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.pieces import Concatenation, Cut, Move, verify_moved_types
from mugraph.dialects.tb.operators import all_but, moved_indices, parallel_indices
from mugraph.dialects.tensor_types import dims, layout_of, op_label, shape_of, value_label


@irdl_op_definition
class CopyOp(MovesElements, HasTileIndices):
    """The same elements in a tensor of its own, perhaps in another layout.

    ``--insert-copies`` puts it where a function returns an argument, and around library calls that
    cannot take a layout.  ``kn.copy %x rows "m"`` moves the first ``m`` rows, as a call says.
    ``kn.copy %x place 1`` is for the member at a place of a group of devices, in whose memory it
    may lie.
    """

    name = "kn.copy"

    input = operand_def(TensorType)
    result = result_def(TensorType)
    rows = opt_prop_def(StringAttr)
    place = opt_prop_def(IntegerAttr.constr(type=i64))
    traits = traits_def(Pure())

    assembly_format = (
        "$input (`rows` $rows^)? (`place` $place^)? (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self,
        operand: SSAValue,
        result_type: Attribute,
        rows: str | None = None,
        place: int | None = None,
    ) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={
                "rows": None if rows is None else StringAttr(rows),
                "place": None if place is None else IntegerAttr(place, i64),
            },
        )

    def verify_(self) -> None:
        """Checks that extents and element types are equal, and layouts where rows are counted."""
        super().verify_()
        layouts = [layout_of(value.type) for value in (self.input, self.result)]
        if self.rows is not None and None not in layouts and layouts[0] != layouts[1]:
            raise VerifyException(f"{op_label(self)} moves rows from one layout to another")
        if shape_of(self.input.type) != shape_of(self.result.type):
            raise OperatorError(
                f"the result has {dims(shape_of(self.result.type))}, expected "
                f"{dims(shape_of(self.input.type))}"
            )
        verify_moved_types(self)

    def tile_indices(self) -> Sequence[TileIndex]:
        """One a dimension."""
        return parallel_indices(len(shape_of(self.result.type)), 1)

    def moves(self) -> Sequence[Move]:
        """One."""
        return [(self.input, self.result, (0,) * len(shape_of(self.input.type)))]


@irdl_op_definition
class SliceOp(MovesElements, HasTileIndices):
    """The part of a tensor that starts at a coordinate, in a tensor of its own.

    ``%y = kn.slice %x from [0, 3] : tensor<4x8xf16> -> tensor<4x5xf16>``.
    """

    name = "kn.slice"

    input = operand_def(TensorType)
    start = prop_def(DenseArrayBase.constr(i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = (
        "$input `from` $start (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(self, operand: SSAValue, start: Sequence[int], result_type: Attribute) -> None:
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"start": integer_array(start)},
        )

    def verify_(self) -> None:
        """Checks that the operand has the part, and that element types are equal."""
        super().verify_()
        shape, part = shape_of(self.input.type), shape_of(self.result.type)
        start = extents_of(self.start)
        if len(start) != len(shape) or len(part) != len(shape):
            raise OperatorError(
                f"a part of {dims(part)} that starts at {list(start)} is not one of {dims(shape)}: "
                f"expected {len(shape)} numbers each"
            )
        for dim, (first, extent, whole) in enumerate(zip(start, part, shape, strict=True)):
            if first < 0 or first + extent > whole:
                raise OperatorError(
                    f"along dimension {dim} the part is elements {first} to {first + extent - 1}, "
                    f"but the operand ({value_label(self.input)}) has {whole}"
                )
        verify_moved_types(self)

    def moves(self) -> Sequence[Move]:
        """One."""
        return [(self.input, self.result, extents_of(self.start))]

    def tile_indices(self) -> Sequence[TileIndex]:
        """Along dimensions of which there is a part the operand is whole."""
        sides = zip(shape_of(self.input.type), shape_of(self.result.type), strict=True)
        return [
            TileIndex(IndexKind.PARALLEL, (dim,), dim)
            if whole == part
            else TileIndex(IndexKind.WHOLE, (dim,))
            for dim, (whole, part) in enumerate(sides)
        ]


@irdl_op_definition
class ConcatOp(Concatenation, MovesElements, HasTileIndices):
    """Tensors one after the other along a dimension.

    ``%z = kn.concat %x, %y dim 1 : (tensor<4x3xf16>, tensor<4x5xf16>) -> tensor<4x8xf16>``.
    """

    name = "kn.concat"

    inputs = var_operand_def(TensorType)
    result = result_def(TensorType)

    assembly_format = (
        "$inputs `dim` $dim (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def tile_indices(self) -> Sequence[TileIndex]:
        """Along the dimension of the parts they are whole."""
        return moved_indices(len(shape_of(self.result.type)), len(self.inputs), self.joined_dim)


class PartsOp(Cut, MovesElements, HasDeviceCuts):
    """Cuts a tensor along a dimension; the parts are the results, in order."""

    input = operand_def(TensorType)
    parts = var_result_def(TensorType)

    assembly_format = (
        "$input `dim` $dim (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def device_cuts(self) -> Sequence[DeviceCut]:
        """Other dimensions than that along which it is cut."""
        dims = all_but(len(shape_of(self.input.type)), self.cut_dim)
        return [DeviceCut((dim,), (dim,) * len(self.parts)) for dim in dims]


@irdl_op_definition
class SplitOp(PartsOp):
    """Parts of any extents along a dimension, which the results' types give.

    ``%a, %b = kn.split %x dim 1 : (tensor<4x8xf16>) -> (tensor<4x3xf16>, tensor<4x5xf16>)``.
    """

    name = "kn.split"


@irdl_op_definition
class ChunkOp(PartsOp):
    """Equal parts along a dimension, as many as there are results.

    ``%a, %b = kn.chunk %x dim 1 : (tensor<4x8xf16>) -> (tensor<4x4xf16>, tensor<4x4xf16>)``.
    """

    name = "kn.chunk"

    def verify_(self) -> None:
        """As a split, into equal parts."""
        shape, dim, count = shape_of(self.input.type), self.cut_dim, len(self.parts)
        if 0 <= dim < len(shape) and count and shape[dim] % count:
            raise OperatorError(
                f"{shape[dim]} elements along dimension {dim} do not fall into {count} equal "
                "parts; use kn.split"
            )
        super().verify_()
        extents = [shape_of(part.type)[dim] for part in self.parts]
        if len(set(extents)) > 1:
            raise OperatorError(
                f"its parts have {extents} elements along dimension {dim}, expected "
                f"{shape[dim] // count} each; use kn.split"
            )
