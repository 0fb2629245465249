"""``--join-launches``: small kernels of the runtime that do not wait for each other share a launch.

A decode step adds one to a position for each layer, and writes two rows into caches: kernels of a
block or two, of which each takes as long as its launch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from mugraph.dialects.functions import is_foreign
from mugraph.dialects.indirect import ReadsRows
from mugraph.dialects.interfaces import HasWorkspace, SharesMemory
from mugraph.dialects.kn.overlap import CanJoin
from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.program.fuse_kernels.times import in_a_program, moved_bytes
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

MOST_JOINED = 64
"""Kernels of one launch at most: their parameters take 4 KB together."""


def is_small(op: Operation, target: Target) -> bool:
    """Choice: whether a kernel that can share a launch moves fewer bytes than a launch takes."""
    if not isinstance(op, CanJoin):
        return False
    moved = op.tensors_moved() if isinstance(op, ReadsRows) else [*op.operands, *op.results]
    return device_ns(moved_bytes(moved), target) <= in_a_program(LAUNCH_NS, target)


@dataclass
class Order:
    """The operators of a program in a new order, small kernels that are ready side by side.

    All but small kernels and views keep their order.  Views stand behind what they are views of.
    """

    small: frozenset[Operation]
    missing: dict[Operation, int] = field(default_factory=dict[Operation, int])
    """How many operators that an operator needs have no place yet."""
    ready: list[Operation] = field(default_factory=list[Operation])
    """Small kernels that could run now, in the order of the text."""
    launches: list[list[Operation]] = field(default_factory=list[list[Operation]])

    def launch(self, launch: list[Operation]) -> None:
        """Gives operators that do not need each other the next place, and views behind them."""
        self.launches.append(launch)
        for op in _users(launch):
            self.missing[op] -= len({*_needed(op)} & {*launch})
            if self.missing[op] == 0:
                self.free(op)

    def free(self, op: Operation) -> None:
        """Takes note of an operator that needs nothing more."""
        if op in self.small:
            self.ready.append(op)
        elif isinstance(op, SharesMemory):
            self.launch([op])

    def launch_ready(self) -> None:
        """Launches what is ready, as one kernel if it is not too many."""
        ready, self.ready = self.ready, []
        for start in range(0, len(ready), MOST_JOINED):
            self.launch(ready[start : start + MOST_JOINED])


def _needed(op: Operation) -> list[Operation]:
    """The operators that compute the operands of one, each once."""
    owners = dict.fromkeys(operand.owner for operand in op.operands)
    return [owner for owner in owners if isinstance(owner, Operation)]


def _users(ops: Iterable[Operation]) -> list[Operation]:
    uses = (use.operation for op in ops for result in op.results for use in result.uses)
    return list(dict.fromkeys(uses))


def in_launches(block: Block, small: frozenset[Operation]) -> list[list[Operation]]:
    """Choice: all operators of a program in launches, small kernels no earlier than one is needed.

    Where one of them is, all that are ready then are launched with it.
    """
    ops = list(block.ops)
    order = Order(small, {op: len(_needed(op)) for op in ops})
    for op in [op for op in ops if order.missing[op] == 0]:
        order.free(op)
    for op in ops:
        if op in small or isinstance(op, SharesMemory):
            continue
        while order.missing[op] or (op is ops[-1] and order.ready):
            order.launch_ready()
        order.launch([op])
    return order.launches


def join_launches(function: FuncOp, target: Target) -> None:
    """Rewrite: puts the operators of a program in order, and marks those that share a launch.

    A function that has operators of other dialects stays as it is.
    """
    blocks = function.body.blocks
    ops = [op for block in blocks for op in block.ops]
    known = all(isinstance(op, (HasWorkspace, SharesMemory, ReturnOp)) for op in ops)
    if len(blocks) != 1 or not known:
        return
    block = blocks[0]
    launches = in_launches(block, frozenset(op for op in ops if is_small(op, target)))
    if len(launches) == len(ops):
        return
    for launch in launches:
        for op in launch:
            op.detach()
            block.add_op(op)
        for op in launch[1:]:
            assert isinstance(op, CanJoin)  # as all that is small
            op.set_joined()


@dataclass(frozen=True)
class JoinLaunchesPass(ModulePass):
    """Lets small kernels of the runtime that do not wait for each other share a launch.

    Element-wise operators, gathers and scatters take no longer than their launch where they move
    less than that takes. As soon as one is needed, all such that are ready are launched with it:
    ``kn.joined`` on an operator says that it is a part of the launch in front of it. Other kernels
    keep their order. Pre-condition: ``--resolve-layout``; before ``--plan-dtensor-memory``, since
    what one launch reads and writes must not share bytes.

    Before::

        %a = kn.add %x, %y : ...
        %b = kn.customized %a ...
        %c = kn.add %z, %y : ...

    After::

        %a = kn.add %x, %y : ...
        %c = kn.add %z, %y {kn.joined} : ...
        %b = kn.customized %a ...
    """

    name = "join-launches"

    arch: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function of the module."""
        target = target_named(self.arch)
        for function in op.walk():
            if isinstance(function, FuncOp) and not is_foreign(function):
                join_launches(function, target)
