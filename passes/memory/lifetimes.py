"""When the buffers of a scheduled kernel, and the DTensors of a function, are alive.

In a kernel time is counted in *regions*: what lies between two barriers, in the order of the text.
Threads pass through a region at their own pace, so two buffers that are both used in one region,
even one after the other, must not share bytes; bytes are free again after the next barrier that all
readers pass.  Source: figure "tensor-lifecycle" of Mirage's document "The CUDA Transpiler", with
the safe model of freed bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.interfaces import HasBufferEffects, HasWorkspace, SharesMemory, touched_by
from mugraph.dialects.kn.overlap import launches_of
from mugraph.dialects.kn.workspace import returned_root
from mugraph.dialects.sched.structure import enclosing_loop, runs_once


class Lifetime(NamedTuple):
    """A buffer is alive from region ``first`` to region ``last``, both included."""

    first: int
    last: int

    def overlaps(self, other: Lifetime) -> bool:
        """Whether the two buffers must not share bytes."""
        return self.first <= other.last and other.first <= self.last


class _Access(NamedTuple):
    region: int
    in_loop: bool
    reads: bool
    writes_whole: bool


def ordered_operations(kernel: sched.KernelOp) -> Iterator[tuple[Operation, bool]]:
    """Every operator in the order of the text, and whether it is in the loop.

    Those of elected roles are left out: they pass no barrier.
    """
    for op in kernel.body.walk():
        role = sched.enclosing_role(op)
        if role is not None and role.is_elected:
            continue
        yield op, enclosing_loop(op) is not None


def buffer_lifetimes(kernel: sched.KernelOp) -> dict[sched.AllocOp, Lifetime]:
    """The lifetime of every shared buffer of a kernel; never-used buffers have none.

    A buffer that each iteration writes before it reads, and that nothing outside the loop touches,
    lives from its first to its last use inside an iteration, unless that is before the loop's first
    barrier: that region runs on from the last one of the iteration before.  Any other buffer that
    a loop of several iterations touches lives for the whole loop.  What a bulk copy reads lives
    until the copy has been waited for.  The buffers of channels live from the start of the kernel
    on; where several roles compute, side by side, all live to its end.
    """
    accesses: dict[sched.AllocOp, list[_Access]] = {}
    region = 0
    loop_regions: list[int] = []
    # What bulk copies may still be reading, and whether a loop started them.
    leaving: dict[sched.AllocOp, bool] = {}
    for op, in_loop in ordered_operations(kernel):
        if in_loop:
            loop_regions.append(region)
        if isinstance(op, sched.BarrierOp):
            region += 1
        if in_loop:
            loop_regions.append(region)
        if isinstance(op, HasBufferEffects):
            for value in touched_by(op):
                if isinstance(value.owner, sched.AllocOp):
                    access = _access(op, value, region, in_loop)
                    accesses.setdefault(value.owner, []).append(access)
        if isinstance(op, sched.BulkCopyOp) and isinstance(op.source.owner, sched.AllocOp):
            leaving[op.source.owner] = in_loop
        elif isinstance(op, sched.BulkWaitOp):
            _leave(leaving, region, accesses)
    _leave(leaving, region, accesses)
    whole_loop = Lifetime(min(loop_regions), max(loop_regions)) if loop_regions else None
    if runs_once(kernel):
        whole_loop = None
    whole_kernel = Lifetime(0, region)
    if sum(not role.is_elected for role in sched.roles_of(kernel)) > 1:
        return dict.fromkeys(accesses, whole_kernel)
    lifetimes = {buffer: _lifetime(uses, whole_loop) for buffer, uses in accesses.items()}
    # What bulk copies bring may come at once, and no more comes once all of it has been read.
    # Of a persistent block, those of the next work tile come meanwhile.
    goes_on = kernel.persistent_blocks is not None
    filled = {
        buffer: Lifetime(0, lifetimes[buffer].last)
        if buffer in lifetimes and not goes_on
        else whole_kernel
        for buffer in channel_buffers(kernel)
    }
    return {**lifetimes, **filled}


def _leave(
    leaving: dict[sched.AllocOp, bool], region: int, accesses: dict[sched.AllocOp, list[_Access]]
) -> None:
    """Bulk copies have read their buffers once they have been waited for."""
    for buffer, in_loop in leaving.items():
        accesses[buffer].append(_Access(region, in_loop, reads=True, writes_whole=False))
    leaving.clear()


def channel_buffers(kernel: sched.KernelOp) -> list[sched.AllocOp]:
    """The buffers that bulk copies fill, from the start of the kernel on."""
    channels = [op for op in kernel.body.block.ops if isinstance(op, sched.ChannelOp)]
    return [
        value.owner
        for channel in channels
        for value in channel.buffers
        if isinstance(value.owner, sched.AllocOp)
    ]


def _access(op: HasBufferEffects, value: SSAValue, region: int, in_loop: bool) -> _Access:
    reads = value in op.buffers_read()
    runs_ahead = isinstance(op, sched.CopyOp) and op.ahead_of > 0
    writes_whole = value in op.buffers_written() and not reads and not runs_ahead
    return _Access(region, in_loop, reads, writes_whole)


def _lifetime(uses: list[_Access], whole_loop: Lifetime | None) -> Lifetime:
    first = min(use.region for use in uses)
    last = max(use.region for use in uses)
    looped = [use for use in uses if use.in_loop]
    if whole_loop is None or not looped:
        return Lifetime(first, last)
    within_iteration = len(looped) == len(uses) and looped[0].writes_whole
    if within_iteration and first > whole_loop.first:
        return Lifetime(first, last)
    return Lifetime(min(first, whole_loop.first), max(last, whole_loop.last))


def workspace_values(function: FuncOp) -> list[SSAValue]:
    """The results of kernels that lie in no result of the function, in order."""
    returned = {
        returned_root(operand)
        for op in function.walk()
        if isinstance(op, ReturnOp)
        for operand in op.operands
    }
    return [
        result
        for op in function.walk()
        if isinstance(op, HasWorkspace)
        for result in op.results
        if result not in returned
    ]


def tensor_lifetimes(function: FuncOp, values: Sequence[SSAValue]) -> list[Lifetime]:
    """From the operator that computes a tensor to the last one that reads it, both included.

    Launches of a function run one after the other, so that the tensors of one are free for what the
    next one writes.  Operators that share a launch use theirs at the same time.
    """
    launches = launches_of(function.walk())
    position = {op: index for index, launch in enumerate(launches) for op in launch}
    lifetimes: list[Lifetime] = []
    for value in values:
        born = position[value.owner] if isinstance(value.owner, Operation) else 0
        readers = (position[use.operation] for seen in views_of(value) for use in seen.uses)
        lifetimes.append(Lifetime(born, max([born, *readers])))
    return lifetimes


def views_of(value: SSAValue) -> list[SSAValue]:
    """The values that lie in the memory of a DTensor, itself first."""
    found = [value]
    for seen in found:
        for use in seen.uses:
            op = use.operation
            if isinstance(op, SharesMemory):
                found += [result for result in op.results if op.memory_of(result) is seen]
    return found
