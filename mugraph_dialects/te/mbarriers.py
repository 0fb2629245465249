"""Barriers in shared memory, through which threads hand over what copies and others did.

An mbarrier counts arrivals and bytes.  A phase of it ends when all arrivals that it was set up for
have come, and all bytes that they announced.  Phases are known by their parity: the first is 0.
Source: PTX ISA, "mbarrier".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import AffineMapAttr, IndexType, IntAttr, IntegerAttr, i32, i64
from xdsl.ir import Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.ir.affine import AffineExpr
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_if_given, number_of, number_or
from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.programming_model import MAX_THREADS, WARP
from mugraph.dialects.te.accesses import Placed
from mugraph.dialects.te.indices import IndexList, verify_indices
from mugraph.dialects.te.loops import IfOp, LoopOp, ParOp
from mugraph.dialects.te.mapped import KernelOp, ThreadsOp, runs_on_threads

MBARRIER_BYTES = 8
"""The size of an mbarrier."""
MOST_ARRIVALS = (1 << 20) - 1
MOST_BYTES = (1 << 20) - 1
"""What a phase counts at most."""
NAMED_BARRIERS = 16
"""The barriers of a block that threads name by number; 0 is that of all of them."""


@irdl_attr_definition
class MbarriersType(ParametrizedAttribute, TypeAttribute):
    """Some mbarriers in a row in the block's shared memory: ``!te.mbarriers<4>``."""

    name = "te.mbarriers"

    length: IntAttr

    @classmethod
    def of(cls, count: int) -> Self:
        """The type of so many."""
        return cls(IntAttr(count))

    @property
    def count(self) -> int:
        """How many there are."""
        return self.length.data

    def verify(self) -> None:
        """Checks that there are any."""
        if self.count < 1:
            raise VerifyException("!te.mbarriers: there must be at least one")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[IntAttr]:
        """Parses the part in angle brackets, with them."""
        with parser.in_angle_brackets():
            return [IntAttr(parser.parse_integer(allow_boolean=False))]

    def print_parameters(self, printer: Printer) -> None:
        """Prints what ``parse_parameters`` parses."""
        with printer.in_angle_brackets():
            printer.print_int(self.count)


@irdl_op_definition
class NewMbarriersOp(Placed):
    """Mbarriers of a block, which hold nothing before ``te.mbarrier_init``.

    ``%full = te.new_mbarriers : !te.mbarriers<4>``, in a ``te.kernel``.  Its place in shared memory
    is the attribute ``te.offset``.  Before ``--te-map`` they stand in the loops over blocks, and
    are set up there: ``te.new_mbarriers arrivals 1 : !te.mbarriers<4>``.
    """

    name = "te.new_mbarriers"

    arrivals = opt_prop_def(IntegerAttr.constr(type=i64))
    result = result_def(MbarriersType)
    assembly_format = "(`arrivals` $arrivals^)? attr-dict `:` type($result)"

    def __init__(self, count: int, arrivals: int | None = None) -> None:
        super().__init__(
            properties={"arrivals": None if arrivals is None else _number(arrivals)},
            result_types=[MbarriersType.of(count)],
        )

    expected = number_if_given("arrivals")
    """How many arrivals end a phase, where it is set up as well."""

    @property
    def bytes(self) -> int:
        """The memory that they take."""
        return MBARRIER_BYTES * self.result.type.count

    def verify_(self) -> None:
        """Checks where it stands."""
        if self.expected is None:
            if not isinstance(self.parent_op(), KernelOp):
                raise VerifyException(
                    "'te.new_mbarriers' stands in a 'te.kernel', beside its threads"
                )
            return
        verify_arrivals(self.name, self.expected)
        around = self.parent_op()
        while isinstance(around, ParOp) and not around.is_fully:
            around = around.parent_op()
        if self.parent_op() is not None and isinstance(around, (LoopOp, IfOp)):
            raise VerifyException(
                f"'{self.name}': mbarriers are made once, directly in the parallel loops around "
                "the 'fully par' that uses them"
            )


class MbarrierOp(IRDLOperation, Abstract):
    """What a thread does with one of some mbarriers, by its number."""

    barriers = operand_def(MbarriersType)
    indices = var_operand_def(IndexType)
    map = prop_def(AffineMapAttr)
    custom_directives = (IndexList,)

    @property
    def count(self) -> int:
        """How many mbarriers there are."""
        return cast(MbarriersType, self.barriers.type).count

    @property
    def number(self) -> AffineExpr:
        """Which of them, in the ``indices`` operands."""
        return self.map.data.results[0]

    def verify_(self) -> None:
        """Checks the index, and where it stands."""
        verify_indices(f"'{self.name}'", self.map.data, self.indices)
        verify_one_index(self.name, self.map)
        verify_on_threads(self)


def verify_one_index(name: str, map_: AffineMapAttr) -> None:
    """Raises ``VerifyException`` unless a map has one result."""
    if len(map_.data.results) != 1:
        raise VerifyException(f"'{name}': mbarriers have one index, not {len(map_.data.results)}")


def verify_on_threads(op: Operation) -> None:
    """Raises ``VerifyException`` unless an operator stands where threads are alive together."""
    if op.parent_op() is not None and not runs_on_threads(op, ThreadsOp):
        raise VerifyException(f"'{op.name}' stands in 'te.threads' or in a 'fully par'")


def verify_arrivals(name: str, arrivals: int) -> None:
    """Raises ``VerifyException`` for a number of arrivals that no phase has."""
    if not 1 <= arrivals <= MOST_ARRIVALS:
        raise VerifyException(f"'{name}': a phase has 1 to {MOST_ARRIVALS} arrivals")


