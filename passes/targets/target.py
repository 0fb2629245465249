"""What a GPU has: the numbers that passes ask for, and nothing that they were fitted to.

A number is a fact of the hardware, with its unit here and its source in the file of the GPU.  What
an estimate is fitted to stands in :mod:`mugraph.passes.costs`, and what CUDA fixes for every GPU in
:mod:`mugraph.dialects.programming_model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mugraph.dialects.programming_model import (
    BANK_BYTES,
    BANKS,
    REGISTER_FILE,
    WARP,
)

FMA, MMA, WGMMA = "fma", "mma", "wgmma"
"""Instructions that multiply: of threads, ``mma.sync`` of warps, ``wgmma`` of warp groups."""


@dataclass(frozen=True)
class Target:
    """One GPU: sizes in bytes, times in nanoseconds, and rates in what a cycle brings."""

    name: str
    """As a user writes it: ``h200``."""
    arch: str
    """As nvcc names what its code is compiled for: ``sm_90a``."""
    multiprocessors: int
    clock_ghz: float
    """The highest clock, in cycles a nanosecond."""

    memory_bytes_per_ns: float
    """What device memory delivers at most."""
    memory_latency_ns: float
    """From a load to its bytes in device memory, while the memory is busy."""
    l2_bytes: int
    """The second-level cache."""

    shared_memory_per_block: int
    """The most bytes that a block can have."""
    shared_memory_per_multiprocessor: int
    reserved_shared_memory_per_block: int
    """What CUDA takes of it for each block."""
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int

    macs_a_cycle: Mapping[str, Mapping[str, int]] = field(repr=False, hash=False)
    """Multiply-adds of a multiprocessor, by instruction and type of operands.

    Instructions are ``fma``, ``mma`` and ``wgmma``; one that a GPU lacks has no entry.  The types
    are those of :class:`~mugraph.dialects.cute.atoms.MmaAtom`: ``f16``, ``tf32``, ``s8`` ...
    """
    mma_latency: float
    """Cycles from an ``mma`` to one that adds to the same sums."""
    special_a_cycle: int
    """Exponentials, roots and reciprocals that a multiprocessor computes in a cycle."""
    schedulers_per_multiprocessor: int
    """Parts of a multiprocessor: each issues an instruction of one warp a cycle."""

    registers_per_multiprocessor: int = REGISTER_FILE
    warp_size: int = WARP
    shared_memory_banks: int = BANKS
    bank_bytes: int = BANK_BYTES

    bulk_bytes_in_flight: int | None = None
    """What bulk copies keep on their way to a multiprocessor; ``None`` where there are none."""
    moves_registers: bool = False
    """Whether warp groups can pass registers on to others of their block (``setmaxnreg``)."""
    has_programmatic_launch: bool = False
    """Whether it has programmatic dependent launch."""
    blocks_per_cluster: int = 1
    """The blocks that a cluster may always have; 1 where there are no clusters."""

    @property
    def multiplies_in_warpgroups(self) -> bool:
        """Whether warp groups multiply what lies in shared memory (``wgmma``)."""
        return WGMMA in self.macs_a_cycle

    def most_macs_a_cycle(self, element: str) -> int | None:
        """What a multiprocessor multiplies of a type by its fastest instruction, if it has one."""
        rates = [rates[element] for rates in self.macs_a_cycle.values() if element in rates]
        return max(rates, default=None)

    @property
    def shared_bytes_a_cycle(self) -> int:
        """What a multiprocessor's shared memory delivers: a word of each bank."""
        return self.shared_memory_banks * self.bank_bytes

    def resident_blocks(self, blocks: int, threads: int, smem: int, registers: int) -> int:
        """How many of ``blocks`` blocks one multiprocessor holds at a time, at least 1.

        ``smem`` is in bytes a block, ``registers`` what a thread must have.
        """
        waves = -(-blocks // self.multiprocessors)
        by_memory = self.shared_memory_per_multiprocessor // (
            smem + self.reserved_shared_memory_per_block
        )
        # Each scheduler has its own warps, and its part of the registers.
        schedulers = self.schedulers_per_multiprocessor
        warp_registers = self.warp_size * registers * schedulers
        of_a_scheduler = self.registers_per_multiprocessor // warp_registers
        by_registers = of_a_scheduler * schedulers // -(-threads // self.warp_size)
        by_threads = self.max_threads_per_multiprocessor // threads
        limits = (waves, by_memory, by_registers, by_threads, self.max_blocks_per_multiprocessor)
        return max(1, min(limits))

    def bytes_in_flight_per_multiprocessor(self) -> float:
        """What must be on its way to each SM for device memory to run at full speed.

        Little's law: bandwidth times latency.
        """
        return self.memory_bytes_per_ns * self.memory_latency_ns / self.multiprocessors


__all__ = ["FMA", "MMA", "WGMMA", "Target"]
