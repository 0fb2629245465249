"""In what numbers the interpreter computes, and where it rounds.

Two precisions.  ``storage`` computes as the generated kernels do: every operator computes in fp32
and rounds its result once to the result's element type; integers are computed with exactly, as
int64.  ``float64`` is the
reference: what a µGraph means over the real numbers.  It computes in float64 and rounds only where
rounding is a part of that meaning, to integers and to 8 bits (:func:`is_quantizing`).  Both start
from the same inputs, rounded to the element types of the function's arguments.

Other kinds of number are a subclass of :class:`Arithmetic` with arrays of their own:
:mod:`mugraph.runtime.interpreter.bounds` and :mod:`mugraph.runtime.interpreter.fields`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from xdsl.ir import Attribute

from mugraph.dialects.element_types import DESCRIPTIONS, FLOAT_TYPES, rounds_for_good
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.interpreter.errors import ExecutionError

Array = npt.NDArray[Any]
"""An array of numpy's, or a ``ComponentArray`` that behaves like one (``components.py``)."""

STORAGE_DTYPES: dict[Attribute, np.dtype[Any]] = {
    type_: np.dtype(getattr(ml_dtypes, known.array, known.array))
    for type_, known in DESCRIPTIONS.items()
}
"""The numpy type of each element type."""

SATURATING = tuple(STORAGE_DTYPES[type_] for type_ in FLOAT_TYPES if rounds_for_good(type_, []))
"""Floating-point types whose largest number stands for everything larger."""