def _number(value: int) -> IntegerAttr:
    return IntegerAttr(value, i64)


@irdl_op_definition
class MbarrierInitOp(MbarrierOp):
    """Sets an mbarrier up for so many arrivals: ``te.mbarrier_init %full[%i], 1``.

    By one thread, and before a barrier of all that use it.
    """

    name = "te.mbarrier_init"

    arrivals = prop_def(IntegerAttr.constr(type=i64))
    assembly_format = (
        "$barriers custom<IndexList>($indices, $map) `,` $arrivals attr-dict `:` type($barriers)"
    )

    def __init__(
        self, barriers: SSAValue, indices: Sequence[SSAValue], map_: AffineMapAttr, arrivals: int
    ) -> None:
        super().__init__(
            operands=[barriers, indices],
            properties={"map": map_, "arrivals": _number(arrivals)},
        )

    expected = number_of("arrivals")
    """How many arrivals end a phase."""

    def verify_(self) -> None:
        """Checks the number of arrivals."""
        super().verify_()
        verify_arrivals(self.name, self.expected)


@irdl_op_definition
class MbarrierFenceOp(IRDLOperation):
    """Bulk copies see the mbarriers that the thread has set up."""

    name = "te.mbarrier_fence"
    assembly_format = "attr-dict"


@irdl_op_definition
class MbarrierArriveOp(MbarrierOp):
    """A thread arrives: ``te.mbarrier_arrive %full[%i] expect 16384``.

    It announces bytes without which the phase does not end; they come by bulk copies.  What the
    thread did before is known to those who have waited for the phase.
    """

    name = "te.mbarrier_arrive"

    announced = opt_prop_def(IntegerAttr.constr(type=i64))
    assembly_format = (
        "$barriers custom<IndexList>($indices, $map) (`expect` $announced^)? attr-dict "
        "`:` type($barriers)"
    )

    def __init__(
        self,
        barriers: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
        announced: int = 0,
    ) -> None:
        super().__init__(
            operands=[barriers, indices],
            properties={"map": map_, "announced": _number(announced) if announced else None},
        )

    bytes = number_or("announced", 0)
    """The bytes that it announces."""

    def verify_(self) -> None:
        """Checks the number of bytes."""
        super().verify_()
        if not 0 <= self.bytes <= MOST_BYTES:
            raise VerifyException(f"'{self.name}': a phase has at most {MOST_BYTES} bytes")


@irdl_op_definition
class MbarrierWaitOp(MbarrierOp):
    """A thread waits until the phase of a parity has ended.

    ``te.mbarrier_wait %full[%k mod 4] parity [%k floordiv 4 mod 2]``.  It goes on at once where the
    present phase has the other parity: so a wait for parity 1 of a new mbarrier.
    """

    name = "te.mbarrier_wait"

    parity_indices = var_operand_def(IndexType)
    parity_map = prop_def(AffineMapAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$barriers custom<IndexList>($indices, $map) `parity` ` ` "
        "custom<IndexList>($parity_indices, $parity_map) attr-dict `:` type($barriers)"
    )

    def __init__(
        self,
        barriers: SSAValue,
        indices: Sequence[SSAValue],
        map_: AffineMapAttr,
        parity_indices: Sequence[SSAValue],
        parity_map: AffineMapAttr,
    ) -> None:
        super().__init__(
            # Operands of the class itself come before those that it inherits.
            operands=[parity_indices, barriers, indices],
            properties={"map": map_, "parity_map": parity_map},
        )

    @property
    def parity(self) -> AffineExpr:
        """The parity, in the ``parity_indices`` operands."""
        return self.parity_map.data.results[0]

    def verify_(self) -> None:
        """Checks the parity's expression."""
        super().verify_()
        verify_indices(f"'{self.name}'", self.parity_map.data, self.parity_indices)
        verify_one_index(self.name, self.parity_map)


@irdl_op_definition
class MbarrierAddressOp(MbarrierOp):
    """Where an mbarrier is in shared memory, for inline PTX.

    ``%p = te.mbarrier_address %full[%i] : !te.mbarriers<4>``, in bytes.
    """

    name = "te.mbarrier_address"

    result = result_def(i32)
    assembly_format = "$barriers custom<IndexList>($indices, $map) attr-dict `:` type($barriers)"

    def __init__(
        self, barriers: SSAValue, indices: Sequence[SSAValue], map_: AffineMapAttr
    ) -> None:
        super().__init__(operands=[barriers, indices], properties={"map": map_}, result_types=[i32])


@irdl_op_definition
class NamedBarrierOp(IRDLOperation):
    """So many threads, whole warps, come here before one goes on: ``te.named_barrier 1, 256``."""

    name = "te.named_barrier"

    number = prop_def(IntegerAttr.constr(type=i64))
    count = prop_def(IntegerAttr.constr(type=i64))
    assembly_format = "$number `,` $count attr-dict"

    def __init__(self, number: int, threads: int) -> None:
        super().__init__(properties={"number": _number(number), "count": _number(threads)})

    name_of_barrier = number_of("number")
    """Its number."""

    threads = number_of("count")
    """How many threads meet."""

    def verify_(self) -> None:
        """Checks the numbers."""
        if not 1 <= self.name_of_barrier < NAMED_BARRIERS:
            raise VerifyException(
                f"'{self.name}': barriers have the numbers 1 to {NAMED_BARRIERS - 1}, not "
                f"{self.name_of_barrier}"
            )
        if not WARP <= self.threads <= MAX_THREADS or self.threads % WARP:
            raise VerifyException(
                f"'{self.name}': {self.threads} threads are no whole warps of a block"
            )
