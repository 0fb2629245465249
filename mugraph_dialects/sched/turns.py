"""The order of roles that take blocks of the grid in turn."""

from __future__ import annotations

from itertools import combinations

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.sched.channel import ChannelOp
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.role import RoleOp, enclosing_role, roles_in_turn
from mugraph.dialects.sched.structure import AllocOp, enclosing_loop
from mugraph.dialects.tensor_types import op_label, value_label


@irdl_attr_definition
class TurnsType(ParametrizedAttribute, TypeAttribute):
    """The order of roles that take turns."""

    name = "sched.turns_type"


TURNS = EqAttrConstraint(TurnsType())
"""What an order of turns is, of which there is one type only, so that it need not be written."""


@irdl_op_definition
class TurnsOp(KeepsMbarriers):
    """The order in which the T roles with a ``turn`` do something, once for each block of the grid.

    Of the blocks of the grid that a block takes, the ``n``-th is that of the role with turn ``n mod
    T``.  ``sched.await_turn`` in that role waits until the role of block ``n - 1`` has done
    ``sched.pass_turn``; block 0 waits for nothing.  What is between the two, the reads of rings
    above all, so comes in the order of the blocks, and what a role does behind its ``pass_turn``
    runs beside the next one's.

    An mbarrier for each turn, from byte ``offset`` of the block's memory on, set up as those of
    ``sched.channel`` are.  The ``pass_turn`` of block ``n`` ends phase ``n / T`` of mbarrier ``(n +
    1) mod T``, with one arrival of each warp of the role; the ``await_turn`` of block ``n > 0``
    waits for phase ``(n - 1) / T`` of mbarrier ``n mod T``.  With one mbarrier for all, a warp that
    has passed the turn could take the next phase for the one it waits for.
    """

    name = "sched.turns"

    result = result_def(TURNS)

    assembly_format = "(`offset` $offset^)? attr-dict"

    def __init__(self, offset: int | None = None) -> None:
        super().__init__(
            result_types=[TurnsType()],
            properties={"offset": None if offset is None else IntegerAttr(offset, i64)},
        )

    def barrier_count(self) -> int:
        """An mbarrier for each turn."""
        return len(self.roles())

    def roles(self) -> list[RoleOp]:
        """The roles that take turns, that with turn 0 first."""
        return roles_in_turn(enclosing_kernel(self))

    def passing_warps(self) -> int:
        """How many arrivals end a turn: one of each warp of a role."""
        return next((role.warp_count for role in self.roles()), 0)

    def verify_(self) -> None:
        """Checks the roles, what they share, and the mbarriers' place."""
        kernel = self.verify_in_body()
        roles = self.roles()
        if not roles:
            raise VerifyException(f"{op_label(self)} is an order of turns, and no role has one")
        of_rings = {
            value
            for op in kernel.body.block.ops
            if isinstance(op, ChannelOp)
            for value in op.buffers
        }
        used = {role: shared_buffers_of(role) for role in roles}
        for one, other in combinations(roles, 2):
            for buffer in used[one]:
                if buffer in used[other] and buffer.result not in of_rings:
                    raise VerifyException(
                        f"{one.label} and {other.label} take turns, and both use "
                        f"{value_label(buffer.result)}, which is no buffer of a channel; each "
                        "needs one of its own"
                    )
        self.verify_offset()


def shared_buffers_of(role: RoleOp) -> list[AllocOp]:
    """The shared buffers that the operators of a role read or write, in order, each once."""
    buffers = {
        value.owner: None
        for op in role.body.walk()
        if isinstance(op, HasBufferEffects)
        for value in (*op.buffers_read(), *op.buffers_written())
        if isinstance(value.owner, AllocOp)
    }
    return list(buffers)


def turns_of(op: Operation, value: SSAValue) -> TurnsOp:
    """The operator that made an order of turns; raises ``VerifyException`` where none did."""
    if not isinstance(value.owner, TurnsOp):
        raise VerifyException(f"{op_label(op)}: {value_label(value)} is not a 'sched.turns'")
    return value.owner


class TurnStepOp(IRDLOperation):
    """A step of a role that takes turns, once for each of its blocks of the grid."""

    turns = operand_def(TURNS)
    assembly_format = "$turns attr-dict"

    def __init__(self, turns: SSAValue) -> None:
        super().__init__(operands=[turns])

    def order(self) -> TurnsOp:
        """The order that the step is one of."""
        return turns_of(self, self.turns)

    def verify_(self) -> None:
        """Checks where the step stands."""
        self.order()
        role = enclosing_role(self)
        if role is None or role.turn_number is None:
            raise VerifyException(
                f"{op_label(self)} stands outside of roles with a 'turn'; only these have an order"
            )
        if self.parent_op() is role:
            raise VerifyException(
                f"{op_label(self)} stands outside of phases, and would run once; a turn comes for "
                "each block of the grid"
            )
        if enclosing_loop(self) is not None:
            raise VerifyException(
                f"{op_label(self)} stands in the loop; a turn comes once for each block of the "
                "grid, not for each iteration"
            )
        steps = [op for op in role.body.walk() if type(op) is type(self)]
        same = [op for op in steps if op.operands[0] is self.turns]
        if len(same) > 1:
            raise VerifyException(
                f"{op_label(self)} stands {len(same)} times in {role.label}; a turn comes once "
                "for each block of the grid"
            )


@irdl_op_definition
class AwaitTurnOp(TurnStepOp):
    """Waits until the role of the block of the grid before has passed the turn.

    All threads of the role wait, and what that role has done before comes first.
    """

    name = "sched.await_turn"


@irdl_op_definition
class PassTurnOp(TurnStepOp):
    """Lets the role of the next block of the grid go on: one arrival of each warp."""

    name = "sched.pass_turn"


__all__ = [
    "AwaitTurnOp",
    "PassTurnOp",
    "TurnStepOp",
    "TurnsOp",
    "TurnsType",
    "shared_buffers_of",
    "turns_of",
]
