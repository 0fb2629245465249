"""Tensors: a layout over something that can be indexed.

A :class:`Tensor` is a view, not a container: an *engine* (storage, or a rule that computes values)
and a layout that maps coordinates to the engine's indices.  Slicing and tiling change the layout
and the offset, never the storage::

    A = make_tensor(range_engine, (8,(2,2)):(2,(1,16)))
    A[17] == A[1, 2] == A[1, (0, 1)]          one element has many coordinates
    A[3, _]                                   the row 3, a tensor of shape ((2,2))

*Partitioning is composition, then slicing*: compose a tensor with a layout from (thread, value) to
1-D coordinates, then fix the thread.

The offset of a tensor is a number, or what answers ``+ * // %`` as numbers do: an array with an
offset for each thread of a block, or an expression in the thread's number.  So one slice by
``thread`` is that of all threads.

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slides "Introduction", "Copy Basics",
"Gemm Basics", "Compositional Power".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mugraph.dialects.cute.algebra import composition, filter_zeros
from mugraph.dialects.cute.basis import ScaledBasis, add_coordinates
from mugraph.dialects.cute.engines import (
    ArrayEngine,
    CountingEngine,
    Engine,
    TransformEngine,
    new_registers,
)
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import (
    Coord,
    IntTuple,
    _,
    compact_col_major,
    flatten,
    has_underscore,
    is_tuple,
    product_each,
    size,
    to_text,
    unflatten,
)
from mugraph.dialects.cute.layout import (
    Layout,
    Tiler,
    make_identity_layout,
    make_layout,
    make_unchecked,
)
from mugraph.dialects.cute.machines import current_machine
from mugraph.dialects.cute.numpy_machine import NumpyMachine
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tiling import tiled_product, zipped_divide
from mugraph.dialects.cute.values import Values

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


class Tensor:
    """A view of an engine through a layout, from ``offset`` on.

    ``tensor[coord]`` is an element, or a tensor where the coordinate has ``_``.
    """

    __slots__ = ("engine", "layout", "offset")

    engine: Engine
    layout: Layout[Any] | ComposedLayout
    offset: Any

    def __init__(self, engine: Engine, layout: Layout[Any] | ComposedLayout, offset: Any = 0):
        self.engine = engine
        self.layout = layout
        self.offset = offset

    @property
    def shape(self) -> IntTuple:
        """The layout's shape."""
        return self.layout.shape

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return self.layout.rank

    def size(self) -> int:
        """The number of elements."""
        return self.layout.size()

    @property
    def dtype(self) -> Any:
        """The type of its elements.  Raises LayoutError where the engine computes values."""
        dtype = getattr(self.engine, "dtype", None)
        if dtype is None:
            raise LayoutError(f"{self} has no storage; give the element type.")
        return dtype

    element_type = dtype

    @property
    def threads(self) -> int | None:
        """How many threads it is a view of, each with an offset; None where it is of one."""
        known = getattr(self.engine, "threads", None)
        if known is not None or is_tuple(self.offset) or not getattr(self.offset, "ndim", 0):
            return known
        return len(self.offset)

    def index(self, coord: Any) -> Any:
        """The engine's index of a coordinate."""
        layout = self.layout
        if isinstance(layout, ComposedLayout):
            # A buffer that has this swizzle itself counts its elements before it.
            own = getattr(self.engine, "swizzle", None)
            index = self.unswizzled(coord)
            return index if own == layout.swizzle else layout.swizzle(index)
        index = layout(coord)
        return index if _is_zero(self.offset) else add_coordinates(self.offset, index)

    def unswizzled(self, coord: Any) -> Any:
        """The index before the swizzle, if there is one."""
        layout = self.layout
        if not isinstance(layout, ComposedLayout):
            return self.index(coord)
        return self.offset + layout.offset + layout.layout(coord)

    def __getitem__(self, coord: Any) -> Any:
        """The element at a coordinate, or the subtensor of its ``_`` modes."""
        if not has_underscore(coord):
            return self.engine.load(self.index(coord))
        layout = self.layout
        if not isinstance(layout, ComposedLayout):
            kept, offset = layout.slice_and_offset(coord)
            return Tensor(self.engine, kept, add_coordinates(self.offset, offset))
        # A swizzle acts on the whole offset, which stays inside of it.
        inner, step = layout.layout.slice_and_offset(coord)
        total: Any = self.offset + layout.offset + step
        inside = total if isinstance(total, int) else 0
        kept = ComposedLayout(layout.swizzle, inside, inner)
        return Tensor(self.engine, kept, 0 if isinstance(total, int) else total)

    def __setitem__(self, coord: Any, value: Any) -> None:
        if not has_underscore(coord):
            self.set_element(coord, value)
        elif isinstance(value, Values):
            self[coord].store(value)
        else:
            _machine().fill(self[coord], value)

    def set_element(self, coord: Any, value: Any) -> None:
        """Writes the element at a coordinate."""
        self.engine.store(self.index(coord), value)

    def places(self) -> Any:
        """The indices of all elements, ``[threads, elements]``; one row without threads.

        A numpy array.  Raises LayoutError where indices are coordinates.
        """
        import numpy

        layout = self.layout
        plain: Layout[Any] = layout.layout if isinstance(layout, ComposedLayout) else layout
        if any(isinstance(step, ScaledBasis) for step in plain.flat_stride):
            raise LayoutError(f"The indices of {self.layout} are coordinates, not numbers.")
        indices = numpy.array(plain.indices(), dtype=numpy.int64)
        total: Any = numpy.reshape(self.offset, (-1, 1)) + indices
        if isinstance(layout, ComposedLayout):
            return layout.swizzle(layout.offset + total)
        return total

    def __iter__(self) -> Iterator[Any]:
        """The elements in the order of their 1-D coordinates."""
        return (self[point] for point in range(self.size()))

    def __len__(self) -> int:
        return self.size()

    def __str__(self) -> str:
        offset = "" if _is_zero(self.offset) else f"{to_text(self.offset)} o "
        return f"{type(self.engine).__name__} o {offset}{self.layout}"

    __repr__ = __str__

    def compose(self, *tilers: Tiler) -> Tensor:
        """The tensor of ``composition(layout, tiler)``: by mode where several tilers are given."""
        return self.apply(composition, tilers[0] if len(tilers) == 1 else tilers)

    def apply(self, operation: Callable[..., Any], *arguments: Any, **options: Any) -> Tensor:
        """The tensor whose layout is ``operation(layout, *arguments)``, any of the algebra's."""
        return Tensor(self.engine, operation(self.layout, *arguments, **options), self.offset)

    def moved(self, coord: Any) -> Tensor:
        """The tensor that begins at a coordinate, which may lie outside of it.

        Raises LayoutError for a swizzled one, whose places are no sums.
        """
        if isinstance(self.layout, ComposedLayout):
            raise LayoutError(f"domain_offset: the tensor {self.layout} is swizzled.")
        return Tensor(self.engine, self.layout, add_coordinates(self.offset, self.layout(coord)))

    def load(self) -> Values:
        """What each thread reads now, as a vector: ``a.load() + b.load()``."""
        held = make_fragment_of_shape(self.layout.shape, self.dtype, self)
        _machine().copy(None, self, held, None)
        return Values(held, held.__getitem__)

    def store(self, values: Any) -> None:
        """Writes values of as many elements.  Raises LayoutError for anything else."""
        if not isinstance(values, Values):
            raise LayoutError(f"store: {values!r} is not what 'load' gives; 'fill' writes numbers.")
        count = size(values.shape)
        if count != self.size():
            raise LayoutError(f"store: {count} values are not the elements of {self.layout}.")
        places = make_counting_tensor(Layout(count))
        _machine().copy(None, transform(places, values.at), self, None)

    def rounded(self, values: Values, dtype: Any) -> Values:
        """Values as elements of a type, in registers of the threads of this tensor."""
        held = make_fragment_of_shape(values.shape, dtype, self)
        held.store(values)
        return held.load()

    def fill(self, value: Any) -> None:
        """Writes a number to every element."""
        _machine().fill(self, value)

    def values(self) -> list[Any]:
        """The elements in the order of their 1-D coordinates."""
        return list(self)


