"""Copies of boxes by the copy engine (TMA): what one thread of a block sends.

``make_tma_copy("SM90_TMA_LOAD", tensor, layout)`` says which tensor, and how a tile of it lies in
shared memory.  ``tma_partition`` makes the tile the first mode of both tensors, and
``copy(tma, from[_, k], to[_, stage], tma_bar_ptr=full + stage)`` sends one.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any, NamedTuple

from mugraph.dialects.cute.atoms.copy import CopyAtom, tma_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.grouping import group_modes
from mugraph.dialects.cute.int_tuple import is_tuple, size
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.swizzle import AnyLayout, ComposedLayout
from mugraph.dialects.cute.tensor import Tensor
from mugraph.dialects.cute.tiling import logical_divide


class TmaCopy(NamedTuple):
    """A copy of tiles that lie in shared memory as ``layout`` says.

    ``barrier`` counts the bytes of a load.
    """

    atom: CopyAtom
    layout: AnyLayout
    bytes: int
    """Of a tile."""
    barrier: Any = None

    @property
    def is_store(self) -> bool:
        """Whether tiles go to device memory."""
        return self.atom.name == "SM90_TMA_STORE"


def make_tma_copy(name: str, tensor: Any, layout: AnyLayout) -> TmaCopy:
    """A copy of tiles of ``layout`` between a tensor in device memory and shared memory.

    ``name`` is one of ``TMA_COPIES``.  Raises LayoutError for another name, and
    for a tile of no whole 16 bytes.
    """
    tile_bytes = layout.size() * int(tensor.dtype.itemsize)
    return TmaCopy(tma_atom(name, 8 * tile_bytes), layout, tile_bytes)


def tma_partition(
    tma: TmaCopy, coord: int, blocks: Layout[int], shared: Tensor, device: Tensor
) -> tuple[Tensor, Tensor]:
    """Both tensors with the tile as their first mode: of shared memory, and of device memory.

    ``coord`` is the block's coordinate among ``blocks``, those of a cluster that a multicast copy
    loads one tile for.  Each sends its part to all of them, one that lies together in shared
    memory.  Raises LayoutError where the tile has no such parts, for several blocks of another
    copy, and where a tensor's first modes are no tile of the copy.
    """
    tiles = _tiles("shared memory", tma, shared), _tiles("device memory", tma, device)
    count = blocks.size()
    if count == 1:
        return tiles
    if tma.atom.name != "SM90_TMA_LOAD_MULTICAST":
        raise LayoutError(
            f"tma_partition: {tma.atom.name} is of one block, not of {count}, as "
            "SM90_TMA_LOAD_MULTICAST is."
        )
    extents, places = _share(tma.layout, count, blocks(coord))
    return _part(tiles[0], extents, places), _part(tiles[1], extents, places)


def _share(layout: AnyLayout, count: int, number: int) -> tuple[list[int], list[int]]:
    """The extents of one of so many equal parts of a tile, and its place among them along each.

    Raises LayoutError where there are none that lie together in shared memory.
    """
    plain = layout.layout if isinstance(layout, ComposedLayout) else layout
    extents, places, rest = [mode.size() for mode in plain], [0] * plain.rank, count
    slowest_first = sorted(
        (
            (step, extent, mode)
            for mode, part in enumerate(plain)
            for step, extent in zip(part.flat_stride, part.flat_shape, strict=True)
        ),
        reverse=True,
    )
    for _step, extent, mode in slowest_first:
        by = gcd(rest, extent)
        rest //= by
        extents[mode] //= by
        places[mode] = places[mode] * by + number // rest % by
        if rest == 1 or by < extent:
            break
    if rest > 1:
        raise LayoutError(f"tma_partition: the tile {layout} has no {count} parts in a row.")
    return extents, places


def create_tma_multicast_mask(blocks: Layout[int], coord: Sequence[int], mcast_mode: int) -> int:
    """A bit for each block of a cluster that a multicast copy sends to: those along a mode."""
    before, behind = coord[:mcast_mode], coord[mcast_mode + 1 :]
    along = range(blocks[mcast_mode].size())
    return sum(1 << blocks((*before, place, *behind)) for place in along)


def _part(tensor: Tensor, extents: Sequence[int], places: Sequence[int]) -> Tensor:
    """A part of the first mode of a tensor."""
    divided = tensor.apply(logical_divide, (tuple(extents),))
    part = divided[(tuple((None, place) for place in places), *(None,) * (tensor.layout.rank - 1))]
    return part.apply(group_modes, 0, len(extents))


def _tiles(what: str, tma: TmaCopy, tensor: Tensor) -> Tensor:
    rank, extents = tma.layout.rank, _extents(tma.layout.shape)
    first = tensor.layout.shape
    shape = first if is_tuple(first) else (first,)
    grouped = is_tuple(shape[0]) and _extents(shape[0]) == extents
    if not grouped and _extents(shape[:rank]) != extents:
        raise LayoutError(
            f"tma_partition: the tensor {tensor.layout} in {what} does not begin with the modes of "
            f"a tile {tma.layout}."
        )
    return tensor if grouped else tensor.apply(group_modes, 0, rank)


def _extents(shape: Any) -> tuple[int, ...]:
    return tuple(size(part) for part in shape) if is_tuple(shape) else (size(shape),)
