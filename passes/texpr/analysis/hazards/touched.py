"""What operators of a block that is followed touch, by the threads of a role."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects import te
from mugraph.dialects.te.points import Rows, evaluate
from mugraph.dialects.tensor_types import source_name
from mugraph.passes.memory.findings import HazardKind
from mugraph.passes.texpr.analysis.domains import Access, accesses_of, domain_of
from mugraph.passes.texpr.analysis.hazards.grid import ON_CHIP
from mugraph.passes.texpr.analysis.hazards.role import FollowedRole
from mugraph.passes.texpr.analysis.hazards.shadow import Event, Report, Shadow
from mugraph.passes.texpr.analysis.hazards.touches import named, rows_of, variables_used


class Touched:
    """What operators touch; the rows are found once where they are the same.

    ``thread`` is the variable of the threads of a block, ``passed`` are the buffers in device
    memory that are followed beside those in shared memory.
    """

    def __init__(
        self, thread: SSAValue, passed: frozenset[SSAValue], memory: Shadow, report: Report
    ) -> None:
        self.thread = thread
        self.passed = passed
        self.memory = memory
        self.report = report
        self._accesses: dict[Operation, list[Access]] = {}
        self._known: dict[tuple[object, ...], list[Event]] = {}
        self._boxes: dict[tuple[int, bytes, bytes], Event] = {}

    def accesses_of(self, op: Operation) -> list[Access]:
        """The accesses in an operator that are followed."""
        if op not in self._accesses:
            self._accesses[op] = [
                one
                for one in accesses_of(op)
                if one.type.memory_space in ON_CHIP or one.buffer in self.passed
            ]
        return self._accesses[op]

    def points(self, threads: Rows, role: FollowedRole) -> dict[SSAValue, Rows]:
        """The values of all variables for threads of a role."""
        points = {one: np.array(value, np.int64) for one, value in role.values.items()}
        return {**points, self.thread: threads - role.first}

    def at_threads(
        self, expression: AffineExpr, operands: list[SSAValue], threads: Rows, role: FollowedRole
    ) -> Rows:
        """What an index expression is for each thread."""
        found = evaluate(expression, operands, self.points(threads, role))
        return np.broadcast_to(found, threads.shape)

    def now(self, event: Event) -> Event:
        """What threads touch again, in the epochs that they are in."""
        return replace(event, epochs=self.memory.epochs_of(event.threads))

    def by_threads(self, op: Operation, role: FollowedRole) -> Iterator[Event]:
        """What ordinary accesses of an operator, or of those in it, touch now."""
        accesses = self.accesses_of(op)
        used = {one for access in accesses for one in variables_used(access)}
        key = (op, role, *(role.values[one] for one in role.values if one in used))
        if key not in self._known:
            self._known[key] = []
            for access in accesses:
                rows = rows_of(access, (self.thread,), role.values)
                threads = rows.values[self.thread] + role.first
                mine = np.isin(threads, role.threads)
                if mine.any():
                    found = self.memory.event(access, threads[mine], rows.numbers[mine])
                    self._known[key].append(found)
        for event in self._known[key]:
            yield self.now(event)

    def by_engine(self, op: Operation, threads: Rows, role: FollowedRole) -> Iterator[Event]:
        """What an operator of an engine touches of shared memory now, by these threads."""
        for access in self.accesses_of(op):
            if access.buffer in self.passed:
                self._report_engine(access)
                continue
            points = self.points(threads, role)
            first = np.array(0, np.int64)
            for expression, extent in zip(access.expressions, access.extents, strict=True):
                first = first * extent + evaluate(expression, list(access.indices), points)
            found = self._box_at(access, np.broadcast_to(first, threads.shape), threads)
            yield self.now(found)

    def _box_at(self, access: Access, first: Rows, threads: Rows) -> Event:
        """What an access touches from an element on: the same rows in every turn of a ring."""
        key = (id(access), first.tobytes(), threads.tobytes())
        if key not in self._boxes:
            offsets = np.arange(access.box[0]) if access.offsets is None else access.offsets
            numbers = first[:, None] + np.array(offsets)
            every = np.repeat(threads, numbers.shape[1])
            self._boxes[key] = self.memory.event(access, every, numbers.reshape(-1))
        return self._boxes[key]

    def by_reduction(
        self,
        op: te.AllReduceOp,
        kind: te.AccessKind,
        threads: Rows,
        numbers: Rows,
        role: FollowedRole,
    ) -> Event:
        """What a reduction over threads touches of its memory now: of each thread an element."""
        assert op.scratch is not None
        access = Access(op.scratch, kind, (), (), (), op=op, domain=domain_of(op))
        return self.now(self.memory.event(access, threads, numbers))

    def _report_engine(self, access: Access) -> None:
        self.report(
            HazardKind.NOT_CHECKED,
            (access.op,),
            f"threads of a block pass elements of {source_name(access.buffer)} on through device "
            f"memory, and {named(access.op)} touches them, which is not followed there",
        )
