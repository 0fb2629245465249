"""The order barrier of ping-pong roles (CUTLASS's ``OrderedSequenceBarrier``)."""

from __future__ import annotations

from itertools import combinations

from xdsl.ir import Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.interfaces import touched_by
from mugraph.dialects.sched.channel import ChannelOp
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.role import RoleOp, enclosing_role, ping_pong_roles
from mugraph.dialects.sched.structure import AllocOp, enclosing_loop
from mugraph.dialects.tensor_types import op_label, value_label


@irdl_attr_definition
class OrderBarrierType(ParametrizedAttribute, TypeAttribute):
    """An order barrier of ping-pong roles."""

    name = "sched.order_barrier_type"


ORDER_BARRIER = EqAttrConstraint(OrderBarrierType())
"""The one type of order barriers; text leaves it out."""


@irdl_op_definition
class OrderBarrierOp(KeepsMbarriers):
    """The order barrier of the T roles with ``ping_pong``: they go on in the order of work tiles.

    Work tile ``n`` of a block is that of the role with ``ping_pong`` ``n mod T``.
    ``sched.order_wait`` in that role waits until the role of work tile ``n - 1`` has done
    ``sched.order_arrive``; work tile 0 waits for nothing.  What is between the two, the reads of
    rings above all, so comes in the order of the work tiles, and what a role does after its
    ``order_arrive`` runs beside the next one's.

    An mbarrier for each role, from byte ``offset`` of the block's memory on, set up as those of
    ``sched.channel`` are.  The ``order_arrive`` of work tile ``n`` ends phase ``n / T`` of mbarrier
    ``(n + 1) mod T``, with one arrival of each warp of the role; the ``order_wait`` of work tile
    ``n > 0`` waits for phase ``(n - 1) / T`` of mbarrier ``n mod T``.  With one mbarrier for all, a
    warp that has arrived could take the next phase for the one it waits for.
    """

    name = "sched.order_barrier"

    result = result_def(ORDER_BARRIER)

    assembly_format = "(`offset` $offset^)? attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[OrderBarrierType()])

    def barrier_count(self) -> int:
        """An mbarrier for each role."""
        return len(self.roles())

    def roles(self) -> list[RoleOp]:
        """The ping-pong roles of the kernel, that of index 0 first."""
        return ping_pong_roles(enclosing_kernel(self))

    def arriving_warps(self) -> int:
        """How many arrivals end a phase: one of each warp of a role."""
        return next((role.warp_count for role in self.roles()), 0)

    def verify_(self) -> None:
        """Checks the roles, what they share, and the mbarriers' place."""
        kernel = self.verify_in_body()
        roles = self.roles()
        if not roles:
            raise OperatorError("no role of the kernel has a 'ping_pong'")
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
                        f"{one.label} and {other.label} are ping-pong roles, and both use "
                        f"{value_label(buffer.result)}, which is no buffer of a channel; each "
                        "needs one of its own"
                    )
        self.verify_offset()


def shared_buffers_of(role: RoleOp) -> list[AllocOp]:
    """The shared buffers that the operators of a role read or write, in order, each once."""
    buffers = {
        value.owner: None
        for op in role.body.walk()
        for value in touched_by(op)
        if isinstance(value.owner, AllocOp)
    }
    return list(buffers)


def order_barrier_of(op: Operation, value: SSAValue) -> OrderBarrierOp:
    """The operator that made an order barrier; raises ``VerifyException`` where none did."""
    if not isinstance(value.owner, OrderBarrierOp):
        raise VerifyException(
            f"{op_label(op)}: {value_label(value)} is not a 'sched.order_barrier'"
        )
    return value.owner


class OrderStepOp(IRDLOperation, Abstract):
    """A step of a ping-pong role, once for each of its work tiles."""

    barrier = operand_def(ORDER_BARRIER)
    assembly_format = "$barrier attr-dict"

    def __init__(self, barrier: SSAValue) -> None:
        super().__init__(operands=[barrier])

    def order_barrier(self) -> OrderBarrierOp:
        """The order barrier that the step waits for, or arrives at."""
        return order_barrier_of(self, self.barrier)

    def verify_(self) -> None:
        """Checks where the step stands."""
        self.order_barrier()
        role = enclosing_role(self)
        if role is None or role.ping_pong_index is None:
            raise VerifyException(
                f"{op_label(self)} stands outside of roles with a 'ping_pong'; only these "
                "have an order"
            )
        if self.parent_op() is role:
            raise VerifyException(
                f"{op_label(self)} stands outside of phases, and would run once; it is for each "
                "work tile"
            )
        if enclosing_loop(self) is not None:
            raise VerifyException(
                f"{op_label(self)} stands in the loop; it comes once for each work tile, not for "
                "each iteration"
            )
        steps = [op for op in role.body.walk() if type(op) is type(self)]
        same = [op for op in steps if op.operands[0] is self.barrier]
        if len(same) > 1:
            raise VerifyException(
                f"{op_label(self)} stands {len(same)} times in {role.label}; it comes once for "
                "each work tile"
            )


@irdl_op_definition
class OrderWaitOp(OrderStepOp):
    """Waits until the role of the work tile before has arrived.

    All threads of the role wait, and what that role has done before comes first.
    """

    name = "sched.order_wait"


@irdl_op_definition
class OrderArriveOp(OrderStepOp):
    """Lets the role of the next work tile go on: one arrival of each warp."""

    name = "sched.order_arrive"
