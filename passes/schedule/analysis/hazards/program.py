"""A kernel as the hazard checker sees it: the steps of the block and of its roles, in order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.dialects.interfaces import read_by, written_by
from mugraph.dialects.sched.structure import loop_iterations
from mugraph.dialects.tensor_types import element_bytes_of, op_label, value_label
from mugraph.passes.memory.findings import Finding, HazardKind
from mugraph.passes.schedule.analysis.hazards.footprints import Footprint, footprint_of, threads_at
from mugraph.passes.schedule.lower_rings import with_lowered_rings


@dataclass(frozen=True, eq=False)
class ProgramPoint:
    """Where an operator stands: the ``number``-th of a phase, counted from 1, perhaps of a role."""

    operation: Operation
    phase: str
    number: int
    role: sched.RoleOp | None = None

    def describe(self, iteration: int | None = None) -> str:
        """The operator by name and place, and the iteration where it is in the loop."""
        where = f"operator {self.number} of the {self.phase}"
        if self.role is not None:
            where += f" of {role_label(self.role)}"
        if iteration is not None and self.phase == LOOP:
            where += f", iteration {iteration}"
        return f"{op_label(self.operation)} ({where})"


def role_label(role: sched.RoleOp) -> str:
    """How messages name a role."""
    return f"role {role.role}"


LOOP = "loop"


@dataclass(frozen=True, eq=False)
class Touch:
    """An access to shared memory that a step makes, with what the simulation needs of it.

    ``base`` and ``stage_granules`` are in granules.  ``moves`` says that a write brings the tile
    of one iteration, another one each time.  Threads are those of the block: a role's are counted
    from ``first_thread`` on.
    """

    index: int
    place: ProgramPoint
    access: sched.ThreadAccess
    footprint: Footprint
    buffer: sched.AllocOp
    buffer_index: int
    base: int
    stage_granules: int
    is_write: bool
    moves: bool
    first_thread: int

    @property
    def is_async(self) -> bool:
        """Whether it is one side of a ``cp.async``."""
        return self.access.proxy is sched.Proxy.ASYNC_COPY

    @property
    def is_bulk(self) -> bool:
        """Whether it is one side of a bulk copy."""
        return self.access.proxy is sched.Proxy.BULK_COPY

    @property
    def is_generic(self) -> bool:
        """Whether it is a load or store of a thread, or a ``cp.async``."""
        return self.access.proxy in (sched.Proxy.GENERIC, sched.Proxy.ASYNC_COPY)

    def start(self, current: int, before: int = 0) -> int:
        """The granule of shared memory from which the footprint counts, in an iteration.

        ``before`` are the iterations of the blocks of the grid before.
        """
        stage = self.access.stage.stage_at(current, self.buffer.stage_count, before)
        return self.base + stage * self.stage_granules

    def threads_at(self, granule: int, position: int) -> list[int]:
        """The threads of the block that touch a granule of the buffer's stage, in order.

        ``granule`` is its size in bytes.
        """
        threads = sched.enclosing_threads(self.access.operation)
        return threads_at(self.access, granule, position, threads, self.first_thread)


@dataclass(frozen=True, eq=False)
class Step:
    """One operator: what it touches, or how it synchronises.

    ``ahead`` and ``behind`` are how many iterations later and earlier ones it may mean.
    ``dependent`` are its accesses to device memory that must wait for the kernels before.
    """

    place: ProgramPoint
    reads: tuple[Touch, ...] = ()
    writes: tuple[Touch, ...] = ()
    ahead: int = 0
    behind: int = 0
    fragments_read: tuple[SSAValue, ...] = ()
    fragments_written: tuple[SSAValue, ...] = ()
    dependent: tuple[sched.ThreadAccess, ...] = ()

    @property
    def operation(self) -> Operation:
        """The operator."""
        return self.place.operation

    @property
    def synchronises(self) -> bool:
        """Whether it is one of those that others may wait for, or that wait."""
        return isinstance(self.operation, _SIMPLE)


@dataclass(frozen=True, eq=False)
class Segment:
    """Steps in a row; ``iterations`` times over in a loop, once where it is ``None``."""

    iterations: int | None
    steps: tuple[Step, ...]
    is_phase: bool = True
    at_once: int = 1
    """How many iterations the steps do each time."""


@dataclass(eq=False)
class Strand:
    """What some warps of the block run in order: all of them, or those of a role.

    ``index`` numbers the strands of a kernel.
    """

    index: int
    role: sched.RoleOp | None = None
    segments: list[Segment] = field(default_factory=list[Segment])

    @property
    def first_thread(self) -> int:
        """Its thread 0, as a thread of the block."""
        return 0 if self.role is None else self.role.first_thread

    @property
    def phases(self) -> range:
        """Which of its segments run again for each of its blocks of the grid."""
        phases = [index for index, segment in enumerate(self.segments) if segment.is_phase]
        return range(phases[0], phases[-1] + 1) if phases else range(0)

    @cached_property
    def written_in_phases(self) -> frozenset[SSAValue]:
        """The fragments that it writes for each of its blocks of the grid."""
        phases = self.segments[self.phases.start : self.phases.stop]
        steps = (step for segment in phases for step in segment.steps)
        return frozenset(value for step in steps for value in step.fragments_written)

    @property
    def label(self) -> str:
        """How messages name it."""
        return "the block" if self.role is None else role_label(self.role)


@dataclass(eq=False)
class Program:
    """A kernel's steps, accesses to device memory included, and what could not be read of it.

    The strands of one of the ``sections`` run side by side, one section after the other.  Blocks
    take lists of so many blocks of the grid as ``lengths`` says, the longest ones first.
    """

    kernel: sched.KernelOp
    granule: int
    sections: list[list[Strand]] = field(default_factory=list[list[Strand]])
    accesses: list[tuple[ProgramPoint, sched.ThreadAccess]] = field(
        default_factory=list[tuple[ProgramPoint, sched.ThreadAccess]]
    )
    touches: list[Touch] = field(default_factory=list[Touch])
    findings: list[Finding] = field(default_factory=list[Finding])
    buffers: dict[sched.AllocOp, int] = field(default_factory=dict[sched.AllocOp, int])
    channels: list[sched.ChannelOp] = field(default_factory=list[sched.ChannelOp])
    order_barriers: list[sched.OrderBarrierOp] = field(default_factory=list[sched.OrderBarrierOp])
    waits_for_grids: bool = False
    """Whether it is launched while the kernel before it may still run."""
    lengths: tuple[int, ...] = (1,)
    loop_range: int = 1
    """How often the kernel's loops run, for one block of the grid."""

    @property
    def strands(self) -> Iterator[Strand]:
        """All strands, in the order of the text."""
        return (strand for section in self.sections for strand in section)

    @property
    def segments(self) -> Iterator[Segment]:
        """All segments, in the order of the text."""
        return (segment for strand in self.strands for segment in strand.segments)

    def looks_back(self) -> int:
        """How many iterations back, from the present one or the loop's end, operators may mean."""
        steps = [step for segment in self.segments for step in segment.steps]
        iterations = max((segment.iterations or 1 for segment in self.segments), default=1)
        moving = {touch.buffer_index for touch in self.touches if touch.moves}
        fixed = [
            (touch.access.stage.iteration, touch.buffer_index in moving)
            for segment in self.segments
            if segment.iterations is None
            for step in segment.steps
            for touch in step.reads
        ]
        # Tile 0 of the first block of the grid is told apart from others all along.
        several = self.lengths[0] > 1
        back = [
            iterations - at for at, moves in fixed if at or (at is not None and moves and several)
        ]
        return max(*(step.behind for step in steps), *back, 0, 0)

    def barriers(self) -> Iterator[ProgramPoint]:
        """Every barrier, in order."""
        for segment in self.segments:
            for step in segment.steps:
                if isinstance(step.operation, sched.BarrierOp):
                    yield step.place


