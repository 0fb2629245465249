"""``--set-register-budgets``: how many registers the threads of each role have.

All threads of a block start with an even share of the register file.  The thread that issues bulk
copies needs few; warps that hold the sums of large products need many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i64

from mugraph.dialects import sched
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.sched.kernel import MAX_REGISTERS, REGISTER_STEP, WARP, WARPGROUP
from mugraph.dialects.sched.role import roles_of
from mugraph.dialects.sched.structure import computing_threads
from mugraph.passes.costs.kept_sums import register_limit
from mugraph.passes.costs.work import LOADING_REGISTERS, WORKING_REGISTERS
from mugraph.passes.each import KernelPass, TargetPass
from mugraph.passes.schedule.analysis.registers import registers_needed
from mugraph.passes.targets import Target

TRANSPOSED_REGISTERS = 8
"""Places of the sums of swapped operands, which lie along columns.

A gated MLP of tiles of 136 rows has room in 168 registers a thread; one of 144 spills 864 bytes.
"""


class RegisterBudgets(NamedTuple):
    """The registers of each thread, of the roles that compute and of the one that loads."""

    computing: int
    loading: int


class Budgeted(NamedTuple):
    """A kernel of roles that compute and one that loads, and the register budgets of these.

    ``warps`` are those of the role that loads once it is made of whole warp groups.
    """

    kernel: sched.KernelOp
    computing: tuple[sched.RoleOp, ...]
    loading: sched.RoleOp
    warps: int
    budgets: RegisterBudgets


def choose_budgets(
    computing: int, loading: int, needed: int, registers: int
) -> RegisterBudgets | None:
    """The budgets of so many threads that compute, and that load, out of ``registers``.

    The threads that compute have at least the ``needed`` where that can be, and all that is left;
    ``None`` where they would not have more than an even share.
    """
    threads = computing + loading
    start = min(registers // threads // REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS)
    best: RegisterBudgets | None = None
    for kept in LOADING_REGISTERS:
        left = (start * threads - kept * loading) // computing
        most = min(left // REGISTER_STEP * REGISTER_STEP, MAX_REGISTERS)
        if most > start and (best is None or best.computing < needed):
            best = RegisterBudgets(most, kept)
    return best


def most_registers(kernel: sched.KernelOp, target: Target) -> int:
    """What threads that compute can have in a kernel with one role that loads, at most."""
    loading, registers = WARPGROUP * WARP, target.registers_per_multiprocessor
    budgets = choose_budgets(computing_threads(kernel), loading, MAX_REGISTERS, registers)
    return register_limit(kernel.threads, registers) if budgets is None else budgets.computing


def leave_registers_for_products(kernel: sched.KernelOp) -> None:
    """Lets fewer blocks share a multiprocessor where an instruction would have too few registers.

    ptxas compiles none that has more than threads start with.
    """
    products = sched.warpgroup_products(kernel)
    most = max((op.atom.values_of_c for op in products), default=0) + WORKING_REGISTERS
    while (blocks := kernel.resident_blocks or 1) > 1 and kernel.registers_at_start < most:
        kernel.resident = IntegerAttr(blocks - 1, i64)


def find_budgeted(kernel: sched.KernelOp, target: Target, blocks: int) -> Budgeted | None:
    """The kernel's roles, if the one that loads can leave registers that others need.

    ``blocks`` are those that share a multiprocessor.
    """
    roles: Sequence[sched.RoleOp] = roles_of(kernel)
    # Besides the role that loads there is one, or several with ping-pong.
    others = len(sched.ping_pong_roles(kernel)) or 1
    if not target.moves_registers or len(roles) != others + 1:
        return None
    *computing, loading = roles
    if not loading.is_elected or any(role.registers is not None for role in roles):
        return None
    if any(role.is_elected or role.warp_count % WARPGROUP for role in computing):
        return None
    needed = registers_needed(kernel)
    # Products of few rows have few sums, and what is left of the registers the next kernel can use.
    products = [
        op for role in computing for op in role.walk() if isinstance(op, sched.WarpgroupMmaOp)
    ]
    multiplies = any(not op.atom.swaps_operands for op in products)
    needed += TRANSPOSED_REGISTERS if products and not multiplies else 0
    if not multiplies and needed <= kernel.registers_of_each(blocks):
        return None
    warps = -(-loading.warp_count // WARPGROUP) * WARPGROUP
    threads, idle = sum(role.threads for role in computing), warps * WARP
    if (threads + idle) * blocks > target.max_threads_per_multiprocessor:
        return None
    # ptxas compiles no instruction that has more registers than threads start with.
    start = register_limit((threads + idle) * blocks, target.registers_per_multiprocessor)
    if any(op.atom.values_of_c + WORKING_REGISTERS > start for op in products):
        return None
    share = target.registers_per_multiprocessor // blocks
    budgets = choose_budgets(threads, idle, needed, share)
    if budgets is None or budgets.computing <= kernel.registers_of_each(blocks):
        return None
    return Budgeted(kernel, tuple(computing), loading, warps, budgets)


def set_budgets(found: Budgeted) -> None:
    """Says in all roles how many registers their threads have."""
    threads = sum(role.threads for role in found.computing) + found.warps * WARP
    found.kernel.block = integer_array([threads, 1, 1])
    found.loading.warps = IntegerAttr(found.warps, i64)
    for role in found.computing:
        role.registers = IntegerAttr(found.budgets.computing, i64)
    found.loading.registers = IntegerAttr(found.budgets.loading, i64)


class SetRegisterBudgetsPass(TargetPass, KernelPass):
    """Moves registers from the role that loads to the roles that compute (``setmaxnreg``).

    Kernels whose warp groups multiply, unless with swapped operands, or whose threads need more
    registers than an even share of the register file, say how many the threads of each role have:
    those that load keep 40, or 32 or 24 where the others need the difference; those that compute
    have all the rest.  Only whole warp
    groups can do so, so the role that loads is filled up with warps that do nothing.
    Pre-condition: ``--plan-stensor-memory``, which says how many blocks share the registers.

    After: ``sched.role "consumers" warps 8 registers 232`` and
    ``sched.role "producer" warps 4 registers 40 elected``.
    """

    name = "set-register-budgets"

    def run(self, kernel: sched.KernelOp) -> None:
        """Sets the budgets of a kernel."""
        leave_registers_for_products(kernel)
        found = find_budgeted(kernel, self.target, kernel.resident_blocks or 1)
        if found is not None:
            set_budgets(found)
