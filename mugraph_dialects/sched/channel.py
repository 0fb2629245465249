"""Channels: rings of stages that one role fills by bulk copies and others read."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.abstract import Abstract
from mugraph.dialects.accessors import number_if_given, number_or
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.sched.accesses import StageReference, stage_reference
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.role import enclosing_role
from mugraph.dialects.sched.structure import (
    AllocOp,
    enclosing_loop,
    verify_fixed_iteration,
)
from mugraph.dialects.sched.types import SharedType
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    physical_elements,
    resolved_layout_of,
    value_label,
)


@irdl_attr_definition
class ChannelType(ParametrizedAttribute, TypeAttribute):
    """A ring of stages between the warps of several roles."""

    name = "sched.channel_type"


CHANNEL = EqAttrConstraint(ChannelType())
"""What a channel is, of which there is one type only, so that it need not be written."""


@irdl_op_definition
class ChannelOp(KeepsMbarriers):
    """A channel over staged buffers: a producer fills a stage, consumers read and release it.

    All buffers have one number S of stages, and stage s of the channel is stage s of each.  The
    tiles of iteration ``k`` go through stage ``k mod S``.  The channel is two ``mbarrier`` a stage,
    *full* and *empty*, 8 bytes each, from byte ``offset`` of the block's memory on, all the full
    ones first; they live for the whole kernel.  A ``sched.barrier`` of the whole block stands
    between the channels and the roles: before it one thread sets all barriers up.

    Up to ``--lower-rings`` it is used by two operators:

    - ``sched.produce`` in the producer fills a stage, once that is empty.
    - ``sched.consume`` in a consumer waits until the stage is full.  When its readers are done with
      it follows from them.

    Afterwards by four, which say what happens at the mbarriers:

    - ``sched.publish`` in the producer arrives once on *full*, and announces the bytes of all
      buffers; the stage is full once bulk copies have brought so many.
    - ``sched.consume`` in a consumer waits until the stage is full.
    - ``sched.release`` in a consumer: each of its warps arrives once on *empty*.
    - ``sched.acquire`` in the producer waits until all consumers' warps have released what was in
      the stage before; the first S fills have nothing to wait for.

    Where copies of it are ``multicast``, the warps of all blocks of the cluster release its stages:
    blocks of a cluster do the same, so what is said of one block's steps holds for all.

    A stage is empty once each warp of each role that releases the channel has done so; of roles
    with ``ping_pong`` only that one whose work tile the tiles are for.  A
    channel that nobody releases is filled S times at most.  Each of the four runs in the order of
    iterations, once for each.
    """

    name = "sched.channel"

    buffers = var_operand_def(SharedType)
    result = result_def(CHANNEL)

    assembly_format = "$buffers (`offset` $offset^)? attr-dict `:` type($buffers)"

    def __init__(self, buffers: Sequence[SSAValue]) -> None:
        super().__init__(operands=[buffers], result_types=[ChannelType()])

    @property
    def stage_count(self) -> int:
        """How many stages the ring has."""
        return max(
            (value.owner.stage_count for value in self.buffers if isinstance(value.owner, AllocOp)),
            default=1,
        )

    def barrier_count(self) -> int:
        """Two mbarriers a stage."""
        return 2 * self.stage_count

    def stage_payload(self) -> int:
        """The bytes that bulk copies bring into one stage of all buffers."""
        return sum(
            physical_elements(resolved_layout_of(value)) * element_bytes_of(value.type)
            for value in self.buffers
        )

    def steps(self) -> list[ChannelStepOp]:
        """All steps of the channel's protocol, in the order of the text."""
        kernel = enclosing_kernel(self)
        return [
            op
            for op in kernel.body.walk()
            if isinstance(op, ChannelStepOp) and op.channel is self.result
        ]

    def releasing_warps(self) -> int:
        """How many arrivals make a stage empty: one a warp of each role that releases it.

        Of ping-pong roles, whose warps are equally many, each work tile has one.
        """
        found = {enclosing_role(op) for op in self.steps() if isinstance(op, ReleaseOp)}
        roles = [role for role in found if role is not None]
        ping_pong = next((role.warp_count for role in roles if role.ping_pong is not None), 0)
        return ping_pong + sum(role.warp_count for role in roles if role.ping_pong is None)

    def is_of_cluster(self) -> bool:
        """Whether blocks of a cluster fill each other's stages, and so release them together."""
        return any(use.operation.properties.get("multicast") for use in self.result.uses)

    def verify_(self) -> None:
        """Checks where the channel stands, its buffers' stages, and its place."""
        self.verify_in_body()
        stages = {
            buffer.owner.stage_count for buffer in self.buffers if isinstance(buffer.owner, AllocOp)
        }
        if not stages:
            raise VerifyException(f"{op_label(self)} has no buffers")
        if len(stages) > 1:
            raise OperatorError(f"its buffers have {sorted(stages)} stages; they must agree")
        self.verify_offset()


def channel_of(op: Operation, value: SSAValue) -> ChannelOp:
    """The operator that made a channel; raises ``VerifyException`` where none did."""
    if not isinstance(value.owner, ChannelOp):
        raise VerifyException(f"{op_label(op)}: {value_label(value)} is not a 'sched.channel'")
    return value.owner


