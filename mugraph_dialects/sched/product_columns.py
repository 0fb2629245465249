"""Some columns of a warp group's product: which values of each thread they are."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.sched.types import TileType
from mugraph.dialects.tensor_types import element_type_of, shape_of


def columns_of_product(fragment: TileType, columns: int) -> TileType | None:
    """The type of so many columns of a fragment, by themselves; ``None`` where there is none.

    Threads hold them next to each other where an instruction of warp groups is as long as the
    fragment has columns, and another one as long as the part.
    """
    mma = fragment.tiled_mma
    if mma is None or mma.thr_layout[1:] != (1, 1):
        return None
    *rows, whole = shape_of(fragment)
    length = mma_atom(mma.atom).shape_mnk[1]
    if not _is_of_columns(mma) or whole != length or columns < 1 or whole % columns:
        return None
    name = mma.atom.replace(f"x{length}x", f"x{columns}x")
    try:
        mma_atom(name)
    except LayoutError:
        return None
    layout = TiledMmaAttr(name, mma.thr_layout)
    return TileType.of((*rows, columns), element_type_of(fragment), layout)


def _is_of_columns(mma: TiledMmaAttr) -> bool:
    """Whether the columns of an instruction of warp groups are those of the fragment."""
    atom = mma_atom(mma.atom)
    return "shared" in (atom.a_space, atom.b_space) and not atom.swaps_operands


def values_of_columns(fragment: TileType, part: TileType, first: int) -> Sequence[int]:
    """Which values of each thread are the columns from ``first`` on that a part has, by number."""
    parts = shape_of(fragment)[-1] // shape_of(part)[-1]
    mma = part.tiled_mma
    assert mma is not None  # of a part
    count = mma_atom(mma.atom).values_of_c
    own = count * first // shape_of(part)[-1]
    tiles = part.values_per_thread() // count
    return [tile * count * parts + own + value for tile in range(tiles) for value in range(count)]
