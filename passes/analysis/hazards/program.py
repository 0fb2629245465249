"""A kernel as the hazard checker sees it: the steps that every thread takes, phase by phase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.interfaces import HasBufferEffects
from mugraph.dialects.sched import (
    AccessError,
    AccessKind,
    AllocOp,
    BarrierOp,
    CommitOp,
    EpilogueOp,
    ForloopOp,
    FragmentOp,
    FragmentType,
    GlobalType,
    HasThreadAccesses,
    KernelOp,
    PhaseOp,
    PrologueOp,
    Proxy,
    RoleOp,
    SharedType,
    ThreadAccess,
    TileOp,
    WaitOp,
)
from mugraph.dialects.tensor_types import element_bytes_of, op_label, value_label
from mugraph.passes.analysis.hazards.findings import Finding, HazardKind
from mugraph.passes.analysis.hazards.footprints import Footprint, footprint_of


@dataclass(frozen=True, eq=False)
class Place:
    """Where an operator stands: the ``number``-th of a phase, counted from 1."""

    operation: Operation
    phase: str
    number: int

    def describe(self, iteration: int | None = None) -> str:
        """The operator by name and place, and the iteration where it is in the loop."""
        where = f"operator {self.number} of the {self.phase}"
        if iteration is not None and self.phase == LOOP:
            where += f", iteration {iteration}"
        return f"{op_label(self.operation)} ({where})"


LOOP = "loop"


@dataclass(frozen=True, eq=False)
class Touch:
    """An access to shared memory that a step makes, with what the simulation needs of it.

    ``base`` and ``stage_granules`` are in granules.  ``moves`` says that a write brings the tile
    of one iteration, another one each time.
    """

    index: int
    place: Place
    access: ThreadAccess
    footprint: Footprint
    buffer: AllocOp
    buffer_index: int
    base: int
    stage_granules: int
    is_write: bool
    is_async: bool
    moves: bool

    def start(self, current: int) -> int:
        """The granule of shared memory from which the footprint counts, in an iteration."""
        stage = self.access.stage.stage_at(current, self.buffer.stage_count)
        return self.base + stage * self.stage_granules


@dataclass(frozen=True, eq=False)
class Step:
    """One operator: what it touches, or how it synchronises."""

    place: Place
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    ahead: int = 0
    fragments_read: tuple[SSAValue, ...] = ()
    fragments_written: tuple[SSAValue, ...] = ()

    @property
    def operation(self) -> Operation:
        """The operator."""
        return self.place.operation


@dataclass(frozen=True, eq=False)
class Segment:
    """Steps in a row; ``iterations`` times over in a loop, once where it is ``None``."""

    iterations: int | None
    steps: tuple[Step, ...]


@dataclass(eq=False)
class Program:
    """A kernel's steps, accesses to device memory included, and what could not be read of it."""

    kernel: KernelOp
    granule: int
    segments: list[Segment] = field(default_factory=list[Segment])
    accesses: list[tuple[Place, ThreadAccess]] = field(
        default_factory=list[tuple[Place, ThreadAccess]]
    )
    touches: list[Touch] = field(default_factory=list[Touch])
    findings: list[Finding] = field(default_factory=list[Finding])
    buffers: dict[AllocOp, int] = field(default_factory=dict[AllocOp, int])

    def barriers(self) -> Iterator[Place]:
        """Every barrier, in order."""
        for segment in self.segments:
            for step in segment.steps:
                if isinstance(step.operation, BarrierOp):
                    yield step.place


_SIMPLE = (BarrierOp, CommitOp, WaitOp, FragmentOp)


def read_program(kernel: KernelOp) -> Program:
    """The steps of a kernel, whose buffers must have offsets.

    What cannot be followed becomes a finding: operators whose accesses are unknown, and barriers
    that only some warps reach.  Raises ``AccessError`` for a buffer without an offset.
    """
    program = Program(kernel, _granule(kernel))
    for op in kernel.body.walk():
        if isinstance(op, AllocOp) and isinstance(op.result.type, SharedType):
            if op.byte_offset is None:
                raise AccessError(
                    f"{value_label(op.result)} has no offset in shared memory; run "
                    "--plan-stensor-memory first"
                )
            program.buffers[op] = len(program.buffers)
    loose: list[Operation] = []
    for op in kernel.body.block.ops:
        if isinstance(op, PhaseOp | ForloopOp):
            _add_segment(program, "kernel", loose)
            loose = []
            iterations = op.iterations if isinstance(op, ForloopOp) else None
            _add_segment(program, _phase_name(op), list(op.body.block.ops), iterations)
        else:
            loose.append(op)
    _add_segment(program, "kernel", loose)
    return program


