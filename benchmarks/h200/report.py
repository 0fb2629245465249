"""The table of a results file, in Markdown."""

from __future__ import annotations

from benchmarks.h200.checking import RIGHT
from benchmarks.h200.peers import (
    COMPILED,
    CUBLAS,
    EAGER,
    FLASH_AND_COPY,
    MAX_AUTOTUNE,
    SDPA_BACKENDS,
)
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.records import READ, Record, Records, System
from benchmarks.h200.workloads import WORKLOADS
from benchmarks.pages import head, table

METHOD = """\
µs a call: median of 40 samples a system, interleaved over 5 rounds, each in another order; a sample
replays a CUDA graph of at least 16 calls that go round input sets of 200 MB in all. Every system's
result is first compared with float64; ours lies in memory that was NaN, between guards, and 20 runs
have the same bits. What is not right has no time. Floor = max(bytes / 4.24 TB/s, operations / 768
TFLOP/s); read-k is a tuned kernel that only reads as many bytes. Attention is also checked, not
timed, on inputs whose exponentials overflow fp32, against softmax in float64. Every kernel has
passed the hazard checker, which also says why it cannot get stuck (`docs/hazards.md`). SDPA gets K
as [S,d], an easier layout than the µGraphs' [d,S]; "flash + K copy" pays for the transposing copy.
"""

COLUMNS = (
    "workload",
    "floor:",
    "read-k:",
    "**ours**:",
    "torch eager:",
    "torch.compile:",
    "max-autotune:",
    "best SDPA:",
    "flash + K copy:",
    "cuBLAS:",
    "best peer:",
    "ours / best peer:",
)

OUR_COLUMNS = (
    "workload",
    "check",
    "error:",
    "inputs that overflow fp32",
    "quartiles:",
    "kernels",
    "no deadlock: hazard checker's certificate",
    "passes",
)


def number(value: float | None) -> str:
    """Microseconds with three digits or so; nothing for nothing."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def best_sdpa(record: Record) -> tuple[str, float] | None:
    """The fastest backend of SDPA and its time."""
    times = [(record.time_of(f"SDPA {name}"), name) for name in SDPA_BACKENDS]
    timed = [(time, name) for time, name in times if time is not None]
    if not timed:
        return None
    time, name = min(timed)
    return name, time


def best_peer(record: Record) -> tuple[str, float] | None:
    """The fastest peer and its time."""
    system = record.best_peer
    if system is None or system.microseconds is None:
        return None
    return system.name, system.microseconds


def missed(records: Records) -> list[Record]:
    """The records that have no time of ours, or a longer one than their best peer's."""
    found: list[Record] = []
    for record in in_order(records):
        peer, ours = best_peer(record), record.ours
        if ours is None or (peer is not None and ours > peer[1]):
            found.append(record)
    return found


def table_row(record: Record) -> list[str]:
    """The cells of a workload."""
    ours = record.ours
    system = record.systems.get(OURS)
    ours_cell = f"**{number(ours)}**"
    if ours is None:
        ours_cell = "" if system is None else "none" if system.status == RIGHT else "**wrong**"
        if system is not None and system.status != RIGHT and not system.status.startswith("wrong"):
            ours_cell = "**fails**"
    sdpa, peer = best_sdpa(record), best_peer(record)
    ratio = "" if ours is None or peer is None else f"{ours / peer[1]:.2f}"
    return [
        record.workload,
        number(record.floor),
        number(record.time_of(READ)),
        ours_cell,
        number(record.time_of(EAGER)),
        number(record.time_of(COMPILED)),
        number(record.time_of(MAX_AUTOTUNE)),
        "" if sdpa is None else f"{number(sdpa[1])} {sdpa[0]}",
        number(record.time_of(FLASH_AND_COPY)),
        number(record.time_of(CUBLAS)),
        "" if peer is None else f"{number(peer[1])} {peer[0]}",
        ratio,
    ]


def in_order(records: Records) -> list[Record]:
    """The records in the order of the workloads' table; others behind, as they came."""
    order = {name: place for place, name in enumerate(WORKLOADS)}
    return sorted(records.values(), key=lambda record: order.get(record.workload, len(order)))


def markdown(records: Records, title: str) -> list[str]:
    """The lines of the page of a results file."""
    rows = in_order(records)
    timed = [record for record in rows if record.ours is not None]
    ours = [(record, record.systems[OURS]) for record in rows if OURS in record.systems]
    return [
        *head(title, _facts(records)),
        METHOD,
        *table(COLUMNS, map(table_row, rows)),
        "",
        f"{len(timed)} of {len(rows)} workloads are right and have a time.",
        "",
        "## Ours",
        "",
        *table(OUR_COLUMNS, (_our_row(record, system) for record, system in ours)),
        "",
        "## All systems",
        "",
        *table(
            ("workload", "system", "check", "error:", "µs:", "quartiles:", ""),
            (_row(record, system) for record in rows for system in record.systems.values()),
        ),
    ]


def _our_row(record: Record, system: System) -> list[str]:
    return [
        record.workload,
        system.status.replace("|", "\\|"),
        _error(system),
        system.overflowing,
        _quartiles(system.quartiles),
        "<br>".join(kernel.partition(" inputs ")[2][2:] for kernel in system.kernels),
        "<br>".join(system.progress),
        f"`{system.pipeline}`",
    ]


def _row(record: Record, system: System) -> list[str]:
    return [
        record.workload,
        system.name,
        system.status.replace("|", "\\|"),
        _error(system),
        number(system.microseconds),
        _quartiles(system.quartiles),
        system.note,
    ]


def _error(system: System) -> str:
    return "" if system.relative_error is None else f"{system.relative_error:.1e}"


def _facts(records: Records) -> dict[str, str]:
    """What all records have in common, and what some were measured on."""
    names: dict[str, dict[str, list[str]]] = {}
    for record in in_order(records):
        for name, value in record.facts.items():
            names.setdefault(name, {}).setdefault(value, []).append(record.workload)
    return {
        name: next(iter(values))
        if len(values) == 1
        else "; ".join(f"{value} ({', '.join(on)})" for value, on in values.items())
        for name, values in names.items()
    }


def _quartiles(values: tuple[float, float] | None) -> str:
    return "" if values is None else f"{number(values[0])}-{number(values[1])}"
