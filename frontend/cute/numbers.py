"""Elements of tensors while a kernel is recorded: numbers that each thread computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import numpy as np
from xdsl.dialects.builtin import AffineMapAttr, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.cute.errors import DECIDED_BY_PYTHON, KernelError
from mugraph.cute.indices import Index, Numeric, Predicate, Variable, affine_map, as_index
from mugraph.cute.recording import Recording
from mugraph.dialects import te
from mugraph.dialects.cute import AnyLayout
from mugraph.runtime.interpreter.arithmetic import STORAGE_DTYPES
from mugraph.texpr import scalars

_ELEMENTS = {dtype: element for element, dtype in STORAGE_DTYPES.items()}
_NAMES = {str(element): dtype for element, dtype in STORAGE_DTYPES.items()}


def dtype_named(dtype: Any) -> np.dtype[Any]:
    """The numpy type of ``"f16"``, ``"bf16"``, ``"f32"``, ``"i32"``, or of what numpy takes.

    Raises KernelError where kernels have no such elements.
    """
    found = _NAMES.get(dtype) if isinstance(dtype, str) else None
    try:
        found = np.dtype(dtype) if found is None else found
        element_of(found)
    except TypeError:
        raise KernelError(f"there is no element type {dtype!r}; kernels have {_known()}") from None
    return found


def size_in_bytes(dtype: Any, layout: AnyLayout) -> int:
    """The bytes of the elements of a layout: ``size_in_bytes("f16", Layout((128, 64)))``."""
    return layout.size() * dtype_named(dtype).itemsize


def _known() -> str:
    return ", ".join(te.ELEMENT_TYPES)


def element_of(dtype: np.dtype[Any]) -> Attribute:
    """The element type of a numpy type.  Raises KernelError where kernels have no such elements."""
    found = _ELEMENTS.get(dtype)
    if found not in te.ELEMENT_TYPES.values():
        raise KernelError(f"kernels have no elements of type {dtype}; they have {_known()}")
    return cast("Attribute", found)


def _fail(message: str) -> NoReturn:
    raise KernelError(message)


def _between(operator: str, *, is_reflected: bool = False) -> Callable[[Number, Any], Number]:
    """What Python calls for an operator of a number and another one, on its left if reflected."""

    def method(number: Number, other: Any) -> Number:
        left, right = (other, number) if is_reflected else (number, other)
        return number.binary(operator, left, right)

    return method


def _comparison(operator: str) -> Callable[[Number, Any], Number]:
    return lambda number, other: number.compared(operator, other)


class Number:
    """A number that each thread computes; arithmetic is in f32, and in i32 for integers."""

    __array_ufunc__ = None

    def __init__(self, recording: Recording, value: SSAValue) -> None:
        self.recording = recording
        self.value = value

    def emit(self, op: Operation) -> SSAValue:
        """Adds an operator."""
        return self.recording.add(op)

    def binary(self, operator: str, left: Any, right: Any) -> Number:
        """An operator of two numbers."""
        lhs, rhs = self._operands(left, right, in_f32=operator == "/")
        result = scalars.binary(operator, lhs, rhs, self.emit, _fail)
        return Number(self.recording, cast("SSAValue", result))

    def _operands(self, *given: Any, in_f32: bool = False) -> list[scalars.Scalar]:
        """Numbers of one kind, as Python has them: beside a floating-point one i32 becomes f32."""
        values = [_scalar(self.recording, one) for one in given]
        whole = [scalars.computed_type(one) == i32 for one in values]
        if all(whole) and not in_f32:
            return values
        return [
            scalars.cast_to(one, f32, self.emit, _fail)
            if is_whole and isinstance(one, SSAValue)
            else one
            for one, is_whole in zip(values, whole, strict=True)
        ]

    def compared(self, operator: str, other: Any) -> Number:
        """Whether a comparison with another number holds."""
        lhs, rhs = self._operands(self, other)
        return Number(self.recording, scalars.compare(operator, lhs, rhs, self.emit, _fail))

    def __abs__(self) -> Number:
        return Number(self.recording, scalars.unary_function("abs", self.value, self.emit, _fail))

    def __eq__(self, other: object) -> Any:
        return self.compared("==", other)

    def __ne__(self, other: object) -> Any:
        return self.compared("!=", other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return "an element of a tensor"

    def __invert__(self) -> Number:
        """The opposite of a truth."""
        emit = self.recording.add
        return Number(self.recording, scalars.select(self.value, 0, 1, emit, _fail)) > 0

    def __neg__(self) -> Number:
        return self.binary("-", 0, self)

    __add__, __radd__ = _between("+"), _between("+", is_reflected=True)
    __sub__, __rsub__ = _between("-"), _between("-", is_reflected=True)
    __mul__, __rmul__ = _between("*"), _between("*", is_reflected=True)
    __truediv__, __rtruediv__ = _between("/"), _between("/", is_reflected=True)
    __pow__, __and__, __or__, __xor__ = map(_between, ("pow", "&", "|", "^"))
    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("<", "<=", ">", ">="))

    def __bool__(self) -> bool:
        raise KernelError(
            f"{DECIDED_BY_PYTHON}, asks for an element of a tensor, which is not known when the "
            "kernel is recorded; use a whole 'if', 'where', 'math.maximum' or 'math.minimum'"
        )

    def __float__(self) -> float:
        raise KernelError(
            "an element of a tensor is no Python number when the kernel is recorded; compute with "
            "it as it is"
        )


def _scalar(recording: Recording, value: Any) -> scalars.Scalar:
    if isinstance(value, Number):
        return value.value
    if isinstance(value, Index):
        variables, map_ = affine_map([value])
        return recording.add(te.IndexValueOp(variables, AffineMapAttr(map_)))
    if isinstance(value, int | float):
        return value
    if isinstance(value, np.generic):
        return cast("int | float", value.item())
    raise KernelError(f"{value!r} is no number of a kernel")


def as_value(recording: Recording, value: Any) -> SSAValue:
    """An element or an index as a number of the thread.  Raises KernelError for what is neither."""
    found = _scalar(recording, value)
    if not isinstance(found, SSAValue):
        raise KernelError(f"{value!r} is no element and no index")
    return found


def stored(recording: Recording, value: Any, element: Attribute) -> SSAValue:
    """A number as an element of a type, rounded to it."""
    found = _scalar(recording, value)
    if isinstance(found, float | int):
        return scalars.constant(found, element, recording.add)
    return scalars.cast_to(found, element, recording.add, _fail)


def computed(name: str, *arguments: Any) -> Number | None:
    """A function of numbers of a kernel: ``exp`` ..., ``max``, ``min``, ``pow``, or ``select``.

    ``None`` where none of the arguments is one.
    """
    recording = next((one.recording for one in arguments if isinstance(one, Number)), None)
    if recording is None:
        return None
    values = [_scalar(recording, one) for one in arguments]
    emit = recording.add
    if name == "select":
        return Number(recording, scalars.select(values[0], values[1], values[2], emit, _fail))
    if len(values) == 2:
        found = scalars.binary(name, values[0], values[1], emit, _fail)
    else:
        found = scalars.unary_function(name, values[0], emit, _fail)
    return Number(recording, cast("SSAValue", found))


class RecordedEngine:
    """A buffer of the kernel: in device memory, in shared memory, or in registers."""

    def __init__(
        self,
        recording: Recording,
        buffer: SSAValue,
        dtype: np.dtype[Any],
        swizzle: Any = None,
        sizes: Sequence[Variable | None] = (),
    ) -> None:
        self.recording = recording
        self.buffer = buffer
        self.dtype = dtype
        self.swizzle = swizzle
        """The swizzle that the buffer's own layout has: indices are those before it."""
        self.sizes = tuple(sizes)
        """Of each dimension the size that a call says; none where all are numbers."""

    @property
    def type(self) -> te.BufferType:
        """The buffer's type."""
        return cast("te.BufferType", self.buffer.type)

    @property
    def space(self) -> te.Space:
        """The memory that it is in."""
        return self.type.memory_space or te.Space.GLOBAL

    def load(self, index: Any) -> Number:
        """The element at an index, or at an index a dimension."""
        variables, map_ = self.place(index)
        view = te.ViewOp(self.buffer, variables, map_)
        return Number(self.recording, self.recording.add(view))

    def store(self, index: Any, value: Any) -> None:
        """Writes the element at an index, or at an index a dimension."""
        variables, map_ = self.place(index)
        number = stored(self.recording, value, self.type.element_type)
        self.recording.add(te.BindOp(number, self.buffer, variables, map_))

    def place(self, index: Any, width: int = 1) -> tuple[list[SSAValue], AffineMapAttr]:
        """Operands and map of the first of some neighbours.

        Raises KernelError where it is outside of the buffer for all threads; where it may be for
        some, the recording is to be checked.
        """
        indices = cast("list[Numeric]", index if isinstance(index, list) else [index])
        shape = self.type.get_shape()
        extents = shape if len(indices) == len(shape) else (self.type.elements,)
        widths = (*(1 for _one in extents[:-1]), width)
        for number, extent, along in zip(indices, extents, widths, strict=True):
            low, high = as_index(number).bounds
            if (high < 0 or low > extent - along) and not self.recording.is_left_out:
                raise KernelError(
                    f"the index {number} is outside of '{self.buffer.name_hint}', which has "
                    f"{extent} there"
                )
            if low < 0 or high > extent - along or self.sizes:
                self.recording.may_leave_buffers = True
        variables, map_ = affine_map(indices)
        return variables, AffineMapAttr(map_)


