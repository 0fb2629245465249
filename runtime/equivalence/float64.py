"""Random evaluation in float64, with bounds on its rounding.

Every element carries a bound on how far it is from the exact result (running error analysis, see
``mugraph.runtime.interpreter.bounds``).  Values that are farther apart than their two bounds
together belong to different functions, for certain.

That no difference shows says nothing of what the inputs never came to.  So there are inputs of all
sizes beside those of one size, and near the functions' constants, until compared elements have
been made on both sides of every threshold (see ``mugraph.runtime.interpreter.coverage``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from mugraph.runtime.equivalence.errors import BudgetError
from mugraph.runtime.equivalence.finite_field import degrees_of
from mugraph.runtime.equivalence.subject import Array, Difference, Subject, Test, first_place
from mugraph.runtime.interpreter.arithmetic import float_info, is_whole
from mugraph.runtime.interpreter.bounded_arithmetic import BoundedArithmetic
from mugraph.runtime.interpreter.bounds import BoundedArray
from mugraph.runtime.interpreter.coverage import BITS, CoverageArithmetic, CoverageArray, Sides
from mugraph.runtime.interpreter.dispatch import watched_by
from mugraph.runtime.interpreter.rounding import FLOAT64
from mugraph.runtime.interpreter.run import naming_rows, random_elements

SCALES = (1.0, 2.0**-2, 2.0**-4, 2.0**-6)
"""Standard deviations of the inputs; the first without an overflow, beginning with the seed's."""

PROBE_SCALES = (2.0**3, 2.0**6, 2.0**9, 2.0**12)
"""Standard deviations of inputs that are to come by a threshold."""

MOST_PROBES = 40
"""How many evaluations look for the sides of thresholds."""

FEWEST_PROBES, FEWEST_QUANTIZED_PROBES, ENOUGH_ELEMENTS = 8, 30, 2**16
"""How many there are, or elements to compare, even where all sides have been seen.

What is not seen so is where a function bends otherwise, as the root of a square does.  Rounding to
8 bits hides most of such differences.
"""

SMALLEST, LARGEST = 2.0**-10, 2.0**15
"""Between which inputs of all sizes are."""

ARITHMETIC = BoundedArithmetic(models=(FLOAT64,))


class Sizes(Enum):
    """What inputs are of one size."""

    ALL = "scale {scale:g}"
    TENSOR = "a scale for each input"
    ELEMENT = "all sizes"


@dataclass(frozen=True)
class RandomInputs:
    """Random numbers: normal ones times ``scale`` that fp16 holds, or of other sizes.

    They are absolute values if ``positive``.  Half of those of all sizes are near ``constants``.
    """

    seed: int
    scale: float
    positive: bool
    sizes: Sizes = Sizes.ALL
    constants: tuple[float, ...] = ()

    def __str__(self) -> str:
        sign = ", positive" if self.positive else ""
        return f"float64, seed {self.seed} ({self.sizes.value.format(scale=self.scale)}{sign})"

    def arrays(self, subject: Subject) -> list[Array]:
        """The inputs for a function."""
        generator = np.random.default_rng(self.seed)
        arrays: list[Array] = []
        for shape, dtype in zip(subject.input_shapes, subject.input_dtypes, strict=True):
            numbers = generator.standard_normal(shape) * self.scale
            if self.sizes is Sizes.ALL:
                limit = float(float_info(np.dtype(np.float16)).max)
                array = np.clip(numbers, -limit, limit).astype(np.float16)
            else:
                array = self._sized(numbers, generator)
                if not is_whole(dtype):
                    limit = float(float_info(dtype).max)
                    array = np.clip(array, -limit, limit)
            arrays.append(random_elements(array, dtype, positive=self.positive))
        return naming_rows(subject.function, arrays)

    def _sized(self, numbers: Array, generator: np.random.Generator) -> Array:
        whole = self.sizes is Sizes.TENSOR
        exponents = np.log2([SMALLEST, LARGEST])
        sizes = 2.0 ** generator.uniform(*exponents, size=() if whole else numbers.shape)
        if not self.constants:
            return numbers * sizes
        near = generator.choice(self.constants, numbers.shape)
        near = near + numbers * np.where(generator.random(numbers.shape) < 0.5, near / 8, 1.0)
        return np.where(generator.random(numbers.shape) < 0.5, near, numbers * sizes)


def _probes(seed: int, constants: Sequence[float]) -> Iterator[RandomInputs]:
    """Inputs that are to come by thresholds, without an end."""
    near = tuple(sorted(constants))
    signs = (False, True)
    yield from (RandomInputs(seed, 1.0, positive, Sizes.ELEMENT, near) for positive in signs)
    yield from (RandomInputs(seed, scale, positive) for scale in PROBE_SCALES for positive in signs)
    while True:
        seed += 1
        for sizes in (Sizes.TENSOR, Sizes.ELEMENT):
            yield from (RandomInputs(seed, 1.0, positive, sizes) for positive in signs)
            yield from (RandomInputs(seed, 1.0, positive, sizes, near) for positive in signs)


