"""Hazards of a block whose threads hand over through mbarriers: all that they touch, and clocks.

Threads that do the same run together, and each such role until it must wait, in one order that the
program allows.  Of each two touches of one place the clocks say whether another order could turn
them round.  Bulk copies and products of warp groups touch until they have been waited for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects import te
from mugraph.dialects.programming_model import GROUP_THREADS, WARP
from mugraph.dialects.te.points import Rows, all_hold, evaluate
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.domains import Access, accesses_of
from mugraph.passes.texpr.analysis.hazards.clocks import Clocks, PhaseClock
from mugraph.passes.texpr.analysis.hazards.shadow import NEVER, Event, Shadow, named
from mugraph.passes.texpr.analysis.hazards.touches import rows_of
from mugraph.passes.texpr.analysis.roles import roles_of

Course: TypeAlias = Generator[Operation]
_MANY = 96
"""Reads after which those that all threads know of are dropped."""
_ENGINES = (te.BulkCopyOp, te.WarpgroupMmaOp)
_STEPS = (
    *_ENGINES,
    te.MbarrierOp,
    te.MbarrierFenceOp,
    te.NamedBarrierOp,
    te.BarrierOp,
    te.ProxyFenceOp,
    te.BulkCommitOp,
    te.BulkWaitOp,
    te.WarpgroupFenceOp,
    te.WarpgroupCommitOp,
    te.WarpgroupWaitOp,
)
"""What is followed one by one; loops and conditions without it touch all at once."""
_NOT_FOLLOWED = (te.CopyAsyncOp, te.AllReduceOp)


@dataclass(eq=False)
class Role:
    """Threads that do the same, and what they have begun."""

    threads: Rows
    values: dict[SSAValue, int]
    course: Course = field(init=False)
    waits_at: Operation | None = None
    products: list[Event] = field(default_factory=list[Event])
    product_groups: deque[list[Event]] = field(default_factory=deque[list[Event]])
    stores: list[Event] = field(default_factory=list[Event])
    store_groups: deque[list[Event]] = field(default_factory=deque[list[Event]])
    met: dict[int, int] = field(default_factory=dict[int, int])
    """How often it has come to each barrier; 0 is that of the block."""
    is_fenced: bool = False
    """Whether a ``te.warpgroup_fence`` stands behind all that touched sums of products."""

    def under_way(self) -> Iterator[Event]:
        """The reads by engines that are not over."""
        for groups in (self.product_groups, self.store_groups):
            for group in groups:
                yield from group
        yield from self.products
        yield from self.stores


class HandOver:
    """A run of a block of a kernel; ``without`` is a barrier to leave out."""

    def __init__(self, kernel: te.KernelOp, number: int, without: Operation | None = None) -> None:
        self.holder = kernel.threads
        self.without = without
        threads = self.holder.iterations
        mbarriers = [op for op in kernel.walk() if isinstance(op, te.NewMbarriersOp)]
        self._first: dict[SSAValue, int] = {}
        count = threads
        for op in mbarriers:
            self._first[op.result] = count
            count += op.result.type.count
        self.clocks = Clocks(threads, count - threads)
        self.barriers: dict[int, PhaseClock] = {}
        self.memory = Shadow(kernel, self.clocks, self.report)
        self._found: dict[tuple[object, ...], Finding] = {}
        self._followed: dict[Operation, bool] = {}
        self._accesses: dict[Operation, list[Access]] = {}
        self._known: dict[tuple[int, bytes, bytes], Event] = {}
        self._sums = {_whole(op.sums) for op in kernel.walk() if isinstance(op, te.WarpgroupMmaOp)}
        self._has_moved = False
        self.roles: list[Role] = []
        for members in roles_of(self.holder):
            role = Role(members, {kernel.variable: number})
            role.course = self._follow(self.holder.body.block, members, role)
            self.roles.append(role)
        self._live: list[Role] = list(self.roles)

    def findings(self) -> list[Finding]:
        """The hazards of the block."""
        for op in self.holder.walk():
            if isinstance(op, _NOT_FOLLOWED):
                message = f"{named(op)} stands beside mbarriers, where it is not followed"
                return [Finding(HazardKind.NOT_CHECKED, (op,), message)]
        while self._live:
            self._has_moved = False
            for role in self._live:
                role.waits_at = next(role.course, None)
            ended = [role for role in self._live if role.waits_at is None]
            self._live = [role for role in self._live if role.waits_at is not None]
            if self._live and not ended and not self._has_moved:
                self._report_deadlock()
                break
        else:
            self._check_unfinished()
        return list(self._found.values())

    def report(self, kind: HazardKind, operations: tuple[Operation, ...], message: str) -> None:
        """Adds a finding, once for a kind and its operators."""
        self._found.setdefault((kind, *operations), Finding(kind, operations, message))

    # Control.

    def _has_steps(self, op: Operation) -> bool:
        if op not in self._followed:
            self._followed[op] = any(isinstance(one, _STEPS) for one in op.walk())
        return self._followed[op]

    def _follow(self, block: Block, threads: Rows, role: Role) -> Course:
        for op in block.ops:
            if op is self.without:
                continue
            match op:
                case te.StepOp():
                    yield from self._follow(op.body.block, threads, role)
                case te.SeqOp() if self._has_steps(op):
                    for iteration in range(op.iterations):
                        role.values[op.variable] = iteration
                        yield from self._follow(op.body.block, threads, role)
                    del role.values[op.variable]
                case te.IfOp() if self._has_steps(op):
                    chosen = threads[self._holds(op, threads, role)]
                    if len(chosen):
                        yield from self._follow(op.body.block, chosen, role)
                case te.BarrierOp() if op.threads is te.Scope.BLOCK:
                    yield from self._meet(op, role, 0, self.holder.iterations)
                case te.NamedBarrierOp():
                    yield from self._meet(op, role, op.name_of_barrier, op.threads)
                case te.MbarrierWaitOp():
                    while not self._passes(op, threads, role):
                        yield op
                    self._has_moved = True
                case _:
                    self._act(op, threads, role)
                    self._has_moved = True

    def _points(self, threads: Rows, role: Role) -> dict[SSAValue, Rows]:
        points = {one: np.array(value, np.int64) for one, value in role.values.items()}
        return {**points, self.holder.variable: threads}

    def _holds(self, op: te.IfOp, threads: Rows, role: Role) -> npt.NDArray[np.bool_]:
        return np.broadcast_to(all_hold([op], self._points(threads, role)), threads.shape)

    def _at_threads(
        self, expression: AffineExpr, operands: list[SSAValue], threads: Rows, role: Role
    ) -> Rows:
        found = evaluate(expression, operands, self._points(threads, role))
        return np.broadcast_to(found, threads.shape)

    def _meet(self, op: Operation, role: Role, number: int, threads: int) -> Course:
        """Waits until as many threads have come as often to a barrier."""
        self.memory.settle(role.threads)
        role.met[number] = mine = role.met.get(number, 0) + 1
        self._has_moved = True
        come = [one for one in self.roles if one.met.get(number, 0) >= mine]
        if sum(len(one.threads) for one in come) >= threads:
            self.clocks.meet(np.sort(np.concatenate([one.threads for one in come])))
        while sum(len(one.threads) for one in self.roles if one.met.get(number, 0) >= mine) < (
            threads
        ):
            yield op

    # Mbarriers.

    def _numbers(self, op: te.MbarrierOp, threads: Rows, role: Role) -> Rows:
        return self._at_threads(op.number, list(op.indices), threads, role)

    def _barrier(
        self, op: Operation, barriers: SSAValue, number: int, threads: Rows
    ) -> PhaseClock | None:
        """An mbarrier that threads use; ``None`` where it is not set up."""
        name = f"{source_name(barriers)}[{number}]"
        barrier = self.barriers.get(self._first[barriers] + number)
        if barrier is None:
            self.report(
                HazardKind.PROTOCOL, (op,), f"{named(op)} uses {name}, which nobody has set up"
            )
            return None
        known = self.clocks.known[threads, barrier.setter] >= barrier.epoch
        strangers = threads[~known & (threads != barrier.setter)]
        if len(strangers):
            self.report(
                HazardKind.PROTOCOL,
                (op, barrier.set_up),
                f"{named(op)} uses {name} in thread {strangers[0]}, and no barrier stands between "
                f"it and {named(barrier.set_up)}, which sets it up in thread {barrier.setter}",
            )
        return barrier

    def _passes(self, op: te.MbarrierWaitOp, threads: Rows, role: Role) -> bool:
        parities = self._at_threads(op.parity, list(op.parity_indices), threads, role)
        numbers = self._numbers(op, threads, role)
        for number, parity in sorted(set(zip(numbers.tolist(), parities.tolist(), strict=True))):
            some = threads[(numbers == number) & (parities == parity)]
            barrier = self._barrier(op, op.barriers, number, some)
            if barrier is not None and not self._passes_one(op, barrier, parity, some):
                return False
        return True

    def _passes_one(
        self, op: te.MbarrierWaitOp, barrier: PhaseClock, parity: int, threads: Rows
    ) -> bool:
        targets = barrier.targets(parity, self.clocks.known[threads, barrier.component])
        for phase in np.unique(targets).tolist():
            some = threads[targets == phase]
            if barrier.completed <= phase:
                return False
            if barrier.completed > phase + 1:
                self.report(
                    HazardKind.PROTOCOL,
                    (op,),
                    f"{named(op)} waits for phase {phase} of {barrier.name} in thread {some[0]}; "
                    "the next one, of the other parity, may have ended too: it may wait for ever",
                )
            self.memory.settle(some)
            barrier.waited[some] = phase
            barrier.waited_at[some] = self.clocks.epochs[some]
            barrier.wait = op
            clock = barrier.clock_of(phase)
            if clock is not None and barrier.completed <= phase + 1:
                self.clocks.learn(some, clock)
        return True

    def _complete(self, op: Operation, barrier: PhaseClock) -> None:
        for thread in barrier.complete()[:1]:
            assert barrier.wait is not None
            self.report(
                HazardKind.PROTOCOL,
                (op, barrier.wait),
                f"{named(op)} may end a phase of {barrier.name} before thread {thread} has seen "
                f"that the one before has ended: {named(barrier.wait)} may then wait for ever",
            )

    @singledispatchmethod
    def _act(self, op: Operation, threads: Rows, role: Role) -> None:
        self._touch(op, role)

    @_act.register
    def _(self, op: te.MbarrierInitOp, threads: Rows, role: Role) -> None:
        numbers = self._numbers(op, threads, role)
        for thread, number in zip(threads.tolist(), numbers.tolist(), strict=True):
            component = self._first[op.barriers] + number
            self.barriers[component] = PhaseClock(
                f"{source_name(op.barriers)}[{number}]",
                component,
                op.expected,
                op,
                thread,
                int(self.clocks.epochs[thread]),
                self.holder.iterations,
            )

    @_act.register
    def _(self, op: te.MbarrierFenceOp, threads: Rows, role: Role) -> None:
        for barrier in self.barriers.values():
            barrier.is_fenced = barrier.is_fenced or barrier.setter in threads

    @_act.register
    def _(self, op: te.MbarrierArriveOp, threads: Rows, role: Role) -> None:
        numbers = self._numbers(op, threads, role)
        for number in np.unique(numbers).tolist():
            some = threads[numbers == number]
            barrier = self._barrier(op, op.barriers, number, some)
            while barrier is not None and len(some):
                if not barrier.pending:
                    self.report(
                        HazardKind.PROTOCOL,
                        (op,),
                        f"{named(op)} arrives at {barrier.name} in thread {some[0]}, whose phase "
                        f"has all of its {barrier.count} arrivals, but not its bytes",
                    )
                    break
                now, some = some[: barrier.pending], some[barrier.pending :]
                told = self.clocks.tell(now)
                barrier.told = told if barrier.told is None else np.maximum(barrier.told, told)
                barrier.pending -= len(now)
                barrier.announced += op.bytes * len(now)
                self._complete(op, barrier)

    @_act.register
    def _(self, op: te.BarrierOp, threads: Rows, role: Role) -> None:
        for warp in np.unique(threads // WARP):
            self.clocks.meet(threads[threads // WARP == warp])

    @_act.register
    def _(self, op: te.ProxyFenceOp, threads: Rows, role: Role) -> None:
        self.memory.fence(threads)
        self.memory.settle(threads)

    # What engines do.

    @_act.register
    def _(self, op: te.BulkLoadOp, threads: Rows, role: Role) -> None:
        numbers = self._at_threads(op.number, list(op.barrier_indices), threads, role)
        for thread, number in zip(threads.tolist(), numbers.tolist(), strict=True):
            barrier = self._barrier(op, op.barriers, number, np.array([thread]))
            if barrier is None:
                continue
            if not barrier.is_fenced:
                self.report(
                    HazardKind.MISSING_FENCE,
                    (op, barrier.set_up),
                    f"{named(op)} counts its bytes at {barrier.name}, which bulk copies may not "
                    f"see yet: no mbarrier_init_fence stands behind {named(barrier.set_up)}",
                )
            for event in self._events(op, np.array([thread]), role):
                epoch = barrier.completed + 1
                self.memory.write(event, self._under_way(), barrier.component, epoch)
            barrier.copied += op.bytes
            self._complete(op, barrier)

    @_act.register
    def _(self, op: te.BulkStoreOp, threads: Rows, role: Role) -> None:
        role.stores += self._engine_reads(op, threads, role)

    @_act.register
    def _(self, op: te.BulkCommitOp, threads: Rows, role: Role) -> None:
        role.store_groups.append(role.stores)
        role.stores = []

    @_act.register
    def _(self, op: te.BulkWaitOp, threads: Rows, role: Role) -> None:
        self._finish(role.store_groups, op.groups)

    @_act.register
    def _(self, op: te.WarpgroupMmaOp, threads: Rows, role: Role) -> None:
        if len(threads) % GROUP_THREADS:
            self.report(
                HazardKind.PROTOCOL,
                (op,),
                f"{named(op)} is an instruction of {GROUP_THREADS} threads, and {len(threads)} "
                "come to it",
            )
            return
        if not role.is_fenced:
            self.report(
                HazardKind.MISSING_FENCE,
                (op,),
                f"{named(op)} adds to {source_name(_whole(op.sums))}, which was touched, and no "
                "'warpgroup.fence' stands between",
            )
        # Of each warp its first thread stands for all: they run the instruction together.
        role.products += self._engine_reads(op, threads[::WARP], role)

    @_act.register
    def _(self, op: te.WarpgroupFenceOp, threads: Rows, role: Role) -> None:
        role.is_fenced = True

    @_act.register
    def _(self, op: te.WarpgroupCommitOp, threads: Rows, role: Role) -> None:
        role.product_groups.append(role.products)
        role.products = []

    @_act.register
    def _(self, op: te.WarpgroupWaitOp, threads: Rows, role: Role) -> None:
        self._finish(role.product_groups, op.groups)

    def _engine_reads(self, op: Operation, threads: Rows, role: Role) -> list[Event]:
        events = list(self._events(op, threads, role))
        for event in events:
            self.memory.check_written(event)
            self.memory.check_fence(event)
            event.epochs = np.full(len(event.places), NEVER)
        return events

    def _finish(self, groups: deque[list[Event]], left: int) -> None:
        """What engines read of the older groups has been read, as its threads know."""
        while len(groups) > left:
            for event in groups.popleft():
                event.epochs = self.memory.epochs_of(event.threads)
                self.memory.reads.append(event)

    # Memory.

    def _events(self, op: Operation, threads: Rows, role: Role) -> Iterator[Event]:
        """What an operator touches of shared memory now, by these threads."""
        for access in self._accesses_of(op):
            points = self._points(threads, role)
            first = np.array(0, np.int64)
            for expression, extent in zip(access.expressions, access.extents, strict=True):
                first = first * extent + evaluate(expression, list(access.indices), points)
            yield self._event_at(access, np.broadcast_to(first, threads.shape), threads)

    def _event_at(self, access: Access, first: Rows, threads: Rows) -> Event:
        """What an access touches from an element on: the same rows in every turn of a ring."""
        key = (id(access), first.tobytes(), threads.tobytes())
        if key not in self._known:
            offsets = np.arange(access.box[0]) if access.offsets is None else access.offsets
            numbers = first[:, None] + np.array(offsets)
            every = np.repeat(threads, numbers.shape[1])
            self._known[key] = self.memory.event(access, every, numbers.reshape(-1))
        return replace(self._known[key], epochs=self.memory.epochs_of(self._known[key].threads))

    def _accesses_of(self, op: Operation) -> list[Access]:
        if op not in self._accesses:
            self._accesses[op] = [
                one for one in accesses_of(op) if one.type.memory_space is te.Space.SHARED
            ]
        return self._accesses[op]

    def _touch(self, op: Operation, role: Role) -> None:
        """All that ordinary accesses of an operator, or of those in it, touch."""
        self._check_sums(op, role)
        thread = self.holder.variable
        for access in self._accesses_of(op):
            rows = rows_of(access, (thread,), role.values)
            mine = np.isin(rows.values[thread], role.threads)
            if not mine.any():
                continue
            event = self.memory.event(access, rows.values[thread][mine], rows.numbers[mine])
            if access.writes:
                self.memory.write(event, self._under_way())
            else:
                self.memory.check_written(event)
                event.settled = np.full(len(event.places), NEVER)
                self.memory.reads.append(event)

    def _under_way(self) -> list[Event]:
        """What engines read still; now and then, reads that all know of are dropped."""
        if self._live and len(self.memory.reads) > _MANY:
            running = [role.threads for role in self._live]
            self.memory.drop_known(np.concatenate(running))
        return [one for role in self.roles for one in role.under_way()]

    def _check_sums(self, op: Operation, role: Role) -> None:
        """Looks whether an operator touches sums of products that are under way."""
        touched = [one.buffer for one in te.touches_in(op) if one.buffer in self._sums]
        if not touched:
            return
        role.is_fenced = False
        for event in role.under_way():
            product = event.access.op
            if isinstance(product, te.WarpgroupMmaOp) and _whole(product.sums) in touched:
                self.report(
                    HazardKind.IN_FLIGHT,
                    (op, product),
                    f"{named(op)} uses {source_name(_whole(product.sums))}, to which "
                    f"{named(product)} may still be adding: no 'warpgroup.wait_group' between "
                    "covers it",
                )

    def _report_deadlock(self) -> None:
        waiting = [role for role in self._live if role.waits_at is not None]
        ops = tuple(dict.fromkeys(one.waits_at for one in waiting if one.waits_at is not None))
        parts = [
            f"thread {role.threads[0]} at {named(role.waits_at)}{_iterations(role)}"
            for role in waiting
            if role.waits_at is not None
        ]
        self.report(HazardKind.DEADLOCK, ops, f"threads wait for ever: {', '.join(parts)}")

    def _check_unfinished(self) -> None:
        left = [(one.access, "reading") for one in self._under_way()]
        left += [(one, "writing") for one in self.memory.unfinished()]
        for access, verb in left:
            self.report(
                HazardKind.IN_FLIGHT,
                (access.op,),
                f"{named(access.op)} may still be {verb} {source_name(access.buffer)} when the "
                "kernel ends: nothing waits for it",
            )


def _whole(value: SSAValue) -> SSAValue:
    """The buffer that a section is of."""
    return value.owner.buffer if isinstance(value.owner, te.SectionOp) else value


def _iterations(role: Role) -> str:
    """Where in its loops a role is."""
    loops = [
        f"{value.name_hint or 'k'} = {number}"
        for value, number in role.values.items()
        if value.name_hint != "block"
    ]
    return f" where {', '.join(loops)}" if loops else ""


__all__ = ["HandOver"]
