"""What a value of a program is in a block whose for-loop walks along one index.

Tiles exist in an iteration; sums and maxima over all iterations exist after the loop.  A value that
mixes both is kept as a sum of terms, each a tile of the loop times numbers that exist after it, for
as long as sums over the loop's index can still be exchanged with them::

    x / sqrt(mean of x²)    =  x · (1 / root)               root exists after the loop
    exp(s - max of s)       =  exp(s) · e^(-max)            e^max is a factor that may cancel

What is multiplied by powers of e to the power of a maximum is kept with these powers, and sums of
maxima are kept as such, so that both cancel where they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from xdsl.ir import SSAValue

Degrees = Mapping[int, Fraction]
"""For each maximum that counts, by number: how often."""


def combined(one: Degrees, other: Degrees, sign: int = 1) -> Degrees:
    """The sum of two degrees, or their difference."""
    total = {
        key: one.get(key, Fraction(0)) + sign * other.get(key, Fraction(0))
        for key in (*one, *other)
    }
    return {key: degree for key, degree in total.items() if degree}


def scaled(degrees: Degrees, factor: Fraction) -> Degrees:
    """Each degree times a number."""
    return {key: degree * factor for key, degree in degrees.items() if factor}


def nothing() -> Degrees:
    """No maximum."""
    return {}


@dataclass(frozen=True)
class Whole:
    """A tile that is the same in every iteration, and exists after the loop as well."""

    tile: SSAValue


@dataclass(frozen=True)
class Total:
    """``(tile + sum of plus·maxima) · e^(sum of power·maxima)``, which exists after the loop.

    Without a tile it is the sum of maxima alone.  Power and plus are not both there.
    """

    tile: SSAValue | None
    power: Degrees = field(default_factory=nothing)
    plus: Degrees = field(default_factory=nothing)


@dataclass(frozen=True)
class Term:
    """``tile · times / over · e^(sum of power·maxima)``: a tile of the loop, numbers after it.

    What is left out is 1.
    """

    tile: SSAValue | None
    times: SSAValue | None = None
    over: SSAValue | None = None
    power: Degrees = field(default_factory=nothing)

    @property
    def late(self) -> tuple[SSAValue | None, SSAValue | None, tuple[tuple[int, Fraction], ...]]:
        """All of it that exists after the loop only."""
        return self.times, self.over, tuple(sorted(self.power.items()))

    @property
    def is_plain(self) -> bool:
        """Whether it is just a tile of the loop."""
        return self.tile is not None and self.late == (None, None, ())


@dataclass(frozen=True)
class Slices:
    """The sum of terms and of ``plus·maxima``: each iteration has the tiles of its slice."""

    terms: tuple[Term, ...]
    plus: Degrees = field(default_factory=nothing)


Form = Whole | Total | Slices
"""What is known of a value."""
