"""Tensors: a layout over something that can be indexed.

A :class:`Tensor` is a view, not a container: an *engine* (storage, or a rule that computes values)
and a layout that maps coordinates to the engine's indices.  Slicing and tiling change the layout
and the offset, never the storage::

    A = make_tensor(range_engine, (8,(2,2)):(2,(1,16)))
    A[17] == A[1, 2] == A[1, (0, 1)]          one element has many coordinates
    A[3, _]                                   the row 3, a tensor of shape ((2,2))

*Partitioning is composition, then slicing*: compose a tensor with a layout from (thread, value) to
1-D coordinates, then fix the thread.

``copy`` and ``gemm`` are CuTe's algorithms: copy is of rank 1 whatever the ranks of its tensors,
gemm of rank 3, and gather, broadcast, transpose, tensor contractions and convolution are these two
on other layouts.

Source: seed 004, slides "Introduction", "Copy Basics", "Gemm Basics", "Compositional Power".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from mugraph.dialects.cute.algebra import composition, filter_zeros
from mugraph.dialects.cute.basis import ScaledBasis, add_coordinates
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import (
    Coord,
    IntTuple,
    Underscore,
    _,
    compact_col_major,
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
from mugraph.dialects.cute.swizzle import ComposedLayout
from mugraph.dialects.cute.tiling import tiled_product, zipped_divide

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray


class Engine(Protocol):
    """What a tensor's layout indexes."""

    def load(self, index: Any) -> Any:
        """The element at an index."""
        ...

    def store(self, index: Any, value: Any) -> None:
        """Write the element at an index; LayoutError where the engine only computes values."""
        ...


class ArrayEngine:
    """The elements of a one-dimensional numpy array, as they lie in memory."""

    def __init__(self, storage: NDArray[Any]):
        if storage.ndim != 1:
            raise LayoutError(
                f"ArrayEngine: storage has {storage.ndim} dimensions; give the one-dimensional "
                "array of its elements (array.reshape(-1), a view if the array is contiguous)."
            )
        self.storage = storage

    def _checked(self, index: int) -> int:
        if not 0 <= index < self.storage.size:
            raise IndexError(
                f"The layout reaches element {index} of storage of {self.storage.size} elements."
            )
        return index

    def load(self, index: int) -> Any:
        """The element at an index."""
        return self.storage[self._checked(index)]

    def store(self, index: int, value: Any) -> None:
        """Write the element at an index."""
        self.storage[self._checked(index)] = value


class CountingEngine:
    """The integers: the element at an index is the index itself (CuTe's counting_iterator)."""

    def load(self, index: Any) -> Any:
        """The index: an integer, or a coordinate for a layout of basis strides."""
        return index

    def store(self, index: Any, value: Any) -> None:
        """Not possible."""
        raise LayoutError("A counting tensor holds no storage to write to.")


class TransformEngine:
    """Another engine's elements through a function (CuTe's transform_iterator)."""

    def __init__(self, engine: Engine, function: Callable[[Any], Any]):
        self.engine = engine
        self.function = function

    def load(self, index: Any) -> Any:
        """The function of the element at an index."""
        return self.function(self.engine.load(index))

    def store(self, index: Any, value: Any) -> None:
        """Not possible."""
        raise LayoutError("A transformed tensor holds no storage to write to.")


class Tensor:
    """A view of an engine through a layout, from ``offset`` on.

    ``tensor[coord]`` is an element, or a tensor where the coordinate has ``_``.
    """

    __slots__ = ("engine", "layout", "offset")

    engine: Engine
    layout: Layout[Any] | ComposedLayout
    offset: IntTuple

    def __init__(self, engine: Engine, layout: Layout[Any] | ComposedLayout, offset: IntTuple = 0):
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

    def _index(self, coord: Any) -> Any:
        index = self.layout(coord)
        return add_coordinates(self.offset, index) if self.offset else index

    def __getitem__(self, coord: Coord) -> Any:
        """The element at a coordinate, or the subtensor of its ``_`` modes."""
        if has_underscore(coord):
            layout, offset = self.layout.slice_and_offset(coord)
            return Tensor(self.engine, layout, add_coordinates(self.offset, offset))
        return self.engine.load(self._index(coord))

    def __setitem__(self, coord: IntTuple, value: Any) -> None:
        self.engine.store(self._index(coord), value)

    def __iter__(self) -> Iterator[Any]:
        """The elements in the order of their 1-D coordinates."""
        return (self[point] for point in range(self.size()))

    def __len__(self) -> int:
        return self.size()

    def __str__(self) -> str:
        offset = f"{to_text(self.offset)} o " if self.offset else ""
        return f"{type(self.engine).__name__} o {offset}{self.layout}"

    __repr__ = __str__

    def compose(self, *tilers: Tiler) -> Tensor:
        """The tensor of ``composition(layout, tiler)``: by mode where several tilers are given."""
        return self.apply(composition, tilers[0] if len(tilers) == 1 else tilers)

    def apply(self, operation: Callable[..., Any], *arguments: Any) -> Tensor:
        """The tensor whose layout is ``operation(layout, *arguments)``, any of the algebra's."""
        return Tensor(self.engine, operation(self.layout, *arguments), self.offset)

    def values(self) -> list[Any]:
        """The elements in the order of their 1-D coordinates."""
        return list(self)


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
    """The tensor whose elements are their own coordinates, for predicates and TMA."""
    if not is_tuple(shape):
        return Tensor(CountingEngine(), Layout(shape))
    layout = make_identity_layout(shape)
    origin: IntTuple = 0
    for step in layout.flat_stride:
        origin = add_coordinates(origin, ScaledBasis(0, step.modes).as_coordinate())
    return Tensor(CountingEngine(), layout, origin)


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
    """A new tensor of the shape of ``tensor``, filled with zeros, laid out as a fragment.

    Its element type is ``dtype``, or that of the tensor's array.
    """
    return _new_tensor(make_fragment_layout(tensor.layout), _dtype_of(tensor, dtype))