def _machine() -> Any:
    return current_machine() or NumpyMachine()


def _is_zero(offset: Any) -> bool:
    return isinstance(offset, int) and offset == 0


def make_tensor(
    storage: NDArray[Any] | Engine, layout: Layout[Any] | ComposedLayout | IntTuple
) -> Tensor:
    """A tensor over a numpy array (its elements as they lie in memory) or an engine.

    A shape for ``layout`` means the dense column-major layout.
    Raises LayoutError for an array that is not contiguous.
    """
    if not isinstance(layout, (Layout, ComposedLayout)):
        layout = Layout(layout)
    if hasattr(storage, "__array_interface__"):
        array: Any = storage
        if not array.flags.c_contiguous and not array.flags.f_contiguous:
            raise LayoutError("make_tensor: the array is not contiguous; give its base array.")
        return Tensor(ArrayEngine(array.reshape(-1, order="A")), layout)
    engine: Any = storage
    return Tensor(engine, layout)


def make_counting_tensor(layout: Layout[Any] | ComposedLayout) -> Tensor:
    """The tensor whose elements are their own indices: what a layout's picture shows."""
    return Tensor(CountingEngine(), layout)


def make_identity_tensor(shape: IntTuple) -> Tensor:
    """The tensor whose elements are their own coordinates, for predicates and TMA.

    Of extents that a call says it has the largest.
    """
    most = tuple(getattr(extent, "largest", extent) for extent in flatten(shape))
    shape = unflatten(most, shape)
    if not is_tuple(shape):
        return Tensor(CountingEngine(), Layout(shape, 1))
    layout = make_identity_layout(shape)
    origin: IntTuple = 0
    for step in layout.flat_stride:
        origin = add_coordinates(origin, ScaledBasis(0, step.modes).as_coordinate())
    return Tensor(CountingEngine(), layout, origin)


