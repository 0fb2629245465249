"""``--join-launches``: kernels that do not wait for each other and leave room share a launch.

A decode step adds one to a position for each layer, writes two rows into caches, and multiplies by
small matrices side by side: kernels of which each takes little longer than its launch.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation

from mugraph.dialects import sched
from mugraph.dialects.indirect import ReadsRows
from mugraph.dialects.interfaces import HasWorkspace, SharesMemory
from mugraph.dialects.kn.overlap import CanJoin, RuntimePart
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES
from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.each import FunctionPass, TargetPass
from mugraph.passes.program.fuse_kernels.times import in_a_program, moved_bytes
from mugraph.passes.program.plan_dtensor_memory import plan_dtensor_memory
from mugraph.passes.schedule.plan_stensor_memory import registers_wanted
from mugraph.passes.targets import Target

MOST_JOINED = 64
"""Kernels of one launch at most: their parameters take 4 KB together."""


@dataclass
class Room:
    """Choice: which operators can be, and gain as, one launch on a target."""

    target: Target
    registers: dict[sched.KernelOp, int] = field(default_factory=dict[sched.KernelOp, int])
    """What a thread of each kernel wants, of those that were asked for."""

    def is_small(self, op: RuntimePart) -> bool:
        """Whether a kernel of the runtime moves fewer bytes than a launch takes time for."""
        moved = op.tensors_moved() if isinstance(op, ReadsRows) else [*op.operands, *op.results]
        launch = in_a_program(LAUNCH_NS, self.target)
        return device_ns(moved_bytes(moved), self.target) <= launch

    def resident(self, launches: Sequence[sched.LaunchOp]) -> int | None:
        """How many blocks of some kernels share a multiprocessor; ``None`` if that takes too long.

        A block of any has the threads, the shared memory and the registers of the one that needs
        most.  They may run in as many waves as there are kernels, each of which is one by itself.
        """
        kernels = [launch.resolve() for launch in launches]
        for kernel in kernels:
            if kernel not in self.registers:
                self.registers[kernel] = registers_wanted(kernel)
        memory = max(kernel.smem_bytes or 0 for kernel in kernels)
        registers = max(self.registers[kernel] for kernel in kernels)
        threads = max(kernel.threads for kernel in kernels)
        blocks = sum(math.prod(kernel.grid_dim) for kernel in kernels)
        found = self.target.resident_blocks(blocks, threads, memory, registers)
        return found if blocks <= len(kernels) * found * self.target.multiprocessors else None

    def has(self, ops: Sequence[Operation]) -> bool:
        """Whether operators of a kind can be one launch."""
        if len(ops) > MOST_JOINED:
            return False
        launches = [op for op in ops if isinstance(op, sched.LaunchOp)]
        if launches:
            planned = all(launch.resolve().smem_bytes is not None for launch in launches)
            return planned and self.resident(launches) is not None
        return all(isinstance(op, RuntimePart) and self.is_small(op) for op in ops)


@dataclass
class Order:
    """The operators of a program in a new order, those that can share a launch side by side.

    All but these and views keep their order.  Views stand behind what they are views of.
    """

    kinds: Mapping[Operation, Hashable]
    """What can share a launch, and with what."""
    room: Room
    heights: Mapping[Operation, int]
    """The operators of the longest chain from one to what needs it."""
    missing: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """How many operators that an operator needs have no place yet, of those without one."""
    ready: list[Operation] = field(default_factory=list[Operation])
    """Those that can share a launch and could run now."""
    launches: list[list[Operation]] = field(default_factory=list[list[Operation]])

    def launch(self, launch: list[Operation]) -> None:
        """Gives operators that do not need each other the next place, and views behind them."""
        self.launches.append(launch)
        for op in launch:
            del self.missing[op]
        for op in _users(launch):
            self.missing[op] -= len({*_needed(op)} & {*launch})
            if self.missing[op] == 0:
                self.free(op)

    def free(self, op: Operation) -> None:
        """Takes note of an operator that needs nothing more."""
        if op in self.kinds:
            self.ready.append(op)
        elif isinstance(op, SharesMemory):
            self.launch([op])

    def launch_kinds_of(self, needed: Sequence[Operation]) -> None:
        """Launches all that is ready of some operators' kinds, as much together as fits."""
        kinds = {self.kinds[op] for op in needed}
        batches: list[list[Operation]] = []
        last: dict[Hashable, list[Operation]] = {}
        for op in [op for op in self.ready if self.kinds[op] in kinds]:
            self.ready.remove(op)
            batch = last.get(self.kinds[op])
            if batch is not None and self.room.has([*batch, op]):
                batch.append(op)
            else:
                last[self.kinds[op]] = batch = [op]
                batches.append(batch)
        for batch in batches:
            self.launch(batch)

    def launch_unused(self) -> None:
        """Launches what nothing needs."""
        while self.ready:
            self.launch_kinds_of(self.ready[:1])

    def launch_for(self, op: Operation) -> None:
        """Launches what an operator waits for: of what is ready the start of the longest chain."""
        waiting = {op}
        stack = [op]
        while stack:
            more = [each for each in _needed(stack.pop()) if self.missing.get(each) is not None]
            stack += [each for each in more if each not in waiting]
            waiting.update(more)
        while self.missing[op]:
            needed = [each for each in self.ready if each in waiting]
            longest = max(self.heights[each] for each in needed)
            self.launch_kinds_of([each for each in needed if self.heights[each] == longest])


