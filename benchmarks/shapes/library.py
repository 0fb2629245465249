"""What a product by cuBLAS takes, fitted to measured shapes: ``library_time`` of the fusion.

    python -m benchmarks.shapes.library benchmarks/results/shapes_h200.json

Of products alone eager PyTorch calls cuBLAS as the runtime does, and of those with a bias as
``addmm``; cublasLt, which other peers call, is another library.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.shapes.draw import shape_named
from mugraph.dialects.kn import MatmulOp
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.program.fuse_kernels.times import (
    fastest_cycles,
    library_loads,
    moved_bytes,
)
from mugraph.passes.targets import DEFAULT_TARGET, target_named

PEERS = {"": ("torch eager",), "bias": ("addmm",)}
"""Who calls cuBLAS and nothing else, by what follows a product."""
FOLLOWS = ("bias", "gelu", "silu", "relu", "residual")


class Measured(NamedTuple):
    """Microseconds of a product, what tensor cores and memory take at their highest rates, and what
    blocks take to load what they multiply, as ``library_time`` has it."""

    time: float
    products: float
    memory: float
    loads: float


def measured(paths: list[Path]) -> list[Measured]:
    """The products of some records, each once."""
    target, found = target_named(DEFAULT_TARGET), dict[str, Measured]()
    records = [one for path in paths for one in json.loads(path.read_text())["workloads"]]
    for record in records:
        name, options = record["workload"], record["facts"].get("options", "")
        follows = " ".join(each for each in FOLLOWS if each in options)
        times = [
            system["microseconds"]
            for peer, system in record["systems"].items()
            if peer in PEERS.get(follows, ()) and system["microseconds"]
        ]
        if "_linear_" not in name or "_norm_" in name or not times:
            continue
        product = next(op for op in shape_named(name).module().walk() if isinstance(op, MatmulOp))
        cycles = fastest_cycles(product, target) / target.multiprocessors
        moved = device_ns(moved_bytes([*product.operands, *product.results]), target)
        loads = library_loads(product, target) / 1000
        found[name] = Measured(min(times), cycles / target.clock_ghz / 1000, moved / 1000, loads)
    return list(found.values())


def estimated(one: Measured, start: float, products: float, memory: float) -> float:
    """As ``library_time`` has it, in microseconds."""
    return max(start + max(products * one.products, memory * one.memory), one.loads)


def main() -> None:
    """Prints the numbers of least error, and how far times are from them."""
    found = measured([Path(path) for path in sys.argv[1:]])
    steps = [range(20, 61, 5), range(130, 176), range(100, 161)]
    best = min(
        itertools.product(*steps),
        key=lambda n: sum(
            math.log(one.time / estimated(one, n[0] / 10, n[1] / 100, n[2] / 100)) ** 2
            for one in found
        ),
    )
    start, products, memory = best[0] / 10, best[1] / 100, best[2] / 100
    ratios = sorted(one.time / estimated(one, start, products, memory) for one in found)
    print(f"{len(found)} products: {start} us, {products} of tensor cores, {memory} of memory")
    print("times by estimates:", " ".join(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
