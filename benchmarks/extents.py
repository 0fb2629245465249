"""Named extents on one GPU: a compilation for all sizes beside one for each size alone.

    python -m benchmarks.extents run --count 100 --output benchmarks/results/extents_h200

Sizes are drawn, small ones as often as large ones.  Each is checked against float64 and timed.
Attention of a step of generation reads how many keys count from device memory, the batch is said by
the call; what lies behind the keys is NaN where results are checked.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import mugraph.build as mi
from benchmarks import pages
from benchmarks.compiled import Built, Submit, processes
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.checking import judge
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED, settle
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared
from mugraph.build import DTensor, Extent, KernelGraph

TOLERANCE = 2e-3
"""The largest norm of an error by the norm of the result: a few roundings of f16."""
POOL_BYTES = 24 << 30
"""Of the caches that calls go round: room for all keys, however few count."""
MICROSECONDS_A_ROUND = 20_000.0


class Size(NamedTuple):
    """What a call has: rows of a layer, or sequences, and the keys of each."""

    rows: int
    keys: int = 0

    def __str__(self) -> str:
        return f"{self.rows} x {self.keys} keys" if self.keys else f"{self.rows} rows"


class Sets(NamedTuple):
    """The arguments of calls, which go round, of the kernel of all sizes and of that of one."""

    named: list[tuple[Any, ...]]
    static: list[tuple[Any, ...]]
    expected: Any
    """The result of the first set in float64."""


class Program(ABC):
    """A function of tensors some of whose extents vary."""

    name: str

    @abstractmethod
    def drawn(self, chance: random.Random) -> Size:
        """A random size, small ones as often as large ones."""

    @abstractmethod
    def ends(self) -> list[Size]:
        """The smallest size, and the largest."""

    @abstractmethod
    def named(self) -> KernelGraph:
        """The program of all sizes."""

    @abstractmethod
    def static(self, size: Size) -> KernelGraph:
        """The program of one."""

    @abstractmethod
    def sets(self, size: Size) -> Sets:
        """Random arguments of calls."""

    def sizes(self, count: int, chance: random.Random) -> list[Size]:
        """Both ends, and others in random order."""
        found = dict.fromkeys(self.ends())
        while len(found) < count:
            found[self.drawn(chance)] = None
        return [*found]


def logarithmic(chance: random.Random, largest: int) -> int:
    """A number from 1 on, of any magnitude alike."""
    return round(math.exp(chance.uniform(0, math.log(largest))))


@dataclass(frozen=True)
class Layer(Program):
    """A function of rows and of weights, at a width and a hidden size."""

    name: str
    width: int
    hidden: int
    weights: int
    function: Callable[..., DTensor]
    reference: Callable[..., Any]
    largest: int = 8192
    buckets: tuple[int, ...] = (16, 64, 128)

    def drawn(self, chance: random.Random) -> Size:
        """Any magnitude alike."""
        return Size(logarithmic(chance, self.largest))

    def ends(self) -> list[Size]:
        """The smallest, the largest."""
        return [Size(1), Size(self.largest)]

    def named(self) -> KernelGraph:
        """One for all."""
        return self.graph(Extent("m", largest=self.largest, buckets=self.buckets))

    def static(self, size: Size) -> KernelGraph:
        """One for a size."""
        return self.graph(size.rows)

    def graph(self, rows: int | Extent) -> KernelGraph:
        """The program of so many rows."""
        graph = mi.new_kernel_graph(self.name)
        x = graph.new_input((rows, self.width), name="x")
        shape = (self.width, self.hidden)
        weights = [graph.new_input(shape, constant=True) for _ in range(self.weights)]
        graph.mark_output(self.function(x, *weights))
        return graph

    def sets(self, size: Size) -> Sets:
        """Out of the cache together."""
        import torch

        generator = torch.Generator(DEVICE).manual_seed(SEED + size.rows)

        def drawn(*shape: int) -> Any:
            return torch.randn(shape, generator=generator, device=DEVICE)

        matrix = self.width * self.hidden
        count = set_count(2 * (self.weights * matrix + size.rows * (self.width + self.hidden)))
        sets = [
            (
                drawn(size.rows, self.width).half(),
                *(
                    (drawn(self.width, self.hidden) * self.width**-0.5).half()
                    for _ in range(self.weights)
                ),
            )
            for _ in range(count)
        ]
        return Sets(sets, sets, self.reference(*(each.double() for each in sets[0])))


def _norm_linear(x: Any, w: Any) -> Any:
    return mi.rms_norm(x, eps=1e-5) @ w


def _norm_linear_reference(x: Any, w: Any) -> Any:
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() @ w


def _gated(x: Any, gate: Any, up: Any) -> Any:
    return mi.silu(x @ gate) * (x @ up)


def _gated_reference(x: Any, gate: Any, up: Any) -> Any:
    import torch

    return torch.nn.functional.silu(x @ gate) * (x @ up)


@dataclass(frozen=True)
class Decode(Program):
    """Attention of one token a sequence; ``group`` heads share keys and values."""

    name: str = "decode"
    heads: int = 8
    group: int = 4
    width: int = 128
    largest: int = 32768
    sequences: int = 64
    buckets: tuple[int, ...] = (1, 2, 4, 16)

    def drawn(self, chance: random.Random) -> Size:
        """Any magnitude alike."""
        return Size(logarithmic(chance, self.sequences), logarithmic(chance, self.largest))

    def ends(self) -> list[Size]:
        """The smallest, the largest."""
        return [Size(1, 1), Size(self.sequences, self.largest)]

    def named(self) -> KernelGraph:
        """One for all."""
        graph = mi.new_kernel_graph(self.name)
        batch = Extent("b", largest=self.sequences, buckets=self.buckets)
        q = graph.new_input((batch, self.heads, self.group, self.width), name="q")
        length = graph.new_input((1,), dtype=mi.int32, name="length")
        self._attend(graph, q, batch, Extent("n", largest=self.largest, held=length))
        return graph

    def static(self, size: Size) -> KernelGraph:
        """One for a size."""
        graph = mi.new_kernel_graph(self.name)
        q = graph.new_input((size.rows, self.heads, self.group, self.width), name="q")
        self._attend(graph, q, size.rows, size.keys)
        return graph

    def _attend(self, graph: KernelGraph, q: DTensor, batch: int, keys: int) -> None:
        shape = (batch, self.heads, keys, self.width)
        k, v = (graph.new_input(shape, name=name) for name in "kv")
        scores = graph.matmul(q, graph.transpose(k, [0, 1, 3, 2]), dtype=mi.float32)
        weights = mi.softmax(scores * self.width**-0.5, 3)
        graph.mark_output(mi.cast(weights, mi.float16) @ v)

    def sets(self, size: Size) -> Sets:
        """Out of the cache together."""
        import torch

        room = 2 * size.rows * self.heads * self.largest * self.width
        counted = 4 * size.rows * self.heads * size.keys * self.width
        count = min(set_count(counted), POOL_BYTES // (2 * room))
        pool, length = random_numbers(), torch.tensor([size.keys], device=DEVICE).int()
        caches = pool[: count * room].view(
            count, 2, size.rows, self.heads, self.largest, self.width
        )
        shape = (count, size.rows, self.heads, self.group, self.width)
        queries = torch.randn(shape, device=DEVICE).half()
        named = [(q, length, *cache) for q, cache in zip(queries, caches, strict=True)]
        static = [(q, *(x[:, :, : size.keys].contiguous() for x in (k, v))) for q, _, k, v in named]
        return Sets(named, static, torch.stack([*map(self.reference, *static[0])]))

    def reference(self, q: Any, k: Any, v: Any) -> Any:
        """The result of one sequence in float64."""
        q, k, v = q.double(), k.double(), v.double()
        return (q @ k.mT * self.width**-0.5).softmax(-1) @ v


_POOL: list[Any] = []


def random_numbers() -> Any:
    """All of the caches' numbers, drawn once."""
    import torch

    if not _POOL:
        whole = torch.empty(POOL_BYTES // 2, dtype=torch.float16, device=DEVICE)
        for part in whole.split(1 << 28):
            part.normal_()
        _POOL.append(whole)
    return _POOL[0]


PROGRAMS: tuple[Program, ...] = (
    Decode(),
    Layer("norm_linear", 4096, 4096, 1, _norm_linear, _norm_linear_reference),
    Layer("gated_mlp", 2048, 8192, 2, _gated, _gated_reference, buckets=(16, 64, 128, 256)),
)


@dataclass
class Result:
    """One program at one size: microseconds a call by both kernels, and the error."""

    program: str
    size: str
    named: float | None
    static: float | None
    status: str

    @property
    def ratio(self) -> float | None:
        """How much longer the kernel of all sizes takes."""
        if self.named is None or self.static is None:
            return None
        return self.named / self.static


def measured(
    program: Program, size: Size, kernels: Sequence[Callable[..., Any]], sets: Sets
) -> Result:
    """Checks both kernels at a size, and times them if they are right."""
    import torch

    for name, kernel, arguments in zip(("named", "static"), kernels, sets[:2], strict=True):
        with poisoned(arguments[0], size):
            verdict = judge(torch, kernel(*arguments[0]), sets.expected, TOLERANCE)
        if not verdict.right:
            return Result(program.name, str(size), None, None, f"{name} is {verdict.status}")
    graphs = [
        prepared(lambda at, run=run, own=own: run(*own[at]), len(own))
        for run, own in zip(kernels, sets[:2], strict=True)
    ]
    times = interleaved(graphs, lambda _: None, MICROSECONDS_A_ROUND)
    return Result(program.name, str(size), *(each.median for each in times), "right")


class poisoned:  # noqa: N801 - a context manager
    """NaN behind the keys that count, until the end."""

    def __init__(self, arguments: Sequence[Any], size: Size) -> None:
        caches = arguments[2:] if size.keys and len(arguments) > 3 else ()
        self.tails = [x[:, :, size.keys :] for x in caches]

    def __enter__(self) -> None:
        for tail in self.tails:
            tail.fill_(math.nan)

    def __exit__(self, *_: object) -> None:
        for tail in self.tails:
            tail.normal_()


Task = tuple[Program, Size, Future[Built], Future[Built]]


def tasks_of(count: int, seed: int, submit: Submit) -> Iterator[Task]:
    """What is compiled and measured: sizes of all programs in turn."""
    whole = [submit(program.named(), None) for program in PROGRAMS]
    sizes = [program.sizes(count, random.Random(seed)) for program in PROGRAMS]
    turns = list(itertools.chain(*zip(*sizes, strict=True)))
    for place, size in enumerate(turns):
        number = place % len(PROGRAMS)
        program = PROGRAMS[number]
        yield program, size, whole[number], submit(program.static(size), None)


def run(arch: str, count: int, seed: int, limit: float, output: Path) -> list[Result]:
    """Checks and times all programs; writes OUTPUT.json and OUTPUT.md after each size."""
    import torch

    facts, start = facts_of_this_run(arch), time.perf_counter()
    settle()
    results: list[Result] = []
    loaded: dict[Program, Any] = {}
    with processes(arch) as submit:
        for program, size, whole, alone in list(tasks_of(count, seed, submit)):
            if time.perf_counter() - start > limit:
                print(f"time is up after {len(results)} sizes", flush=True)
                break
            if program not in loaded:
                loaded[program] = whole.result().kernel()
            kernels = loaded[program], alone.result().kernel()
            result = measured(program, size, kernels, program.sets(size))
            torch.cuda.empty_cache()
            print(*cells(result), flush=True)
            results.append(result)
            content = {"facts": facts, "results": [asdict(each) for each in results]}
            pages.write(output, content, page(results, facts))
    print(*summary(results), sep="\n", flush=True)
    return results


COLUMNS = ("program", "size", "named:", "static:", "named / static:", "result")


def summary(results: Sequence[Result]) -> Iterator[str]:
    """Of each program the median, the 95th percentile and the largest of the ratios."""
    for program in PROGRAMS:
        ratios = sorted(r.ratio for r in results if r.program == program.name and r.ratio)
        if ratios:
            at = [ratios[int(share * (len(ratios) - 1))] for share in (0.5, 0.95, 1.0)]
            median, high, worst = (f"{each:.2f}" for each in at)
            yield (
                f"{program.name}: {len(ratios)} sizes, median {median}, 95th percentile {high}, "
                f"worst {worst}"
            )


def page(results: Sequence[Result], facts: dict[str, str]) -> list[str]:
    """The table of a run."""
    return [
        *pages.head(f"Named extents on {facts['gpu']}", facts),
        "µs a call in f16, out of the cache. *Named* is one compilation for all sizes, *static*",
        "one for that size alone.",
        "",
        *(f"- {line}" for line in summary(results)),
        "",
        *pages.table(COLUMNS, map(cells, results)),
    ]


def cells(result: Result) -> list[object]:
    """A line of the table."""
    times = (result.named, result.static)
    return [
        result.program,
        result.size,
        *(None if each is None else f"{each:.1f}" for each in times),
        None if result.ratio is None else f"{result.ratio:.2f}",
        result.status,
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extents", description="named extents beside static ones"
    )
    parser.add_argument("command", choices=("run",))
    parser.add_argument("--arch", default="sm_90a", help="the architecture to compile for")
    parser.add_argument("--count", type=int, default=100, help="sizes of each program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=math.inf, help="seconds")
    parser.add_argument("--output", type=Path, default=Path("build/extents"))
    arguments = parser.parse_args()
    run(arguments.arch, arguments.count, arguments.seed, arguments.limit, arguments.output)


if __name__ == "__main__":
    main()
