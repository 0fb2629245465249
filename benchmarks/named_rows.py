"""Rows that memory names, on one GPU: pages of a cache, and the matrices of experts.

    python -m benchmarks.named_rows --output benchmarks/results/named_rows

Attention of a step of generation over pages in random order is timed beside the same over a
contiguous cache, SDPA on copies that are gathered first, and FlashInfer where it can be imported;
products of rows in groups of random sizes, one of them empty, beside one product of as many rows,
and torch's grouped product.  All are checked against float64 before.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import mugraph.build as mi
from benchmarks.cases import OURS, Built, Call, Case, Comparison, compiled, error_against, main
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED
from benchmarks.h200.statistics import set_count
from mugraph.build import DTensor, KernelGraph

TOLERANCE = 4e-3
"""The largest norm of an error by the norm of the result: a few roundings."""


@dataclass(frozen=True)
class Step:
    """Attention of one token a sequence; ``group`` heads share keys and values."""

    sequences: int
    heads: int
    group: int
    width: int
    keys: int

    @property
    def name(self) -> str:
        """What is attended."""
        return (
            f"{self.sequences} x {self.heads}x{self.group} heads of {self.width}, {self.keys} keys"
        )

    @property
    def bytes(self) -> int:
        """Of keys and values."""
        return 4 * self.sequences * self.heads * self.keys * self.width


@dataclass(frozen=True)
class Experts:
    """A product of rows in groups."""

    rows: int
    groups: int
    depth: int
    columns: int

    @property
    def name(self) -> str:
        """What is multiplied."""
        return f"{self.rows} rows, {self.groups} experts of {self.depth} x {self.columns}"


STEPS = (Step(16, 8, 4, 128, 4096), Step(64, 8, 4, 128, 2048))
PAGES = (16, 64, 128)
EXPERTS = (
    Experts(8192, 64, 2048, 1408),
    Experts(4096, 8, 4096, 14336),
    Experts(16, 8, 4096, 14336),
)
TILES = (16, 64, 128)
"""Rows of a tile beside what is chosen."""


def contiguous(step: Step) -> KernelGraph:
    """Attention over caches (sequence and head, key, element)."""
    graph = mi.new_kernel_graph("contiguous")
    batch = step.sequences * step.heads
    q = graph.new_input((batch, step.group, step.width))
    k, v = (graph.new_input((batch, step.keys, step.width)) for _ in range(2))
    scores = graph.matmul(q, graph.transpose(k), dtype=mi.float32) * step.width**-0.5
    graph.mark_output(mi.cast(mi.softmax(scores, 2), mi.float16) @ v)
    return graph


def looked_up(step: Step, page: int) -> KernelGraph:
    """The same over pages, of as many keys as memory says of each sequence."""
    graph = mi.new_kernel_graph(f"looked_up_{page}")
    count = step.keys // page
    heads = (step.sequences, step.heads)
    q = graph.new_input((*heads, step.group, step.width))
    shape = (step.sequences * count, step.heads, page, step.width)
    pools = [graph.new_input(shape) for _ in range(2)]
    table = graph.new_input((step.sequences, count), dtype=mi.int32)
    lengths = graph.new_input((step.sequences,), dtype=mi.int32)
    k, v = (
        graph.reshape(
            graph.transpose(mi.gather(pool, table), [0, 2, 1, 3, 4]),
            (*heads, step.keys, step.width),
        )
        for pool in pools
    )
    scores = graph.matmul(q, graph.transpose(k, [0, 1, 3, 2]), dtype=mi.float32)
    masked = graph.mask(
        scores * step.width**-0.5,
        lambda *at: at[4] - 1 - at[3],  # as many keys as its sequence has
        lengths=[(lengths, step.keys, 0)],
    )
    graph.mark_output(mi.cast(mi.softmax(masked, 3), mi.float16) @ v)
    return graph


def grouped(experts: Experts, size: int | None = None) -> KernelGraph:
    """The product of rows in groups, in tiles of ``size`` rows."""
    graph = mi.new_kernel_graph("grouped")
    x = graph.new_input((experts.rows, experts.depth), dtype=mi.bfloat16)
    shape = (experts.groups, experts.depth, experts.columns)
    w = graph.new_input(shape, dtype=mi.bfloat16, constant=True)
    ends = graph.new_input((experts.groups,), dtype=mi.int32)
    graph.mark_output(mi.grouped_matmul(x, w, ends, rows_per_tile=size))
    return graph


def product(experts: Experts) -> KernelGraph:
    """All rows times one matrix."""
    graph = mi.new_kernel_graph("one_product")
    x = graph.new_input((experts.rows, experts.depth), dtype=mi.bfloat16)
    shape = (experts.depth, experts.columns)
    w: DTensor = graph.new_input(shape, dtype=mi.bfloat16, constant=True)
    graph.mark_output(x @ w)
    return graph


def _generator() -> Any:
    import torch

    return torch.Generator(DEVICE).manual_seed(SEED)


@dataclass(frozen=True)
class Paged(Case):
    """A step over pages of a size, of all keys or of as many as each sequence has."""

    step: Step
    page: int
    is_ragged: bool = False

    @property
    def name(self) -> str:
        """What is attended."""
        some = ", some of the keys" if self.is_ragged else ""
        return f"{self.step.name}, pages of {self.page}{some}"

    def build(self, arch: str) -> dict[str, Built]:
        """The kernels; of ragged sequences that one alone which reads how many keys there are."""
        built = {"paged": compiled(looked_up(self.step, self.page), arch)}
        if not self.is_ragged:
            built["contiguous"] = compiled(contiguous(self.step), arch)
        return built

    def comparison(self, built: dict[str, Built]) -> Comparison:
        """Beside the same over contiguous caches, SDPA, and FlashInfer."""
        import torch

        random, step = _generator(), self.step
        total = step.sequences * step.keys // self.page

        def drawn(*shape: int) -> Any:
            return torch.randn(shape, generator=random, device=DEVICE).half()

        lengths = torch.full((step.sequences,), step.keys, dtype=torch.int32, device=DEVICE)
        if self.is_ragged:
            lengths.random_(1, step.keys + 1, generator=random)
        sets: list[Any] = []
        for _ in range(set_count(2 * step.bytes)):
            q = drawn(step.sequences, step.heads, step.group, step.width)
            k, v = (drawn(total, step.heads, self.page, step.width) for _ in range(2))
            table = torch.randperm(total, generator=random, device=DEVICE).int()
            table = table.reshape(step.sequences, -1)
            sets.append((q, k, v, table, *(_gathered(x, table) for x in (k, v)), lengths))
        q, _, _, _, keys, values, _ = (x.double() for x in sets[0])
        behind = torch.arange(step.keys, device=DEVICE) >= lengths[:, None, None, None]
        scores = (q @ keys.mT / math.sqrt(step.width)).masked_fill(behind, -math.inf)
        error = error_against(scores.softmax(-1) @ values)
        own = {name: each.kernel() for name, each in built.items()}
        counted = 4.0 * int(lengths.sum()) * step.heads * step.width
        return Comparison(sets, self.systems(own), error, TOLERANCE, counted)

    def systems(self, own: dict[str, Any]) -> dict[str, Call]:
        """Calls with queries, pages of keys and of values, a table, contiguous caches, lengths."""
        import torch

        step = self.step
        attention = torch.nn.functional.scaled_dot_product_attention
        batch = step.sequences * step.heads

        def joined(*tensors: Any) -> list[Any]:
            return [x.view(batch, *x.shape[2:]) for x in tensors]

        systems: dict[str, Call] = {OURS: lambda *x: own["paged"](*x[:4], x[6])}
        if self.is_ragged:
            return systems
        systems |= {
            "contiguous": lambda *x: own["contiguous"](*joined(x[0], x[4], x[5])),
            "SDPA, contiguous": lambda *x: attention(x[0], x[4], x[5]),
            "SDPA, gathered first": lambda *x: attention(
                x[0], _gathered(x[1], x[3]), _gathered(x[2], x[3])
            ),
        }
        with contextlib.suppress(ImportError):
            systems["FlashInfer"] = _flashinfer(step, self.page)
        return systems


def _gathered(pages_: Any, table: Any) -> Any:
    """The contiguous cache of pages: (sequence, head, key, element)."""
    found = pages_[table.long()].movedim(2, 1)
    return found.reshape(*found.shape[:2], -1, found.shape[-1]).contiguous()


def _flashinfer(step: Step, page: int) -> Callable[..., Any]:
    """FlashInfer's step of generation; a table is planned once, outside of what is timed."""
    import torch

    library = import_module("flashinfer")
    plans: dict[int, Any] = {}
    count = step.keys // page

    def planned(table: Any) -> Any:
        workspace = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
        wrapper = library.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND")
        ends = torch.arange(step.sequences + 1, dtype=torch.int32, device=DEVICE) * count
        last = torch.full((step.sequences,), page, dtype=torch.int32, device=DEVICE)
        heads = step.heads * step.group
        sizes = (heads, step.heads, step.width, page)
        wrapper.plan(ends, table.reshape(-1), last, *sizes, q_data_type=torch.float16)
        return wrapper

    def call(q: Any, k: Any, v: Any, table: Any, *_: Any) -> Any:
        if table.data_ptr() not in plans:
            plans[table.data_ptr()] = planned(table)
        rows = q.view(step.sequences, step.heads * step.group, step.width)
        return plans[table.data_ptr()].run(rows, (k, v))

    return call


