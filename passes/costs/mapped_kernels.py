"""The time of a mapped kernel by estimate, from what one of its blocks does."""

from __future__ import annotations

from typing import NamedTuple

from mugraph.passes.costs.kernels import LAUNCH_NS
from mugraph.passes.costs.memory import CACHE_FACTOR, device_ns
from mugraph.passes.costs.overlap import IN_AN_ITERATION, side_by_side
from mugraph.passes.targets import Target

SHARED_LATENCY = 30.0
"""Cycles from a barrier to what threads read behind it of shared memory."""

LOAD_NS, PRODUCT_WARPS = 300.0, 2
"""Nanoseconds from a load of device memory to its elements; how many warps of a scheduler keep its
tensor cores busy by ``mma``.

Fitted to the 71 times of `.te` programs on an H200 of ``benchmarks/results/texpr_sizes_h200.md``.
"""


STORED_LINE_BYTES, BLOCK_NS, ATOMIC_NS = 200.0, 0.61, 8.0
"""What a store of parts of sectors asks of the second-level cache for each line that it touches, in
bytes that are loaded meanwhile; nanoseconds from the start of one block to that of the next on any
multiprocessor; from one atomic operation of a warp on a line to the next.

Each from a probe of its own (``benchmarks/results/texpr_sizes_h200.md``).
"""


class BlockWork(NamedTuple):
    """What a block does, all its threads together, and what it takes of a multiprocessor."""

    threads: int
    shared_bytes: int
    registers: int
    """Of a thread."""
    instructions: float
    """Of all warps, those to memory among them."""
    product_cycles: float
    """In which a multiprocessor's tensor cores multiply."""
    wavefronts: float
    """Of shared memory, and lines of the first-level cache, which is one unit with it."""
    device_bytes: float
    """What it asks for of the second-level cache, which has it or not."""
    waits: float
    """How often its threads wait for device memory, one time after the other."""
    turns: float
    """How often they wait for each other."""
    atomic_turns: float = 0.0
    """Atomic operations of its warps on each line of device memory, one after the other."""

    def warps(self, target: Target) -> int:
        """The warps of a block."""
        return -(-self.threads // target.warp_size)


class KernelTime(NamedTuple):
    """An estimate, and what it is made of: nanoseconds, those of all waves of blocks together."""

    blocks: int
    resident: int
    """Blocks that share a multiprocessor."""
    waves: int
    issue: float
    products: float
    shared: float
    cache: float
    """Of what comes through the second-level cache."""
    waiting: float
    """Of each block for device memory, and of its threads for each other."""
    memory: float
    """Of what device memory delivers at least."""
    total: float

    def __str__(self) -> str:
        """What bounds it, in microseconds."""
        parts = (
            *(("issue", self.issue), ("products", self.products), ("shared memory", self.shared)),
            *(("cache", self.cache), ("waits", self.waiting), ("device memory", self.memory)),
        )
        said = ", ".join(f"{name} {time / 1000:.1f}" for name, time in parts)
        return f"{self.blocks} blocks, {self.resident} a multiprocessor, {self.waves} waves; {said}"


def estimate_mapped(work: BlockWork, blocks: int, new_bytes: float, target: Target) -> KernelTime:
    """Nanoseconds of a kernel of so many blocks, which move ``new_bytes`` of device memory."""
    resident = target.resident_blocks(blocks, work.threads, work.shared_bytes, work.registers)
    full, rest = divmod(blocks, resident * target.multiprocessors)
    rounds = [(full, resident), (1 if rest else 0, -(-rest // target.multiprocessors))]
    parts, total = [0.0] * 5, 0.0
    for times, together in rounds:
        if times:
            found = _cycles(work, together, target)
            *busy, waiting = found
            bound = side_by_side(*busy, power=IN_AN_ITERATION)
            total += times * side_by_side(bound, waiting + bound / together, power=IN_AN_ITERATION)
            parts = [one + times * more for one, more in zip(parts, found, strict=True)]
    memory = device_ns(new_bytes, target)
    whole = side_by_side(
        *(total / target.clock_ghz, memory, blocks * BLOCK_NS),
        blocks * work.atomic_turns * ATOMIC_NS,
        power=IN_AN_ITERATION,
    )
    issue, products, shared, cache, waiting = (one / target.clock_ghz for one in parts)
    waves = full + (1 if rest else 0)
    return KernelTime(
        *(blocks, resident, waves, issue, products, shared, cache, waiting, memory),
        LAUNCH_NS + whole,
    )


def _cycles(work: BlockWork, together: int, target: Target) -> tuple[float, ...]:
    """Cycles of so many blocks on a multiprocessor, by what bounds them; of each its waits."""
    warps = work.warps(target)
    # Each scheduler has its own warps.
    schedulers = target.schedulers_per_multiprocessor
    turns = -(-together * warps // schedulers)
    through_cache = CACHE_FACTOR * target.memory_bytes_per_ns / target.clock_ghz
    return (
        turns / warps * work.instructions,
        max(turns, PRODUCT_WARPS) / warps * work.product_cycles * schedulers,
        together * work.wavefronts,
        together * work.device_bytes / (through_cache / target.multiprocessors),
        work.waits * LOAD_NS * target.clock_ghz + work.turns * SHARED_LATENCY,
    )