def is_whole(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of a type are integers, or truths."""
    return dtype.kind in "iub"


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest number of an integer type; of truths, 0 and 1."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of a type are floating-point, also of the types that numpy itself lacks."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype in STORAGE_DTYPES.values())


def float_info(dtype: np.dtype[Any]) -> Any:
    """What ``numpy.finfo`` says of numpy's types, for all floating-point types."""
    known: Any = ml_dtypes.finfo
    return known(dtype)


def is_quantizing(dtype: np.dtype[Any]) -> bool:
    """Whether rounding to a type is a part of what a µGraph computes: to integers and to f8.

    Rounding to other types is an error that a compiler may make or leave out.
    """
    return is_whole(dtype) or dtype in SATURATING


def convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in another type, as ``tb.cast`` and the CUDA headers convert them.

    Rounds to nearest even.  f8 and integers saturate, except that integers of 32 and 64 bits wrap
    around where the numbers are integers, sums of them.  NaN becomes 0 in integers.  Truths are
    false of 0 and true of everything else.
    """
    if values.dtype == dtype:
        return values
    if dtype.kind == "b":
        return np.asarray(values != 0)
    if is_whole(dtype):
        least, most = integer_limits(dtype)
        if is_whole(values.dtype):
            narrow = values if dtype.itemsize > 1 else np.clip(values, least, most)
            return narrow.astype(dtype)
        whole = np.rint(values.astype(np.float64))
        inside = np.where((whole > least) & (whole < most), whole, 0).astype(dtype)
        return np.where(whole >= most, most, np.where(whole <= least, least, inside)).astype(dtype)
    if is_whole(values.dtype):
        values = values.astype(np.float32 if dtype.itemsize <= 4 else np.float64)
    if dtype in SATURATING:
        largest = float(float_info(dtype).max)
        wide = values if values.dtype == np.float64 else values.astype(np.float32)
        return np.clip(wide, -largest, largest).astype(dtype)
    return values.astype(dtype)


def quantize(values: Array, dtype: np.dtype[Any]) -> Array:
    """Float64 numbers rounded to integers or f8; NaN where they are NaN, or no i32.

    Sums of i32 wrap around where other numbers saturate: neither is a function of real numbers.
    """
    rounded = convert(values, dtype).astype(np.float64)
    undefined = np.isnan(values)
    if is_whole(dtype) and dtype.itemsize > 1:
        least, most = integer_limits(dtype)
        undefined |= (values < least) | (values > most)
    return np.where(undefined, np.nan, rounded)


def _rounds(values: Array, dtype: np.dtype[Any]) -> bool:
    """Whether some of the numbers are none of the type."""
    return not np.array_equal(convert(values, dtype).astype(np.float64), values, equal_nan=True)


TF32_DROPPED = 13
"""How many bits of an fp32 mantissa TF32 leaves out."""


def round_to_tf32(values: Array) -> Array:
    """fp32 numbers with 10 bits of mantissa: to nearest, ties away from zero."""
    bits = values.astype(np.float32).view(np.uint32)
    half, mask = np.uint32(1 << (TF32_DROPPED - 1)), np.uint32(2**32 - (1 << TF32_DROPPED))
    rounded = ((bits + half) & mask).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


class Precision(StrEnum):
    """What :class:`Arithmetic` is like."""

    STORAGE = "storage"
    FLOAT64 = "float64"


def storage_dtype(element_type: Attribute) -> np.dtype[Any]:
    """The numpy type of an element type; raises ``ExecutionError`` where there is none."""
    dtype = STORAGE_DTYPES.get(element_type)
    if dtype is None:
        known = ", ".join(str(known) for known in STORAGE_DTYPES)
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
    rounded: set[np.dtype[Any]] | None = field(default=None, compare=False, kw_only=True)
    """Where types are noted that numbers of others are rounded to; ``None`` to note nothing.

    TF32 is noted as f16, which has as many bits.
    """

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
        if is_whole(array.dtype):
            return array.astype(np.int64, copy=False)
        return array.astype(self.compute_dtype, copy=False)

    def round(self, value: Array, element_type: Attribute) -> Array:
        """``value`` rounded to nearest even in the element type, still ready to compute with.

        With precision "float64" only where the type is quantizing.
        """
        dtype = storage_dtype(element_type)
        if self.rounded is not None and dtype not in self.rounded and _rounds(value, dtype):
            self.rounded.add(dtype)
        if self.precision is Precision.FLOAT64 and not is_quantizing(dtype):
            dtype = self.compute_dtype
        return value if dtype == value.dtype else self.load(convert(value, dtype))

    def added_with(
        self,
        bits: int,
        depth: int,
        product: Array,
        factors: tuple[Array, Array],
        before: Array | None,
    ) -> Array:
        """A product whose instruction keeps so many fraction bits of what it adds.

        ``depth`` is its extent along k, ``before`` what it is added to.  Results here are those of
        fp32; bounds grow by what a run may lose.
        """
        return product

    def multiplicand(self, value: Array) -> Array:
        """An f32 operand of a matrix product in TF32: rounded to that."""
        if self.rounded is not None and not np.array_equal(round_to_tf32(value), value):
            self.rounded.add(np.dtype(np.float16))
        return value if self.precision is Precision.FLOAT64 else round_to_tf32(value)

    def device_dtype(self, type_: Attribute) -> np.dtype[Any]:
        """The numpy type of a tensor in device memory."""
        dtype = storage_dtype(element_type_of(type_))
        is_kept = self.precision is Precision.STORAGE or is_whole(dtype)
        return dtype if is_kept else np.dtype(np.float64)

    def store(self, value: Array, type_: Attribute) -> Array:
        """``value`` as a tensor in device memory of the given type."""
        return convert(self.round(value, element_type_of(type_)), self.device_dtype(type_))

    def empty(self, type_: Attribute) -> Array:
        """A tensor in device memory, to be written."""
        return np.empty(shape_of(type_), self.device_dtype(type_))

    def full(self, shape: Sequence[int], value: float) -> Array:
        """One constant everywhere, ready to compute with."""
        return np.full(tuple(shape), value, self.compute_dtype)


@dataclass(frozen=True)
class ComponentArithmetic(Arithmetic):
    """How operators compute with numbers of several parts each, which are stored as they are.

    A kind of number says what rounding, empty tensors and constants are.
    """

    precision: Precision = Precision.FLOAT64

    @property
    def element_bytes(self) -> int:
        """What one number takes, with temporaries."""
        return 4 * np.dtype(np.float64).itemsize

    def load(self, array: Any) -> Any:
        """The same numbers."""
        return array

    def multiplicand(self, value: Any) -> Any:
        """The same numbers."""
        return value

    def store(self, value: Any, type_: Attribute) -> Any:
        """The same numbers, after what rounding to the type does."""
        return self.round(value, element_type_of(type_))
