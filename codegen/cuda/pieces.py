"""Cuts an operation on large tensors into launches that 32-bit offsets reach.

The kernels of ``runtime/include/mugraph/kn`` count elements and offsets in 32 bits.  A box of the
iteration domain spans ``sum of (extent - 1) * stride + 1`` elements of an operand; where one of
them is more than 32 bits hold, the host launches the kernel once a piece, and adds the pieces'
starts to the pointers in 64 bits.  What is printed without a loop has been shown to fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mugraph.codegen.cuda.cpp import Writer

MAX_SPAN = 2**31 - 1
"""Elements that one launch may have, or span in an operand."""


def span(extents: Sequence[int], strides: Sequence[int]) -> int:
    """The elements of memory between the first and the last one of a box, both included."""
    return 1 + sum((extent - 1) * step for extent, step in zip(extents, strides, strict=True))


def choose_piece(
    domain: Sequence[int], operands: Sequence[Sequence[int]], limit: int
) -> tuple[int, ...]:
    """The extents of the largest piece, halving dimensions until every operand's span fits.

    ``operands`` are strides over the domain, 0 where an operand is broadcast.  The dimension that
    is halved is the one of the greatest stride in the operand of the greatest span, so that a piece
    stays as compact as the tensor.
    """
    piece = list(domain)
    compact = [math.prod(domain[dim + 1 :]) for dim in range(len(domain))]
    everything = [compact, *operands]
    while True:
        spans = [span(piece, strides) for strides in operands]
        spans.insert(0, math.prod(piece))
        worst = max(range(len(spans)), key=lambda number: spans[number])
        if spans[worst] <= limit:
            return tuple(piece)
        wide = [dim for dim, extent in enumerate(piece) if extent > 1]
        dim = max(wide, key=lambda dim: everything[worst][dim])
        piece[dim] = (piece[dim] + 1) // 2


@dataclass(frozen=True)
class Piece:
    """Extents of a piece, and the C++ index expression of its start along each dimension."""

    extents: tuple[int, ...]
    starts: Mapping[int, str]

    def pointer(self, name: str, strides: Sequence[int], offset: int = 0) -> str:
        """A tensor's pointer moved to the piece's start, and by ``offset`` elements."""
        terms = [str(offset)] if offset else []
        terms += [
            f"{start} * {strides[dim]}LL" for dim, start in self.starts.items() if strides[dim]
        ]
        return " + ".join([name, *terms])


def print_pieces(
    writer: Writer,
    domain: Sequence[int],
    operands: Sequence[Sequence[int]],
    print_piece: Callable[[Piece], None],
) -> None:
    """Prints what ``print_piece`` prints for each piece of the domain: in loops, remainders last.

    ``operands`` are as in :func:`choose_piece`.
    """
    extents = choose_piece(domain, operands, MAX_SPAN)
    cut = [dim for dim in range(len(domain)) if extents[dim] < domain[dim]]

    def print_from(place: int, piece: Piece) -> None:
        if place == len(cut):
            print_piece(piece)
            return
        dim = cut[place]
        count, rest = divmod(domain[dim], extents[dim])
        loop = f"i{dim}"
        writer.open(f"for (int64_t {loop} = 0; {loop} < {count}; ++{loop}) {{")
        start = f"{loop} * {extents[dim]}"
        print_from(place + 1, Piece(piece.extents, {**piece.starts, dim: start}))
        writer.close()
        if rest:
            shorter = (*piece.extents[:dim], rest, *piece.extents[dim + 1 :])
            writer.open("{")
            start = f"{count * extents[dim]}LL"
            print_from(place + 1, Piece(shorter, {**piece.starts, dim: start}))
            writer.close()

    print_from(0, Piece(extents, {}))
