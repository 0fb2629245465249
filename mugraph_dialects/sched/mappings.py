"""Which element every thread of a block touches: the header library's mappings, in numpy.

Each function is the twin of a template of the same name in ``runtime/include/mugraph`` and gives
the offsets, in elements and after the swizzle, that the template's memory instructions use.
Nothing here knows of IR: arguments are layouts, partitions and extents.

Arrays of offsets are ``[instructions, threads]``, read-only and shared by all callers; -1 marks a
thread that an instruction leaves out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mugraph.dialects.cute import ComposedLayout, Layout, composition
from mugraph.dialects.cute.algebra import coalesced_modes
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.swizzle import Swizzle
from mugraph.dialects.cute.thread_values import ThreadValues
from mugraph.dialects.partition import VECTOR_BYTES
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.tensor_types import AnyLayout, base_layout

IntArray: TypeAlias = npt.NDArray[np.int64]

IDLE = -1
"""The offset of a thread that takes no part in an instruction."""
ATOM_M, ATOM_N = 16, 8
"""The extents of a tensor-core instruction of a warp along m and n."""
ROWS, MATRICES = 8, 4
"""Lines of one matrix of ``ldmatrix``, and elements of 16 bits in each; matrices that it loads at
once, at most."""

_CACHED = 512
_NO_GRANULE = 1 << 20


class MappingError(ValueError):
    """A template of the header library would refuse these arguments; the message says why."""


class Access(Enum):
    """How a vector of consecutive indices lies in memory."""

    CONTIGUOUS = "contiguous"
    BROADCAST = "broadcast"
    GATHER = "gather"


@dataclass(frozen=True, eq=False)
class Stream:
    """One kind of instruction: ``width`` contiguous elements a thread, at ``offsets``.

    ``significant`` counts the leading elements of each access whose values can reach a result;
    ``None`` where all of them do.
    """

    width: int
    offsets: IntArray
    significant: IntArray | None = None


def modes_of(layout: AnyLayout) -> tuple[tuple[int, int], ...]:
    """Extents and strides in order, coalesced, without a swizzle."""
    return coalesced_modes(base_layout(layout))


def granule_of(layout: AnyLayout) -> int:
    """How many elements a swizzle keeps contiguous and in order."""
    if isinstance(layout, ComposedLayout) and layout.swizzle.bits:
        return 1 << layout.swizzle.base
    return _NO_GRANULE


def offset_of(layout: AnyLayout) -> int:
    """The constant that a layout adds before its swizzle."""
    return layout.offset if isinstance(layout, ComposedLayout) else 0


def keeps_vectors(layout: AnyLayout, vector: int, modes: Iterable[tuple[int, int]]) -> bool:
    """Whether vectors of neighbours stay whole, at multiples of their length.

    ``modes`` are all that a layout has besides the neighbours.
    """
    return (
        all(stride % vector == 0 for _, stride in modes)
        and offset_of(layout) % vector == 0
        and granule_of(layout) % vector == 0
    )


def swizzled(layout: AnyLayout, offsets: IntArray) -> IntArray:
    """What the swizzle of a layout makes of offsets under it."""
    if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
        return offsets
    swizzle = layout.swizzle
    source = offsets & swizzle.source_mask
    moved = source >> swizzle.shift if swizzle.shift >= 0 else source << -swizzle.shift
    return offsets ^ moved


def coordinate_offsets(layout: AnyLayout, coordinates: Sequence[IntArray]) -> IntArray:
    """Where elements lie, by their coordinates; a dimension of the layout may be nested."""
    offset = np.array(0, np.int64)
    for mode, along in zip(base_layout(layout), coordinates, strict=True):
        rest = along
        for extent, stride in list(zip(mode.flat_shape, mode.flat_stride, strict=True))[:-1]:
            rest, digit = np.divmod(rest, extent)
            offset = offset + digit * stride
        offset = offset + rest * mode.flat_stride[-1]
    return swizzled(layout, offset)


def linear_offsets(layout: AnyLayout, indices: IntArray) -> IntArray:
    """The offsets of 1-D coordinates under the swizzle, without the constant."""
    plain = base_layout(layout)
    size = plain.size()
    # Indices are mostly those of the whole layout: a table takes no divisions.
    if size <= indices.size and indices.min() >= 0 and indices.max() < size:
        return _all_offsets(plain.flat_shape, plain.flat_stride)[indices]
    offsets = np.zeros_like(indices)
    rest = indices
    for extent, stride in zip(plain.flat_shape, plain.flat_stride, strict=True):
        rest, digit = np.divmod(rest, extent)
        offsets += digit * stride
    return offsets


@lru_cache(_CACHED)
def _all_offsets(extents: tuple[int, ...], strides: tuple[int, ...]) -> IntArray:
    """The offset of every 1-D coordinate, in order."""
    offsets = np.zeros(1, dtype=np.int64)
    for extent, stride in zip(extents, strides, strict=True):
        steps = np.arange(extent, dtype=np.int64)[:, None] * stride
        offsets = (steps + offsets).reshape(-1)
    return read_only(offsets)


def element_offsets(layout: AnyLayout, indices: IntArray) -> IntArray:
    """The offsets of 1-D coordinates, each below the size of the layout."""
    return swizzled(layout, offset_of(layout) + linear_offsets(layout, indices))


def iteration_layout(
    layout: AnyLayout, extents: Sequence[int], domain: Sequence[int], order: Sequence[int]
) -> AnyLayout:
    """A layout over an iteration domain: modes in the order of iteration, stride 0 to broadcast.

    A dimension of the layout may be nested.
    """
    modes = [
        Layout(domain[dim], 0) if extents[dim] == 1 else part_of_mode(layout, dim, domain[dim])
        for dim in order
    ]
    return _swizzled_like(layout, side_by_side(modes))


def part_of_mode(layout: AnyLayout, dim: int, count: int, step: int = 1) -> Layout:
    """The elements 0, step, 2 step ... of one dimension of a layout, ``count`` of them.

    Raises ``MappingError`` where they are no layout, as boxes side by side are cut across.
    """
    mode = base_layout(layout)[dim]
    if step == 1 and mode.size() == count:
        return mode
    if isinstance(mode.shape, int):
        return Layout(count, mode.flat_stride[0] * step)
    try:
        return composition(mode, Layout(count, step))
    except LayoutError as error:
        raise MappingError(
            f"{count} elements, {step} apart, of dimension {dim} of {layout} are no layout"
        ) from error


def side_by_side(modes: Sequence[Layout]) -> Layout:
    """A layout of these modes, each of which may be nested."""
    return Layout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))


def with_offset(layout: AnyLayout, offset: int) -> AnyLayout:
    """A layout of what starts ``offset`` elements further on, under the same swizzle."""
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.swizzle, layout.offset + offset, base_layout(layout))
    return ComposedLayout(Swizzle(0, 4, 3), offset, layout) if offset else layout


def matrix_layout(
    layout: AnyLayout, extents: Sequence[int], *, transposed: bool = False
) -> AnyLayout:
    """The last two dimensions of a buffer as a matrix, (rows, columns) or the other way round."""
    rank = base_layout(layout).rank
    parts = zip((rank - 2, rank - 1), extents[-2:], strict=True)
    modes = [part_of_mode(layout, dim, extent) for dim, extent in parts]
    if transposed:
        modes.reverse()
    return _swizzled_like(layout, side_by_side(modes))


def _swizzled_like(layout: AnyLayout, plain: Layout) -> AnyLayout:
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.swizzle, layout.offset, plain)
    return plain


def access_of(layout: AnyLayout, vector: int) -> Access:
    """How ``vector`` consecutive indices of a layout lie in memory; twin of ``access_of``."""
    modes = modes_of(layout)
    first_extent, first_stride = modes[0] if modes else (1, 0)
    if vector == 1 or first_extent % vector:
        return Access.GATHER
    if first_stride == 0:
        return Access.BROADCAST
    if first_stride == 1 and keeps_vectors(layout, vector, modes[1:]):
        return Access.CONTIGUOUS
    return Access.GATHER


@lru_cache(_CACHED)
def owned_vectors(threads: int, vector: int, size: int) -> IntArray:
    """The vector that each thread owns in each round, ``[rounds, threads]``, or -1.

    Twin of ``LinearPartition``: thread t owns the vectors t, t + threads, ... of ``size`` elements.
    Raises ``MappingError`` unless ``vector`` divides ``size``.
    """
    if size % vector:
        raise MappingError(
            f"{size} elements cannot be dealt out in vectors of {vector}; use vectors of 1"
        )
    vectors = size // vector
    rounds = -(-vectors // threads)
    owned = np.arange(rounds * threads, dtype=np.int64).reshape(rounds, threads)
    return read_only(np.where(owned < vectors, owned, IDLE))


def vector_starts(access: Access, vector: int, element_bytes: int) -> range:
    """The elements of a vector at which its instructions start."""
    if access is Access.GATHER:
        return range(vector)
    if access is Access.BROADCAST:
        return range(1)
    return range(0, vector, min(vector, VECTOR_BYTES // element_bytes))


@lru_cache(_CACHED)
def vector_coordinates(
    layout: AnyLayout,
    threads: int,
    vector: int,
    element_bytes: int,
    place: int,
    *,
    block: int,
    apart: bool = False,
) -> IntArray:
    """Where the accesses of :func:`vector_stream` start along one mode of the iteration domain.

    ``place`` is the position of the mode, counted from the innermost; 0 where a thread is idle.
    """
    extents = base_layout(layout).flat_shape
    owned = owned_vectors(threads, vector, math.prod(extents))
    access = Access.GATHER if apart else access_of(layout, vector)
    starts = vector_starts(access, vector, element_bytes)
    steps = np.array(starts, dtype=np.int64)[None, :, None]
    indices = np.where(owned == IDLE, 0, owned)[:, None, :] * vector + steps
    along = indices // math.prod(extents[:place]) % extents[place]
    return for_block(along, block, idle=0)


@lru_cache(_CACHED)
def vector_stream(
    layout: AnyLayout,
    threads: int,
    vector: int,
    element_bytes: int,
    *,
    block: int,
    apart: bool = False,
) -> Stream:
    """The accesses of a linear partition to one operand, laid out over the iteration domain.

    One instruction a vector where it is contiguous (several of 16 bytes where it is longer), one
    element a vector where it is broadcast, and ``vector`` of one element otherwise, as ``apart``
    where the operand starts anywhere.  ``block`` is the number of threads of the block; those past
    ``threads`` are idle.
    """
    owned = owned_vectors(threads, vector, base_layout(layout).size())
    access = Access.GATHER if apart else access_of(layout, vector)
    starts = vector_starts(access, vector, element_bytes)
    width = starts.step if access is Access.CONTIGUOUS else 1
    steps = np.array(starts, dtype=np.int64)[None, :, None]
    indices = np.where(owned == IDLE, 0, owned)[:, None, :] * vector + steps
    offsets = np.where(owned[:, None, :] == IDLE, IDLE, element_offsets(layout, indices))
    return Stream(width, for_block(offsets, block))


def following_vectors(offsets: IntArray, threads: int, of_row: int) -> IntArray:
    """Of a linear partition's accesses by whole vectors, where the next vector of each lies.

    -1 for the last of the ``of_row`` vectors of a row, and for idle threads.
    """
    flat = offsets[:, :threads].reshape(-1)
    following = np.append(flat[1:], IDLE)
    following[of_row - 1 :: of_row] = IDLE
    following = np.where(flat == IDLE, IDLE, following).reshape(-1, threads)
    return for_block(following, offsets.shape[1])


def ends_of_rows(layout: AnyLayout, threads: int, vector: int, columns: int) -> IntArray:
    """Where lanes read the first and the last ``vector - 1`` elements of rows that start anywhere.

    So many lanes a row as a vector has elements: lane i reads element i of the row, or of its last
    ``vector`` ones, as the row's address says, and is said to read both.  Twin of
    ``StoreShifted::store_ends``.
    """
    lanes, thread = min(threads, vector), np.arange(threads)
    at_once, rows = threads // lanes, base_layout(layout).size() // columns
    row = np.arange(0, rows, at_once)[:, None, None, None] + thread // lanes
    lane = thread % lanes + np.arange(0, vector, lanes)[:, None]
    column = np.stack([lane, columns - vector + lane])
    exists = (row < rows) & (thread < at_once * lanes) & (lane < vector)
    index = np.where(exists, row * columns + column, 0)
    return np.where(exists, element_offsets(layout, index), IDLE)


def for_block(array: IntArray, block: int, idle: int = IDLE) -> IntArray:
    """As ``[instructions, block]``: ``idle`` for threads that the mapping leaves out."""
    flat = array.reshape(-1, array.shape[-1])[:, :block]
    missing = block - flat.shape[1]
    if missing:
        flat = np.pad(flat, ((0, 0), (0, missing)), constant_values=idle)
    return read_only(flat)


def counted_stream(width: int, offsets: IntArray, counts: IntArray, block: int) -> Stream:
    """Accesses of ``width`` elements each, of which the first so many can reach a result."""
    flat = for_block(offsets, block)
    counts = for_block(np.broadcast_to(counts, offsets.shape), block, idle=0)
    counts = np.where(flat == IDLE, 0, counts)
    whole = np.array_equal(counts, np.where(flat == IDLE, 0, width))
    return Stream(width, flat, None if whole else read_only(counts))


def read_only(array: IntArray) -> IntArray:
    """The array, which must not be written to any more."""
    array.setflags(write=False)
    return array


@lru_cache(_CACHED)
def fill_stream(elements: int, element_bytes: int, *, block: int) -> Stream:
    """The writes of ``Fill`` to a contiguous buffer: the widest vector that divides its size."""
    vector = VECTOR_BYTES // element_bytes
    while elements % vector:
        vector //= 2
    return vector_stream(Layout((elements,), (1,)), block, vector, element_bytes, block=block)


class ReduceSum(NamedTuple):
    """Twin of ``ReduceSum``: ``reduced`` and ``outputs`` are the two modes of the source.

    ``source`` gives the swizzle and the constant; ``threads`` take part, ``lanes`` share a sum.
    """

    source: AnyLayout
    reduced: Layout
    outputs: Layout
    threads: int
    lanes: int

    def vector_length(self, element_bytes: int) -> int:
        """How many elements a lane reads at once: at most 16 bytes, contiguous and aligned."""
        modes = modes_of(self.reduced)
        first_extent, first_stride = modes[0] if modes else (1, 0)
        vector = VECTOR_BYTES // element_bytes
        while vector > 1:
            others = (*modes[1:], *modes_of(self.outputs))
            if (
                self.reduced.size() % (self.lanes * vector) == 0
                and first_extent % vector == 0
                and first_stride == 1
                and keeps_vectors(self.source, vector, others)
            ):
                return vector
            vector //= 2
        return 1

    def outputs_of(self) -> IntArray:
        """The output that each thread helps to sum in each round, ``[rounds, threads]``, or -1."""
        groups = self.threads // self.lanes
        size = self.outputs.size()
        group = np.arange(self.threads, dtype=np.int64) // self.lanes
        output = group + np.arange(-(-size // groups), dtype=np.int64)[:, None] * groups
        return np.where((group < groups) & (output < size), output, IDLE)


@lru_cache(_CACHED)
def reduce_source_stream(reduction: ReduceSum, element_bytes: int, *, block: int) -> Stream:
    """What ``ReduceSum`` reads, by rounds of outputs, then by steps along the reduced mode."""
    vector = reduction.vector_length(element_bytes)
    outputs = reduction.outputs_of()[:, None, :]
    lane = np.arange(reduction.threads) % reduction.lanes
    owned = owned_vectors(reduction.lanes, vector, reduction.reduced.size())[None, :, lane]
    active = (outputs != IDLE) & (owned != IDLE)
    unswizzled = (
        offset_of(reduction.source)
        + linear_offsets(reduction.outputs, np.maximum(outputs, 0))
        + linear_offsets(reduction.reduced, np.maximum(owned, 0) * vector)
    )
    offsets = np.where(active, swizzled(reduction.source, unswizzled), IDLE)
    return Stream(vector, for_block(offsets, block))


@lru_cache(_CACHED)
def reduce_destination_stream(
    reduction: ReduceSum, destination: AnyLayout, *, block: int
) -> Stream:
    """Where lane 0 of each group writes its sum; ``destination`` is over the outputs' domain."""
    outputs = reduction.outputs_of()
    lane = np.arange(reduction.threads) % reduction.lanes
    active = (outputs != IDLE) & (lane == 0)
    offsets = np.where(active, element_offsets(destination, np.maximum(outputs, 0)), IDLE)
    return Stream(1, for_block(offsets, block))


