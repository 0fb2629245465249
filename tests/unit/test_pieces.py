"""Operations cut into launches: pieces cover the domain, and fit."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mugraph.codegen.cuda import pieces
from mugraph.codegen.cuda.cpp import Writer
from mugraph.codegen.cuda.pieces import Piece, choose_piece, print_pieces, span

EXTENTS = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@st.composite
def operations(draw: st.DrawFn) -> tuple[list[int], list[list[int]], int]:
    """A domain, strides of two operands (one may be broadcast), and a limit."""
    domain = draw(EXTENTS)
    operands: list[list[int]] = []
    for _ in range(2):
        step, strides = 1, [0] * len(domain)
        for dim in draw(st.permutations(range(len(domain)))):
            strides[dim] = step if draw(st.booleans()) or not operands else 0
            step *= domain[dim] + draw(st.integers(0, 3))
        operands.append(strides)
    return domain, operands, draw(st.integers(1, 300))


@given(operations())
def test_a_piece_fits_and_is_not_cut_without_need(
    operation: tuple[list[int], list[list[int]], int],
) -> None:
    domain, operands, limit = operation
    piece = choose_piece(domain, operands, limit)
    assert all(1 <= part <= whole for part, whole in zip(piece, domain, strict=True))
    assert math.prod(piece) <= limit
    assert all(span(piece, strides) <= limit for strides in operands)
    fits = math.prod(domain) <= limit and all(span(domain, steps) <= limit for steps in operands)
    assert (piece == tuple(domain)) is fits


@given(operations())
def test_pieces_cover_the_domain_once(operation: tuple[list[int], list[list[int]], int]) -> None:
    domain, operands, limit = operation
    found: list[tuple[int, ...]] = []

    def visit(piece: Piece) -> None:
        """Notes every element of the piece, for all iterations of the loops around it."""
        counts = {
            dim: domain[dim] // int(start.split(" * ")[1]) if " * " in start else 1
            for dim, start in piece.starts.items()
        }
        for turn in itertools.product(*(range(count) for count in counts.values())):
            firsts = [0] * len(domain)
            for (dim, start), index in zip(piece.starts.items(), turn, strict=True):
                text = re.sub(r"i\d+", str(index), start).replace("LL", "")
                firsts[dim] = math.prod(int(factor) for factor in text.split(" * "))
            found.extend(box(firsts, piece.extents))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "MAX_SPAN", limit)
        print_pieces(Writer(), domain, operands, visit)
    assert sorted(found) == sorted(box([0] * len(domain), domain))


def box(firsts: Sequence[int], extents: Sequence[int]) -> list[tuple[int, ...]]:
    ranges = [range(first, first + size) for first, size in zip(firsts, extents, strict=True)]
    return list(itertools.product(*ranges))
