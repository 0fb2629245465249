"""Bulk copies (TMA): boxes of tensors that one thread sends, and that come or go later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, DenseArrayBase, IndexType, i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.bulk import (
    CHUNK_BYTES,
    MAX_BOX_EXTENT,
    MAX_RANK,
    MAX_STEP,
    SWIZZLE_SPANS,
    BulkTile,
    TensorDims,
    swizzle_of,
)
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.te.accesses import AccessKind, HasTouches, Touch
from mugraph.dialects.te.asynchronous import WaitsForGroups
from mugraph.dialects.te.indices import IndexList, verify_indices
from mugraph.dialects.te.mapped import StepOp, runs_on_threads
from mugraph.dialects.te.mbarriers import MbarriersType, verify_on_threads, verify_one_index
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.sizes import ends_of, factors_of_strides
from mugraph.dialects.te.types import BufferType, Space
from mugraph.dialects.tensor_types import element_bytes_of, layout_of, row_major_strides


class BulkCopyOp(IRDLOperation, HasTouches):
    """A box of a tensor in device memory, and as many neighbours in a buffer of shared memory.

    The box has an extent for each dimension of the tensor, of which the last is contiguous.  Along
    the others its elements are neighbours, or ``every`` so many elements of the tensor.  What
    it has past the tensor's end is zero where it is loaded, and is not stored.  In shared memory
    its elements lie densely, in row-major order, and chunks of 16 bytes are exchanged as the
    buffer's swizzle says.
    """

    tensor = operand_def(BufferType)
    tensor_indices = var_operand_def(IndexType)
    buffer = operand_def(BufferType)
    buffer_indices = var_operand_def(IndexType)
    tensor_map = prop_def(AffineMapAttr)
    buffer_map = prop_def(AffineMapAttr)
    box = prop_def(DenseArrayBase.constr(i64))
    every = opt_prop_def(DenseArrayBase.constr(i64))

    @property
    def extents(self) -> tuple[int, ...]:
        """The box's extents, one a dimension of the tensor."""
        return tuple(self.box.get_values())

    @property
    def steps(self) -> tuple[int, ...]:
        """How far neighbours in the box are apart in the tensor, along each of its dimensions."""
        return (1,) * len(self.extents) if self.every is None else tuple(self.every.get_values())

    @property
    def elements(self) -> int:
        """How many elements."""
        return math.prod(self.extents)

    @property
    def bytes(self) -> int:
        """How many bytes."""
        return self.elements * element_bytes_of(cast(BufferType, self.buffer.type))

    @property
    def span(self) -> int:
        """The bytes of the rows within which chunks are exchanged; 0 where they are not.

        Raises ``VerifyException`` for a swizzle that bulk copies do not have.
        """
        type_ = cast(BufferType, self.buffer.type)
        layout = layout_of(type_)
        if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
            return 0
        size = element_bytes_of(type_)
        for span in SWIZZLE_SPANS:
            if layout.swizzle == swizzle_of(span, size):
                return span
        raise VerifyException(f"'{self.name}': bulk copies do not swizzle as {layout.swizzle}")

    def described(self) -> BulkTile:
        """The tensor and the box as a tensor map has them, the contiguous dimension first."""
        type_ = cast(BufferType, self.tensor.type)
        order = tuple(reversed(range(len(type_.get_shape()))))
        dims = TensorDims(
            order,
            tuple(reversed(type_.get_shape())),
            tuple(reversed(type_.strides())),
        )
        steps = tuple(reversed(self.steps))
        return BulkTile(dims, tuple(reversed(self.extents)), (), (), self.span, steps)

    def _touch_tensor(self, kind: AccessKind) -> Touch:
        start = self.tensor_map.data.results
        indices = tuple(self.tensor_indices)
        return Touch(
            self.tensor, kind, start, indices, self.extents, clipped=True, steps=self.steps
        )

    def _touch_buffer(self, kind: AccessKind) -> Touch:
        start = self.buffer_map.data.results
        return Touch(self.buffer, kind, start, tuple(self.buffer_indices), (self.elements,))

    def verify_(self) -> None:
        """Checks indices, memories, types, and that a tensor map can describe the box."""
        label = f"'{self.name}'"
        for indices, map_ in (
            (self.tensor_indices, self.tensor_map.data),
            (self.buffer_indices, self.buffer_map.data),
        ):
            verify_indices(label, map_, indices)
        tensor, buffer = cast(BufferType, self.tensor.type), cast(BufferType, self.buffer.type)
        rank = len(tensor.get_shape())
        if len(self.extents) != rank or len(self.tensor_map.data.results) != rank:
            raise VerifyException(
                f"{label}: a box of a tensor of {rank} dimensions has {rank} extents and starts at "
                f"{rank} indices"
            )
        verify_dense(label, self.buffer, self.buffer_map.data)
        if isinstance(self.tensor.owner, SectionOp):
            raise VerifyException(f"{label} takes a whole tensor, not a section of one")
        if buffer.memory_space is not Space.SHARED or tensor.memory_space not in (
            None,
            Space.GLOBAL,
        ):
            raise VerifyException(f"{label} moves elements between device and shared memory")
        if buffer.element_type != tensor.element_type:
            raise VerifyException(
                f"{label}: elements of {tensor.element_type} and of {buffer.element_type}; it "
                "copies bytes"
            )
        steps = self.steps
        if len(steps) != rank or steps[-1] != 1 or not all(1 <= one <= MAX_STEP for one in steps):
            raise VerifyException(
                f"{label}: a box takes every 1st to {MAX_STEP}th element along each of the "
                f"tensor's {rank} dimensions, and all along the last one, not every {list(steps)}"
            )
        reach = [one * step for one, step in zip(self.extents, steps, strict=True)]
        if rank > MAX_RANK or not all(1 <= one <= MAX_BOX_EXTENT for one in reach):
            raise VerifyException(
                f"{label}: a box reaches over at most {MAX_RANK} dimensions of at most "
                f"{MAX_BOX_EXTENT} elements, not {'x'.join(map(str, reach))}"
            )
        row = self.extents[-1] * element_bytes_of(buffer)
        if row % CHUNK_BYTES or (self.span and row > self.span):
            raise VerifyException(
                f"{label}: the rows of the box have {row} bytes; expected a multiple of "
                f"{CHUNK_BYTES}" + (f", at most {self.span}" if self.span else "")
            )
        strides = factors_of_strides(self.tensor) if ends_of(self.tensor) else tensor.strides()
        if tensor.strides()[-1] != 1 or any(
            stride * element_bytes_of(tensor) % CHUNK_BYTES for stride in strides[:-1]
        ):
            raise VerifyException(
                f"{label}: rows of {tensor} are not a multiple of {CHUNK_BYTES} bytes apart"
            )
        verify_in_step(self)