@lru_cache(_CACHED)
def fragment_stream(
    held: ThreadValues, layout: AnyLayout, *, block: int, every_holder: bool = False
) -> Stream:
    """The accesses of a fragment's threads to a buffer: pairs of columns where they can.

    ``layout`` is that of the elements in the buffer, over the fragment's last dimensions.  Of
    threads that hold the same element the first one takes part, or with ``every_holder`` all.
    """
    width = 2 if held.holders == 1 and stores_pairs(held, layout) else 1
    plain = base_layout(layout)
    coordinates = [along[::width] for along in held.coordinates()[-plain.rank :]]
    inside = held.exists()[::width]
    if not every_holder:
        inside = inside & held.is_first()
    offsets = np.full(inside.shape, offset_of(layout))
    for dim, along in enumerate(coordinates):
        offsets += linear_offsets(plain[dim], np.where(inside, along, 0))
    return Stream(width, for_block(np.where(inside, swizzled(layout, offsets), IDLE), block))


def stores_pairs(held: ThreadValues, layout: AnyLayout) -> bool:
    """Whether two neighbours along the last dimension are always stored at once."""
    if not held.has_pairs(len(held.shape) - 1):
        return False
    plain = base_layout(layout)
    *others, (first, *rest) = [modes_of(mode) or ((1, 0),) for mode in plain]
    beside = (*rest, *(mode for modes in others for mode in modes))
    return first[1] == 1 and first[0] % 2 == 0 and keeps_vectors(layout, 2, beside)