class RunsAtIteration(IRDLOperation, Abstract):
    """An operator on the tile of one iteration ``k``, and on the stage ``k mod S`` it goes through.

    In the loop ``k`` is the current iteration, or that ``ahead`` of it; where the loop has no such
    iteration the operator does nothing.  Before the loop ``iteration`` says which.
    """

    ahead = opt_prop_def(IntegerAttr.constr(type=i64))
    iteration = opt_prop_def(IntegerAttr.constr(type=i64))

    ahead_of = number_or("ahead", 0)
    """How many iterations ahead of the current one."""

    fixed_iteration = number_if_given("iteration")
    """The iteration meant, outside the loop."""

    @property
    def stage(self) -> StageReference:
        """The iteration that the operator means when an iteration runs."""
        return stage_reference(self, self.ahead_of, self.fixed_iteration)

    def furthest_behind(self, stages: int) -> int:
        """The least ``ahead`` that has a meaning in a ring of so many stages."""
        return 0

    def verify_iteration(self, stages: int) -> None:
        """Checks where ``ahead`` and ``iteration`` stand, of a ring of so many stages."""
        kernel, role = enclosing_kernel(self), enclosing_role(self)
        if kernel.persistent_blocks is not None and self.parent_op() is role:
            # Of which block of the grid it would be the iteration, nothing says.
            raise VerifyException(
                f"{op_label(self)} stands outside of phases, and would run once; in a persistent "
                "kernel iterations are those of a block of the grid, so put it into a phase"
            )
        loop = enclosing_loop(self)
        if self.ahead is not None and loop is None:
            raise VerifyException(f"{op_label(self)}: 'ahead' has a meaning only in the loop")
        furthest = stages if loop is None else max(stages, loop.step_of - 1)
        if not self.furthest_behind(stages) <= self.ahead_of <= furthest:
            raise VerifyException(
                f"{op_label(self)}: ahead {self.ahead_of} must be between "
                f"{self.furthest_behind(stages)} and the {stages} stages of the ring"
            )
        if self.iteration is not None and enclosing_loop(self) is not None:
            raise VerifyException(f"{op_label(self)}: 'iteration' has no meaning in the loop")
        if self.fixed_iteration is not None:
            verify_fixed_iteration(self, self.fixed_iteration, kernel)


def iteration_properties(ahead: int, iteration: int | None) -> dict[str, IntegerAttr | None]:
    """The properties of :class:`RunsAtIteration`."""
    return {
        "ahead": IntegerAttr(ahead, i64) if ahead else None,
        "iteration": None if iteration is None else IntegerAttr(iteration, i64),
    }


class ChannelStepOp(RunsAtIteration):
    """One side of a channel's protocol; see ``sched.channel``."""

    channel = operand_def(CHANNEL)
    assembly_format = "$channel (`ahead` $ahead^)? (`iteration` $iteration^)? attr-dict"

    def __init__(
        self, channel: SSAValue, ahead: int = 0, iteration: int | None = None, *regions: Region
    ) -> None:
        properties = iteration_properties(ahead, iteration)
        super().__init__(operands=[channel], properties=properties, regions=regions)

    def verify_(self) -> None:
        """Checks the role that the step stands in, and the iteration."""
        channel = channel_of(self, self.channel)
        role = enclosing_role(self)
        if role is None:
            raise VerifyException(
                f"{op_label(self)} stands outside of roles; a channel is between roles"
            )
        produces = isinstance(self, ProduceOp | AcquireOp | PublishOp)
        if produces != role.is_elected:
            raise OperatorError(
                "one thread fills a channel, in an elected role; whole warps read it, in another "
                "one"
            )
        self.verify_iteration(channel.stage_count)


@irdl_op_definition
class ProduceOp(ChannelStepOp):
    """Producer: bulk copies that fill the stage of iteration ``k``, once that is empty.

    ``--lower-rings`` puts them between a ``sched.acquire`` and a ``sched.publish``, and releases
    the stage behind its last reader.
    """

    name = "sched.produce"

    body = region_def("single_block")
    traits = traits_def(NoTerminator())
    assembly_format = "$channel (`ahead` $ahead^)? (`iteration` $iteration^)? $body attr-dict"

    def __init__(
        self,
        channel: SSAValue,
        copies: Sequence[Operation],
        ahead: int = 0,
        iteration: int | None = None,
    ) -> None:
        super().__init__(channel, ahead, iteration, Region(Block(copies)))

    def verify_(self) -> None:
        """Checks what fills the stage, too."""
        super().verify_()
        for op in self.body.block.ops:
            meant = op.stage if isinstance(op, RunsAtIteration) else None
            is_copy = not isinstance(op, ChannelStepOp) and self.channel in op.operands
            if not is_copy or meant != self.stage:
                raise OperatorError(
                    f"{op_label(op)} does not fill the stage; expected bulk copies on "
                    f"{value_label(self.channel)} for the same iteration"
                )


@irdl_op_definition
class AcquireOp(ChannelStepOp):
    """Producer: waits until all consumers have released what was in the stage before.

    For iteration ``k``, that is iteration ``k - S``; there is nothing to wait for while ``k < S``.
    """

    name = "sched.acquire"


@irdl_op_definition
class PublishOp(ChannelStepOp):
    """Producer: the stage of iteration ``k`` is full once all its bytes have come.

    They are those of one stage of all buffers of the channel.  The bulk copies that bring them may
    stand before it or after it.
    """

    name = "sched.publish"


@irdl_op_definition
class ConsumeOp(ChannelStepOp):
    """Consumer: every thread waits until the stage of iteration ``k`` is full, and then sees it."""

    name = "sched.consume"


@irdl_op_definition
class ReleaseOp(ChannelStepOp):
    """Consumer: each warp says that all its threads have read the stage of iteration ``k``.

    With ``ahead -1`` that of the iteration before, which products behind the program had in use.
    """

    name = "sched.release"

    def furthest_behind(self, stages: int) -> int:
        """A stage can be kept until its consumers need the one after all others."""
        return 1 - stages