def _granule(kernel: KernelOp) -> int:
    sizes = [
        element_bytes_of(op.result.type)
        for op in kernel.body.walk()
        if isinstance(op, AllocOp) and isinstance(op.result.type, SharedType)
    ]
    return min(sizes, default=1)


def _phase_name(op: Operation) -> str:
    if isinstance(op, PrologueOp):
        return "prologue"
    if isinstance(op, EpilogueOp):
        return "epilogue"
    return LOOP


def _add_segment(
    program: Program, phase: str, ops: Sequence[Operation], iterations: int | None = None
) -> None:
    steps: list[Step] = []
    for number, op in enumerate(ops, 1):
        step = _step(program, Place(op, phase, number))
        if step is not None:
            steps.append(step)
    if steps:
        program.segments.append(Segment(iterations, tuple(steps)))


def _step(program: Program, place: Place) -> Step | None:
    op = place.operation
    if isinstance(op, _SIMPLE):
        return Step(place)
    if op.regions:
        _refuse_nested(program, place)
        return None
    accesses: Sequence[ThreadAccess] = ()
    if isinstance(op, HasThreadAccesses):
        try:
            accesses = op.thread_accesses()
        except (AccessError, VerifyException) as error:
            program.findings.append(Finding(HazardKind.NOT_CHECKED, (op,), str(error)))
            return None
    elif not isinstance(op, TileOp) and _uses_memory(op):
        message = f"{place.describe()} does not say what it does with memory"
        program.findings.append(Finding(HazardKind.NOT_CHECKED, (op,), message))
        return None
    touches = [_touch(program, place, access) for access in accesses]
    read, written = _fragments(op)
    if not accesses and not read and not written:
        return None
    return Step(
        place,
        tuple(touch for touch in touches if touch is not None and not touch.is_write),
        tuple(touch for touch in touches if touch is not None and touch.is_write),
        max((access.stage.ahead for access in accesses), default=0),
        read,
        written,
    )


def _refuse_nested(program: Program, place: Place) -> None:
    """Findings for regions that only some threads enter, or loops inside loops."""
    op = place.operation
    for inner in op.walk():
        if isinstance(op, RoleOp) and isinstance(inner, BarrierOp):
            message = (
                f"a 'sched.barrier' stands in {place.describe()}, which only some warps of the "
                "block enter; all of them must arrive, so the block would hang. Synchronise roles "
                "through a channel"
            )
            program.findings.append(Finding(HazardKind.DIVERGENT_BARRIER, (inner, op), message))
    message = f"what {place.describe()} does cannot be followed; the kernel is not checked"
    program.findings.append(Finding(HazardKind.NOT_CHECKED, (op,), message))


def _uses_memory(op: Operation) -> bool:
    return any(isinstance(operand.type, SharedType | GlobalType) for operand in op.operands)


def _fragments(op: Operation) -> tuple[tuple[SSAValue, ...], tuple[SSAValue, ...]]:
    if not isinstance(op, HasBufferEffects):
        return (), ()

    def chosen(values: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        return tuple(value for value in values if isinstance(value.type, FragmentType))

    return chosen(op.buffers_read()), chosen(op.buffers_written())


def _touch(program: Program, place: Place, access: ThreadAccess) -> Touch | None:
    program.accesses.append((place, access))
    buffer = access.value.owner
    if access.in_device_memory or not isinstance(buffer, AllocOp):
        return None
    granule = program.granule
    footprint = footprint_of(access, granule)
    if footprint is None:
        return None
    is_write = access.kind is AccessKind.WRITE
    touch = Touch(
        len(program.touches),
        place,
        access,
        footprint,
        buffer,
        program.buffers[buffer],
        (buffer.byte_offset or 0) // granule,
        buffer.stage_bytes() // granule,
        is_write,
        access.proxy is Proxy.ASYNC_COPY,
        is_write and _brings_a_tile(place.operation),
    )
    program.touches.append(touch)
    return touch


def _brings_a_tile(op: Operation) -> bool:
    """Whether what an operator writes is the tile of one iteration of a moving view."""
    return any(
        isinstance(operand.owner, TileOp) and operand.owner.loop_dim >= 0 for operand in op.operands
    )
