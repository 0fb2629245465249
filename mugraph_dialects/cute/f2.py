"""Layouts over powers of two as linear maps over F2.

A coordinate of a layout whose extents are powers of two is a vector of bits, and so is its index.
If the multiples of the strides share no bits, adding them is xoring them, and the layout is a
linear map over the field of two elements: a matrix whose column k is the index of the coordinate
``1 << k``.  Swizzles are such maps too, so swizzled layouts are, and here everything composes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mugraph.dialects.cute.layout import Layout


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