_SIMPLE = (
    sched.BarrierOp,
    sched.BulkWaitOp,
    sched.ChannelOp,
    sched.ClusterBarrierOp,
    sched.CommitOp,
    sched.EmptyOp,
    sched.GridWaitOp,
    sched.ProxyFenceOp,
    sched.OrderStepOp,
    sched.OrderBarrierOp,
    sched.WaitOp,
    sched.WarpgroupWaitOp,
    sched.YieldOp,
)


def read_program(kernel: sched.KernelOp) -> Program:
    """The steps of a kernel, whose buffers and channels must have offsets.

    What cannot be followed becomes a finding: operators whose accesses are unknown.  Raises
    ``AccessError`` for a buffer or a channel without an offset.
    """
    kernel = with_lowered_rings(kernel)
    program = Program(
        kernel,
        _granule(kernel),
        waits_for_grids=kernel.waits_for_grids(),
        lengths=_lengths(kernel),
        loop_range=loop_iterations(kernel),
    )
    for op in kernel.body.walk():
        if isinstance(op, sched.AllocOp) and isinstance(op.result.type, sched.SharedType):
            _require_offset(op.result, op.byte_offset)
            program.buffers[op] = len(program.buffers)
        elif isinstance(op, sched.ChannelOp):
            _require_offset(op.result, op.byte_offset)
            program.channels.append(op)
        elif isinstance(op, sched.OrderBarrierOp):
            _require_offset(op.result, op.byte_offset)
            program.order_barriers.append(op)
    strands = itertools.count()
    for is_role, group in itertools.groupby(
        kernel.body.block.ops, lambda op: isinstance(op, sched.RoleOp)
    ):
        ops = list(group)
        section: list[Strand] = []
        if is_role:
            for role in (op for op in ops if isinstance(op, sched.RoleOp)):
                section.append(Strand(next(strands), role))
                _read_strand(program, section[-1], role.body.block.ops)
        else:
            section.append(Strand(next(strands)))
            _read_strand(program, section[-1], ops)
        program.sections.append(section)
    return program


