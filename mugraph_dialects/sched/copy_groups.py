"""Groups of asynchronous copies: what closes one, what waits for it, and how many are newer."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue
from xdsl.irdl import IRDLOperation, prop_def, result_def, var_operand_def

from mugraph.dialects.accessors import number_of
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.sched.tile_values import CarriesTiles
from mugraph.dialects.sched.types import TokenType
from mugraph.dialects.tensor_types import value_label


@irdl_op_definition
class CommitOp(IRDLOperation):
    """Closes a group of the ``sched.copy async`` since the last commit (every thread its own).

    ``%token = sched.commit``: the token stands for the group, and for all groups before it.  A loop
    carries those that a later iteration waits for.
    """

    name = "sched.commit"

    token = result_def(TokenType())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[TokenType()])


@irdl_op_definition
class WaitOp(IRDLOperation):
    """Waits until at most ``pending`` of this thread's newest groups are still in flight.

    ``for %token`` are groups that have then come.
    """

    name = "sched.wait"

    pending = prop_def(IntegerAttr.constr(type=i64))
    tokens = var_operand_def(TokenType())
    assembly_format = "`pending` $pending (`for` $tokens^)? attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(operands=[[]], properties={"pending": IntegerAttr(pending, i64)})

    pending_groups = number_of("pending")
    """How many groups may still be in flight."""

    def verify_(self) -> None:
        """Checks the count of groups, and that it leaves none of the tokens' in flight."""
        if self.pending_groups < 0:
            raise OperatorError(f"pending {self.pending_groups} must be at least 0")
        for token in self.tokens:
            newer = newer_groups(token, self)
            if newer < self.pending_groups:
                raise OperatorError(
                    f"pending {self.pending_groups} can leave {value_label(token)} in flight; to "
                    f"wait for it, say pending {newer}"
                )


def newer_groups(token: SSAValue, op: Operation) -> int:
    """How many groups are committed after a token's and before an operator, at least."""
    return _newer(token, op, frozenset())


def _newer(token: SSAValue, op: Operation, seen: frozenset[SSAValue]) -> int:
    if isinstance(token, BlockArgument):
        loop = token.block.parent_op()
        assert isinstance(loop, CarriesTiles)  # no other block has tokens
        before = _newer(loop.initial_tiles()[token.index], loop, seen)
        last = loop.body_block.last_op
        # What an iteration leaves to the next may be newer than what the loop began with.
        if token not in seen and last is not None:
            before = min(before, _newer(loop.yielded[token.index], last, seen | {token}))
        return before + _commits(token.block.first_op, op)
    assert isinstance(token, OpResult)
    before = 0
    if isinstance(token.op, CarriesTiles):
        last = token.op.body_block.last_op
        assert last is not None  # it yields the token
        before = _newer(token.op.yielded[token.index], last, seen)
    return before + _commits(token.op.next_op, op)


def _commits(first: Operation | None, end: Operation) -> int:
    """The groups committed from an operator on, in the order of the text, before another."""
    return sum(isinstance(op, CommitOp) for op in _until(first, end))


def _until(first: Operation | None, end: Operation) -> Iterator[Operation]:
    while first is not None:
        for op in first.walk():
            if op is end:
                return
            yield op
        first = first.next_op
