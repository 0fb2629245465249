"""In what numbers the interpreter computes, and where it rounds.

Two precisions.  ``storage`` computes as the generated kernels do: every operator computes in fp32
and rounds its result once to the result's element type.  ``float64`` computes everything in
float64 and rounds nothing: it is the reference.  Both start from the same inputs, rounded to the
element types of the function's arguments.

Other kinds of number are a subclass of :class:`Arithmetic` with arrays of their own:
:mod:`mugraph.runtime.interpreter.bounds` and :mod:`mugraph.runtime.interpreter.fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import Float16Type, Float32Type
from xdsl.ir import Attribute

from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.interpreter.errors import ExecutionError

Array = npt.NDArray[Any]
"""An array of numpy's, or a ``ComponentArray`` that behaves like one (``components.py``)."""

STORAGE_DTYPES: dict[type[Attribute], np.dtype[Any]] = {
    Float16Type: np.dtype(np.float16),
    Float32Type: np.dtype(np.float32),
}
"""The numpy type of each element type that the interpreter knows; to add one, add a line."""


class Precision(StrEnum):
    """What :class:`Arithmetic` is like."""

    STORAGE = "storage"
    FLOAT64 = "float64"


def storage_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The numpy type of an element type; raises ``ExecutionError`` where there is none."""
    dtype = STORAGE_DTYPES.get(type(element_type))
    if dtype is None:
        known = ", ".join(cls.name for cls in STORAGE_DTYPES)
        raise ExecutionError(
            f"the interpreter has no numbers of element type {element_type}; it has {known}"
        )
    return dtype


@dataclass(frozen=True)
class Arithmetic:
    """How operators compute, store and load at one precision.

    A tensor in device memory is an array of its storage type (of float64 in the reference).
    Values that a block computes are arrays of ``compute_dtype`` which hold numbers that the
    element type can hold.
    """

    precision: Precision

    @property
    def compute_dtype(self) -> np.dtype[Any]:
        """The type in which every operator computes and every sum is kept."""
        is_storage = self.precision is Precision.STORAGE
        return np.dtype(np.float32 if is_storage else np.float64)

    @property
    def element_bytes(self) -> int:
        """What one number of a tile takes."""
        return self.compute_dtype.itemsize

    def load(self, array: Array) -> Array:
        """The same numbers, ready to compute with; perhaps the same array."""
        return array.astype(self.compute_dtype, copy=False)

    def round(self, value: Array, element_type: Attribute) -> Array:
        """``value`` rounded to nearest even in the element type, still ready to compute with."""
        dtype = storage_dtype(element_type)
        if self.precision is Precision.FLOAT64 or dtype == self.compute_dtype:
            return value
        return value.astype(dtype).astype(self.compute_dtype)

    def device_dtype(self, type_: Attribute) -> np.dtype[Any]:
        """The numpy type of a tensor in device memory."""
        dtype = storage_dtype(element_type_of(type_))
        return dtype if self.precision is Precision.STORAGE else np.dtype(np.float64)

    def store(self, value: Array, type_: Attribute) -> Array:
        """``value`` as a tensor in device memory of the given type."""
        return value.astype(self.device_dtype(type_), copy=False)

    def empty(self, type_: Attribute) -> Array:
        """A tensor in device memory, to be written."""
        return np.empty(shape_of(type_), self.device_dtype(type_))

    def full(self, shape: Sequence[int], value: float) -> Array:
        """One constant everywhere, ready to compute with."""
        return np.full(tuple(shape), value, self.compute_dtype)
