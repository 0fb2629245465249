"""What a scheduled kernel does, iteration by iteration, and what each of its waits is for.

Steps, roles and iterations are those of the hazard checker
(:mod:`mugraph.passes.schedule.analysis.hazards`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.sched.channel import channel_of
from mugraph.passes.schedule.analysis.hazards.program import (
    LOOP,
    Program,
    Segment,
    Step,
    Strand,
)
from mugraph.passes.schedule.analysis.hazards.progress import channel_labels


class Era(NamedTuple):
    """A part of the run, ordered in time: of a section a phase, of a loop an iteration."""

    section: int
    phase: int
    iteration: int


class Moment(NamedTuple):
    """A step of a strand as it runs; of one strand in order."""

    era: Era
    place: int
    strand: int


_Signal = tuple[Operation, type[Operation], int]
"""The channel or the order barrier, what is done, and the tile or the role that it is for."""

_PHASES = ("prologue", LOOP, "epilogue")


@dataclass(eq=False)
class Run:
    """Everything that a kernel does, and what each wait is for."""

    program: Program
    labels: dict[sched.ChannelOp, str]
    ping_pong: int
    steps: dict[Moment, Step] = field(default_factory=dict[Moment, Step])
    titles: dict[tuple[int, int], tuple[str, int]] = field(
        default_factory=dict[tuple[int, int], tuple[str, int]]
    )
    """The name of each phase of a section, and its iterations."""
    signals: defaultdict[_Signal, list[Moment]] = field(
        default_factory=lambda: defaultdict[_Signal, list[Moment]](list)
    )
    waits: dict[Moment, list[Moment]] = field(default_factory=dict[Moment, list[Moment]])
    idle: set[Moment] = field(default_factory=set[Moment])
    """Products of warp groups with nothing in them, which waits count all the same."""

    def tile(self, moment: Moment) -> int | None:
        """The iteration that an operator on a ring means; ``None`` for others."""
        step = self.steps[moment]
        if isinstance(step.operation, sched.ChannelStepOp):
            return step.operation.stage.iteration_at(moment.era.iteration)
        if not isinstance(step.operation, sched.BulkCopyOp | sched.CopyOp):
            return None
        meant = (t.access.stage.iteration_at(moment.era.iteration) for t in step.writes)
        return next(meant, None)


def _happens(step: Step, current: int, iterations: int) -> bool:
    """Whether a step does anything in an iteration.

    A product that has none still counts for the waits behind it: see :attr:`Run.idle`.
    """
    op = step.operation
    if isinstance(op, sched.ChannelStepOp):
        return op.stage.happens_at(current, iterations)
    if isinstance(op, sched.WarpgroupMmaOp):
        return op.stage.happens_at(current, iterations)
    touches = (*step.reads, *step.writes)
    return not touches or any(t.access.stage.happens_at(current, iterations) for t in touches)


def _phases(strand: Strand) -> Iterator[tuple[int, str, Segment]]:
    """The segments of a strand, numbered so that those of roles side by side agree."""
    phase = -1
    for segment in strand.segments:
        name = segment.steps[0].place.phase
        if name in _PHASES:
            place = 2 * _PHASES.index(name) + 1
            phase += (place - phase - 1) % 6 + 1
        else:
            phase += 1
            name = "before" if phase == 0 else "between"
        yield phase, name, segment


def follow(program: Program) -> Run:
    """All steps of all iterations, and what the waits among them wait for."""
    labels = dict(zip(program.channels, channel_labels(program.channels), strict=True))
    run = Run(program, labels, len(sched.ping_pong_roles(program.kernel)))
    for number, section in enumerate(program.sections):
        for strand in section:
            for phase, name, segment in _phases(strand):
                iterations = segment.iterations or 1
                _, known = run.titles.get((number, phase), (name, 0))
                for iteration in range(iterations):
                    era = Era(number, phase, iteration)
                    for index, step in enumerate(segment.steps):
                        if isinstance(
                            step.operation, sched.EmptyOp | sched.OrderBarrierOp | sched.YieldOp
                        ):
                            continue
                        moment = Moment(era, index, strand.index)
                        if not _happens(step, iteration, iterations):
                            if not isinstance(step.operation, sched.WarpgroupMmaOp):
                                continue
                            run.idle.add(moment)
                        run.steps[moment] = step
                        run.titles[number, phase] = name, max(known, iterations)
    _match(run)
    return run


def _match(run: Run) -> None:
    strands = {strand.index: strand for strand in run.program.strands}
    pending = defaultdict[tuple[int, type[Operation]], list[Moment]](list)
    for moment, step in run.steps.items():
        op, tile = step.operation, run.tile(moment)
        role = strands[moment.strand].role
        if isinstance(op, sched.PublishOp | sched.ReleaseOp):
            run.signals[channel_of(op, op.channel), type(op), tile or 0].append(moment)
        elif isinstance(op, sched.OrderArriveOp) and role is not None:
            following = ((role.ping_pong_index or 0) + 1) % run.ping_pong
            run.signals[op.order_barrier(), sched.OrderArriveOp, following].append(moment)
        elif isinstance(op, sched.CommitOp) or goes_on(op):
            pending[moment.strand, type(op)].append(moment)
        of_strand = waited_for(op)
        if of_strand is not None:
            begun, kept = pending[moment.strand, of_strand[0]], of_strand[1]
            run.waits[moment] = begun[-1 - kept : len(begun) - kept]
    for moment, step in run.steps.items():
        op, tile = step.operation, run.tile(moment) or 0
        role = strands[moment.strand].role
        if isinstance(op, sched.ConsumeOp):
            run.waits[moment] = run.signals[channel_of(op, op.channel), sched.PublishOp, tile]
        elif isinstance(op, sched.AcquireOp):
            ring = channel_of(op, op.channel)
            run.waits[moment] = run.signals[ring, sched.ReleaseOp, tile - ring.stage_count]
        elif isinstance(op, sched.OrderWaitOp) and role is not None:
            run.waits[moment] = run.signals[
                op.order_barrier(), sched.OrderArriveOp, role.ping_pong_index or 0
            ]


def goes_on(op: Operation) -> bool:
    """Whether an operator begins what its own strand waits for later."""
    if isinstance(op, sched.BulkCopyOp):
        return op.channel is None
    return isinstance(op, sched.WarpgroupMmaOp) and op.is_async


def waited_for(op: Operation) -> tuple[type[Operation], int] | None:
    """What of its own strand an operator waits for, and how many of the newest it does not."""
    match op:
        case sched.WaitOp():
            return sched.CommitOp, op.pending_groups
        case sched.WarpgroupWaitOp():
            return sched.WarpgroupMmaOp, op.pending_products
        case sched.BulkWaitOp():
            return sched.BulkCopyOp, 0
        case _:
            return None
