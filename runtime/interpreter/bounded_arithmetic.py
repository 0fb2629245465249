"""The arithmetic of interpreters on numbers with bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.ir import Attribute

from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.arithmetic import (
    Array,
    ComponentArithmetic,
    storage_dtype,
)
from mugraph.runtime.interpreter.bounds import BoundedArray
from mugraph.runtime.interpreter.rounding import (
    FLOAT64,
    STORAGE,
    RoundingModel,
)


@dataclass(frozen=True)
class BoundedArithmetic(ComponentArithmetic):
    """Computes in float64 and derives bounds for some models of rounding."""

    models: tuple[RoundingModel, ...] = (STORAGE, FLOAT64)

    @property
    def element_bytes(self) -> int:
        """What one number takes, with the temporaries of its bounds."""
        return np.dtype(np.float64).itemsize * (1 + 2 * len(self.models))

    def exact(self, array: Array) -> BoundedArray:
        """Numbers that no run has rounded: inputs."""
        value = np.ascontiguousarray(array, np.float64)
        return BoundedArray([value, *(np.zeros_like(value) for _ in self.models)], self.models)

    def round(self, value: Any, element_type: Attribute) -> Any:
        """The same numbers, with what storing them may add to the bounds."""
        return cast(BoundedArray, value).rounded_to(storage_dtype(element_type))

    def added_with(
        self,
        bits: int,
        depth: int,
        product: Any,
        factors: tuple[Any, Any],
        before: Any | None,
    ) -> Any:
        """The same numbers, with what storing models lose of each addend below the largest one.

        An instruction cuts ``depth`` products and the sum before to a multiple of 2^-bits of the
        largest of them, and its result once more.
        """
        left, right = (cast(BoundedArray, factor).value for factor in factors)
        sums = np.zeros(product.value.shape) if before is None else before.value
        lost = np.zeros(product.value.shape)
        for first in range(0, left.shape[-1], depth):
            ours, theirs = left[..., first : first + depth], right[..., first : first + depth, :]
            most = np.abs(ours).max(-1, keepdims=True) * np.abs(theirs).max(-2, keepdims=True)
            largest = np.maximum(most, np.abs(sums) + lost)
            sums = sums + np.matmul(ours, theirs)
            lost = lost + 2.0**-bits * ((depth + 1) * largest + np.abs(sums))
        bounds = [
            bound + lost if model.stores else bound
            for bound, model in zip(product.components[1:], self.models, strict=True)
        ]
        return product.of([product.value, *bounds])

    def multiplicand(self, value: Any) -> Any:
        """The same numbers, with what rounding to TF32 may add to the bounds."""
        return cast(BoundedArray, value).rounded_to_tf32()

    def empty(self, type_: Attribute) -> Any:
        """A tensor in device memory, to be written."""
        shape = shape_of(type_)
        return BoundedArray([np.empty(shape) for _ in range(1 + len(self.models))], self.models)

    def full(self, shape: Sequence[int], value: float) -> Any:
        """One constant everywhere."""
        return self.exact(np.full(tuple(shape), value, np.float64))
