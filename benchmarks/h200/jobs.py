"""What the process that measures is asked to do, and what it says of each step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.h200.building import Build, TensorOf
from benchmarks.h200.peers import Level, Peer
from benchmarks.h200.records import System
from benchmarks.h200.workloads import Workload

OURS_SECONDS = 60.0
"""How long checking and capturing one of our kernels may take, the first one's start included."""

PEER_SECONDS = 300.0
"""The same for a peer, compilation included."""

EXPECTED_SECONDS = {Level.FAST: 15.0, Level.ALL: 60.0}
"""What a peer of a level may take without being slow: with less time left none is begun."""

NO_TIME_LEFT = "not measured: the run's time is up"


@dataclass(frozen=True)
class Job:
    """All that is to be measured of one workload."""

    workload: Workload
    tensors: tuple[TensorOf, ...]
    builds: tuple[Build, ...]
    peers: tuple[Peer, ...]
    library: Path | None
    """The kernel that only reads, if it is to be measured."""
    tolerance: float
    facts: dict[str, str]
    failed: dict[str, System] = field(default_factory=dict[str, System])
    """Systems that are not to be run again, and why."""
    end: float = math.inf
    """``time.time()`` at which all is to be done."""


@dataclass(frozen=True)
class Step:
    """What the measuring process is about to do."""

    system: str
    seconds: float
