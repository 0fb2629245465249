"""Layouts over powers of two as linear maps over F2.

A coordinate of a layout whose extents are powers of two is a vector of bits, and so is its index.
If the multiples of the strides share no bits, adding them is xoring them, and the layout is a
linear map over the field of two elements: a matrix whose column k is the index of the coordinate
``1 << k``.  Swizzles are such maps too, so swizzled layouts are, and here everything composes and
everything injective has an inverse:

- ``from_layout(A ∘ B) = from_layout(A) @ from_layout(B)``;
- ``from_layout(to_layout(M)) = M`` for every M that a layout or a swizzled layout can express;
- rank-nullity: ``rank + len(kernel) == input_bits``.

*Conflicts.*  Lanes access words (a map from lane bits to word bits), and words lie in banks (a map
from word bits to bank bits).  By linearity every bank that is hit is hit by the same number of
distinct words, ``2 ** (rank(access) - rank(banks @ access))``: the number of wavefronts a shared
memory access takes.  1 is free of conflicts.

Source: the idea of F2 layouts is that of Triton's linear layouts (Zhou et al., 2025); the
conflict count is derived here.
"""

from __future__ import annotations

from typing import Any

from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.cute.int_tuple import IntTuple, flatten, is_tuple, size, to_text, unflatten
from mugraph.dialects.cute.layout import Layout, make_unchecked
from mugraph.dialects.cute.swizzle import ComposedLayout, Swizzle


def bit_images(layout: Layout[Any]) -> tuple[int, ...] | None:
    """The index of each 1-D coordinate ``1 << k``, if the layout is linear over F2, else None."""
    images: list[int] = []
    seen = 0
    for extent, step in zip(layout.flat_shape, layout.flat_stride, strict=True):
        if extent & (extent - 1) or not isinstance(step, int) or step < 0:
            return None
        for bit in range(extent.bit_length() - 1):
            image = step << bit
            if seen & image:
                return None
            seen |= image
            images.append(image)
    return tuple(images)


def _reduced(vectors: tuple[int, ...]) -> list[tuple[int, int]]:
    """An echelon basis of the vectors: (vector, which of the given ones it is the xor of)."""
    return _eliminated(vectors)[0]


def _eliminated(vectors: tuple[int, ...]) -> tuple[list[tuple[int, int]], list[int]]:
    """An echelon basis as of :func:`_reduced`, and which of the vectors have 0 as their xor."""
    basis: list[tuple[int, int]] = []
    vanishing: list[int] = []
    for position, vector in enumerate(vectors):
        origin = 1 << position
        for pivot, pivot_origin in basis:
            if vector ^ pivot < vector:
                vector ^= pivot
                origin ^= pivot_origin
        if vector:
            basis.append((vector, origin))
            basis.sort(reverse=True)
        else:
            vanishing.append(origin)
    return basis, vanishing


