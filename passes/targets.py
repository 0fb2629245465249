"""Facts about the GPUs that mugraph compiles for, as data.

Code asks the table for a number, never for the name of an architecture.  Sources: NVIDIA's CUDA
programming guide (limits an SM and a block) and the data sheets of A100, H200 and B200 (memory
bandwidth, highest clock); latencies are those of device memory under load.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.utils.exceptions import PassFailedException


@dataclass(frozen=True)
class Target:
    """One architecture; sizes in bytes, times in nanoseconds."""

    name: str
    multiprocessors: int
    shared_memory_per_block: int
    shared_memory_per_multiprocessor: int
    max_threads_per_multiprocessor: int
    max_blocks_per_multiprocessor: int
    memory_bytes_per_ns: float
    memory_latency_ns: float
    clock_ghz: float
    registers_per_multiprocessor: int = 65536
    reserved_shared_memory_per_block: int = 1024
    warp_size: int = 32
    schedulers_per_multiprocessor: int = 4
    shared_memory_banks: int = 32
    bank_bytes: int = 4
    multiplies_in_warpgroups: bool = False
    """Whether warp groups multiply what lies in shared memory (``wgmma``)."""
    bulk_bytes_in_flight: int | None = None
    """What bulk copies keep on its way to a multiprocessor; ``None`` where there are none.

    For ``sm_90a`` measured: ``benchmarks/results/h200_stages.md``.
    """
    moves_registers: bool = False
    """Whether warp groups can pass registers on to others of their block (``setmaxnreg``)."""
    has_programmatic_launch: bool = False
    """Whether it has programmatic dependent launch."""
    blocks_per_cluster: int = 1
    """The blocks that a cluster may always have; 1 where there are no clusters."""

    def resident_blocks(self, blocks: int, threads: int, smem: int, registers: int) -> int:
        """How many of ``blocks`` blocks one multiprocessor holds at a time, at least 1.

        ``smem`` is in bytes a block, ``registers`` what a thread must have.
        """
        waves = -(-blocks // self.multiprocessors)
        by_memory = self.shared_memory_per_multiprocessor // (
            smem + self.reserved_shared_memory_per_block
        )
        by_registers = self.registers_per_multiprocessor // (threads * registers)
        by_threads = self.max_threads_per_multiprocessor // threads
        limits = (waves, by_memory, by_registers, by_threads, self.max_blocks_per_multiprocessor)
        return max(1, min(limits))

    def bytes_in_flight_per_multiprocessor(self) -> float:
        """What must be on its way to each SM for device memory to run at full speed.

        Little's law: bandwidth times latency.
        """
        return self.memory_bytes_per_ns * self.memory_latency_ns / self.multiprocessors


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="sm_80",
            multiprocessors=108,
            shared_memory_per_block=163 * 1024,
            shared_memory_per_multiprocessor=164 * 1024,
            max_threads_per_multiprocessor=2048,
            max_blocks_per_multiprocessor=32,
            memory_bytes_per_ns=2039.0,
            memory_latency_ns=700.0,
            clock_ghz=1.41,
        ),
        Target(
            name="sm_90a",
            multiprocessors=132,
            shared_memory_per_block=227 * 1024,
            shared_memory_per_multiprocessor=228 * 1024,
            max_threads_per_multiprocessor=2048,
            max_blocks_per_multiprocessor=32,
            memory_bytes_per_ns=4800.0,
            memory_latency_ns=900.0,
            clock_ghz=1.98,
            multiplies_in_warpgroups=True,
            bulk_bytes_in_flight=64 * 1024,
            moves_registers=True,
            has_programmatic_launch=True,
            blocks_per_cluster=8,
        ),
        Target(
            name="sm_100a",
            multiprocessors=148,
            shared_memory_per_block=227 * 1024,
            shared_memory_per_multiprocessor=228 * 1024,
            max_threads_per_multiprocessor=2048,
            max_blocks_per_multiprocessor=32,
            memory_bytes_per_ns=8000.0,
            memory_latency_ns=900.0,
            clock_ghz=1.965,
            bulk_bytes_in_flight=96 * 1024,
            moves_registers=True,
            has_programmatic_launch=True,
            blocks_per_cluster=8,
        ),
    )
}

DEFAULT_TARGET = "sm_90a"


def target_named(name: str) -> Target:
    """The target of that name; raises ``PassFailedException`` listing the known ones."""
    if name not in TARGETS:
        raise PassFailedException(
            f"unknown architecture '{name}'; known are {', '.join(TARGETS)}: write for instance "
            f'arch="{DEFAULT_TARGET}"'
        )
    return TARGETS[name]
