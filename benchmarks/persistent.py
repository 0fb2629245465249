"""A program as launches and as one persistent kernel, in the same process.

``python -m benchmarks.persistent`` compiles a chain of gated MLPs of Llama-3.2-1B (one row, bf16)
by each pair of plans below, both ways.  It compares the results with those of float64, and those of
the two ways with each other, bit by bit, in outputs that were NaN; then it times calls in a CUDA
graph.  It takes about a minute, nvcc included.

``--program FILE.mlir`` instead takes a program, such as a fused decode step: drawn inputs, integers
0, all ways compared with each other, those included in which all kernels let the next one begin at
one place.  ``--check`` runs everything once and times nothing, for compute-sanitizer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import DiagnosticException

import mugraph
import mugraph.build as mi
from benchmarks.h200.timing import interleaved, prepared
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import shape_of
from mugraph.errors import UserError
from mugraph.jit.arguments import ELEMENT_TYPES
from mugraph.jit.kernel import as_sequence
from mugraph.passes.compile import before_planning
from mugraph.reading import make_context

ARCH = "sm_90a"
WIDTH, HIDDEN = 2048, 8192
EPSILON = 1e-5
TOLERANCE = 2e-2
"""Of the largest result: sums in f32, rounded to bf16 once a kernel."""
PARTS = Plan(pdl="late", tile=(1, 32), block=(128,), loop_tile=128)
PLANS = {
    "as planned": (Plan(), Plan()),
    "32 columns a block": (PARTS, replace(PARTS, split_k=4)),
    "16 columns a block": (
        Plan(pdl="late", tile=(1, 16), block=(64,)),
        Plan(pdl="late", tile=(1, 32), block=(64,), split_k=8),
    ),
}
"""Plans of the kernel of gate and up, and of the one of down."""
WAYS = {"launches": Plan(), "persistent": Plan(tasks=True, preferred=("tasks",))}
PLACES = {f"next begins {place}": Plan(pdl=place) for place in ("end", "late", "early")}
"""Further ways of a program: all its kernels let the next one begin at one place."""
OF_PROGRAMS = {**WAYS, **PLACES}


def chain(layers: int) -> mi.KernelGraph:
    """``x + down(silu(gate(norm(x))) * up(norm(x)))``, layer after layer; weights are [out, in]."""
    graph = mi.new_kernel_graph("chain")
    x = graph.new_input((1, WIDTH), dtype=mi.bfloat16)
    for _ in range(layers):
        shapes = ((1, WIDTH), (HIDDEN, WIDTH), (HIDDEN, WIDTH), (WIDTH, HIDDEN))
        scale, gate, up, down = (
            graph.new_input(shape, dtype=mi.bfloat16, constant=True) for shape in shapes
        )
        wide = mi.cast(x, mi.float32)
        mean = mi.mean(mi.square(wide), 1)
        n = scale * mi.cast(wide * mi.rsqrt(mean + EPSILON), mi.bfloat16)
        h = mi.silu(graph.matmul(n, mi.transpose(gate))) * graph.matmul(n, mi.transpose(up))
        x = x + graph.matmul(h, mi.transpose(down))
    graph.mark_output(x)
    return graph


@cache
def compiled(plan: str, way: str, layers: int) -> Any:
    """The chain by plans of its kernels."""
    module, context = chain(layers).module(), make_context()
    PassPipeline(before_planning(ARCH)).apply(context, module)
    wide, narrow = PLANS[plan]
    for kernel in module.walk():
        if isinstance(kernel, CustomizedOp):
            is_wide = shape_of(kernel.results[0].type)[-1] == HIDDEN
            kernel.decided = (wide if is_wide else narrow).over(kernel.decided)
    return mugraph.compile(module, ARCH, plan=WAYS[way], fuse=False)


@cache
def of_program(path: Path, way: str) -> Any:
    """A program as it is planned."""
    return mugraph.compile(path, ARCH, plan=OF_PROGRAMS[way], fuse=False)


def attempt(make: Callable[[], Any]) -> str | None:
    """Compiles into the cache; returns why a plan cannot be."""
    try:
        make()
    except (UserError, DiagnosticException) as error:
        return str(error).splitlines()[0]
    return None


def microseconds(call: Callable[[], Any]) -> float:
    """The time of a call, as in ``benchmarks.h200.timing``."""
    return interleaved([prepared(lambda _: call(), 1)], lambda _: None)[0].median


def new_weights(layers: int) -> list[Any]:
    """Weights that keep the sizes of what they multiply."""
    torch: Any = import_module("torch")

    random = torch.Generator("cuda").manual_seed(0)

    def drawn(*shape: int, over: float = 1.0) -> Any:
        numbers = torch.randn(shape, generator=random, device="cuda")
        return (numbers / over).to(torch.bfloat16)

    weights: list[Any] = []
    for _ in range(layers):
        weights += [drawn(1, WIDTH).abs(), *(drawn(HIDDEN, WIDTH, over=45.0) for _ in range(2))]
        weights.append(drawn(WIDTH, HIDDEN, over=4 * HIDDEN**0.5))
    return weights


def exact(x: Any, weights: Sequence[Any]) -> Any:
    """The chain in float64."""
    torch: Any = import_module("torch")

    y = x.to(torch.float64)
    for at in range(0, len(weights), 4):
        scale, gate, up, down = (each.to(torch.float64) for each in weights[at : at + 4])
        n = y * torch.rsqrt(y.square().mean(1, keepdim=True) + EPSILON) * scale
        y = y + (torch.nn.functional.silu(n @ gate.T) * (n @ up.T)) @ down.T
    return y


def run(layers: int, *, times: bool) -> None:
    """Checks and times the chain."""
    torch: Any = import_module("torch")

    weights = new_weights(layers)
    x = torch.randn(1, WIDTH, device="cuda").to(torch.bfloat16)
    wanted = exact(x, weights)
    size = 2 * sum(each.numel() for each in weights)
    print(f"{torch.cuda.get_device_name()}: {layers} MLPs, {size >> 20} MiB of weights")
    for plan in PLANS:
        results: list[Any] = []
        columns: list[str] = []
        for way in WAYS:
            why = attempt(partial(compiled, plan, way, layers))
            if why is not None:
                print(f"{plan}, {way}: {why}")
                continue
            y = torch.full((1, WIDTH), float("nan"), device="cuda", dtype=torch.bfloat16)
            call = partial(compiled(plan, way, layers), x, *weights, out=y)
            for _ in range(3):
                call()
            torch.cuda.synchronize()
            results.append(y.clone())
            error = ((y.to(torch.float64) - wanted).abs().max() / wanted.abs().max()).item()
            verdict = "right" if error <= TOLERANCE else "WRONG"
            taken = f"{microseconds(call):.1f} us" if times else "ran"
            columns.append(f"{way} {taken} ({verdict}, error {error:.1e})")
        same = all(torch.equal(results[0], each) for each in results)
        print(f"{plan}: {'; '.join(columns)}; {'same bits' if same else 'OTHER BITS'}", flush=True)


def run_program(path: Path, *, times: bool) -> None:
    """Compares and times a program."""
    torch: Any = import_module("torch")

    outputs: list[list[Any]] = []
    for way in OF_PROGRAMS:
        torch.manual_seed(0)
        kernel = of_program(path, way)
        given = [drawn_like(torch, tensor) for tensor in kernel.interface.inputs]
        results = as_sequence(kernel(*given), len(kernel.interface.outputs))
        # As a model's call does it: caches are written where they lie.
        for output, place in kernel.interface.in_place.items():
            results[output] = given[place]
        call = partial(kernel, *given, out=results)
        call()
        torch.cuda.synchronize()
        outputs.append([each.clone() for each in results])
        taken = f"{microseconds(call):.1f} us" if times else "ran"
        print(f"{path.name}, {way}: {taken}", flush=True)
    same = all(all(map(torch.equal, outputs[0], each)) for each in outputs)
    print("same bits" if same else "OTHER BITS")


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
    parser.add_argument("--program", type=Path, help="this program instead")
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--check", action="store_true", help="time nothing")
    parser.add_argument("--compile", action="store_true", help="compile only, without a GPU")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    if options.program is not None:
        makers: list[Callable[[], Any]] = [
            partial(of_program, options.program, way) for way in OF_PROGRAMS
        ]
    else:
        makers = [partial(compiled, plan, way, options.layers) for plan in PLANS for way in WAYS]
    start = time.perf_counter()
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        problems = list(pool.map(attempt, makers))
    taken = time.perf_counter() - start
    print(f"{problems.count(None)} of {len(makers)} compiled in {taken:.0f} s", flush=True)
    if options.compile:
        print("\n".join(why for why in problems if why is not None))
    elif options.program is not None:
        run_program(options.program, times=not options.check)
    else:
        run(options.layers, times=not options.check)


if __name__ == "__main__":
    main()
