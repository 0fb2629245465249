"""The elements of a tensor under other extents, whatever its layout will be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def

from mugraph.dialects.cute import Layout
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.device_cuts import (
    DeviceCut,
    HasDeviceCuts,
    MovesWholeElements,
    cuts_of_indices,
)
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn.composite import CompositeOp, Expansion
from mugraph.dialects.kn.customized import CustomizedOp, match_arguments
from mugraph.dialects.kn.rearrange import CopyOp
from mugraph.dialects.kn.view import ViewOp
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.pieces import verify_moved_types
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb import OutputOp
from mugraph.dialects.tensor_types import (
    dims,
    element_type_of,
    has_nested_modes,
    layout_of,
    resolved_layout_of,
    row_major_strides,
    shape_of,
    strides_of,
    with_layout,
)


def lay_out(value: SSAValue, layout: Layout[int]) -> SSAValue:
    """The value with a layout in its type, and where custom kernels store and read it."""
    laid_out = cast(TensorType[Attribute], with_layout(value.type, layout))
    if value.type == laid_out:
        return value
    owner = value.owner
    if isinstance(owner, CustomizedOp):
        stores = [op for op in owner.body.block.ops if isinstance(op, OutputOp)]
        stores[owner.results.index(value)].dtensor_type = laid_out
    result = Rewriter.replace_value_with_new_type(value, laid_out)
    match_arguments(result)
    return result


def lay_out_row_major(value: SSAValue) -> SSAValue:
    """The value with its layout in its type: row-major, unless it has one already."""
    if layout_of(value.type) is not None:
        return value
    shape = shape_of(value.type)
    return lay_out(value, Layout(shape, row_major_strides(shape)))


def have_same_places(shape: Sequence[int], strides: Sequence[int], others: Sequence[int]) -> bool:
    """Whether elements have the same offsets under two lists of strides."""
    return all(
        own == other
        for extent, own, other in zip(shape, strides, others, strict=True)
        if extent > 1
    )


def may_be_row_major(value: SSAValue) -> bool:
    """Whether no other layout of a tensor is written."""
    layout, shape = layout_of(value.type), shape_of(value.type)
    return layout is None or have_same_places(shape, strides_of(layout), row_major_strides(shape))


def strides_of_reshaped(
    own: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> list[int] | None:
    """The strides of the same memory under other extents; ``None`` where no strides say it."""
    pairs = [pair for pair in zip(own, strides, strict=True) if pair[0] > 1]
    found: list[int] = []
    extent, stride = 1, 1
    for wanted in reversed(shape):
        if wanted > 1 and extent == 1:
            extent, stride = pairs.pop()
        while extent % wanted and pairs and pairs[-1][1] == extent * stride:
            extent *= pairs.pop()[0]
        if extent % wanted:
            return None
        found.append(stride)
        extent, stride = extent // wanted, stride * wanted
    return found[::-1]


def regrouped(own: Sequence[int], wanted: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Neighbouring dimensions of two shapes that have as many elements, as few as there are."""
    ours, theirs = list(range(len(own))), list(range(len(wanted)))
    while ours and theirs:
        left, right = [ours.pop(0)], [theirs.pop(0)]
        of_left, of_right = own[left[0]], wanted[right[0]]
        while of_left != of_right:
            if of_left < of_right:
                left.append(ours.pop(0))
                of_left *= own[left[-1]]
            else:
                right.append(theirs.pop(0))
                of_right *= wanted[right[-1]]
        yield left, right


class RegroupOp(CompositeOp, HasDeviceCuts, MovesWholeElements):
    """The same elements under other extents: a ``kn.view``, whose operand's layout is then fixed.

    That is row-major unless it is written.  A result with a layout of its own is a copy.
    """

    input = operand_def(TensorType)

    def verify_(self) -> None:
        """As any kernel; elements stay as they are."""
        super().verify_()
        verify_moved_types(self)

    def view(self, source: SSAValue, strides: Sequence[int], parts: Expansion) -> SSAValue:
        """The memory of a tensor under the result's extents."""
        type_ = self.result.type
        layout = Layout(shape_of(type_), tuple(strides))
        written = layout_of(type_)
        if written is not None and have_same_places(shape_of(type_), strides, strides_of(written)):
            layout = written
        seen = parts.add(ViewOp(source, with_layout(type_, layout)))
        if written in (None, layout):
            return seen
        return parts.add(CopyOp(seen, type_))


class BecomesOp(RegroupOp):
    """The same elements under the extents of the result's type, which is all there is to say."""

    assembly_format = (
        "$input (`workspace` $workspace^)? attr-dict `:` type($input) `->` type($result)"
    )

    def __init__(self, operand: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[operand], result_types=[result_type])


@irdl_op_definition
class ReshapeOp(BecomesOp):
    """A tensor's elements, in row-major order, as a tensor of other extents.

    No kernel runs, unless a layout is written of which no strides say it: then a copy is made.
    ``%y = kn.reshape %x : tensor<4x6xf16> -> tensor<2x2x6xf16>``.
    """

    name = "kn.reshape"

    def expected_shape(self) -> tuple[int, ...]:
        """The result's own extents, of as many elements as the operand has."""
        own, wanted = shape_of(self.input.type), shape_of(self.result.type)
        if math.prod(own) != math.prod(wanted):
            raise ShapeError(
                f"{dims(wanted)} are {math.prod(wanted)} elements, but the operand's {dims(own)} "
                f"are {math.prod(own)}"
            )
        return wanted

    def device_cuts(self) -> Sequence[DeviceCut]:
        """The outermost dimensions of what becomes of neighbouring dimensions, on either side."""
        found: list[DeviceCut] = []
        own, wanted = shape_of(self.input.type), shape_of(self.result.type)
        for dims_of_own, dims_of_wanted in regrouped(own, wanted):
            first = next((dim for dim in dims_of_own if own[dim] > 1), None)
            other = next((dim for dim in dims_of_wanted if wanted[dim] > 1), None)
            if first is not None and other is not None:
                found.append(DeviceCut((first,), (other,)))
        return found

    def expand(self, parts: Expansion) -> SSAValue:
        """A view, of a copy where the operand's strides are not those of a reshaped tensor."""
        source = lay_out_row_major(self.input)
        own, wanted = shape_of(source.type), shape_of(self.result.type)
        strides = strides_of_reshaped(own, strides_of(resolved_layout_of(source)), wanted)
        if strides is None:
            layout = Layout(own, row_major_strides(own))
            source = parts.add(CopyOp(source, with_layout(source.type, layout)))
            strides = row_major_strides(wanted)
        return self.view(source, strides, parts)


