"""Copies into shared memory that land later, and what waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_of
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.accesses import AccessKind, HasTouches, Touch, row_box, verify_index_count
from mugraph.dialects.te.indices import Conditions, IndexList, verify_indices
from mugraph.dialects.te.loops import Conditional
from mugraph.dialects.te.mapped import StepOp, ThreadsOp
from mugraph.dialects.te.types import BufferType, Space
from mugraph.dialects.tensor_types import element_bytes_of


class AsyncCopy(IRDLOperation, HasTouches, Abstract):
    """Neighbouring elements that a thread sends from device to shared memory, and goes on."""

    source = operand_def(BufferType)
    source_indices = var_operand_def(IndexType)
    target = operand_def(BufferType)
    target_indices = var_operand_def(IndexType)
    width = prop_def(IntegerAttr.constr(type=i64))
    source_map = prop_def(AffineMapAttr)
    target_map = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        source: SSAValue,
        source_indices: Sequence[SSAValue],
        source_map: AffineMapAttr,
        target: SSAValue,
        target_indices: Sequence[SSAValue],
        target_map: AffineMapAttr,
        width: int = 1,
        conditions: tuple[Sequence[SSAValue], AffineMapAttr, Sequence[bool]] | None = None,
    ) -> None:
        """``conditions`` are indices, expressions, and which of them are equal to 0."""
        operands = [source, source_indices, target, target_indices]
        properties = {
            "width": IntegerAttr(width, i64),
            "source_map": source_map,
            "target_map": target_map,
        }
        if conditions is not None:
            operands.append(conditions[0])
            properties |= Conditional.properties_of(*conditions[1:])
        super().__init__(operands=operands, properties=properties)

    elements = number_of("width")
    """How many elements."""

    @property
    def bytes(self) -> int:
        """How many bytes."""
        return self.elements * element_bytes_of(cast(BufferType, self.target.type))

    def touches(self) -> Sequence[Touch]:
        """The read and the write."""
        sides = (
            (self.source, AccessKind.READ, self.source_map.data.results, self.source_indices),
            (self.target, AccessKind.WRITE, self.target_map.data.results, self.target_indices),
        )
        return [
            Touch(buffer, kind, start, tuple(indices), row_box(start, self.elements))
            for buffer, kind, start, indices in sides
        ]

    def verify_(self) -> None:
        """Checks the indices, the memories, and that all is of one type."""
        label = f"'{self.name}'"
        for buffer, indices, map_ in (
            (self.source, self.source_indices, self.source_map.data),
            (self.target, self.target_indices, self.target_map.data),
        ):
            verify_indices(label, map_, indices)
            verify_index_count(label, cast(BufferType, buffer.type), len(map_.results))
        source, target = cast(BufferType, self.source.type), cast(BufferType, self.target.type)
        if target.memory_space is not Space.SHARED:
            raise VerifyException(f"{label} writes to shared memory, not to {target}")
        if source.memory_space not in (None, Space.GLOBAL):
            raise VerifyException(f"{label} reads device memory, not {source}")
        if source.element_type != target.element_type:
            raise VerifyException(
                f"{label}: elements of type {source.element_type} for a buffer of "
                f"{target.element_type}; it copies bytes"
            )
        if self.bytes not in (2, 4, 8, 16):
            raise VerifyException(f"{label}: a thread copies 2, 4, 8 or 16 bytes at once")


@irdl_op_definition
class CopyAsyncOp(AsyncCopy):
    """Neighbouring elements that a thread sends from device to shared memory, and goes on.

    ``te.copy_async 8, %a[%i, %k] : T to %ta[%s, %r, %c] : U``.  They are there when the thread has
    waited for the group of copies that the next ``te.commit`` closes; before, the target holds
    nothing.  Other threads see them after a barrier behind that ``te.wait``.  The indices are those
    of the first element, a multiple of their number in memory.
    """

    name = "te.copy_async"

    custom_directives = (IndexList,)
    assembly_format = (
        "$width `,` $source custom<IndexList>($source_indices, $source_map) `:` type($source) "
        "`to` $target custom<IndexList>($target_indices, $target_map) attr-dict `:` type($target)"
    )


@irdl_op_definition
class CopyAsyncOrZeroOp(AsyncCopy, Conditional):
    """As ``te.copy_async`` where conditions hold; elsewhere zeros are sent, and nothing is read.

    ``te.copy_async_or_zero 8, %a[%i, %k] : T to %ta[%r, %c] : U if %i * -1 + 99 >= 0``.
    """

    name = "te.copy_async_or_zero"

    custom_directives = (IndexList, Conditions)
    assembly_format = (
        "$width `,` $source custom<IndexList>($source_indices, $source_map) `:` type($source) "
        "`to` $target custom<IndexList>($target_indices, $target_map) `:` type($target) "
        "`if` custom<Conditions>($indices, $map, $equalities) attr-dict"
    )

    def touches(self) -> Sequence[Touch]:
        """The read, under the conditions, and the write."""
        read, write = super().touches()
        return replace(read, only=self), write

    def verify_(self) -> None:
        """Checks the copy and the conditions."""
        AsyncCopy.verify_(self)
        Conditional.verify_(self)


class WaitsForGroups(IRDLOperation, Abstract):
    """Waits until only the ``in_flight`` newest groups of something are under way."""

    in_flight = prop_def(IntegerAttr.constr(type=i64))

    def __init__(self, in_flight: int, operands: Sequence[Sequence[SSAValue]] = ()) -> None:
        super().__init__(operands=operands, properties={"in_flight": IntegerAttr(in_flight, i64)})

    groups = number_of("in_flight")
    """The groups that may be under way after it."""

    def verify_(self) -> None:
        """Checks the number, and where it stands."""
        super().verify_()
        if self.groups < 0:
            raise VerifyException(f"'{self.name}': {self.groups} groups cannot be under way")


class _OfEachThread(IRDLOperation, Abstract):
    """What each thread of a block does between steps, all of them together."""

    def verify_(self) -> None:
        """Checks where it stands: a group of copies is the same in all threads."""
        if enclosing(self, ThreadsOp) is None or enclosing(self, StepOp) is not None:
            raise VerifyException(f"'{self.name}' stands in 'te.threads', outside of steps")


@irdl_op_definition
class CommitOp(_OfEachThread):
    """Closes a group: the copies that each thread has begun since the one before."""

    name = "te.commit"
    assembly_format = "attr-dict"


@irdl_op_definition
class WaitOp(WaitsForGroups, _OfEachThread):
    """Each thread waits until only its ``in_flight`` newest groups are under way.

    ``te.wait 2``; the copies of all groups before have landed for this thread.
    """

    name = "te.wait"
    assembly_format = "$in_flight attr-dict"
