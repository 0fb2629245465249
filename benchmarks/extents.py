"""Named extents on one GPU: a compilation for all sizes beside one for each size alone.

    python -m benchmarks.extents run --output benchmarks/results/extents_h200

Each program is checked against float64 at every size, between guards, and timed at some.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mugraph
import mugraph.build as mi
from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.checking import judge
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED, settle
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared
from mugraph.build import DTensor, Extent, KernelGraph

LARGEST = 8192
BUCKETS = (16, 64, 512)
CHECKED = (
    1,
    2,
    7,
    15,
    16,
    17,
    37,
    63,
    64,
    65,
    127,
    300,
    511,
    512,
    513,
    1000,
    1009,
    4096,
    8191,
    8192,
)
"""Every size that is checked: the ends of buckets, their neighbours, and primes."""
TIMED = (1, 16, 37, 64, 300, 512, 1000, 4096, 8192)
TOLERANCE = 2e-3
"""The largest norm of an error by the norm of the result: a few roundings of f16."""


@dataclass(frozen=True)
class Layer:
    """A function of rows and of weights, at a width and a hidden size."""

    name: str
    width: int
    hidden: int
    weights: int
    function: Callable[..., DTensor]
    reference: Callable[..., Any]

    def graph(self, rows: int | Extent) -> KernelGraph:
        """The program of so many rows."""
        graph = mi.new_kernel_graph(self.name)
        x = graph.new_input((rows, self.width), name="x")
        shape = (self.width, self.hidden)
        weights = [graph.new_input(shape, constant=True) for _ in range(self.weights)]
        graph.mark_output(self.function(x, *weights))
        return graph


def _norm_linear(x: Any, w: Any) -> Any:
    return mi.rms_norm(x, eps=1e-5) @ w


def _norm_linear_reference(x: Any, w: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() @ w


def _gated(x: Any, gate: Any, up: Any) -> Any:
    return mi.silu(x @ gate) * (x @ up)


def _gated_reference(x: Any, gate: Any, up: Any) -> Any:
    import torch

    return torch.nn.functional.silu(x @ gate) * (x @ up)


LAYERS = (
    Layer("norm_linear", 4096, 4096, 1, _norm_linear, _norm_linear_reference),
    Layer("gated_mlp", 2048, 8192, 2, _gated, _gated_reference),
)


@dataclass
class Result:
    """One layer at one size: microseconds a call, where they were measured, and the error."""

    layer: str
    rows: int
    error: float
    named: float | None = None
    static: float | None = None


def drawn(generator: Any, shape: Sequence[int], scale: float) -> Any:
    """Random numbers of f16."""
    import torch

    return (torch.randn(shape, generator=generator, device=DEVICE) * scale).half()


def check(layer: Layer, named: Callable[..., Any], rows: int, weights: Sequence[Any]) -> Result:
    """Checks a size; raises ``ValueError`` where the result is wrong."""
    import torch

    generator = torch.Generator(DEVICE).manual_seed(SEED + rows)
    x = drawn(generator, (rows, layer.width), 1.0)
    expected = layer.reference(x.double(), *(each.double() for each in weights))
    verdict = judge(torch, named(x, *weights), expected, TOLERANCE)
    if verdict.relative_error is None or not verdict.right:
        raise ValueError(f"{layer.name} at {rows} rows is {verdict.status}")
    return Result(layer.name, rows, verdict.relative_error)


def time(
    result: Result, layer: Layer, kernels: Sequence[Callable[..., Any]], weights: Sequence[Any]
) -> None:
    """Times a size by both kernels."""
    import torch

    generator = torch.Generator(DEVICE).manual_seed(SEED)
    total = sum(2 * each.numel() for each in weights)
    count = set_count(total + 2 * result.rows * (layer.width + layer.hidden))
    sets = [
        (
            drawn(generator, (result.rows, layer.width), 1.0),
            *(each.clone() for each in weights),
        )
        for _ in range(count)
    ]
    graphs = [prepared(lambda at, run=run: run(*sets[at]), len(sets)) for run in kernels]
    named, static = interleaved(graphs, lambda _: None)
    result.named, result.static = named.median, static.median


def run(arch: str, output: Path) -> list[Result]:
    """Checks and times all layers; writes OUTPUT.json and OUTPUT.md after each size."""
    import torch

    facts = facts_of_this_run(arch)
    settle()
    results: list[Result] = []
    with ThreadPoolExecutor() as pool:
        rows = Extent("m", largest=LARGEST, buckets=BUCKETS)
        whole = [pool.submit(mugraph.compile, layer.graph(rows), arch) for layer in LAYERS]
        alone = {
            (layer.name, size): pool.submit(mugraph.compile, layer.graph(size), arch)
            for layer in LAYERS
            for size in TIMED
        }
        for layer, compiled in zip(LAYERS, whole, strict=True):
            named = compiled.result()
            generator = torch.Generator(DEVICE).manual_seed(SEED)
            shape, scale = (layer.width, layer.hidden), layer.width**-0.5
            weights = [drawn(generator, shape, scale) for _ in range(layer.weights)]
            for size in CHECKED:
                result = check(layer, named, size, weights)
                if size in TIMED:
                    static = alone[layer.name, size].result()
                    time(result, layer, (named, static), weights)
                print(result, flush=True)
                results.append(result)
                content = {"facts": facts, "results": [asdict(each) for each in results]}
                pages.write(output, content, page(results, facts))
    return results


COLUMNS = ("layer", "rows:", "named:", "static:", "named / static:", "error:")


def page(results: Sequence[Result], facts: dict[str, str]) -> list[str]:
    """The table of a run."""
    shapes = ", ".join(f"{layer.name} {layer.width} x {layer.hidden}" for layer in LAYERS)
    return [
        *pages.head(f"Named extents on {facts['gpu']}", facts),
        f"µs a call in f16: {shapes}. *Named* is one compilation for 0 to {LARGEST} rows with",
        f"buckets that end at {', '.join(map(str, BUCKETS))}, *static* one for that size alone.",
        "",
        *pages.table(COLUMNS, map(cells, results)),
    ]


def cells(result: Result) -> list[object]:
    """A line of the table."""
    named, static = result.named, result.static
    return [
        result.layer,
        result.rows,
        None if named is None else f"{named:.1f}",
        None if static is None else f"{static:.1f}",
        None if named is None or static is None else f"{named / static:.2f}",
        f"{result.error:.1e}",
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extents", description="named extents beside static ones"
    )
    parser.add_argument("command", choices=("run",))
    parser.add_argument("--arch", default="sm_90a", help="the architecture to compile for")
    parser.add_argument("--output", type=Path, default=Path("build/extents"))
    arguments = parser.parse_args()
    run(arguments.arch, arguments.output)


if __name__ == "__main__":
    main()
