"""``--lower-rings``: what fills a ring and what reads it become four steps on its mbarriers.

Up to here ``sched.produce`` fills a stage, and ``sched.consume`` waits for it.  Who waits for
whom follows from these: a stage may be filled again once its last reader is done with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.sched.channel import channel_of
from mugraph.dialects.sched.kernel import enclosing_kernel
from mugraph.dialects.sched.role import roles_of
from mugraph.passes.each import KernelPass


@dataclass(frozen=True)
class Release:
    """A release, and the operator behind which nobody reads its stage any more.

    ``has_loads``: threads load from the stage, too, not only products of warp groups.
    """

    step: sched.ReleaseOp
    op: Operation
    has_loads: bool

    @property
    def is_fenced(self) -> bool:
        """Whether loads may only have been issued: those of the same iteration."""
        return self.has_loads and not self.step.ahead_of


def is_lowered(kernel: sched.KernelOp) -> bool:
    """Whether no ring of a kernel is still filled by ``sched.produce``."""
    return not any(isinstance(op, sched.ProduceOp) for op in kernel.walk())


def with_lowered_rings(kernel: sched.KernelOp) -> sched.KernelOp:
    """The kernel, or where its rings are not lowered yet a copy in which they are."""
    if is_lowered(kernel):
        return kernel
    copy = kernel.clone()
    lower_rings(copy)
    return copy


def lower_rings(kernel: sched.KernelOp) -> None:
    """Rewrite: steps on mbarriers in place of every ``sched.produce``, and for what it fills."""
    fills = [op for op in kernel.walk() if isinstance(op, sched.ProduceOp)]
    filled = {op.channel for op in fills}
    for role in roles_of(kernel):
        for loop in role.phases:
            if isinstance(loop, sched.ForloopOp):
                releases = [each for each in releases_in(loop) if each.step.channel in filled]
                insert_releases(releases)
                if kernel.persistent_blocks is not None:
                    insert_releases(releases_behind(loop, releases))
    for fill in fills:
        lower_fill(fill)


def reads_of(op: Operation) -> Iterator[tuple[SSAValue, int]]:
    """What an operator reads, each of how many iterations before.

    A wait stands for the products that it waits for, which read until then.
    """
    if isinstance(op, sched.WarpgroupWaitOp):
        for product in op.finished():
            for value in product.op.in_memory.values():
                yield value, product.behind - product.op.ahead_of
        return
    behind = -op.ahead_of if isinstance(op, sched.WarpgroupMmaOp) else 0
    yield from ((value, behind) for value in op.operands)


def releases_in(loop: sched.ForloopOp) -> Iterator[Release]:
    """Choice: where to release what each channel brings to a loop, in the order of its waits.

    Products of warp groups have read their operands when they are finished.  A load that is only
    issued may still read when the next bulk copy writes, as the two take different ways to memory.
    In the next iteration its value has been used, so that a stage is kept until then where there
    is another one, unless products keep it to the end of the iteration anyway.  Where warp groups
    convert what they multiply, tiles come slower than they are used: stages are free at once.
    """
    ops = list(loop.body.block.ops)
    converts = any(isinstance(op, sched.WarpgroupMmaOp) and op.through is not None for op in ops)
    consumed = {op.channel: op for op in ops if isinstance(op, sched.ConsumeOp)}
    for value, consume in consumed.items():
        channel = channel_of(consume, value)
        uses = [
            (behind, place)
            for place, op in enumerate(ops)
            for read, behind in reads_of(op)
            if read in channel.buffers
        ]
        behind, place = max(uses, default=(0, ops.index(consume)))
        readers = [ops[place] for _, place in uses]
        has_loads = any_loads(readers, channel)
        has_waits = any(isinstance(op, sched.WarpgroupWaitOp) for op in readers)
        if has_loads and not has_waits and not converts and channel.stage_count > 1:
            behind, place = 1, ops.index(consume)
        yield Release(sched.ReleaseOp(value, -behind), ops[place], has_loads)


def any_loads(readers: Sequence[Operation], channel: sched.ChannelOp) -> bool:
    """Whether some of those who read a stage are no products of warp groups, or convert it."""
    for op in readers:
        if isinstance(op, sched.WarpgroupMmaOp):
            by_descriptors = op.described.values()
            if any(
                value in channel.buffers and value not in by_descriptors for value in op.operands
            ):
                return True
        elif not isinstance(op, sched.WarpgroupWaitOp):
            return True
    return False


def releases_behind(loop: sched.ForloopOp, releases: Sequence[Release]) -> Iterator[Release]:
    """Choice: where to release, behind a loop, the last iterations, which its releases leave out.

    A persistent block fills their stages for its next work tile.
    """
    behind = loop.next_op
    ops = list(behind.body.block.ops) if isinstance(behind, sched.EpilogueOp) else []
    for release in releases:
        channel = channel_of(release.step, release.step.channel)
        reads = [op for op in ops if any(value in channel.buffers for value, _ in reads_of(op))]
        has_loads = release.has_loads or any_loads(reads, channel)
        for iteration in range(max(loop.iterations + release.step.ahead_of, 0), loop.iterations):
            step = sched.ReleaseOp(channel.result, iteration=iteration)
            yield from (Release(step, op, has_loads) for op in (reads[-1:] or ops[:1]))


def insert_releases(releases: Iterable[Release]) -> None:
    """Rewrite: puts releases in their places, with one fence for all that stand together."""
    together: dict[Operation, list[Release]] = {}
    for release in releases:
        together.setdefault(release.op, []).append(release)
    for op, found in together.items():
        fences = [sched.ProxyFenceOp()] if any(release.is_fenced for release in found) else []
        Rewriter.insert_op_after([*fences, *(release.step for release in found)], op)


def lower_fill(fill: sched.ProduceOp) -> None:
    """Rewrite: waits until the stage is empty, copies, and says how many bytes come.

    The first fills of a block find all stages empty.
    """
    channel = channel_of(fill, fill.channel)
    ahead, iteration = fill.ahead_of, fill.fixed_iteration
    copies = list(fill.body.block.ops)
    for copy in copies:
        copy.detach()
    steps = [*copies, sched.PublishOp(fill.channel, ahead, iteration)]
    is_first = sched.enclosing_loop(fill) is None and (iteration or 0) < channel.stage_count
    if not is_first or enclosing_kernel(fill).persistent_blocks is not None:
        steps.insert(0, sched.AcquireOp(fill.channel, ahead, iteration))
    Rewriter.replace_op(fill, steps, [])


class LowerRingsPass(KernelPass):
    """Lowers rings to steps on mbarriers: when a stage is full, and when it is free.

    The copies of a ``sched.produce`` are put between a ``sched.acquire`` and a ``sched.publish``.
    The first fills of a block find all stages empty and acquire nothing. Each ``sched.consume`` of
    a loop gets a ``sched.release`` after the last reader of the stage:

    - products of warp groups at the ``sched.warpgroup_wait`` that covers them, with ``ahead -1``
      where that stands in the next iteration;
    - other operators in the next iteration, since a load that is only issued may still read when
      the next bulk copy writes.  In a ring of one stage, or where a product of the same iteration
      keeps the stage longer, a ``sched.proxy_fence`` before the release sees to that.

    In persistent blocks the epilogue releases the last stages.  Rings that are lowered already stay
    as they are.  Pre-condition: ``--pipeline-loads``; run it after all that changes products,
    stages or roles.
    """

    name = "lower-rings"

    def run(self, kernel: sched.KernelOp) -> None:
        """Lowers the rings of a kernel."""
        lower_rings(kernel)
