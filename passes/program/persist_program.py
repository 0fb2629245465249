"""``--persist-program``: kernels that come one after the other become one, of tasks and counters.

A decode step launches kernels of a few microseconds each, between which device memory is idle.
Here as many blocks as run at once take the blocks of all these kernels as tasks, in an order that
is fixed when they are compiled.  What a task loads before it waits, its constant weights, is on its
way while others finish what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects import sched
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn import ScatterOp
from mugraph.dialects.kn.overlap import CanJoin, RuntimePart
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES, memory_root
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.launch import COUNTER_BYTES
from mugraph.dialects.sched.mbarriers import KeepsMbarriers
from mugraph.dialects.sched.programs import Blocks, Task, is_task, threads_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.each import FunctionPass, TargetPass
from mugraph.passes.program.fuse_kernels.times import in_a_program
from mugraph.passes.program.join_launches import Room, heights_of
from mugraph.passes.program.plan_dtensor_memory import ALIGNMENT
from mugraph.passes.schedule.analysis.hazards.tasks import conflicts_of
from mugraph.passes.schedule.plan_stensor_memory import registers_wanted
from mugraph.passes.schedule.programmatic_launch import drop_implied_waits
from mugraph.passes.targets import Target

PARAMETER_BYTES = 32_764
"""What the parameters of a kernel take at most, from sm_70 and CUDA 12.1 on."""
POINTER_BYTES, MAP_BYTES = 8, 128
START_NS = 4000.0
"""Counters are set to zero, and all blocks of a persistent kernel start at once; no script fits it.
"""
STEP_NS = 2500.0
"""What an operator takes besides its own work that waits for another one, where a launch takes
what :func:`in_a_program` leaves of it.

