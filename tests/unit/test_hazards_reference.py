"""The hazard checker against a naive one: every iteration, every byte and every thread by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import hypothesis.strategies as st
import numpy as np
from access_cases import parse
from hazard_kernels import (
    BARRIER,
    COMMIT,
    FILL_FRAGMENT,
    HALVES,
    MAKE_FRAGMENT,
    ROWS,
    add_up,
    alloc,
    exp,
    kernel_of,
    kernel_text,
    load,
    save,
    tile_type,
    wait,
)
from hypothesis import HealthCheck, given, settings
from thorough import inputs
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.sched import AccessKind, Proxy, ThreadAccess, start_bytes
from mugraph.passes.schedule.analysis.hazards import HazardKind, find_hazards, read_program
from mugraph.passes.schedule.analysis.hazards.simulate import Simulation

Threads = dict[int, set[int]]
"""Which threads touch each byte of shared memory."""
VALUE_KINDS = {HazardKind.NEVER_WRITTEN, HazardKind.OVERWRITTEN, HazardKind.WRONG_TILE}


@dataclass(eq=False)
class Touched:
    access: ThreadAccess
    threads: Threads
    meant: int

    @property
    def op(self) -> Operation:
        return self.access.operation


@dataclass
class Naive:
    """Follows a schedule in program order and asks of every pair of accesses what orders them."""

    reads: list[Touched] = field(default_factory=list[Touched])
    writes: list[Touched] = field(default_factory=list[Touched])
    uncommitted: list[Touched] = field(default_factory=list[Touched])
    groups: list[list[Touched]] = field(default_factory=list[list[Touched]])
    last: dict[int, tuple[Operation, int | None]] = field(
        default_factory=dict[int, "tuple[Operation, int | None]"]
    )
    order: set[tuple[HazardKind, Operation, Operation]] = field(
        default_factory=set["tuple[HazardKind, Operation, Operation]"]
    )
    values: set[tuple[HazardKind, Operation]] = field(
        default_factory=set["tuple[HazardKind, Operation]"]
    )

    def run(self, kernel: sched.KernelOp) -> None:
        for op in kernel.body.block.ops:
            if isinstance(op, sched.PhaseOp):
                self.steps(list(op.body.block.ops), 0, 1)
            elif isinstance(op, sched.ForloopOp):
                for iteration in range(op.iterations):
                    self.steps(list(op.body.block.ops), iteration, op.iterations)

    def steps(self, ops: list[Operation], iteration: int, iterations: int) -> None:
        for op in ops:
            if isinstance(op, sched.BarrierOp):
                self.reads, self.writes = [], []
            elif isinstance(op, sched.CommitOp):
                self.groups.append(self.uncommitted)
                self.uncommitted = []
            elif isinstance(op, sched.WaitOp):
                while len(self.groups) > op.pending_groups:
                    self.writes += self.groups.pop(0)
            elif isinstance(op, sched.HasThreadAccesses):
                self.touch(op, iteration, iterations)

    def touch(self, op: sched.HasThreadAccesses, iteration: int, iterations: int) -> None:
        touched = [
            Touched(access, bytes_of(access, iteration), access.stage.iteration_at(iteration))
            for access in op.thread_accesses()
            if not access.in_device_memory and access.stage.happens_at(iteration, iterations)
        ]
        reads = [one for one in touched if one.access.kind is AccessKind.READ]
        writes = [one for one in touched if one.access.kind is AccessKind.WRITE]
        for one in reads:
            self.against(one, self.writes, HazardKind.READ_AFTER_WRITE)
            self.in_flight(one)
            self.value(one)
        self.reads += reads
        for one in writes:
            self.against(one, self.writes, HazardKind.WRITE_AFTER_WRITE)
            self.against(one, self.reads, HazardKind.WRITE_AFTER_READ)
            self.in_flight(one)
            self.own_reads(one, reads)
        for one in writes:
            owner = one.access.value.owner
            assert isinstance(owner, sched.AllocOp)
            moves = any(
                isinstance(operand.owner, sched.LocalTileOp) and operand.owner.loop_dim >= 0
                for operand in op.operands
            )
            for byte in one.threads:
                self.last[byte] = (owner, one.meant if moves else None)
            is_async = one.access.proxy is Proxy.ASYNC_COPY
            (self.uncommitted if is_async else self.writes).append(one)

    def against(self, one: Touched, others: list[Touched], kind: HazardKind) -> None:
        for other in others:
            if any(
                len(threads | other.threads[byte]) > 1
                for byte, threads in one.threads.items()
                if byte in other.threads
            ):
                self.order.add((kind, one.op, other.op))

    def own_reads(self, write: Touched, reads: list[Touched]) -> None:
        """An operator must not write what it reads through another buffer, but in place."""
        for read in reads:
            same = write.access.value is read.access.value
            in_place = np.array_equal(write.access.offsets, read.access.offsets) and min(
                write.threads
            ) == min(read.threads)
            if not same and not in_place and write.threads.keys() & read.threads.keys():
                self.order.add((HazardKind.WRITE_AFTER_READ, write.op, read.op))

    def in_flight(self, one: Touched) -> None:
        for copy in (copy for group in (*self.groups, self.uncommitted) for copy in group):
            if one.threads.keys() & copy.threads.keys():
                self.order.add((HazardKind.IN_FLIGHT, one.op, copy.op))

    def value(self, read: Touched) -> None:
        owner = read.access.value.owner
        for byte in read.threads:
            buffer, tile = self.last.get(byte, (None, None))
            if buffer is None:
                self.values.add((HazardKind.NEVER_WRITTEN, read.op))
            elif buffer is not owner:
                # Whether the buffer was ever written there decides on the name only.
                self.values.add((HazardKind.NEVER_WRITTEN, read.op))
                self.values.add((HazardKind.OVERWRITTEN, read.op))
            elif tile is not None and tile != read.meant:
                self.values.add((HazardKind.WRONG_TILE, read.op))


def bytes_of(access: ThreadAccess, iteration: int) -> Threads:
    start = start_bytes(access.value, access.stage.iteration_at(iteration))
    found: Threads = defaultdict(set)
    elements = access.significant_elements()
    for row, thread, place in np.argwhere(elements >= 0).tolist():
        first = start + int(elements[row, thread, place]) * access.element_bytes
        for byte in range(first, first + access.element_bytes, 2):
            found[byte].add(thread)
    return dict(found)


BUFFERS = ("%a", "%b", "%c")


def operators(iterations: int, phase: str) -> Iterator[st.SearchStrategy[str]]:
    buffer = st.sampled_from(BUFFERS)
    by = st.sampled_from((ROWS, HALVES))
    kind = st.sampled_from(("", "async", "async"))
    whens = {"prologue": ["", "iteration 0"], "loop": ["", "ahead 1"], "epilogue": [""]}[phase]
    if phase == "prologue" and iterations > 1:
        whens.append("iteration 1")
    tile = tile_type(iterations)
    yield st.builds(lambda b, p, k: load(b, p, kind=k), buffer, by, kind)
    yield st.builds(
        lambda b, p, k, w: load(b, p, kind=k, when=w, source="%t", tile=tile),
        buffer,
        by,
        kind,
        st.sampled_from(whens),
    )
    yield st.builds(exp, buffer, buffer, by)
    yield st.builds(add_up, buffer)
    yield st.builds(save, buffer, by)
    yield st.just(BARRIER)
    yield st.just(COMMIT)
    yield st.integers(0, 2).map(wait)


@st.composite
def schedules(draw: st.DrawFn) -> str:
    iterations = draw(st.integers(1, 9))

    def phase(name: str, most: int) -> list[str]:
        return draw(st.lists(st.one_of(*operators(iterations, name)), max_size=most))

    offsets = [draw(st.sampled_from((0, 16, 512, 1024, 2048, 3072, 6144))) for _ in BUFFERS]
    stages = [draw(st.integers(2, 3)) for _ in BUFFERS]
    allocs = [alloc(*each) for each in zip(BUFFERS, offsets, stages, strict=True)]
    return kernel_text(
        [FILL_FRAGMENT, *phase("prologue", 6)],
        allocs=[*allocs, MAKE_FRAGMENT],
        loop=phase("loop", 6),
        iterations=iterations,
        after=phase("epilogue", 4),
    )


@settings(max_examples=inputs(20, 60), suppress_health_check=list(HealthCheck))
@given(schedules())
def test_the_same_hazards_as_the_naive_checker(text: str) -> None:
    kernel = kernel_of(parse(text))
    naive = Naive()
    naive.run(kernel)
    findings = find_hazards(kernel)
    order = {
        (finding.kind, *finding.operations)
        for finding in findings
        if finding.kind not in VALUE_KINDS
    }
    assert order == naive.order
    values = {
        (finding.kind, finding.operations[0]) for finding in findings if finding.kind in VALUE_KINDS
    }
    # The checker names one byte of each read.
    assert values <= naive.values
    assert {op for _, op in values} == {op for _, op in naive.values}


@settings(max_examples=inputs(20, 60), suppress_health_check=list(HealthCheck))
@given(schedules(), st.integers(10, 60))
def test_skipped_iterations_hide_nothing(text: str, iterations: int) -> None:
    kernel = kernel_of(parse(text))
    loop = next((op for op in kernel.body.block.ops if isinstance(op, sched.ForloopOp)), None)
    assert loop is not None
    program = read_program(kernel)
    for segment in program.segments:
        if segment.iterations is not None:
            object.__setattr__(segment, "iterations", iterations)
    every = Simulation(program, every_iteration=True).run()
    some = Simulation(program).run()
    assert [(finding.kind, finding.operations) for finding in some] == [
        (finding.kind, finding.operations) for finding in every
    ]
    # Of several iterations that show the same, each names one.
    said, expected = (
        [re.sub(r"iteration \d+", "iteration", str(finding)) for finding in findings]
        for findings in (some, every)
    )
    assert said == expected