def _lengths(kernel: sched.KernelOp) -> tuple[int, ...]:
    """How many blocks of the grid blocks of the launch take, each number once."""
    count = math.prod(kernel.grid_dim)
    launched = kernel.persistent_blocks or count
    return tuple(dict.fromkeys((-(-count // launched), count // launched)))


def _require_offset(value: SSAValue, offset: int | None) -> None:
    if offset is None:
        raise sched.AccessError(
            f"{value_label(value)} has no offset in shared memory; run --plan-stensor-memory first"
        )


def _read_strand(program: Program, strand: Strand, body: Iterable[Operation]) -> None:
    loose: list[Operation] = []
    name = "kernel" if strand.role is None else "body"
    for op in body:
        if isinstance(op, sched.PhaseOp | sched.ForloopOp):
            _add_segment(program, strand, name, loose, is_phase=False)
            loose = []
            loop = op if isinstance(op, sched.ForloopOp) else None
            _add_segment(program, strand, _phase_name(op), list(op.body.block.ops), loop)
        else:
            loose.append(op)
    _add_segment(program, strand, name, loose, is_phase=False)


def _granule(kernel: sched.KernelOp) -> int:
    sizes = [
        element_bytes_of(op.result.type)
        for op in kernel.body.walk()
        if isinstance(op, sched.AllocOp) and isinstance(op.result.type, sched.SharedType)
    ]
    return min(sizes, default=1)


def _phase_name(op: Operation) -> str:
    if isinstance(op, sched.PrologueOp):
        return "prologue"
    if isinstance(op, sched.EpilogueOp):
        return "epilogue"
    return LOOP


def _add_segment(
    program: Program,
    strand: Strand,
    phase: str,
    ops: Sequence[Operation],
    loop: sched.ForloopOp | None = None,
    *,
    is_phase: bool = True,
) -> None:
    steps: list[Step] = []
    for number, op in enumerate(ops, 1):
        step = _step(program, strand, ProgramPoint(op, phase, number, strand.role))
        if step is not None:
            steps.append(step)
    if steps:
        count, at_once = (None, 1) if loop is None else (loop.iterations, loop.step_of)
        strand.segments.append(Segment(count, tuple(steps), is_phase, at_once))


def _step(program: Program, strand: Strand, place: ProgramPoint) -> Step | None:
    op = place.operation
    if isinstance(op, sched.BarrierOp) and strand.role is not None and strand.role.is_elected:
        message = (
            f"{place.describe()} waits for whole warps, but one thread runs the role; leave it out"
        )
        program.findings.append(Finding(HazardKind.DIVERGENT_BARRIER, (op,), message))
        return None
    if isinstance(op, _SIMPLE):
        return Step(place)
    if isinstance(op, sched.ChannelStepOp):
        return Step(place, ahead=max(op.ahead_of, 0), behind=max(-op.ahead_of, 0))
    if op.regions and not isinstance(op, sched.HasThreadAccesses):
        message = f"what {place.describe()} does cannot be followed; the kernel is not checked"
        program.findings.append(Finding(HazardKind.NOT_CHECKED, (op,), message))
        return None
    accesses: Sequence[sched.ThreadAccess] = ()
    if isinstance(op, sched.HasThreadAccesses):
        try:
            accesses = op.thread_accesses()
        except (sched.AccessError, VerifyException) as error:
            program.findings.append(Finding(HazardKind.NOT_CHECKED, (op,), str(error)))
            return None
    elif not isinstance(op, sched.LocalTileOp) and _uses_memory(op):
        message = f"{place.describe()} does not say what it does with memory"
        program.findings.append(Finding(HazardKind.NOT_CHECKED, (op,), message))
        return None
    touches = [_touch(program, strand, place, access) for access in accesses]
    read, written = _fragments(op)
    if not accesses and not read and not written:
        return None
    return Step(
        place,
        tuple(touch for touch in touches if touch is not None and not touch.is_write),
        tuple(touch for touch in touches if touch is not None and touch.is_write),
        max((access.stage.ahead for access in accesses), default=0),
        max((-access.stage.ahead for access in accesses), default=0),
        read,
        written,
        tuple(access for access in accesses if program.waits_for_grids and _depends(access)),
    )


def _depends(access: sched.ThreadAccess) -> bool:
    """Whether an access is to device memory that the kernels before may still use."""
    if not access.in_device_memory:
        return False
    owner = access.value.owner
    tensors = owner.tensors() if isinstance(owner, sched.LocalTileOp) else [access.value]
    constant = sched.enclosing_kernel(access.operation).constant_inputs
    is_constant = all(
        isinstance(tensor, BlockArgument) and tensor.index in constant for tensor in tensors
    )
    return access.kind is sched.AccessKind.WRITE or not is_constant


def _uses_memory(op: Operation) -> bool:
    return any(
        isinstance(operand.type, sched.SharedType | sched.GlobalType) for operand in op.operands
    )


def _fragments(op: Operation) -> tuple[tuple[SSAValue, ...], tuple[SSAValue, ...]]:
    def chosen(values: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        return tuple(sched.registers_of(value) for value in values if sched.is_tile(value))

    return chosen(read_by(op)), chosen(written_by(op))


def _touch(
    program: Program, strand: Strand, place: ProgramPoint, access: sched.ThreadAccess
) -> Touch | None:
    program.accesses.append((place, access))
    buffer = access.value.owner
    if access.in_device_memory or not isinstance(buffer, sched.AllocOp):
        return None
    granule = program.granule
    first_thread = strand.first_thread
    footprint = footprint_of(access, granule, first_thread)
    if footprint is None:
        return None
    is_write = access.kind is sched.AccessKind.WRITE
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
        is_write and _brings_a_tile(place.operation),
        first_thread,
    )
    program.touches.append(touch)
    return touch


def _brings_a_tile(op: Operation) -> bool:
    """Whether what an operator writes is the tile of one iteration of a moving view."""
    return any(
        isinstance(operand.owner, sched.LocalTileOp) and operand.owner.loop_dim >= 0
        for operand in op.operands
    )
