"""Questions about tensor types and their layouts, the same for DTensors, STensors and buffers.

A DTensor is a builtin ``tensor`` whose encoding is a ``#cute.layout``; an STensor is a
``!tb.stensor``; ``sched`` has its own buffer types.  All of them have a static shape, an element
type and, once resolved, a layout with one mode a dimension that maps coordinates to offsets in
elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Protocol, TypeVar, cast, runtime_checkable

from xdsl.dialects.builtin import FixedBitwidthType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects.cute import ComposedLayout, Layout, is_injective
from mugraph.dialects.cute.attributes import LayoutAttr

AnyLayout = Layout | ComposedLayout

A = TypeVar("A", bound=Attribute)
R = TypeVar("R")

MAX_ELEMENTS = 2**60
"""So many elements of 8 bytes have addresses of 63 bits."""
STAND_INS: dict[int, str] = {}
"""Primes that stand in for extents which calls say, while a program is built, and their names."""


@runtime_checkable
class LaidOutType(Protocol):
    """A type with a static shape, an element type and perhaps a layout."""

    def get_shape(self) -> tuple[int, ...]:
        """The extents."""
        ...

    def get_element_type(self) -> Attribute:
        """The type of one element."""
        ...


def kept_with_attribute(function: Callable[[A], R]) -> Callable[[A], R]:
    """The same function of an attribute, which keeps its result with the attribute.

    Attributes never change.  To look a result up in a table would take longer than to find it, for
    attributes are hashed with all that is in them.
    """
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def kept(attribute: A) -> R:
        results = vars(attribute)
        try:
            return results[key]
        except KeyError:
            result = results[key] = function(attribute)
            return result

    return kept


@kept_with_attribute
def shape_of(type_: Attribute) -> tuple[int, ...]:
    """The extents of a tensor, STensor or buffer type."""
    shape = cast(LaidOutType, type_).get_shape()
    if any(extent < 0 for extent in shape):
        raise VerifyException(f"{type_} has a dynamic extent; µGraphs need static ones")
    if 0 in shape:
        raise VerifyException(
            f"{type_} has no elements; extents are at least 1: leave out what computes on it"
        )
    is_large = math.prod(shape) > MAX_ELEMENTS
    if is_large and math.prod(each for each in shape if each not in STAND_INS) > MAX_ELEMENTS:
        raise VerifyException(f"{type_} has more than 2^60 elements; use smaller extents")
    return shape


def element_type_of(type_: Attribute) -> Attribute:
    """The type of one element."""
    return cast(LaidOutType, type_).get_element_type()


@kept_with_attribute
def element_bytes_of(type_: Attribute) -> int:
    """The size of one element in bytes."""
    element_type = element_type_of(type_)
    if not isinstance(element_type, FixedBitwidthType):
        raise VerifyException(f"element type {element_type} has no fixed width")
    return element_type.size


def bytes_of(type_: Attribute) -> int:
    """The bytes of all elements, whatever lies between them."""
    return math.prod(shape_of(type_)) * element_bytes_of(type_)


@kept_with_attribute
def layout_of(type_: Attribute) -> AnyLayout | None:
    """The layout of a type, ``None`` where it has not been resolved."""
    if isinstance(type_, TensorType):
        attribute = cast(TensorType[Attribute], type_).encoding
    else:
        attribute = getattr(type_, "layout", None)
    return attribute.data if isinstance(attribute, LayoutAttr) else None


def resolved_layout_of(value: SSAValue) -> AnyLayout:
    """The layout of a value; raises ``VerifyException`` naming it where there is none."""
    layout = layout_of(value.type)
    if layout is None:
        raise VerifyException(
            f"{value_label(value)} has no layout yet; run --resolve-layout before this step"
        )
    return layout


def with_layout(type_: Attribute, layout: AnyLayout) -> Attribute:
    """The same type with another layout."""
    attribute = LayoutAttr(layout)
    if isinstance(type_, TensorType):
        tensor = cast(TensorType[Attribute], type_)
        return TensorType(tensor.element_type, tensor.shape.data, attribute)
    replace = getattr(type_, "with_layout", None)
    if replace is None:
        raise TypeError(f"type {type_} carries no layout")
    return cast(Attribute, replace(attribute))


def base_layout(layout: AnyLayout) -> Layout:
    """The layout without its swizzle."""
    return layout.layout if isinstance(layout, ComposedLayout) else layout


def strides_of(layout: AnyLayout) -> tuple[int, ...]:
    """One stride a dimension, in elements; of the layout under the swizzle if there is one.

    Raises ``VerifyException`` where a dimension is not a single mode.
    """
    strides = base_layout(layout).stride
    if not isinstance(strides, tuple):
        strides = (strides,)
    if not all(isinstance(stride, int) for stride in strides):
        raise VerifyException(
            f"layout {layout} has a nested dimension; one stride was expected: run --unfold-modes "
            "before, or give the tensor a dimension for each stride"
        )
    return cast(tuple[int, ...], strides)


def has_nested_modes(type_: Attribute) -> bool:
    """Whether a dimension of a tensor in device memory has several strides."""
    if not isinstance(type_, TensorType):
        return False
    layout = layout_of(cast(Attribute, type_))
    return isinstance(layout, Layout) and layout.depth > 1


def leaves_in_memory(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents and strides of a tensor of a dimension for each stride, in row-major order.

    A nested mode counts its leftmost leaf fastest, which becomes the last of its dimensions.
    """
    modes = list(layout) if isinstance(layout.shape, tuple) else [layout]
    shape = tuple(extent for mode in modes for extent in reversed(mode.flat_shape))
    return shape, tuple(stride for mode in modes for stride in reversed(mode.flat_stride))


