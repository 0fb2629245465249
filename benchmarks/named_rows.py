"""Rows that memory names, on one GPU: pages of a cache, and the matrices of experts.

    python -m benchmarks.named_rows run --output benchmarks/results/named_rows

Attention of a step of generation over pages in random order is timed beside the same over a
contiguous cache, SDPA on copies that are gathered first, and FlashInfer where it can be imported;
products of rows in groups of random sizes, one of them empty, beside one product of as many rows,
and torch's grouped product.  All are checked against float64 before.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import mugraph.build as mi
from benchmarks import pages
from benchmarks.compiled import Built, processes
from benchmarks.facts import facts_of_this_run
from benchmarks.h200.checking import judge
from benchmarks.h200.device import DEVICE
from benchmarks.h200.measure import SEED, settle
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import interleaved, prepared
from mugraph.build import DTensor, KernelGraph
from mugraph.dialects.plan import Plan

TOLERANCE = 4e-3
"""The largest norm of an error by the norm of the result: a few roundings."""
AS_CUT = Plan(tiles="written")
BLOCK_KEYS = 64
"""Keys of a tile of the contiguous cache."""


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


@dataclass
class Result:
    """Microseconds of one system on one workload, and the error against float64."""

    workload: str
    system: str
    microseconds: float | None
    status: str


def contiguous(step: Step) -> KernelGraph:
    """Attention over caches (sequence, head, key, element), cut as over pages."""
    graph = mi.new_kernel_graph("contiguous")
    batch = step.sequences * step.heads
    q = graph.new_input((batch, step.group, step.width))
    k, v = (graph.new_input((batch, step.keys, step.width)) for _ in range(2))
    grid = (batch, 1, 1)
    block = mi.new_threadblock_graph(grid, (128, 1, 1), step.keys // BLOCK_KEYS)
    keys = graph.transpose(k)
    tiles = [
        block.new_input(q, (0, -1, -1)),
        block.new_input(keys, (0, -1, -1), 2),
        block.new_input(v, (0, -1, -1), 1),
    ]
    _attend(block, *tiles, step.width, (0, -1, -1))
    graph.mark_output(*graph.customized([q, keys, v], block))
    return graph


def paged(step: Step, page: int) -> KernelGraph:
    """The same over pages (page, head, key, element), a page an iteration."""
    graph = mi.new_kernel_graph(f"paged_{page}")
    count = step.keys // page
    q = graph.new_input((step.sequences, 1, step.heads, step.group, step.width))
    shape = (step.sequences * count, step.heads, page, step.width)
    k, v = (graph.new_input(shape) for _ in range(2))
    table = graph.new_input((step.sequences, count), dtype=mi.int32)
    block = mi.new_threadblock_graph((step.sequences, step.heads, 1), (128, 1, 1), count)
    keys = graph.transpose(k)
    map_ = (0, 2, -1)
    tiles = [
        block.new_input(q, map_),
        block.new_input(keys, map_, 1, through=table),
        block.new_input(v, map_, 1, through=table),
    ]
    _attend(block, *tiles, step.width, map_)
    graph.mark_output(*graph.customized([q, keys, table, v], block))
    return graph


def _attend(block: Any, q: Any, k: Any, v: Any, width: int, map_: Sequence[int]) -> None:
    """softmax(q k / sqrt(width)) v, of which a pass makes the maximum that keeps it finite."""
    scores = block.mul_scalar(block.matmul(q, k, dtype=mi.float32), width**-0.5)
    weights = block.exp(scores, dtype=mi.float16)
    total = block.forloop_accum(block.matmul(weights, v))
    block.new_output(block.div(total, block.forloop_accum(weights, "sum")), map_)


def fused(step: Step) -> KernelGraph:
    """The contiguous program in whole tensors, which is cut and planned for it."""
    graph = mi.new_kernel_graph("fused")
    batch = step.sequences * step.heads
    q = graph.new_input((batch, step.group, step.width))
    k, v = (graph.new_input((batch, step.keys, step.width)) for _ in range(2))
    scores = graph.matmul(q, graph.transpose(k), dtype=mi.float32) * step.width**-0.5
    graph.mark_output(mi.cast(mi.softmax(scores, 2), mi.float16) @ v)
    return graph


def looked_up(step: Step, page: int) -> KernelGraph:
    """The program in whole tensors over pages, of as many keys as memory says of each sequence."""
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
        lambda b, h, i, j, n: n - 1 - j,
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


Systems = dict[str, Callable[..., Any]]


class Measurement:
    """Checks and times the systems of a workload on sets of inputs."""

    def __init__(self, workload: str, sets: list[Any], expected: Any) -> None:
        self.workload, self.sets, self.expected = workload, sets, expected

    def results(self, systems: Systems) -> Iterator[Result]:
        """One a system; those that are wrong, or fail, are not timed."""
        import torch

        right: Systems = {}
        for name, call in systems.items():
            try:
                output = call(*self.sets[0])
                verdict = judge(
                    torch, output.reshape(self.expected.shape), self.expected, TOLERANCE
                )
            except Exception as error:  # a peer that fails must not hide the others
                yield Result(self.workload, name, None, f"failed: {str(error).splitlines()[0]}")
                continue
            if verdict.right:
                right[name] = call
            else:
                yield Result(self.workload, name, None, verdict.status)
        graphs = [
            prepared(lambda at, call=call: call(*self.sets[at]), len(self.sets))
            for call in right.values()
        ]
        for name, samples in zip(right, interleaved(graphs, lambda _: None), strict=True):
            yield Result(self.workload, name, samples.median, "right")


def _generator() -> Any:
    import torch

    return torch.Generator(DEVICE).manual_seed(SEED)


def measure_step(step: Step, kernels: dict[str, Future[Built]]) -> Iterator[Result]:
    """Attention over each size of pages."""
    import torch

    random = _generator()

    def drawn(*shape: int) -> Any:
        return torch.randn(shape, generator=random, device=DEVICE).half()

    for page in PAGES:
        count = step.keys // page
        total = step.sequences * count
        sets: list[Any] = []
        for _ in range(set_count(2 * step.bytes)):
            q = drawn(step.sequences, step.heads, step.group, step.width)
            k, v = (drawn(total, step.heads, page, step.width) for _ in range(2))
            table = torch.randperm(total, generator=random, device=DEVICE).int()
            table = table.reshape(step.sequences, count)
            sets.append((q, k, v, table, *(_gathered(x, table) for x in (k, v))))
        q, _, _, _, keys, values = (x.double() for x in sets[0])
        scores = (q @ keys.mT) / math.sqrt(step.width)
        expected = scores.softmax(-1) @ values
        own = {name: future.result().kernel() for name, future in kernels.items()}
        systems = _attention_systems(step, own, page)
        yield from Measurement(f"{step.name}, pages of {page}", sets, expected).results(systems)
        lengths = torch.randint(
            1, step.keys + 1, (step.sequences,), generator=random, device=DEVICE
        )
        behind = torch.arange(step.keys, device=DEVICE) >= lengths[:, None, None, None]
        expected = scores.masked_fill(behind, -math.inf).softmax(-1) @ values
        share = float(lengths.sum()) / (step.sequences * step.keys)
        name = f"{step.name}, pages of {page}, {share:.2f} of the keys"
        kernel, lengths = own[f"looked up {page}"], lengths.int()
        systems = {
            "paged, fused": lambda q, k, v, t, *_, run=kernel, own=lengths: run(q, k, v, t, own)
        }
        yield from Measurement(name, sets, expected).results(systems)


def _gathered(pages_: Any, table: Any) -> Any:
    """The contiguous cache of pages: (sequence, head, key, element)."""
    found = pages_[table.long()].movedim(2, 1)
    return found.reshape(*found.shape[:2], -1, found.shape[-1]).contiguous()


def _attention_systems(step: Step, kernels: dict[str, Any], page: int) -> Systems:
    import torch

    attention = torch.nn.functional.scaled_dot_product_attention
    batch = step.sequences * step.heads

    def apart(q: Any) -> Any:
        return q.view(step.sequences, 1, step.heads, step.group, step.width)

    def joined(*tensors: Any) -> list[Any]:
        return [x.view(batch, *x.shape[2:]) for x in tensors]

    full = torch.full((step.sequences,), step.keys, dtype=torch.int32, device=DEVICE)
    systems: Systems = {
        "paged, fused": lambda q, k, v, table, *_: kernels[f"looked up {page}"](
            q, k, v, table, full
        ),
        "paged": lambda q, k, v, table, *_: kernels[f"paged {page}"](apart(q), k, v, table),
        "contiguous": lambda q, k, v, t, ks, vs: kernels["contiguous"](*joined(q, ks, vs)),
        "contiguous, fused": lambda q, k, v, t, ks, vs: kernels["fused"](*joined(q, ks, vs)),
        "SDPA, contiguous": lambda q, k, v, t, ks, vs: attention(q, ks, vs),
        "SDPA, gathered first": lambda q, k, v, table, *_: attention(
            q, _gathered(k, table), _gathered(v, table)
        ),
    }
    with contextlib.suppress(ImportError):
        systems["FlashInfer"] = _flashinfer(step, page)
    return systems


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


def measure_experts(experts: Experts, kernels: dict[str, Future[Built]]) -> Iterator[Result]:
    """A product of rows in groups of random sizes, one of them empty."""
    import torch

    random = _generator()
    shape = (experts.groups, experts.depth, experts.columns)
    groups = torch.randint(1, experts.groups, (experts.rows,), generator=random, device=DEVICE)
    sizes = torch.bincount(groups, minlength=experts.groups)
    ends = sizes.cumsum(0).int()
    scale = experts.depth**-0.5
    sets: list[Any] = []
    for _ in range(set_count(2 * math.prod(shape))):
        x = torch.randn(experts.rows, experts.depth, generator=random, device=DEVICE).bfloat16()
        w = (torch.randn(shape, generator=random, device=DEVICE) * scale).bfloat16()
        sets.append((x, w, ends))
    x, w, _ = sets[0]
    parts = zip(x.split(sizes.tolist()), w, strict=True)
    expected = torch.cat([rows.double() @ matrix.double() for rows, matrix in parts])
    own = {name: future.result().kernel() for name, future in kernels.items()}
    systems: Systems = {
        **{name: kernel for name, kernel in own.items() if name != "one"},
        "torch's grouped_mm": lambda x, w, e: torch.nn.functional.grouped_mm(x, w, offs=e),
    }
    yield from Measurement(experts.name, sets, expected).results(systems)
    single = [(x, w[-1]) for x, w, _ in sets]
    expected = single[0][0].double() @ single[0][1].double()
    systems = {"one product": own["one"], "one product, torch": torch.matmul}
    yield from Measurement(experts.name, single, expected).results(systems)


def run(arch: str, output: Path) -> list[Result]:
    """Checks and times everything; writes OUTPUT.json and OUTPUT.md after each result."""
    facts = facts_of_this_run(arch)
    settle()
    results: list[Result] = []
    with processes(arch) as compiled:
        steps = [
            {
                **{f"paged {page}": compiled(paged(step, page), AS_CUT) for page in PAGES},
                **{f"looked up {page}": compiled(looked_up(step, page), None) for page in PAGES},
                "contiguous": compiled(contiguous(step), AS_CUT),
                "fused": compiled(fused(step), None),
            }
            for step in STEPS
        ]
        products = [
            {
                "grouped": compiled(grouped(each), None),
                **{
                    f"grouped, tiles of {size}": compiled(grouped(each, size), None)
                    for size in TILES
                    if size <= each.rows
                },
                "one": compiled(product(each), None),
            }
            for each in EXPERTS
        ]
        found = [measure_step(*pair) for pair in zip(STEPS, steps, strict=True)]
        found += [measure_experts(*pair) for pair in zip(EXPERTS, products, strict=True)]
        for measured in found:
            for result in measured:
                print(result, flush=True)
                results.append(result)
                content = {"facts": facts, "results": [asdict(each) for each in results]}
                pages.write(output, content, page_of(results, facts))
    return results


def page_of(results: Sequence[Result], facts: dict[str, str]) -> list[str]:
    """The table of a run."""
    rows = (
        [each.workload, each.system, each.microseconds and f"{each.microseconds:.1f}", each.status]
        for each in results
    )
    return [
        *pages.head(f"Rows that memory names on {facts['gpu']}", facts),
        "µs a call, attention in f16 and experts in bf16; all inputs out of the cache.",
        "",
        *pages.table(("workload", "system", "µs:", "result"), rows),
    ]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.named_rows", description=__doc__)
    parser.add_argument("command", choices=("run",))
    parser.add_argument("--arch", default="sm_90a", help="the architecture to compile for")
    parser.add_argument("--output", type=Path, default=Path("build/named_rows"))
    arguments = parser.parse_args()
    run(arguments.arch, arguments.output)


if __name__ == "__main__":
    main()
