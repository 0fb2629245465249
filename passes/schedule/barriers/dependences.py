"""Analysis: the tasks, buffers and dependences of a kernel, from the accesses of its operators.

Two tasks depend on each other where they touch the same bytes of a buffer and one of them writes.
The dependence crosses threads unless every byte is touched by one and the same thread in both,
which the access streams say.  Some accesses deal elements to threads by address, and swizzling
moves addresses after scheduling: such a dependence counts as one within threads only where it is
one both before and after.  Values in registers are their thread's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import Operation, OpResult, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.interfaces import read_by, written_by
from mugraph.dialects.kn import Phase
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.programming_model import whole_lines
from mugraph.dialects.sched.accesses import StageReference
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import value_label
from mugraph.passes.schedule.analysis.hazards.footprints import Footprint, footprint_of
from mugraph.passes.schedule.barriers.model import Buffer, Dependence, Graph, Task
from mugraph.passes.schedule.plan_swizzle import planned_types


@dataclass
class TaskOperations:
    """Operators of a kernel that stay together; ``latest`` as in :class:`Task`."""

    name: str
    phase: Phase
    operations: list[Operation] = field(default_factory=list[Operation])
    latest: int | None = None


@dataclass(frozen=True, eq=False)
class _Touch:
    """What a task does with a buffer.  ``lands`` that an asynchronous copy ends there."""

    task: int
    position: int
    phase: Phase
    access: sched.ThreadAccess
    twin: Operation
    number: int
    stage: StageReference
    writes: bool
    lands: bool = False

    def swizzled(self) -> sched.ThreadAccess:
        """The same access once the buffer is swizzled."""
        twin = self.twin
        if twin is self.access.operation:
            return self.access
        return (
            twin.thread_accesses()[self.number]
            if isinstance(twin, sched.HasThreadAccesses)
            else self.access
        )

    @property
    def starts(self) -> bool:
        """Whether an asynchronous copy begins here, whose bytes come later."""
        return self.writes and not self.lands and self.access.proxy is sched.Proxy.ASYNC_COPY


class _Crossings:
    """Whether two accesses to one buffer have different threads at some byte."""

    def __init__(self) -> None:
        self._footprints: dict[tuple[object, ...], Footprint | None] = {}
        self._known: dict[tuple[object, ...], bool | None] = {}
        # Arrays whose identity stands in a key stay alive.
        self._kept: list[object] = []

    def of(self, one: _Touch, other: _Touch) -> bool | None:
        """``None`` where they touch no byte in common."""
        crosses = self._between(one.access, other.access)
        if one.access.keeps_elements and other.access.keeps_elements:
            return crosses
        later = self._between(one.swizzled(), other.swizzled())
        return later if crosses is None else crosses or bool(later)

    def _between(self, one: sched.ThreadAccess, other: sched.ThreadAccess) -> bool | None:
        key = (*self._key(one), *self._key(other))
        if key not in self._known:
            self._known[key] = self._compare(one, other)
        return self._known[key]

    def _key(self, access: sched.ThreadAccess) -> tuple[object, ...]:
        self._kept.append((access.offsets, access.significant))
        return (
            id(access.offsets),
            id(access.significant),
            access.width,
            access.element_bytes,
            access.warp_collective,
        )

    def _footprint(self, access: sched.ThreadAccess) -> Footprint | None:
        key = self._key(access)
        if key not in self._footprints:
            self._footprints[key] = footprint_of(access, access.element_bytes)
        return self._footprints[key]

    def _compare(self, one: sched.ThreadAccess, other: sched.ThreadAccess) -> bool | None:
        first, second = self._footprint(one), self._footprint(other)
        if first is None or second is None:
            return None
        low, high = max(first.low, second.low), min(first.high, second.high)
        if low >= high:
            return None
        ours = first.owners[low - first.low : high - first.low]
        theirs = second.owners[low - second.low : high - second.low]
        both = (ours != 0) & (theirs != 0)
        if not both.any():
            return None
        return bool((both & ((ours != theirs) | (ours < 0))).any())


def _touches(
    groups: Sequence[TaskOperations], twins: Mapping[Operation, Operation]
) -> tuple[dict[sched.AllocOp, list[_Touch]], dict[SSAValue, list[tuple[int, bool, bool]]]]:
    """By buffer who touches it, and by fragment which task reads and writes it, in order."""
    shared: dict[sched.AllocOp, list[_Touch]] = {}
    fragments: dict[SSAValue, list[tuple[int, bool, bool]]] = {}
    copied: dict[sched.AllocOp, _Touch] = {}
    position = 0
    for index, group in enumerate(groups):
        for op in group.operations:
            position += 1
            read = [sched.registers_of(value) for value in read_by(op)]
            written = [sched.registers_of(value) for value in written_by(op)]
            for value in dict.fromkeys((*read, *written)):
                if isinstance(value.type, sched.TileType):
                    use = (index, value in read, value in written)
                    fragments.setdefault(value, []).append(use)
            if not isinstance(op, sched.HasThreadAccesses):
                continue
            twin = twins.get(op, op)
            for number, access in enumerate(op.thread_accesses()):
                buffer = access.value.owner
                if access.in_device_memory or not isinstance(buffer, sched.AllocOp):
                    continue
                writes = access.kind is sched.AccessKind.WRITE
                touch = _Touch(
                    index, position, group.phase, access, twin, number, access.stage, writes
                )
                shared.setdefault(buffer, []).append(touch)
                if touch.starts:
                    copied.setdefault(buffer, touch)
    position = 0
    for index, group in enumerate(groups):
        for op in group.operations:
            position += 1
            if isinstance(op, sched.WaitOp):
                stage = StageReference(iteration=None if group.phase is Phase.LOOP else 0)
                for buffer, copy in copied.items():
                    landing = replace(
                        copy,
                        task=index,
                        position=position,
                        phase=group.phase,
                        stage=stage,
                        lands=True,
                    )
                    shared[buffer].append(landing)
    for touches in shared.values():
        touches.sort(key=lambda touch: touch.position)
    return shared, fragments


def _distance(one: _Touch, other: _Touch, stages: int, iterations: int) -> int | None:
    """Whole iterations from one touch to the next in which the other means the same stage.

    ``None`` where the other never comes after it.
    """
    if one.stage.every_stage or other.stage.every_stage:
        stages = 1
    if one.phase is Phase.LOOP and other.phase is Phase.LOOP:
        apart = (one.stage.ahead - other.stage.ahead) % stages
        if apart == 0 and (other.task < one.task or other.position <= one.position):
            apart = stages
        return apart
    order = (Phase.BEFORE, Phase.LOOP, Phase.AFTER)
    if order.index(one.phase) > order.index(other.phase):
        return None
    if one.phase is other.phase:
        same = one.stage.iteration_at(0) % stages == other.stage.iteration_at(0) % stages
        return 0 if same and one.position < other.position else None
    if one.phase is Phase.BEFORE and other.phase is Phase.LOOP:
        return (one.stage.iteration_at(0) - other.stage.ahead) % stages
    if one.phase is Phase.LOOP:
        return (iterations - 1 + one.stage.ahead - other.stage.iteration_at(0)) % stages
    return iterations - 1


_WHY = {
    (True, False): "read after write",
    (False, True): "write after read",
    (True, True): "write after write",
}


def _last_barrier(groups: Sequence[TaskOperations]) -> int:
    """The place of the last barrier that stands before the loop already, 0 where none does."""
    operations = [(group.phase, op) for group in groups for op in group.operations]
    barriers = [
        position
        for position, (phase, op) in enumerate(operations, 1)
        if phase is Phase.BEFORE and isinstance(op, sched.BarrierOp)
    ]
    return max(barriers, default=0)


def _buffer_dependences(
    buffer: sched.AllocOp,
    touches: Sequence[_Touch],
    iterations: int,
    crossings: _Crossings,
    may_run: Callable[[_Touch], bool],
    last_barrier: int,
) -> Iterator[Dependence]:
    """The dependences through one buffer, the strictest of each pair of tasks."""
    strictest: dict[tuple[int, int, int], Dependence] = {}
    writers = [touch for touch in touches if touch.writes]
    name = value_label(buffer.result)
    for one in touches:
        for other in touches if one.writes else writers:
            # What an asynchronous copy brings is there when a wait says so, and its place is taken
            # when it starts.
            if one.starts and any(touch.lands for touch in touches):
                continue
            if other.lands or not may_run(other):
                continue
            distance = _distance(one, other, buffer.stage_count, iterations)
            if distance is None or (one.task == other.task and distance == 0):
                continue
            crosses = crossings.of(one, other)
            if crosses is None:
                continue
            # A barrier between them orders all threads.
            is_settled = one.phase is Phase.BEFORE and one.position < last_barrier < other.position
            crosses = crosses and not is_settled
            key = (one.task, other.task, distance)
            known = strictest.get(key)
            if known is None or (crosses and not known.crosses):
                why = f"{_WHY[one.writes, other.writes]} of {name}"
                strictest[key] = Dependence(one.task, other.task, crosses, distance, why)
    yield from strictest.values()


def _fragment_dependences(
    uses: Sequence[tuple[int, bool, bool]], name: str
) -> Iterator[Dependence]:
    for position, (task, _, writes) in enumerate(uses):
        for other, _, other_writes in uses[position + 1 :]:
            if task != other and (writes or other_writes):
                yield Dependence(task, other, False, why=f"{name} in registers")


def _is_carried(buffer: sched.AllocOp, touches: Sequence[_Touch]) -> bool:
    """Whether an iteration finds in a buffer what an earlier one, or the copy ahead, left there."""
    looped = [touch for touch in touches if touch.phase is Phase.LOOP and not touch.lands]
    if buffer.stage_count > 1:
        return True
    return bool(looped) and not looped[0].writes


def swizzled_twins(kernel: sched.KernelOp) -> dict[Operation, Operation]:
    """Each operator of a kernel, with itself in a copy of the kernel that is swizzled already.

    Where no buffer gets another layout, the kernel is its own copy.
    """
    planned = planned_types(kernel)
    if not planned:
        return {op: op for op in kernel.walk()}
    twin = kernel.clone()
    twins = dict(zip(kernel.walk(), twin.walk(), strict=True))
    for buffer, type_ in planned.items():
        assert isinstance(buffer, OpResult)
        swizzled = twins[buffer.owner].results[buffer.index]
        Rewriter.replace_value_with_new_type(swizzled, type_)
    return twins


def kernel_graph(
    kernel: sched.KernelOp,
    groups: Sequence[TaskOperations],
    twins: Mapping[Operation, Operation] | None = None,
) -> Graph:
    """The graph of a kernel whose operators are gathered in groups, in the order of the text.

    ``twins`` are the operators as they will be once swizzled; sizes are theirs.  Raises
    ``AccessError`` at an operator whose accesses are not modelled.
    """
    twins = twins or {}
    iterations = loop_iterations(kernel)
    shared, fragments = _touches(groups, twins)
    crossings = _Crossings()

    def may_run(touch: _Touch) -> bool:
        return touch.phase is not Phase.LOOP or touch.stage.ahead < iterations

    dependences: list[Dependence] = []
    buffers: list[Buffer] = []
    for buffer, touches in shared.items():
        dependences += _buffer_dependences(
            buffer, touches, iterations, crossings, may_run, _last_barrier(groups)
        )
        name = value_label(buffer.result)
        touched = tuple(dict.fromkeys(touch.task for touch in touches if not touch.lands))
        twin = twins.get(buffer, buffer)
        size = whole_lines(twin.total_bytes()) if isinstance(twin, sched.AllocOp) else 0
        buffers.append(Buffer(name, size, touched, _is_carried(buffer, touches)))
    for value, uses in fragments.items():
        dependences += _fragment_dependences(uses, value_label(value))
    tasks = tuple(Task(group.name, group.phase, group.latest) for group in groups)
    return Graph(tasks, tuple(dependences), tuple(buffers), iterations)
