"""The roles of a kernel's warps, and who runs what."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.accessors import is_given, number_if_given, number_of
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.definition import OperatorError, irdl_op_definition
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.kernel import (
    MAX_REGISTERS,
    MIN_REGISTERS,
    REGISTER_STEP,
    WARP,
    WARPGROUP,
    KernelOp,
    enclosing_kernel,
    with_regions,
)
from mugraph.dialects.tensor_types import op_label, shape_of

MAX_ROLES = 15
"""Roles of a block: each has one of the 16 named barriers, of which the whole block has one."""


@irdl_op_definition
class RoleOp(IRDLOperation):
    """What some warps of the block do, while those of other roles do something else.

    ``sched.role "consumers" warps 8 { ... }`` stands in the kernel's body and holds fragments and
    the phases of its own: prologue, for-loop, epilogue.  Roles take warps in the order in which
    they stand, from warp 0 on, and run side by side.  Inside of one threads are counted from its
    first warp on, partitions deal to its threads, and ``sched.barrier`` waits for its threads only.

    ``elected``: one thread, lane 0 of the role's first warp, runs the body; its other threads have
    nothing to do.  ``registers`` is the number that a thread of the role has from the role's start
    on (``setmaxnreg``), its idle threads too; before, and without it, all threads of the block have
    an even share.  A role that says it takes whole warpgroups, four warps from a multiple of four
    on, and the roles of a block together have no more than it started with.

    ``ping_pong r``, in a kernel with ``persistent`` blocks: of T roles with the indices 0 to T - 1
    and equally many warps each runs its phases for every T-th work tile of the block, from the
    ``r``-th on.  So one of them can multiply while another one writes its result.
    ``sched.order_barrier`` keeps the order in which they read rings.
    """

    name = "sched.role"

    role = prop_def(StringAttr)
    warps = prop_def(IntegerAttr.constr(type=i64))
    ping_pong = opt_prop_def(IntegerAttr.constr(type=i64))
    registers = opt_prop_def(IntegerAttr.constr(type=i64))
    elected = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = (
        "$role `warps` $warps (`ping_pong` $ping_pong^)? (`registers` $registers^)? "
        "(`elected` $elected^)? $body attr-dict"
    )

    def __init__(
        self,
        role: str,
        warps: int,
        body: Region | Block,
        *,
        elected: bool = False,
    ) -> None:
        super().__init__(
            properties={
                "role": StringAttr(role),
                "warps": IntegerAttr(warps, i64),
                "elected": UnitAttr() if elected else None,
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def label(self) -> str:
        """The role and its name, for messages about several roles."""
        return f'{op_label(self)} "{self.role.data}"'

    @property
    def phases(self) -> list[Operation]:
        """The prologue, the for-loop and the epilogue, those that there are."""
        return with_regions(self.body.block)

    warp_count = number_of("warps")
    """How many warps the role has."""

    ping_pong_index = number_if_given("ping_pong")
    """Which ping-pong role it is; ``None`` for a role that runs for every work tile."""

    is_elected = is_given("elected")
    """Whether one thread runs the body."""

    @property
    def threads(self) -> int:
        """How many threads run the body."""
        return 1 if self.is_elected else self.warp_count * WARP

    @property
    def first_thread(self) -> int:
        """The role's thread 0, as a thread of the block."""
        first = 0
        for role in roles_of(enclosing_kernel(self)):
            if role is self:
                break
            first += role.warp_count * WARP
        return first

    def registers_or(self, otherwise: int) -> int:
        """What each of the role's threads has, ``otherwise`` where the role does not say."""
        return otherwise if self.registers is None else self.registers.value.data

    @property
    def barrier_number(self) -> int:
        """The named barrier of the role's threads; the whole block has number 0."""
        return 1 + roles_of(enclosing_kernel(self)).index(self)

    def verify_(self) -> None:
        """Checks where the role stands, its warps and its registers."""
        kernel = enclosing_kernel(self)
        if self.parent_op() is not kernel:
            raise VerifyException(
                f"{op_label(self)} must stand in the body of the kernel; it holds phases, not the "
                "other way round"
            )
        if self.warp_count < 1:
            raise OperatorError(f"a role takes at least 1 warp, not {self.warp_count}")
        siblings = roles_of(kernel)
        wanted = sum(op.warp_count for op in siblings)
        if wanted * WARP > kernel.threads:
            raise OperatorError(
                f"the roles of the kernel take {wanted} warps, its block has "
                f"{kernel.threads // WARP}"
            )
        if len(siblings) > MAX_ROLES:
            raise OperatorError(f"a block has at most {MAX_ROLES} roles, not {len(siblings)}")
        self._verify_ping_pong(kernel)
        self._verify_registers()

    def _verify_ping_pong(self, kernel: KernelOp) -> None:
        if self.ping_pong_index is None:
            return
        if kernel.persistent_blocks is None:
            raise VerifyException(
                f"{self.label}: ping_pong {self.ping_pong_index} has a meaning only in a kernel "
                "with persistent blocks ('persistent')"
            )
        if self.is_elected:
            raise VerifyException(
                f"{self.label}: an elected role loads for every work tile; it has no ping_pong"
            )
        roles = ping_pong_roles(kernel)
        indices = sorted(role.ping_pong_index or 0 for role in roles)
        if len(roles) < 2 or indices != list(range(len(roles))):
            raise VerifyException(
                f"{self.label}: the roles of the kernel have ping_pong {indices}; there are at "
                "least two, from 0 on, one role for each"
            )
        warps = [role.warp_count for role in roles]
        if len(set(warps)) > 1:
            raise VerifyException(
                f"{self.label}: ping-pong roles have equally many warps, not {warps}"
            )

    def _verify_registers(self) -> None:
        if self.registers is None:
            return
        registers = self.registers_or(0)
        if not MIN_REGISTERS <= registers <= MAX_REGISTERS or registers % REGISTER_STEP:
            raise OperatorError(
                f"registers {registers} must be a multiple of {REGISTER_STEP} from {MIN_REGISTERS} "
                f"to {MAX_REGISTERS}"
            )
        first = self.first_thread // WARP
        if first % WARPGROUP or self.warp_count % WARPGROUP:
            raise OperatorError(
                f"only whole warpgroups change their registers, {WARPGROUP} warps from a multiple "
                f"of {WARPGROUP} on; the role has {self.warp_count} from warp {first} on"
            )
        kernel = enclosing_kernel(self)
        start = kernel.registers_at_start
        taken = sum(role.warp_count * WARP * role.registers_or(start) for role in roles_of(kernel))
        if taken > kernel.threads * start:
            raise OperatorError(
                f"the roles of the kernel take {taken} registers; its block of {kernel.threads} "
                f"threads starts with {start} each, {kernel.threads * start}"
            )


