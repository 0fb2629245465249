"""Handles of the tensors of a graph that is being built."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self, cast

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from mugraph.build.errors import BuildError, in_names
from mugraph.build.named_numbers import NamedNumber
from mugraph.dialects.element_types import is_integer
from mugraph.dialects.tensor_types import (
    STAND_INS,
    dims,
    element_type_of,
    layout_of,
    shape_of,
    strides_of,
)


@dataclass(frozen=True, eq=False)
class Handle:
    """A value of a graph, with what its type says of it.

    ``x + y``, ``x - y``, ``x * y``, ``x / y`` and ``x @ y`` are the graph's ``add``, ``sub``,
    ``mul``, ``div`` and ``matmul``; a number beside a tensor is an fp32 constant, beside one of
    integers an integer.  ``x > y``, ``x == y`` and the like are 1 where that holds, else 0, of
    integers truths; ``&``, ``|`` and ``~`` are of such.
    """

    value: SSAValue
    graph: Any

    # A numpy array beside a tensor is no operand; without this numpy would take it apart.
    __array_ufunc__ = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents; of those that only a call says nothing may depend on the number."""
        shape = self.stand_ins
        if STAND_INS.keys().isdisjoint(shape):
            return shape
        return tuple(map(self.graph.extent_of, shape))

    @property
    def stand_ins(self) -> tuple[int, ...]:
        """The extents, with a number in the place of each that only a call says."""
        return shape_of(self.value.type)

    @property
    def dtype(self) -> Attribute:
        """The element type."""
        return element_type_of(self.value.type)

    @property
    def _of_comparisons(self) -> Attribute:
        """The type of ``x > y``: this tensor's, or truths."""
        return i1 if is_integer(self.dtype) else self.dtype

    def __add__(self, other: Self | float) -> Self:
        return self._with("add_scalar", other, "add")

    def __sub__(self, other: Self | float) -> Self:
        if isinstance(other, Real) and not is_integer(self.dtype):
            return self._with("add_scalar", -other, "add")
        return self._with("add_scalar", other, "sub")

    def __mul__(self, other: Self | float) -> Self:
        return self._with("mul_scalar", other, "mul")

    def __truediv__(self, other: Self | float) -> Self:
        if isinstance(other, Real) and not is_integer(self.dtype):
            return self._with("mul_scalar", 1 / other, "mul")
        return self._with("mul_scalar", other, "div")

    def __matmul__(self, other: Self) -> Self:
        return self._with(None, other, "matmul")

    def __rsub__(self, other: float) -> Self:
        if is_integer(self.dtype):
            return self.graph.sub(other, self)
        return -self + other

    def __pow__(self, other: Self | float) -> Self:
        if isinstance(other, Real) and other == 2:
            return self.graph.square(self)
        return self.graph.pow(self, other)

    def __rpow__(self, other: float) -> Self:
        return self.graph.pow(other, self)

    def __rtruediv__(self, other: float) -> Self:
        return self.graph.reciprocal(self) * other

    def __abs__(self) -> Self:
        return self.graph.abs(self)

    def __gt__(self, other: Self | float) -> Self:
        return self.graph.less(other, self, dtype=self._of_comparisons)

    def __lt__(self, other: Self | float) -> Self:
        return self.graph.less(self, other)

    def __ge__(self, other: Self | float) -> Self:
        return self.graph.less_equal(other, self, dtype=self._of_comparisons)

    def __le__(self, other: Self | float) -> Self:
        return self.graph.less_equal(self, other)

    def __eq__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return (self <= cast(Any, other)) & (self >= cast(Any, other))

    def __ne__(self, other: object) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ~(self == other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise BuildError(f"{self!r} has no value while a graph is built; choose with where")

    def __and__(self, other: Self) -> Self:
        first, second = self._of_one_type(other)
        return first * second

    def __or__(self, other: Self) -> Self:
        return self.graph.max(*self._of_one_type(other))

    def _of_one_type(self, other: Any) -> tuple[Self, Any]:
        """Both as truths where one of them is and the other has 1 and 0 of another type."""
        if not isinstance(other, Handle) or (self.dtype == i1) == (other.dtype == i1):
            return self, other
        if self.dtype == i1:
            return self, self.graph.less(0, other, dtype=i1)
        return self.graph.less(0, self, dtype=i1), other

    def __invert__(self) -> Self:
        return self.graph.less(self, 1) if is_integer(self.dtype) else 1 - self

    def __neg__(self) -> Self:
        return 0 - self if is_integer(self.dtype) else self * -1.0

    __radd__, __rmul__ = __add__, __mul__

    def _with(self, of_number: str | None, other: Any, of_tensors: str) -> Any:
        """One of two operators of the graph, as the second operand is a number or a tensor."""
        if isinstance(other, Handle):
            return getattr(self.graph, of_tensors)(self, other)
        if isinstance(other, NamedNumber):
            other.refuse()
        if hasattr(other, "shape") and not isinstance(other, Real):
            raise BuildError(
                f"{of_tensors}: the second operand is a {type(other).__name__}, which is no tensor "
                "of the graph; make an input of its shape with new_input, and pass it to the call"
            )
        if of_number is None or not isinstance(other, Real):
            return NotImplemented
        if is_integer(self.dtype):
            return getattr(self.graph, of_tensors)(self, other)
        return getattr(self.graph, of_number)(self, other)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dims(self.shape)}x{self.dtype})"


