"""Kernels, their launches, and the roles of their warps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.constant import CONSTANT, is_constant
from mugraph.dialects.kn.workspace import WorkspaceOp
from mugraph.dialects.launch_extents import HasLaunchExtents, extents_of, verify_three
from mugraph.dialects.partition import LinearPartition
from mugraph.dialects.sched.grid import GridWaitOp
from mugraph.dialects.sched.types import (
    GlobalType,
)
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    op_label,
    shape_of,
    value_label,
)

WARP_THREADS = 32
"""Threads of a warp, on every target."""
MAX_ROLES = 15
"""Roles of a block: each has one of the 16 named barriers, of which the whole block has one."""
REGISTER_STEP, MIN_REGISTERS, MAX_REGISTERS = 8, 24, 256
"""What ``setmaxnreg`` can give to the threads of a role."""
REGISTER_FILE = 65536
"""Registers of a multiprocessor that has roles with registers of their own."""
WARPGROUP = 4
"""Warps that change their number of registers together."""
LINE_BYTES = 128
"""One access to all banks of shared memory; swizzles repeat with it, so buffers start at one."""


@irdl_op_definition
class KernelOp(HasLaunchExtents):
    """One ``__global__`` function: device tensors in, device tensors written, phases in order.

    The body's arguments are the tensors, inputs first.  ``smem`` is the dynamic shared memory of a
    block in bytes and ``resident`` how many blocks share a multiprocessor, which bounds the
    registers of a thread; both are absent until ``--plan-stensor-memory``.  ``forloop`` is the
    for-loop's range in the µGraph, which the schedule's loop must have too.  ``cluster`` (sm_90a
    on) groups blocks.  ``constant`` are the inputs that are loaded before a ``sched.grid_wait``,
    as nothing that may run beside the kernel writes to them.

    ``raster 8``: blocks start in groups of 8 rows of the grid (along y), down the columns of a
    group, so that those that run together share more of what they load in the L2 cache.

    ``persistent 132``: so many blocks are launched, and each runs the phases of its roles for one
    block of the grid after another, every 132nd.  Roles go on to the next without waiting for each
    other, and channels go on counting: iteration ``k`` of the ``n``-th one is iteration ``k + n *
    range`` of a ring.  What stands in a role outside of phases runs once.  All buffers are those of
    channels or written in an epilogue that has waited for who used them before.
    """

    name = "sched.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    inputs = prop_def(IntegerAttr.constr(type=i64))
    cluster = opt_prop_def(DenseArrayBase.constr(i64))
    smem = opt_prop_def(IntegerAttr.constr(type=i64))
    resident = opt_prop_def(IntegerAttr.constr(type=i64))
    forloop = opt_prop_def(IntegerAttr.constr(type=i64))
    constant = opt_prop_def(DenseArrayBase.constr(i64))
    raster = opt_prop_def(IntegerAttr.constr(type=i64))
    persistent = opt_prop_def(IntegerAttr.constr(type=i64))
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    assembly_format = (
        "$sym_name `inputs` $inputs (`constant` $constant^)? `grid` $grid "
        "(`raster` $raster^)? (`persistent` $persistent^)? `block` $block "
        "(`cluster` $cluster^)? (`smem` $smem^)? (`resident` $resident^)? "
        "(`forloop` $forloop^)? $body attr-dict"
    )

    def __init__(
        self,
        sym_name: str,
        inputs: int,
        grid: Sequence[int],
        block: Sequence[int],
        body: Region | Block,
        forloop: int | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "inputs": IntegerAttr(inputs, i64),
                "grid": DenseArrayBase.from_list(i64, list(grid)),
                "block": DenseArrayBase.from_list(i64, list(block)),
                "forloop": None if forloop is None else IntegerAttr(forloop, i64),
            },
            regions=[Region(body) if isinstance(body, Block) else body],
        )

    @property
    def input_count(self) -> int:
        """How many of the body's arguments are read; the others are written."""
        return self.inputs.value.data

    @property
    def forloop_range(self) -> int | None:
        """The for-loop's range in the µGraph, where the kernel came from one."""
        return None if self.forloop is None else self.forloop.value.data

    @property
    def constant_inputs(self) -> frozenset[int]:
        """Which arguments nothing writes to that may run beside this kernel."""
        return frozenset(() if self.constant is None else extents_of(self.constant))

    @property
    def raster_rows(self) -> int:
        """The rows of the grid in a group of blocks that start together; 1 for the grid's order."""
        return 1 if self.raster is None else self.raster.value.data

    @property
    def persistent_blocks(self) -> int | None:
        """How many blocks share the grid's, each taking several; ``None`` where each takes one."""
        return None if self.persistent is None else self.persistent.value.data

    @property
    def cluster_blocks(self) -> int:
        """How many blocks a cluster has: those that start one after the other."""
        return 1 if self.cluster is None else math.prod(extents_of(self.cluster))

    def waits_for_grids(self) -> bool:
        """Whether its threads wait for the kernels before it, so that its launch need not."""
        return any(isinstance(op, GridWaitOp) for op in self.body.walk())

    @property
    def resident_blocks(self) -> int | None:
        """Blocks that share a multiprocessor, once planned."""
        return None if self.resident is None else self.resident.value.data

    @property
    def registers_at_start(self) -> int:
        """What each thread has before its role changes it: an even share of the register file.

        The file is in four parts, and the warps of the multiprocessor are dealt to these in turn.
        """
        warps = (self.resident_blocks or 1) * -(-self.threads // WARP_THREADS)
        share = REGISTER_FILE // (-(-warps // WARPGROUP) * WARPGROUP * WARP_THREADS)
        return min(share // REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS)

    @property
    def smem_bytes(self) -> int | None:
        """Dynamic shared memory of a block, once planned."""
        return None if self.smem is None else self.smem.value.data

    def verify_(self) -> None:
        """Checks arguments and extents."""
        if self.raster_rows < 1 or self.grid_dim[1] % self.raster_rows:
            raise VerifyException(
                f"{op_label(self)}: raster {self.raster_rows} must divide the {self.grid_dim[1]} "
                "rows of the grid, its extent along y"
            )
        for argument in self.body.block.args:
            if not isinstance(argument.type, GlobalType):
                raise VerifyException(
                    f"{op_label(self)}: argument {argument.index} has type {argument.type}, "
                    "expected a tensor in device memory, !sched.global"
                )
        if not 0 <= self.input_count <= len(self.body.block.args):
            raise VerifyException(
                f"{op_label(self)}: inputs {self.input_count} of {len(self.body.block.args)} "
                "arguments"
            )
        if any(not 0 <= index < self.input_count for index in self.constant_inputs):
            raise VerifyException(
                f"{op_label(self)}: constant {sorted(self.constant_inputs)} of "
                f"{self.input_count} inputs"
            )
        self.verify_extents()
        self._verify_persistence()
        if self.smem_bytes is not None and self.smem_bytes < 0:
            raise VerifyException(f"{op_label(self)}: smem {self.smem_bytes} is negative")

    def _verify_persistence(self) -> None:
        blocks = self.persistent_blocks
        if blocks is None:
            return
        if not 0 < blocks < math.prod(self.grid_dim):
            raise VerifyException(
                f"{op_label(self)}: persistent {blocks} must be from 1 to less than the "
                f"{math.prod(self.grid_dim)} blocks of the grid"
            )
        if not roles_of(self):
            raise VerifyException(
                f"{op_label(self)}: persistent {blocks} says how roles go on, and there are none"
            )

    def verify_extents(self) -> None:
        """Checks grid, block and cluster; operators of the body call it before they use them."""
        self.verify_launch_extents()
        if self.cluster is not None:
            verify_three(self, "cluster", extents_of(self.cluster))


@irdl_op_definition
class LaunchOp(WorkspaceOp):
    """Launches a kernel of the module on DTensors, as a value at kernel level."""

    name = "sched.launch"

    kernel = prop_def(SymbolRefAttr)
    arguments = var_operand_def(TensorType)
    outputs = var_result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$kernel $arguments (`workspace` $workspace^)? attr-dict "
        "`:` functional-type(operands, results)"
    )

    def __init__(
        self, kernel: str, arguments: Sequence[SSAValue], result_types: Sequence[Attribute]
    ) -> None:
        super().__init__(
            operands=[arguments],
            result_types=[result_types],
            properties={"kernel": SymbolRefAttr(kernel)},
        )

    def verify_(self) -> None:
        """Checks arguments and results against the kernel's parameters."""
        super().verify_()
        kernel = self.resolve()
        values = (*self.arguments, *self.outputs)
        parameters = kernel.body.block.args
        if len(self.arguments) != kernel.input_count or len(values) != len(parameters):
            raise VerifyException(
                f"{op_label(self)} passes {len(self.arguments)} inputs and takes "
                f"{len(self.outputs)} results; {op_label(kernel)} has {kernel.input_count} inputs "
                f"and {len(parameters) - kernel.input_count} outputs"
            )
        for value, parameter in zip(values, parameters, strict=True):
            if (
                shape_of(value.type) != shape_of(parameter.type)
                or element_type_of(value.type) != element_type_of(parameter.type)
                or layout_of(value.type) not in (None, layout_of(parameter.type))
            ):
                raise VerifyException(
                    f"{op_label(self)}: {value_label(value)} has type {value.type}, but parameter "
                    f"{parameter.index} of {op_label(kernel)} is {parameter.type}"
                )
        for index in kernel.constant_inputs:
            argument = self.arguments[index]
            if not is_constant(argument):
                raise VerifyException(
                    f"{op_label(self)}: {value_label(argument)} may change, but {op_label(kernel)} "
                    f"loads its input {index} as one that is constant; mark the function's "
                    f"argument with {CONSTANT}"
                )

    def resolve(self) -> KernelOp:
        """The kernel launched; raises ``VerifyException`` where the module has none."""
        kernel = SymbolTable.lookup_symbol(self, self.kernel)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(
                f"{op_label(self)}: the module has no 'sched.kernel' named "
                f"@{self.kernel.string_value()}"
            )
        return kernel


def whole_lines(size: int) -> int:
    """``size`` in bytes rounded up to lines of shared memory."""
    return (size + LINE_BYTES - 1) // LINE_BYTES * LINE_BYTES


def enclosing_kernel(op: Operation) -> KernelOp:
    """The kernel around an operator; raises ``VerifyException`` outside of one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, KernelOp):
        parent = parent.parent_op()
    if parent is None:
        raise VerifyException(f"{op_label(op)} must stand in the body of a 'sched.kernel'")
    # xDSL verifies a body before the operator around it.
    parent.verify_extents()
    return parent


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

    ``turn r``, in a kernel whose blocks take several blocks of the grid (``persistent``): of T
    roles with the turns 0 to T - 1 and equally many warps each runs its phases for every T-th of
    these blocks, from the ``r``-th on.  So one of them can multiply while another one writes its
    result.  ``sched.turns`` says in which order they read rings.
    """

    name = "sched.role"

    role = prop_def(StringAttr)
    warps = prop_def(IntegerAttr.constr(type=i64))
    turn = opt_prop_def(IntegerAttr.constr(type=i64))
    registers = opt_prop_def(IntegerAttr.constr(type=i64))
    elected = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    assembly_format = (
        "$role `warps` $warps (`turn` $turn^)? (`registers` $registers^)? "
        "(`elected` $elected^)? $body attr-dict"
    )

    def __init__(
        self,
        role: str,
        warps: int,
        body: Region | Block,
        registers: int | None = None,
        *,
        elected: bool = False,
    ) -> None:
        super().__init__(
            properties={
                "role": StringAttr(role),
                "warps": IntegerAttr(warps, i64),
                "registers": None if registers is None else IntegerAttr(registers, i64),
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
        return [op for op in self.body.block.ops if op.regions]

    @property
    def warp_count(self) -> int:
        """How many warps the role has."""
        return self.warps.value.data

    @property
    def turn_number(self) -> int | None:
        """Which of the blocks in turn the role takes; ``None`` where it takes every one."""
        return None if self.turn is None else self.turn.value.data

    @property
    def is_elected(self) -> bool:
        """Whether one thread runs the body."""
        return self.elected is not None

    @property
    def threads(self) -> int:
        """How many threads run the body."""
        return 1 if self.is_elected else self.warp_count * WARP_THREADS

    @property
    def first_thread(self) -> int:
        """The role's thread 0, as a thread of the block."""
        first = 0
        for role in roles_of(enclosing_kernel(self)):
            if role is self:
                break
            first += role.warp_count * WARP_THREADS
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
            raise VerifyException(
                f"{op_label(self)}: a role takes at least 1 warp, not {self.warp_count}"
            )
        siblings = roles_of(kernel)
        wanted = sum(op.warp_count for op in siblings)
        if wanted * WARP_THREADS > kernel.threads:
            raise VerifyException(
                f"{op_label(self)}: the roles of the kernel take {wanted} warps, its block has "
                f"{kernel.threads // WARP_THREADS}"
            )
        if len(siblings) > MAX_ROLES:
            raise VerifyException(
                f"{op_label(self)}: a block has at most {MAX_ROLES} roles, not {len(siblings)}"
            )
        self._verify_turn(kernel)
        self._verify_registers()

    def _verify_turn(self, kernel: KernelOp) -> None:
        if self.turn_number is None:
            return
        if kernel.persistent_blocks is None:
            raise VerifyException(
                f"{self.label}: turn {self.turn_number} has a meaning only in a kernel whose "
                "blocks take several blocks of the grid ('persistent')"
            )
        if self.is_elected:
            raise VerifyException(
                f"{self.label}: an elected role loads for every block of the grid; it has no turn"
            )
        roles = roles_in_turn(kernel)
        turns = sorted(role.turn_number or 0 for role in roles)
        if len(roles) < 2 or turns != list(range(len(roles))):
            raise VerifyException(
                f"{self.label}: the roles of the kernel have the turns {turns}; there are at "
                "least two, from 0 on, one role for each"
            )
        warps = [role.warp_count for role in roles]
        if len(set(warps)) > 1:
            raise VerifyException(
                f"{self.label}: roles that take turns have equally many warps, not {warps}"
            )

    def _verify_registers(self) -> None:
        if self.registers is None:
            return
        registers = self.registers_or(0)
        if not MIN_REGISTERS <= registers <= MAX_REGISTERS or registers % REGISTER_STEP:
            raise VerifyException(
                f"{op_label(self)}: registers {registers} must be a multiple of {REGISTER_STEP} "
                f"from {MIN_REGISTERS} to {MAX_REGISTERS}"
            )
        first = self.first_thread // WARP_THREADS
        if first % WARPGROUP or self.warp_count % WARPGROUP:
            raise VerifyException(
                f"{op_label(self)}: only whole warpgroups change their registers, {WARPGROUP} "
                f"warps from a multiple of {WARPGROUP} on; the role has {self.warp_count} from "
                f"warp {first} on"
            )
        kernel = enclosing_kernel(self)
        start = kernel.registers_at_start
        taken = sum(
            role.warp_count * WARP_THREADS * role.registers_or(start) for role in roles_of(kernel)
        )
        if taken > kernel.threads * start:
            raise VerifyException(
                f"{op_label(self)}: the roles of the kernel take {taken} registers; its block of "
                f"{kernel.threads} threads starts with {start} each, {kernel.threads * start}"
            )


def roles_of(kernel: KernelOp) -> list[RoleOp]:
    """The roles of a kernel, in order; none where all warps of the block do the same."""
    return [op for op in kernel.body.block.ops if isinstance(op, RoleOp)]


def roles_in_turn(kernel: KernelOp) -> list[RoleOp]:
    """The roles that take blocks of the grid in turn, those of turn 0 first; often none."""
    roles = [role for role in roles_of(kernel) if role.turn_number is not None]
    return sorted(roles, key=lambda role: role.turn_number or 0)


def positions_of(role: RoleOp, length: int) -> range:
    """Which blocks of a list of ``length`` blocks of the grid a role runs its phases for."""
    if role.turn_number is None:
        return range(length)
    return range(role.turn_number, length, len(roles_in_turn(enclosing_kernel(role))))


def enclosing_role(op: Operation) -> RoleOp | None:
    """The role around an operator, if it stands in one."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, RoleOp):
        parent = parent.parent_op()
    return parent


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