@dataclass(frozen=True)
class Grouped(Case):
    """A product of rows in groups of random sizes, one of them empty."""

    experts: Experts

    @property
    def name(self) -> str:
        """What is multiplied."""
        return self.experts.name

    def build(self, arch: str) -> dict[str, Built]:
        """In tiles of some rows, and one product of all rows."""
        tiles = [size for size in TILES if size <= self.experts.rows]
        return {
            OURS: compiled(grouped(self.experts), arch),
            **{
                f"{OURS}, tiles of {size}": compiled(grouped(self.experts, size), arch)
                for size in tiles
            },
            ONE: compiled(product(self.experts), arch),
        }

    def comparison(self, built: dict[str, Built]) -> Comparison:
        """Beside torch's grouped product, and one product of as many rows."""
        import torch

        random, experts = _generator(), self.experts
        shape = (experts.groups, experts.depth, experts.columns)
        groups = torch.randint(1, experts.groups, (experts.rows,), generator=random, device=DEVICE)
        sizes: Any = torch.bincount(groups, minlength=experts.groups)
        ends = sizes.cumsum(0).int()
        scale = experts.depth**-0.5
        sets: list[Any] = []
        for _ in range(set_count(2 * math.prod(shape))):
            x = torch.randn(experts.rows, experts.depth, generator=random, device=DEVICE)
            w = torch.randn(shape, generator=random, device=DEVICE) * scale
            sets.append((x.bfloat16(), w.bfloat16(), ends))
        x, w, _ = sets[0]
        parts = zip(x.split(sizes.tolist()), w, strict=True)
        expected = torch.cat([rows.double() @ matrix.double() for rows, matrix in parts])
        own: dict[str, Any] = {name: each.kernel() for name, each in built.items()}
        one = own.pop(ONE)
        systems: dict[str, Call] = {
            **own,
            "torch's grouped_mm": lambda *x: torch.nn.functional.grouped_mm(x[0], x[1], offs=x[2]),
            ONE: lambda *x: one(x[0], x[1][-1]),
            f"{ONE}, torch": lambda *x: x[0] @ x[1][-1],
        }
        other = frozenset({ONE, f"{ONE}, torch"})
        return Comparison(sets, systems, error_against(expected), TOLERANCE, unchecked=other)


ONE = "one product"
"""All rows times the last expert's matrix: another function, which is not checked."""

CASES = [
    *(Paged(step, page, ragged) for step in STEPS for page in PAGES for ragged in (False, True)),
    *map(Grouped, EXPERTS),
]

if __name__ == "__main__":
    raise SystemExit(main("Rows that memory names", __doc__, CASES, output="build/named_rows"))
