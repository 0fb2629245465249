"""Groups of asynchronous copies: which of them have landed where, as affine functions of loops.

Every thread closes groups in the same order, so that the number of those closed when control comes
to a place is a sum of the variables of the loops around it, times the groups of an iteration, and
a constant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import te


@dataclass(frozen=True)
class Count:
    """A number of groups: a constant, and so many in each iteration of loops."""

    constant: int
    factors: tuple[tuple[SSAValue, int], ...]

    def text(self, names: Mapping[SSAValue, str]) -> str:
        """The number as isl reads it."""
        terms = [f"{factor} * {names[variable]}" for variable, factor in self.factors if factor]
        return " + ".join([str(self.constant), *terms])


class CopyGroups:
    """The groups of copies of a block's program, and the places that wait for them."""

    def __init__(self, holder: te.ThreadsOp) -> None:
        self.holder = holder
        self.order = {op: number for number, op in enumerate(holder.walk())}
        """The operators by their number in the text."""

    def closed_before(self, op: Operation) -> Count:
        """How many groups a thread has closed when it comes to an operator.

        A copy is in the group of that number.
        """
        constant = 0
        factors: list[tuple[SSAValue, int]] = []
        while op is not self.holder:
            block, parent = op.parent_block(), op.parent_op()
            assert block is not None and parent is not None
            for before in block.ops:
                if before is op:
                    break
                constant += _closed_in(before)
            if isinstance(parent, te.SeqOp) and (each := _closed_in_block(parent.body.block)):
                factors.append((parent.variable, each))
            op = parent
        return Count(constant, tuple(factors))

    def waits_before(self, op: Operation) -> Iterator[Landing]:
        """The waits that control has come to before an operator, the last one first.

        Those around it surely; those behind it in a loop in the iteration before, if there is one.
        """
        while op is not self.holder:
            for before in _siblings(op, forward=False):
                if isinstance(before, te.WaitOp):
                    yield self._landing(before, None)
            parent = op.parent_op()
            assert parent is not None
            if isinstance(parent, te.SeqOp):
                behind = [one for one in _siblings(op, forward=True) if isinstance(one, te.WaitOp)]
                yield from (self._landing(wait, parent) for wait in reversed(behind))
            op = parent

    def _landing(self, wait: te.WaitOp, carried: te.SeqOp | None) -> Landing:
        return Landing(wait, carried, self.closed_before(wait))


@dataclass(frozen=True)
class Landing:
    """A wait, seen from an operator that comes after it."""

    wait: te.WaitOp
    carried: te.SeqOp | None
    """The loop in whose iteration before it stands; ``None`` for the same iteration."""
    closed: Count
    """The groups closed at the wait."""

    def of(self, group: str, names: Mapping[SSAValue, str]) -> str:
        """When a group has landed, as isl reads it, by the operator's loop variables."""
        if self.carried is None:
            return f"{group} < {self.closed.text(names)} - {self.wait.groups}"
        variable = self.carried.variable
        before = {**names, variable: f"({names[variable]} - 1)"}
        landed = f"{group} < {self.closed.text(before)} - {self.wait.groups}"
        return f"({names[variable]} >= 1 and {landed})"


def _siblings(op: Operation, *, forward: bool) -> Iterator[Operation]:
    """The operators behind or before one in its block, the nearest first."""
    one = op.next_op if forward else op.prev_op
    while one is not None:
        yield one
        one = one.next_op if forward else one.prev_op


def _closed_in(op: Operation) -> int:
    """How many groups an operator closes."""
    match op:
        case te.CommitOp():
            return 1
        case te.SeqOp():
            return op.iterations * _closed_in_block(op.body.block)
        case te.IfOp():
            if _closed_in_block(op.body.block):
                raise VerifyException(
                    "'te.commit' stands under a condition: how many groups are under way depends "
                    "on it"
                )
            return 0
        case te.StepOp():
            return 0
        case _:
            return 0


def _closed_in_block(block: Block) -> int:
    return sum(_closed_in(op) for op in block.ops)
