"""Schedules as data of a picture: lanes, columns of time, operators, and what waits for what.

All waits of all iterations are matched with what they wait for
(:mod:`mugraph.tools.schedule_run`); of the loop a few iterations are drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.interfaces import written_by
from mugraph.dialects.sched.channel import channel_of
from mugraph.dialects.tensor_types import type_text
from mugraph.passes.schedule.analysis.hazards.program import (
    LOOP,
    read_program,
)
from mugraph.tools.schedule_run import Era, Moment, Run, follow, goes_on, waited_for

BLOCK = "the block"
"""The lane of what all warps do."""


class Kind(Enum):
    """What an operator is to others."""

    WAIT = "waits"
    SIGNAL = "tells others"
    COPY = "copies"
    COMPUTE = "computes"
    BARRIER = "barrier"


@dataclass(frozen=True)
class Column:
    """A phase, or one iteration of the loop; ``steady`` where it stands for all in the middle."""

    title: str
    steady: bool = False


@dataclass(frozen=True)
class Box:
    """Operators of a lane, in a column of time and a slot of it, both counted from 0."""

    lane: int
    column: int
    slot: int
    kind: Kind
    label: str
    details: tuple[str, ...] = ()
    waits_outside: str = ""
    """What it waits for, where that is not drawn."""


@dataclass(frozen=True)
class Arrow:
    """The box ``target`` waits for ``source``, which ran ``distance`` iterations before.

    With a distance ``source`` is the same operator in the column of ``target``.
    """

    source: int
    target: int
    label: str
    distance: int = 0


@dataclass(frozen=True)
class Fill:
    """A tile in a stage of a ring, from the slot of a column to that of another, both in.

    A slot of ``None`` is the edge of the column.
    """

    stage: int
    column: int
    label: str
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class Ring:
    """A channel, and which tiles its stages hold in each column."""

    label: str
    stages: int
    fills: Sequence[Fill]


@dataclass(frozen=True)
class ScheduleChart:
    """One kernel: what runs in which lane and when, and what waits for what.

    Lane 0 is the whole block where it has roles and does something outside of them.
    """

    title: str
    lanes: Sequence[str]
    columns: Sequence[Column]
    boxes: Sequence[Box]
    arrows: Sequence[Arrow]
    rings: Sequence[Ring]

    def arriving(self, box: Box) -> range:
        """The lanes that a box is one of: all of them for a barrier of the whole block."""
        if box.kind is Kind.BARRIER and self.lanes[box.lane] == BLOCK:
            return range(len(self.lanes))
        return range(box.lane, box.lane + 1)

    def slots(self, column: int) -> int:
        """How many boxes one after the other a column holds."""
        return max((box.slot + 1 for box in self.boxes if box.column == column), default=0)


# --- which iterations are drawn ---


def _middle(run: Run, iterations: int) -> tuple[int, bool]:
    """The iteration drawn for those in the middle, and whether it is like all of these."""
    steps = [step for segment in run.program.segments for step in segment.steps]
    ahead = max((step.ahead for step in steps), default=0)
    behind = max((step.behind for step in steps), default=0)
    stages = max((channel.stage_count for channel in run.program.channels), default=1)
    steady, end = max(1, ahead, behind, stages), min(iterations - 1, iterations - ahead)
    if steady < end:
        return steady, True
    # One in which all operators do something, if there is one.
    whole = max(1, behind)
    return whole if whole < end else iterations // 2, False


def _columns(run: Run) -> dict[Era, Column]:
    """The parts of the run that are drawn, in order."""
    columns: dict[Era, Column] = {}
    for (section, phase), (name, iterations) in sorted(run.titles.items()):
        if name != LOOP:
            columns[Era(section, phase, 0)] = Column("" if name == "between" else name)
            continue
        middle, steady = _middle(run, iterations)
        for iteration in sorted({0, middle, iterations - 1}):
            title = f"iteration {iteration} of {iterations}"
            if steady and iteration == middle:
                title = f"iteration k, steady state (drawn: k = {middle})"
            columns[Era(section, phase, iteration)] = Column(title, steady and iteration == middle)
    return columns


# --- boxes ---

_VERBS: dict[type[Operation], str] = {
    sched.BulkCopyOp: "TMA",
    sched.WarpgroupMmaOp: "wgmma",
    sched.WaitOp: "wait",
    sched.WarpgroupWaitOp: "wait wgmma",
    sched.BulkWaitOp: "wait stores",
    sched.ChannelOp: "set up",
}


def _verb(op: Operation) -> str:
    if isinstance(op, sched.CopyOp) and op.is_async:
        return "cp.async"
    if isinstance(op, sched.MapOp):
        return str(op.function.data)
    if isinstance(op, sched.BulkCopyOp | sched.CopyOp) and isinstance(
        op.destination.type, sched.GlobalType
    ):
        return "TMA store" if isinstance(op, sched.BulkCopyOp) else "store"
    return _VERBS.get(type(op), op.name.removeprefix("sched.").replace("_", " "))


def _object(run: Run, op: Operation) -> str:
    """What an operator writes, the ring of a step, or how many a wait leaves."""
    if isinstance(op, sched.ChannelStepOp):
        return run.labels[channel_of(op, op.channel)].removeprefix("%")
    if isinstance(op, sched.ChannelOp):
        return run.labels[op].removeprefix("%")
    if isinstance(op, sched.WaitOp | sched.WarpgroupWaitOp):
        return str((waited_for(op) or (op, 0))[1])
    if isinstance(op, sched.BulkCopyOp | sched.CopyOp):
        return _name(op.destination)
    return ", ".join(_name(value) for value in written_by(op))


def _name(value: SSAValue) -> str:
    """A value's name in the text, or its type where it has none."""
    return value.name_hint or type_text(value)


