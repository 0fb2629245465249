"""Products that no tile divides, on one GPU: beside the next whole tiles, and cuBLAS.

    python -m benchmarks.ragged --only 3584 --output benchmarks/results/ragged_h200

Rows are drawn, small numbers as often as large ones; columns and depth are those of layers and
odd ones.  Each is timed beside the product of the extents rounded up to whole tiles of 128 rows,
64 columns and a depth of 64, and beside cuBLAS, which has no relu.  Weights whose rows 16 bytes do
not divide are copied at each call; they are also given with padded rows, as one would keep them.
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
PADDED = "padded weights"
ALIGNED = 8
"""Elements of a whole vector."""
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

    @property
    def uneven(self) -> bool:
        """Whether rows of its weights start at no multiples of 16 bytes."""
        return self.extents[1] % ALIGNED > 0

    def build(self, arch: str) -> tuple[Built, ...]:
        """The product, the next whole one, and that of padded weights where they are uneven."""
        graphs = [product(self.extents), product(self.whole)]
        if self.uneven:
            graphs.append(product(self.extents, padded=True))
        return tuple(compiled(graph, arch) for graph in graphs)

    def comparison(self, built: tuple[Built, ...]) -> Comparison:
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
        ragged, whole, *padded = (each.kernel() for each in built)
        others: dict[str, Call] = {
            "next whole tiles": lambda *given: whole(*given[2:4]),
            "cuBLAS": lambda *given: given[0] @ given[1],
        }
        ours: dict[str, Call] = {OURS: lambda *given: ragged(*given[:2])}
        if padded:
            (of_padded,) = padded
            ours[PADDED] = lambda *given: of_padded(given[0], given[4])
            for each in sets:
                each.append(with_padded_rows(each[1]))
        return Comparison(
            sets,
            ours | others,
            error_against((x.double() @ w.double()).relu()),
            allowed=2e-3,
            work=2.0 * rows * columns * depth,
            unit="TFLOP/s",
            unchecked=frozenset(others),
        )


def product(extents: Extents, *, padded: bool = False) -> mi.KernelGraph:
    """``relu(x @ w)``; ``padded`` weights have rows of whole vectors."""
    rows, columns, depth = extents
    graph = mi.new_kernel_graph("product")
    x = graph.new_input((rows, depth))
    strides = (whole_row(columns), 1) if padded else None
    w = graph.new_input((depth, columns), strides=strides, constant=True)
    graph.mark_output(mi.relu(x @ w))
    return graph


def whole_row(columns: int) -> int:
    """The elements of a row that is padded to whole vectors."""
    return -(-columns // ALIGNED) * ALIGNED


def with_padded_rows(weights: Any) -> Any:
    """The same numbers, in rows of whole vectors."""
    depth, columns = weights.shape
    padded = weights.new_zeros((depth, whole_row(columns)))[:, :columns]
    padded.copy_(weights)
    return padded


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
