"""``make demo``: the main job on one µGraph, with every step shown and checked.

RMSNorm and a linear layer, ``examples/rmsnorm_linear.mlir``, go through every pass to CUDA.  After
each pass the IR is printed and run on numpy; the CUDA is compiled where there is nvcc, and run and
timed where there is a GPU.  What could not be done here is said, and why.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.cuda import print_module
from mugraph.errors import UserError
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.compile import compile_cubin
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.toolchain import (
    Toolchain,
    ToolchainError,
    device_architecture,
    fetch_cutlass,
    find_cutlass,
    find_nvcc,
    find_toolchain,
)
from mugraph.tools.diagnostics import run_tool

Array = npt.NDArray[Any]
ARCHITECTURES = ("sm_80", "sm_90a")
FROM_CACHE_SECONDS = 0.1
"""No compilation is as short as that."""
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "rmsnorm_linear.mlir"


@dataclass
class Report:
    """What was done, for the table at the end."""

    rows: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    failed: bool = False

    def done(self, step: str, result: str) -> None:
        """A step that worked."""
        self.rows.append((step, "done", result))

    def skipped(self, step: str, reason: str) -> None:
        """A step that this machine cannot do."""
        self.rows.append((step, "skipped", reason))

    def wrong(self, step: str, result: str) -> None:
        """A step that failed; the demo then exits 1."""
        self.rows.append((step, "FAILED", result))
        self.failed = True

    def print(self) -> None:
        """Prints the table."""
        widths = [max(len(row[column]) for row in self.rows) for column in (0, 1)]
        print()
        for step, state, text in self.rows:
            print(f"{step.ljust(widths[0])}  {state.ljust(widths[1])}  {text}")


def expected_result(x: Array, w: Array) -> Array:
    """rms_norm(X) · W in float64, by numpy alone."""
    x64, w64 = x.astype(np.float64), w.astype(np.float64)
    return (x64 / np.sqrt(np.mean(x64 * x64, axis=-1, keepdims=True))) @ w64


def heading(text: str) -> None:
    """A line between the parts of the output."""
    print(f"\n===== {text} " + "=" * max(0, 72 - len(text)))


def check(report: Report, step: str, output: Array, expected: Array) -> None:
    """Compares one result with numpy's, for the table."""
    comparison = compare([output], [expected])[0]
    text = f"relative error {comparison.relative_error:.1e} against numpy in float64"
    (report.done if comparison.holds(TOLERANCE) else report.wrong)(step, text)


def run_passes(module: ModuleOp, inputs: Sequence[Array], expected: Array, report: Report) -> None:
    """Runs the pipeline pass by pass, printing and checking the IR after each."""
    context = make_context()
    for step in transpile_pipeline():
        start = time.perf_counter()
        step.apply(context, module)
        module.verify()
        milliseconds = (time.perf_counter() - start) * 1e3
        heading(f"after --{step.name}")
        print(module)
        name = f"--{step.name} ({milliseconds:.0f} ms)"
        check(report, name, run_function(module, None, inputs)[0], expected)


def toolchain_or_reason() -> Toolchain | str:
    """nvcc and the headers, fetching CUTLASS's where only they are missing; or what is missing."""
    try:
        find_nvcc()
    except ToolchainError as error:
        return str(error)
    try:
        find_cutlass()
    except ToolchainError:
        try:
            print(f"fetching CUTLASS's headers into {fetch_cutlass()}")
        except UserError as error:
            return str(error)
    return find_toolchain()


def compile_for_each(module: ModuleOp, report: Report) -> bool:
    """Compiles the µGraph's CUDA for each architecture where that can be done here."""
    toolchain = toolchain_or_reason()
    if isinstance(toolchain, str):
        report.skipped("compile", toolchain)
        return False
    for arch in ARCHITECTURES:
        text = generate_cuda(module.clone(), make_context(), arch).source
        start = time.perf_counter()
        size = compile_cubin(text, arch, toolchain=toolchain).stat().st_size
        seconds = time.perf_counter() - start
        how = "from the cache" if seconds < FROM_CACHE_SECONDS else f"in {seconds:.1f} s"
        report.done(f"nvcc {arch}", f"{size} bytes of cubin {how}")
    return True


def run_on_gpu(module: ModuleOp, inputs: Sequence[Array], expected: Array, report: Report) -> None:
    """Runs, checks and times the kernel where there is a GPU."""
    arch = device_architecture()
    if arch is None:
        report.skipped("run on a GPU", "no NVIDIA GPU and driver on this machine")
        return
    target = arch if arch in ARCHITECTURES else ARCHITECTURES[-1 if arch >= "sm_90" else 0]
    loaded = generate_cuda(module, make_context(), target).load()
    check(report, "run on the GPU", loaded.run(inputs)[0], expected)
    timing = loaded.time(inputs)
    report.done("time on the GPU", f"{timing.median:.2f} µs a call, tensors not in the L2 cache")


def _main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="demo", description="The main job, step by step.")
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="where CUDA goes")
    options = parser.parse_args(arguments)
    report = Report()
    module = read_module(str(EXAMPLE), make_context())
    heading(f"the µGraph, examples/{EXAMPLE.name}")
    print(module)
    original = module.clone()

    generator = np.random.default_rng(0)
    x = generator.standard_normal((16, 4096), np.float32).astype(np.float16)
    w = (generator.standard_normal((4096, 6144), np.float32) / 64).astype(np.float16)
    expected = expected_result(x, w)
    check(report, "the µGraph, on numpy", run_function(module, None, [x, w])[0], expected)
    run_passes(module, [x, w], expected, report)

    text = print_module(module)
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "rmsnorm_linear.cu"
    path.write_text(text, encoding="utf-8")
    heading("the CUDA")
    print(text)
    report.done("print CUDA", f"{len(text.splitlines())} lines in {path}")
    if compile_for_each(original, report):
        run_on_gpu(original, [x, w], expected, report)
    else:
        report.skipped("run on a GPU", "the kernel could not be compiled")
    heading("what was done")
    report.print()
    return 1 if report.failed else 0


def main() -> int:
    """The demo; returns its exit code."""
    return run_tool("demo", lambda: _main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
