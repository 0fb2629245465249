"""``--persist-program``: kernels that come one after the other become one, of tasks and counters.

A decode step launches kernels of a few microseconds each, between which device memory is idle.
Here as many blocks as run at once take the blocks of all these kernels as tasks, in an order that
is fixed when they are compiled.  What a task loads before it waits, its constant weights, is on its
way while others finish what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.overlap import JOINED
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched import KernelOp, LaunchOp
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.programs import COUNTER_BYTES, tasks_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.program.plan_dtensor_memory import ALIGNMENT
from mugraph.passes.schedule.analysis.hazards.tasks import conflicts_of
from mugraph.passes.schedule.plan_stensor_memory import registers_wanted
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

PARAMETER_BYTES = 32_764
"""What the parameters of a kernel take at most, from sm_70 and CUDA 12.1 on."""
POINTER_BYTES, MAP_BYTES = 8, 128


def why_no_task(kernel: KernelOp) -> str | None:
    """Analysis: why blocks of a kernel cannot be tasks of a persistent one; else ``None``."""
    if kernel.smem_bytes is None:
        return "its shared memory is not planned; run --plan-stensor-memory first"
    if kernel.cluster is not None:
        return "its blocks run in clusters"
    if kernel.persistent is not None or kernel.descending is not None or kernel.cuts_by_call:
        return "it says itself which blocks run, and in which order"
    if kernel.block_dim[1:] != (1, 1) or kernel.threads % WARP:
        return "its threads do not lie along x in whole warps"
    if any(kernel.is_number(argument.index) for argument in kernel.body.block.args):
        return "a call gives it a number"
    for op in kernel.walk():
        if isinstance(op, sched.RoleOp) and op.registers is not None:
            return "its roles take registers from each other"
        if isinstance(op, sched.CustomOp):
            return "it has a custom operator, whose barriers are of the whole block"
        if isinstance(op, KeepsMbarriers) and not isinstance(op, sched.ChannelOp):
            return "its roles take turns"
    return None


def operand_bytes(launch: LaunchOp) -> int:
    """Analysis: what the operands of a launch take at most among parameters: pointers and maps."""
    kernel = launch.resolve()
    maps = {
        (op.tensor.index, op.bulk_tile().box)
        for op in kernel.walk()
        if isinstance(op, sched.BulkCopyOp) and isinstance(op.tensor, BlockArgument)
    }
    # Maps, and what stands before them, begin at multiples of their alignment.
    pointers = POINTER_BYTES * len(kernel.body.block.args)
    return MAP_BYTES * (len(maps) + 1 if maps else 0) + pointers


def is_wanted(kernel: KernelOp, *, everywhere: bool) -> bool:
    """Choice: whether blocks of a kernel are to be tasks, where its plan leaves that free
    ``everywhere`` or nowhere.

    Raises ``PassFailedException`` where the plan demands what cannot be.
    """
    wanted = kernel.decided.tasks
    why = why_no_task(kernel)
    if wanted and why is not None and kernel.decided.requires("tasks"):
        raise PassFailedException(
            f"--{PersistProgramPass.name}: {op_label(kernel)} cannot have tasks = true: {why}; "
            "leave it out, or write preferred = [tasks]"
        )
    return why is None and (everywhere if wanted is None else wanted)


def runs_of_tasks(function: FuncOp, *, everywhere: bool) -> Iterator[list[LaunchOp]]:
    """Analysis: launches one behind the other, views aside, that are to be a persistent kernel."""
    run: list[LaunchOp] = []
    size = 0
    for op in function.body.block.ops:
        if isinstance(op, SharesMemory):
            continue
        fits = isinstance(op, LaunchOp) and is_wanted(op.resolve(), everywhere=everywhere)
        if isinstance(op, LaunchOp) and fits and size + operand_bytes(op) <= PARAMETER_BYTES:
            run.append(op)
            size += operand_bytes(op)
            continue
        yield run
        run = [op] if isinstance(op, LaunchOp) and fits else []
        size = sum(map(operand_bytes, run))
    yield run


def awaited(launches: Sequence[LaunchOp]) -> list[list[int]]:
    """Choice: which launches the tasks of each one wait for, all tasks of these.

    Those that it conflicts with, but for those that others of them have waited for.
    """
    needed: list[set[int]] = [set() for _ in launches]
    for conflict in conflicts_of(launches):
        needed[conflict.later].add(conflict.earlier)
    done: list[set[int]] = []
    waits: list[list[int]] = []
    for numbers in needed:
        chosen: list[int] = []
        known: set[int] = set()
        for number in sorted(numbers, reverse=True):
            if number not in known:
                chosen.append(number)
                known |= {number, *done[number]}
        waits.append(sorted(chosen))
        done.append(known)
    return waits


def blocks_at_once(launches: Sequence[LaunchOp], target: Target) -> tuple[int, int]:
    """Choice: how many blocks share a multiprocessor, and how many there are in all."""
    kernels = list(dict.fromkeys(launch.resolve() for launch in launches))
    resident = target.resident_blocks(
        target.multiprocessors * target.max_blocks_per_multiprocessor,
        max(kernel.threads for kernel in kernels),
        max(kernel.smem_bytes or 0 for kernel in kernels),
        max(map(registers_wanted, kernels)),
    )
    return resident, resident * target.multiprocessors


def make_program(
    function: FuncOp, launches: Sequence[LaunchOp], resident: int, blocks: int
) -> None:
    """Rewrite: makes launches one persistent kernel, with counters at the end of the workspace."""
    needed = function.attributes[WORKSPACE_BYTES]
    assert isinstance(needed, IntegerAttr)  # as planned
    counters = -(-needed.value.data // ALIGNMENT) * ALIGNMENT
    size = counters + COUNTER_BYTES * len(launches)
    function.attributes[WORKSPACE_BYTES] = IntegerAttr(size, i64)
    launches[0].blocks = IntegerAttr(blocks, i64)
    launches[0].counters = IntegerAttr(counters, i64)
    first = 0
    for launch, waits in zip(launches, awaited(launches), strict=True):
        launch.attributes.pop(JOINED, None)
        launch.resident = None
        launch.first = IntegerAttr(first, i64)
        counts = [number for each in waits for number in (each, tasks_of(launches[each]))]
        launch.awaits = DenseArrayBase.from_list(i64, counts)
        first = (first + tasks_of(launch)) % blocks
    launches[0].resident = IntegerAttr(resident, i64)


def persist_program(
    function: FuncOp, target: Target, blocks: int = 0, *, everywhere: bool = True
) -> None:
    """Rewrite: makes persistent kernels of launches of a function that can be tasks of one.

    ``blocks`` says how many run; 0 for as many as do at once.  Not ``everywhere``: only of those
    whose plans say so.
    """
    if len(function.body.blocks) != 1 or WORKSPACE_BYTES not in function.attributes:
        return
    if any(isinstance(op, LaunchOp) and op.is_task for op in function.walk()):
        return
    for launches in list(runs_of_tasks(function, everywhere=everywhere)):
        if len(launches) > 1:
            resident, at_once = blocks_at_once(launches, target)
            make_program(function, launches, resident, min(blocks or at_once, at_once))


@dataclass(frozen=True)
class PersistProgramPass(ModulePass):
    """Makes one persistent kernel of launches that stand one behind the other.

    As many blocks run as do at once (``blocks`` says how many else).  Each takes, launch after
    launch, its share of their blocks as tasks: dealt out one by one, on from where the launch
    before ended, so that blocks that a launch leaves over begin with the next one.  Where the
    kernels wait for those before them (``sched.grid_wait``), tasks wait until all tasks of the
    launches that use the same memory are counted.  A task has the threads and the shared memory
    of the largest.  Kernels in clusters, with register budgets, custom operators or an order of
    blocks of their own stay launches, as do operators of the runtime.
    What a kernel's plan says is kept (``tasks``); what it leaves free is done, unless
    ``everywhere=false``.  Pre-condition: ``--plan-stensor-memory``; after ``--join-launches``.

    Before::

        %h = sched.launch @up %x, %w workspace [0] : ...
        %y = sched.launch @down %h, %v workspace [-1] : ...

    After::

        %h = sched.launch @up %x, %w resident 2 workspace [0] blocks 264 counters 16384 first 0 awaits [] : ...
        %y = sched.launch @down %h, %v workspace [-1] first 128 awaits [0, 128] : ...
    """  # noqa: E501 the text as it is printed

    name = "persist-program"

    arch: str = DEFAULT_TARGET
    blocks: int = 0
    everywhere: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function of the module."""
        target = target_named(self.arch)
        for function in op.walk():
            if isinstance(function, FuncOp) and not is_foreign(function):
                persist_program(function, target, self.blocks, everywhere=self.everywhere)


__all__ = ["PersistProgramPass", "awaited", "persist_program", "why_no_task"]
