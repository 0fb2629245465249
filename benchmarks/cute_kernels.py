"""Kernels on CuTe tensors on a GPU: results against float64, and times against cuBLAS.

``python -m benchmarks.cute_kernels OUTPUT`` runs ``examples/cute`` at middle sizes on random
inputs, into outputs full of NaN, and times the products on tensor cores at 4096 cubed against
``torch.matmul``.  It writes ``OUTPUT.json`` and ``OUTPUT.md``.  Times as in
``benchmarks.h200.timing``.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks import pages
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared
from mugraph import cute
from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import CInterface, interface_of, print_single_file
from mugraph.dialects.tensor_types import row_major_strides
from mugraph.jit import CudaKernel
from mugraph.runtime.compile import compile_library
from mugraph.runtime.cuda import only_function

EXAMPLES = Path(__file__).parents[1] / "examples" / "cute"
ARCH = "sm_90a"
LARGEST_ERROR = {"f16": 1e-3, "f32": 1e-5}
SIDE = 4096

Shapes = list[tuple[tuple[int, ...], tuple[int, ...] | None]]
"""Extents and strides of each tensor; row-major where there are no strides."""


def _columns(rows: int, depth: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (rows, depth), (1, rows)


def _rows(m: int, n: int, k: int) -> Shapes:
    return [((m, k), None), ((n, k), None), ((m, n), None)]


def _products(a: Any, b: Any, *_rest: Any) -> Any:
    return a @ b.mT


CHECKS: dict[str, tuple[str, Shapes, dict[str, Any], Callable[..., Any]]] = {
    "elementwise_add": ("f32", [((1000, 516), None)] * 3, {}, lambda a, b, _c: a + b),
    "transpose": ("f32", [((1000, 516), None), ((516, 1000), None)], {}, lambda a, _b: a.mT),
    "sgemm_1": (
        "f32",
        [_columns(512, 256), _columns(384, 256), ((512, 384), None)],
        {"tiler": (128, 128, 8)},
        _products,
    ),
    "sgemm_2": ("f32", [_columns(512, 256), _columns(384, 256), ((512, 384), None)], {}, _products),
    "gemm_sm80": ("f16", _rows(1024, 512, 768), {}, _products),
    "gemm_sm90": ("f16", _rows(1024, 768, 1536), {}, _products),
    "gemm_sm90 64x64x64": (
        "f16",
        _rows(192, 320, 448),
        {"tiler": (64, 64, 64), "stages": 3},
        _products,
    ),
    "gemm_sm90 ragged": ("f16", _rows(1000, 776, 1000), {}, _products),
}
TIMED: dict[str, dict[str, Any]] = {
    "gemm_sm80": {},
    "gemm_sm80 of 4 warps": {"tiler": (128, 128, 64), "warps": (2, 2)},
    "gemm_sm80 of short steps": {"tiler": (128, 256, 32), "stages": 4},
    "gemm_sm80 of long tiles": {"tiler": (256, 128, 64), "warps": (4, 2)},
    "gemm_sm90": {},
    "gemm_sm90 of 128 blocks": {"blocks": 128},
    "gemm_sm90 of 16 rows": {"rows": 16},
}


def example(name: str) -> Any:
    """The module of an example; examples import one another."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    return importlib.import_module(name)


def build(
    name: str, element: str, shapes: Shapes, options: dict[str, Any]
) -> tuple[Path, CInterface]:
    """The library of an example."""
    tensors = [cute.make_fake_tensor(element, shape, stride) for shape, stride in shapes]
    module = example(name.split()[0]).launch(*tensors, **options).trace(ARCH)
    interface = interface_of(only_function(module))
    source = print_single_file(module, interface, Architecture(ARCH))
    return compile_library(source, ARCH), interface


