"""Divides and products: tilings of layouts.

``logical_divide(A, B) = A ∘ (B, B*)`` groups A's elements into tiles: the first mode runs over a
tile, the second over the tiles.  ``logical_product(A, B) = (A, A* ∘ B)`` repeats A at the places
of B.  Both take a tuple as tiler, and then work by mode; the other forms only regroup the result:

=========  ===========================================================
logical    ((TileM,RestM), (TileN,RestN), L, ...)
zipped     ((TileM,TileN), (RestM,RestN,L,...))
tiled      ((TileM,TileN), RestM, RestN, L, ...)
flat       (TileM, TileN, RestM, RestN, L, ...)
=========  ===========================================================

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slide "CuTe in a Slide"; NVIDIA's CuTe for the
forms of the results.
"""

from __future__ import annotations

from typing import Any, cast

from mugraph.dialects.cute.algebra import L, composition
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.f2 import bit_images
from mugraph.dialects.cute.int_tuple import (
    IntTuple,
    ceil_div,
    compact_order,
    is_tuple,
    product_each,
    rank,
    to_text,
)
from mugraph.dialects.cute.inverses import complement
from mugraph.dialects.cute.layout import Layout, Tiler, make_layout, make_unchecked
from mugraph.dialects.cute.swizzle import ComposedLayout


def tiler_to_text(tiler: Any) -> str:
    """A tiler in CuTe's notation: ``<4:1,_>`` for a tuple, the layout for a layout."""
    if isinstance(tiler, tuple):
        return "<" + ",".join(tiler_to_text(item) for item in cast("tuple[Any, ...]", tiler)) + ">"
    return to_text(tiler)


def _by_tiler(operation: Any, name: str, layout: Any, tiler: Any) -> Any:
    """``operation(layout, tiler)`` where the tiler has a leaf; modes beyond the tiler stay."""
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        tilers = cast("tuple[Any, ...]", tiler)
        if len(tilers) > layout.rank:
            raise LayoutError(
                f"{name}: the tiler {tiler_to_text(tilers)} has {len(tilers)} modes, the layout "
                f"{layout} only {layout.rank}."
            )
        modes = list(layout)
        for mode, part in enumerate(tilers):
            modes[mode] = _by_tiler(operation, name, modes[mode], part)
            if isinstance(modes[mode], ComposedLayout):
                raise LayoutError(
                    f"{name}: the tiler {tiler_to_text(tilers)} swizzles mode {mode} alone; a "
                    "swizzle acts on the index of the whole layout. Swizzle the result instead."
                )
        return make_layout(*modes)
    return operation(layout, Layout(tiler) if isinstance(tiler, int) else tiler)


def _zip_by_tiler(value: Any, tiler: Any) -> tuple[Any, Any]:
    """The tile parts and the rest parts of a divided shape or stride, nested like the tiler."""
    if not isinstance(tiler, tuple):
        if not is_tuple(value) or len(value) != 2:
            raise LayoutError(
                "A tiler with '_' zips a mode that is already a pair (tile, rest), not "
                f"{to_text(value)}; give the mode's extent instead of '_'."
            )
        return value[0], value[1]
    tilers = cast("tuple[Any, ...]", tiler)
    pairs = [_zip_by_tiler(value[mode], part) for mode, part in enumerate(tilers)]
    tiles = tuple([pair[0] for pair in pairs])
    rests = tuple([pair[1] for pair in pairs])
    return tiles, rests + value[len(tilers) :]


def _zipped(layout: Any, tiler: Any) -> Any:
    if isinstance(layout, ComposedLayout):
        return _inside(layout, _zipped(layout.layout, tiler))
    return make_unchecked(
        _zip_by_tiler(layout.shape, tiler), cast("Any", _zip_by_tiler(layout.stride, tiler))
    )


def _unpacked(layout: Any, first: bool) -> Any:
    """The rank-2 ``layout`` with its second mode's modes at the top, and its first's if asked.

    A mode of rank 1 stays as it is, a tuple of one included, as in CuTe.
    """
    if isinstance(layout, ComposedLayout):
        return _inside(layout, _unpacked(layout.layout, first))
    tile, rest = layout[0], layout[1]
    modes = list(tile) if first and tile.rank > 1 else [tile]
    modes += list(rest) if rest.rank > 1 else [rest]
    return make_layout(*modes)


