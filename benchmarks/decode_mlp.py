"""The gated MLP of a decode step, layer after layer in a CUDA graph, by several plans.

``python -m benchmarks.decode_mlp`` compiles both kernels of the MLP of Llama-3.2-1B (one row, bf16)
by each plan below, checks them against float64, and times a chain of 16 layers with weights of
their own: both products, and each alone.  Beside the times stand bytes of weights a second, and
those of a copy that moves as many bytes.  It takes about two minutes, nvcc included.

``--program FILE.mlir`` instead times a program, such as a fused decode step, whose kernels all let
the next one begin at the same place: drawn inputs, integers 0, nothing checked.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from xdsl.utils.exceptions import DiagnosticException

import mugraph
import mugraph.build as mi
from mugraph.dialects.plan import Plan
from mugraph.errors import UserError
from mugraph.jit.arguments import ELEMENT_TYPES
from mugraph.jit.kernel import as_sequence

ARCH = "sm_90a"
REPLAYS = 8
"""Of a graph that is timed; the median counts."""
LAYERS, WIDTH, HIDDEN = 16, 2048, 8192
EPSILON = 1e-5
TOLERANCE = 2e-2
"""Of the largest result: sums in f32, rounded to bf16 once a kernel."""

PLACES = (None, "end", "late", "early")
"""Where kernels of a program let the next one begin: as planned, or in one place."""

Call = Callable[[], Any]


@dataclass(frozen=True)
class Variant:
    """A plan of the kernels, and whether the first one divides by a norm of what it reads."""

    name: str
    plan: Plan
    has_norm: bool = True


LATE = Plan(pdl="late")
VARIANTS = [
    Variant("as planned", Plan()),
    Variant("next begins late", LATE),
    Variant("next begins early", Plan(pdl="early")),
    Variant("late, 4 warps multiply", replace(LATE, block=(128,))),
    Variant("late, 8 warps multiply", replace(LATE, block=(256,))),
    Variant("late, 32 columns a block", replace(LATE, tile=(1, 32), block=(128,))),
    Variant("late, cp.async, 8 warps", replace(LATE, loads="cp_async", block=(256,))),
    Variant("late, no norm", LATE, has_norm=False),
    Variant("late, no norm, 4 warps multiply", replace(LATE, block=(128,)), has_norm=False),
]


def gate_up(*, has_norm: bool) -> mi.KernelGraph:
    """``silu(n @ gate^T) * (n @ up^T)``, where n is x (1, width) or its norm.

    Weights are [out, in].
    """
    graph = mi.new_kernel_graph("gate_up")
    x = graph.new_input((1, WIDTH), dtype=mi.bfloat16)
    scale = graph.new_input((1, WIDTH), dtype=mi.bfloat16, constant=True) if has_norm else None
    gate, up = (
        graph.new_input((HIDDEN, WIDTH), dtype=mi.bfloat16, constant=True) for _ in range(2)
    )
    if scale is not None:
        wide = mi.cast(x, mi.float32)
        mean = mi.mean(mi.square(wide), 1)
        x = scale * mi.cast(wide * mi.rsqrt(mean + EPSILON), mi.bfloat16)
    gated = graph.matmul(x, mi.transpose(gate))
    graph.mark_output(mi.silu(gated) * graph.matmul(x, mi.transpose(up)))
    return graph


def down() -> mi.KernelGraph:
    """``x + h @ down^T`` of h (1, hidden)."""
    graph = mi.new_kernel_graph("down")
    h = graph.new_input((1, HIDDEN), dtype=mi.bfloat16)
    weight = graph.new_input((WIDTH, HIDDEN), dtype=mi.bfloat16, constant=True)
    x = graph.new_input((1, WIDTH), dtype=mi.bfloat16)
    graph.mark_output(x + graph.matmul(h, mi.transpose(weight)))
    return graph


@cache
def compiled(variant: Variant) -> tuple[Any, Any]:
    """Both kernels of a variant."""
    return (
        mugraph.compile(gate_up(has_norm=variant.has_norm), ARCH, plan=variant.plan),
        mugraph.compile(down(), ARCH, plan=variant.plan),
    )


def of_program(path: Path, pdl: Any) -> Any:
    """A program all of whose kernels let the next one begin at one place."""
    return mugraph.compile(path, ARCH, plan=Plan(pdl=pdl), fuse=False)


def attempt(make: Callable[[], Any]) -> str | None:
    """Compiles into the cache; returns why a plan cannot be."""
    try:
        make()
    except (UserError, DiagnosticException) as error:
        return str(error).splitlines()[0]
    return None


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


def compile_all(makers: Sequence[Callable[[], Any]], jobs: int) -> list[str | None]:
    """Compiles in processes, into the cache; why each cannot be, where it cannot."""
    start = time.perf_counter()
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        problems = list(pool.map(attempt, makers))
    taken = time.perf_counter() - start
    print(f"{problems.count(None)} of {len(makers)} compiled in {taken:.0f} s", flush=True)
    return problems


@dataclass(frozen=True)
class Layer:
    """The tensors of a layer: a scale, gate, up and down weights, h and the layer's result."""

    scale: Any
    gate: Any
    up: Any
    down: Any
    h: Any
    y: Any