def leading_strides(layout: AnyLayout) -> tuple[int, ...]:
    """How far neighbours along each dimension are apart, in elements, under the swizzle.

    A dimension may be nested: it then has several strides, of which this is the first.
    """
    return tuple(mode.flat_stride[0] for mode in base_layout(layout))


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Contiguous strides in elements, the last dimension innermost."""
    strides = [1] * len(shape)
    for dim in reversed(range(len(shape) - 1)):
        strides[dim] = strides[dim + 1] * shape[dim + 1]
    return tuple(strides)


def padded_strides(
    shape: Sequence[int], innermost: int, element_bytes: int, alignment_bytes: int = 16
) -> tuple[tuple[int, ...], int]:
    """Strides in elements for a chosen innermost dimension, and the elements the tensor spans.

    Dimensions are laid out from the innermost one on, then from the last to the first; the first
    of extent over 1 is padded to ``alignment_bytes``, and only that one (Mirage's document "The
    CUDA Transpiler", "Layout Resolution").  A tensor of one element spans ``alignment_bytes`` as
    well.
    """
    alignment = max(alignment_bytes // element_bytes, 1)
    order = [innermost, *(dim for dim in reversed(range(len(shape))) if dim != innermost)]
    strides = [0] * len(shape)
    span = 1
    padded = False
    for dim in order:
        strides[dim] = span
        if shape[dim] == 1:
            continue
        extent = shape[dim]
        if not padded:
            extent = math.ceil(extent / alignment) * alignment
            padded = True
        span *= extent
    return tuple(strides), span if padded else alignment


def innermost_dimension(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The dimension of extent over 1 with stride 1.

    Where every extent is 1 the last dimension counts; ``None`` where no dimension has stride 1.
    """
    wide = [dim for dim, extent in enumerate(shape) if extent > 1]
    if not wide:
        return len(shape) - 1
    for dim in wide:
        if strides[dim] == 1:
            return dim
    return None


def innermost_of(value: SSAValue) -> int | None:
    """The innermost dimension of a value whose layout has been resolved."""
    return innermost_dimension(shape_of(value.type), leading_strides(resolved_layout_of(value)))


def without_layout(type_: Attribute) -> TensorType[Attribute]:
    """The same tensor with a layout that is still to be chosen."""
    tensor = cast(TensorType[Attribute], type_)
    return TensorType(tensor.element_type, tensor.shape.data)


def physical_elements(layout: AnyLayout) -> int:
    """How many elements a buffer of this layout spans, swizzle included.

    Raises ``VerifyException`` where they have no addresses.
    """
    span = layout.cosize()
    if span > MAX_ELEMENTS:
        raise VerifyException(f"layout {layout} spans more than 2^60 elements; use smaller strides")
    return span


def verify_layout_fits(label: str, shape: Sequence[int], layout: AnyLayout) -> None:
    """Raises ``VerifyException`` unless ``layout`` has one mode an extent of ``shape``.

    Also where it leaves so much room between elements that they have no addresses.
    """
    modes = base_layout(layout).shape
    if not isinstance(modes, tuple):
        modes = (modes,)
    sizes = tuple(mode if isinstance(mode, int) else _size(mode) for mode in modes)
    if sizes != tuple(shape):
        raise VerifyException(
            f"{label}: layout {layout} has extents {dims(sizes)}, expected "
            f"{dims(shape)}: one mode a dimension"
        )
    try:
        physical_elements(layout)
    except VerifyException as error:
        raise VerifyException(f"{label}: {error}") from error


def verify_no_broadcast(label: str, layout: AnyLayout) -> None:
    """Raises ``VerifyException`` where a dimension of extent over 1 has stride 0."""
    modes = base_layout(layout)
    shapes = modes.shape if isinstance(modes.shape, tuple) else (modes.shape,)
    strides = modes.stride if isinstance(modes.stride, tuple) else (modes.stride,)
    for dim, (extent, stride) in enumerate(zip(shapes, strides, strict=True)):
        if stride == 0 and extent != 1:
            raise VerifyException(
                f"{label}: layout {layout} has stride 0 along dimension {dim} of extent {extent}; "
                "its elements would share one address"
            )


def verify_distinct_addresses(label: str, layout: AnyLayout) -> None:
    """Raises ``VerifyException`` where two elements share one address."""
    verify_no_broadcast(label, layout)
    if not is_injective(base_layout(layout)):
        raise VerifyException(f"{label}: elements of layout {layout} share an address")


def _size(shape: tuple[object, ...]) -> int:
    return math.prod(
        extent if isinstance(extent, int) else _size(cast(tuple[object, ...], extent))
        for extent in shape
    )


def dims(shape: Sequence[int]) -> str:
    """Extents as diagnostics print them: ``16x128``."""
    return "x".join(str(extent) for extent in shape)


def value_label(value: SSAValue) -> str:
    """How diagnostics name a value: ``%name``, or by its owner where it has no name."""
    if value.name_hint:
        return f"%{value.name_hint}"
    owner = value.owner
    if isinstance(owner, Operation):
        return f"the result of {owner.name}"
    return f"argument {cast(int, getattr(value, 'index', 0))}"


def type_text(value: SSAValue) -> str:
    """The extents and the element type of a tensor, a tile or a buffer: ``16x128xf16``."""
    return f"{dims(shape_of(value.type))}x{element_type_of(value.type)}"


def source_name(value: SSAValue) -> str:
    """How messages name a value of a program that a user wrote: as there, without a sign."""
    return value.name_hint or value_label(value)


def source_values(values: Mapping[SSAValue, int]) -> str:
    """``i = 3, j = 0``."""
    return ", ".join(f"{source_name(value)} = {number}" for value, number in values.items())


def op_label(op: Operation) -> str:
    """How diagnostics name an operator: its name, its symbol or its first result."""
    symbol = op.properties.get("sym_name")
    if symbol is not None:
        return f"'{op.name}' @{getattr(symbol, 'data', symbol)}"
    if op.results and op.results[0].name_hint:
        return f"'{op.name}' %{op.results[0].name_hint}"
    if op.operands and op.operands[0].name_hint:
        return f"'{op.name}' of %{op.operands[0].name_hint}"
    return f"'{op.name}'"
