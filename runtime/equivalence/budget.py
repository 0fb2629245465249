"""How long a check may take."""

from __future__ import annotations

import math
import time

from mugraph.runtime.equivalence.errors import BudgetError

DEFAULT_SECONDS = 10.0
"""What each kind of evidence may take unless a user asks for another budget."""

STEPS_A_SECOND = 30_000
"""Steps of a proof that stand for a second, so that the same proofs end on every machine.

A processor of today takes about twice as many.
"""

_STEPS_BETWEEN_LOOKS = 64


class Budget:
    """A number of seconds of the calling thread's processor time, and of steps."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self._end = time.thread_time() + seconds
        self.steps = 0
        """How many have been taken."""
        self._most_steps = seconds * STEPS_A_SECOND
        self._next_look = 0

    def step(self, count: int = 1) -> None:
        """Takes steps; raises ``BudgetError`` where they, or the time, are spent."""
        self.steps += count
        if self.steps > self._most_steps:
            self._refuse()
        if self.steps >= self._next_look:
            self._next_look = self.steps + _STEPS_BETWEEN_LOOKS
            self.look()

    def look(self) -> None:
        """Raises ``BudgetError`` where the time is spent."""
        if time.thread_time() > self._end:
            self._refuse()

    def _refuse(self) -> None:
        raise BudgetError(
            f"the budget of {self.seconds:g} s is spent; --budget gives it another one"
        )