def _kind(op: Operation) -> Kind:
    if isinstance(op, sched.BarrierOp | sched.ClusterBarrierOp):
        return Kind.BARRIER
    if isinstance(op, sched.ConsumeOp | sched.AcquireOp | sched.OrderWaitOp) or waited_for(op):
        return Kind.WAIT
    if isinstance(op, sched.PublishOp | sched.ReleaseOp | sched.OrderArriveOp | sched.CommitOp):
        return Kind.SIGNAL
    return Kind.COPY if isinstance(op, sched.BulkCopyOp | sched.CopyOp) else Kind.COMPUTE


def _tile_text(run: Run, moment: Moment, column: Column) -> str:
    tile, op = run.tile(moment), run.steps[moment].operation
    if tile is None:
        return ""
    if not column.steady:
        text = f"tile {tile}"
    else:
        ahead = tile - moment.era.iteration
        text = f"tile k{ahead:+}" if ahead else "tile k"
    if isinstance(op, sched.ChannelStepOp):
        text += f", stage {tile % channel_of(op, op.channel).stage_count}"
    return text


def _joins(run: Run, group: Sequence[Moment], moment: Moment) -> bool:
    """Whether a step is drawn in one box with those right before it.

    Copies of one tile, and the publish or commit that closes them; operators of one name, but
    for those that waits tell apart.
    """
    last, op = run.steps[group[-1]].operation, run.steps[moment].operation
    if group[-1].era != moment.era or group[-1].strand != moment.strand:
        return False
    if isinstance(op, sched.PublishOp | sched.CommitOp):
        return _kind(last) is Kind.COPY
    if goes_on(op):
        return False
    same = _verb(last) == _verb(op) and run.tile(group[-1]) == run.tile(moment)
    return same and _kind(op) in (Kind.COPY, Kind.COMPUTE)


def _box(run: Run, group: Sequence[Moment], lane: int, column: int, shown: Column) -> Box:
    ops = [run.steps[moment].operation for moment in group]
    closing = (
        ops.pop()
        if isinstance(ops[-1], sched.PublishOp | sched.CommitOp) and len(ops) > 1
        else None
    )
    objects = dict.fromkeys(filter(None, (_object(run, op) for op in ops)))
    label = f"{_verb(ops[0])} {', '.join(objects)}".rstrip()
    closes = "" if closing is None else f"{_verb(closing)} {_object(run, closing)}".rstrip()
    tiles = (_tile_text(run, moment, shown) for moment in reversed(group))
    tile = next(filter(None, tiles), "")
    idle = "nothing in it" if all(moment in run.idle for moment in group) else ""
    details = tuple(filter(None, (closes, tile, idle)))
    return Box(lane, column, 0, _kind(ops[0]), label, details)


def _place(boxes: list[Box], arrows: Sequence[Arrow], lanes: int) -> list[Box]:
    """The boxes with slots: behind those before them in their lane, and what they wait for."""
    sources = defaultdict[int, list[int]](list)
    for arrow in arrows:
        if not arrow.distance and boxes[arrow.source].column == boxes[arrow.target].column:
            sources[arrow.target].append(arrow.source)
    queues = defaultdict[tuple[int, int], list[int]](list)
    for number, box in enumerate(boxes):
        queues[box.column, box.lane].append(number)
    slots: dict[int, int] = {}
    free = defaultdict[tuple[int, int], int](int)
    while any(queues.values()):
        ready = [key for key, queue in queues.items() if queue]
        able = [key for key in ready if all(s in slots for s in sources[queues[key][0]])]
        # Where all wait for each other the kernel is stuck; it is drawn in the order of the text.
        for key in able or ready[:1]:
            number = queues[key].pop(0)
            behind = [slots[source] + 1 for source in sources[number] if source in slots]
            slots[number] = max(free[key], *behind, 0)
            free[key] = slots[number] + 1
    return [replace(box, slot=slots[number]) for number, box in enumerate(boxes)]


