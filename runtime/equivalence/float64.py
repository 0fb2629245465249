"""Random evaluation in float64, with bounds on its rounding.

Every element carries a bound on how far it is from the exact result (running error analysis, see
``mugraph.runtime.interpreter.bounds``).  Values that are farther apart than their two bounds
together belong to different functions, for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mugraph.runtime.equivalence.subject import Array, Difference, Subject, Test, first_place
from mugraph.runtime.interpreter.arithmetic import convert
from mugraph.runtime.interpreter.bounds import FLOAT64, BoundedArithmetic, BoundedArray

SCALES = (1.0, 2.0**-2, 2.0**-4, 2.0**-6)
"""Standard deviations of the inputs; the first without an overflow, beginning with the seed's."""

ARITHMETIC = BoundedArithmetic(models=(FLOAT64,))


@dataclass(frozen=True)
class RandomInputs:
    """Normal random numbers that fp16 holds, times ``scale``; absolute values if ``positive``."""

    seed: int
    scale: float
    positive: bool

    def __str__(self) -> str:
        sign = ", positive" if self.positive else ""
        return f"float64, seed {self.seed} (scale {self.scale:g}{sign})"

    def arrays(self, subject: Subject) -> list[Array]:
        """The inputs for a function."""
        generator = np.random.default_rng(self.seed)
        arrays: list[Array] = []
        for shape, dtype in zip(subject.input_shapes, subject.input_dtypes, strict=True):
            array = (generator.standard_normal(shape) * self.scale).astype(np.float16)
            arrays.append(convert(np.abs(array) if self.positive else array, dtype))
        return arrays


@dataclass
class Float64Reference:
    """The second of two functions, evaluated once for each seed."""

    subject: Subject
    _results: dict[int, tuple[RandomInputs, list[BoundedArray]]] = field(
        default_factory=dict[int, tuple[RandomInputs, list[BoundedArray]]]
    )

    def results(self, seed: int) -> tuple[RandomInputs, list[BoundedArray]]:
        """The inputs of a seed and the function's results on them.

        Inputs get smaller, and then positive, until all results and their bounds are finite; where
        no choice does that, the one with the most finite elements is taken.
        """
        if seed not in self._results:
            best: tuple[int, RandomInputs, list[BoundedArray]] | None = None
            for positive in (False, True):
                for place in range(len(SCALES)):
                    scale = SCALES[(seed + place) % len(SCALES)]
                    inputs = RandomInputs(seed, scale, positive)
                    results = evaluate(self.subject, inputs.arrays(self.subject))
                    lost = sum(int(np.count_nonzero(~_usable(result))) for result in results)
                    if best is None or lost < best[0]:
                        best = (lost, inputs, results)
                    if not lost:
                        break
                if best is not None and not best[0]:
                    break
            assert best is not None  # SCALES is not empty
            self._results[seed] = best[1:]
        return self._results[seed]

    def test(self, subject: Subject, seeds: Sequence[int]) -> Test:
        """Compares a function with the reference on the inputs of some seeds."""
        compared = total = 0
        for evaluations, seed in enumerate(seeds, 1):
            inputs, expected = self.results(seed)
            arrays = inputs.arrays(self.subject)
            results = evaluate(subject, arrays)
            for number, (one, other) in enumerate(zip(results, expected, strict=True)):
                usable = _usable(one) & _usable(other)
                compared += int(np.count_nonzero(usable))
                total += usable.size
                with np.errstate(all="ignore"):
                    room = one.bound(FLOAT64) + other.bound(FLOAT64)
                    wrong = usable & (np.abs(one.value - other.value) > room)
                if wrong.any():
                    place = first_place(wrong)
                    kept = {f"input{n}": array for n, array in enumerate(arrays)}
                    kept |= {"result_a": one.value, "result_b": other.value}
                    difference = Difference(
                        str(inputs),
                        number,
                        place,
                        f"{one.value[place]:.17g}",
                        f"{other.value[place]:.17g} (rounding explains {room[place]:.1e})",
                        kept,
                    )
                    return Test(evaluations, compared, total, difference)
        return Test(len(seeds), compared, total)


def evaluate(subject: Subject, inputs: Sequence[Array]) -> list[BoundedArray]:
    """The results of a function with their bounds."""
    return subject.evaluate([ARITHMETIC.exact(array) for array in inputs], ARITHMETIC)


def _usable(result: BoundedArray) -> Array:
    return np.isfinite(result.value) & np.isfinite(result.bound(FLOAT64))
