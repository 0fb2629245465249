"""How far results are from a reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from mugraph.runtime.interpreter.arithmetic import float_info, is_quantizing
from mugraph.runtime.interpreter.run import bound_rounding, run_function

Array = npt.NDArray[Any]

TOLERANCE = 2e-3
"""The largest relative error that counts as equal, for fp16 results of fp32 accumulation."""


def tolerance_for(dtypes: Iterable[np.dtype[Any]]) -> float:
    """Two units in the last place of the coarsest type, and at least :data:`TOLERANCE`."""
    return max([TOLERANCE, *(2 * float(float_info(dtype).eps) for dtype in dtypes)])


@dataclass(frozen=True)
class Reference:
    """What a µGraph should give on some inputs, and how far off each result may be."""

    outputs: list[Array]
    """In float64, rounded only where that is a part of the µGraph: to integers and f8."""
    tolerances: list[float]
    """Relative errors in the Frobenius norm."""
    known: list[npt.NDArray[np.bool_]]
    """For which elements a budget can be derived."""


def make_reference(module: ModuleOp, function: str, inputs: Sequence[Array]) -> Reference:
    """Evaluates a µGraph in float64.

    Two units in the last place of the coarsest type that an operator rounds to count as equal, and
    :data:`TOLERANCE` at least.  Where numbers are rounded to integers or f8, so is the reference;
    a rounding error before that may carry a number to the next one of the type, so that tolerances
    are derived from the operators by running error analysis.
    """
    rounded = set[np.dtype[Any]]()
    outputs = run_function(module, function, inputs, "float64", rounded=rounded)
    tolerance = tolerance_for(dtype for dtype in rounded if not is_quantizing(dtype))
    if not any(is_quantizing(dtype) for dtype in rounded):
        known = [np.ones(output.shape, np.bool_) for output in outputs]
        return Reference(outputs, [tolerance] * len(outputs), known)
    bounds = bound_rounding(module, function, inputs)
    known = [
        np.isfinite(bound) | ~np.isfinite(output.astype(np.float64))
        for bound, output in zip(bounds, outputs, strict=True)
    ]
    derived = [
        relative_distance(bound[where], output[where].astype(np.float64))
        for bound, output, where in zip(bounds, outputs, known, strict=True)
    ]
    return Reference(outputs, [max(tolerance, one) for one in derived], known)


def relative_distance(distance: Array, expected: Array) -> float:
    """The Frobenius norm of a distance over that of what was expected; over 1 if that is 0."""
    return float(np.linalg.norm(distance)) / (float(np.linalg.norm(expected)) or 1.0)


@dataclass(frozen=True)
class Comparison:
    """One output against its reference."""

    relative_error: float
    """The Frobenius norm of the difference over that of the reference; NaN counts as infinite."""
    missing: int
    """Elements that are not finite, which is what elements that were never written are."""
    reference_missing: int
    """Elements of the reference that are not finite."""

    def holds(self, tolerance: float) -> bool:
        """Whether every element is finite and the error within the tolerance."""
        return not self.missing and not self.reference_missing and self.relative_error <= tolerance


def compare(
    outputs: Sequence[Array],
    reference: Sequence[Array],
    written: Sequence[npt.NDArray[np.bool_]] | None = None,
) -> list[Comparison]:
    """Compare each output with the float64 array at the same place.

    ``written`` says which elements count, where only a sample of blocks ran; all by default.
    Raises ``ValueError`` where counts or shapes differ.
    """
    if written is None:
        written = [np.ones(output.shape, np.bool_) for output in outputs]
    return [
        _compare(one, other, mask)
        for one, other, mask in zip(outputs, reference, written, strict=True)
    ]


def _compare(output: Array, reference: Array, written: npt.NDArray[np.bool_]) -> Comparison:
    if output.shape != reference.shape:
        raise ValueError(f"an output of shape {output.shape} for one of shape {reference.shape}")
    wide = output[written].astype(np.float64)
    expected = reference[written].astype(np.float64)
    missing = int(np.count_nonzero(~np.isfinite(wide)))
    reference_missing = int(np.count_nonzero(~np.isfinite(expected)))
    error = np.inf
    if not missing and not reference_missing:
        error = relative_distance(wide - expected, expected)
    return Comparison(error, missing, reference_missing)