def roles_of(kernel: KernelOp) -> list[RoleOp]:
    """The roles of a kernel, in order; none where all warps of the block do the same."""
    return [op for op in with_regions(kernel.body.block) if isinstance(op, RoleOp)]


def ping_pong_roles(kernel: KernelOp) -> list[RoleOp]:
    """The ping-pong roles of a kernel, that of index 0 first; often none."""
    roles = [role for role in roles_of(kernel) if role.ping_pong_index is not None]
    return sorted(roles, key=lambda role: role.ping_pong_index or 0)


def positions_of(role: RoleOp, length: int) -> range:
    """Which of the ``length`` work tiles of a block a role runs its phases for."""
    if role.ping_pong_index is None:
        return range(length)
    return range(role.ping_pong_index, length, len(ping_pong_roles(enclosing_kernel(role))))


def enclosing_role(op: Operation) -> RoleOp | None:
    """The role around an operator, if it stands in one."""
    return enclosing(op, RoleOp)


def enclosing_threads(op: Operation) -> int:
    """How many threads run an operator: those of its role, or of the block."""
    role = enclosing_role(op)
    return enclosing_kernel(op).threads if role is None else role.threads


def verify_partition(op: Operation, partition: LinearPartition, value: SSAValue) -> None:
    """Raises ``VerifyException`` unless a partition orders all dimensions of ``value``.

    It may not deal to more threads than the block, or the role around the operator, has.
    """
    rank = len(shape_of(value.type))
    if len(partition.order) != rank:
        raise VerifyException(
            f"{op_label(op)}: its partition orders {len(partition.order)} dimensions, the tensor "
            f"has {rank}"
        )
    threads = enclosing_threads(op)
    if partition.threads > threads:
        who = "the block" if enclosing_role(op) is None else "its role"
        raise VerifyException(
            f"{op_label(op)} is dealt to {partition.threads} threads, {who} has {threads}"
        )
