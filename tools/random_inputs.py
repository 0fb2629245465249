"""Random inputs of a µGraph, and how large they may be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects.functions import whole_argument_types
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.equivalence.float64 import SCALES
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import is_whole, storage_dtype
from mugraph.runtime.interpreter.run import naming_rows, random_elements
from mugraph.tools.array_files import input_shape
from mugraph.tools.diagnostics import ToolError

Array = npt.NDArray[Any]

WHOLE_SCALE = 16
"""How much larger random integers are than other random numbers."""
SCALES_BETWEEN = 3
"""How many sizes of inputs are tried beside those of ``SCALES``."""


def random_inputs(
    function: FuncOp,
    scales: Sequence[float],
    seed: int,
    *,
    positive: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> list[Array]:
    """Normal random numbers for each argument, times its scale, in the argument's element type.

    Integers are 16 times as large, and rounded; those that name rows of tables name existing ones.
    Truths hold at random.
    ``positive`` takes absolute values.  ``sizes`` are the values of named extents.
    One scale is for all arguments, otherwise there must be one each (``ToolError``).
    """
    types = whole_argument_types(function)
    if len(scales) not in (1, len(types)):
        raise ToolError(
            f"--scale has {len(scales)} values; expected one, or one for each of the {len(types)} "
            "inputs."
        )
    per_input = list(scales) * len(types) if len(scales) == 1 else scales
    generator = np.random.default_rng(seed)
    arrays: list[Array] = []
    for index, (type_, scale) in enumerate(zip(types, per_input, strict=True)):
        if isinstance(type_, IndexType):
            raise ToolError(
                f"@{function.sym_name.data} takes a number of type index; give it with --inputs."
            )
        dtype = storage_dtype(element_type_of(type_))
        size = scale * WHOLE_SCALE if is_whole(dtype) else scale
        shape = input_shape(function, index, sizes or {}) or shape_of(type_)
        numbers = generator.standard_normal(shape, np.float32) * size
        arrays.append(random_elements(numbers, dtype, positive=positive))
    return naming_rows(function, arrays)


def is_finite(
    arrays: Sequence[Array], written: Sequence[npt.NDArray[np.bool_]] | None = None
) -> bool:
    """Whether all numbers are finite, of those that were written."""
    known = [...] * len(arrays) if written is None else written
    return all(
        bool(np.isfinite(array[where].astype(np.float64)).all())
        for array, where in zip(arrays, known, strict=True)
    )


def overflows(module: ModuleOp, function: str, inputs: Sequence[Array]) -> bool:
    """Whether a µGraph has results that are not finite, in float64 or as it rounds."""
    precisions = ("float64", "storage")
    return not all(
        is_finite(run_function(module, function, inputs, precision)) for precision in precisions
    )


def largest_inputs(
    module: ModuleOp, function: FuncOp, seed: int, sizes: Mapping[str, int] | None = None
) -> tuple[str, list[Array]] | None:
    """The largest random inputs for which a µGraph's results are finite, and what they are.

    Of all scales of ``SCALES``, and a few between the largest of them that will do and the next,
    which says from where on the µGraph overflows; positive ones at last.  ``None`` where no inputs
    are found.
    """
    for positive in (False, True):
        sign = "positive, " if positive else ""

        def finite(scale: float, positive: bool = positive) -> list[Array] | None:
            inputs = random_inputs(function, [scale], seed, positive=positive, sizes=sizes)
            return None if overflows(module, function.sym_name.data, inputs) else inputs

        too_large = math.inf
        for scale in SCALES:
            found = finite(scale)
            if found is None:
                too_large = scale
                continue
            for _ in range(SCALES_BETWEEN) if math.isfinite(too_large) else ():
                between = float(f"{math.sqrt(scale * too_large):.2g}")
                larger = finite(between)
                if larger is None:
                    too_large = between
                else:
                    scale, found = between, larger
            limit = f" (it does from about {too_large:g} on)" if math.isfinite(too_large) else ""
            return f"{sign}--scale {scale:g}{limit}", found
    return None
