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
from mugraph.dialects.programming_model import (
    GROUP_ROWS,
    GROUP_THREADS,
    MAX_THREAD_REGISTERS,
    MAX_THREADS,
    REGISTER_BYTES,
    REGISTER_STEP,
    WARPGROUP,
)
from mugraph.passes.costs.memory import (
    BULK_BYTES_A_CYCLE,
    BULK_ROW_BYTES,
    CACHE_FACTOR,
    COPY_BYTES_A_CYCLE,
    TURN_NS,
    copy_cycles,
    device_ns,
    shared_cycles,
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
STEP_BYTES = 32
"""Of a row, or column, in an instruction of a warp group."""
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
CHAIN_REGISTERS, LOADING_REGISTERS = 36, 40
"""The same where warp groups pass on what they multiply; those of a thread that loads for them."""
FEWEST_REGISTERS = 80
"""What a thread needs at least, to see how many blocks share a multiprocessor."""
WORKING_REGISTERS = 24
"""The same beside tiles of kernels without products, as ptxas compiles them."""
HELD_BYTES_A_CYCLE, HELD_LANES, HELD_CYCLES, BLOCK_NS, HELD_POWER = 100.0, 128, 2.0, 55.0, 3.0
"""What threads load to registers and store, how many of them compute at once, how long an element
takes each, what a block takes from its launch to its first load, and how little all of that is in
each other's way, as :data:`IN_A_KERNEL`.  With :data:`WARP_CYCLES` for each meeting of warps they
were fitted to 114 kernels of rows of 512 to 32,000 columns on an H200; no script is kept."""
ALONE = 1.3
"""How much longer blocks wait that have a multiprocessor alone, one after another (1.1 to 1.4)."""
SEVERAL_VALUES, SEVERAL_ROWS = 16, 1.3
"""Values of a thread that has several rows, and how much longer more of them take (1.1 to 1.4)."""


def shares_rows(rows: int, length: int, threads: int) -> bool:
    """Whether threads of a block share rows evenly, each with its parts in registers."""
    vector = math.gcd(length, ROW_VECTOR)
    vectors = length // vector
    each = math.ceil(rows * vectors / threads)
    even = rows == 1 or vectors % threads == 0 or threads % vectors == 0
    return even and each * vector <= MOST_ROW_VALUES


class Held(NamedTuple):
    """The tiles of a kernel without a loop and products, where threads can hold them."""

    peak_bytes: int
    """Of all that is needed at one time."""
    staged_bytes: int
    """Of tiles that are broadcast, which stay in shared memory."""
    largest: int
    """Elements of a tile at most."""

    def registers(self, threads: int, target: Target) -> int | None:
        """What a thread needs; ``None`` where a block's threads have not so many."""
        most = target.registers_per_multiprocessor // threads
        needed = WORKING_REGISTERS + math.ceil(self.peak_bytes / REGISTER_BYTES / threads)
        fits = needed <= most and self.largest <= MOST_ROW_VALUES * threads
        return needed if fits else None


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
    columns: int = 0
    """Of a product in a chain of them."""
    passed_on: bool = False
    """Whether its left matrix is what another product passes on."""
    converted: int = 0
    """Elements that threads convert before they are multiplied."""

    @property
    def macs(self) -> int:
        """Multiply-adds in whole instructions."""
        return self.instructions * math.prod(INSTRUCTION.shape_mnk)

    def fills_groups(self, groups: int = 1) -> bool:
        """Whether so many warp groups have whole instructions of it."""
        return self.group_rows > 0 and self.group_rows % (groups * GROUP_ROWS) == 0


def operand_cycles(product: Product, target: Target) -> float:
    """Cycles in which shared memory brings the operands of a chain's product to warp groups.

    Each instruction reads its columns, and 64 rows that are not in registers.
    """
    lines = product.columns + (0 if product.passed_on else GROUP_ROWS) if product.columns else 0
    steps = product.group_rows // GROUP_ROWS * product.chain
    return shared_cycles(steps * lines * STEP_BYTES, target)


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
            and all(product.fills_groups(groups) for product in self.products)
        )

    def element_cycles(self, threads: int, target: Target) -> float:
        """Of what is computed that is no product."""
        lanes = min(threads, target.schedulers_per_multiprocessor * target.warp_size * 2)
        return self.elements * ELEMENT_CYCLES / lanes

    def by_warps(self) -> PhaseWork:
        """The same where single warps multiply."""
        return self._replace(products=tuple(p._replace(group_rows=0) for p in self.products))

    def cycles(self, threads: int, target: Target) -> float:
        """From its first instruction to its last, of a block that has a multiprocessor alone."""
        warp_size = target.warp_size
        warps = max(threads // warp_size, 1)
        total = math.fsum(self._product_cycles(product, warps, target) for product in self.products)
        total += self.element_cycles(threads, target)
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
        if target.multiplies_in_warpgroups and groups and product.fills_groups(groups):
            cycles = GROUP_SLACK * group_cycles(product.macs, target, product.element)
            return max(cycles, operand_cycles(product, target))
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
    held: Held | None = None
    """What threads hold where there is neither a loop nor a product."""

    def held_registers(self, target: Target) -> int | None:
        """Registers of a thread that holds its part of all tiles; ``None`` where it cannot."""
        rows = (*self.loop.rows, *self.after.rows)
        if self.held is None or not all(shares_rows(*row, self.threads) for row in rows):
            return None
        return self.held.registers(self.threads, target)

    @property
    def passed_on(self) -> tuple[int, int]:
        """Rows and columns of the largest product that another one takes what is computed of."""
        return max(self.loop.passed_on, self.after.passed_on, key=math.prod)

    def is_chain_of_groups(self, target: Target) -> bool:
        """Whether warp groups multiply all, of which something is passed on in registers."""
        phases = [work for work in (self.loop, self.after) if work.products]
        return any(work.chained for work in phases) and all(
            work.suits_groups(self.threads, target) for work in phases
        )

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


def _held_estimate(shape: KernelShape, held: Held, registers: int, target: Target) -> float:
    """Nanoseconds of a kernel whose threads load their parts of tiles, compute and store them.

    Blocks that share a multiprocessor hide what each waits for: its loads, and other warps.
    """
    clock = target.clock_ghz
    _, loaded, tensor_bytes, _ = shape.loading
    resident = target.resident_blocks(shape.blocks, shape.threads, held.staged_bytes, registers)
    rounds = math.ceil(shape.blocks / (target.multiprocessors * resident))
    busiest = math.ceil(shape.blocks / target.multiprocessors)
    rate = HELD_BYTES_A_CYCLE * clock
    rows = (*shape.loop.rows, *shape.after.rows)
    meetings = sum(length > target.warp_size * ROW_VECTOR for _, length in rows)
    elements = shape.loop.elements + shape.after.elements
    work = elements * HELD_CYCLES / min(shape.threads, HELD_LANES)
    work += (shape.loop.special + shape.after.special) / target.special_a_cycle
    meeting = meetings * WARP_CYCLES * shape.threads / target.warp_size
    moved = loaded + shape.stored_bytes
    block = moved / rate + (work + meeting) / clock
    waits = (rounds - 1) * target.memory_latency_ns + rounds * block
    if resident == 1 and rounds > 1:
        waits *= ALONE
    shared = SHARED_ARITHMETIC if min(busiest, resident) > 1 else 1.0
    bound = side_by_side(
        device_ns(tensor_bytes + shape.blocks * shape.stored_bytes, target),
        device_ns(shape.blocks * moved, target) / CACHE_FACTOR,
        busiest * moved / rate,
        waits,
        busiest * (shared * work / clock + BLOCK_NS),
        power=HELD_POWER,
    )
    if held.largest > SEVERAL_VALUES * shape.threads and any(count > 1 for count, _ in rows):
        bound *= SEVERAL_ROWS
    return LAUNCH_NS + target.memory_latency_ns + bound


def chained_sums_of_a_thread(threads: int, target: Target) -> int:
    """The same of warp groups that pass sums on in registers; what is passed on counts half again.

    They have what the threads that load leave.  0 where registers stay where they are.
    """
    if not target.moves_registers or threads % GROUP_THREADS:
        return 0
    left = target.registers_per_multiprocessor - LOADING_REGISTERS * GROUP_THREADS
    most = min(left // threads, MAX_THREAD_REGISTERS)
    return most // REGISTER_STEP * REGISTER_STEP - CHAIN_REGISTERS


def fits_registers(shape: KernelShape, target: Target) -> bool:
    """Whether the threads of a block have registers for its sums."""
    # What the loop has summed is kept while products after it are computed.
    sums, threads = shape.loop.sums + shape.after.sums, shape.threads
    if sums <= sums_of_a_thread(threads, target) * threads:
        return True
    passed_on = math.prod(shape.passed_on)
    fits = sums + passed_on // 2 <= chained_sums_of_a_thread(threads, target) * threads
    return fits and shape.is_chain_of_groups(target)


def resident_blocks(shape: KernelShape, stages: int, target: Target) -> int:
    """How many blocks share a multiprocessor."""
    memory = shape.fixed_bytes(target.warp_size) + stages * shape.loop_bytes
    threads = shape.threads
    registers = shape.loop.sums // threads + OTHER_REGISTERS
    if shape.is_chain_of_groups(target):
        # A warp group beside them loads.
        sums = shape.loop.sums + shape.after.sums + math.prod(shape.passed_on) // 2
        registers = sums // threads + CHAIN_REGISTERS + LOADING_REGISTERS * GROUP_THREADS // threads
    return target.resident_blocks(shape.blocks, threads, memory, max(FEWEST_REGISTERS, registers))


def estimate(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds that a kernel takes; ``None`` where its tiles or sums do not fit a block."""
    held = shape.held_registers(target)
    if shape.held is not None and held is not None:
        return _held_estimate(shape, shape.held, held, target)
    stages = stages_of(shape, target)
    if stages is None or not fits_registers(shape, target):
        return None
    clock = target.clock_ghz
    loop_bytes, first_bytes, tensor_bytes, _ = shape.loading
    resident = resident_blocks(shape, stages, target)
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
    # What no block has loaded before comes from device memory.
    new = min(tensor_bytes / max(shape.blocks * one_block, 1), 1.0)
    latency = TURN_NS + new * (target.memory_latency_ns - TURN_NS)
    fetch = latency + resident * loop_bytes / rate
    # The first of them are there when the kernel has been filled.
    later = max(shape.turns - stages, 0) if loop_bytes else 0
    ring = rounds * later * (fetch + turn) / stages
    # Blocks that share a multiprocessor hide each other's waits, and little of the arithmetic.
    in_turn = rounds * shape.turns * turn
    shared = SHARED_ARITHMETIC if min(busiest, resident) > 1 else 1.0
    # What is computed between the products of a long chain takes no longer for being of few
    # threads: others multiply meanwhile.
    each = iteration
    if shape.loop.chained and shape.turns > stages:
        each -= shape.loop.element_cycles(shape.threads, target)
        each += shape.loop.element_cycles(MAX_THREADS, target)
    arithmetic = shared * busiest * (shape.turns * each + after) / clock
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