@dataclass(frozen=True, repr=False, eq=False)
class DTensor(Handle):
    """A tensor in device memory: an input of a kernel graph, or the result of an operator."""

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Strides in elements where they are fixed; ``None`` where the compiler will choose."""
        layout = layout_of(self.value.type)
        return None if layout is None else strides_of(layout)

    def __getitem__(self, parts: slice | tuple[slice, ...]) -> DTensor:
        """A part, by a slice of neighbouring elements for each of the first dimensions."""
        given = parts if isinstance(parts, tuple) else (parts,)
        shape = self.stand_ins
        if len(given) > len(shape) or any(
            not isinstance(part, slice)  # pyright: ignore[reportUnnecessaryIsInstance]
            or part.step not in (None, 1)
            for part in given
        ):
            raise BuildError(
                f"{self!r}[...]: expected slices without steps, such as x[2:5], for up to "
                f"{len(shape)} dimensions; of one place write x[2:3], and drop it by reshape"
            )
        for dim, (part, extent) in enumerate(zip(given, self.shape, strict=False)):
            _require_known(self, dim, part, extent)
        ends = [
            slice(part.start, None if isinstance(part.stop, NamedNumber) else part.stop).indices(
                extent
            )[:2]
            for part, extent in zip(given, shape, strict=False)
        ]
        ends += [(0, extent) for extent in shape[len(ends) :]]
        extents = [stop - start for start, stop in ends]
        if any(extent < 1 for extent in extents):
            empty = next(at for at, extent in enumerate(extents) if extent < 1)
            raise BuildError(
                f"{self!r}[...]: the slice of dimension {empty}, from {ends[empty][0]} to "
                f"{ends[empty][1]}, has no elements; parts have at least one"
            )
        return self.graph.slice(self, [start for start, _ in ends], extents)


def _is(end: int | None, number: int) -> bool:
    """Whether an end of a slice is a number, at each call."""
    if isinstance(end, NamedNumber) and isinstance(number, NamedNumber):
        return end.terms == number.terms
    return (
        not isinstance(end, NamedNumber) and not isinstance(number, NamedNumber) and end == number
    )


def _require_known(x: DTensor, dim: int, part: slice, extent: int) -> None:
    """Raises :class:`BuildError` for a part that begins or ends where only a call says."""
    start = None if _is(part.start, 0) else part.start
    stop = None if _is(part.stop, extent) else part.stop
    if start is None and stop is None:
        return
    for number in (start, stop, extent):
        if isinstance(number, NamedNumber):
            raise BuildError(
                f"{in_names(repr(x))}[...]: the slice of dimension {dim} depends on "
                f"'{number.text}', which is known only at a call; take all of the dimension, and "
                "mask what shall not count"
            )


@dataclass(frozen=True, repr=False, eq=False)
class STensor(Handle):
    """A tile in a block's shared memory: a value of a threadblock graph."""
