"""Moving parts of buffers as they are."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.launch_extents import extents_of, integer_array
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.accesses import (
    AccessKind,
    HasThreadAccesses,
    ThreadAccess,
    naming_operand,
    plain_access,
    stage_reference,
)
from mugraph.dialects.sched.mappings import (
    iteration_layout,
    vector_stream,
    with_offset,
)
from mugraph.dialects.sched.role import enclosing_threads, verify_partition
from mugraph.dialects.sched.types import LinearPartitionAttr, SharedType
from mugraph.dialects.tensor_types import (
    AnyLayout,
    dims,
    element_bytes_of,
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
)


@irdl_op_definition
class MoveOp(IRDLOperation, HasThreadAccesses, HasBufferEffects):
    """Copies a whole buffer to a part of a larger one, or a part of a larger one to a whole one.

    ``at`` is where the smaller buffer starts in the larger one.

    ``sched.move %a to %b at [0, 8] by <128, vector 8, order [1, 0]> : ... to ...``
    """

    name = "sched.move"

    source = operand_def(SharedType)
    destination = operand_def(SharedType)
    at = prop_def(DenseArrayBase.constr(i64))
    partition = prop_def(LinearPartitionAttr)

    assembly_format = (
        "$source `to` $destination `at` $at `by` $partition attr-dict "
        "`:` type($source) `to` type($destination)"
    )

    def __init__(
        self,
        source: SSAValue,
        destination: SSAValue,
        at: Sequence[int],
        partition: LinearPartition,
    ) -> None:
        super().__init__(
            operands=[source, destination],
            properties={
                "at": integer_array(at),
                "partition": LinearPartitionAttr(partition),
            },
        )

    @property
    def start(self) -> tuple[int, ...]:
        """Where the smaller buffer starts in the larger one."""
        return extents_of(self.at)

    @property
    def part(self) -> SSAValue:
        """The smaller of the two buffers."""
        shapes = [shape_of(value.type) for value in self.operands]
        is_source = all(one <= other for one, other in zip(*shapes, strict=True))
        return self.source if is_source else self.destination

    def layout_of_part(self, value: SSAValue) -> AnyLayout:
        """The layout of what is moved, in either buffer, in the order of the partition."""
        order = self.partition.data.order
        layout = resolved_layout_of(value)
        domain = shape_of(self.part.type)
        within = iteration_layout(layout, shape_of(value.type), domain, order)
        if value is self.part:
            return within
        strides = strides_of(layout)
        offset = sum(at * stride for at, stride in zip(self.start, strides, strict=True))
        return with_offset(within, offset)

    def buffers_read(self) -> Sequence[SSAValue]:
        """The source."""
        return [self.source]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination, of which the parts that no other move writes stay undefined."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks that one buffer is a part of the other, and the partition."""
        source, destination = (shape_of(value.type) for value in self.operands)
        start = self.start
        fits = len(source) == len(destination) == len(start)
        part, whole = shape_of(self.part.type) if fits else (), destination
        if fits and self.part is self.destination:
            whole = source
        if not fits or any(
            at < 0 or at + extent > limit
            for at, extent, limit in zip(start, part, whole, strict=True)
        ):
            raise OperatorError(
                f"neither of {dims(source)} and {dims(destination)} lies in the other one, "
                f"starting at {list(start)}"
            )
        if element_type_of(self.source.type) != element_type_of(self.destination.type):
            raise VerifyException(
                f"{op_label(self)} moves elements as they are, but the source has "
                f"{element_type_of(self.source.type)} and the destination "
                f"{element_type_of(self.destination.type)}"
            )
        verify_partition(self, self.partition.data, self.part)

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The source's vectors, then the destination's."""
        kinds = (AccessKind.READ, AccessKind.WRITE)
        return [self._access(operand, kind) for operand, kind in enumerate(kinds)]

    def _access(self, operand: int, kind: AccessKind) -> ThreadAccess:
        value, partition = self.operands[operand], self.partition.data
        with naming_operand(self, value):
            stream = vector_stream(
                self.layout_of_part(value),
                partition.threads,
                partition.vector,
                element_bytes_of(value.type),
                block=enclosing_threads(self),
            )
        return plain_access(self, operand, kind, stage_reference(self), stream)
