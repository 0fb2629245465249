"""The schedules that could be made of a kernel whose operators have no barriers yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from xdsl.dialects.builtin import BoolAttr, DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.programming_model import whole_lines
from mugraph.passes.schedule.barriers.channel_steps import place_channel_steps
from mugraph.passes.schedule.barriers.dependences import kernel_graph, swizzled_twins
from mugraph.passes.schedule.barriers.model import Barriers, Graph
from mugraph.passes.schedule.barriers.tasks import (
    PHASES,
    TaskOperations,
    separate_prologue,
    tasks_of,
)
from mugraph.passes.schedule.barriers.trades import Schedule, improvements
from mugraph.passes.schedule.plan_stensor_memory import (
    blocks_that_share,
    certified_plan,
    memory_requests,
    with_channels,
)
from mugraph.passes.targets import Target

SCHEDULE_CERTIFICATE = "sched.schedule_certificate"
"""The attribute of a kernel with the certificate of its schedule."""


_PLACED = sched.BarrierOp | sched.ChannelStepOp | sched.ProxyFenceOp
"""What is put in place when all else is."""

T = TypeVar("T")


@dataclass
class Replay(Generic[T]):
    """What an iterator gives, as often as it is asked for."""

    source: Iterator[T]
    known: list[T] = field(default_factory=list[T])

    def __iter__(self) -> Iterator[T]:
        position = 0
        while True:
            if position == len(self.known):
                following = next(self.source, None)
                if following is None:
                    return
                self.known.append(following)
            yield self.known[position]
            position += 1


@dataclass(frozen=True)
class Proposal:
    """A kernel without barriers, with what the choice of its schedule needs."""

    kernel: sched.KernelOp
    tasks: tuple[TaskOperations, ...]
    twins: dict[Operation, Operation]
    graph: Graph
    target: Target
    packed: dict[Schedule, int] = field(default_factory=dict["Schedule", int])
    """The bytes by each schedule that was packed."""

    @cached_property
    def trades(self) -> Replay[Schedule]:
        """The schedules of ever more barriers and less memory, each searched for once."""
        return Replay(improvements(self.graph))

    def in_regions(self, barriers: Barriers, regions: Sequence[int]) -> sched.KernelOp:
        """The kernel with every task in its region, and barriers between the regions.

        Threads that compute wait for what channels bring.
        """
        for phase_op in sched.computing_block(self.kernel).ops:
            phase = PHASES.get(type(phase_op))
            if phase is None:
                continue
            block = phase_op.regions[0].block
            for op in tuple(block.ops):
                op.detach()
                if isinstance(op, sched.ConsumeOp):
                    op.erase()
            first, last = barriers.range_of(phase)
            for region in range(first, last + 1):
                if region > first:
                    block.add_op(sched.BarrierOp())
                for task, place in zip(self.tasks, regions, strict=True):
                    if task.phase is phase and place == region:
                        block.add_ops(task.operations)
        place_channel_steps(self.kernel)
        return self.kernel

    def arranged(self, schedule: Schedule) -> sched.KernelOp:
        """The kernel by a schedule, with its certificate."""
        kernel = self.in_regions(schedule.barriers, schedule.regions)
        kernel.attributes[SCHEDULE_CERTIFICATE] = certificate_attribute(schedule)
        return kernel

    def packed_bytes(self, schedule: Schedule) -> int:
        """The bytes a block needs by a schedule once its buffers are swizzled and packed.

        By the stages that buffers have now.
        """

        def size_of(buffer: sched.AllocOp) -> int:
            twin = self.twins.get(buffer)
            assert isinstance(twin, sched.AllocOp)
            return whole_lines(twin.stage_bytes() * buffer.stage_count)

        kernel = self.arranged(schedule)
        requests = {
            buffer: request._replace(size=size_of(buffer))
            for buffer, request in memory_requests(kernel).items()
        }
        found = certified_plan(kernel, requests)
        return with_channels(kernel, found).plan.peak

    def resident_blocks(self, smem: int) -> int:
        """How many blocks of that many bytes share a multiprocessor."""
        return blocks_that_share(self.kernel, smem, self.target)

    @property
    def least_barriers(self) -> Schedule:
        """The schedule of fewest barriers, whether it fits or not."""
        return next(iter(self.trades))

    def fitting_schedule(self) -> Schedule | None:
        """The best schedule that fits a block's memory, if one does.

        A barrier more outside the loop is taken where it lets another block share the
        multiprocessor.
        """
        limit = self.target.shared_memory_per_block
        best = self.least_barriers
        packed = self._fitting_bytes(best, limit)
        if packed is not None and self.resident_blocks(packed) == self.resident_blocks(0):
            return best
        found = None if packed is None else best
        for other in self.trades:
            if found is not None and other.barriers.loop > found.barriers.loop:
                break
            needed = self._fitting_bytes(other, limit)
            if needed is not None and (
                packed is None or self.resident_blocks(needed) > self.resident_blocks(packed)
            ):
                found, packed = other, needed
                if not self.resident_blocks(0) > self.resident_blocks(needed):
                    break
        return found

    def _fitting_bytes(self, schedule: Schedule, limit: int) -> int | None:
        """The bytes by a schedule where they are no more than ``limit``.

        Results that take their operands' bytes save half at most, so that more is not packed.
        """
        if schedule.peak > 2 * limit:
            return None
        packed = self.packed.get(schedule) or self.packed_bytes(schedule)
        self.packed[schedule] = packed
        return packed if packed <= limit else None

    def excess_bytes(self) -> int:
        """How many bytes fewer it takes at least, once no schedule fits."""
        return max(1, min(self.packed.values(), default=0) - self.target.shared_memory_per_block)

    def smallest_schedule(self) -> Schedule:
        """The schedule of least memory that was found, whether it fits or not."""
        return min(self.trades, key=lambda schedule: schedule.peak)


def propose_barriers(kernel: sched.KernelOp, target: Target) -> Proposal:
    """What the choice of barriers for the phases of a kernel needs.

    Barriers of the prologue are put in, as there is no choice; others, and steps of channels, are
    taken out.
    """
    for phase in sched.computing_block(kernel).ops:
        for op in tuple(phase.walk()):
            if isinstance(op, _PLACED):
                op.detach()
                op.erase()
    separate_prologue(kernel)
    tasks = tuple(tasks_of(kernel))
    twins = swizzled_twins(kernel)
    return Proposal(kernel, tasks, twins, kernel_graph(kernel, tasks, twins), target)


def certificate_attribute(schedule: Schedule) -> DictionaryAttr:
    """How good a schedule is.

    ``{barriers, barrier_bound, peak, peak_bound, optimal}``: barriers that a thread executes, and
    the fewest that any schedule has; bytes alive in the fullest region before any are shared in
    place, and a bound for schedules with as many barriers; ``optimal`` where it is proved that no
    schedule has fewer of one and no more of the other.
    """
    numbers = {
        "barriers": schedule.executed,
        "barrier_bound": schedule.barrier_bound,
        "peak": schedule.peak,
        "peak_bound": schedule.peak_bound,
    }
    return DictionaryAttr(
        {
            **{name: IntegerAttr(number, i64) for name, number in numbers.items()},
            "optimal": BoolAttr.from_bool(schedule.is_optimal),
        }
    )
