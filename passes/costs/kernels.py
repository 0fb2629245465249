"""How long a kernel of a given shape takes: an estimate to choose by.

A kernel is bound by what keeps it longest: device memory, the second-level cache, the copies that a
multiprocessor has under way, its tensor cores and other arithmetic, or one iteration after another.
Before that it must be launched and have its first tiles; after it the last tile is still computed.

Numbers without another source were fitted together to repartitions of the workloads of
``benchmarks/h200`` and to saved µGraphs on an H200: ``benchmarks/h200/retile_model.py`` compares
them with what was measured (``benchmarks/results/retile_model_h200.md``).  The estimate orders
partitions of one kernel; microseconds are right to some tenths.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.programming_model import GROUP_ROWS, WARPGROUP
from mugraph.passes.costs.memory import (
    BULK_BYTES_A_CYCLE,
    BULK_ROW_BYTES,
    CACHE_FACTOR,
    COPY_BYTES_A_CYCLE,
    copy_cycles,
    device_ns,
)
from mugraph.passes.costs.overlap import IN_A_KERNEL, side_by_side
from mugraph.passes.costs.products import group_cycles, instruction_cycles
from mugraph.passes.targets import Target

INSTRUCTION = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
"""What products are counted in, whoever computes them."""
LAUNCH_NS = 880.0
"""From one kernel's end to the next one's first load, and from its last store to its end."""
OVERLAP_NS = 1000.0
"""What is saved where a kernel is launched while the one before it ends; no script fits it."""
ITERATION_CYCLES, WARP_CYCLES = 70.0, 14.6
"""What an iteration takes beside its arithmetic, and for each warp that waits for the others."""
ISSUE_CYCLES = 150.0
"""What it takes besides where the threads that compute load, too."""
WITH_OPERANDS, GROUP_SLACK = 1.81, 1.1
"""How much longer products of warps take with the loads of their operands, and those of groups."""
ELEMENT_CYCLES = 3.0
"""Cycles of a thread for an element of an operator that is no product."""
CONVERSION_ISSUES = 2.0
"""Instructions for each element of few bits that becomes a factor of 16: its part of a load, of a
permutation, of masks and of an addition, as nvcc 13.0 makes them; no script fits it."""
SHARED_ARITHMETIC = 0.86
"""How much of its own time a block's arithmetic takes where blocks share a multiprocessor."""
MOST_STAGES = 8
"""Tiles of the loop under way: more than that bring nothing."""
CHAINED_VALUES = 64
"""Sums of such a product that a thread can keep in registers."""
MOST_SUMS = 128
"""Sums that a thread can keep in registers at all."""
CHAINED_ROWS = 16
"""Rows of it that a warp must have to itself to keep them there."""
THROUGH_MEMORY = 2.0
"""How much longer arithmetic takes where they go through shared memory."""
EXCHANGE_BARRIERS = 4
"""Barriers of a result that other threads need."""
CHAIN_BARRIERS = 3
"""Barriers of a block in each iteration in which they do: each waits for all warps."""
CHAIN_CYCLES = 450.0
"""From a product to one of what is computed of it: rows across lanes, operands put in place."""
ROW_VECTOR, MOST_ROW_VALUES = 8, 64
"""Elements of a row that a thread loads at once, and at most keeps."""
ROW_STEP_CYCLES = 18.0
"""What a warp takes for each of its steps along a row that it reduces alone (13 to 25 measured)."""
OTHER_REGISTERS = 72
"""Registers of a thread beside its sums."""
FEWEST_REGISTERS = 80
"""What a thread needs at least, to see how many blocks share a multiprocessor."""