Three layers of a decode step of Llama-3.2-1B, 36 launches one behind the other, take 289 µs, and
369 as one persistent kernel (``benchmarks/results/persistent_h200.md``).
"""


def why_no_task(kernel: sched.KernelOp) -> str | None:
    """Analysis: why blocks of a kernel cannot be tasks of a persistent one; else ``None``."""
    if kernel.smem_bytes is None:
        return "its shared memory is not planned; run --plan-stensor-memory first"
    if kernel.cluster is not None:
        return "its blocks run in clusters"
    if kernel.persistent is not None or kernel.descending is not None or kernel.cuts:
        return "it says itself which blocks run, and in which order"
    if kernel.block_dim[1:] != (1, 1) or kernel.threads % WARP:
        return "its threads do not lie along x in whole warps"
    if kernel.placed_rows:
        return "it stores rows of tables"
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


def is_wanted(kernel: sched.KernelOp, *, everywhere: bool) -> bool:
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


def operand_bytes(op: CanJoin) -> int:
    """Analysis: what the operands of an operator take at most among parameters."""
    if not isinstance(op, sched.LaunchOp):
        return POINTER_BYTES * (len(op.operands) + len(op.results) + 1)
    kernel = op.resolve()
    maps = {
        (copy.tensor.index, copy.bulk_tile().box)
        for copy in kernel.walk()
        if isinstance(copy, sched.BulkCopyOp) and isinstance(copy.tensor, BlockArgument)
    }
    # Maps, and what stands before them, begin at multiples of their alignment.
    pointers = POINTER_BYTES * len(kernel.body.block.args)
    return MAP_BYTES * (len(maps) + 1 if maps else 0) + pointers


@dataclass(frozen=True)
class Runs:
    """Analysis: which operators of a function can be one persistent kernel."""

    target: Target
    everywhere: bool

    def fits(self, op: Operation) -> bool:
        """Whether blocks of an operator are to be tasks."""
        if isinstance(op, sched.LaunchOp):
            return is_wanted(op.resolve(), everywhere=self.everywhere)
        if not isinstance(op, RuntimePart) or not Room(self.target).is_small(op):
            return False
        if not isinstance(op, ScatterOp):
            return True
        # A table that is not written in place is copied before the persistent kernel.
        return not op.is_stored and isinstance(memory_root(op.table), BlockArgument)

    def of(self, function: FuncOp) -> Iterator[list[CanJoin]]:
        """Operators one behind the other, views aside, of which two at least are launches."""
        run: list[CanJoin] = []
        size = 0
        for op in function.body.block.ops:
            if isinstance(op, SharesMemory):
                continue
            fits = isinstance(op, CanJoin) and self.fits(op)
            if isinstance(op, CanJoin) and fits and size + operand_bytes(op) <= PARAMETER_BYTES:
                run.append(op)
                size += operand_bytes(op)
                continue
            yield from _with_several_launches(run)
            run = [op] if isinstance(op, CanJoin) and fits else []
            size = sum(map(operand_bytes, run))
        yield from _with_several_launches(run)


def _with_several_launches(run: list[CanJoin]) -> Iterator[list[CanJoin]]:
    if sum(isinstance(op, sched.LaunchOp) for op in run) > 1:
        yield run


def awaited(ops: Sequence[Operation]) -> list[list[int]]:
    """Choice: which operators the tasks of each one wait for, all tasks of these.

    Those that it conflicts with, but for those that others of them have waited for.
    """
    needed: list[set[int]] = [set() for _ in ops]
    for conflict in conflicts_of(ops):
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


def blocks_at_once(ops: Sequence[CanJoin], target: Target) -> Blocks:
    """Choice: how many blocks run, and how many of them share a multiprocessor.

    The fewest that have the tasks of each operator in as few turns as the most can: each block that
    waits takes some time from those that work.  So many fit by their memory and threads, and by the
    registers of kernels that keep the device busy: where few blocks compute something, registers
    may spill.
    """
    launches = [op for op in ops if isinstance(op, sched.LaunchOp)]
    counts = [op.task_count() for op in ops]
    busy = min(max(op.task_count() for op in launches), target.multiprocessors * 3 // 4)
    most = target.resident_blocks(
        max(counts),
        threads_of(ops),
        max(launch.resolve().smem_bytes or 0 for launch in launches),
        max(registers_wanted(op.resolve()) for op in launches if op.task_count() >= busy),
    )

    def turns(resident: int) -> int:
        return sum(-(-count // (resident * target.multiprocessors)) for count in counts)

    resident = min(range(1, most + 1), key=turns)
    blocks = min(resident * target.multiprocessors, sum(counts))
    return Blocks(blocks, resident, counters=0)


def is_faster(ops: Sequence[CanJoin], target: Target) -> bool:
    """Choice: whether a persistent kernel is estimated to lose less time than launches do.

    Launches lose it one after the other; of a persistent kernel the longest chain of operators that
    need each other does, as all that does not wait runs meanwhile.
    """
    block = ops[0].parent
    assert block is not None  # as operators of a function
    of_all = heights_of(list(block.ops))
    heights = [of_all[op] for op in ops]
    chain = max(heights) - min(heights) + 1
    launches = sum(not op.is_joined for op in ops)
    return START_NS + STEP_NS * chain < launches * in_a_program(LAUNCH_NS, target)


def make_program(function: FuncOp, ops: Sequence[CanJoin], blocks: Blocks) -> None:
    """Rewrite: makes operators one persistent kernel, with counters behind the workspace."""
    needed = function.attributes[WORKSPACE_BYTES]
    assert isinstance(needed, IntegerAttr)  # as planned
    counters = -(-needed.value.data // ALIGNMENT) * ALIGNMENT
    function.attributes[WORKSPACE_BYTES] = IntegerAttr(counters + COUNTER_BYTES * len(ops), i64)
    blocks._replace(counters=counters).set(ops[0])
    first = 0
    for op, waits in zip(ops, awaited(ops), strict=True):
        op.leave_launch()
        if isinstance(op, sched.LaunchOp):
            op.resident = None
            drop_implied_waits(op.resolve())
        Task(first, [(each, ops[each].task_count()) for each in waits]).set(op)
        first = (first + op.task_count()) % blocks.blocks


def persist_program(
    function: FuncOp, target: Target, blocks: int = 0, *, everywhere: bool = True
) -> None:
    """Rewrite: makes persistent kernels of operators of a function that can be tasks of one.

    ``blocks`` says how many run; 0 for as many as do at once.  Not ``everywhere``: of kernels whose
    plans say so, or, where none says anything, where that is estimated to be faster.
    """
    if len(function.body.blocks) != 1 or WORKSPACE_BYTES not in function.attributes:
        return
    launches = [op for op in function.walk() if isinstance(op, sched.LaunchOp)]
    combine = not all(op.has_blocks for op in launches)
    if combine or any(map(is_task, function.walk())):
        return
    kernels = {op.resolve() for op in launches}
    by_cost = not everywhere and all(kernel.decided.tasks is None for kernel in kernels)
    for ops in list(Runs(target, everywhere or by_cost).of(function)):
        if by_cost and not is_faster(ops, target):
            continue
        found = blocks_at_once(ops, target)
        make_program(
            function, ops, found._replace(blocks=min(blocks or found.blocks, found.blocks))
        )


@dataclass(frozen=True)
class PersistProgramPass(TargetPass, FunctionPass):
    """Makes one persistent kernel of consecutive operators.

    As many blocks run as fit at once (or ``blocks``). Operator after operator, each block takes its
    share of the operator's blocks as tasks. Tasks are dealt out in turn, continuing where the
    operator before ended, so idle blocks begin the next operator. Where a kernel waits for those
    before it (``sched.grid_wait``), a task waits until all tasks of the operators that use the same
    memory are counted. A block has the threads and the shared memory of the largest task.
    Kernels in clusters, with register budgets, custom operators or an order of blocks of their own
    stay launches, and so do all of a program with launches in clusters or last blocks; of operators
    of the runtime those can be tasks that can share a launch.
    A kernel's plan (``tasks``) decides. If it is free, the kernel becomes tasks; with
    ``everywhere=false`` only if the estimate says that separate launches lose more time than the
    longest chain of dependent tasks.
    Pre-condition: ``--plan-stensor-memory``; after ``--join-launches``.

    Before::

        %h = sched.launch @up %x, %w workspace [0] : ...
        %y = sched.launch @down %h, %v workspace [-1] : ...

    After::

        %h = sched.launch @up %x, %w workspace [0]
            {kn.program = {blocks = 132, resident = 1, counters = 16384}, kn.task = {first = 0, awaits = array<i64>}} : ...
        %y = sched.launch @down %h, %v workspace [-1]
            {kn.task = {first = 128, awaits = array<i64: 0, 128>}} : ...
    """  # noqa: E501 the text as it is printed

    name = "persist-program"

    blocks: int = 0
    everywhere: bool = True

    def run(self, function: FuncOp) -> None:
        """Rewrites a µGraph."""
        persist_program(function, self.target, self.blocks, everywhere=self.everywhere)