def _inside(layout: ComposedLayout, inner: Any) -> Any:
    """``layout`` with another inner layout; the swizzles merge if that is swizzled, too."""
    if isinstance(inner, ComposedLayout):
        if layout.offset:
            raise LayoutError(
                f"The offset {layout.offset} of {layout} stands between two swizzles, which cannot "
                "be merged."
            )
        return composition(layout.swizzle, inner)
    return ComposedLayout(layout.swizzle, layout.offset, inner)


def _divide_one(layout: Layout[Any], tiler: Layout[int] | ComposedLayout) -> Any:
    if isinstance(tiler, ComposedLayout):
        # S∘(B, B*) = (S∘B, B*) where S moves nothing from block to block of B*.
        rest = complement(tiler.layout, layout.size())
        period = tiler.swizzle.period()
        if tiler.offset or any(
            step % period
            for step, extent in zip(rest.flat_stride, rest.flat_shape, strict=True)
            if extent > 1
        ):
            raise LayoutError(
                f"logical_divide({layout}, {tiler}): the tiler must be without offset and fill "
                f"the blocks of {period} that its swizzle permutes."
            )
        whole = ComposedLayout(tiler.swizzle, 0, make_layout(tiler.layout, rest))
        return composition(layout, whole)
    return composition(layout, make_layout(tiler, complement(tiler, layout.size())))


def logical_divide(layout: L, tiler: Tiler) -> L:
    """``A ∘ (B, B*)``: mode 0 a tile, mode 1 the tiles; by mode for a tuple of tilers.

    ``logical_divide(12:1, 4:3)`` is ``(4,3):(3,1)``.
    Raises LayoutError where the composition is not admissible.
    """
    if isinstance(layout, ComposedLayout):
        return _inside(layout, logical_divide(layout.layout, tiler))
    return _by_tiler(_divide_one, "logical_divide", layout, tiler)


def zipped_divide(layout: L, tiler: Tiler) -> L:
    """``((TileM,TileN,...),(RestM,RestN,...))``: mode 0 a tile, mode 1 the tiles.

    A ``_`` in the tiler takes a mode that is a pair (tile, rest) as it is.
    """
    return cast("L", _zipped(logical_divide(layout, tiler), tiler))


def tiled_divide(layout: L, tiler: Tiler) -> L:
    """``((TileM,TileN,...),RestM,RestN,...)``: zipped_divide with the rest unpacked."""
    return cast("L", _unpacked(zipped_divide(layout, tiler), first=False))


def flat_divide(layout: L, tiler: Tiler) -> L:
    """``(TileM,TileN,...,RestM,RestN,...)``: zipped_divide with both modes unpacked."""
    return cast("L", _unpacked(zipped_divide(layout, tiler), first=True))


def _product_one(block: Layout[Any], tiler: Layout[int] | ComposedLayout) -> Any:
    rest = complement(block, block.size() * tiler.cosize())
    if isinstance(tiler, ComposedLayout):
        # (A, S'∘R) = S'∘(A, R) where S' neither reads nor changes a bit of A's indices.
        copies = composition(rest, tiler)
        swizzle = copies.swizzle
        whole = make_layout(block, copies.layout)
        block_images, images = bit_images(block), bit_images(whole)
        touched = swizzle.source_mask | swizzle.target_mask
        if block_images is None or images is None or any(i & touched for i in block_images):
            raise LayoutError(
                f"logical_product({block}, {tiler}): the swizzle, moved to the left as {swizzle}, "
                "would move elements inside the blocks, too."
            )
        return ComposedLayout(swizzle, 0, whole)
    return make_layout(block, composition(rest, tiler))


def logical_product(block: L, tiler: Tiler) -> L:
    """``(A, A* ∘ B)``: A repeated at the places of B; by mode for a tuple of tilers.

    Raises LayoutError where A has no complement or the composition is not admissible.
    """
    if isinstance(block, ComposedLayout):
        return _inside(block, logical_product(block.layout, tiler))
    return _by_tiler(_product_one, "logical_product", block, tiler)


def zipped_product(block: L, tiler: Tiler) -> L:
    """``((BlockM,BlockN,...),(CopiesM,CopiesN,...))``."""
    return cast("L", _zipped(logical_product(block, tiler), tiler))