def new_layer(seed: int) -> Layer:
    """Weights that keep the sizes of what they multiply, and results of NaN."""
    torch: Any = import_module("torch")

    random = torch.Generator("cuda").manual_seed(seed)

    def drawn(*shape: int, over: float = 1.0) -> Any:
        numbers = torch.randn(shape, generator=random, device="cuda")
        return (numbers / over).to(torch.bfloat16)

    def poison(columns: int) -> Any:
        return torch.full((1, columns), float("nan"), device="cuda", dtype=torch.bfloat16)

    return Layer(
        scale=drawn(1, WIDTH).abs(),
        gate=drawn(HIDDEN, WIDTH, over=WIDTH**0.5),
        up=drawn(HIDDEN, WIDTH, over=WIDTH**0.5),
        down=drawn(WIDTH, HIDDEN, over=4 * HIDDEN**0.5),
        h=poison(HIDDEN),
        y=poison(WIDTH),
    )


def error_of(x: Any, layer: Layer, *, has_norm: bool) -> float:
    """The largest error of a layer's results against float64, in parts of the largest result."""
    torch: Any = import_module("torch")

    wide = normed = x.to(torch.float64)
    if has_norm:
        normed = wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + EPSILON)
        normed = normed * layer.scale.to(torch.float64)
    gated = torch.nn.functional.silu(normed @ layer.gate.to(torch.float64).T)
    h = gated * (normed @ layer.up.to(torch.float64).T)
    # What the second kernel read is what the first one rounded.
    y = wide + layer.h.to(torch.float64) @ layer.down.to(torch.float64).T
    pairs = ((layer.h, h), (layer.y, y))
    return max(
        ((mine.to(torch.float64) - exact).abs().max() / exact.abs().max()).item()
        for mine, exact in pairs
    )


def calls_of(variant: Variant, x: Any, layers: list[Layer]) -> dict[str, list[Call]]:
    """The calls of both products, and of each alone, one layer after another."""
    wide, narrow = compiled(variant)
    first: list[Call] = []
    second: list[Call] = []
    for layer in layers:
        scale = (layer.scale,) if variant.has_norm else ()
        first.append(partial(wide, x, *scale, layer.gate, layer.up, out=layer.h))
        second.append(partial(narrow, layer.h, layer.down, x, out=layer.y))
        x = layer.y
    both = [call for pair in zip(first, second, strict=True) for call in pair]
    return {"gate and up": first, "down": second, "both": both}


def run() -> None:
    """Checks and times all variants."""
    torch: Any = import_module("torch")

    layers = [new_layer(seed) for seed in range(LAYERS)]
    x = torch.randn(1, WIDTH, device="cuda").to(torch.bfloat16)
    weights = {"gate and up": 4 * WIDTH * HIDDEN, "down": 2 * WIDTH * HIDDEN}
    weights["both"] = sum(weights.values())
    halves = [layer.gate.view(torch.uint8).flatten().chunk(2) for layer in layers]
    copies = [partial(torch.empty_like(half[1]).copy_, half[0]) for half in halves]
    taken = microseconds(copies)
    moved = 2 * WIDTH * HIDDEN
    card = torch.cuda.get_device_name()
    print(f"{card}: a copy of {moved >> 20} MiB, {moved / taken / 1e6:.2f} TB/s")
    for each in VARIANTS:
        why = attempt(partial(compiled, each))
        if why is not None:
            print(f"{each.name}: {why}")
            continue
        calls = calls_of(each, x, layers)
        for call in calls["both"][:2]:
            call()
        error = error_of(x, layers[0], has_norm=each.has_norm)
        verdict = "right" if error <= TOLERANCE else "WRONG"
        columns: list[str] = []
        for name, size in weights.items():
            per_layer = microseconds(calls[name]) * len(calls[name]) / LAYERS
            columns.append(f"{name} {per_layer:.2f} us {size / per_layer / 1e6:.2f} TB/s")
        print(f"{each.name}: {'; '.join(columns)}; {verdict}, error {error:.1e}", flush=True)


def run_program(path: Path) -> None:
    """Times a program by where its kernels let the next one begin."""
    torch: Any = import_module("torch")

    for pdl in PLACES:
        kernel = of_program(path, pdl)
        given = [drawn_like(torch, tensor) for tensor in kernel.interface.inputs]
        results = as_sequence(kernel(*given), len(kernel.interface.outputs))
        # As a model's call does it: caches are written where they lie.
        for output, place in kernel.interface.in_place.items():
            results[output] = given[place]
        taken = microseconds([partial(kernel, *given, out=results)])
        print(f"{path.name}, next begins {pdl or 'as planned'}: {taken:.1f} us", flush=True)


def drawn_like(torch: Any, tensor: Any) -> Any:
    """An argument of a program: small random numbers, or integers 0."""
    dtype = getattr(torch, ELEMENT_TYPES[tensor.element_type])
    empty = torch.empty_strided(tensor.shape, tensor.strides, dtype=dtype, device="cuda")
    return empty.normal_(std=0.02) if dtype.is_floating_point else empty.zero_()


def main() -> None:
    """Compiles in parallel, then checks and times."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--program", type=Path, help="times this program instead")
    parser.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    if options.program is not None:
        makers: list[Callable[[], Any]] = [
            partial(of_program, options.program, pdl) for pdl in PLACES
        ]
    else:
        makers = [partial(compiled, each) for each in VARIANTS]
    problems = compile_all(makers, options.jobs)
    if options.compile:
        print("\n".join(why for why in problems if why is not None))
    elif options.program is not None:
        run_program(options.program)
    else:
        run()


if __name__ == "__main__":
    main()
