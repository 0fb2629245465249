"""How far a strand has come in its steps, loops and skipped iterations included."""

from __future__ import annotations

from dataclasses import dataclass, field

from mugraph.dialects import sched
from mugraph.passes.schedule.analysis.hazards.program import Segment, Step, Strand


@dataclass(eq=False)
class Course:
    """The list of blocks of the grid that strands take, and what was skipped of it.

    Blocks of the list are numbered, and iterations counted, without those that were skipped.
    """

    length: int
    loop_range: int
    """How often loops run for one block of the grid."""
    ping_pong: int = 1
    """How many roles share the work tiles."""
    skipped_blocks: int = 0
    _skipped: dict[int, int] = field(default_factory=dict[int, int])
    _before: list[int] = field(default_factory=lambda: [0])

    def before(self, position: int) -> int:
        """The iterations of the blocks of the list before this one."""
        while len(self._before) <= position:
            last = len(self._before) - 1
            left = self.loop_range - self._skipped.get(last, 0)
            self._before.append(self._before[-1] + left)
        return self._before[position]

    def skip_iterations(self, position: int, iterations: int) -> None:
        """Loops for a block of the list run less often."""
        self._skipped[position] = self._skipped.get(position, 0) + iterations
        del self._before[position + 1 :]

    def skip_blocks(self, blocks: int) -> None:
        """The list is shorter."""
        self.length -= blocks
        self.skipped_blocks += blocks

    def named_before(self, position: int) -> int:
        """The iterations of the blocks of the grid before this one, those skipped counted."""
        return (position + self.skipped_blocks) * self.loop_range


@dataclass(eq=False)
class Cursor:
    """How far a strand has come; ``iterations`` of its loop are those that were not skipped."""

    strand: Strand
    course: Course
    segment_index: int = 0
    step_index: int = 0
    iteration: int = 0
    iterations: int = 1
    skipped: int = 0
    skipped_in_all: int = 0
    """For this block of the list."""
    repeated_from: int = 0
    """The first iteration of those that were repeated, where some were skipped."""
    position: int = 0
    """The block of the list."""
    phases: range = field(init=False)
    stride: int = field(init=False)
    """From one of its blocks of the list to the next."""

    def __post_init__(self) -> None:
        role = self.strand.role
        index = None if role is None else role.ping_pong_index
        self.position, self.stride = (0, 1) if index is None else (index, self.course.ping_pong)
        self.phases = self.strand.phases
        self._enter()

    def _enter(self) -> None:
        if self.segment_index == self.phases.start and self.position >= self.course.length:
            self.segment_index = self.phases.stop
        self.step_index = self.iteration = self.skipped = 0
        segment = self.segment
        self.iterations = (segment.iterations or 1) if segment is not None else 1

    @property
    def before(self) -> int:
        """The iterations of the blocks of the list before, those that were not skipped."""
        return self.course.before(self.position)

    @property
    def segment(self) -> Segment | None:
        """The phase it is in, ``None`` at the end."""
        segments = self.strand.segments
        return segments[self.segment_index] if self.segment_index < len(segments) else None

    @property
    def step(self) -> Step | None:
        """The next step, ``None`` at the end."""
        segment = self.segment
        return None if segment is None else segment.steps[self.step_index]

    @property
    def in_loop(self) -> bool:
        """Whether it is in a loop."""
        return self.segment is not None and self.segment.iterations is not None

    @property
    def in_phases(self) -> bool:
        """Whether it is in what runs for each of its blocks of the list."""
        return self.segment_index in self.phases

    @property
    def has_only_awaited(self) -> bool:
        """Whether it is at its order wait, and has done nothing for this work tile before."""
        segment = self.segment
        if segment is None or self.segment_index != self.phases.start:
            return False
        done = segment.steps[: self.step_index]
        return isinstance(segment.steps[self.step_index].operation, sched.OrderWaitOp) and not any(
            step.reads or step.writes or step.synchronises for step in done
        )

    @property
    def named_iteration(self) -> int:
        """The iteration, those skipped counted."""
        return self.iteration + self.skipped

    @property
    def named_position(self) -> int:
        """The block of the list, those skipped counted."""
        return self.position + self.course.skipped_blocks

    def advance(self) -> bool:
        """Past one step; whether an iteration or a phase has ended with it."""
        segment = self.segment
        if segment is None:
            return True
        self.step_index += 1
        if self.step_index < len(segment.steps):
            return False
        self.step_index = 0
        self.iteration += segment.at_once
        self._leave_if_over()
        return True

    def _leave_if_over(self) -> None:
        if self.iteration < self.iterations:
            return
        self.segment_index += 1
        following = self.position + self.stride
        if self.segment_index == self.phases.stop and following < self.course.length:
            self.position, self.segment_index = following, self.phases.start
            self.skipped_in_all = self.repeated_from = 0
        self._enter()

    @property
    def repeats_up_to(self) -> int:
        """The first iteration that may do less than those before: copies ahead have ended."""
        segment = self.segment
        ahead = max((step.ahead for step in segment.steps), default=0) if segment else 0
        return self.iterations - ahead

    @property
    def is_warm(self) -> bool:
        """Whether an iteration does all that later ones do: what it looks back at is there."""
        segment = self.segment
        behind = max((step.behind for step in segment.steps), default=0) if segment else 0
        return self.iteration >= behind

    def meant(self, reference: sched.StageReference) -> int:
        """The iteration that an operator means, counted without those that were skipped.

        From the first block of the list on.
        """
        meant = reference.iteration_at(self.iteration)
        if reference.iteration is not None and meant - self.skipped_in_all >= self.repeated_from:
            return self.before + meant - self.skipped_in_all
        return self.before + meant

    def skip(self, iterations: int, period: int) -> None:
        """Leaves iterations out that repeat the last ``period``."""
        self.repeated_from = self.iteration - period
        self.iterations -= iterations
        self.skipped += iterations
        self.skipped_in_all += iterations
        self._leave_if_over()