def _needed(op: Operation) -> list[Operation]:
    """The operators that compute the operands of one, each once."""
    owners = dict.fromkeys(operand.owner for operand in op.operands)
    return [owner for owner in owners if isinstance(owner, Operation)]


def _users(ops: Iterable[Operation]) -> list[Operation]:
    uses = (use.operation for op in ops for result in op.results for use in result.uses)
    return list(dict.fromkeys(uses))


def heights_of(ops: Sequence[Operation]) -> dict[Operation, int]:
    """Analysis: how many operators of a program the longest chain from each one has."""
    heights: dict[Operation, int] = {}
    for op in reversed(ops):
        above = max((heights[user] for user in _users([op])), default=0)
        heights[op] = above + (not isinstance(op, SharesMemory))
    return heights


def in_launches(block: Block, order: Order) -> list[list[Operation]]:
    """Choice: all operators of a program in launches, which are shared as the order says.

    As soon as one that can share a launch is needed, all of its kind that are ready then are
    launched.
    """
    ops = list(block.ops)
    order.missing.update((op, len(_needed(op))) for op in ops)
    for op in [op for op in ops if order.missing[op] == 0]:
        order.free(op)
    for op in ops:
        if op in order.kinds or isinstance(op, SharesMemory):
            continue
        order.launch_for(op)
        if op is ops[-1]:
            order.launch_unused()
        order.launch([op])
    return order.launches


def kinds_of(ops: Iterable[Operation], room: Room) -> dict[Operation, Hashable]:
    """Analysis: the operators that can share a launch, and what those of one launch have alike."""
    kinds = {op: op.joins() for op in ops if isinstance(op, CanJoin)}
    return {op: kind for op, kind in kinds.items() if kind and room.has([op])}


def join_launches(function: FuncOp, target: Target) -> None:
    """Rewrite: puts the operators of a program in order, and marks those that share a launch.

    The workspace is planned anew.  A function that has operators of other dialects stays as it is.
    """
    blocks = function.body.blocks
    ops = [op for block in blocks for op in block.ops]
    known = all(isinstance(op, (HasWorkspace, SharesMemory, ReturnOp)) for op in ops)
    if len(blocks) != 1 or not known:
        return
    block = blocks[0]
    room = Room(target)
    order = Order(kinds_of(ops, room), room, heights_of(ops))
    launches = in_launches(block, order)
    if len(launches) == len(ops):
        return
    for launch in launches:
        for op in launch:
            op.detach()
            block.add_op(op)
        for op in launch[1:]:
            assert isinstance(op, CanJoin)  # as all that has a kind
            op.set_joined()
        of_kernels = [op for op in launch if isinstance(op, sched.LaunchOp)]
        resident = room.resident(of_kernels) if len(of_kernels) > 1 else None
        if resident is not None:
            of_kernels[0].resident = IntegerAttr(resident, i64)
    if WORKSPACE_BYTES in function.attributes:
        plan_dtensor_memory(function)


class JoinLaunchesPass(TargetPass, FunctionPass):
    """Lets independent kernels share a launch, where there is room for both.

    Element-wise operators, gathers and scatters of the runtime are joined if they move so little
    that a launch takes longer. Scheduled kernels are joined if they have no roles and need no more
    waves together than apart, as small products do; threads that a block does not need end at once.
    As soon as
    one is needed, all of its kind that are ready are launched with it: ``kn.joined`` on an operator
    says that it is a part of the launch in front of it.  Other kernels keep their order.  The
    workspace is planned anew, as what one launch reads and writes must not share bytes.
    Pre-condition: ``--plan-stensor-memory``, which says how large blocks are.

    Before::

        %a = kn.add %x, %y : ...
        %b = sched.launch @f_custom0 %a : ...
        %c = kn.add %z, %y : ...

    After::

        %a = kn.add %x, %y : ...
        %c = kn.add %z, %y {kn.joined} : ...
        %b = sched.launch @f_custom0 %a : ...
    """

    name = "join-launches"

    def run(self, function: FuncOp) -> None:
        """Joins launches of a µGraph."""
        join_launches(function, self.target)
