"""Products of f8 and i8 on a GPU: checked against float64, and timed beside torch's.

``python -m benchmarks.narrow`` takes about two minutes, nvcc included; ``--only 8192`` takes the
shapes whose name has that.  Times are those of calls in a CUDA graph, of several sets of inputs
that a cache does not hold.  The floor is a copy of half of the weights: as many bytes in all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import mugraph
import mugraph.build as mi
from benchmarks.commands import case_options, warm_all
from mugraph.dialects.plan import Plan

ARCH = "sm_90a"
CALLS, REPLAYS = 8, 8
"""Calls in a graph, and how often it is replayed; the median replay counts."""
CACHE_BYTES = 128 << 20
"""The inputs of a graph's calls together are at least so large."""


@dataclass(frozen=True)
class Case:
    """A linear layer: ``x (m, k)`` times the transpose of ``w (n, k)`` and scales, into bf16."""

    rows: int
    columns: int
    depth: int
    kind: str
    by: str
    promote: bool = True

    @property
    def name(self) -> str:
        """As it is printed."""
        fast = "" if self.promote else ", sums of few bits"
        return f"{self.kind} {self.rows}x{self.columns}x{self.depth}, scales of {self.by}{fast}"

    @property
    def scale_shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of x and of w."""
        return ((self.rows, 1), (1, self.columns)) if self.by == "rows" else ((1, 1), (1, 1))


CASES = [
    *(Case(n, n, n, "e4m3", by) for n in (4096, 8192) for by in ("tensors", "rows")),
    *(Case(n, n, n, "e4m3", "rows", promote=False) for n in (4096, 8192)),
    *(Case(n, n, n, "s8", "rows") for n in (4096, 8192)),
    *(Case(m, 14336, 4096, "e4m3", "rows") for m in (1, 16, 64, 128)),
    *(Case(m, 14336, 4096, "s8", "rows") for m in (16, 128)),
]


def compiled(case: Case) -> Any:
    """The kernel of a case."""
    graph = mi.new_kernel_graph("linear")
    dtype = mi.int8 if case.kind == "s8" else mi.float8_e4m3fn
    x = graph.new_input((case.rows, case.depth), dtype=dtype)
    w = graph.new_input((case.columns, case.depth), dtype=dtype)
    scales = [graph.new_input(shape, dtype=mi.float32) for shape in case.scale_shapes]
    if case.kind == "s8":
        sums = mi.cast(graph.matmul(x, mi.transpose(w)), mi.float32)
    else:
        sums = graph.matmul(x, mi.transpose(w), dtype=mi.float32)
    graph.mark_output(mi.cast(sums * scales[0] * scales[1], mi.bfloat16))
    plan = None if case.promote else Plan(promote=False)
    return mugraph.compile(graph, ARCH, plan=plan)


def warm(case: Case) -> None:
    """Compiles a case into the cache."""
    compiled(case)


def inputs_of(case: Case, seed: int) -> list[Any]:
    """Random inputs of a case."""
    torch: Any = import_module("torch")

    random = torch.Generator("cuda").manual_seed(seed)
    tensors: list[Any] = []
    for shape in ((case.rows, case.depth), (case.columns, case.depth)):
        if case.kind == "s8":
            tensors.append(
                torch.randint(-128, 128, shape, generator=random, device="cuda", dtype=torch.int8)
            )
        else:
            numbers = torch.randn(shape, generator=random, device="cuda")
            tensors.append(numbers.to(torch.float8_e4m3fn))
    for shape in case.scale_shapes:
        tensors.append(torch.rand(shape, generator=random, device="cuda") + 0.5)
    return tensors


def error_of(result: Any, inputs: Sequence[Any], rows: int = 256) -> float:
    """The largest error of some rows against float64, in parts of the sum of absolute products."""
    torch: Any = import_module("torch")

    x, w, scale_x, scale_w = inputs
    rows = min(rows, len(x))
    ours, theirs = x[:rows].to(torch.float64), w.to(torch.float64).T
    scale_x = scale_x[:rows] if len(scale_x) > 1 else scale_x
    scales = scale_x.to(torch.float64) * scale_w.to(torch.float64)
    exact, most = ours @ theirs * scales, ours.abs() @ theirs.abs() * scales
    # bf16 rounds the result by 2^-9 of it.
    rest = ((result[:rows].to(torch.float64) - exact).abs() - 2.0**-8 * exact.abs()).clamp(min=0)
    return (rest / most).max().item()


def microseconds(calls: Sequence[Callable[[], Any]]) -> float:
    """The time of a call, the median of replays of a graph of them."""
    torch: Any = import_module("torch")

    for call in calls:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    kept: list[Any] = []
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]
    graph.replay()
    times: list[float] = []
    for _ in range(REPLAYS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / len(calls))
    del kept
    return sorted(times)[len(times) // 2]


def peers_of(case: Case, sets: Sequence[Sequence[Any]]) -> dict[str, list[Callable[[], Any]]]:
    """Calls of torch on the same numbers, and a copy of half of the weights' bytes."""
    torch: Any = import_module("torch")

    peers: dict[str, list[Callable[[], Any]]] = {}
    if case.kind == "e4m3":
        peers["torch._scaled_mm"] = [partial(scaled_product, torch, case, *one) for one in sets]
    elif case.rows > 16:
        peers["torch._int_mm, no scales"] = [
            partial(torch._int_mm, one[0], one[1].T) for one in sets
        ]
    peers["cuBLAS bf16"] = [
        partial(torch.matmul, one[0].to(torch.bfloat16), one[1].to(torch.bfloat16).T)
        for one in sets
    ]
    halves = [one[1].view(torch.uint8).flatten().chunk(2) for one in sets]
    peers["copy of as many bytes"] = [partial(half[1].copy_, half[0]) for half in halves]
    return peers


