"""Long epilogues: one role that multiplies in all warps against ping-pong of two.

silu(X·W1) * (X·W2) with X[4096,K]: the epilogue is the same for every depth K, the loop before it
is not.  Each depth is timed with one role of two warp groups, which share a tile of 128x128
results, and with two roles of one warp group each, which have a tile of 128x64 each
(``--ping-pong``).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.h200.pipelines import OURS, TRY, Variant, with_parts
from benchmarks.h200.records import Record, Records
from benchmarks.h200.report import number
from benchmarks.h200.workloads import WORKLOADS, Workload, rewritten
from benchmarks.pages import head, table

DEPTHS = (256, 512, 1024, 2048, 4096)
EXTENT = 4096
STEP = 64
"""How much of K an iteration of the loop takes."""

TOGETHER = with_parts("grid=32,32 block=256 pdl=none ping-pong=1")
PING_PONG = with_parts("grid=64,32 block=128 pdl=none ping-pong=2")


@contextmanager
def gated_products() -> Generator[tuple[Workload, ...]]:
    """The workloads of all depths, as long as their files are there."""
    with TemporaryDirectory() as folder:
        yield tuple(
            replace(
                rewritten(
                    WORKLOADS["gemm_silu_mul_k512"],
                    f"gemm_silu_mul_k{depth}",
                    4 * EXTENT * EXTENT * depth,
                    {"512": str(depth), "forloop 8": f"forloop {depth // STEP}"},
                    Path(folder),
                ),
                pipeline=TOGETHER,
            )
            for depth in DEPTHS
        )


def variants() -> tuple[Variant, ...]:
    """Two ping-pong roles."""
    return (Variant(f"{TRY}ping-pong", PING_PONG),)


def markdown(records: Records) -> str:
    """A line a depth: both structures' times, and their ratio."""
    facts = next(iter(records.values())).facts
    rows = [_row(record) for record in records.values()]
    lines = [
        *head("One role of two warp groups, or ping-pong of two", facts),
        f"silu(X·W1) * (X·W2), all {EXTENT} but the depth K, f16, µs a call. One role: two warp",
        "groups share a tile of 128x128 results. Ping-pong: two warp groups have tiles of 128x64,",
        "one multiplies while the other is in its epilogue.",
        "Made by `python -m benchmarks.h200 ping-pong`.",
        "",
        *table(("workload", "floor:", "one role:", "ping-pong:", "ratio:"), rows),
    ]
    return "\n".join(lines) + "\n"


def _row(record: Record) -> list[str]:
    systems = [record.systems.get(name) for name in (OURS, f"{TRY}ping-pong")]
    times = [None if system is None else system.microseconds for system in systems]
    together, *ping_pong = times
    known = [time for time in ping_pong if time is not None]
    ratio = f"{min(known) / together:.2f}" if known and together is not None else ""
    cells = [
        number(time) if time is not None else "" if system is None else system.status
        for system, time in zip(systems, times, strict=True)
    ]
    return [record.workload, number(record.floor), *cells, ratio]


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.md in the place of the run's."""
    output.with_suffix(".md").write_text(markdown(records), encoding="utf-8")