def tiled_product(block: L, tiler: Tiler) -> L:
    """``((BlockM,BlockN,...),CopiesM,CopiesN,...)``."""
    return cast("L", _unpacked(zipped_product(block, tiler), first=False))


def flat_product(block: L, tiler: Tiler) -> L:
    """``(BlockM,BlockN,...,CopiesM,CopiesN,...)``."""
    return cast("L", _unpacked(zipped_product(block, tiler), first=True))


def _padded(layout: Layout[Any], modes: int) -> Layout[Any]:
    """The layout with modes ``1:0`` appended up to the given number."""
    parts = list(layout) if isinstance(layout.shape, tuple) else [layout]
    if len(parts) >= modes:
        return layout
    return make_layout(*parts, *([Layout(1, 0)] * (modes - len(parts))))


def _product_by_mode(block: Layout[Any], tiler: Any, block_first: bool) -> Layout[Any]:
    if isinstance(tiler, ComposedLayout):
        raise LayoutError(
            f"A blocked or raked product with the swizzled tiler {tiler} has no form; use "
            "logical_product, or swizzle the result."
        )
    modes = max(block.rank, tiler.rank)
    parts = _padded(block, modes), _padded(tiler, modes)
    product = _product_one(*parts)
    (first, first_part), (second, second_part) = [
        (product[at], parts[at]) for at in ((0, 1) if block_first else (1, 0))
    ]
    # As in CuTe a part that is no tuple is one mode, whatever the other is.
    if not isinstance(first_part.shape, tuple):
        return make_layout(make_layout(first, second))
    if not isinstance(second_part.shape, tuple):
        return make_layout(make_layout(first[0], second))
    return zip_layouts(first, second)


def blocked_product(block: L, tiler: Layout[int]) -> L:
    """Every element of ``tiler`` becomes a block: ``((BlockM,TilerM),(BlockN,TilerN),...)``.

    As many modes as the operand with the most has: ``blocked_product(2:1, 6:1)`` is
    ``((2,6)):((1,2))``.
    """
    if isinstance(block, ComposedLayout):
        return _inside(block, blocked_product(block.layout, tiler))
    return cast("L", _product_by_mode(cast("Layout[Any]", block), tiler, block_first=True))


def raked_product(block: L, tiler: Layout[int]) -> L:
    """As blocked_product with the blocks interleaved: ``((TilerM,BlockM),(TilerN,BlockN),...)``."""
    if isinstance(block, ComposedLayout):
        return _inside(block, raked_product(block.layout, tiler))
    return cast("L", _product_by_mode(cast("Layout[Any]", block), tiler, block_first=False))


def tile_to_shape(block: L, shape: IntTuple, order: IntTuple | None = None) -> L:
    """The block repeated until the result has the given shape, by mode.

    ``order`` says along which mode to repeat first (smallest number first); by default the
    leftmost.  The block's modes must divide the shape's.
    Raises LayoutError naming the mode that does not divide.
    """
    if isinstance(block, ComposedLayout):
        return _inside(block, tile_to_shape(block.layout, shape, order))
    plain = cast("Layout[Any]", block)
    modes = rank(shape)
    if plain.rank > modes:
        raise LayoutError(
            f"tile_to_shape: the block {plain} has {plain.rank} modes, the shape {to_text(shape)} "
            f"only {modes}."
        )
    padded = _padded(plain, modes)
    block_extents = product_each(padded.shape)
    extents = product_each(shape)
    for mode, (small, large) in enumerate(zip(block_extents, extents, strict=True)):
        if large % small:
            raise LayoutError(
                f"tile_to_shape: in mode {mode} the block's extent {small} does not divide the "
                f"shape's {large}."
            )
    copies = tuple(ceil_div(large, s) for s, large in zip(block_extents, extents, strict=True))
    if order is None:
        order = tuple(range(modes))
    strides = compact_order(copies, order if isinstance(order, tuple) else (order,))
    return cast("L", blocked_product(padded, Layout(copies, strides)))


def zip_layouts(first: Layout[Any], second: Layout[Any]) -> Layout[Any]:
    """``((A0,B0),(A1,B1),...)`` of two layouts of equal rank."""
    if first.rank != second.rank:
        raise LayoutError(f"zip: {first} and {second} differ in rank.")
    return make_layout(*(make_layout(a, b) for a, b in zip(first, second, strict=True)))
