"""One block's program, followed from barrier to barrier."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.programming_model import WARP
from mugraph.dialects.te import (
    AccessKind,
    AllReduceOp,
    BarrierOp,
    CommitOp,
    CopyAsyncOp,
    IfOp,
    KernelOp,
    NewOp,
    Scope,
    SeqOp,
    Space,
    WaitOp,
)
from mugraph.dialects.te.points import all_hold
from mugraph.dialects.tensor_types import element_bytes_of, source_name
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.texpr.analysis.domains import Access, accesses_of, domain_of
from mugraph.passes.texpr.analysis.evaluate import addresses_of_numbers, variables_of
from mugraph.passes.texpr.analysis.hazards.grid import race_kind
from mugraph.passes.texpr.analysis.hazards.pairs import conflicts
from mugraph.passes.texpr.analysis.hazards.touches import (
    IntArray,
    class_of,
    describe,
    rows_of,
    variables_used,
)
from mugraph.passes.texpr.te_promote import OFFSET

_REPEATS = 4
"""Iterations of a loop that all touch the same: pairs of neighbouring ones have fewest barriers
between them."""


@dataclass(frozen=True)
class Touched:
    """What an operator touches at one moment, a row a thread and granule of memory."""

    access: Access
    threads: IntArray
    numbers: IntArray
    places: IntArray


@dataclass
class BlockRun:
    """A run of a block; ``without`` is a barrier to leave out.

    ``passed`` are the buffers in device memory that are followed beside those in shared memory.
    """

    kernel: KernelOp
    passed: frozenset[SSAValue]
    number: int
    without: Operation | None = None
    _moments: list[tuple[Touched, int]] = field(default_factory=list[tuple[Touched, int]])
    """What was touched since the last barrier of the block, with the barriers of warps before."""
    _warp_barriers: int = 0
    _known: dict[tuple[object, ...], list[Touched]] = field(
        default_factory=dict[tuple[object, ...], list[Touched]]
    )
    _found: list[Finding] = field(default_factory=list[Finding])
    _begun: list[Touched] = field(default_factory=list[Touched])
    """What asynchronous copies touch whose group is not closed yet."""
    _groups: list[list[Touched]] = field(default_factory=list[list[Touched]])
    """What those of closed groups touch until the wait that they have landed behind."""

    def __post_init__(self) -> None:
        self.values: dict[SSAValue, int] = {self.kernel.variable: self.number}
        self.holder = self.kernel.threads
        buffers = [
            op.result
            for op in self.kernel.walk()
            if isinstance(op, NewOp) and op.result.type.memory_space is Space.SHARED
        ]
        sizes = [element_bytes_of(one.type) for one in buffers]
        self.granule = min(sizes, default=4)
        self._spaces = {
            buffer: 1 + place
            for place, buffer in enumerate(sorted(self.passed, key=lambda one: one.name_hint or ""))
        }

    def findings(self) -> list[Finding]:
        """The hazards of the block."""
        self.block(self.holder.body.block)
        self.meet()
        return self._found

    def block(self, block: Block) -> None:
        """Runs the operators of a block in order."""
        for op in block.ops:
            self.run(op)

    @singledispatchmethod
    def run(self, op: Operation) -> None:
        """Notes what an operator touches; a loop or condition without barriers is one."""
        self.touch(op)

    @run.register
    def _(self, op: SeqOp) -> None:
        if not _has_meeting(op):
            self.touch(op)
            return
        count = op.iterations
        if not any(op.variable in variables_used(one) for one in self.followed(op)):
            count = min(count, _REPEATS)
        for iteration in range(count):
            self.values[op.variable] = iteration
            self.block(op.body.block)
        del self.values[op.variable]

    @run.register
    def _(self, op: IfOp) -> None:
        if not _has_meeting(op):
            self.touch(op)
            return
        variables = set(variables_of(list(op.indices)))
        if self.holder.variable in variables:
            message = (
                "a barrier stands under a condition on the thread: threads for which it does not "
                "hold never come to it"
            )
            self._found.append(Finding(HazardKind.DIVERGENT_BARRIER, (op,), message))
            return
        points = {one: np.array(value, np.int64) for one, value in self.values.items()}
        if all_hold([op], points):
            self.block(op.body.block)

    @run.register
    def _(self, op: BarrierOp) -> None:
        if op is self.without:
            return
        if op.threads is Scope.BLOCK:
            self.meet()
        else:
            self._warp_barriers += 1

    @run.register
    def _(self, op: CommitOp) -> None:
        self._groups.append(self._begun)
        self._begun = []

    @run.register
    def _(self, op: WaitOp) -> None:
        while len(self._groups) > op.groups:
            for touched in self._groups.pop(0):
                self.note(touched)

    @run.register
    def _(self, op: AllReduceOp) -> None:
        # As the function of the runtime does it: the first lane of each warp writes, all read.
        threads = self.holder.iterations
        if op.scratch is None or threads <= WARP or op.threads is Scope.WARP:
            self._warp_barriers += 1
            return
        if any(isinstance(one, SeqOp) for one in domain_of(op).loops):
            self.meet()
        warps = -(-threads // WARP)
        leaders, numbers = np.arange(warps) * WARP, np.arange(warps)
        self.note(self.scratch(op, AccessKind.WRITE, leaders, numbers))
        self.meet()
        everyone = np.repeat(np.arange(threads), warps)
        self.note(self.scratch(op, AccessKind.READ, everyone, np.tile(numbers, threads)))

    def scratch(
        self, op: AllReduceOp, kind: AccessKind, threads: IntArray, numbers: IntArray
    ) -> Touched:
        """An access of a reduction to its numbers of the warps."""
        assert op.scratch is not None
        access = Access(op.scratch, kind, (), (), (), op=op, domain=domain_of(op))
        return self.touched(access, threads, numbers)

    def followed(self, op: Operation) -> list[Access]:
        """The accesses in an operator to memory that is followed."""
        return [
            one
            for one in accesses_of(op)
            if one.type.memory_space is Space.SHARED or one.buffer in self.passed
        ]

    def touch(self, op: Operation) -> None:
        """Notes all that an operator touches now."""
        accesses = self.followed(op)
        used = {one for access in accesses for one in variables_used(access)}
        key = (op, *(self.values[one] for one in self.values if one in used))
        if key not in self._known:
            thread = self.holder.variable
            self._known[key] = [
                self.touched(access, rows.values[thread], rows.numbers)
                for access in accesses
                for rows in (rows_of(access, (thread,), self.values),)
            ]
        for touched in self._known[key]:
            self.check_own(touched)
            self.note(touched)
        self._begun += [
            touched for touched in self._known[key] if isinstance(touched.access.op, CopyAsyncOp)
        ]

    def touched(self, access: Access, threads: IntArray, numbers: IntArray) -> Touched:
        """Rows by thread and element as rows by granule of memory."""
        type_ = access.type
        size = element_bytes_of(type_)
        addresses = addresses_of_numbers(type_, numbers) * size
        space = self._spaces.get(access.buffer, 0)
        granule = size
        if not space:
            granule = self.granule
            addresses = addresses + _offset(access.buffer)
        parts = size // granule
        places = (addresses[:, None] // granule + np.arange(parts)).reshape(-1)
        return Touched(
            access,
            np.repeat(threads, parts),
            np.repeat(numbers, parts),
            places + (space << 48),
        )

    def note(self, touched: Touched) -> None:
        """Adds to what was touched since the last barrier."""
        self._moments.append((touched, self._warp_barriers))

    def under_way(self) -> list[Touched]:
        """What asynchronous copies may touch at any time now."""
        return [touched for group in (*self._groups, self._begun) for touched in group]

    def check_own(self, touched: Touched) -> None:
        """Looks for what a thread touches while its own copy is under way."""
        for begun in self.under_way():
            if not (begun.access.writes or touched.access.writes):
                continue
            threads = self.holder.iterations
            mine = begun.places * threads + begun.threads
            own = touched.places * threads + touched.threads
            _, first, second = np.intersect1d(mine, own, return_indices=True)
            if len(first):
                one, other = int(first[0]), int(second[0])
                self.report(
                    (begun.access, int(begun.threads[one]), int(begun.numbers[one])),
                    (touched.access, int(touched.threads[other]), int(touched.numbers[other])),
                )

    def meet(self) -> None:
        """All threads of the block meet: what was touched until now is held against itself."""
        moments, self._moments = self._moments, []
        if any(len(touched.places) for touched, _ in moments):
            self.compare(moments)
        for touched in self.under_way():
            self.note(touched)

    def compare(self, moments: list[tuple[Touched, int]]) -> None:
        """Looks for two threads that touch the same with nothing between to order them."""
        sizes = [len(touched.places) for touched, _ in moments]
        which = np.repeat(np.arange(len(moments)), sizes)
        places = np.concatenate([touched.places for touched, _ in moments])
        threads = np.concatenate([touched.threads for touched, _ in moments])
        numbers = np.concatenate([touched.numbers for touched, _ in moments])
        classes = np.repeat([class_of(touched.access) for touched, _ in moments], sizes)
        epochs = np.repeat([epoch for _, epoch in moments], sizes)
        warps = threads // WARP
        found = conflicts(places, warps, classes)
        # Within a warp, what its own barriers do not order: places of its own in each epoch.
        _, distinct = np.unique(places, return_inverse=True)
        epochs = epochs - epochs.min()
        local = (distinct.reshape(-1) * WARP + warps) * (1 + epochs.max()) + epochs
        found += conflicts(local, threads, classes)
        for one, other in found:
            self.report(
                (moments[int(which[one])][0].access, int(threads[one]), int(numbers[one])),
                (moments[int(which[other])][0].access, int(threads[other]), int(numbers[other])),
            )

    def report(self, first: tuple[Access, int, int], second: tuple[Access, int, int]) -> None:
        """Adds a finding; the first access stands before the second, or in an earlier iteration."""
        one, thread, number = first
        other, against, element = second
        scope = "warp" if thread // WARP == against // WARP else "block"
        missing = f"no barrier of the {scope} orders them"
        if thread == against:
            missing = "no 'te.wait' for the copy stands between them"
        message = (
            f"{describe(one, number)} in thread {thread}; {describe(other, element)} in thread "
            f"{against}, and {missing}"
        )
        self._found.append(
            Finding(race_kind(one, other), (other.op, one.op), message, (against, thread), number)
        )


def _has_meeting(op: Operation) -> bool:
    meetings = (BarrierOp, AllReduceOp, CommitOp, WaitOp)
    return any(isinstance(inner, meetings) for inner in op.walk())


def _offset(buffer: SSAValue) -> int:
    owner = buffer.owner
    offset = owner.attributes.get(OFFSET) if isinstance(owner, NewOp) else None
    if not isinstance(offset, IntegerAttr):
        name = source_name(buffer)
        raise PassFailedException(f"shared buffer {name} has no place; run --te-promote before")
    return offset.value.data