def domain_offset(coord: Any, tensor: Tensor) -> Tensor:
    """The tensor as if it began at ``coord``, which may be negative: windows begin in a padding.

    What lies outside of the tensor must not be accessed: predicates or TMA leave it out.
    """
    return tensor.moved(coord)


def transform(tensor: Tensor, function: Callable[[Any], Any]) -> Tensor:
    """The tensor of a function of the elements of another: predicates of coordinates, say."""
    return Tensor(TransformEngine(tensor.engine, function), tensor.layout, tensor.offset)


def make_fragment_layout(layout: Layout[Any] | ComposedLayout) -> Layout[int]:
    """The dense layout of a copy of a partitioned tensor in registers.

    The first mode (the values of one instruction) is innermost and column-major; the others follow
    in the order of their strides, so that copying does not permute more than it must.  Modes of
    equal stride get registers of their own (CuTe gives them the same ones).
    """
    plain: Layout[Any] = layout.layout if isinstance(layout, ComposedLayout) else layout
    if plain.rank < 2:
        return Layout(plain.shape)
    values = plain[0]
    first = make_unchecked(values.shape, compact_col_major(filter_zeros(values).shape))
    rest = make_layout(*list(plain)[1:])
    return tiled_product(first, Layout(rest.shape, _compact_by_stride(rest)))


def _compact_by_stride(layout: Layout[Any]) -> Any:
    """Compact strides for the leaves in the order of the layout's own strides."""
    order = sorted(
        range(len(layout.flat_shape)),
        key=lambda leaf: (_magnitude(layout.flat_stride[leaf]), leaf),
    )
    strides = [0] * len(order)
    step = 1
    for leaf in order:
        extent = layout.flat_shape[leaf]
        if extent > 1:
            strides[leaf] = step
            step *= extent
    return unflatten(tuple(strides), layout.shape)


