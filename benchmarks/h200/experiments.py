"""Experiments: workloads compiled in several ways, timed beside each other, in one table.

What the compiler chooses by a fitted number is held against the other ways:

- ``stages``: other numbers of stages of the rings than follow from the target's
  ``bulk_bytes_in_flight`` (``passes/targets/h200.py``), which is what is best over the workloads.
- ``ping-pong``: long epilogues.  silu(X·W1) * (X·W2) has the same epilogue for every depth K, not
  the same loop.  One role of two warp groups shares a tile of 128x128 results, two roles of one
  warp group have a tile of 128x64 each (``--ping-pong``).
- ``small-m``: products of few rows, rms_norm(X) · W with X of 8 to 64 rows, by blocks of several
  sizes and tiles, and workloads with such products: by single warps (``swap_ab = false``) and by
  warp groups with swapped operands.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.h200.pipelines import OURS, TRY, Variant, with_parts
from benchmarks.h200.records import SAME_AS, Record, Records
from benchmarks.h200.report import number
from benchmarks.h200.workloads import WORKLOADS, Workload, rewritten
from benchmarks.pages import head, table

STAGES = (2, 3, 4, 5, 6, 8)

DEPTHS = (256, 512, 1024, 2048, 4096)
EXTENT = 4096
STEP = 64
"""How much of K an iteration of the loop takes."""

ROWS = (8, 16, 32, 64)
DEPTH, COLUMNS, ITERATIONS = 4096, 6144, 32
TILES = ((96, 128), (96, 256), (48, 256))
"""Blocks of the grid, and threads of each."""
WAYS = {"mma": "swap-ab=false", "swap": "swap-ab=true"}
FEW_ROWS = {
    "rmsnorm_bs8": ("tiles=written", "block=256"),
    "gated_mlp": ("grid=64 forloop=32 block=256", "grid=64 forloop=64 block=128"),
}
"""Workloads of the harness, and repartitions of them whose tiles have whole 64 columns."""

Case = tuple[Workload, Mapping[str, str]]
"""A workload, and what its plans say in each of the other ways."""


@dataclass(frozen=True)
class Experiment:
    """Cases, and what the page says of them; the cases' files are written into a folder."""

    title: str
    text: tuple[str, ...]
    cases: Callable[[Path], Iterator[Case]]


def ring_stages(folder: Path) -> Iterator[Case]:
    """Each workload with each number of stages."""
    for workload in WORKLOADS.values():
        yield workload, {f"{n} stages": f"stages={n} preferred=stages" for n in STAGES}


def long_epilogues(folder: Path) -> Iterator[Case]:
    """Gated products of each depth."""
    for depth in DEPTHS:
        workload = rewritten(
            WORKLOADS["gemm_silu_mul_k512"],
            f"gemm_silu_mul_k{depth}",
            4 * EXTENT * EXTENT * depth,
            {"512": str(depth), "forloop 8": f"forloop {depth // STEP}"},
            folder,
        )
        together = with_parts("grid=32,32 block=256 pdl=none ping-pong=1")
        ways = {"ping-pong": "grid=64,32 block=128 pdl=none ping-pong=2"}
        yield replace(workload, pipeline=together), ways


def few_rows(folder: Path) -> Iterator[Case]:
    """Products of few rows in each repartition, launches one after the other."""
    norm = WORKLOADS["rmsnorm_bs8"]
    tiles = [f"grid={blocks} block={threads}" for blocks, threads in TILES]
    found = [(norm, f"rms_{rows}", {"<16x": f"<{rows}x"}, tiles) for rows in ROWS]
    found += [(WORKLOADS[name], name, {}, [*tiles]) for name, tiles in FEW_ROWS.items()]
    for workload, name, numbers, repartitions in found:
        for tile in repartitions:
            parts = f"{tile} loads=tma pdl=none"
            made = rewritten(workload, case_name(name, tile), workload.flop, numbers, folder)
            ways = {way: f"{parts} {part}" for way, part in WAYS.items()}
            yield replace(made, pipeline=with_parts(parts)), ways


def case_name(name: str, tile: str) -> str:
    """What a workload in a repartition is called."""
    return f"{name}, {tile}"


EXPERIMENTS = {
    "stages": Experiment(
        "Stages of rings", ("Ways: rings of so many stages at most.",), ring_stages
    ),
    "ping-pong": Experiment(
        "One role of two warp groups, or ping-pong of two",
        (
            f"silu(X·W1) * (X·W2), all {EXTENT} but the depth K, f16. As chosen: two warp groups",
            "share a tile of 128x128 results. Ping-pong: two warp groups have tiles of 128x64, one",
            "multiplies while the other is in its epilogue.",
        ),
        long_epilogues,
    ),
    "small-m": Experiment(
        "Products of few rows",
        (
            "rms_M is rms_norm(X) · W with X[M,4096] and W[4096,6144] in 32 iterations; launches",
            "follow each other. What is chosen at 64 rows may be warp groups without a swap.",
        ),
        few_rows,
    ),
}


def variants(ways: Mapping[str, str]) -> tuple[Variant, ...]:
    """The ways of a case beside what is chosen."""
    return tuple(Variant(TRY + way, with_parts(parts)) for way, parts in ways.items())


def time_of(record: Record, name: str) -> float | None:
    """The time of a system, or of the one whose file it has."""
    system = record.systems.get(name)
    if system is not None and system.status.startswith(SAME_AS):
        return record.time_of(system.status.removeprefix(SAME_AS))
    return None if system is None else system.microseconds


def page(experiment: Experiment, records: Records) -> list[str]:
    """A line a workload, a column a way; times over the fastest, whose mean is the last line."""
    systems = (name for record in records.values() for name in record.systems)
    names = [OURS, *dict.fromkeys(name for name in systems if name.startswith(TRY))]
    ratios: dict[str, list[float]] = {name: [] for name in names}
    rows: list[list[str]] = []
    for record in records.values():
        times = {name: time_of(record, name) for name in names}
        known = [time for time in times.values() if time is not None]
        for name, time in times.items():
            ratios[name] += [] if time is None else [time / min(known)]
        cells = [_cell(record, name, time) for name, time in times.items()]
        rows.append([record.workload, number(record.floor), *cells])
    means = [f"{statistics.geometric_mean(ratios[n]):.3f}" if ratios[n] else "" for n in names]
    columns = ["chosen:", *(f"{name.removeprefix(TRY)}:" for name in names[1:])]
    return [
        *head(experiment.title, next(iter(records.values())).facts),
        *experiment.text,
        "",
        "µs a call, and stages of the rings. The last line is the geometric mean of the times over",
        "the fastest of each workload.",
        "",
        *table(["workload", "floor:", *columns], [*rows, ["over the fastest", "", *means]]),
    ]


def _cell(record: Record, name: str, time: float | None) -> str:
    system = record.systems.get(name)
    if system is None or time is None:
        return "" if system is None else system.status.partition(":")[0]
    if system.status.startswith(SAME_AS):
        return "the same"
    return f"{number(time)} ({_stages(system.progress)})"


def _stages(progress: list[str]) -> str:
    """The stages in what the certificates of kernels say: ``32 of 5`` fills has 5."""
    words = " ".join(progress).replace(",", " ").replace(":", " ").split()
    found = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "of"]
    return "+".join(word for word in found if word.isdecimal())


def write(experiment: Experiment, records: Records, output: Path) -> None:
    """Writes OUTPUT.md in the place of the run's."""
    measured = {n: record for n, record in records.items() if OURS in record.systems}
    text = "\n".join(page(experiment, measured))
    output.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")
