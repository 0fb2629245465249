"""Hazards of one block: all that its threads touch, and clocks that say what is ordered.

The block is run in turns; so are those of a cluster that share anything, together.  Of each two
touches of one place the clocks say whether another order could turn them round.  Copies of threads,
bulk copies and products of warp groups touch until they have been waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import singledispatchmethod

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.programming_model import GROUP_THREADS, WARP
from mugraph.dialects.te.points import Rows, all_hold
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.domains import accesses_of, domain_of
from mugraph.passes.texpr.analysis.evaluate import variables_of
from mugraph.passes.texpr.analysis.hazards.clocks import Clocks
from mugraph.passes.texpr.analysis.hazards.followed import BY_PHASES, FOLLOWED
from mugraph.passes.texpr.analysis.hazards.grid import blocks_followed
from mugraph.passes.texpr.analysis.hazards.mbarriers import Mbarriers
from mugraph.passes.texpr.analysis.hazards.parts import Parts
from mugraph.passes.texpr.analysis.hazards.role import FollowedRole
from mugraph.passes.texpr.analysis.hazards.shadow import NEVER, Event, Shadow
from mugraph.passes.texpr.analysis.hazards.sums import Sums
from mugraph.passes.texpr.analysis.hazards.touched import Touched
from mugraph.passes.texpr.analysis.hazards.touches import named, rows_of, variables_used
from mugraph.passes.texpr.analysis.roles import roles_of, takes_turns
from mugraph.passes.texpr.analysis.turns import Course, Turns

_BARRIERS = 16
"""The barriers that a block has at most, by number."""
_MANY = 96
"""Reads after which those that all threads know of are dropped."""
_REPEATS = 4
"""Iterations of a loop that all touch the same: pairs of neighbouring ones have fewest barriers
between them."""


class BlockRun(Turns[FollowedRole, Rows]):
    """A run of a block of a kernel, or of a cluster; ``without`` is a barrier to leave out.

    ``number`` is that of the block, or of the cluster where its blocks share anything.
    ``passed`` are the buffers in device memory that are followed beside those in shared memory.
    """

    def __init__(
        self,
        kernel: te.KernelOp,
        passed: frozenset[SSAValue],
        number: int,
        without: Operation | None = None,
    ) -> None:
        super().__init__(kernel.threads)
        self.kernel = kernel
        self.passed = passed
        self.without = without
        self.blocks = blocks_followed(kernel)
        threads = self.holder.iterations * self.blocks
        first: dict[SSAValue, int] = {}
        agents = threads
        for op in kernel.walk():
            if isinstance(op, te.NewMbarriersOp):
                first[op.result] = agents
                agents += op.result.type.count
        self._copies = agents
        """The component of clocks that the copies of the first thread have."""
        if any(isinstance(op, te.AsyncCopy) for op in kernel.walk()):
            agents += threads
        self._closed = np.zeros(threads, np.int64)
        """How many groups of copies each thread has closed."""
        self.clocks = Clocks(threads, agents - threads)
        numbers = range(number * self.blocks, (number + 1) * self.blocks)
        elements = self._elements_of(numbers)
        self.memory = Shadow(kernel, self.clocks, elements, self.report, self.blocks)
        self.touched = Touched(self.holder.variable, passed, self.memory, self.report)
        self.parts = Parts(self.clocks, self.blocks, self.report)
        self.mbarriers = Mbarriers(first, self.clocks, self.memory, self.report)
        self.sums = Sums(kernel, self.report)
        self._found: dict[tuple[object, ...], Finding] = {}
        self._followed: dict[Operation, bool] = {}
        for rank, block in enumerate(numbers):
            begin = rank * self.holder.iterations
            for members in roles_of(self.holder):
                mine = members + begin
                self.begin(FollowedRole(mine, {kernel.variable: block}, begin), mine)

    def findings(self) -> list[Finding]:
        """The hazards of the block."""
        if self.blocks > 1 and takes_turns(self.holder):
            self._report_not_followed()
        elif self.take_turns():
            self.parts.check_ends()
            self._check_unfinished()
        else:
            self._report_deadlock()
        return list(self._found.values())

    def report(
        self,
        kind: HazardKind,
        operations: tuple[Operation, ...],
        message: str,
        threads: tuple[int, ...] = (),
        address: int | None = None,
    ) -> None:
        """Adds a finding, once for a kind and its operators."""
        found = Finding(kind, operations, message, threads, address)
        self._found.setdefault((kind, *operations), found)

    def _elements_of(self, blocks: Sequence[int]) -> dict[SSAValue, Rows]:
        """The elements of each buffer in device memory that the blocks touch, in order."""
        found: dict[SSAValue, list[Rows]] = {buffer: [] for buffer in self.passed}
        for access in accesses_of(self.kernel):
            if access.buffer in found:
                for block in blocks:
                    fixed = {self.kernel.variable: block}
                    found[access.buffer].append(rows_of(access, (), fixed).numbers)
        return {buffer: np.unique(np.concatenate(rows)) for buffer, rows in found.items()}

    # Control.

    def _has_steps(self, op: Operation) -> bool:
        if op not in self._followed:
            self._followed[op] = any(
                isinstance(one, FOLLOWED) or self._may_part_warps(one) for one in op.walk()
            )
        return self._followed[op]

    def _may_part_warps(self, op: Operation) -> bool:
        """Whether an instruction of a warp stands under a condition on the thread."""
        if not isinstance(op, te.AsmOp) or not op.is_of_warp:
            return False
        found = [index for one in domain_of(op).conditions for index in one.indices]
        return self.holder.variable in variables_of(found)

    def is_followed(self, op: Operation) -> bool:
        """Whether anything in it is more than touches of elements; the text's steps always."""
        return op is not self.without and (isinstance(op, te.StepOp) or self._has_steps(op))

    def iterations(self, op: te.SeqOp, state: Rows, role: FollowedRole) -> Iterator[Rows]:
        """Those that are not like others."""
        for iteration in range(self._iterations(op)):
            role.values[op.variable] = iteration
            yield state
        del role.values[op.variable]

    def chosen(self, op: te.IfOp | te.WhenOp, state: Rows, role: FollowedRole) -> Rows | None:
        """The threads of a role for which a condition holds; all where it is on numbers."""
        if isinstance(op, te.WhenOp):
            return state
        found = state[self._holds(op, state, role)]
        return found if len(found) else None

    def meet_all(self, op: Operation, state: Rows, role: FollowedRole) -> Course:
        """Waits for all threads of the block or cluster, where all can come."""
        if not self._all_come(op, state, role):
            return
        if isinstance(op, te.BarrierOp) and op.threads is te.Scope.CLUSTER:
            yield from super().meet(op, role, -1, self.holder.iterations * self.blocks)
        else:
            yield from super().meet_all(op, state, role)

    def meet(self, op: Operation, role: FollowedRole, number: int, threads: int) -> Course:
        """As often to a barrier of the same block."""
        yield from super().meet(op, role, number + role.first * _BARRIERS, threads)

    def _iterations(self, op: te.SeqOp) -> int:
        """How many iterations of a loop are followed."""
        inner = list(op.walk())
        if any(isinstance(one, BY_PHASES) for one in inner):
            return op.iterations
        used = {one for access in self.touched.accesses_of(op) for one in variables_used(access)}
        conditions = [one for one in inner if isinstance(one, te.IfOp) and self._has_steps(one)]
        used.update(one for found in conditions for one in variables_of(list(found.indices)))
        return op.iterations if op.variable in used else min(op.iterations, _REPEATS)

    def _all_come(self, op: Operation, threads: Rows, role: FollowedRole) -> bool:
        """Whether no condition on the thread stands around a barrier of the block."""
        if len(threads) < len(role.threads):
            self.report(
                HazardKind.DIVERGENT_BARRIER,
                (op,),
                "a barrier stands under a condition on the thread: threads for which it does not "
                "hold never come to it",
            )
            return False
        return True

    def _holds(self, op: te.IfOp, threads: Rows, role: FollowedRole) -> npt.NDArray[np.bool_]:
        return np.broadcast_to(all_hold([op], self.touched.points(threads, role)), threads.shape)

    def arrive(
        self, op: Operation, role: FollowedRole, come: Sequence[FollowedRole], threads: int
    ) -> None:
        """Those that meet know of each other once all have come."""
        self.memory.settle(role.threads)
        if (count := sum(len(one.threads) for one in come)) > threads:
            self.report(
                HazardKind.PROTOCOL,
                (op,),
                f"{count} threads come to {named(op)}, which {threads} wait at: some go on before "
                "all have come",
            )
        if count >= threads:
            self.clocks.meet(np.sort(np.concatenate([one.threads for one in come])))
            if threads >= self.holder.iterations:
                self._drop_known()

    def reduce(self, op: te.AllReduceOp, state: Rows, role: FollowedRole) -> Course:
        """As the function of the runtime: the first lane of each warp writes, all read."""
        threads = self.holder.iterations
        if not self._all_come(op, state, role):
            return
        if op.scratch is None or threads <= WARP or op.threads is te.Scope.WARP:
            self.clocks.meet_in_warps(role.threads)
            return
        if any(isinstance(one, te.SeqOp) for one in domain_of(op).loops):
            yield from self.meet(op, role, 0, threads)
        numbers = np.arange(-(-threads // WARP))
        self._touch_scratch(op, te.AccessKind.WRITE, numbers * WARP + role.first, numbers, role)
        yield from self.meet(op, role, 0, threads)
        everyone = np.repeat(np.arange(threads) + role.first, len(numbers))
        self._touch_scratch(op, te.AccessKind.READ, everyone, np.tile(numbers, threads), role)

    def _touch_scratch(
        self,
        op: te.AllReduceOp,
        kind: te.AccessKind,
        threads: Rows,
        numbers: Rows,
        role: FollowedRole,
    ) -> None:
        event = self.touched.by_reduction(op, kind, threads, numbers, role)
        self.memory.touch(event, self._under_way())

    # What threads do about mbarriers, and within their warps.

    def _numbers(self, op: te.MbarrierOp, threads: Rows, role: FollowedRole) -> Rows:
        return self.touched.at_threads(op.number, list(op.indices), threads, role)

    def passes(self, op: te.MbarrierWaitOp, state: Rows, role: FollowedRole) -> bool:
        """Whether the threads go on."""
        parities = self.touched.at_threads(op.parity, list(op.parity_indices), state, role)
        return self.mbarriers.passes(op, state, self._numbers(op, state, role), parities)

    def act(self, op: Operation, state: Rows, role: FollowedRole) -> None:
        """What threads touch or tell each other; nothing where the operator is left out."""
        if op is not self.without:
            self._act(op, state, role)

    @singledispatchmethod
    def _act(self, op: Operation, threads: Rows, role: FollowedRole) -> None:
        self._touch(op, role)

    @_act.register
    def _(self, op: te.MbarrierInitOp, threads: Rows, role: FollowedRole) -> None:
        self.mbarriers.set_up(op, threads, self._numbers(op, threads, role))

    @_act.register
    def _(self, op: te.MbarrierFenceOp, threads: Rows, role: FollowedRole) -> None:
        self.mbarriers.fence(threads)

    @_act.register
    def _(self, op: te.MbarrierArriveOp, threads: Rows, role: FollowedRole) -> None:
        self.mbarriers.arrive(op, threads, self._numbers(op, threads, role))

    @_act.register
    def _(self, op: te.BarrierOp, threads: Rows, role: FollowedRole) -> None:
        if self._are_whole(op, threads):
            self.clocks.meet_in_warps(threads)

    @_act.register
    def _(self, op: te.AsmOp, threads: Rows, role: FollowedRole) -> None:
        if not op.is_of_warp or self._are_whole(op, threads):
            self._touch(op, role)

    @_act.register
    def _(self, op: te.ProxyFenceOp, threads: Rows, role: FollowedRole) -> None:
        self.memory.fence(threads)
        self.memory.settle(threads)

    @_act.register
    def _(self, op: te.CommitOp, threads: Rows, role: FollowedRole) -> None:
        self._closed[threads] += 1

    @_act.register
    def _(self, op: te.WaitOp, threads: Rows, role: FollowedRole) -> None:
        if self._copies < self.clocks.known.shape[1]:
            landed = self.clocks.known[threads, self._copies + threads]
            now = np.maximum(landed, self._closed[threads] - op.groups)
            self.clocks.known[threads, self._copies + threads] = now

    # What engines do.

    @_act.register
    def _(self, op: te.BulkLoadOp, threads: Rows, role: FollowedRole) -> None:
        numbers = self.touched.at_threads(op.number, list(op.barrier_indices), threads, role)
        for thread, number in zip(threads.tolist(), numbers.tolist(), strict=True):
            barrier = self.mbarriers.used(op, op.barriers, number, np.array([thread]))
            if barrier is None:
                continue
            if not barrier.is_fenced:
                self.report(
                    HazardKind.MISSING_FENCE,
                    (op, barrier.set_up),
                    f"{named(op)} counts its bytes at {barrier.name}, which bulk copies may not "
                    f"see yet: no mbarrier_init_fence stands behind {named(barrier.set_up)}",
                )
            for event in self.touched.by_engine(op, np.array([thread]), role):
                agents = np.full(len(event.places), barrier.component)
                event.epochs = np.full(len(event.places), barrier.completed + 1)
                self.memory.write(event, self._under_way(), agents)
            barrier.copied += op.bytes
            self.mbarriers.complete(op, barrier)

    @_act.register
    def _(self, op: te.BulkStoreOp, threads: Rows, role: FollowedRole) -> None:
        role.stores.begin(self._engine_reads(op, threads, role))

    @_act.register
    def _(self, op: te.BulkCommitOp, threads: Rows, role: FollowedRole) -> None:
        role.stores.commit(threads)

    @_act.register
    def _(self, op: te.BulkWaitOp, threads: Rows, role: FollowedRole) -> None:
        self._finish(role.stores.finish(threads, op.groups))

    @_act.register
    def _(self, op: te.WarpgroupMmaOp, threads: Rows, role: FollowedRole) -> None:
        if not self._are_whole(op, threads, GROUP_THREADS):
            return
        self.sums.require_fence(op, role)
        # Of each warp its first thread stands for all: they run the instruction together.
        role.products.begin(self._engine_reads(op, threads[::WARP], role))

    @_act.register
    def _(self, op: te.WarpgroupFenceOp, threads: Rows, role: FollowedRole) -> None:
        # Of some warps of a role it says nothing of the others.
        role.is_fenced = self._are_whole(op, threads) and len(threads) == len(role.threads)

    @_act.register
    def _(self, op: te.WarpgroupCommitOp, threads: Rows, role: FollowedRole) -> None:
        if self._are_whole(op, threads):
            role.products.commit(threads)

    @_act.register
    def _(self, op: te.WarpgroupWaitOp, threads: Rows, role: FollowedRole) -> None:
        if self._are_whole(op, threads):
            self._finish(role.products.finish(threads, op.groups))

    def _are_whole(self, op: Operation, threads: Rows, together: int = WARP) -> bool:
        """Whether warps, or groups, come to an instruction of theirs with all their threads."""
        everyone = self.holder.iterations
        _, counts = np.unique(threads // together, return_counts=True)
        parted = counts < min(together, everyone)
        if parted.any():
            self.report(
                HazardKind.DIVERGENT_BARRIER,
                (op,),
                f"{named(op)} is an instruction of {together} threads, and "
                f"{counts[parted][0]} of them come to it",
            )
        return not parted.any()

    def _engine_reads(self, op: Operation, threads: Rows, role: FollowedRole) -> list[Event]:
        events = list(self.touched.by_engine(op, threads, role))
        for event in events:
            self.memory.check_written(event)
            self.memory.check_fence(event)
            event.epochs = np.full(len(event.places), NEVER)
        return events

    def _finish(self, events: Sequence[Event]) -> None:
        """What engines read has been read, as its threads know."""
        for event in events:
            event.epochs = self.memory.epochs_of(event.threads)
            self.memory.others.append(event)

    # Memory.

    def _touch(self, op: Operation, role: FollowedRole) -> None:
        """All that ordinary accesses of an operator, or of those in it, touch."""
        self.sums.check(op, role)
        for event in self.touched.by_threads(op, role):
            self.parts.touch(event)
            if isinstance(event.access.op, te.AsyncCopy):
                event.epochs = self._closed[event.threads] + 1
                self.memory.write(event, self._under_way(), self._copies + event.threads)
            else:
                self.memory.touch(event, self._under_way())

    def _under_way(self) -> list[Event]:
        """What engines read still; now and then, reads that all know of are dropped."""
        if len(self.memory.others) > _MANY:
            self._drop_known()
        return [one for role in self.roles for one in role.under_way()]

    def _drop_known(self) -> None:
        if self.live:
            self.memory.drop_known(np.concatenate([role.threads for role in self.live]))

    def _report_not_followed(self) -> None:
        self.report(
            HazardKind.NOT_CHECKED,
            (self.kernel,),
            "blocks of a cluster share memory or wait for each other, and their threads hand over "
            "by instructions, which is not followed together",
        )

    def _report_deadlock(self) -> None:
        waiting = [role for role in self.live if role.waits_at is not None]
        ops = tuple(dict.fromkeys(one.waits_at for one in waiting if one.waits_at is not None))
        parts = [
            f"{self.memory.thread(role.threads[0])} at {named(role.waits_at)}{_iterations(role)}"
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


def _iterations(role: FollowedRole) -> str:
    """Where in its loops a role is."""
    loops = [
        f"{value.name_hint or 'k'} = {number}"
        for value, number in role.values.items()
        if value.name_hint != "block"
    ]
    return f" where {', '.join(loops)}" if loops else ""
