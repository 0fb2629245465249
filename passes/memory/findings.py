"""What the hazard checker has to say: the kinds of hazard and one sentence for each."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from xdsl.ir import Operation


class HazardKind(Enum):
    """What is wrong, or might be better."""

    READ_AFTER_WRITE = "read after write"
    WRITE_AFTER_READ = "write after read"
    WRITE_AFTER_WRITE = "write after write"
    IN_FLIGHT = "copy in flight"
    OVERWRITTEN = "overwritten value"
    WRONG_TILE = "wrong tile"
    NEVER_WRITTEN = "never written"
    OUT_OF_BOUNDS = "out of bounds"
    MISALIGNED = "misaligned"
    NOT_RUNNING = "block not running"
    DIVERGENT_BARRIER = "divergent barrier"
    MISSING_FENCE = "missing fence"
    PROTOCOL = "channel protocol"
    DEADLOCK = "deadlock"
    DEPENDENT_LAUNCH = "dependent launch"
    NOT_CHECKED = "not checked"


class Finding(NamedTuple):
    """One hazard of a kernel.

    ``operations`` are those involved, the one that runs later first; ``threads`` and ``address``
    (in bytes, of the block's shared memory or of the kernel's argument) are one witness of
    perhaps many.
    """

    kind: HazardKind
    operations: tuple[Operation, ...]
    message: str
    threads: tuple[int, ...] = ()
    address: int | None = None

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}"
