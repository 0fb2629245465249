"""How far results are from a reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.tensor_types import LaidOutType, element_type_of
from mugraph.passes.program.expand_mesh import expand_function
from mugraph.runtime.interpreter.arithmetic import (
    STORAGE_DTYPES,
    float_info,
    is_quantizing,
    is_whole,
)
from mugraph.runtime.interpreter.run import bound_rounding, find_function, run_function

Array = npt.NDArray[Any]

TOLERANCE = 2e-3
"""The largest relative error that counts as equal, for fp16 results of fp32 accumulation."""
FP32_TOLERANCE = 1e-3
"""The same where nothing is rounded to fewer bits than fp32 has.

Sums of f8 by warp groups, which keep the fewest bits, are off by about a tenth of it.
"""


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

    Two units in the last place of the coarsest type count as equal that something is rounded to on
    the way to a result, and :data:`TOLERANCE` at least; :data:`FP32_TOLERANCE` where that is fp32.
    Where numbers are rounded to integers or f8, so is the reference; a rounding error before that
    may carry a number to the next one of the type, so that tolerances are derived from the
    operators by running error analysis.  Whole numbers are equal where no error is derived.
    """
    rounded = set[np.dtype[Any]]()
    outputs = run_function(module, function, inputs, "float64", rounded=rounded)
    ways = _types_on_the_ways(module, function) or [rounded] * len(outputs)
    explained = [_explained_by(rounded & types) for types in ways]
    if not any(is_quantizing(dtype) for dtype in rounded.union(out.dtype for out in outputs)):
        known = [np.ones(output.shape, np.bool_) for output in outputs]
        return Reference(outputs, explained, known)
    bounds = bound_rounding(module, function, inputs)
    known = [
        np.isfinite(bound) | ~np.isfinite(output.astype(np.float64))
        for bound, output in zip(bounds, outputs, strict=True)
    ]
    tolerances: list[float] = []
    for bound, output, where, tolerance in zip(bounds, outputs, known, explained, strict=True):
        derived = relative_distance(bound[where], output[where].astype(np.float64))
        if not is_whole(output.dtype):
            tolerances.append(max(tolerance, derived))
        elif output.dtype in rounded:
            tolerances.append(derived)
        else:
            # A place of a largest element may be any other one: that tells nothing.
            tolerances.append(min(tolerance, derived))
    return Reference(outputs, tolerances, known)


def _explained_by(rounded: Iterable[np.dtype[Any]]) -> float:
    """The tolerance of a result that numbers of these types are on the way to."""
    coarse = [one for one in rounded if not is_quantizing(one) and one != np.float32]
    return tolerance_for(coarse) if coarse else FP32_TOLERANCE


def _types_on_the_ways(module: ModuleOp, function: str) -> list[set[np.dtype[Any]]]:
    """The element types of what each result is computed from; none where functions are called.

    All results of a kernel are computed from all that is in it.
    """
    found = find_function(module, function)
    last = expand_function(found).get_return_op()
    if any(isinstance(op, FuncOp) and te.is_texpr(op) for op in module.ops) or last is None:
        return []
    return [_types_before(result) for result in last.operands]


def _types_before(result: SSAValue) -> set[np.dtype[Any]]:
    values = {result}
    waiting = [result]
    while waiting:
        operation = waiting.pop().owner
        inside = operation.walk() if isinstance(operation, Operation) else ()
        for value in (each for op in inside for each in (*op.operands, *op.results)):
            if value not in values:
                values.add(value)
                waiting.append(value)
    elements = {
        element_type_of(value.type) for value in values if isinstance(value.type, LaidOutType)
    }
    types = {STORAGE_DTYPES[element] for element in elements if element in STORAGE_DTYPES}
    # Products of f32 may be of TF32, which is noted as f16: it has as many bits.
    return types | {np.dtype(np.float16)} if np.dtype(np.float32) in types else types


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