class Run:
    """A compiled example and its tensors on the GPU."""

    def __init__(
        self, torch: Any, built: tuple[Path, CInterface], element: str, shapes: Shapes
    ) -> None:
        library, self.interface = built
        self.torch, self.kernel = torch, CudaKernel(library, self.interface, ARCH)
        self.dtype = {"f16": torch.float16, "f32": torch.float32}[element]
        self.shapes = shapes
        torch.manual_seed(0)
        # Sums of as many terms as a product has shall not be large.
        *inputs, self.output = (self.tensor(*shape) for shape in shapes)
        self.inputs = [one.normal_() / 4 for one in inputs]
        self.output.fill_(torch.nan)
        size = max(1, self.interface.workspace_bytes)
        self.workspace = torch.empty(size, dtype=torch.uint8, device="cuda")

    def tensor(self, shape: tuple[int, ...], stride: tuple[int, ...] | None) -> Any:
        """A tensor without contents."""
        strides = stride if stride is not None else row_major_strides(shape)
        return self.torch.empty_strided(shape, strides, dtype=self.dtype, device="cuda")

    def launch(self, inputs: list[Any], output: Any) -> Any:
        """One call on the current stream; what is read and written is an input, too."""
        given = [*inputs, output][: len(self.interface.inputs)]
        pointers = [tensor.data_ptr() for tensor in (*given, output)]
        stream = self.torch.cuda.current_stream().cuda_stream
        self.kernel.launch(pointers, self.workspace.data_ptr(), stream)
        return output

    def error(self, function: Callable[..., Any]) -> float:
        """The relative error against float64; NaN where anything was not written."""
        if len(self.interface.inputs) == len(self.shapes):
            self.output.zero_()  # of which a multiple, of zero, is added
        self.launch(self.inputs, self.output)
        self.torch.cuda.synchronize()
        exact = function(*(one.double() for one in (*self.inputs, self.output)))
        return float((self.output.double() - exact).norm() / exact.norm())


def time_products(torch: Any, runs: dict[str, Run]) -> dict[str, float]:
    """Microseconds of each product and of cuBLAS, interleaved."""
    first = next(iter(runs.values()))
    sets = set_count(3 * 2 * SIDE * SIDE)
    inputs = [[one.clone() for one in first.inputs] for _ in range(sets)]
    outputs = [torch.empty_like(first.output) for _ in range(sets)]

    def ours(run: Run) -> Callable[[int], Any]:
        return lambda i: run.launch(inputs[i], outputs[i])

    calls: dict[str, Callable[[int], Any]] = {name: ours(run) for name, run in runs.items()}
    calls["cuBLAS"] = lambda i: torch.matmul(inputs[i][0], inputs[i][1].mT, out=outputs[i])
    graphs = [prepared(call, sets) for call in calls.values()]
    samples = interleaved(graphs, lambda _: None)
    return {name: one.median for name, one in zip(calls, samples, strict=True)}


def report(results: dict[str, Any], output: Path) -> None:
    """Writes what is known so far."""
    times: list[tuple[str, ...]] = []
    peer = results["times"].get("cuBLAS")
    for system, value in results["times"].items():
        rate = f"{2 * SIDE**3 / value / 1e6:.0f}"
        times.append((system, f"{value:.2f}", rate, f"{peer / value:.3f}"))
    lines = [
        *pages.head("Kernels on CuTe tensors", results["facts"]),
        *pages.table(("example", "relative error"), list(results["checks"].items())),
        "",
        *pages.table(("4096 cubed, f16", "µs:", "TFLOP/s:", "of cuBLAS:"), times),
    ]
    pages.write(output, results, lines)


def main(arguments: list[str]) -> int:
    """Runs all of it; 1 where a result is wrong."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args(arguments).output
    results: dict[str, Any] = {"device": torch.cuda.get_device_name(), "checks": {}, "times": {}}
    results["facts"] = facts_of_this_run(ARCH)
    wrong = False
    large = _rows(SIDE, SIDE, SIDE)
    with ThreadPoolExecutor(8) as pool:
        checked = {
            name: pool.submit(build, name, element, shapes, options)
            for name, (element, shapes, options, _) in CHECKS.items()
        }
        timed = {
            name: pool.submit(build, name, "f16", large, options) for name, options in TIMED.items()
        }
    runs: dict[str, Run] = {}
    for name, future in [*checked.items(), *((f"{one} 4096", two) for one, two in timed.items())]:
        element, shapes, _, function = CHECKS.get(name, ("f16", large, {}, _products))
        try:
            run = Run(torch, future.result(), element, shapes)
            error = run.error(function)
            right = error <= LARGEST_ERROR[element]
            results["checks"][name] = f"{error:.2e}" + ("" if right else " WRONG")
            wrong |= not right
            if right and future in timed.values():
                runs[name.removesuffix(" 4096")] = run
        except Exception as problem:
            results["checks"][name] = f"{type(problem).__name__}: {problem}"[:300]
            wrong = True
        report(results, output)
    if runs:
        results["times"] = time_products(torch, runs)
        report(results, output)
    print(output.with_suffix(".md").read_text())
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