def _magnitude(step: Any) -> Any:
    return (1, step.modes, step.value) if isinstance(step, ScaledBasis) else (0, (), step)


def make_fragment_like(tensor: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """New registers of the shape of ``tensor``, filled with zeros, laid out as a fragment.

    Their element type is ``dtype``, or that of the tensor.  Of the view of an array of threads each
    thread gets registers.
    """
    element = tensor.dtype if dtype is None else dtype
    return _new_registers(make_fragment_layout(tensor.layout), element, tensor)


def _new_registers(layout: Layout[int], dtype: Any, like: Tensor | None = None) -> Tensor:
    machine, elements = current_machine(), layout.cosize()
    if machine is not None:
        return Tensor(machine.registers(elements, dtype), layout)
    return Tensor(new_registers(elements, dtype, None if like is None else like.threads), layout)


def make_fragment_of_shape(
    shape: IntTuple | Layout[int], dtype: DTypeLike, like: Tensor | None = None
) -> Tensor:
    """New registers of zeros: dense and column-major, or of a layout.

    They are of the threads that ``like`` is a view of.
    """
    layout = shape if isinstance(shape, Layout) else Layout(shape)
    return _new_registers(layout, dtype, like)


def _selected(tiler: Any, projection: Any) -> Any:
    """The entries of a tiler or coordinate at which the projection is not ``_``."""
    if projection is None:
        return tiler
    if len(tiler) != len(projection):
        raise LayoutError(
            f"The projection has {len(projection)} entries, the tiler or coordinate {len(tiler)}."
        )
    return tuple(part for part, kept in zip(tiler, projection, strict=True) if kept is not None)


def local_tile(
    tensor: Tensor, tiler: Tiler, coord: Coord, proj: tuple[Any, ...] | None = None
) -> Tensor:
    """The tile at ``coord`` of the tensor tiled by ``tiler``: shape (tile..., the ``_`` of coord).

    With a projection such as ``(1, _, 1)``, tiler and coordinate are those of a larger problem
    (M, N, K), of which the tensor has the modes where ``proj`` is not ``_``.
    """
    tiler = _selected(tiler, proj)
    coord = _selected(coord, proj)
    tiled = tensor.apply(zipped_divide, tiler)
    tile_modes = (_,) * tiled.layout[0].rank if is_tuple(tiled.layout[0].shape) else _
    if is_tuple(coord):
        coord = coord + (_,) * (tiled.layout[1].rank - len(coord))
    return tiled[(tile_modes, coord)]


def local_partition(
    tensor: Tensor, tiler: Layout[int], index: Any, proj: tuple[Any, ...] | None = None
) -> Tensor:
    """The elements of the tensor that ``index`` gets when a tile of threads is laid over it.

    ``tiler`` maps coordinates of the tile to thread indices; the result runs over the tiles.  With
    a projection such as ``(1, _)``, the threads that differ only along modes at ``_`` get the same
    elements: the tensor has the modes of the tile where ``proj`` is not ``_``.
    """
    if tensor.rank < tiler.rank and proj is None:
        raise LayoutError(
            f"local_partition: the threads {tiler} have {tiler.rank} modes, the tensor "
            f"{tensor.layout} {tensor.rank}; a projection such as (1, _) says which of them it has."
        )
    extents = _selected(product_each(tiler.shape), proj)
    place = _selected(tiler.get_flat_coord(index), proj)
    tiled = tensor.apply(zipped_divide, extents)
    rest = tiled.layout[1]
    rest_modes = (_,) * rest.rank if is_tuple(rest.shape) else _
    return tiled[(place if is_tuple(tiled.layout[0].shape) else place[0], rest_modes)]
