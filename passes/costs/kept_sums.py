"""What of a block's sums stays in registers, and products too large for them in pieces: no IR.

Estimates ask before there is a schedule, and ``--lower-threadblock`` as it makes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mugraph.dialects.programming_model import MAX_THREAD_REGISTERS, REGISTER_STEP
from mugraph.passes.costs.warp_layouts import Tiles
from mugraph.passes.costs.work import WORKING_REGISTERS

MAX_PIECES = 16
"""More pieces than this are not worth the code: such a product stays whole, in local memory."""
SPARE_REGISTERS = 32
"""What pieces leave free: nothing is lost by a smaller one but that operands are loaded again."""
PIECE_REGISTERS = 96
"""What a product that may be computed in pieces is left at least, if it takes so many."""


def register_limit(threads: int, registers_per_multiprocessor: int) -> int:
    """The most registers that each thread of a block can have."""
    share = registers_per_multiprocessor // threads // REGISTER_STEP * REGISTER_STEP
    return min(MAX_THREAD_REGISTERS, share)


@dataclass(frozen=True)
class RegisterWork:
    """The registers of one operator's work for a thread.

    ``result`` are those of what it computes, ``operands`` those that it holds besides while it
    computes.  A ``keepable`` result is added to one that may stay in registers for the whole loop:
    in place, or where it is ``transformed`` first, from registers of its own.  A product that is
    not kept has registers of its own too, but can be computed in pieces; other works write what is
    not kept to memory as they go.
    """

    result: int
    operands: int = 0
    keepable: bool = False
    transformed: bool = False
    is_product: bool = False

    def alone(self, *, kept: bool) -> int:
        """Registers while the operator runs, beyond those of kept accumulators."""
        if kept:
            return self.operands + (self.result if self.transformed else 0)
        return (
            min(self.operands + self.result, PIECE_REGISTERS) if self.is_product else self.operands
        )


def registers_of_works(works: Sequence[RegisterWork], kept: frozenset[int]) -> int:
    """Registers of a thread that keeps the accumulators of the works at positions ``kept``."""
    accumulators = sum(works[index].result for index in kept)
    alone = (work.alone(kept=index in kept) for index, work in enumerate(works))
    return accumulators + max(alone, default=0) + WORKING_REGISTERS


def choose_kept(works: Sequence[RegisterWork], limit: int) -> frozenset[int]:
    """Accumulators to keep: in order, each one with which ``limit`` registers still suffice."""
    kept: frozenset[int] = frozenset()
    for index, work in enumerate(works):
        if work.keepable and registers_of_works(works, kept | {index}) <= limit:
            kept |= {index}
    return kept


@dataclass(frozen=True)
class Pieces:
    """A product in pieces of ``m`` x ``n`` instruction tiles of each warp, of ``whole``."""

    whole: Tiles
    m: int
    n: int

    @property
    def count(self) -> int:
        """How many pieces there are."""
        return math.ceil(self.whole.m / self.m) * math.ceil(self.whole.n / self.n)

    @property
    def registers(self) -> int:
        """Registers of the largest piece."""
        return Tiles(self.whole.atom, self.m, self.n).registers

    @property
    def loaded(self) -> int:
        """Elements of both operands that a warp loads for a step of k: each piece loads its own."""
        atom_m, atom_n, _ = self.whole.atom.shape_mnk
        rows = self.whole.m * atom_m * math.ceil(self.whole.n / self.n)
        return rows + self.whole.n * atom_n * math.ceil(self.whole.m / self.m)


def choose_pieces(whole: Tiles, registers: int) -> Pieces:
    """The pieces well within so many registers that load least, then the fewest.

    One where the product fits, and where it would take more than ``MAX_PIECES``.
    """
    one = Pieces(whole, whole.m, whole.n)
    if whole.registers <= registers:
        return one
    fitting = [
        pieces
        for m in range(1, whole.m + 1)
        for n in range(1, whole.n + 1)
        if (pieces := Pieces(whole, m, n)).count <= MAX_PIECES
        and pieces.registers <= registers - SPARE_REGISTERS
    ]
    return min(fitting, key=lambda pieces: (pieces.loaded, pieces.count, pieces.m), default=one)
