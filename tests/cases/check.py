"""What a case's results must be, and how far each element of them may be off.

The budget of an element is derived by running error analysis of the schedule that runs
(``mugraph.runtime.interpreter.bounds``), with additions in fp32 rounded as tensor cores do, or
given in closed form by the case where the schedule is too large to evaluate.  No element may miss
it: there is no share of mismatches that is allowed.

A case's reference in numpy rounds nothing.  What a µGraph computes with integers and f8 is compared
with it over the real numbers, before and after transpiling; results are then compared with the
schedule's own float64 results, in which rounding to these types is a part of the function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from cases.case import Array, Case, draw, results_of
from mugraph.dialects.tb import STensorType
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.sequence import verifying
from mugraph.passes.transpile import LEVEL_ENDS, transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter.arithmetic import (
    Arithmetic,
    Precision,
    convert,
    is_quantizing,
    is_whole,
    storage_dtype,
)
from mugraph.runtime.interpreter.bounded_arithmetic import BoundedArithmetic
from mugraph.runtime.interpreter.bounds import BoundedArray
from mugraph.runtime.interpreter.rounding import RoundingModel
from mugraph.runtime.interpreter.run import evaluate_function

SHARE_OF_SCHEDULES = 200
"""What schedules may be off over the real numbers, of 1e-9: constants such as 1/n are fp32."""
MANY_ELEMENTS = 2**24
"""Results of more elements are kept in fp32, with its rounding added to their budgets."""


class TensorCoreModel(RoundingModel):
    """Rounds to storage types, and in fp32 with four times the error of rounding to nearest.

    A tensor core adds products to an accumulator by truncation, with one or two bits beyond fp32's.
    """

    @property
    def unit(self) -> float:
        """The largest relative error of one operation."""
        return 4 * super().unit


ON_GPU = TensorCoreModel(np.float32, stores=True)


@dataclass(frozen=True)
class Expected:
    """Inputs of the arguments' types, and what must come of them."""

    inputs: list[Array]
    results: list[Array]
    """In float64, of the inputs as rounded."""
    quantizes: bool
    """Whether something in the µGraph has a type to which rounding is a part of the function."""


@dataclass(frozen=True)
class Verdict:
    """One run of a case against its reference."""

    share: float
    """The largest error of an element, in parts of its budget."""
    relative_error: float
    """The largest error of an element, relative to the largest magnitude of its result."""
    message: str = ""
    """What is wrong; empty where nothing is."""


def parse(case: Case) -> ModuleOp:
    """The case's verified µGraph."""
    module = parse_text(make_context(), case.text, case.id)
    module.verify()
    return module


def transpile(case: Case, module: ModuleOp, arch: str) -> ModuleOp:
    """The planned schedule, in place of the µGraph.

    The cases that sanitizers run have every operator and every type: they are verified after each
    pass, the others where a level ends.
    """
    verified_after = (ModulePass,) if case.sanitize else LEVEL_ENDS
    verifying(transpile_pipeline(arch, case.plan), verified_after).apply(make_context(), module)
    return module


def inputs_of(case: Case, module: ModuleOp) -> list[Array]:
    """The case's random inputs, rounded to the arguments' types."""
    types = only_function(module).function_type.inputs.data
    drawn = draw(case, [shape_of(type_) for type_ in types])
    return [
        _stored(array, storage_dtype(element_type_of(type_)))
        for array, type_ in zip(drawn, types, strict=True)
    ]


def _stored(array: Array, dtype: np.dtype[Any]) -> Array:
    return convert(np.rint(array) if is_whole(dtype) else array, dtype)


def expected_of(case: Case, module: ModuleOp) -> Expected:
    """The inputs and reference of a case whose µGraph is ``module``."""
    inputs = inputs_of(case, module)
    return Expected(inputs, results_of(case.reference, inputs), quantizes(module))


@dataclass(frozen=True)
class RealArithmetic(Arithmetic):
    """Float64 that rounds nothing, not to integers or f8 either."""

    precision: Precision = Precision.FLOAT64

    def load(self, array: Array) -> Array:
        """The same numbers in float64."""
        return array.astype(np.float64, copy=False)

    def round(self, value: Array, element_type: Attribute) -> Array:
        """The same numbers."""
        return value

    def device_dtype(self, type_: Attribute) -> np.dtype[Any]:
        """Float64, of every type."""
        return np.dtype(np.float64)