def _dtype_of(tensor: Tensor, dtype: DTypeLike | None) -> Any:
    if dtype is not None:
        return dtype
    if isinstance(tensor.engine, ArrayEngine):
        return tensor.engine.storage.dtype
    raise LayoutError("make_fragment_like: this tensor has no storage; give the element type.")


def _new_tensor(layout: Layout[int], dtype: Any) -> Tensor:
    import numpy

    storage: np.ndarray[Any, Any] = numpy.zeros(layout.cosize(), dtype)
    return Tensor(ArrayEngine(storage), layout)


def make_fragment_of_shape(shape: IntTuple, dtype: DTypeLike) -> Tensor:
    """A new dense column-major tensor of zeros."""
    return _new_tensor(Layout(shape), dtype)


def _selected(tiler: Any, projection: Any) -> Any:
    """The entries of a tiler or coordinate at which the projection is not ``_``."""
    if projection is None:
        return tiler
    if len(tiler) != len(projection):
        raise LayoutError(
            f"local_tile: the projection has {len(projection)} entries, the tiler {len(tiler)}."
        )
    return tuple(
        part
        for part, kept in zip(tiler, projection, strict=True)
        if not isinstance(kept, Underscore)
    )


def local_tile(
    tensor: Tensor, tiler: Tiler, coord: Coord, projection: tuple[Any, ...] | None = None
) -> Tensor:
    """The tile at ``coord`` of the tensor tiled by ``tiler``: shape (tile..., the ``_`` of coord).

    With a projection such as ``(1, _, 1)``, tiler and coordinate are those of a larger problem
    (M, N, K), of which the tensor has the modes where the projection is not ``_``.
    """
    tiler = _selected(tiler, projection)
    coord = _selected(coord, projection)
    tiled = tensor.apply(zipped_divide, tiler)
    tile_modes = (_,) * tiled.layout[0].rank if is_tuple(tiled.layout[0].shape) else _
    if is_tuple(coord):
        coord = coord + (_,) * (tiled.layout[1].rank - len(coord))
    return tiled[(tile_modes, coord)]


def local_partition(tensor: Tensor, tile: Layout[int], index: int) -> Tensor:
    """The elements of the tensor that ``index`` gets when ``tile`` (of threads) is laid over it.

    ``tile`` maps coordinates of the tile to thread indices; the result runs over the tiles.
    """
    tiled = tensor.apply(zipped_divide, product_each(tile.shape))
    place = tile.get_flat_coord(index)
    rest = tiled.layout[1]
    rest_modes = (_,) * rest.rank if is_tuple(rest.shape) else _
    return tiled[(place if is_tuple(tiled.layout[0].shape) else place[0], rest_modes)]


def copy(source: Tensor, destination: Tensor) -> None:
    """``destination(i) = source(i)`` for every 1-D coordinate: rank 1 whatever the ranks.

    Gather, scatter, broadcast and transpose are copies between suitable layouts.
    Raises LayoutError if the sizes differ.
    """
    if source.size() != destination.size():
        raise LayoutError(
            f"copy: the source {source.layout} has {source.size()} elements, the destination "
            f"{destination.layout} {destination.size()}."
        )
    for point in range(destination.size()):
        destination[point] = source[point]


def fill(tensor: Tensor, value: Any) -> None:
    """Write ``value`` to every element."""
    for point in range(tensor.size()):
        tensor[point] = value


def clear(tensor: Tensor) -> None:
    """Write 0 to every element."""
    fill(tensor, 0)


def gemm(a: Tensor, b: Tensor, c: Tensor) -> None:
    """``C(m,n) += A(m,k) * B(n,k)`` for A of shape (M,K), B of (N,K), C of (M,N).

    The modes may be nested: contractions (GETT) and convolutions are layouts of A, B and C.
    Raises LayoutError if the ranks are not 2 or the sizes do not fit, naming the mode.
    """
    extents: list[tuple[int, int]] = []
    for name, tensor in (("A", a), ("B", b), ("C", c)):
        if tensor.rank != 2 or not is_tuple(tensor.shape):
            raise LayoutError(f"gemm: {name} has the layout {tensor.layout}; its rank must be 2.")
        extents.append((size(tensor.shape[0]), size(tensor.shape[1])))
    (a_m, a_k), (b_n, b_k), (c_m, c_n) = extents
    for mode, first, left, second, right in (
        ("M", "A", a_m, "C", c_m),
        ("N", "B", b_n, "C", c_n),
        ("K", "A", a_k, "B", b_k),
    ):
        if left != right:
            raise LayoutError(
                f"gemm: the mode {mode} has {left} elements in {first} and {right} in {second}."
            )
    for k in range(a_k):
        for m in range(a_m):
            for n in range(b_n):
                c[m, n] += a[m, k] * b[n, k]
