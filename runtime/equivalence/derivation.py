"""What a proof may cost, and what it assumes."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from mugraph.runtime.equivalence.budget import Budget


@dataclass
class Derivation:
    """One proof: its budget, the numbers of its normal forms, and where they may be undefined."""

    budget: Budget = field(default_factory=Budget)
    numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    """A number for each normal form, so that forms are told apart without looking inside."""
    partial: dict[str, None] = field(default_factory=dict[str, None])
    """What functions are applied to that may be outside of their domain, everywhere perhaps."""

    def number_of(self, key: Hashable) -> int:
        """The number of what has this key."""
        return self.numbers.setdefault(key, len(self.numbers))


_CURRENT: ContextVar[Derivation | None] = ContextVar("derivation", default=None)
_ENDLESS = Derivation()


def current() -> Derivation:
    """The proof that is being made; outside of one, a derivation without limits."""
    return _CURRENT.get() or _ENDLESS


@contextmanager
def derivation(budget: Budget) -> Generator[Derivation]:
    """A proof; normal forms that are made in it are not to be compared with others."""
    made = Derivation(budget)
    token = _CURRENT.set(made)
    try:
        yield made
    finally:
        _CURRENT.reset(token)