def quantizes(module: ModuleOp) -> bool:
    """Whether something in a µGraph has a type to which rounding is a part of the function."""
    types = [
        element_type_of(result.type)
        for op in module.walk()
        for result in op.results
        if isinstance(result.type, TensorType | STensorType)
    ]
    return any(is_quantizing(storage_dtype(type_)) for type_ in types)


def derived(module: ModuleOp, inputs: list[Array]) -> tuple[list[Array], list[Array]]:
    """A module's results in float64, and how far each element of them may be off on a GPU.

    The module may be at any stage.
    """
    arithmetic = BoundedArithmetic(models=(ON_GPU,))
    arguments = [arithmetic.exact(array) for array in inputs]
    results = evaluate_function(module, only_function(module), arguments, arithmetic)
    values: list[Array] = []
    budgets: list[Array] = []
    for result in results:
        assert isinstance(result, BoundedArray)
        values.append(result.value)
        budgets.append(result.bound(ON_GPU))
    return values, budgets


def budgets_of(case: Case, module: ModuleOp, expected: Expected) -> list[Array]:
    """The budgets of a case whose schedule is ``module``.

    Where the case quantizes, ``expected`` gets the schedule's results, once these are the
    reference's over the real numbers.  Raises ``AssertionError`` where there is none: inputs are to
    be drawn so that there is one.
    """
    if case.budget is not None:
        budgets = results_of(case.budget, expected.inputs)
    else:
        values, budgets = derived(module, expected.inputs)
        if expected.quantizes:
            same = real_share(case, module, expected) <= SHARE_OF_SCHEDULES
            assert same, f"{case.id}: the schedule is another function"
            expected.results[:] = values
    for index, budget in enumerate(budgets):
        missing = int(np.count_nonzero(~np.isfinite(budget)))
        assert not missing, f"{case.id}: {missing} elements of result {index} have no budget"
    return budgets


def judge(outputs: list[Array], expected: list[Array], budgets: list[Array]) -> Verdict:
    """Compares every element of every result with its reference, within its budget."""
    share = relative = 0.0
    for index, (output, reference, budget) in enumerate(
        zip(outputs, expected, budgets, strict=True)
    ):
        if output.shape != reference.shape:
            return Verdict(
                np.inf, np.inf, f"result {index} has extents {output.shape}, not {reference.shape}"
            )
        with np.errstate(all="ignore"):
            distance = np.abs(output.astype(np.float64) - reference)
            wrong = ~(distance <= budget)
            shares = np.where(distance > 0, distance / budget, 0.0)
        largest = float(np.abs(reference).max(initial=0.0)) or 1.0
        share = max(share, float(np.nan_to_num(shares, nan=np.inf).max(initial=0.0)))
        relative = max(
            relative, float(np.nan_to_num(distance, nan=np.inf).max(initial=0)) / largest
        )
        if wrong.any():
            place = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            return Verdict(
                share,
                relative,
                f"result {index} is {output[place]!r} at {[int(i) for i in place]}, expected "
                f"{reference[place]:.9g} within {budget[place]:.3g}; "
                f"{int(np.count_nonzero(wrong))} of {wrong.size} elements are off",
            )
    return Verdict(share, relative)


def real_share(case: Case, module: ModuleOp, expected: Expected) -> float:
    """How far the interpreter's float64 is from the reference, in parts of 1e-9 of the largest.

    Constants of µGraphs are fp32 numbers, and so are references' where it matters.
    """
    arguments = [array.astype(np.float64) for array in expected.inputs]
    function = only_function(module)
    results = evaluate_function(module, function, arguments, RealArithmetic())
    largest = 0.0
    for result, reference in zip(results, expected.results, strict=True):
        assert result.shape == reference.shape, f"{case.id} gives extents {result.shape}"
        scale = float(np.abs(reference).max(initial=0.0)) or 1.0
        largest = max(largest, float(np.abs(result - reference).max(initial=0.0)) / scale / 1e-9)
    return largest
