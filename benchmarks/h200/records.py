"""Results as they are kept in JSON: read, written, merged."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.h200.checking import RIGHT
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.statistics import Samples

READ = "read-k"
"""The system that only reads the bytes."""

SAME_AS = "same as "
"""How the status of a variant begins whose file is another one's."""


@dataclass
class System:
    """What was measured of one system; a time only where the check passed."""

    name: str
    status: str
    microseconds: float | None = None
    quartiles: tuple[float, float] | None = None
    relative_error: float | None = None
    is_peer: bool = False
    """Whether it computes the workload's function and is no variant of ours."""
    note: str = ""
    pipeline: str = ""
    """The passes, for ours."""
    kernels: list[str] = field(default_factory=list[str])
    progress: list[str] = field(default_factory=list[str])
    """Why each of our kernels cannot get stuck."""
    overflowing: str = ""
    """Of a function with exponentials: the check on inputs at which they overflow fp32."""

    def set_samples(self, samples: Samples) -> None:
        """Gives it a time; ``ValueError`` where its check did not pass."""
        if self.status != RIGHT:
            raise ValueError(f"{self.name} is {self.status}; what is not right has no time")
        self.microseconds = samples.median
        self.quartiles = samples.quartiles


@dataclass
class Record:
    """One workload in one run."""

    workload: str
    facts: dict[str, str]
    total_bytes: int
    floor: float
    systems: dict[str, System] = field(default_factory=dict[str, System])

    def add(self, system: System) -> System:
        """Adds a system, or replaces the one of that name."""
        self.systems[system.name] = system
        return system

    def time_of(self, name: str) -> float | None:
        """The time of a system, if there is one."""
        system = self.systems.get(name)
        return None if system is None else system.microseconds

    @property
    def ours(self) -> float | None:
        """Our time."""
        return self.time_of(OURS)

    @property
    def best_peer(self) -> System | None:
        """The fastest peer of this run."""
        timed = [s for s in self.systems.values() if s.is_peer and s.microseconds is not None]
        return min(timed, key=lambda system: system.microseconds or 0.0, default=None)


Records = dict[str, Record]
"""Records by the names of their workloads."""


def merged(parts: Iterable[Records]) -> Records:
    """All records; of a workload that several parts have, the last one's."""
    records: Records = {}
    for part in parts:
        records.update(part)
    return records


def content_of(records: Records) -> dict[str, Any]:
    """What a results file holds."""
    return {"format": 1, "workloads": [asdict(record) for record in records.values()]}


def read(path: Path) -> Records:
    """The records of a file."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    records: Records = {}
    for entry in content["workloads"]:
        systems: dict[str, Any] = entry.pop("systems")
        record = Record(**entry)
        for system in systems.values():
            if system["quartiles"] is not None:
                system["quartiles"] = tuple(system["quartiles"])
            # Medians of several runs, in older files.
            system.pop("runs", None)
            record.add(System(**system))
        records[record.workload] = record
    return records


def known(output: Path) -> Records:
    """The records that OUTPUT.json has; none where it is not there."""
    path = output.with_suffix(".json")
    return read(path) if path.exists() else {}