def schedule_chart(kernel: sched.KernelOp) -> ScheduleChart:
    """What a scheduled kernel does in time, for one block of the grid.

    Raises ``AccessError`` for a buffer or a channel without an offset.
    """
    run = follow(read_program(kernel))
    columns = _columns(run)
    lanes = _lanes(run)
    places = {era: number for number, era in enumerate(columns)}
    groups: list[list[Moment]] = []
    for moment in run.steps:
        if moment.era in columns:
            if groups and _joins(run, groups[-1], moment):
                groups[-1].append(moment)
            else:
                groups.append([moment])
    of_moment = {moment: number for number, group in enumerate(groups) for moment in group}
    names = list(lanes.values())
    shown = list(dict.fromkeys(names))
    boxes: list[Box] = []
    for group in groups:
        era = group[0].era
        lane = shown.index(lanes[group[0].strand])
        boxes.append(_box(run, group, lane, places[era], columns[era]))
    arrows: list[Arrow] = []
    for moment, sources in run.waits.items():
        if moment not in of_moment:
            continue
        target = of_moment[moment]
        steady = columns[moment.era].steady
        for source in sources:
            distance = moment.era.iteration - source.era.iteration if steady else 0
            repeats = source.era[:2] == moment.era[:2] and distance
            same = source._replace(era=moment.era) if repeats else source
            if same in of_moment:
                label = _arrow_label(run, source)
                arrows.append(Arrow(of_moment[same], target, label, distance if repeats else 0))
            else:
                told = f"{_verb(run.steps[source].operation)} in iteration {source.era.iteration}"
                boxes[target] = replace(boxes[target], waits_outside=told)
    arrows = list(dict.fromkeys(arrows))
    boxes = _place(boxes, arrows, len(shown))
    slots = {moment: boxes[number].slot for moment, number in of_moment.items()}
    rings = [_ring(run, channel, columns, slots) for channel in run.program.channels]
    return ScheduleChart(_title(run), shown, list(columns.values()), boxes, arrows, rings)


def _arrow_label(run: Run, source: Moment) -> str:
    op, tile = run.steps[source].operation, run.tile(source)
    if isinstance(op, sched.OrderArriveOp):
        return "block before"
    if not isinstance(op, sched.ChannelStepOp) or tile is None:
        return ""
    channel = channel_of(op, op.channel)
    return f"{run.labels[channel].removeprefix('%')} {tile % channel.stage_count}"


def _lanes(run: Run) -> dict[int, str]:
    """The name of each strand's lane, of those that do anything."""
    used = {moment.strand for moment in run.steps}
    names: dict[int, str] = {}
    for strand in run.program.strands:
        if strand.index not in used:
            continue
        role = strand.role
        if role is None:
            names[strand.index] = BLOCK
            continue
        warps = f"{role.warp_count} warp{'s' if role.warp_count > 1 else ''}"
        who = "one thread" if role.is_elected else warps
        ping_pong = (
            ""
            if role.ping_pong is None
            else f", ping-pong {role.ping_pong_index} of {run.ping_pong}"
        )
        names[strand.index] = f"{role.role.data} ({who}{ping_pong})"
    return names


def _title(run: Run) -> str:
    title = f"schedule of @{run.program.kernel.sym_name.data}"
    most = run.program.lengths[0]
    return (
        f"{title}, for one of the {most} blocks of the grid that a block takes"
        if most > 1
        else title
    )


def _ring(
    run: Run, channel: sched.ChannelOp, columns: dict[Era, Column], slots: dict[Moment, int]
) -> Ring:
    """A ring's tiles, from the publish of each to its last release, in the columns drawn.

    A producer's iteration may stand in a column before the release that it waits for; its tile
    comes into the stage behind that.
    """
    fills: list[Fill] = []
    tiles = sorted(key[2] for key in run.signals if key[:2] == (channel, sched.PublishOp))
    for tile in tiles:
        published = min(run.signals[channel, sched.PublishOp, tile])
        released = max(run.signals.get((channel, sched.ReleaseOp, tile), []), default=None)
        before = run.signals.get((channel, sched.ReleaseOp, tile - channel.stage_count), [])
        for number, (era, column) in enumerate(columns.items()):
            begun = max(moment.era for moment in (published, *before))
            if era.section != begun.section or era < begun:
                continue
            if released is not None and released.era < era:
                continue
            first = [slots[published]] if published.era == era else []
            first += [slots[moment] + 1 for moment in before if moment.era == era]
            last = slots[released] if released is not None and released.era == era else None
            ahead = tile - era.iteration
            # What is never released does not move on with k.
            moves = column.steady and released is not None
            label = (f"k{ahead:+}" if ahead else "k") if moves else str(tile)
            stage = tile % channel.stage_count
            fills.append(Fill(stage, number, label, max(first, default=None), last))
    return Ring(run.labels[channel].removeprefix("%"), channel.stage_count, fills)
