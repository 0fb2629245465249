"""What a bulk copy (TMA) can move, and where it puts it: pure functions of extents and layouts.

A bulk copy moves a *box* of a device tensor, whose extents and strides stand in a tensor map that
the host makes.  In shared memory the elements of a box lie densely, the tensor's contiguous
dimension innermost, and an xor swizzle of addresses may act on them: chunks of 16 bytes are
exchanged within rows of 32, 64 or 128 bytes.  A tile that is wider than such a row is moved as
several boxes, side by side.

Source: CUDA driver API, ``cuTensorMapEncodeTiled``; PTX ISA, "Tensors" and "Swizzling modes".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mugraph.dialects.alignment import ALIGNMENT, DEFAULT_ALIGNMENT
from mugraph.dialects.cute import ComposedLayout, Layout, Swizzle
from mugraph.dialects.indirect import CutsRows
from mugraph.dialects.maps import Slicing
from mugraph.dialects.tensor_types import AnyLayout, base_layout, shape_of, value_label
from mugraph.dialects.windows import Windows

CHUNK_BYTES = 16
"""What strides and the rows of a box are multiples of, and what a swizzle keeps together."""
MAX_BOX_EXTENT = 256
"""The longest box along any dimension, in elements."""
MAX_STEP = 8
"""The farthest that neighbours in a box may be apart in the tensor."""
MAX_BOXES = 32
"""More boxes a tile than this are not worth the instructions of the one thread that copies."""
MAX_RANK = 5
"""The most dimensions of a tensor map."""
BOX_ALIGNMENT = 128
"""What the place of a box in shared memory is a multiple of, in bytes."""
_CACHED = 1 << 10
"""How many tiles are remembered."""
MAX_STRIDE_BYTES = 2**40
"""Strides of a tensor map are less than this."""
SWIZZLE_SPANS = (128, 64, 32)
"""The rows within which a bulk copy can exchange chunks, in bytes."""


class BulkCopyError(ValueError):
    """A bulk copy cannot move this; the message says why.

    ``dimension``: along which dimension of the tensor; ``pads``: whether padding it would help.
    ``mend`` says what else would; it may be empty.
    """

    def __init__(
        self, message: str, mend: str = "", dimension: int | None = None, *, pads: bool = False
    ) -> None:
        super().__init__(message)
        self.mend, self.dimension, self.pads = mend, dimension, pads


def require_boxes(slicing: Slicing, alignment: int) -> None:
    """Raises :class:`BulkCopyError` unless tiles are boxes of the tensor that start at 16 bytes.

    What a box has past the tensor's end is zero where it is loaded, and not stored.  ``alignment``
    is that of the tensor's first element.
    """
    for dim in range(len(slicing.shape)):
        split = slicing.split(dim)
        if not split.ends_with_tensor:
            raise BulkCopyError(
                f"its tiles of {split.tile} along dimension {dim} reach into those of other blocks",
                f"let blocks have {split.tile * split.iterations} elements along its dimension "
                f"{dim}, in {split.iterations} tiles of {split.tile}",
                dim,
            )
        if slicing.shape[dim] == 1 and split.iterations * math.prod(split.blocks) > 1:
            raise BulkCopyError(
                f"its dimension {dim} has one element, so that its tensor map leaves it out, and "
                "tiles past that element would be read from it",
                f"do not cut dimension {dim}",
                dim,
            )
    if alignment < DEFAULT_ALIGNMENT:
        raise BulkCopyError(
            f"it is aligned to {alignment} bytes, and bulk copies need {DEFAULT_ALIGNMENT}",
            f"let it start at a multiple of {DEFAULT_ALIGNMENT} bytes, without {ALIGNMENT}",
        )


def require_no_windows(windows: Windows | None) -> None:
    """Raises :class:`BulkCopyError` for tiles of windows."""
    if windows is not None:
        raise BulkCopyError("it has windows, and tensor maps have the elements of a tensor once")


class MappedTensor(NamedTuple):
    """A tensor as a tensor map has it, along the dimensions of the tiles that are cut from it.

    ``named``: the dimension along which a number in memory says where a tile's row is; ``None``
    where none does.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    named: int | None = None