@dataclass
class Float64Reference:
    """The second of two functions, evaluated once for each choice of inputs."""

    subject: Subject
    _chosen: dict[int, RandomInputs] = field(default_factory=dict[int, RandomInputs])
    _results: dict[RandomInputs, list[BoundedArray]] = field(
        default_factory=dict[RandomInputs, list[BoundedArray]]
    )

    def results(self, inputs: RandomInputs) -> list[BoundedArray]:
        """The function's results on some inputs."""
        if inputs not in self._results:
            self._results[inputs] = evaluate(self.subject, inputs.arrays(self.subject))
        return self._results[inputs]

    def choose(self, seed: int) -> RandomInputs:
        """The inputs of a seed.

        They get smaller, and then positive, until all results and their bounds are finite; where
        no choice does that, the one with the most finite elements is taken.
        """
        if seed not in self._chosen:
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
            _, self._chosen[seed], results = best
            self._results[self._chosen[seed]] = results
        return self._chosen[seed]

    def test(self, subject: Subject, seeds: Sequence[int]) -> Test:
        """Compares a function with the reference on the inputs of some seeds, and on others.

        Raises ``BudgetError`` where a budget is spent before the first comparison.
        """
        test = Test()
        # Finite fields tell apart what has no thresholds and nothing else that is unknown to them.
        functions = (subject, self.subject)
        degrees = itertools.chain.from_iterable(map(degrees_of, functions))
        is_unknown = any(one.roots or one.nested for one in degrees)
        sides = [(one, Sides()) for one in functions] if is_unknown else []
        try:
            for seed in seeds:
                self._compare(subject, self.choose(seed), sides, test)
                test.evaluations += 1
                if test.difference is not None:
                    return test
            constants = {
                signed
                for _, one in sides
                for number in one.constants
                for signed in (number, -number)
            }
            for inputs in _probes(max(seeds), sorted(constants)):
                self._compare(subject, inputs, sides, test)
                test.probes += 1
                quantizes = any(one.quantizes for _, one in sides)
                fewest = FEWEST_QUANTIZED_PROBES if quantizes else FEWEST_PROBES
                is_many = test.probes >= fewest or test.total >= ENOUGH_ELEMENTS
                is_done = not sides or (is_many and not any(one.unseen() for _, one in sides))
                if test.difference is not None or is_done or test.probes == MOST_PROBES:
                    break
        except BudgetError as error:
            if not test.evaluations:
                raise
            test.cut_short = str(error)
        test.unseen = sorted({side for _, one in sides for side in one.unseen()})
        return test

    def _compare(
        self,
        subject: Subject,
        inputs: RandomInputs,
        sides: Sequence[tuple[Subject, Sides]],
        test: Test,
    ) -> None:
        """One evaluation; what it finds goes into ``test`` and ``sides``."""
        arrays = inputs.arrays(self.subject)
        pairs = list(zip(evaluate(subject, arrays), self.results(inputs), strict=True))
        usable = [_usable(one) & _usable(other) for one, other in pairs]
        test.count(usable)
        for number, (one, other) in enumerate(pairs):
            with np.errstate(all="ignore"):
                room = one.bound(FLOAT64) + other.bound(FLOAT64)
                wrong = usable[number] & (np.abs(one.value - other.value) > room)
            if wrong.any():
                place = first_place(wrong)
                kept = {f"input{n}": array for n, array in enumerate(arrays)}
                kept |= {"result_a": one.value, "result_b": other.value}
                test.difference = Difference(
                    str(inputs),
                    number,
                    place,
                    f"{one.value[place]:.17g}",
                    f"{other.value[place]:.17g} (rounding explains {room[place]:.1e})",
                    kept,
                )
                return
        for function, seen in sides:
            if not seen.numbers or seen.unseen():
                _cover(function, arrays, usable, seen)


def _cover(subject: Subject, arrays: Sequence[Array], usable: Sequence[Array], seen: Sides) -> None:
    """Takes down which sides of a function's thresholds the usable elements are made on."""
    arithmetic = CoverageArithmetic(sides=seen)
    seen.first = 0
    while True:
        quantizes = seen.quantizes
        with watched_by(seen.enter):
            inputs = [arithmetic.exact(array) for array in arrays]
            results: list[CoverageArray] = subject.evaluate(inputs, arithmetic)
        if seen.quantizes != quantizes:
            seen.begin()
            continue
        for result, where in zip(results, usable, strict=True):
            seen.note(int(np.bitwise_or.reduce(result.made_on[where], axis=None)))
        seen.first += BITS
        if seen.first >= len(seen.numbers):
            return


def evaluate(subject: Subject, inputs: Sequence[Array]) -> list[BoundedArray]:
    """The results of a function with their bounds."""
    return subject.evaluate([ARITHMETIC.exact(array) for array in inputs], ARITHMETIC)


def _usable(result: BoundedArray) -> Array:
    return np.isfinite(result.value) & np.isfinite(result.bound(FLOAT64))
