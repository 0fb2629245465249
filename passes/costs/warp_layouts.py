"""How the warps of a block share a product: pure functions of sizes, with no IR in them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mugraph.dialects.cute.atoms import MmaAtom, scalar_atom, tensor_core_atom
from mugraph.dialects.cute.attributes import TiledMmaAttr
from mugraph.dialects.sched.warpgroup import is_of_warpgroups
from mugraph.passes.costs.memory import shared_cycles
from mugraph.passes.costs.products import sum_cycles, warp_steps_cycles
from mugraph.passes.targets import MMA, Target

UNROLLED_VALUES = 96
"""Products of at least so many values a thread are not unrolled (``tb/matmul.h``)."""

WORTH_A_SUM = 0.8
"""Warps along k must take so little of the cycles without them: the estimate is no better."""


class Tiles(NamedTuple):
    """The instruction tiles of a product that each warp (or single thread) has, along m and n."""

    atom: MmaAtom
    m: int
    n: int

    @property
    def values(self) -> int:
        """Registers of the result."""
        return self.m * self.n * self.atom.values_of_c

    @property
    def operands(self) -> int:
        """Registers that the operands take while the product is computed.

        A lane holds 4 registers of each tile of A and 4 of each pair of tiles of B.  Small products
        load some steps of k ahead.  For large ones the compiler keeps A and loads B as it goes.
        Warp groups read operands from shared memory.
        """
        if is_of_warpgroups(self.atom):
            return 0
        if self.atom.is_scalar:
            return self.n + 1
        if self.values >= UNROLLED_VALUES:
            return 4 * self.m + 4
        step = 4 * (self.m + math.ceil(self.n / 2))
        return step * next((ahead for ahead in (4, 2) if ahead * step <= 64), 1)

    @property
    def registers(self) -> int:
        """Registers of the result and of the operands."""
        return self.values + self.operands


@dataclass(frozen=True)
class WarpLayout:
    """How the warps of a block share a matrix product: ``m`` by ``n`` by ``k`` of them.

    Those along k take the steps of the instruction in turn, and their sums are added in the end.
    For an instruction of single threads, how the threads share it.
    """

    atom: MmaAtom
    m: int
    n: int
    k: int = 1

    @property
    def tiled_mma(self) -> TiledMmaAttr:
        """The instruction and its arrangement, as types of fragments name them."""
        return TiledMmaAttr(self.atom.name, (self.m, self.n, self.k))

    def tiles_of_a_warp(self, rows: int, columns: int) -> Tiles:
        """The instruction tiles of a product that each warp has, with their registers."""
        return Tiles(self.atom, *self.tiles(rows, columns))

    def tiles(self, rows: int, columns: int) -> tuple[int, int]:
        """How many instruction tiles each warp has along m and along n."""
        atom_m, atom_n, _ = self.atom.shape_mnk
        return math.ceil(rows / (atom_m * self.m)), math.ceil(columns / (atom_n * self.n))

    def steps(self, depth: int) -> int:
        """How many instruction steps along k each warp takes, at most."""
        return math.ceil(math.ceil(depth / self.atom.shape_mnk[2]) / self.k)


def choose_atom(types: tuple[str, str], threads: int, target: Target, *, ieee: bool) -> MmaAtom:
    """The instruction for products of element types (``f16``, ``e4m3``, ``s8`` ...) in a block.

    Tensor cores, unless f32 must not be rounded to TF32 (``ieee``) or there is no whole warp.
    """
    atom = tensor_core_atom(*types, target.macs_a_cycle[MMA])
    return scalar_atom(types[0]) if ieee or threads < atom.threads else atom


def warp_layouts(atom: MmaAtom, threads: int) -> Iterator[WarpLayout]:
    """Every arrangement of at most as many warps (or threads) as a block has in a rectangle."""
    warps = threads // atom.threads
    for m in range(1, warps + 1):
        for n in range(1, warps // m + 1):
            yield WarpLayout(atom, m, n)


def layouts_along_k(
    atom: MmaAtom, rows: int, columns: int, depth: int, threads: int
) -> Iterator[WarpLayout]:
    """Every arrangement with several warps along k whose sums a thread can well hold.

    None for an instruction of single threads.
    """
    steps = math.ceil(depth / atom.shape_mnk[2])
    if atom.is_scalar:
        return
    for layout in warp_layouts(atom, threads):
        most = threads // atom.threads // (layout.m * layout.n)
        if layout.tiles_of_a_warp(rows, columns).values < UNROLLED_VALUES:
            for k in range(2, min(most, steps) + 1):
                yield WarpLayout(atom, layout.m, layout.n, k)


@dataclass(frozen=True)
class ProductCost:
    """What a product costs a block each time: pure counts, of which an estimate in cycles is made.

    ``sequence`` are the instructions of one warp; ``volume`` the elements of both operands that all
    warps together load from shared memory.
    """

    sequence: int
    volume: int
    cycles: float


def product_cost(
    layout: WarpLayout,
    rows: int,
    columns: int,
    depth: int,
    element_bytes: int,
    target: Target,
    sums: float = 1.0,
) -> ProductCost:
    """The cost of a product whose partial sums are added ``sums`` times an iteration.

    The cycles are those of its steps, those of the loads, and those of the sum over the warps along
    k.
    """
    atom_m, atom_n, atom_k = layout.atom.shape_mnk
    tiles_m, tiles_n = layout.tiles(rows, columns)
    steps = layout.steps(depth)
    warps = layout.m * layout.n * layout.k
    volume = warps * (tiles_m * atom_m + tiles_n * atom_n) * atom_k * steps
    cycles = warp_steps_cycles(layout.atom, (tiles_m, tiles_n), steps, warps, target)
    cycles += shared_cycles(volume * element_bytes, target)
    if layout.k > 1:
        cycles += sums * sum_cycles(layout.k, rows, columns, target)
    return ProductCost(tiles_m * tiles_n * steps, volume, cycles)


def choose_warp_layout(
    rows: int,
    columns: int,
    depth: int,
    atom: MmaAtom,
    threads: int,
    target: Target,
    *,
    element_bytes: int = 2,
    iterations: int = 1,
    along_k: bool = True,
) -> WarpLayout:
    """The arrangement with the fewest instructions in sequence, then the least data loaded.

    Instructions in sequence are those of one warp; the data are the fragments of both operands
    that all warps together load from shared memory.  Source: Mirage's document "The CUDA
    Transpiler", "How to Decide thr_layout".
    Another one, of warps along k too, is taken where it saves a good part of the cycles, the sum
    over them included, which is done once in ``iterations``, unless ``along_k`` forbids it: the
    fastest of all arrangements, flat ones with it.
    """

    flat, split = _arrangements(rows, columns, depth, atom, threads, target, element_bytes)
    best = min(flat, key=_Arrangement.by_counts)
    if not along_k:
        return best.layout
    sums = 1 / iterations
    # Against every flat arrangement: the fastest of them may not be the one of fewest instructions.
    fastest = min((*flat, *split), key=lambda each: each.by_cycles(sums))
    return (fastest if fastest.cycles(sums) < WORTH_A_SUM * best.cycles(sums) else best).layout


class _Arrangement(NamedTuple):
    """What a product costs under an arrangement, and the sum over its warps along k each time."""

    layout: WarpLayout
    cost: ProductCost
    """Without the sum."""
    sum_cycles: float

    def cycles(self, sums: float) -> float:
        """With the sum so many times."""
        return self.cost.cycles + sums * self.sum_cycles

    def by_counts(self) -> tuple[int, int, int]:
        """What is fewest first."""
        return self.cost.sequence, self.cost.volume, self.layout.m

    def by_cycles(self, sums: float) -> tuple[float, int, int, int]:
        """What is fastest first."""
        return self.cycles(sums), self.cost.volume, self.layout.k, self.layout.m


@lru_cache(1 << 10)
def _arrangements(
    rows: int,
    columns: int,
    depth: int,
    atom: MmaAtom,
    threads: int,
    target: Target,
    element_bytes: int,
) -> tuple[list[_Arrangement], list[_Arrangement]]:
    """The flat arrangements, and those of several warps along k."""

    def of(layout: WarpLayout) -> _Arrangement:
        cost = product_cost(layout, rows, columns, depth, element_bytes, target, 0.0)
        added = sum_cycles(layout.k, rows, columns, target) if layout.k > 1 else 0.0
        return _Arrangement(layout, cost, added)

    split = layouts_along_k(atom, rows, columns, depth, threads)
    return [*map(of, warp_layouts(atom, threads))], [*map(of, split)]