def mapped_tensor(op: CutsRows, strides: Sequence[int], tile: Sequence[int]) -> MappedTensor:
    """The tensor that an operator cuts tiles from; ``strides`` are those of its first operand.

    A tile with a row that a number names is a box like others: the number is its place.  Where
    rows overlap, as windows of a tensor do, the number counts along the dimension that they slide
    along.  Raises :class:`BulkCopyError` for tiles with several such rows, which lie apart.
    """
    shape, numbers = shape_of(op.operands[0].type), len(op.numbers_shape)
    if op.numbers is None:
        return MappedTensor(shape, tuple(strides))
    if not numbers or any(extent > 1 for extent in tile[:numbers]):
        raise BulkCopyError(
            f"its tiles have several rows that {value_label(op.numbers)} names, and a box has rows "
            "that lie in order",
            "let tiles have one number each",
        )
    (rows, *inner), (step, *inner_strides) = shape, strides
    extents, steps = [1] * numbers + inner, [0] * numbers + inner_strides
    whole = (dim for dim in range(numbers, len(tile)) if extents[dim] % tile[dim] == 0)
    named = next((dim for dim in whole if steps[dim] == step), numbers - 1)
    extents[named] += rows - 1
    steps[named] = step
    return MappedTensor(tuple(extents), tuple(steps), named if rows > 1 else None)


class TensorDims(NamedTuple):
    """The dimensions of a device tensor as a tensor map has them, the contiguous one first.

    ``order`` names them; those of extent 1, or along which nothing moves (stride 0), are left out.
    """

    order: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]


class BulkTile(NamedTuple):
    """How bulk copies move a tile: boxes of ``box`` elements along ``tensor.order``.

    Box i starts at the coordinates ``starts[i]`` of the tile, in the same order, and lies
    ``offsets[i]`` elements from the start of the buffer's stage.  ``span`` are the bytes of the
    rows within which chunks are exchanged, 0 where they are not.  ``steps`` are how far neighbours
    in a box are apart in the tensor along each dimension: 1 everywhere where it is empty.
    """

    tensor: TensorDims
    box: tuple[int, ...]
    starts: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    span: int
    steps: tuple[int, ...] = ()


def tensor_dims(shape: Sequence[int], strides: Sequence[int], element_bytes: int) -> TensorDims:
    """The dimensions of a tensor map; raises :class:`BulkCopyError` where there can be none.

    Behind the contiguous one they come as those of tiles do, the last one first, wherever they lie
    in memory: so the matrices of a tile lie one after the other in shared memory.
    """
    wide = [dim for dim, extent in enumerate(shape) if extent > 1 and strides[dim]]
    order = sorted(wide, key=lambda dim: (strides[dim] != 1, -dim))
    if not order or strides[order[0]] != 1:
        raise BulkCopyError("no dimension of the tensor is contiguous")
    if len(order) > MAX_RANK:
        raise BulkCopyError(
            f"the tensor has {len(order)} dimensions, a tensor map at most {MAX_RANK}"
        )
    for dim in order[1:]:
        size = strides[dim] * element_bytes
        if size % CHUNK_BYTES or not 0 < size < MAX_STRIDE_BYTES:
            pads = strides[dim] == shape[order[0]]
            raise BulkCopyError(
                f"the tensor's stride along dimension {dim} is {size} bytes, not a multiple of "
                f"{CHUNK_BYTES}",
                f"make it a multiple of {CHUNK_BYTES} bytes",
                order[0] if pads else dim,
                pads=pads,
            )
    return TensorDims(
        tuple(order),
        tuple(shape[dim] for dim in order),
        tuple(strides[dim] for dim in order),
    )


