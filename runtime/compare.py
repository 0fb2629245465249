"""How far results are from a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from mugraph.dialects.tensor_types import LaidOutType, element_type_of
from mugraph.runtime.interpreter.arithmetic import float_info, is_whole, storage_dtype

Array = npt.NDArray[Any]

TOLERANCE = 2e-3
"""The largest relative error that counts as equal, for fp16 results of fp32 accumulation."""


WHOLE_TOLERANCE = 2.0**-5
"""The same where numbers are rounded to integers."""


def tolerance_of(module: ModuleOp) -> float:
    """The largest relative error that counts as equal for the results of a µGraph.

    Two units in the last place of the coarsest type that an operator rounds its result to, and at
    least :data:`TOLERANCE`.
    """
    tolerance = TOLERANCE
    for op in module.walk():
        for result in op.results:
            type_: Attribute = result.type
            if isinstance(type_, LaidOutType):
                dtype = storage_dtype(element_type_of(type_))
                unit = WHOLE_TOLERANCE if is_whole(dtype) else 2 * float(float_info(dtype).eps)
                tolerance = max(tolerance, unit)
    return tolerance


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
        norm = float(np.linalg.norm(expected))
        distance = float(np.linalg.norm(wide - expected))
        # Against a reference of zeros the error is absolute.
        error = distance / norm if norm > 0 else distance
    return Comparison(error, missing, reference_missing)