class LinearMap:
    """An immutable linear map over F2: column k is the image of the k-th input bit.

    Raises LayoutError if a column does not fit in ``output_bits``.
    """

    __slots__ = ("columns", "output_bits")

    columns: tuple[int, ...]
    output_bits: int

    def __init__(self, columns: tuple[int, ...], output_bits: int | None = None):
        needed = max([column.bit_length() for column in columns], default=0)
        if output_bits is None:
            output_bits = needed
        if needed > output_bits:
            raise LayoutError(
                f"LinearMap: the columns {columns} need {needed} output bits, not {output_bits}."
            )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "output_bits", output_bits)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"LinearMap is immutable; {name} cannot be set.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"LinearMap is immutable; {name} cannot be deleted.")

    @property
    def input_bits(self) -> int:
        """The number of input bits: of columns."""
        return len(self.columns)

    def __call__(self, value: int) -> int:
        """The image of a vector of bits."""
        image = 0
        for bit, column in enumerate(self.columns):
            if value >> bit & 1:
                image ^= column
        return image

    def __matmul__(self, right: LinearMap) -> LinearMap:
        """The composition ``x -> self(right(x))``.

        Raises LayoutError if ``right``'s images have bits that ``self`` does not take.
        """
        for column in right.columns:
            if column.bit_length() > self.input_bits:
                raise LayoutError(
                    f"The right map reaches bit {column.bit_length() - 1}, the left one takes only "
                    f"{self.input_bits} bits."
                )
        return LinearMap(tuple(self(column) for column in right.columns), self.output_bits)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LinearMap)
            and self.columns == other.columns
            and self.output_bits == other.output_bits
        )

    def __hash__(self) -> int:
        return hash((self.columns, self.output_bits))

    def __reduce__(self) -> tuple[type[LinearMap], tuple[tuple[int, ...], int]]:
        return (LinearMap, (self.columns, self.output_bits))

    def __repr__(self) -> str:
        return f"LinearMap({self.columns}, {self.output_bits})"

    def __str__(self) -> str:
        """The matrix, one row an output bit, the highest first."""
        return "\n".join(
            " ".join(str(column >> row & 1) for column in self.columns)
            for row in reversed(range(self.output_bits))
        )

    def rank(self) -> int:
        """The dimension of the image."""
        return len(_reduced(self.columns))

    def image(self) -> tuple[int, ...]:
        """A basis of the image, in echelon form."""
        return tuple(vector for vector, _origin in _reduced(self.columns))

    def kernel(self) -> tuple[int, ...]:
        """A basis of the inputs that map to 0."""
        return tuple(_eliminated(self.columns)[1])

    def is_injective(self) -> bool:
        """Whether only 0 maps to 0."""
        return self.rank() == self.input_bits

    def left_inverse(self) -> LinearMap:
        """A map I with ``I @ self`` the identity.  Raises LayoutError if this is not injective."""
        if not self.is_injective():
            raise LayoutError(
                f"A linear map of {self.input_bits} input bits and rank {self.rank()} is not "
                "injective, so it has no left inverse."
            )
        return self._pseudo_inverse()

    def right_inverse(self) -> LinearMap:
        """A map R with ``self @ R`` the identity.  Raises LayoutError if this is not surjective."""
        if self.rank() != self.output_bits:
            raise LayoutError(
                f"A linear map of {self.output_bits} output bits and rank {self.rank()} is not "
                "surjective, so it has no right inverse."
            )
        return self._pseudo_inverse()

    def _pseudo_inverse(self) -> LinearMap:
        """A map that undoes this one on its image."""
        pivots = _reduced(self.columns)
        columns: list[int] = []
        for bit in range(self.output_bits):
            # Reduce the unit vector; what stays outside the image is sent to 0.
            vector, preimage = 1 << bit, 0
            for pivot, origin in self._by_pivot(pivots):
                if vector >> (pivot.bit_length() - 1) & 1:
                    vector ^= pivot
                    preimage ^= origin
            columns.append(preimage)
        return LinearMap(tuple(columns), self.input_bits)

    @staticmethod
    def _by_pivot(pivots: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The echelon basis fully reduced: no pivot bit occurs in another vector."""
        reduced = sorted(pivots, reverse=True)
        for position in range(len(reduced)):
            vector, origin = reduced[position]
            for pivot, pivot_origin in reduced[position + 1 :]:
                if vector >> (pivot.bit_length() - 1) & 1:
                    vector ^= pivot
                    origin ^= pivot_origin
            reduced[position] = (vector, origin)
        return reduced

    @classmethod
    def identity(cls, bits: int) -> LinearMap:
        """The identity on vectors of ``bits`` bits."""
        return cls(tuple(1 << bit for bit in range(bits)), bits)

    @classmethod
    def projection(cls, input_bits: int, low: int, count: int) -> LinearMap:
        """The map that takes bits ``low ... low + count - 1`` out of ``input_bits``."""
        columns = tuple(
            1 << bit - low if low <= bit < low + count else 0 for bit in range(input_bits)
        )
        return cls(columns, count)

    @classmethod
    def from_layout(
        cls, layout: Layout[int] | ComposedLayout, output_bits: int | None = None
    ) -> LinearMap:
        """The layout as a map from the bits of its 1-D coordinate to the bits of its index.

        Raises LayoutError if the layout is not linear over F2: an extent is no power of two, the
        strides' multiples share bits, or there is an offset.
        """
        linear, constant = affine_map(layout, output_bits)
        if constant:
            raise LayoutError(f"{layout} maps 0 to {constant}; it is affine, not linear.")
        return linear

    def to_layout(self, shape: IntTuple | None = None) -> Layout[int] | ComposedLayout:
        """The layout, swizzled if need be, that is this map; of the given shape if one is given.

        A mode of ``shape`` whose bits do not step evenly becomes a tuple of modes.
        Among the swizzles that will do, the one of fewest bits, then of the lowest base.
        Raises LayoutError if the shape does not have the map's coordinates, or if no single
        swizzle makes the map a layout.
        """
        if shape is None:
            shape = 1 << self.input_bits
        if size(shape) != 1 << self.input_bits:
            raise LayoutError(
                f"The shape {to_text(shape)} has {size(shape)} coordinates, the map "
                f"{1 << self.input_bits}."
            )
        for swizzle in _swizzles(self.output_bits):
            columns = tuple(swizzle(column) for column in self.columns) if swizzle else self.columns
            if _share_no_bits(columns):
                layout = _layout_of_columns(columns, shape)
                return layout if swizzle is None else ComposedLayout(swizzle, 0, layout)
        raise LayoutError(
            f"The map {self!r} is not a layout, nor a layout after one swizzle; "
            "keep it as a linear map."
        )


def _swizzles(bits: int) -> list[Swizzle | None]:
    """No swizzle, then all swizzles within ``bits`` bits: fewest bits, then lowest base, first."""
    candidates: list[Swizzle | None] = [None]
    for count in range(1, bits // 2 + 1):
        for base in range(bits):
            for distance in range(count, bits - base - count + 1):
                candidates += [Swizzle(count, base, distance), Swizzle(count, base, -distance)]
    return candidates


def _share_no_bits(columns: tuple[int, ...]) -> bool:
    seen = 0
    for column in columns:
        if seen & column:
            return False
        seen |= column
    return True


def _layout_of_columns(columns: tuple[int, ...], shape: IntTuple) -> Layout[int]:
    """The layout of ``shape`` whose coordinate bits have these indices."""
    shapes: list[Any] = []
    strides: list[Any] = []
    position = 0
    for extent in flatten(shape):
        bits = extent.bit_length() - 1
        extents, steps = _modes_of_columns(columns[position : position + bits])
        position += bits
        shapes.append(extents)
        strides.append(steps)
    if not is_tuple(shape):
        return make_unchecked(shapes[0], strides[0])
    return make_unchecked(unflatten(tuple(shapes), shape), unflatten(tuple(strides), shape))


def _modes_of_columns(columns: tuple[int, ...]) -> tuple[Any, Any]:
    """Shape and stride of consecutive bits: runs of doubling columns are one mode."""
    extents: list[int] = []
    steps: list[int] = []
    previous: int | None = None
    for column in columns:
        if previous is not None and column == previous * 2:
            extents[-1] *= 2
        else:
            extents.append(2)
            steps.append(column)
        previous = column
    if not extents:
        return 1, 0
    if len(extents) == 1:
        return extents[0], steps[0]
    return tuple(extents), tuple(steps)


def affine_map(
    layout: Layout[int] | ComposedLayout, output_bits: int | None = None
) -> tuple[LinearMap, int]:
    """A layout as ``x -> constant ^ M(x)``: the linear map M and the constant.

    Raises LayoutError if the layout is not of this form: an extent is no power of two, or the
    strides' multiples share bits with each other or with the offset.
    """
    if isinstance(layout, Layout):
        swizzle, offset, inner = None, 0, layout
    else:
        swizzle, offset, inner = layout.swizzle, layout.offset, layout.layout
    images = bit_images(inner)
    if images is None:
        raise LayoutError(
            f"{layout} is not linear over F2: its extents must be powers of two, and the multiples "
            "of its strides must share no bits."
        )
    if any(image & offset for image in images):
        raise LayoutError(f"{layout}: the offset {offset} shares bits with the strides.")
    if swizzle is not None:
        images = tuple(swizzle(image) for image in images)
        offset = swizzle(offset)
    return LinearMap(images, output_bits), offset


def conflict_count(access: LinearMap, banks: LinearMap) -> int:
    """How many distinct words the access touches in each bank that it touches.

    ``access`` maps lanes to words, ``banks`` words to banks.  1 means no conflict.
    """
    word_bits = max(access.output_bits, banks.input_bits)
    wide = LinearMap(banks.columns + (0,) * (word_bits - banks.input_bits), banks.output_bits)
    return 1 << (access.rank() - (wide @ access).rank())