def swizzle_of(span: int, element_bytes: int) -> Swizzle:
    """The swizzle that exchanges chunks within rows of ``span`` bytes, on offsets in elements."""
    bits = int(math.log2(span // CHUNK_BYTES))
    return Swizzle(bits, int(math.log2(CHUNK_BYTES // element_bytes)), 3)


def row_spans(width: int) -> list[int]:
    """The swizzles for tiles whose contiguous dimension has ``width`` bytes, the widest first."""
    return [span for span in SWIZZLE_SPANS if width % span == 0]


def _divisor_up_to(extent: int, limit: int) -> int:
    return next(size for size in range(min(extent, limit), 0, -1) if extent % size == 0)


def bulk_layout(
    tensor: TensorDims, tile: Sequence[int], element_bytes: int, span: int
) -> AnyLayout:
    """Where bulk copies put a tile: boxes of ``span`` bytes a row, side by side, and swizzled.

    With ``span`` 0 boxes are as wide as the tile, as far as boxes go, and nothing is swizzled.
    """
    inner = tensor.order[0]
    width = span // element_bytes if span else _divisor_up_to(tile[inner], MAX_BOX_EXTENT)
    columns = tile[inner] // width
    shape: list[int | tuple[int, ...]] = list(tile)
    strides: list[int | tuple[int, ...]] = [0] * len(tile)
    reach = width
    for dim in tensor.order[1:]:
        if tile[dim] > 1:
            strides[dim] = reach
            reach *= tile[dim]
    strides[inner] = 1
    if columns > 1 and reach > width:
        shape[inner], strides[inner] = (width, columns), (1, reach)
    for dim in range(len(tile)):
        if dim != inner and tile[dim] == 1:
            strides[dim] = reach * columns
    plain = Layout(tuple(shape), tuple(strides))
    return ComposedLayout(swizzle_of(span, element_bytes), 0, plain) if span else plain


def bulk_layouts(tensor: TensorDims, tile: Sequence[int], element_bytes: int) -> list[AnyLayout]:
    """Every layout that bulk copies can give a tile, those of wide swizzled rows first."""
    width = tile[tensor.order[0]] * element_bytes
    layouts: list[AnyLayout] = []
    for span in (*row_spans(width), 0):
        layout = bulk_layout(tensor, tile, element_bytes, span)
        try:
            bulk_tile(tensor, tile, layout, element_bytes)
        except BulkCopyError:
            continue
        layouts.append(layout)
    return layouts


def tile_layouts(
    shape: Sequence[int],
    strides: Sequence[int],
    tile: Sequence[int],
    element_bytes: int,
    *,
    boxes: bool = False,
) -> list[AnyLayout]:
    """The layouts that bulk copies can give every stage of a buffer for tiles of a tensor.

    Stages start where the swizzle's pattern does (:func:`stage_alignment`).  With ``boxes`` also
    those of several boxes side by side, in which a dimension has two strides; what each box costs
    is weighed where a layout is chosen (``--plan-swizzle``).  Raises :class:`BulkCopyError` where
    there is none.
    """
    dims = tensor_dims(shape, strides, element_bytes)
    found = [
        layout
        for layout in bulk_layouts(dims, tile, element_bytes)
        if boxes or base_layout(layout).depth <= 1
    ]
    if not found:
        inner = dims.order[0]
        row_bytes = tile[inner] * element_bytes
        if row_bytes % CHUNK_BYTES:
            raise BulkCopyError(
                f"its tiles' rows of {row_bytes} bytes are no multiple of {CHUNK_BYTES}",
                f"cut tiles of a multiple of {CHUNK_BYTES // element_bytes} elements along its "
                f"dimension {inner}",
                inner,
            )
        raise BulkCopyError(
            f"its tiles' rows of {row_bytes} bytes are longer than a box, or take more than "
            f"{MAX_BOXES} boxes",
            f"cut smaller tiles along its dimension {inner}",
            inner,
        )
    return found


def stage_alignment(layout: AnyLayout, element_bytes: int) -> int:
    """What the stages of a buffer of this layout are a multiple of, in bytes.

    47 rows of 128 bytes take 6 KB, so that the swizzle of the second stage begins anew.
    """
    try:
        return pattern_bytes(_span_of(layout, element_bytes))
    except BulkCopyError:
        return BOX_ALIGNMENT


def _span_of(layout: AnyLayout, element_bytes: int) -> int:
    if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
        return 0
    for span in SWIZZLE_SPANS:
        if layout.swizzle == swizzle_of(span, element_bytes) and not layout.offset:
            return span
    raise BulkCopyError(f"a bulk copy cannot swizzle as {layout} does")


def _offsets_along(layout: Layout, dim: int) -> list[int]:
    """The offset of every coordinate along one dimension."""
    offsets = [0]
    for extent, stride in zip(layout[dim].flat_shape, layout[dim].flat_stride, strict=True):
        offsets = [at * stride + offset for at in range(extent) for offset in offsets]
    return offsets


def bulk_tile(
    tensor: TensorDims, tile: Sequence[int], layout: AnyLayout, element_bytes: int
) -> BulkTile:
    """How bulk copies move a tile between a tensor and a buffer of this layout.

    Raises :class:`BulkCopyError` where they cannot.
    """
    return _bulk_tile(tensor, tuple(tile), layout, element_bytes)


@lru_cache(_CACHED)
def _bulk_tile(
    tensor: TensorDims, tile: tuple[int, ...], layout: AnyLayout, element_bytes: int
) -> BulkTile:
    inner, *outer = tensor.order
    for dim, extent in enumerate(tile):
        if extent > 1 and dim not in tensor.order:
            raise BulkCopyError(
                f"its tiles have {extent} elements along dimension {dim}, which are one in memory",
                f"let every tile have one element along its dimension {dim}",
                dim,
            )
    span = _span_of(layout, element_bytes)
    plain = base_layout(layout)
    along = {dim: _offsets_along(plain, dim) for dim in tensor.order}
    width = span // element_bytes if span else _divisor_up_to(tile[inner], MAX_BOX_EXTENT)
    if width * element_bytes % CHUNK_BYTES:
        raise BulkCopyError(
            f"its rows are {width * element_bytes} bytes, not a multiple of {CHUNK_BYTES}"
        )
    if tile[inner] % width:
        raise BulkCopyError(
            f"its rows of {tile[inner]} elements are no multiple of the swizzle's {width}"
        )
    if along[inner][:width] != [*range(width)]:
        raise BulkCopyError(f"its rows do not lie densely in the buffer's layout {layout}")
    box, reach = [width], width
    for dim in outer:  # as far as neighbours lie one behind the other
        steps, extent = along[dim], _divisor_up_to(tile[dim], MAX_BOX_EXTENT)
        while steps[:extent] != [at * reach for at in range(extent)]:
            extent = _divisor_up_to(tile[dim], extent - 1)
        box.append(extent)
        reach *= extent
    count = math.prod(tile[dim] for dim in tensor.order) // math.prod(box)
    if count > MAX_BOXES:
        raise BulkCopyError(f"a tile takes {count} boxes, more than {MAX_BOXES}")
    parts = [range(0, tile[dim], extent) for dim, extent in zip(tensor.order, box, strict=True)]
    starts = tuple(tuple(reversed(at)) for at in itertools.product(*reversed(parts)))
    offsets = tuple(
        sum(along[dim][at] for dim, at in zip(tensor.order, start, strict=True)) for start in starts
    )
    for start, offset in zip(starts, offsets, strict=True):
        moved = [(at, along[dim]) for dim, at in zip(tensor.order, start, strict=True)]
        for (at, steps), extent in zip(moved, box, strict=True):
            if [steps[at + i] - steps[at] for i in range(extent)] != steps[:extent]:
                raise BulkCopyError(f"the boxes of the buffer's layout {layout} are not alike")
        if offset * element_bytes % pattern_bytes(span):
            raise BulkCopyError(
                f"a box would start at byte {offset * element_bytes} of the buffer, not a multiple "
                f"of {pattern_bytes(span)}"
            )
    return BulkTile(tensor, tuple(box), starts, offsets, span)


def pattern_bytes(span: int) -> int:
    """What a buffer and its stages start at multiples of: a swizzle acts on addresses."""
    return 8 * span if span else BOX_ALIGNMENT
