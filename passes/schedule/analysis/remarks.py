"""Remarks: what a kernel lost against the best form of its target, why, and what would mend it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """What was lost."""

    TMA = "tma"
    """Loads are not bulk copies."""
    WGMMA = "wgmma"
    """A product is not one of warp groups."""
    REGISTERS = "registers"
    """A value passes through shared memory."""
    FUSION = "fusion"
    """Two operators, or two kernels, could be one."""
    BANKS = "bank-conflicts"
    """Accesses to shared memory wait for each other."""
    BLOCKS = "few-blocks"
    """Some multiprocessors have no block."""
    STAGES = "stages"
    """Fewer bytes are on their way than the target should have."""
    VECTORS = "vectors"
    """Accesses to device memory are narrower than 16 bytes."""
    EPILOGUE = "serial-epilogue"
    """The tensor cores wait while a result is written."""


class Obstacle(NamedTuple):
    """Why a better form cannot be had: a clause, and what would mend it, an imperative.

    ``dimension`` is that of the operand which is why; ``mend`` is empty where nothing is known.
    """

    reason: str
    mend: str = ""
    dimension: int | None = None


class Remark(NamedTuple):
    """One thing that a kernel lost.

    ``lost`` is a main clause that names the operand, ``operand`` that operand as it is printed,
    ``None`` where it is the kernel itself.
    """

    kind: Kind
    kernel: str
    lost: str
    why: Obstacle
    operand: str | None = None

    def __str__(self) -> str:
        mend = f"; {self.why.mend}" if self.why.mend else ""
        return (
            f"remark: kernel @{self.kernel}: {self.lost}, since {self.why.reason}{mend} "
            f"[{self.kind}]"
        )