class TruthRegisters(RecordedEngine):
    """Registers of truths: of elements, or of conditions on indices, which need no instruction.

    Conditions are written in the block that makes the fragment, each at a place that is a number.
    They are read as conditions of later copies.
    """

    def __init__(self, recording: Recording, buffer: SSAValue, dtype: np.dtype[Any]) -> None:
        super().__init__(recording, buffer, dtype)
        self.known: dict[int, Predicate | bool] = {}
        """The truths of indices."""
        self._made_in = recording.nest

    def load(self, index: Any) -> Any:
        """The truth at an index.  Raises KernelError where it is one of several of indices."""
        if not self.known:
            return super().load(index)
        if index not in self.known:
            raise KernelError(f"no condition was written to place {index} of the fragment")
        return self.known[index]

    def store(self, index: Any, value: Any) -> None:
        """Keeps a truth.  Raises KernelError for other values, and where there is no such place."""
        if isinstance(value, Number) and not self.known:
            super().store(index, value)
            return
        if (
            not isinstance(value, Predicate | bool)
            or not isinstance(index, int)
            or self.recording.nest != self._made_in
        ):
            raise KernelError(
                "a fragment of truths holds conditions on indices, each written at a number where "
                "the fragment is made, or truths of elements, from 'clear' on"
            )
        self.place(index)  # it is one of the fragment's
        self.known[index] = value