def shares_rows(rows: int, length: int, threads: int) -> bool:
    """Whether threads of a block share rows evenly, each with its parts in registers."""
    vectors = max(length // ROW_VECTOR, 1)
    each = math.ceil(rows * vectors / threads)
    even = rows == 1 or vectors % threads == 0 or threads % vectors == 0
    return even and each * ROW_VECTOR <= MOST_ROW_VALUES


def conversion_cycles(target: Target) -> float:
    """Cycles of a multiprocessor for each element that its threads convert."""
    return CONVERSION_ISSUES / (target.warp_size * target.schedulers_per_multiprocessor)


class Load(NamedTuple):
    """A tile that a block loads."""

    bytes: int
    """Of one tile, in whole sectors."""
    tensor_bytes: int
    looped: bool
    row_bytes: int = BULK_ROW_BYTES
    """Of a row of the tile."""


class Loading(NamedTuple):
    """What all loads of a block take, however often its loop goes around."""

    loop_bytes: int
    """Of an iteration."""
    first_bytes: int
    """Of what is loaded once."""
    tensor_bytes: int
    cycles: tuple[tuple[bool, float, float], ...]
    """Of each: whether it is in the loop, and how long copies of threads and bulk copies take."""


@lru_cache(1 << 12)
def loading_of(loads: tuple[Load, ...]) -> Loading:
    """What so many loads take together; a kernel's are asked for under many numbers of blocks."""
    return Loading(
        sum(load.bytes for load in loads if load.looped),
        sum(load.bytes for load in loads if not load.looped),
        sum(load.tensor_bytes for load in loads),
        tuple(
            (
                load.looped,
                copy_cycles(load.bytes, load.row_bytes, bulk=False),
                copy_cycles(load.bytes, load.row_bytes, bulk=True),
            )
            for load in loads
        ),
    )


class Product(NamedTuple):
    """A matrix product of one iteration, or of the end of a kernel."""

    instructions: int
    """Of :data:`INSTRUCTION`, over all warps."""
    chain: int
    """How many add to the same sum."""
    group_rows: int = 0
    """Rows, where they are enough for warp groups to multiply tiles as they are loaded."""
    element: str = INSTRUCTION.a_type
    """The type of the operands, as the table of rates calls it."""
    promoted: bool = False
    """Whether threads add the sums of each iteration to those of the loop."""
    converted: int = 0
    """Elements that threads convert before they are multiplied."""

    @property
    def macs(self) -> int:
        """Multiply-adds in whole instructions."""
        return self.instructions * math.prod(INSTRUCTION.shape_mnk)


class PhaseWork(NamedTuple):
    """What a phase of a block computes."""

    products: tuple[Product, ...]
    elements: int
    """Elements that other operators compute, or sum over."""
    special: int = 0
    """Instructions of special function units, over all threads."""
    chained: int = 0
    """Products of what another product has given."""
    passed_on: tuple[int, int] = (0, 0)
    """Rows and columns of the largest product that another one takes what is computed of."""
    sums: int = 0
    """Sums of products, of all threads."""
    exchanges: int = 0
    """Operators whose results other threads need: they pass through shared memory."""
    rows: tuple[tuple[int, int], ...] = ()
    """How many rows each reduction of what is no product has, and of how many elements each."""

    def stays_in_registers(self, threads: int, warp_size: int) -> bool:
        """Whether what one product passes on to another can stay with the threads that have it."""
        rows, columns = self.passed_on
        few = rows * columns <= CHAINED_VALUES * threads
        return few and threads // warp_size * CHAINED_ROWS <= rows

    def is_of_groups(self, threads: int, target: Target) -> bool:
        """Whether warp groups multiply all its products, and pass nothing on."""
        return not self.chained and self.suits_groups(threads, target)

    def suits_groups(self, threads: int, target: Target) -> bool:
        """Whether warp groups multiply all its products, which bulk copies must bring."""
        groups = threads // target.warp_size // WARPGROUP
        return (
            target.multiplies_in_warpgroups
            and groups > 0
            and bool(self.products)
            and all(
                p.group_rows and p.group_rows % (groups * GROUP_ROWS) == 0 for p in self.products
            )
        )

    def cycles(self, threads: int, target: Target) -> float:
        """From its first instruction to its last, of a block that has a multiprocessor alone."""
        warp_size, schedulers = target.warp_size, target.schedulers_per_multiprocessor
        warps = max(threads // warp_size, 1)
        total = math.fsum(self._product_cycles(product, warps, target) for product in self.products)
        total += self.elements * ELEMENT_CYCLES / min(threads, schedulers * warp_size * 2)
        total += self.special / target.special_a_cycle
        total += self.exchanges * EXCHANGE_BARRIERS * WARP_CYCLES * warps
        total += sum(
            math.ceil(rows / warps) * length / warp_size * ROW_STEP_CYCLES
            for rows, length in self.rows
            if not shares_rows(rows, length, threads)
        )
        if self.chained and not self.stays_in_registers(threads, warp_size):
            total *= THROUGH_MEMORY
            total += CHAIN_BARRIERS * WARP_CYCLES * warps
        return total + self.chained * CHAIN_CYCLES

    @classmethod
    def _product_cycles(cls, product: Product, warps: int, target: Target) -> float:
        """Of one product, by warp groups where they can, else by warps."""
        converting = product.converted * conversion_cycles(target)
        return cls._multiplying_cycles(product, warps, target) + converting

    @staticmethod
    def _multiplying_cycles(product: Product, warps: int, target: Target) -> float:
        groups = warps // WARPGROUP
        if (
            target.multiplies_in_warpgroups
            and product.group_rows
            and groups
            and product.group_rows % (groups * GROUP_ROWS) == 0
        ):
            return GROUP_SLACK * group_cycles(product.macs, target, product.element)
        schedulers = min(warps, target.schedulers_per_multiprocessor)
        each = WITH_OPERANDS * instruction_cycles(INSTRUCTION, target)
        # Warps share the sums first, and then what is added to each.
        sums = max(product.instructions // max(product.chain, 1), 1)
        along = max(warps // sums, 1)
        one_after_another = product.chain / along * target.mma_latency
        return max(product.instructions * each / schedulers, one_after_another)


class KernelShape(NamedTuple):
    """What an estimate needs of a kernel under a partition."""

    blocks: int
    threads: int
    iterations: int
    loads: tuple[Load, ...]
    loop: PhaseWork
    after: PhaseWork
    stored_bytes: int
    """By one block."""
    kept_bytes: int
    """Shared memory beside the tiles of the loop, where products stay in registers."""
    passed_bytes: int = 0
    """What it takes besides where they do not."""
    share: float = 1.0
    """The part of its iterations that blocks run; masks leave nothing of the others."""

    @property
    def turns(self) -> float:
        """How many iterations a block runs, on average."""
        return self.share * self.iterations

    def fixed_bytes(self, warp_size: int) -> int:
        """Shared memory beside the tiles of the loop."""
        if not self.loop.chained or self.loop.stays_in_registers(self.threads, warp_size):
            return self.kept_bytes
        return self.kept_bytes + self.passed_bytes

    def copy_cycles(self, *, bulk: bool) -> float:
        """Cycles of a multiprocessor for what a block loads."""
        return math.fsum(
            [
                (self.turns if looped else 1) * (by_bulk if bulk else by_threads)
                for looped, by_threads, by_bulk in self.loading.cycles
            ]
        )

    def prefers_bulk(self, target: Target) -> bool:
        """Whether bulk copies bring its tiles faster than copies of all threads.

        What warp groups multiply they bring in any case.  What single warps convert they do not:
        with 8192 x 8192 weights that took 18.4 us and not 15.0 (1 row, 4 bits), 23.1 and not 16.3
        (16 rows), 36.5 and not 22.5 (16 rows, 8 bits), on an H200.
        """
        if target.bulk_bytes_in_flight is None:
            return False
        by_groups = self.loop.suits_groups(self.threads, target)
        if by_groups or any(product.converted for product in self.loop.products):
            return by_groups
        return self.copy_cycles(bulk=True) <= self.copy_cycles(bulk=False)

    def divided(self, split: int) -> KernelShape:
        """The kernel with its loop divided over so many blocks."""
        if split == 1:
            return self
        # What masks leave is in few of the parts: their blocks take the longest.
        share = min(self.share * split, 1.0)
        blocks, iterations = self.blocks * split, self.iterations // split
        return self._replace(blocks=blocks, iterations=iterations, share=share)

    @property
    def loading(self) -> Loading:
        """What its loads take."""
        return loading_of(self.loads)

    @property
    def loop_bytes(self) -> int:
        """What an iteration loads."""
        return self.loading.loop_bytes


def stages_of(shape: KernelShape, target: Target) -> int | None:
    """How many tiles of the loop are under way; ``None`` where not even two fit."""
    free = target.shared_memory_per_block - shape.fixed_bytes(target.warp_size)
    loop_bytes = shape.loop_bytes
    if shape.iterations == 1 or not loop_bytes:
        return 1 if free >= loop_bytes else None
    wanted = target.bulk_bytes_in_flight or 2 * target.bytes_in_flight_per_multiprocessor()
    most = int(free // loop_bytes)
    stages = max(min(math.ceil(wanted / loop_bytes) + 1, MOST_STAGES, most, shape.iterations), 0)
    return stages if stages >= 2 else None


def sums_of_a_thread(threads: int, target: Target) -> int:
    """How many sums of products a thread can keep in registers, of a block of so many."""
    registers = target.registers_per_multiprocessor // (threads + target.warp_size)
    return min(MOST_SUMS, max(registers - OTHER_REGISTERS, registers // 2))


def estimate(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds that a kernel takes; ``None`` where its tiles or sums do not fit a block."""
    stages = stages_of(shape, target)
    # What the loop has summed is kept while products after it are computed.
    sums = shape.loop.sums + shape.after.sums
    if stages is None or sums > sums_of_a_thread(shape.threads, target) * shape.threads:
        return None
    clock = target.clock_ghz
    loop_bytes, first_bytes, tensor_bytes, _ = shape.loading
    memory = shape.fixed_bytes(target.warp_size) + stages * loop_bytes
    registers = max(FEWEST_REGISTERS, shape.loop.sums // shape.threads + OTHER_REGISTERS)
    resident = target.resident_blocks(shape.blocks, shape.threads, memory, registers)
    rounds = math.ceil(shape.blocks / (target.multiprocessors * resident))
    busiest = math.ceil(shape.blocks / target.multiprocessors)
    one_block = shape.turns * loop_bytes + first_bytes
    # What all blocks load; tensors that are loaded often come from the cache.
    device = tensor_bytes + shape.blocks * shape.stored_bytes
    cached = shape.blocks * (one_block + shape.stored_bytes)
    bulk = shape.prefers_bulk(target)
    rate = (BULK_BYTES_A_CYCLE if bulk else COPY_BYTES_A_CYCLE) * clock
    copies = busiest * shape.copy_cycles(bulk=bulk) / clock
    iteration = shape.loop.cycles(shape.threads, target)
    after = shape.after.cycles(shape.threads, target)
    # A tile's place is taken while the tile is fetched and used, and each stage is one.
    warps = shape.threads / target.warp_size
    issue = 0.0 if bulk else ISSUE_CYCLES
    turn = (iteration + ITERATION_CYCLES + WARP_CYCLES * warps + issue) / clock
    fetch = target.memory_latency_ns + resident * loop_bytes / rate
    # The first of them are there when the kernel has been filled.
    later = max(shape.turns - stages, 0) if loop_bytes else 0
    ring = rounds * later * (fetch + turn) / stages
    # Blocks that share a multiprocessor hide each other's waits, and little of the arithmetic.
    in_turn = rounds * shape.turns * turn
    shared = SHARED_ARITHMETIC if min(busiest, resident) > 1 else 1.0
    arithmetic = shared * busiest * (shape.turns * iteration + after) / clock
    bound = side_by_side(
        device_ns(device, target),
        device_ns(cached, target) / CACHE_FACTOR,
        copies,
        ring,
        in_turn,
        arithmetic,
        power=IN_A_KERNEL,
    )
    # What later blocks wait for besides is among the bytes of all.
    fill = (loop_bytes + first_bytes) / rate
    drain = (iteration + after) / clock
    # Persistent blocks load the next work tile while they are at the end of this one.
    starts = 1 if shape.loop.is_of_groups(shape.threads, target) else rounds
    return LAUNCH_NS + fill + starts * (target.memory_latency_ns + drain) + bound
