"""Named extents on one GPU: a compilation for all sizes beside one for each size alone.

    python -m benchmarks.extents --count 100 --alone 12 --output benchmarks/results/extents_h200

*mugraph* is one compilation for all sizes, *static* one for that size alone, of the first sizes.
Sizes are drawn, small ones as often as large ones.  Attention of a step of generation reads how
many keys count from device memory; a call says the batch, and what the keys are at most, which is
their number here.  What lies behind the keys is NaN where results are checked.
"""

from __future__ import annotations

import itertools
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import mugraph.build as mi
from benchmarks.cases import (
    OURS,
    Built,
    Call,
    Case,
    Comparison,
    compiled,
    error_against,
    parser,
    run,
)
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED
from benchmarks.h200.statistics import set_count
from mugraph.build import DTensor, Extent, KernelGraph

TOLERANCE = 2e-3
"""The largest norm of an error by the norm of the result: a few roundings of f16."""
MOST_BUCKETS = 5
"""Of a program; an estimate chooses where they end."""
POOL_BYTES = 24 << 30
"""Of the caches that calls go round: room for all keys, however few count."""


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
    """None where that is not timed."""
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
    def sets(self, size: Size, *, alone: bool) -> Sets:
        """Random arguments of calls; ``alone``: also of the kernel of one size."""

    def taken(self, arguments: Sequence[Any], size: Size) -> Sequence[Any]:
        """What a call of the program of all sizes gets of its arguments."""
        return arguments

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
    buckets: tuple[int, ...] | int = MOST_BUCKETS

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

    def sets(self, size: Size, *, alone: bool) -> Sets:
        """Out of the cache together."""
        import torch

        generator = torch.Generator(DEVICE).manual_seed(SEED + size.rows)
        matrix = self.width * self.hidden
        count = set_count(2 * (self.weights * matrix + size.rows * (self.width + self.hidden)))
        shape = (count, size.rows, self.width)
        rows = torch.randn(shape, generator=generator, device=DEVICE).half()
        sets = [(x, *own) for x, own in zip(rows, layer_weights(self), strict=False)]
        expected = self.reference(*(each.double() for each in sets[0]))
        return Sets(sets, sets if alone else [], expected)


@cache
def layer_weights(layer: Layer) -> list[list[Any]]:
    """The weights of a layer, as many times as calls of one row go round them."""
    import torch

    shape = (layer.width, layer.hidden)
    count = set_count(2 * layer.weights * math.prod(shape))
    return [
        [
            (torch.randn(shape, device=DEVICE) * layer.width**-0.5).half()
            for _ in range(layer.weights)
        ]
        for _ in range(count)
    ]


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
    buckets: tuple[int, ...] | int = MOST_BUCKETS
    key_buckets: tuple[int, ...] | int = MOST_BUCKETS

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
        keys = Extent("n", largest=self.largest, held=length, buckets=self.key_buckets)
        self._attend(graph, q, batch, keys)
        return graph

    def taken(self, arguments: Sequence[Any], size: Size) -> Sequence[Any]:
        """The keys that a bound leaves of each cache."""
        q, length, *caches = arguments
        return [q, length, *(x[:, :, : size.keys] for x in caches)]

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

    def sets(self, size: Size, *, alone: bool) -> Sets:
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
        counted_keys = [(q, *(x[:, :, : size.keys] for x in (k, v))) for q, _, k, v in named]
        expected = torch.stack([*map(self.reference, *counted_keys[0])])
        static = [tuple(x.contiguous() for x in own) for own in counted_keys] if alone else []
        return Sets(named, static, expected)

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
    Layer("gated_mlp", 2048, 8192, 2, _gated, _gated_reference),
)


@cache
def of_all_sizes(program: Program, arch: str) -> Built:
    """The kernel that is compiled once."""
    return compiled(program.named(), arch)


@dataclass(frozen=True)
class OneSize(Case):
    """A program at one size."""

    program: Program
    size: Size
    alone: bool = True
    """Whether it is compiled for that size alone, too."""

    @property
    def name(self) -> str:
        """The program and the size."""
        return f"{self.program.name}, {self.size}"

    @property
    def group(self) -> str:
        """The program."""
        return self.program.name

    def build(self, arch: str) -> tuple[Built, Built | None]:
        """The kernel of all sizes, and that of one."""
        static = compiled(self.program.static(self.size), arch) if self.alone else None
        return of_all_sizes(self.program, arch), static

    def comparison(self, built: tuple[Built, Built | None]) -> Comparison:
        """One beside the other, each on arguments of its own."""
        of_all, of_one = built
        named, program, size = of_all.kernel(), self.program, self.size
        sets = program.sets(size, alone=self.alone)

        def call_named(own: Sequence[Any], _: object) -> Any:
            return named(*program.taken(own, size))

        systems: dict[str, Call] = {OURS: call_named}
        if of_one is not None:
            static = of_one.kernel()

            def call_static(_: object, own: Sequence[Any]) -> Any:
                return static(*own)

            systems["static"] = call_static
        return Comparison(
            list(itertools.zip_longest(sets.named, sets.static)),
            systems,
            error_against(sets.expected),
            TOLERANCE,
            while_checked=poisoned(sets.named[0], size),
        )


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


def drawn_cases(count: int, seed: int, alone: int) -> list[Case]:
    """Sizes of all programs in turn, of which the first are compiled alone, too."""
    sizes = [program.sizes(count, random.Random(seed)) for program in PROGRAMS]
    return [
        OneSize(program, size, number < alone)
        for number, turn in enumerate(zip(*sizes, strict=True))
        for program, size in zip(PROGRAMS, turn, strict=True)
    ]


def main() -> int:
    """The command."""
    found = parser(__doc__, output="build/extents")
    found.add_argument("--count", type=int, default=100, help="sizes of each program")
    found.add_argument("--alone", type=int, help="of which so many are compiled alone (all)")
    found.add_argument("--seed", type=int, default=1)
    options = found.parse_args()
    alone = options.count if options.alone is None else options.alone
    return run("Named extents", drawn_cases(options.count, options.seed, alone), options)


if __name__ == "__main__":
    raise SystemExit(main())