def scaled_product(torch: Any, case: Case, x: Any, w: Any, scale_x: Any, scale_w: Any) -> Any:
    """What torch makes of it."""
    if case.by == "tensors":
        scale_x, scale_w = scale_x[0, 0], scale_w[0, 0]
    fast = not case.promote
    return torch._scaled_mm(x, w.T, scale_x, scale_w, out_dtype=torch.bfloat16, use_fast_accum=fast)


def run(case: Case) -> None:
    """Checks and times a case, and prints a line for each kernel."""
    torch: Any = import_module("torch")

    kernel = compiled(case)
    bytes_of_set = (case.rows + case.columns) * case.depth
    count = max(1, min(CALLS, CACHE_BYTES // bytes_of_set + 1))
    sets = [inputs_of(case, seed) for seed in range(count)]
    poison = torch.full((case.rows, case.columns), float("nan"), device="cuda")
    del poison  # what the result's memory holds before
    error = error_of(kernel(*sets[0]), sets[0])
    limit = 2e-2 if case.kind == "e4m3" else 1e-6
    flop = 2 * case.rows * case.columns * case.depth
    verdict = "right" if error <= limit else "WRONG"
    print(f"\n{case.name}: {verdict}, error {error:.1e} of the absolute sums")
    calls = {"mugraph": [partial(kernel, *one) for one in sets], **peers_of(case, sets)}
    ours = 0.0
    for name, each in calls.items():
        repeated = [each[index % len(each)] for index in range(CALLS)]
        try:
            taken = microseconds(repeated)
        except (RuntimeError, ValueError) as problem:
            print(f"  {name}: {str(problem).splitlines()[0]}")
            continue
        ours = ours or taken
        rate = "" if "copy" in name else f", {flop / taken / 1e6:.0f} TFLOP/s"
        print(f"  {name}: {taken:.1f} us{rate}, {taken / ours:.2f} of mugraph's")


def main() -> None:
    """Compiles in parallel, then runs one case after another."""
    options = case_options(__doc__, jobs=8)
    cases = [case for case in CASES if options.only in case.name]
    warm_all(warm, cases, options.jobs, "kernels")
    if not options.compile:
        for case in cases:
            run(case)


if __name__ == "__main__":
    main()
