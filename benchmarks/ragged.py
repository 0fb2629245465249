"""Products that no tile divides, on one GPU: beside the next whole tiles, and cuBLAS.

    python -m benchmarks.ragged --only 3584 --output benchmarks/results/ragged_h200

Rows are drawn, small numbers as often as large ones; columns and depth are those of layers and
odd ones.  Each is timed beside the product of the extents rounded up to whole tiles of 128 rows,
64 columns and a depth of 64, and beside cuBLAS, which has no relu.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Call, Case, Comparison, compiled, error_against, main
from benchmarks.extents import logarithmic
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED
from benchmarks.h200.statistics import set_count

COUNT = 24
COLUMNS, DEPTHS = (3000, 3584, 50257, 1009), (3584, 1001, 100)
TILES = (128, 64, 64)
"""Rows, columns and depth of whole tiles."""
LARGEST = 4096

Extents = tuple[int, int, int]
"""Rows, columns, depth."""


@dataclass(frozen=True)
class Product(Case):
    """A product in f16, with a relu that keeps it from cuBLAS and costs nothing."""

    extents: Extents

    @property
    def name(self) -> str:
        """Rows, columns and depth."""
        return "x".join(map(str, self.extents))

    @property
    def whole(self) -> Extents:
        """The next extents that tiles divide."""
        rows, columns, depth = (-(-e // t) * t for e, t in zip(self.extents, TILES, strict=True))
        return rows, columns, depth

    def build(self, arch: str) -> tuple[Built, Built]:
        """The product, and the next whole one."""
        return compiled(product(self.extents), arch), compiled(product(self.whole), arch)

    def comparison(self, built: tuple[Built, Built]) -> Comparison:
        """Beside the whole one on numbers of its own, and cuBLAS."""
        import torch

        rows, columns, depth = self.extents
        generator = torch.Generator(DEVICE).manual_seed(SEED + rows)
        count = set_count(2 * (rows * depth + depth * columns + rows * columns))
        sets = [
            [*operands(self.extents, generator), *operands(self.whole, generator)]
            for _ in range(count)
        ]
        x, w, *_ = sets[0]
        ragged, whole = (each.kernel() for each in built)
        others: dict[str, Call] = {
            "next whole tiles": lambda *given: whole(*given[2:]),
            "cuBLAS": lambda *given: given[0] @ given[1],
        }
        ours: dict[str, Call] = {OURS: lambda *given: ragged(*given[:2])}
        return Comparison(
            sets,
            ours | others,
            error_against((x.double() @ w.double()).relu()),
            allowed=2e-3,
            work=2.0 * rows * columns * depth,
            unit="TFLOP/s",
            unchecked=frozenset(others),
        )


def product(extents: Extents) -> mi.KernelGraph:
    """``relu(x @ w)``."""
    rows, columns, depth = extents
    graph = mi.new_kernel_graph("product")
    x, w = graph.new_input((rows, depth)), graph.new_input((depth, columns), constant=True)
    graph.mark_output(mi.relu(x @ w))
    return graph


def operands(extents: Extents, generator: Any) -> tuple[Any, Any]:
    """Random factors whose products are about 1."""
    import torch

    rows, columns, depth = extents
    x, w = (
        torch.randn(shape, generator=generator, device=DEVICE)
        for shape in ((rows, depth), (depth, columns))
    )
    return x.half(), (w * depth**-0.5).half()


def drawn(count: int, seed: int) -> list[Product]:
    """So many products; 37 x 3000 of depth 3584 is the first."""
    chance = random.Random(seed)
    sides = itertools.cycle(itertools.product(COLUMNS, DEPTHS))
    found: dict[Extents, None] = {(37, 3000, 3584): None}
    while len(found) < count:
        columns, depth = next(sides)
        found[logarithmic(chance, LARGEST), columns, depth] = None
    return [Product(each) for each in found]


CASES = drawn(COUNT, seed=1)

if __name__ == "__main__":
    raise SystemExit(main("Products that no tile divides", __doc__, CASES, output="build/ragged"))
