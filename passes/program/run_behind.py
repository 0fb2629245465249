"""``--run-behind``: what combines parts runs in the kernel that computes them, in clusters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mugraph.dialects import sched
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.functions import is_foreign
from mugraph.dialects.interfaces import SharesMemory
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES
from mugraph.dialects.sched.programs import is_task
from mugraph.dialects.tensor_types import (
    base_layout,
    resolved_layout_of,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.passes.program.plan_dtensor_memory import plan_dtensor_memory
from mugraph.passes.schedule.analysis.hazards.clusters import read_across_clusters
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named

RUN_ELEMENTS = 32
"""Runs of a tensor of parts have a multiple of so many elements, so that vectors are aligned."""


def between(front: Operation, behind: Operation) -> list[Operation]:
    """Analysis: the operators of a block from one to another, without these."""
    found: list[Operation] = []
    op = front.next_op
    while op is not None and op is not behind:
        found.append(op)
        op = op.next_op
    return found


def needs(value: SSAValue, op: Operation) -> bool:
    """Analysis: whether a tensor lies in the memory of a result of an operator."""
    owner = value.owner
    while isinstance(owner, SharesMemory):
        owner = owner.operands[0].owner
    return owner is op


def cluster_of(front: sched.LaunchOp, behind: sched.LaunchOp, target: Target) -> int:
    """Choice: of how many blocks clusters are in which one kernel could run behind another; or 0.

    All run at once, and the last axis of the grid counts the blocks of a cluster.
    """
    writer, reader = front.resolve(), behind.resolve()
    count = math.prod(writer.grid_dim)
    alike = front.joins() is not None and front.joins() == behind.joins()
    plain = alike and not (writer.placed_rows or reader.placed_rows or writer.packed)
    planned = writer.smem_bytes is not None and reader.smem_bytes is not None
    small = count <= target.multiprocessors and reader.threads <= writer.threads
    if not (plain and planned and small) or is_task(front) or is_task(behind):
        return 0
    size = [extent for extent in writer.grid_dim if extent > 1][-1:]
    whole = size and count == size[0] * math.prod(reader.grid_dim)
    return size[0] if whole and target.blocks_per_cluster % size[0] == 0 else 0


def runs_of(argument: BlockArgument, tile: sched.LocalTileOp) -> Layout | None:
    """Choice: how a tensor of parts lies where what each cluster writes is one run of it.

    ``None`` where blocks cut a dimension along which their tiles are longer than one.
    """
    shape, own = shape_of(argument.type), strides_of(resolved_layout_of(argument))
    axes = [dim for dim in tile.map_ if dim >= 0]
    outer = axes[:-1]
    if any(shape_of(tile.result.type)[dim] != 1 for dim in outer):
        return None
    strides, reached = list(own), 1
    for dim in sorted(set(range(len(shape))) - set(outer), key=lambda dim: own[dim]):
        keeps = reached <= own[dim] < 2 * reached
        strides[dim] = own[dim] if keeps else reached
        reached = strides[dim] * shape[dim]
    reached = -(-reached // RUN_ELEMENTS) * RUN_ELEMENTS
    for dim in outer:
        strides[dim] = reached
        reached *= shape[dim]
    return Layout(tuple(shape), tuple(strides))


@dataclass(frozen=True)
class Pair:
    """Kernels of which one runs behind the other in all of its launches."""

    launches: list[tuple[sched.LaunchOp, sched.LaunchOp]]
    size: int


def launched_alone(function: FuncOp, target: Target) -> Iterator[tuple[sched.LaunchOp, ...]]:
    """Analysis: launches of one kernel each, of which one may run behind the other."""
    front: sched.LaunchOp | None = None
    for launch in launches_of(op for op in function.body.block.ops if not is_view(op)):
        op = launch[0]
        alone = isinstance(op, sched.LaunchOp) and len(launch) == 1
        if front is not None and isinstance(op, sched.LaunchOp) and alone:
            reads = any(operand.owner is front for operand in op.arguments)
            views = any(each.owner is not front and needs(each, front) for each in op.arguments)
            if reads and not views and cluster_of(front, op, target):
                yield front, op
                front = None
                continue
        front = op if isinstance(op, sched.LaunchOp) and alone else None


def is_view(op: Operation) -> bool:
    """Analysis: whether an operator only sees a tensor otherwise."""
    return isinstance(op, SharesMemory)


def pairs_of(module: ModuleOp, target: Target) -> Iterator[Pair]:
    """Choice: kernels to run behind others, in programs of which some kernel brings weights."""
    found: dict[tuple[sched.KernelOp, ...], list[tuple[sched.LaunchOp, sched.LaunchOp]]] = {}
    launches: Counter[sched.KernelOp] = Counter()
    for function in module.walk():
        if not isinstance(function, FuncOp) or is_foreign(function):
            continue
        own = [op for op in function.walk() if isinstance(op, sched.LaunchOp)]
        launches.update(op.resolve() for op in own)
        weights = any(op.resolve().constant_inputs for op in own)
        if weights and len(function.body.blocks) == 1:
            for front, behind in launched_alone(function, target):
                found.setdefault((front.resolve(), behind.resolve()), []).append((front, behind))
    for kernels, several in found.items():
        if all(launches[kernel] == len(several) for kernel in kernels):
            yield Pair(several, cluster_of(*several[0], target))


class Placed(NamedTuple):
    """A parameter of a kernel, and how it is to lie."""

    kernel: sched.KernelOp
    parameter: int
    layout: Layout

    def lay(self) -> Placed:
        """Rewrite: lays the tensor, and tiles of it, so; returns how it lay."""
        value = self.kernel.body.block.args[self.parameter]
        before = base_layout(resolved_layout_of(value))
        for use in list(value.uses):
            if isinstance(tile := use.operation, sched.LocalTileOp):
                own = Layout(tuple(shape_of(tile.result.type)), self.layout.stride)
                Rewriter.replace_value_with_new_type(
                    tile.result, with_layout(tile.result.type, own)
                )
        Rewriter.replace_value_with_new_type(value, with_layout(value.type, self.layout))
        return Placed(self.kernel, self.parameter, before)


def lay_in_runs(front: sched.LaunchOp, behind: sched.LaunchOp) -> list[Placed]:
    """Choice: how the tensors lie that go from one kernel to the other; empty if they cannot."""
    placed: list[Placed] = []
    writer, reader = front.resolve(), behind.resolve()
    for index, argument in enumerate(behind.arguments):
        if argument.owner is not front:
            continue
        output = writer.input_count + front.outputs.index(argument)
        made = writer.body.block.args[output]
        tiles = [use.operation for use in made.uses]
        tile = tiles[0] if len(tiles) == 1 else None
        layout = runs_of(made, tile) if isinstance(tile, sched.LocalTileOp) else None
        if layout is None:
            return []
        placed += [Placed(writer, output, layout), Placed(reader, index, layout)]
    return placed


def load_at_once(behind: sched.LaunchOp) -> None:
    """Rewrite: lets threads load what comes in shared memory; asynchronous copies cannot."""
    for index, argument in enumerate(behind.arguments):
        if argument.owner is not behind.prev_op:
            continue
        for use in behind.resolve().body.block.args[index].uses:
            for read in use.operation.results[0].uses:
                if isinstance(read.operation, sched.CopyOp):
                    read.operation.asynchronous = None


def run_behind(pair: Pair) -> None:
    """Rewrite: lets the blocks of one kernel run another one behind theirs."""
    for front, behind in pair.launches:
        block = front.parent
        assert block is not None
        for op in between(front, behind):
            if not any(needs(operand, front) for operand in op.operands):
                op.detach()
                block.insert_op_before(op, front)
        behind.detach()
        block.insert_op_after(behind, front)
        behind.set_joined()
        behind.cluster = IntegerAttr(pair.size, i64)
        load_at_once(behind)
        outputs = front.resolve().body.block.args[front.resolve().input_count :]
        for value, parameter in zip(front.outputs, outputs, strict=True):
            layout = resolved_layout_of(parameter)
            Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))


@dataclass(frozen=True)
class RunBehindPass(ModulePass):
    """Lets the blocks that compute parts of sums hand them over to one that combines them.

    A kernel runs behind the one in front of it where it has a block for each of the tiles of which
    that one computes parts, no more threads, and nothing else reads the parts.  The blocks that
    compute the parts of one tile are a cluster, as ``cluster`` on the launch says; they write them
    to shared memory of the first one, which runs a block of the kernel behind.  The tensors lie so
    that all parts of a tile are one run.  This is for programs with weights, and for kernels whose
    blocks all run at once.  The blocks of a cluster divide as many as all devices of the target
    allow.  The workspace is planned anew.  Pre-condition: ``--join-launches``.

    Before::

        %p = sched.launch @f_custom0 %q, %k : ...
        %o = sched.launch @f_custom1 %p : ...

    After::

        %p = sched.launch @f_custom0 %q, %k : ...
        %o = sched.launch @f_custom1 %p cluster 8 {kn.joined} : ...
    """

    name = "run-behind"

    arch: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrites every function of the module."""
        target = target_named(self.arch)
        if target.blocks_per_cluster < 2:
            return
        functions: dict[Operation | None, None] = {}
        for pair in list(pairs_of(op, target)):
            placed = lay_in_runs(*pair.launches[0])
            before = [each.lay() for each in placed]
            fit = [read_across_clusters(*each, pair.size) is None for each in pair.launches]
            if not placed or not all(fit):
                for each in before:
                    each.lay()
                continue
            run_behind(pair)
            functions.update((front.parent_op(), None) for front, _ in pair.launches)
        for function in functions:
            if isinstance(function, FuncOp) and WORKSPACE_BYTES in function.attributes:
                plan_dtensor_memory(function)
