"""Conditions on numbers, which are known when the program runs."""

from __future__ import annotations

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, region_def, traits_def
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.definition import irdl_op_definition
from mugraph.dialects.te.accesses import AccessOp, NewOp
from mugraph.dialects.te.calls import CallOp
from mugraph.dialects.te.iterations import IterationOp
from mugraph.dialects.te.loops import IfOp, ParOp, SeqOp, as_region
from mugraph.dialects.te.sections import SectionOp
from mugraph.dialects.te.types import Level
from mugraph.dialects.te.values import AnchorOp, IndexExpressionOp, IndexOfOp


@irdl_op_definition
class WhenOp(IRDLOperation):
    """Runs its body where a number says so: ``te.when %holds { ... }``, with an i1.

    Where that is nobody knows before the program runs: analyses take it to be everywhere.  So the
    body is what one thread does by itself, and loops over threads stand around it.
    """

    name = "te.when"

    condition = operand_def(i1)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$condition $body attr-dict"

    def __init__(self, condition: SSAValue, body: Region | Block) -> None:
        super().__init__(operands=[condition], regions=[as_region(body)])

    @staticmethod
    def is_of_one_thread(op: Operation) -> bool:
        """Whether an operator may be left out by a thread: no other one depends on it."""
        return op.dialect_name() in ("arith", "math") or isinstance(op, _OF_ONE_THREAD)

    def verify_(self) -> None:
        """Checks that the body is the work of one thread."""
        if self.body.block.args:
            raise VerifyException("'te.when': its body has no variables")
        for op in self.body.walk():
            if isinstance(op, ParOp) and (op.is_fully or op.scope not in (None, Level.THREAD)):
                raise VerifyException(
                    "'te.when': a condition on numbers stands in loops over threads, not around "
                    "them; put it into the loop"
                )
            if not self.is_of_one_thread(op):
                raise VerifyException(
                    f"'te.when': '{op.name}' stands under a condition on numbers; other threads or "
                    "copies depend on it, so that it cannot be left out"
                )


_OF_ONE_THREAD = (
    AccessOp,
    AnchorOp,
    CallOp,
    IfOp,
    IndexExpressionOp,
    IndexOfOp,
    IterationOp,
    NewOp,
    ParOp,
    SectionOp,
    SeqOp,
    WhenOp,
)
