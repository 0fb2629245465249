"""Vocabulary of Hopper and Blackwell: bulk copies, channels between warps, roles.

``sched`` can say these from the start so that nothing above it needs to change; the passes that
derive them, and the printer, come with those targets.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Block, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.sched.accesses import AccessesNotModelled
from mugraph.dialects.sched.structure import AllocOp, enclosing_kernel
from mugraph.dialects.sched.types import GlobalType, SharedType, crosses_device_memory
from mugraph.dialects.tensor_types import dims, op_label, shape_of


@irdl_attr_definition
class ChannelType(ParametrizedAttribute, TypeAttribute):
    """A ring of stages between producer and consumer warps; lowers to full/empty mbarriers."""

    name = "sched.channel_type"


@irdl_op_definition
class ChannelOp(IRDLOperation):
    """A channel over staged buffers: producers fill a stage, consumers release it.

    All buffers have the same number of stages; a stage of the channel is that stage of each.
    """

    name = "sched.channel"

    buffers = var_operand_def(SharedType)
    result = result_def(ChannelType)

    assembly_format = "$buffers attr-dict `:` type($buffers) `->` type($result)"

    def __init__(self, buffers: Sequence[SSAValue]) -> None:
        super().__init__(operands=[buffers], result_types=[ChannelType()])

    def verify_(self) -> None:
        """Checks that the buffers have one number of stages."""
        stages = {
            buffer.owner.stage_count for buffer in self.buffers if isinstance(buffer.owner, AllocOp)
        }
        if len(stages) > 1:
            raise VerifyException(
                f"{op_label(self)}: its buffers have {sorted(stages)} stages; they must agree"
            )


class _ChannelStepOp(IRDLOperation, AccessesNotModelled):
    """One side of a channel's protocol, on the stage of the current iteration."""

    channel = operand_def(ChannelType)
    assembly_format = "$channel attr-dict `:` type($channel)"

    def __init__(self, channel: SSAValue) -> None:
        super().__init__(operands=[channel])


@irdl_op_definition
class AcquireOp(_ChannelStepOp):
    """Producer: waits until the stage is empty."""

    name = "sched.acquire"


@irdl_op_definition
class PublishOp(_ChannelStepOp):
    """Producer: the stage is full once its bulk copies have landed."""

    name = "sched.publish"


@irdl_op_definition
class ConsumeOp(_ChannelStepOp):
    """Consumer: waits until the stage is full."""

    name = "sched.consume"


@irdl_op_definition
class ReleaseOp(_ChannelStepOp):
    """Consumer: has read the stage; it may be overwritten."""

    name = "sched.release"


@irdl_op_definition
class BulkCopyOp(IRDLOperation, AccessesNotModelled):
    """A TMA copy of a tile, issued by one thread; ``multicast`` writes to the whole cluster."""

    name = "sched.bulk_copy"

    source = operand_def(GlobalType | SharedType)
    destination = operand_def(GlobalType | SharedType)
    multicast = opt_prop_def(UnitAttr)

    assembly_format = (
        "(`multicast` $multicast^)? $source `to` $destination attr-dict "
        "`:` type($source) `to` type($destination)"
    )

    def __init__(self, source: SSAValue, destination: SSAValue, *, multicast: bool = False) -> None:
        super().__init__(
            operands=[source, destination],
            properties={"multicast": UnitAttr() if multicast else None},
        )

    def verify_(self) -> None:
        """Checks spaces and extents."""
        if shape_of(self.source.type) != shape_of(self.destination.type):
            raise VerifyException(
                f"{op_label(self)}: source has {dims(shape_of(self.source.type))}, destination "
                f"{dims(shape_of(self.destination.type))}"
            )
        if not crosses_device_memory(self.source, self.destination):
            raise VerifyException(
                f"{op_label(self)} moves data between device memory and shared memory"
            )


@irdl_op_definition
class RoleOp(IRDLOperation):
    """What some warps of the block do: ``sched.role "producer" warps 1 registers 40 { ... }``.

    Roles take warps in the order in which they stand; ``registers`` is the number a thread of the
    role keeps (``setmaxnreg``).
    """

    name = "sched.role"

    role = prop_def(StringAttr)
    warps = prop_def(IntegerAttr.constr(type=i64))
    registers = opt_prop_def(IntegerAttr.constr(type=i64))
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = "$role `warps` $warps (`registers` $registers^)? $body attr-dict"

    def __init__(
        self, role: str, warps: int, body: Region | Block, registers: int | None = None
    ) -> None:
        super().__init__(
            properties={
                "role": StringAttr(role),
                "warps": IntegerAttr(warps, i64),
                "registers": None if registers is None else IntegerAttr(registers, i64),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    def verify_(self) -> None:
        """Checks that the block has the warps its roles ask for."""
        kernel = enclosing_kernel(self)
        if self.warps.value.data < 1:
            raise VerifyException(
                f"{op_label(self)}: a role takes at least 1 warp, not {self.warps.value.data}"
            )
        siblings = [op for op in kernel.body.walk() if isinstance(op, RoleOp)]
        wanted = sum(op.warps.value.data for op in siblings)
        if wanted * 32 > kernel.threads:
            raise VerifyException(
                f"{op_label(self)}: the roles of the kernel take {wanted} warps, its block has "
                f"{kernel.threads // 32}"
            )


__all__ = [
    "AcquireOp",
    "BulkCopyOp",
    "ChannelOp",
    "ChannelType",
    "ConsumeOp",
    "PublishOp",
    "ReleaseOp",
    "RoleOp",
]
