"""Looks for µGraphs that break a property, and makes those found small."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fuzz.broken import draw_broken_mugraph
from fuzz.drawing import Chooser
from fuzz.kernel import draw_mugraph
from fuzz.properties import PropertyError, compile_checked, require_diagnostic

SHRINK_ATTEMPTS = 300
"""How many shorter texts are tried for one failure."""


@dataclass
class RecordedChoices:
    """Choices that are drawn at random, or replayed, and written down.

    A replay that has run out of choices takes the simplest.
    """

    source: Callable[[int, int], int]
    taken: list[int] = field(default_factory=list[int])

    def number(self, low: int, high: int) -> int:
        """One choice."""
        chosen = min(max(self.source(low, high), low), high)
        self.taken.append(chosen - low)
        return chosen

    @staticmethod
    def replay(choices: Sequence[int]) -> RecordedChoices:
        """The same choices again, as far as they fit."""
        rest = iter(choices)
        return RecordedChoices(lambda low, high: low + next(rest, 0))


@dataclass(frozen=True)
class Property:
    """What is drawn, as text, and what is checked of it."""

    draw: Callable[[Chooser], str | None]
    check: Callable[[str], object]


def _text_of_mugraph(chooser: Chooser) -> str | None:
    module = draw_mugraph(chooser)
    return None if module is None else str(module)


def _text_of_broken(chooser: Chooser) -> str | None:
    broken = draw_broken_mugraph(chooser)
    return None if broken is None else broken.text


WELL_FORMED = Property(_text_of_mugraph, compile_checked)
BROKEN = Property(_text_of_broken, require_diagnostic)


@dataclass(frozen=True)
class Drawn:
    """A text and the choices that led to it."""

    text: str
    choices: tuple[int, ...]


def draw_case(property_: Property, seed: int, number: int) -> Drawn | None:
    """The case of a seed and a number, always the same; ``None`` where the choices led to none."""
    recorded = RecordedChoices(random.Random(f"{seed}/{number}").randint)
    text = property_.draw(Chooser(recorded.number))
    return None if text is None else Drawn(text, tuple(recorded.taken))


def failure_of(property_: Property, text: str) -> PropertyError | None:
    """What is wrong with a text."""
    try:
        property_.check(text)
    except PropertyError as error:
        return error
    return None


def shrink(
    property_: Property, drawn: Drawn, stage: str, most_attempts: int = SHRINK_ATTEMPTS
) -> Drawn:
    """A shorter text that fails at the same stage.

    Leaves out runs of choices, or makes them simpler, as long as the text becomes shorter.
    """
    best = drawn
    attempts = 0
    size = max(len(best.choices) // 2, 1)
    while size >= 1:
        start = 0
        while start < len(best.choices) and attempts < most_attempts:
            before, after = best.choices[:start], best.choices[start + size :]
            for middle in ((), (0,) * size):
                attempts += 1
                candidate = _drawn_from(property_, (*before, *middle, *after))
                if candidate is None or len(candidate.text) >= len(best.text):
                    continue
                failure = failure_of(property_, candidate.text)
                if failure is not None and failure.stage == stage:
                    best = candidate
                    break
            else:
                start += size
        size //= 2
    return best


def _drawn_from(property_: Property, choices: Sequence[int]) -> Drawn | None:
    recorded = RecordedChoices.replay(choices)
    text = property_.draw(Chooser(recorded.number))
    return None if text is None else Drawn(text, tuple(recorded.taken))
