"""Long epilogues: one role that multiplies in all warps against ping-pong of two.

silu(X·W1) * (X·W2) with X[4096,K]: the epilogue is the same for every depth K, the loop before it
is not.  Each depth is timed with one role of two warp groups, which share a tile of 128x128
results, and with two roles of one warp group each, which have a tile of 128x64 each
(``--ping-pong``).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import references
from benchmarks.h200.pipelines import OURS, TRY, Variant, with_parts
from benchmarks.h200.records import Record, Records
from benchmarks.h200.report import number
from benchmarks.h200.workloads import Workload

DEPTHS = (256, 512, 1024, 2048, 4096)
EXTENT = 4096
STEP = 64
"""How much of K an iteration of the loop takes."""

TOGETHER = with_parts("grid=32,32 block=256 pdl=none ping-pong=1")
PING_PONG = with_parts("grid=64,32 block=128 pdl=none ping-pong=2")


@dataclass(frozen=True)
class GatedProduct(Workload):
    """The workload of one depth, whose file is written for the run."""

    folder: Path = Path()

    @property
    def path(self) -> Path:
        """The µGraph's file."""
        return self.folder / f"{self.name}.mlir"


def mugraph(depth: int) -> str:
    """The µGraph, each block with 128 rows and 64 columns of both products."""
    x, w, y = (
        f"tensor<{rows}x{columns}xf16>"
        for rows, columns in ((EXTENT, depth), (depth, EXTENT), (EXTENT, EXTENT))
    )
    sx, sw, sy = (f"!tb.stensor<{tile}xf16>" for tile in (f"128x{STEP}", f"{STEP}x64", "128x64"))
    grid, loop = f"[{EXTENT // 64}, {EXTENT // 128}, 1]", depth // STEP
    return f"""\
func.func @gated(%x: {x}, %w1: {w} {{mugraph.constant}}, %w2: {w} {{mugraph.constant}}) -> {y} {{
  %o = kn.customized %x, %w1, %w2 grid {grid} block [256, 1, 1] forloop {loop} {{
  ^bb0(%dx: {x}, %dw1: {w}, %dw2: {w}):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : {x} -> {sx}
    %sw1 = tb.input %dw1 imap [1, -1, -1] fordim 0 : {w} -> {sw}
    %sw2 = tb.input %dw2 imap [1, -1, -1] fordim 0 : {w} -> {sw}
    %m1 = tb.matmul %sx, %sw1 : ({sx}, {sw}) -> {sy}
    %m2 = tb.matmul %sx, %sw2 : ({sx}, {sw}) -> {sy}
    %gate = tb.forloop_accum none %m1 : {sy} -> {sy}
    %up = tb.forloop_accum none %m2 : {sy} -> {sy}
    %open = tb.silu %gate : {sy} -> {sy}
    %hidden = tb.mul %open, %up : ({sy}, {sy}) -> {sy}
    tb.output %hidden omap [1, 0, -1] : {sy} -> {y}
  }} : ({x}, {w}, {w}) -> {y}
  func.return %o : {y}
}}
"""


@contextmanager
def gated_products() -> Generator[tuple[Workload, ...]]:
    """The workloads of all depths, as long as their files are there."""
    with TemporaryDirectory() as folder:
        found: list[Workload] = []
        for depth in DEPTHS:
            workload = GatedProduct(
                f"gemm_silu_mul_k{depth}",
                references.gated_mlp,
                (1.0, 1 / 64, 1 / 64),
                4 * EXTENT * EXTENT * depth,
                pipeline=TOGETHER,
                folder=Path(folder),
            )
            workload.path.write_text(mugraph(depth), encoding="utf-8")
            found.append(workload)
        yield tuple(found)


def variants() -> tuple[Variant, ...]:
    """Two ping-pong roles."""
    return (Variant(f"{TRY}ping-pong", PING_PONG),)


def markdown(records: Records) -> str:
    """A line a depth: both structures' times, and their ratio."""
    facts = next(iter(records.values())).facts
    lines = ["# One role of two warp groups, or ping-pong of two", ""]
    lines += [f"- {name}: {value}" for name, value in facts.items()]
    lines += [
        "",
        f"silu(X·W1) * (X·W2), all {EXTENT} but the depth K, f16, µs a call. One role: two warp",
        "groups share a tile of 128x128 results. Ping-pong: two warp groups have tiles of 128x64,",
        "one multiplies while the other is in its epilogue.",
        "Made by `python -m benchmarks.h200 ping-pong`.",
        "",
        "| workload | floor | one role | ping-pong | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    lines += [_row(record) for record in records.values()]
    return "\n".join(lines) + "\n"


def _row(record: Record) -> str:
    systems = [record.systems.get(name) for name in (OURS, f"{TRY}ping-pong")]
    times = [None if system is None else system.microseconds for system in systems]
    together, *ping_pong = times
    known = [time for time in ping_pong if time is not None]
    ratio = f"{min(known) / together:.2f}" if known and together is not None else ""
    cells = [
        number(time) if time is not None else "" if system is None else system.status
        for system, time in zip(systems, times, strict=True)
    ]
    return f"| {record.workload} | {number(record.floor)} | {' | '.join(cells)} | {ratio} |"


def write(records: Records, output: Path) -> None:
    """Writes OUTPUT.md in the place of the run's."""
    output.with_suffix(".md").write_text(markdown(records), encoding="utf-8")


__all__ = ["DEPTHS", "TOGETHER", "gated_products", "markdown", "mugraph", "variants", "write"]
