"""Operators that compute each element from the elements at the same place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from xdsl.dialects.builtin import Float32Type, FloatAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.assembly import Fp32Number, NamedFunction, ThenEpilogue
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.elementwise import (
    Epilogue,
    EpilogueAttr,
    ScalarFunction,
    ScalarFunctionAttr,
    epilogue_attribute,
)
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.compute_accesses import elementwise_accesses, fill_accesses
from mugraph.dialects.sched.distribution import (
    Destination,
    Source,
    accumulated,
    distribution_of,
    verify_arity,
    verify_distribution,
)
from mugraph.dialects.sched.tile_values import TiedTiles, WritesTiles, tile_types
from mugraph.dialects.sched.types import (
    DealtBy,
    LinearPartitionAttr,
    TileType,
)
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_op_definition
class FillOp(WritesTiles, HasThreadAccesses):
    """Sets every element of a buffer or fragment to a constant, padding included."""

    name = "sched.fill"

    destination = operand_def(Destination)
    value = prop_def(FloatAttr[Float32Type])
    assembly_format = (
        "$destination `with` custom<Fp32Number>($value) attr-dict `:` type($destination) "
        "custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (Fp32Number, TiedTiles)

    def __init__(self, destination: SSAValue, value: float) -> None:
        super().__init__(
            operands=[destination],
            result_types=[tile_types(destination)],
            properties={"value": FloatAttr(value, f32)},
        )

    def buffers_read(self) -> Sequence[SSAValue]:
        """Nothing."""
        return []

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The writes of all threads, to all stages; nothing for a fragment."""
        return fill_accesses(self)


@irdl_op_definition
class RenewOp(WritesTiles, HasThreadAccesses):
    """Leaves a fragment as it is, but lets nothing be remembered of what was computed of it.

    ``sched.renew %x after %sum : ...``

    What is computed of the fragment behind this is computed anew, and not before ``after`` is
    known.  So it takes no registers until then: a compiler of CUDA would keep what it computed
    before, where it computes the same twice.
    """

    name = "sched.renew"

    destination = operand_def(TileType)
    after = operand_def(TileType)

    assembly_format = (
        "$destination `after` $after attr-dict `:` type($destination) `,` type($after) "
        "custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (TiedTiles,)

    def __init__(self, destination: SSAValue, after: SSAValue) -> None:
        super().__init__(operands=[destination, after], result_types=[tile_types(destination)])

    def buffers_read(self) -> Sequence[SSAValue]:
        """Both fragments."""
        return [self.destination, self.after]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """Nothing in memory."""
        return []


class DealtOutOp(WritesTiles, HasThreadAccesses):
    """An operator that computes each element of its destination, the last operand.

    Fragments of the destination's extents say who computes what, and ``by`` where there are none.
    """

    destination = operand_def(Destination)
    epilogue = opt_prop_def(EpilogueAttr)
    partition = opt_prop_def(LinearPartitionAttr)

    @property
    @abstractmethod
    def inputs(self) -> Sequence[SSAValue]:
        """The operands in front of the destination."""

    @property
    def distribution(self) -> Attribute:
        """Who computes which element of the destination."""
        found = distribution_of(self.inputs, self.destination, self.partition)
        assert found is not None  # verified
        return found

    @property
    def linear(self) -> LinearPartition | None:
        """The linear partition by which it is dealt out, if it is one."""
        attribute = self.distribution
        return attribute.data if isinstance(attribute, LinearPartitionAttr) else None

    def buffers_read(self) -> Sequence[SSAValue]:
        """The sources; the destination too where the epilogue accumulates."""
        return [*self.inputs, *accumulated(self, self.destination)]

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """The sources in order, then the destination, in vectors of the partition, all whole."""
        if self.linear is None:
            return []
        return elementwise_accesses(self, self.linear, accumulates=epilogue_of(self).accumulates)


def said_partition(
    sources: Sequence[SSAValue], destination: SSAValue, partition: LinearPartition | None
) -> LinearPartitionAttr | None:
    """The property that stands for a partition; none where fragments say it."""
    is_said = distribution_of(sources, destination, None) is not None
    return None if is_said or partition is None else LinearPartitionAttr(partition)


@irdl_op_definition
class MapOp(DealtOutOp):
    """Applies a scalar function element by element; an operand's extent of 1 is broadcast.

    ``sched.map div %a, %b to %d by <128, vector 8, order [1, 0]> : ...``

    Operands are in shared memory or in registers.  Fragments of the destination's extents say who
    computes what, and ``by`` where there are none; a source may be a slice of that, whose number
    stands for all of its row or column.  The destination may be one of the sources.
    """

    name = "sched.map"

    function = prop_def(ScalarFunctionAttr)
    # Operands are in the order of the class that defines them, so the last one stands here too.
    sources = var_operand_def(Source)
    destination = operand_def(Destination)

    assembly_format = (
        "custom<NamedFunction>($function) $sources `to` $destination "
        "custom<ThenEpilogue>($epilogue) custom<DealtBy>($partition) attr-dict "
        "`:` type($sources) `to` type($destination) custom<TiedTiles>(type($tiles))"
    )
    custom_directives = (NamedFunction, ThenEpilogue, DealtBy, TiedTiles)

    def __init__(
        self,
        function: ScalarFunction,
        sources: Sequence[SSAValue],
        destination: SSAValue,
        epilogue: Epilogue | None = None,
        partition: LinearPartition | None = None,
    ) -> None:
        """``partition`` is not kept where fragments say it."""
        super().__init__(
            operands=[sources, destination],
            result_types=[tile_types(destination)],
            properties={
                "function": ScalarFunctionAttr(function),
                "epilogue": epilogue_attribute(epilogue),
                "partition": said_partition(sources, destination, partition),
            },
        )

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The sources."""
        return self.sources

    @property
    def is_sum_of_fragments(self) -> bool:
        """Whether it adds a fragment, through an epilogue, to another that is held alike."""
        return (
            self.function.data.name == "identity"
            and epilogue_of(self).accumulates
            and all(isinstance(value.type, TileType) for value in self.operands)
            and shape_of(self.sources[0].type) == shape_of(self.destination.type)
        )

    def verify_(self) -> None:
        """Checks arity, extents and who computes what."""
        verify_arity(self, self.function.data, self.sources)
        shape = shape_of(self.destination.type)
        expected = broadcast_shape([shape_of(value.type) for value in self.operands])
        if shape != expected:
            raise OperatorError(f"the destination has {dims(shape)}, expected {dims(expected)}")
        found = distribution_of(self.sources, self.destination, self.partition)
        if found is None:
            raise OperatorError(
                f"no fragment of {dims(shape)} says who computes what; expected 'by <threads, "
                "vector, order>'"
            )
        if self.partition is not None and self.partition != found:
            raise VerifyException(
                f"{op_label(self)} is dealt out as its fragments are, {found}, not as "
                f"{self.partition}; leave out 'by'"
            )
        verify_distribution(self, found, self.destination)
