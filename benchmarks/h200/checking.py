"""Whether a result is right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mugraph.runtime.compare import Comparison

RUNS = 20
"""How often a kernel runs; the results must be the same to the bit."""

RIGHT = "right"


@dataclass(frozen=True)
class Verdict:
    """``right``, or what is wrong."""

    status: str
    relative_error: float | None = None

    @property
    def right(self) -> bool:
        """Whether there may be a time."""
        return self.status == RIGHT


def distance(library: Any, output: Any, expected: Any) -> Comparison:
    """How far an array is from one of float64 of the same shape.

    ``library`` is ``numpy`` or ``torch``: the arrays stay where they are.
    """
    wide = output * library.ones_like(expected)  # in float64
    missing = int((~library.isfinite(wide)).sum())
    reference_missing = int((~library.isfinite(expected)).sum())
    if missing or reference_missing:
        return Comparison(math.inf, missing, reference_missing)
    norm = math.sqrt(float((expected * expected).sum()))
    apart = math.sqrt(float(((wide - expected) ** 2).sum()))
    return Comparison(apart / norm if norm > 0 else apart, 0, 0)


def judge(
    library: Any,
    output: Any,
    expected: Any,
    tolerance: float,
    differing_runs: Sequence[int] = (),
) -> Verdict:
    """The verdict on a result that lay in poisoned memory before, against a float64 reference.

    An element that is not finite is wrong whatever the reference has there.  ``differing_runs`` are
    the runs whose result was another than the first one's.
    """
    if tuple(output.shape) != tuple(expected.shape):
        return Verdict(f"wrong: shape {tuple(output.shape)} for {tuple(expected.shape)}")
    comparison = distance(library, output, expected)
    if comparison.reference_missing:
        count = comparison.reference_missing
        return Verdict(f"unknown: {count} elements of the reference are not finite")
    if comparison.missing:
        return Verdict(f"wrong: {comparison.missing} elements are not finite")
    error = comparison.relative_error
    if not comparison.holds(tolerance):
        return Verdict(f"wrong: error {error:.1e}, allowed {tolerance:.1e}", error)
    if differing_runs:
        listed = ", ".join(str(run) for run in differing_runs[:5])
        return Verdict(f"wrong: {len(differing_runs)} of {RUNS} runs differ ({listed})", error)
    return Verdict(RIGHT, error)


def judge_each(
    library: Any, outputs: Sequence[Any], expected: Sequence[Any], tolerance: float
) -> Verdict:
    """The first verdict on several results that is not right, or the one of the largest error."""
    verdicts = [judge(library, *pair, tolerance) for pair in zip(outputs, expected, strict=True)]
    return max(verdicts, key=lambda one: (not one.right, one.relative_error or 0.0))
