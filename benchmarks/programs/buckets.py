"""Programs whose rows a call says: one search for all buckets beside a search for each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from benchmarks import pages
from benchmarks.facts import revision
from mugraph.dialects.named_extents import buckets_of, is_smaller_bucket
from mugraph.passes.program.bucket_extents import BucketExtentsPass
from mugraph.passes.program.fuse_kernels.choice import Found, find_in_buckets, find_kernels
from mugraph.passes.targets import target_named
from mugraph.reading import make_context

ROWS = mi.Extent("m", largest=8192, buckets=(16, 64, 512))
New = Callable[..., mi.DTensor]


def gated_mlp(new: New) -> tuple[mi.DTensor, ...]:
    """silu(x W1) * (x W2)."""
    x = new(ROWS, 4096)
    return (mi.silu(x @ new(4096, 8192)) * (x @ new(4096, 8192)),)


def norm_and_mlp(new: New) -> tuple[mi.DTensor, ...]:
    """A norm, a gated MLP, and what they are added to."""
    x = new(ROWS, 1024)
    y = mi.rms_norm(x, new(1024), 1e-5)
    return (x + (mi.silu(y @ new(1024, 2816)) * (y @ new(1024, 2816))) @ new(2816, 1024),)


def layer_norm_linear_gelu(new: New) -> tuple[mi.DTensor, ...]:
    """A layer norm, a product, a bias, and gelu."""
    y = mi.layer_norm(new(ROWS, 1024), new(1024), new(1024), 1e-5)
    return (mi.gelu(y @ new(1024, 4096) + new(4096)),)


def norm_and_projections(new: New) -> tuple[mi.DTensor, ...]:
    """A norm, and queries, keys and values with a bias each."""
    y = mi.rms_norm(new(ROWS, 1024), new(1024), 1e-5)
    return tuple(y @ new(1024, 1024) + new(1024) for _ in range(3))


PROGRAMS = (gated_mlp, norm_and_mlp, layer_norm_linear_gelu, norm_and_projections)


@dataclass(frozen=True)
class Searched:
    """The kernels of a program's buckets, small ones first; seconds of processor time."""

    name: str
    searches: int
    seconds: float
    tried: int
    """Groups of operators that a kernel was tried for."""
    kernels: list[int]
    microseconds: list[float]
    """By estimate."""


def buckets(program: Callable[[New], tuple[mi.DTensor, ...]]) -> list[FuncOp]:
    """A static function for each range of rows."""
    graph = mi.new_kernel_graph(program.__name__)
    for result in program(lambda *shape: graph.new_input(shape)):
        graph.mark_output(result)
    module = graph.module()
    BucketExtentsPass().apply(make_context(), module)
    functions = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    return buckets_of(module, next(op for op in functions if not is_smaller_bucket(op)))


def searched(name: str, searches: int, find: Callable[[], list[Found]]) -> Searched:
    """Times a search, or several."""
    start = time.process_time()
    found = find()
    seconds = time.process_time() - start
    tried = sum(len(each.fusion.attempts) for each in found)
    kernels = [len(each.kernels) for each in found]
    return Searched(name, searches, seconds, tried, kernels, [each.time / 1000 for each in found])


def search_buckets(arch: str, output: Path) -> list[Searched]:
    """All programs, once and bucket by bucket; writes OUTPUT.json and OUTPUT.md."""
    facts = {"date": date.today().isoformat(), "commit": revision(), "arch": arch}
    target = target_named(arch)
    rows: list[Searched] = []
    for program in PROGRAMS:
        functions, others = buckets(program), buckets(program)
        name = program.__name__
        rows.append(searched(name, 1, lambda own=functions: find_in_buckets(own, target)))
        each = len(others)
        rows.append(
            searched(name, each, lambda own=others: [find_kernels(one, target) for one in own])
        )
    pages.write(output, {**facts, "rows": [asdict(row) for row in rows]}, page(rows, facts))
    return rows


COLUMNS = ("program", "searches:", "seconds:", "tried:", "kernels", "estimated µs")


def page(rows: Sequence[Searched], facts: Mapping[str, str]) -> list[str]:
    """Two lines for each program."""
    lines = [
        *pages.head("One search for all rows that a call may say", facts),
        "Buckets of 16, 64, 512 and 8,192 rows. Seconds of processor time of `--fuse-kernels`,",
        "groups of operators that a kernel was tried for, and kernels and their estimated time in",
        "each bucket.",
        "",
    ]
    cells = [
        [
            *(row.name, row.searches, f"{row.seconds:.2f}", row.tried),
            ", ".join(map(str, row.kernels)),
            ", ".join(f"{each:.2f}" for each in row.microseconds),
        ]
        for row in rows
    ]
    return [*lines, *pages.table(COLUMNS, cells)]


__all__ = ["Searched", "search_buckets"]
