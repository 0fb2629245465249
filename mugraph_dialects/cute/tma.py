"""Copies of boxes by the copy engine (TMA): what one thread of a block sends.

``make_tma_copy("SM90_TMA_LOAD", tensor, layout)`` says which tensor, and how a tile of it lies in
shared memory.  ``tma_partition`` makes the tile the first mode of both tensors, and
``copy(tma, from[_, k], to[_, stage], tma_bar_ptr=full + stage)`` sends one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from mugraph.dialects.cute.atoms.copy import CopyAtom, tma_atom
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.grouping import group_modes
from mugraph.dialects.cute.int_tuple import is_tuple, size
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.swizzle import AnyLayout
from mugraph.dialects.cute.tensor import Tensor


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

    ``coord`` and ``blocks`` are the block's number in its cluster, and the cluster's layout.
    Raises LayoutError for clusters, and where a tensor's first modes are no tile of the copy.
    """
    if coord != 0 or blocks.size() != 1:
        raise LayoutError("tma_partition: there are no copies for several blocks of a cluster.")
    return _tiles("shared memory", tma, shared), _tiles("device memory", tma, device)


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
