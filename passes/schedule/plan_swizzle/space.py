"""The layouts that swizzle planning chooses from: the same dimensions in the same order.

*Strides.*  Dimensions keep their order from the innermost one outwards; each stride is the least
multiple of the chunk that leaves no overlap, plus padding.  Padding by a whole line of banks
changes nothing, so less than that is tried at each dimension.

*Swizzles.*  Of all ``S<b,m,s>`` with s > 0 those are tried that can differ in wavefronts: base m at
least the chunk and a word, as lower bits choose no bank; targets below a line of banks, as higher
bits choose none either; some source bit from a line on, as an xor of bits that choose the bank with
each other only renames banks; and no source bit past the buffer.  A negative shift renames banks,
too, or tears words apart, and is left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mugraph.dialects.cute import Layout, Swizzle
from mugraph.dialects.programming_model import BANK_BYTES, LINE_BYTES

MAX_PADDINGS = 512
"""More combinations of paddings than this are not tried; then one dimension at a time is padded."""


class Extents(NamedTuple):
    """A buffer's extents, bytes an element, and its dimensions from the innermost outwards.

    ``chunk`` elements along the innermost dimension stay contiguous and aligned.
    """

    shape: tuple[int, ...]
    order: tuple[int, ...]
    element_bytes: int
    chunk: int

    @property
    def line(self) -> int:
        """Elements of one line of all banks."""
        return LINE_BYTES // self.element_bytes

    def outer(self) -> tuple[int, ...]:
        """The dimensions of extent over 1 but the innermost, inwards to outwards."""
        return tuple(dim for dim in self.order if self.shape[dim] > 1)[1:]

    def strides(self, paddings: Sequence[int] = ()) -> tuple[int, ...]:
        """Strides with so many chunks of padding before each of the outer dimensions."""
        strides = [0] * len(self.shape)
        span, extra = 1, iter(paddings)
        is_first = True
        for dim in self.order:
            extent = self.shape[dim]
            if extent > 1 and not is_first:
                span = -(-span // self.chunk) * self.chunk + next(extra, 0) * self.chunk
            is_first = is_first and extent == 1
            strides[dim] = span
            span *= extent
        return tuple(strides)


def extents_of(
    shape: Sequence[int], strides: Sequence[int], element_bytes: int, chunk: int
) -> Extents | None:
    """The extents of a layout; ``None`` where its dimensions interleave or none is contiguous."""
    order = sorted(range(len(shape)), key=lambda dim: (strides[dim], shape[dim] > 1, -dim))
    wide = [dim for dim in order if shape[dim] > 1]
    if not wide or strides[wide[0]] != 1:
        return None
    for inner, outer in itertools.pairwise(wide):
        if strides[outer] < strides[inner] * shape[inner]:
            return None
    return Extents(tuple(shape), tuple(order), element_bytes, chunk)


def _log2(value: int) -> int:
    return value.bit_length() - 1


def swizzles(extents: Extents) -> list[Swizzle]:
    """Every swizzle that can make a difference, those that move the fewest bits first."""
    elements = Layout(extents.shape, extents.strides()).cosize()
    line = _log2(extents.line)
    reach = (elements - 1).bit_length()
    word = max(1, BANK_BYTES // extents.element_bytes)
    lowest = _log2(max(extents.chunk, word))
    return [
        Swizzle(bits, base, shift)
        for bits in range(1, line - lowest + 1)
        for base in range(lowest, line - bits + 1)
        for shift in range(max(bits, line - base - bits + 1), reach - base - bits + 1)
    ]


def paddings(extents: Extents) -> Iterator[tuple[int, ...]]:
    """Every padding of the outer dimensions, the least first; none of them is all zeros."""
    outer = extents.outer()
    steps = max(1, extents.line // math.gcd(extents.chunk, extents.line))
    if steps ** len(outer) <= MAX_PADDINGS:
        every = itertools.product(range(steps), repeat=len(outer))
        yield from sorted((choice for choice in every if any(choice)), key=lambda c: (sum(c), c))
        return
    for amount in range(1, steps):
        for position in range(len(outer)):
            yield tuple(amount if at == position else 0 for at in range(len(outer)))


def covers_all_paddings(extents: Extents) -> bool:
    """Whether :func:`paddings` leaves none out."""
    steps = max(1, extents.line // math.gcd(extents.chunk, extents.line))
    return steps ** len(extents.outer()) <= MAX_PADDINGS
