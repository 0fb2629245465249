"""Operators that compute each element from the elements at the same place."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number, NamedFunction, ThenEpilogue
from mugraph.dialects.elementwise import (
    Epilogue,
    EpilogueAttr,
    ScalarFunction,
    ScalarFunctionAttr,
    epilogue_attribute,
)
from mugraph.dialects.interfaces import HasBufferEffects, HasSharedAccesses, SharedAccess
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import elementwise_accesses, fill_accesses
from mugraph.dialects.sched.distribution import (
    Destination,
    Source,
    accumulated,
    partition_attribute,
    verify_arity,
    verify_distribution,
)
from mugraph.dialects.sched.types import DealtBy, DealtOut, LinearPartitionAttr, SharedType
from mugraph.dialects.shapes import ShapeError, broadcast_shape
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_op_definition
class FillOp(IRDLOperation, HasThreadAccesses, HasBufferEffects):
    """Sets every element of a buffer or fragment to a constant, padding included."""

    name = "sched.fill"

    destination = operand_def(Destination)
    value = prop_def(FloatAttr[Float32Type])
    assembly_format = (
        "$destination `with` custom<Fp32Number>($value) attr-dict `:` type($destination)"
    )
    custom_directives = (Fp32Number,)

    def __init__(self, destination: SSAValue, value: float) -> None:
        super().__init__(operands=[destination], properties={"value": FloatAttr(value, f32)})

    def buffers_read(self) -> Sequence[SSAValue]:
        """Nothing."""
        return []

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination, padding included."""
        return [self.destination]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The writes of all threads, to all stages; nothing for a fragment."""
        return fill_accesses(self)


@irdl_op_definition
class ElementwiseOp(IRDLOperation, HasSharedAccesses, HasThreadAccesses, HasBufferEffects):
    """Applies a scalar function element by element; an operand's extent of 1 is broadcast.

    ``sched.elementwise div %a, %b to %d by <128, vector 8, order [1, 0]> : ...``
    Fragments are held as the operator is dealt out, or are the rows of it.
    """

    name = "sched.elementwise"

    function = prop_def(ScalarFunctionAttr)
    sources = var_operand_def(Source)
    destination = operand_def(Destination)
    epilogue = opt_prop_def(EpilogueAttr)
    partition = prop_def(DealtOut)

    assembly_format = (
        "custom<NamedFunction>($function) $sources `to` $destination "
        "custom<ThenEpilogue>($epilogue) `by` custom<DealtBy>($partition) attr-dict "
        "`:` type($sources) `to` type($destination)"
    )
    custom_directives = (NamedFunction, ThenEpilogue, DealtBy)

    def __init__(
        self,
        function: ScalarFunction,
        sources: Sequence[SSAValue],
        destination: SSAValue,
        epilogue: Epilogue,
        partition: LinearPartition | Attribute,
    ) -> None:
        super().__init__(
            operands=[sources, destination],
            properties={
                "function": ScalarFunctionAttr(function),
                "epilogue": epilogue_attribute(epilogue),
                "partition": partition_attribute(partition),
            },
        )

    @property
    def linear(self) -> LinearPartition | None:
        """The linear partition by which it is dealt out, if it is one."""
        attribute = self.partition
        return attribute.data if isinstance(attribute, LinearPartitionAttr) else None

    def buffers_read(self) -> Sequence[SSAValue]:
        """The sources; the destination too where the epilogue accumulates."""
        return [*self.sources, *accumulated(self, self.destination)]

    def buffers_written(self) -> Sequence[SSAValue]:
        """The destination."""
        return [self.destination]

    def verify_(self) -> None:
        """Checks arity, extents and the partition."""
        verify_arity(self, self.function.data, self.sources)
        try:
            expected = broadcast_shape([shape_of(source.type) for source in self.sources])
        except ShapeError as error:
            raise VerifyException(f"{op_label(self)}: {error}") from error
        if shape_of(self.destination.type) != expected:
            raise VerifyException(
                f"{op_label(self)}: the destination has "
                f"{dims(shape_of(self.destination.type))}, expected {dims(expected)}"
            )
        verify_distribution(self, self.partition, self.destination)

    def shared_accesses(self) -> Sequence[SharedAccess]:
        """Along the partition's first dimension, in its vectors."""
        partition = self.linear
        if partition is None:
            return []
        return [
            SharedAccess(
                value,
                partition.inner,
                1 if shape_of(value.type)[partition.inner] == 1 else partition.vector,
            )
            for value in (self.destination, *self.sources)
            if isinstance(value.type, SharedType)
        ]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The sources in order, then the destination, in vectors of the partition."""
        if self.linear is None:
            return []
        return elementwise_accesses(self, self.linear, accumulates=epilogue_of(self).accumulates)