@irdl_op_definition
class TransposeOp(RegroupOp):
    """A tensor with its dimensions in another order: ``dims`` says which each of the result is.

    No kernel runs.  ``%t = kn.transpose %x dims [0, 2, 1] : tensor<2x4x6xf16> ->
    tensor<2x6x4xf16>``.
    """

    name = "kn.transpose"

    permutation = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$input `dims` $permutation (`workspace` $workspace^)? attr-dict "
        "`:` type($input) `->` type($result)"
    )

    def __init__(
        self, operand: SSAValue, permutation: Sequence[int], result_type: Attribute | None = None
    ) -> None:
        shape = shape_of(operand.type)
        super().__init__(
            operands=[operand],
            result_types=[
                result_type
                or TensorType(element_type_of(operand.type), [shape[dim] for dim in permutation])
            ],
            properties={"permutation": integer_array(permutation)},
        )

    @property
    def order(self) -> tuple[int, ...]:
        """For each dimension of the result, which of the operand's it is."""
        return extents_of(self.permutation)

    def expected_shape(self) -> tuple[int, ...]:
        """The operand's extents in that order."""
        shape = shape_of(self.input.type)
        if sorted(self.order) != list(range(len(shape))):
            raise ShapeError(
                f"the order {list(self.order)} must name each dimension of {dims(shape)} once: "
                f"0 to {len(shape) - 1}"
            )
        return tuple(shape[dim] for dim in self.order)

    def device_cuts(self) -> Sequence[DeviceCut]:
        """One a dimension."""
        return [DeviceCut((dim,), (place,)) for place, dim in enumerate(self.order)]

    def expand(self, parts: Expansion) -> SSAValue:
        """A view."""
        source = self._laid_out_for_it() or lay_out_row_major(self.input)
        strides = strides_of(resolved_layout_of(source))
        return self.view(source, [strides[dim] for dim in self.order], parts)

    def _laid_out_for_it(self) -> SSAValue | None:
        """The operand, stored by its kernel so that the result is row-major.

        Where nothing else uses it, and rows stay rows: a reshape of the result is then no copy.
        """
        value, order = self.input, self.order
        is_free = layout_of(value.type) is None and layout_of(self.result.type) is None
        if not is_free or not isinstance(value.owner, CustomizedOp) or not value.has_one_use():
            return None
        if order[-1] != len(order) - 1:
            return None
        strides = row_major_strides(shape_of(self.result.type))
        own = tuple(strides[order.index(dim)] for dim in range(len(order)))
        return lay_out(value, Layout(shape_of(value.type), own))


@irdl_op_definition
class BroadcastOp(BecomesOp, HasTileIndices):
    """A tensor whose extents of 1 become the result's: each element stands there many times.

    No kernel runs, unless the result has a layout in which every element has a place of its own.
    ``%y = kn.broadcast %x : tensor<4x1xf16> -> tensor<4x6xf16>``.
    """

    name = "kn.broadcast"

    def expected_shape(self) -> tuple[int, ...]:
        """The result's own extents, to which the operand's are broadcast."""
        own, wanted = shape_of(self.input.type), shape_of(self.result.type)
        if broadcast_shape([own, wanted]) != wanted:
            raise ShapeError(
                f"{dims(own)} cannot be broadcast to {dims(wanted)}: extents are equal, or 1 in "
                "the operand"
            )
        return wanted

    def tile_indices(self) -> Sequence[TileIndex]:
        """One a dimension; where the operand has one element it is the result's alone."""
        sides = zip(shape_of(self.input.type), shape_of(self.result.type), strict=True)
        return [
            TileIndex(IndexKind.PARALLEL, (dim if own == wanted else None,), dim)
            for dim, (own, wanted) in enumerate(sides)
        ]

    def device_cuts(self) -> Sequence[DeviceCut]:
        """One a dimension."""
        return cuts_of_indices(self, self.tile_indices())

    def expand(self, parts: Expansion) -> SSAValue:
        """A view with strides of 0."""
        source = lay_out_row_major(self.input)
        own, wanted = shape_of(source.type), shape_of(self.result.type)
        strides = strides_of(resolved_layout_of(source))
        sides = zip(own, wanted, strides, strict=True)
        return self.view(
            source, [0 if mine < extent else step for mine, extent, step in sides], parts
        )


def is_reshape(op: ViewOp) -> bool:
    """Whether a view has the operand's elements in row-major order, with the gaps that it has."""
    if op.offset or any(has_nested_modes(value.type) for value in (op.input, op.result)):
        return False
    own, wanted = (shape_of(value.type) for value in (op.input, op.result))
    strides, seen = (strides_of(resolved_layout_of(value)) for value in (op.input, op.result))
    if math.prod(own) != math.prod(wanted):
        return False
    reshaped = strides_of_reshaped(own, strides, wanted)
    return reshaped is not None and have_same_places(wanted, reshaped, seen)
