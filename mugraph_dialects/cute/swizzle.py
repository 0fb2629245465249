"""Swizzles: xor maps of indices, and layouts composed with them.

``Swizzle(B, M, S)`` leaves an index's lowest M bits alone, and xors B bits into the B bits above
them (the z bits) from the B bits S places higher (the y bits; S negative: lower)::

    0b...YYY...ZZZ....      z' = z xor y,  everything else unchanged
            |--S--|-M-|

It is its own inverse, a permutation of every aligned block of ``2**(M + B + |S|)`` indices, and
linear over F2: ``S(x ^ y) == S(x) ^ S(y)``, and ``S(x + y) == S(x) + S(y)`` where x has no y or z
bits and shares no bits with y.

A :class:`ComposedLayout` is ``c -> swizzle(offset + layout(c))``, printed as in
``S<3,3,3> o (8,64):(64,1)``.
The offset stays inside, because a swizzle is not linear over the integers.

Source: C. Cecka, "CuTe: CUDA Tensors" (NVIDIA), slide "Wild Indexing".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias, cast

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import Coord, IntTuple
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.cute.shown import Shown


class Swizzle:
    """The xor map S<bits,base,shift>: its own inverse.

    Raises LayoutError if bits or base is negative, ``abs(shift) < bits`` (the two groups of bits
    would overlap), or they are not among the 64 bits of an address.
    """

    __slots__ = ("base", "bits", "shift")

    bits: int
    base: int
    shift: int

    def __init__(self, bits: int, base: int, shift: int):
        if bits < 0 or base < 0:
            raise LayoutError(f"S<{bits},{base},{shift}>: bits and base must not be negative.")
        if abs(shift) < bits:
            raise LayoutError(
                f"S<{bits},{base},{shift}>: the shift's size must be at least the number of bits, "
                "or the source and the target bits overlap."
            )
        if bits + base + abs(shift) > 64:
            raise LayoutError(
                f"S<{bits},{base},{shift}>: bits, base and the shift's size must be at most 64 "
                "together, for an address has no more bits."
            )
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "shift", shift)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Swizzle is immutable; {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Swizzle is immutable; {name} cannot be deleted.")

    @property
    def target_mask(self) -> int:
        """The z bits: those that change."""
        return ((1 << self.bits) - 1) << (self.base - min(0, self.shift))

    @property
    def source_mask(self) -> int:
        """The y bits: those that are xored in."""
        return ((1 << self.bits) - 1) << (self.base + max(0, self.shift))

    def period(self) -> int:
        """The size of the aligned blocks that the swizzle permutes and treats alike."""
        return 1 << (self.base + self.bits + abs(self.shift)) if self.bits else 1

    def __call__(self, index: int) -> int:
        """The swizzled index."""
        source = index & self.source_mask
        return index ^ (source >> self.shift if self.shift >= 0 else source << -self.shift)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Swizzle)
            and self.bits == other.bits
            and self.base == other.base
            and self.shift == other.shift
        )

    def __hash__(self) -> int:
        return hash((self.bits, self.base, self.shift))

    def __reduce__(self) -> tuple[type[Swizzle], tuple[int, int, int]]:
        return (Swizzle, (self.bits, self.base, self.shift))

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"

    def __repr__(self) -> str:
        return f"Swizzle({self.bits}, {self.base}, {self.shift})"


def make_swizzle(source_mask: int, target_mask: int) -> Swizzle:
    """The swizzle that xors the bits of ``source_mask`` into those of ``target_mask``, in order.

    Raises LayoutError unless both are runs of the same number of adjacent bits that do not overlap.
    """
    bits = source_mask.bit_count()
    if source_mask == 0 and target_mask == 0:
        return Swizzle(0, 0, 0)

    def run_start(mask: int) -> int | None:
        low = (mask & -mask).bit_length() - 1
        return low if mask and mask == ((1 << bits) - 1) << low else None

    source, target = run_start(source_mask), run_start(target_mask)
    if target_mask.bit_count() != bits or source is None or target is None:
        raise LayoutError(
            f"The bits {source_mask:#b} and {target_mask:#b} do not make a swizzle: both must be "
            "runs of the same number of adjacent bits."
        )
    return Swizzle(bits, min(source, target), source - target)


class ComposedLayout(Shown):
    """An immutable swizzled layout: ``c -> swizzle(offset + layout(c))``.

    Raises LayoutError if the layout has basis strides or a negative offset is given.
    """

    __slots__ = ("layout", "offset", "swizzle")

    swizzle: Swizzle
    offset: int
    layout: Layout[int]

    def __init__(self, swizzle: Swizzle, offset: int, layout: Layout[int]):
        for step in layout.flat_stride:
            if not isinstance(step, int):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise LayoutError(f"{layout} maps to coordinates, which cannot be swizzled.")
        if offset < 0:
            raise LayoutError(f"The offset {offset} of a swizzled layout must not be negative.")
        object.__setattr__(self, "swizzle", swizzle)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "layout", layout)

    @property
    def outer(self) -> Layout[int]:
        """The layout, as CuTe's DSL calls it."""
        return self.layout

    @property
    def inner(self) -> Swizzle:
        """The swizzle, as CuTe's DSL calls it."""
        return self.swizzle

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"ComposedLayout is immutable; {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"ComposedLayout is immutable; {name} cannot be deleted.")

    @property
    def shape(self) -> IntTuple:
        """The shape: that of the inner layout."""
        return self.layout.shape

    @property
    def rank(self) -> int:
        """The number of top-level modes."""
        return self.layout.rank

    @property
    def depth(self) -> int:
        """The number of levels of nesting."""
        return self.layout.depth

    def size(self) -> int:
        """The number of coordinates."""
        return self.layout.size()

    def cosize(self) -> int:
        """The storage the layout needs: at least one more than its largest index.

        A swizzle permutes only within aligned blocks, so this is the inner layout's reach, rounded
        up to a block where the reach ends inside one that the swizzle moves. (CuTe gives the inner
        layout's cosize, which is too small for a layout that does not fill its blocks.)
        """
        reach = self.offset + self.layout.cosize()
        swizzle = self.swizzle
        lowest_source_bit = swizzle.source_mask & -swizzle.source_mask
        if reach <= lowest_source_bit or swizzle.bits == 0:
            return reach
        block = 1 << swizzle.target_mask.bit_length()
        return -(-reach // block) * block

    def __call__(self, *coord: IntTuple) -> int:
        """The index of a coordinate; see :meth:`Layout.__call__`."""
        return self.swizzle(self.offset + self.layout(*coord))

    def __getitem__(self, mode: int) -> ComposedLayout:
        """The composed layout of one top-level mode."""
        return ComposedLayout(self.swizzle, self.offset, self.layout[mode])

    def __len__(self) -> int:
        return self.rank

    def __iter__(self) -> Iterator[ComposedLayout]:
        return (self[mode] for mode in range(self.rank))

    def get(self, *path: int) -> ComposedLayout:
        """The composed layout of a nested mode."""
        return ComposedLayout(self.swizzle, self.offset, self.layout.get(*path))

    def slice(self, *coord: Coord) -> ComposedLayout:
        """The layout of the ``_`` modes; the other coordinates' index goes into the offset."""
        kept, offset = self.layout.slice_and_offset(*coord)
        return ComposedLayout(self.swizzle, self.offset + offset, kept)

    def slice_and_offset(self, *coord: Coord) -> tuple[ComposedLayout, int]:
        """The slice, which keeps its offset inside, and 0: as for :class:`Layout`."""
        return self.slice(*coord), 0

    def indices(self) -> list[int]:
        """The indices of all coordinates, in colexicographic order."""
        return [self.swizzle(self.offset + cast("int", index)) for index in self.layout.indices()]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ComposedLayout)
            and self.swizzle == other.swizzle
            and self.offset == other.offset
            and self.layout == other.layout
        )

    def __hash__(self) -> int:
        return hash((self.swizzle, self.offset, self.layout))

    def __reduce__(self) -> tuple[Any, ...]:
        return (ComposedLayout, (self.swizzle, self.offset, self.layout))

    def __str__(self) -> str:
        offset = f"{self.offset} o " if self.offset else ""
        return f"{self.swizzle} o {offset}{self.layout}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self.swizzle!r}, {self.offset}, {self.layout!r})"


AnyLayout: TypeAlias = "Layout[int] | ComposedLayout"
"""A layout or a swizzled layout."""
