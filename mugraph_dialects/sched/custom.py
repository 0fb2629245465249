"""A step of an operator that a user wrote as a tensor expression."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, StringAttr, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import number_of
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.sched.accesses import HasThreadAccesses, ThreadAccess
from mugraph.dialects.sched.custom_accesses import (
    Footprints,
    come_first,
    footprints,
    thread_accesses_of,
)
from mugraph.dialects.sched.role import enclosing_threads
from mugraph.dialects.sched.types import SharedType
from mugraph.dialects.te.accesses import AtomicOp, NewOp, RedOp
from mugraph.dialects.te.calls import AsmOp, CallOp
from mugraph.dialects.te.loops import ParOp
from mugraph.dialects.te.mapped import (
    AllReduceOp,
    BarrierOp,
    KernelOp,
    StepOp,
    ThreadsOp,
)
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.types import BufferType, Space
from mugraph.dialects.te.values import AnchorOp
from mugraph.dialects.tensor_types import (
    dims,
    element_type_of,
    op_label,
    resolved_layout_of,
    shape_of,
    value_label,
)

_REFUSED = (
    AllReduceOp,
    AnchorOp,
    AsmOp,
    AtomicOp,
    BarrierOp,
    CallOp,
    KernelOp,
    ParOp,
    SectionOp,
    StepOp,
    ThreadsOp,
)


@irdl_op_definition
class CustomOp(IRDLOperation, HasThreadAccesses, HasBufferEffects):
    """What each thread does in one step of a custom operator; no barrier stands in it.

    ``sched.custom "rope: par 16 i, par 64 j" threads 128 (%x, %y) { ... } : ...``.  The region has
    the thread's number and a buffer an operand; it is made of operators of the ``te`` dialect:
    loops in order, conditions, numbers, registers (``te.new``) and accesses.  Buffers are functions
    of their coordinates there, and lie as the operands do.
    """

    name = "sched.custom"

    title = prop_def(StringAttr)
    threads = prop_def(IntegerAttr.constr(type=i64))
    buffers = var_operand_def(SharedType)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), IsolatedFromAbove())

    assembly_format = (
        "$title `threads` $threads `(` $buffers `)` $body attr-dict `:` type($buffers)"
    )

    def __init__(
        self, title: str, threads: int, buffers: Sequence[SSAValue], body: Region | Block
    ) -> None:
        super().__init__(
            operands=[list(buffers)],
            properties={"title": StringAttr(title), "threads": IntegerAttr(threads, i64)},
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    thread_count = number_of("threads")
    """How many threads it was dealt to."""

    @property
    def thread(self) -> SSAValue:
        """The number of the thread, in the region."""
        return self.body.block.args[0]

    @property
    def parameters(self) -> Sequence[SSAValue]:
        """The buffers of the region, one an operand."""
        return self.body.block.args[1:]

    @property
    def footprints(self) -> Footprints:
        """Which elements each thread touches when; whatever the layouts of the buffers are."""
        shapes = [shape_of(value.type) for value in self.buffers]
        return footprints(self, self.body.block, self.thread_count, shapes)

    def buffers_read(self) -> Sequence[SSAValue]:
        """Those of which a thread reads what it has not written itself, or writes a part only."""
        found = self.footprints
        read: list[SSAValue] = []
        for operand, value in enumerate(self.buffers):
            part = (
                found.writes_of(operand) and not found.written(operand, shape_of(value.type)).all()
            )
            if part or found.reads_of(operand):
                read.append(value)
        return read

    def buffers_written(self) -> Sequence[SSAValue]:
        """Those that a thread writes."""
        found = self.footprints
        return [value for place, value in enumerate(self.buffers) if found.writes_of(place)]

    def reads_before_it_writes(self, operand: SSAValue, result: SSAValue) -> bool:
        """By the order in which a thread comes to its accesses."""
        accesses = self.footprints.accesses
        reads = [one for one in accesses if self.buffers[one.operand] is operand and one.reads]
        writes = [one for one in accesses if self.buffers[one.operand] is result and one.writes]
        layouts = resolved_layout_of(operand), resolved_layout_of(result)
        return come_first(reads, layouts[0], writes, layouts[1])

    def verify_(self) -> None:
        """Checks the threads, the region's arguments, and what stands in it."""
        threads = enclosing_threads(self)
        if self.thread_count != threads:
            raise VerifyException(
                f"{op_label(self)} is dealt to {self.thread_count} threads, but {threads} run it"
            )
        arguments = self.body.block.args
        if len(arguments) != len(self.buffers) + 1 or arguments[0].type != IndexType():
            raise OperatorError(
                f"its region takes the thread's number and {len(self.buffers)} buffers, one an "
                "operand"
            )
        for parameter, value in zip(self.parameters, self.buffers, strict=True):
            type_ = parameter.type
            shape, element = shape_of(value.type), element_type_of(value.type)
            if not isinstance(type_, BufferType) or (
                (type_.get_shape(), type_.element_type) != (shape, element)
            ):
                raise OperatorError(
                    f"{value_label(value)} has {dims(shape)} elements of {element}, but its region "
                    f"takes {type_} for it"
                )
        for op in self.body.block.walk():
            self._verify_inner(op)

    def _verify_inner(self, op: Operation) -> None:
        if op.dialect_name() not in ("te", "arith", "math") or isinstance(op, _REFUSED):
            raise VerifyException(f"'{op.name}' cannot stand in a '{self.name}'")
        if isinstance(op, NewOp) and op.result.type.memory_space is not Space.REGISTER:
            raise OperatorError("a 'te.new' in it is a thread's own, in registers")
        if isinstance(op, RedOp) and isinstance(op.buffer, BlockArgument):
            raise OperatorError(f"threads cannot reduce into {value_label(op.buffer)} side by side")

    def thread_accesses(self) -> Sequence[ThreadAccess]:
        """All accesses to memory but a thread's reads of what it has itself written before."""
        return thread_accesses_of(self, self.footprints)


def is_part_of_step(op: Operation) -> bool:
    """Whether an operator stands in a ``sched.custom``: it is no operator of the schedule."""
    return enclosing(op, CustomOp) is not None