def verify_in_step(op: Operation) -> None:
    """Raises ``VerifyException`` unless single threads come to an operator."""
    if op.parent_op() is not None and not runs_on_threads(op, StepOp):
        raise VerifyException(f"'{op.name}' stands in a 'te.step' or in a 'fully par'")


def verify_dense(label: str, buffer: SSAValue, map_: AffineMap) -> None:
    """Raises ``VerifyException`` unless a buffer's elements lie in order, and one index is given.

    The index is that in row-major order; a swizzle may move the elements then.
    """
    type_ = cast(BufferType, buffer.type)
    if isinstance(buffer.owner, SectionOp) or (
        tuple(type_.strides()) != tuple(row_major_strides(type_.get_shape()))
    ):
        raise VerifyException(f"{label} takes a whole buffer in row-major order, not {type_}")
    if len(map_.results) != 1:
        raise VerifyException(f"{label}: a place in shared memory is one index in row-major order")


def _properties(
    tensor_map: AffineMapAttr, buffer_map: AffineMapAttr, box: Sequence[int], steps: Sequence[int]
) -> dict[str, AffineMapAttr | DenseArrayBase]:
    properties: dict[str, AffineMapAttr | DenseArrayBase] = {
        "tensor_map": tensor_map,
        "buffer_map": buffer_map,
        "box": integer_array(box),
    }
    if max(steps, default=1) > 1:
        properties["every"] = integer_array(steps)
    return properties


