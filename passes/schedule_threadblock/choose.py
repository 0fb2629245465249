"""Choices of the schedule: pure functions of sizes, with no IR in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mugraph.dialects.cute.atoms import MmaAtom, scalar_atom, tensor_core_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.passes.analysis.registers import Tiles
from mugraph.passes.targets import Target

MIN_STAGES, MAX_STAGES = 2, 8
"""Bounds on the copies of a pipelined buffer."""


@dataclass(frozen=True)
class WarpLayout:
    """How the warps of a block share a matrix product: ``m`` by ``n`` of them.

    For an instruction of single threads, how the threads share it.
    """

    atom: MmaAtom
    m: int
    n: int

    @property
    def tiled_mma(self) -> TiledMmaAttr:
        """The instruction and its arrangement, as types of fragments name them."""
        return TiledMmaAttr(self.atom.name, (self.m, self.n, 1))

    def tiles_of_a_warp(self, rows: int, columns: int) -> Tiles:
        """The instruction tiles of a product that each warp has, with their registers."""
        return Tiles(self.atom, *self.tiles(rows, columns))

    def tiles(self, rows: int, columns: int) -> tuple[int, int]:
        """How many instruction tiles each warp has along m and along n."""
        atom_m, atom_n, _ = self.atom.shape_mnk
        return math.ceil(rows / (atom_m * self.m)), math.ceil(columns / (atom_n * self.n))


def choose_atom(element: str, threads: int, *, ieee: bool) -> MmaAtom:
    """The instruction for products of an element type (``f16``, ``e4m3``, ``s8`` ...) in a block.

    Tensor cores, unless f32 must not be rounded to TF32 (``ieee``) or there is no whole warp.
    """
    atom = tensor_core_atom(element)
    return scalar_atom(element) if ieee or threads < atom.threads else atom


def warp_layouts(atom: MmaAtom, threads: int) -> Iterator[WarpLayout]:
    """Every arrangement of at most as many warps (or threads) as a block has in a rectangle."""
    warps = threads // atom.threads
    for m in range(1, warps + 1):
        for n in range(1, warps // m + 1):
            yield WarpLayout(atom, m, n)


def choose_warp_layout(
    rows: int, columns: int, depth: int, atom: MmaAtom, threads: int
) -> WarpLayout:
    """The arrangement with the fewest instructions in sequence, then the least data loaded.

    Instructions in sequence are those of one warp; the data are the fragments of both operands
    that all warps together load from shared memory.  Source: seed 000 "How to Decide thr_layout".
    """
    atom_m, atom_n, atom_k = atom.shape_mnk

    def cost(layout: WarpLayout) -> tuple[int, int, int]:
        tiles_m, tiles_n = layout.tiles(rows, columns)
        steps = math.ceil(depth / atom_k)
        volume = layout.m * layout.n * (tiles_m * atom_m + tiles_n * atom_n) * atom_k * steps
        return tiles_m * tiles_n * steps, volume, layout.m

    return min(warp_layouts(atom, threads), key=cost)


def choose_stages(
    tile_bytes: int, blocks: int, iterations: int, shared_bytes: int, target: Target
) -> int:
    """The fewest copies of the pipelined buffers that cover the latency of device memory.

    ``tile_bytes`` are loaded an iteration by each of ``blocks`` blocks; ``shared_bytes`` is what
    one block needs with a single stage.  Between 2 and 8, but never more than there are
    iterations; 1 where nothing is loaded in the loop.
    """
    if tile_bytes == 0 or iterations == 1:
        return 1
    resident = max(1, min(blocks // target.multiprocessors, _blocks_that_fit(shared_bytes, target)))
    needed = target.bytes_in_flight_per_multiprocessor()
    ahead = math.ceil(needed / (tile_bytes * resident))
    return min(max(ahead + 1, MIN_STAGES), MAX_STAGES, iterations)


def _blocks_that_fit(shared_bytes: int, target: Target) -> int:
    if shared_bytes == 0:
        return target.max_blocks_per_multiprocessor
    return max(1, target.shared_memory_per_multiprocessor // shared_bytes)