def reads_lines(pairs: Stream, layout: AnyLayout) -> bool:
    """Whether lines of a matrix that ``ldmatrix`` deals out give lanes the pairs that they read.

    Four pairs of a lane after each other are those of 16 rows and 16 columns.  Rows are one below
    the other, and columns side by side in lines of 8 that a swizzle keeps whole.
    """
    if pairs.width != 2 or len(pairs.offsets) % MATRICES or (pairs.offsets == IDLE).any():
        return False
    rows, (first, *rest) = (modes_of(mode) or ((1, 0),) for mode in base_layout(layout))
    if len(rows) > 1 or first[1] != 1 or first[0] % (2 * ROWS):
        return False
    if not keeps_vectors(layout, ROWS, (*rows, *rest)):
        return False
    by_lines = pairs.offsets.reshape(len(pairs.offsets), -1, ROWS // 2)
    return bool((by_lines == by_lines[:, :, :1] + 2 * np.arange(ROWS // 2)).all())


def line_stream(pairs: Stream) -> Stream:
    """The lines whose addresses lanes give to ``ldmatrix`` for the pairs that they read."""
    lane = np.arange(pairs.offsets.shape[1], dtype=np.int64)
    matrix, line = lane % WARP // ROWS, lane % ROWS
    first = pairs.offsets.reshape(-1, MATRICES, len(lane))
    return Stream(ROWS, first[:, matrix, lane - lane % WARP + ROWS // 2 * line])


def matrix_offsets(
    matrix: AnyLayout, row: IntArray, column: IntArray, start: IntArray | int = 0
) -> IntArray:
    """The offsets of elements of a matrix that begins at ``start``; its modes may be nested."""
    plain = base_layout(matrix)
    unswizzled = linear_offsets(plain[0], row) + linear_offsets(plain[1], column)
    return swizzled(matrix, offset_of(matrix) + start + unswizzled)
