"""ResNet-50's convolutions on a GPU: the kernel of ``examples/cute/convolution.py`` and cuDNN.

``python -m benchmarks.convolution OUTPUT`` compiles every layer at batch 32, f16, channels last, in
several tiles, on all cores.  Then it checks each kernel against float64, on random inputs and into
results full of NaN, and times those that are right beside ``torch.nn.functional.conv2d`` with
cuDNN's own search (``cudnn.benchmark``).  It writes ``OUTPUT.json`` and ``OUTPUT.md`` after each
layer.  ``--limit 5`` takes the first five layers, ``--only 3x3`` those whose name has that.  Times
as in ``benchmarks.h200.timing``.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.commands import run_command
from benchmarks.cute_kernels import ARCH, LARGEST_ERROR, Run, Shapes, build
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared

BATCH = 32
SHARED_BYTES = 225 << 10
"""What stages and the tile that is stored may take."""
TILES = [(64, 64), (128, 64), (128, 128), (128, 256), (256, 128)]
"""Places and filters a block; as many warp groups as there are 64 places."""
MICROSECONDS_A_ROUND = 20_000.0


@dataclass(frozen=True)
class Layer:
    """A convolution, and how often ResNet-50 has it."""

    side: int
    channels: int
    filters: int
    window: int
    stride: int
    count: int

    @property
    def padding(self) -> int:
        """As PyTorch's ResNet-50 has it."""
        return self.window // 2

    @property
    def out(self) -> int:
        """The side of the result."""
        return (self.side + 2 * self.padding - self.window) // self.stride + 1

    @property
    def name(self) -> str:
        """As it is printed."""
        window = f"{self.window}x{self.window}"
        return f"{self.side}² x {self.channels} → {self.filters}, {window}, stride {self.stride}"

    @property
    def shapes(self) -> Shapes:
        """Images, filters and results, channels last."""
        images = (BATCH, self.side, self.side, self.channels)
        filters = (self.filters, self.window, self.window, self.channels)
        return [(images, None), (filters, None), ((BATCH, self.out, self.out, self.filters), None)]

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * BATCH * self.out**2 * self.filters * self.channels * self.window**2

    def variants(self) -> dict[str, dict[str, Any]]:
        """Options of the example by the name of a tile, each with as many stages as have room."""
        fixed = {"strides": (self.stride,) * 2, "padding": (self.padding,) * 2}
        if self.channels % 8:
            return {"predicated": fixed}
        found: dict[str, dict[str, Any]] = {}
        for rows, columns in TILES:
            if columns > max(64, self.filters):
                continue
            stored = 2 * rows * min(columns, 128)
            stages = min(6, (SHARED_BYTES - stored) // (2 * 64 * (rows + columns)))
            found[f"{rows}x{columns}"] = {**fixed, "tile": (rows, columns), "stages": stages}
        return found


LAYERS = [
    Layer(224, 3, 64, 7, 2, 1),
    Layer(56, 64, 64, 1, 1, 1),
    Layer(56, 64, 64, 3, 1, 3),
    Layer(56, 64, 256, 1, 1, 4),
    Layer(56, 256, 64, 1, 1, 2),
    Layer(56, 256, 128, 1, 1, 1),
    Layer(56, 128, 128, 3, 2, 1),
    Layer(28, 128, 512, 1, 1, 4),
    Layer(56, 256, 512, 1, 2, 1),
    Layer(28, 512, 128, 1, 1, 3),
    Layer(28, 128, 128, 3, 1, 3),
    Layer(28, 512, 256, 1, 1, 1),
    Layer(28, 256, 256, 3, 2, 1),
    Layer(14, 256, 1024, 1, 1, 6),
    Layer(28, 512, 1024, 1, 2, 1),
    Layer(14, 1024, 256, 1, 1, 5),
    Layer(14, 256, 256, 3, 1, 5),
    Layer(14, 1024, 512, 1, 1, 1),
    Layer(14, 512, 512, 3, 2, 1),
    Layer(7, 512, 2048, 1, 1, 3),
    Layer(14, 1024, 2048, 1, 2, 1),
    Layer(7, 2048, 512, 1, 1, 2),
    Layer(7, 512, 512, 3, 1, 2),
]


def convolve(layer: Layer, images: Any, filters: Any) -> Any:
    """PyTorch's convolution of tensors whose channels come last."""
    from torch.nn.functional import conv2d

    places = conv2d(
        images.permute(0, 3, 1, 2),
        filters.permute(0, 3, 1, 2),
        stride=layer.stride,
        padding=layer.padding,
    )
    return places.permute(0, 2, 3, 1)


def measure(torch: Any, layer: Layer, built: dict[str, Future[Any]]) -> dict[str, Any]:
    """Errors and microseconds of each variant, and cuDNN's."""
    errors: dict[str, str] = {}
    runs: dict[str, Run] = {}
    exact: Any = None
    for name, future in built.items():
        try:
            run = Run(torch, future.result(), "f16", layer.shapes)
            if exact is None:
                with torch.backends.cudnn.flags(enabled=False):
                    exact = convolve(layer, *(one.double() for one in run.inputs))
            error = run.error(lambda *_tensors, exact=exact: exact)
            errors[name] = f"{error:.2e}"
            if error <= LARGEST_ERROR["f16"]:
                runs[name] = run
            else:
                errors[name] += " WRONG"
        except Exception as problem:
            errors[name] = f"{type(problem).__name__}: {problem}"[:300]
    record: dict[str, Any] = {"errors": errors, "times": {}}
    if not runs:
        return record
    first = next(iter(runs.values()))
    del exact
    sets = set_count(2 * sum(math.prod(shape) for shape, _ in layer.shapes))
    inputs = [[one.clone() for one in first.inputs] for _ in range(sets)]
    outputs = [torch.empty_like(first.output) for _ in range(sets)]

    def ours(run: Run) -> Callable[[int], Any]:
        return lambda i: run.launch(inputs[i], outputs[i])

    calls: dict[str, Callable[[int], Any]] = {name: ours(run) for name, run in runs.items()}
    calls["cuDNN"] = lambda i: convolve(layer, *inputs[i])
    graphs = [prepared(call, sets) for call in calls.values()]
    samples = interleaved(graphs, lambda _: None, MICROSECONDS_A_ROUND)
    record["times"] = {name: one.median for name, one in zip(calls, samples, strict=True)}
    return record


def report(results: dict[str, Any], output: Path) -> None:
    """Writes what is known so far."""
    rows: list[tuple[str, ...]] = []
    ratios: list[float] = []
    wrong: list[tuple[str, str]] = []
    for layer in LAYERS:
        record = results["layers"].get(layer.name)
        if record is None:
            continue
        wrong += [
            (f"{layer.name}, {name}", error)
            for name, error in record["errors"].items()
            if name not in record["times"]
        ]
        if not record["times"]:
            continue
        *ours, (_, peer) = record["times"].items()
        best, time = min(ours, key=lambda one: one[1])
        ratios.append(peer / time)
        rate = f"{layer.operations / time / 1e6:.0f}"
        others = ", ".join(f"{name} {value:.1f}" for name, value in ours if name != best)
        rows.append(
            (layer.name, best, f"{time:.1f}", rate, f"{peer:.1f}", f"{peer / time:.2f}", others)
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    results["geometric_mean"] = mean
    columns = ("layer", "tile", "µs:", "TFLOP/s:", "cuDNN µs:", "of cuDNN:", "other tiles, µs")
    lines = [
        *pages.head(f"Convolutions of ResNet-50, batch {BATCH}, f16", results["facts"]),
        f"Of cuDNN's speed, in the geometric mean of {len(ratios)} layers: **{mean:.3f}**.",
        "",
        *pages.table(columns, rows),
    ]
    if wrong:
        lines += ["", *pages.table(("wrong, or not run", "error"), wrong)]
    pages.write(output, results, lines)


def run(arguments: argparse.Namespace) -> int:
    """Compiles, checks and times layers; 1 where a result is wrong."""
    import torch

    torch.backends.cudnn.benchmark = True
    output: Path = arguments.output
    layers = [one for one in LAYERS if arguments.only in one.name][: arguments.limit]
    results: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "facts": facts_of_this_run(ARCH),
        "layers": {},
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = {
            layer: {
                name: pool.submit(build, "convolution", "f16", layer.shapes, options)
                for name, options in layer.variants().items()
            }
            for layer in layers
        }
    for layer, variants in built.items():
        results["layers"][layer.name] = record = measure(torch, layer, variants)
        print(layer.name, record, flush=True)
        report(results, output)
        torch.cuda.empty_cache()
    print(output.with_suffix(".md").read_text())
    return int(any(len(one["times"]) <= len(one["errors"]) for one in results["layers"].values()))


def main() -> int:
    """Parses the command line and runs it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--limit", type=int, default=len(LAYERS))
    parser.add_argument("--only", default="")
    parser.set_defaults(command=run)
    return run_command(parser)


if __name__ == "__main__":
    sys.exit(main())