@irdl_op_definition
class BulkLoadOp(BulkCopyOp):
    """A box that comes to shared memory, and counts its bytes at an mbarrier.

    ``te.bulk_load [128, 64], %a[%m, %k] : T to %sa[%s] : U on %full[%i] : V``.  It is there when
    the phase of the mbarrier that waits for its bytes has ended; before, the buffer holds nothing.
    """

    name = "te.bulk_load"

    barriers = operand_def(MbarriersType)
    barrier_indices = var_operand_def(IndexType)
    barrier_map = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (IndexList,)
    assembly_format = (
        "$box (`every` $every^)? `,` "
        "$tensor custom<IndexList>($tensor_indices, $tensor_map) `:` type($tensor) "
        "`to` $buffer custom<IndexList>($buffer_indices, $buffer_map) `:` type($buffer) "
        "`on` $barriers custom<IndexList>($barrier_indices, $barrier_map) attr-dict "
        "`:` type($barriers)"
    )

    def __init__(
        self,
        tensor: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        buffer: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        box: Sequence[int],
        barrier: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        steps: Sequence[int] = (),
    ) -> None:
        super().__init__(
            # Operands of the class itself come before those that it inherits.
            operands=[*barrier[:2], *tensor[:2], *buffer[:2]],
            properties={**_properties(tensor[2], buffer[2], box, steps), "barrier_map": barrier[2]},
        )

    @property
    def number(self) -> AffineExpr:
        """Which of the mbarriers, in the ``barrier_indices`` operands."""
        return self.barrier_map.data.results[0]

    def touches(self) -> Sequence[Touch]:
        """The read and the write."""
        return [self._touch_tensor(AccessKind.READ), self._touch_buffer(AccessKind.WRITE)]

    def verify_(self) -> None:
        """Checks the mbarrier's index."""
        super().verify_()
        verify_indices(f"'{self.name}'", self.barrier_map.data, self.barrier_indices)
        verify_one_index(self.name, self.barrier_map)


@irdl_op_definition
class BulkStoreOp(BulkCopyOp):
    """A box that goes from shared to device memory.

    ``te.bulk_store [64, 64], %c[%m, %n] : T from %sc[0] : U``.  It belongs to the group that the
    thread's next ``te.bulk_commit`` closes, and may read until the thread has waited for that
    group.  What threads wrote is seen by it where each of them has run a ``te.proxy_fence`` since,
    and a barrier stands between the fences and the copy.
    """

    name = "te.bulk_store"

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    custom_directives = (IndexList,)
    assembly_format = (
        "$box (`every` $every^)? `,` "
        "$tensor custom<IndexList>($tensor_indices, $tensor_map) `:` type($tensor) "
        "`from` $buffer custom<IndexList>($buffer_indices, $buffer_map) attr-dict `:` type($buffer)"
    )

    def __init__(
        self,
        tensor: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        buffer: tuple[SSAValue, Sequence[SSAValue], AffineMapAttr],
        box: Sequence[int],
        steps: Sequence[int] = (),
    ) -> None:
        super().__init__(
            operands=[*tensor[:2], *buffer[:2]],
            properties={**_properties(tensor[2], buffer[2], box, steps)},
        )

    def touches(self) -> Sequence[Touch]:
        """The read and the write."""
        return [self._touch_buffer(AccessKind.READ), self._touch_tensor(AccessKind.WRITE)]


class OfOneThread(IRDLOperation, Abstract):
    """What a thread does by itself about what it has begun."""

    def verify_(self) -> None:
        """Checks where it stands."""
        verify_on_threads(self)


@irdl_op_definition
class BulkCommitOp(OfOneThread):
    """Closes a group: the bulk stores that the thread has begun since the one before."""

    name = "te.bulk_commit"
    assembly_format = "attr-dict"


@irdl_op_definition
class BulkWaitOp(WaitsForGroups, OfOneThread):
    """The thread waits until only its ``in_flight`` newest groups may still read."""

    name = "te.bulk_wait"
    assembly_format = "$in_flight attr-dict"


@irdl_op_definition
class ProxyFenceOp(OfOneThread):
    """What the thread did in shared memory comes before what copies and products do there.

    They are begun behind a barrier that follows.
    """

    name = "te.proxy_fence"
    assembly_format = "attr-dict"
