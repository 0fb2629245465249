"""The same memory as a tensor of other extents: transposes, reshapes and broadcasts for nothing."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute import AnyLayout, Layout
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.interfaces import HasLayoutConstraints, SharesMemory
from mugraph.dialects.tensor_types import (
    base_layout,
    element_bytes_of,
    element_type_of,
    has_nested_modes,
    layout_of,
    leaves_in_memory,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
    value_label,
)


@irdl_op_definition
class ViewOp(IRDLOperation, SharesMemory, HasLayoutConstraints):
    """A tensor's memory under another layout; no kernel runs.

    Both types have their layouts, which fixes them.  The element at a coordinate of the result is
    the operand's element at the same offset; every offset of the result must be one of the
    operand's.  A transpose of a row-major matrix::

        %t = kn.view %x : tensor<4x6xf16, #cute.layout<(4,6):(6,1)>>
                       -> tensor<6x4xf16, #cute.layout<(6,4):(1,6)>>

    ``from 2`` starts two elements behind the operand's first one, as the last four columns of that
    matrix do.
    """

    name = "kn.view"

    input = operand_def(TensorType)
    first = opt_prop_def(IntegerAttr.constr(type=i64))
    result = result_def(TensorType)
    traits = traits_def(Pure())

    assembly_format = "$input (`from` $first^)? attr-dict `:` type($input) `->` type($result)"

    def __init__(self, operand: SSAValue, result_type: Attribute, offset: int = 0) -> None:
        """``offset``: the elements before the one that is the result's first."""
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"first": IntegerAttr(offset, i64) if offset else None},
        )

    @property
    def offset(self) -> int:
        """The elements in memory between the first one of the operand and that of the result."""
        return 0 if self.first is None else self.first.value.data

    def memory_of(self, result: SSAValue) -> SSAValue:
        """The operand."""
        return self.input

    def bytes_before(self, result: SSAValue) -> int:
        """Those of the elements before the first one."""
        return self.offset * element_bytes_of(result.type)

    def verify_(self) -> None:
        """Checks element types, that both have layouts, and that the operand has every address."""
        source, target = element_type_of(self.input.type), element_type_of(self.result.type)
        if source != target:
            raise VerifyException(
                f"{op_label(self)} sees elements of {source} as {target}; insert a 'kn.cast'"
            )
        for value in (self.input, self.result):
            if layout_of(value.type) is None:
                raise OperatorError(
                    f"{value_label(value)} has no layout; a view is of memory whose layout is "
                    "known: write #cute.layout<...> in its type"
                )
        source_layout, result_layout = (layout_of(value.type) for value in self._both)
        assert source_layout is not None and result_layout is not None
        if self.offset < 0:
            raise OperatorError(
                f"{op_label(self)} starts {-self.offset} elements before its operand does; "
                "expected `from` a number of at least 0"
            )
        end = self.offset + result_layout.cosize()
        if source_layout.size() == source_layout.cosize() >= end:
            # Without holes, and at least as long: every offset is there.
            return
        if not self.offset and _goes_no_further(result_layout, source_layout):
            return
        self.source_indices()

    @property
    def _both(self) -> tuple[SSAValue, SSAValue]:
        return self.input, self.result

    def source_indices(self) -> npt.NDArray[np.int64]:
        """For each element of the result, which of the operand it is, counted in row-major order.

        Raises ``VerifyException`` where one has no such element.
        """
        source, target = (_offsets(value) for value in self._both)
        target = target + self.offset
        index_of = np.full(int(source.max()) + 1, -1, np.int64)
        index_of[source.ravel()] = np.arange(source.size)
        inside = target <= source.max()
        found = np.where(inside, index_of[np.where(inside, target, 0)], -1)
        if (found < 0).any():
            self._refuse(int(target.ravel()[int((found < 0).argmax())]))
        return found

    def part_start(self) -> tuple[int, ...] | None:
        """Where the operand has the part that it is: the first coordinate along each dimension.

        ``None`` where it is no part: strides differ, or an extent goes beyond the operand's.
        """
        if any(has_nested_modes(value.type) for value in self._both):
            return None
        strides, own = (strides_of(resolved_layout_of(value)) for value in self._both)
        if strides != own:
            return None
        rooms = [*map(operator.sub, shape_of(self.input.type), shape_of(self.result.type))]
        if min(rooms, default=0) < 0:
            return None
        start, left = [0] * len(rooms), self.offset
        for dim in sorted(range(len(rooms)), key=strides.__getitem__, reverse=True):
            if strides[dim] > 0:
                start[dim] = min(left // strides[dim], rooms[dim])
                left -= start[dim] * strides[dim]
        return None if left else tuple(start)

    def has_windows(self) -> bool:
        """Whether it has a run of neighbouring rows of the operand at each place of a row."""
        if self.offset or any(has_nested_modes(value.type) for value in self._both):
            return False
        layouts = [strides_of(resolved_layout_of(value)) for value in self._both]
        (own, seen), (rows, runs) = layouts, (shape_of(value.type) for value in self._both)
        return (
            seen == (*own[:1], *own) and runs[2:] == rows[1:] and runs[0] + runs[1] - 1 == rows[0]
        )

    def is_regrouped_in_order(self) -> bool:
        """Whether nested modes become dimensions, or dimensions nested modes, in their order."""
        leaves = [leaves_in_memory(base_layout(resolved_layout_of(value))) for value in self._both]
        is_nested = any(has_nested_modes(value.type) for value in self._both)
        return is_nested and not self.offset and leaves[0] == leaves[1]

    def permuted_dims(self) -> tuple[int | None, ...] | None:
        """For each dimension of the result, which of the operand's it is.

        ``None`` in it for a dimension of extent 1 and for one that is broadcast; ``None`` where the
        view is no permutation of dimensions.
        """
        if self.offset or any(has_nested_modes(value.type) for value in self._both):
            return None
        extents, strides = shape_of(self.input.type), strides_of(resolved_layout_of(self.input))
        left = {dim: pair for dim, pair in enumerate(zip(extents, strides, strict=True))}
        left = {dim: pair for dim, pair in left.items() if pair[0] > 1}
        found: list[int | None] = []
        result_strides = strides_of(resolved_layout_of(self.result))
        for pair in zip(shape_of(self.result.type), result_strides, strict=True):
            dim = next((dim for dim, other in left.items() if other == pair), None)
            if dim is not None:
                del left[dim]
            elif pair[0] > 1 and pair[1]:
                return None
            found.append(dim)
        return None if left else tuple(found)

    def _refuse(self, offset: int) -> None:
        raise VerifyException(
            f"{op_label(self)}: the result has an element at offset {offset}, where the operand "
            f"({value_label(self.input)}) has none"
        )


def _goes_no_further(one: AnyLayout, other: AnyLayout) -> bool:
    """Whether a layout has the steps of another one, or some of them, and no more of each.

    Then all of its offsets are of the other, too, which is seen without a list of them: a cache of
    64 x 8 x 32768 x 128 elements has 2^31.
    """
    if not isinstance(one, Layout) or not isinstance(other, Layout):
        return False  # swizzled
    steps = {
        stride: extent
        for stride, extent in zip(other.flat_stride, other.flat_shape, strict=True)
        if extent > 1
    }
    own = [
        (stride, extent)
        for stride, extent in zip(one.flat_stride, one.flat_shape, strict=True)
        if extent > 1
    ]
    is_each_once = len({stride for stride, _ in own}) == len(own)
    return is_each_once and all(steps.get(stride, 1) >= extent for stride, extent in own)


def _offsets(value: SSAValue) -> npt.NDArray[np.int64]:
    """The offset in elements of every coordinate, as an array of the tensor's extents."""
    layout = resolved_layout_of(value)
    if has_nested_modes(value.type):
        return _offsets_of(*leaves_in_memory(base_layout(layout))).reshape(shape_of(value.type))
    return _offsets_of(shape_of(value.type), strides_of(layout))


def _offsets_of(shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[np.int64]:
    offsets = np.zeros((1,) * len(shape), np.int64)
    for dim, (extent, stride) in enumerate(zip(shape, strides, strict=True)):
        along = [extent if other == dim else 1 for other in range(len(shape))]
        offsets = offsets + (np.arange(extent, dtype=np.int64) * stride).reshape(along)
    return offsets
