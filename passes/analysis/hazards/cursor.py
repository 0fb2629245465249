"""How far a strand has come in its steps, loops and skipped iterations included."""

from __future__ import annotations

from dataclasses import dataclass

from mugraph.dialects.sched import StageReference
from mugraph.passes.analysis.hazards.program import Segment, Step, Strand


@dataclass(eq=False)
class Cursor:
    """How far a strand has come; ``iterations`` of its loop are those that were not skipped."""

    strand: Strand
    segment_index: int = 0
    step_index: int = 0
    iteration: int = 0
    iterations: int = 1
    skipped: int = 0
    skipped_in_all: int = 0
    repeated_from: int = 0
    """The first iteration of those that were repeated, where some were skipped."""
    turn: int = 0
    before: int = 0
    """The iterations of its loop in earlier turns, those that were not skipped."""
    in_turn: int = 0
    """And in this one, once the loop is over."""

    def __post_init__(self) -> None:
        self._enter()

    def _enter(self) -> None:
        self.step_index = self.iteration = self.skipped = 0
        segment = self.segment
        self.iterations = (segment.iterations or 1) if segment is not None else 1
        if segment is not None and segment.turn != self.turn:
            self.turn = segment.turn
            self.before += self.in_turn
            self.in_turn = self.skipped_in_all = self.repeated_from = 0

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
    def named_iteration(self) -> int:
        """The iteration, those skipped counted."""
        return self.iteration + self.skipped

    def advance(self) -> bool:
        """Past one step; whether an iteration or a phase has ended with it."""
        segment = self.segment
        if segment is None:
            return True
        self.step_index += 1
        if self.step_index < len(segment.steps):
            return False
        self.step_index = 0
        self.iteration += 1
        self._leave_if_over()
        return True

    def _leave_if_over(self) -> None:
        if self.iteration >= self.iterations:
            if self.in_loop:
                self.in_turn = self.iterations
            self.segment_index += 1
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

    def meant(self, reference: StageReference) -> int:
        """The iteration that an operator means, counted without those that were skipped.

        From the first turn on.
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


__all__ = ["Cursor"]
