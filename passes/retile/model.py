"""How long a kernel takes under a partition: an estimate to choose by.

A kernel is bound by what keeps it longest: device memory, the second-level cache, the copies that a
multiprocessor has under way, its tensor cores and other arithmetic, or one iteration after another.
Before that it must be launched and have its first tiles; after it the last tile is still computed.
The numbers below are fitted to repartitions of the workloads of ``benchmarks/h200`` and to saved
µGraphs on an H200.  It orders partitions of one kernel; microseconds are right to some tenths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.elementwise import BINARY_FUNCTIONS, UNARY_FUNCTIONS
from mugraph.dialects.interfaces import HasTileIndices, IndexKind, TileIndex
from mugraph.dialects.kn import Phase, phases_of
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.passes.retile.dimensions import TileSpace
from mugraph.passes.retile.partition import Partition
from mugraph.passes.targets import Target

LAUNCH_NS = 880.0
"""From one kernel's end to the next one's first load, and from its last store to its end."""
ITERATION_CYCLES, WARP_CYCLES = 70.0, 14.6
"""What an iteration takes beside its arithmetic, and for each warp that waits for the others."""
ISSUE_CYCLES = 150.0
"""What it takes besides where the threads that compute load, too."""
MMA_SHAPE = (16, 8, 16)
MMA_CYCLES, MMA_LATENCY = 12.0, 33.0
"""Cycles of one warp from an instruction to the next, and to one that adds to the same sums."""
GROUP_SHAPE, GROUP_WARPS = (64, 8), 4
"""Rows and columns of what a warp group multiplies, and its warps."""
GROUP_CYCLES = 4.4
"""Cycles of a warp from such a part of a group's product to the next, of as many operations."""
ELEMENT_CYCLES = 3.0
"""Cycles of a thread for an element of an operator that is no product."""
SPECIAL_A_CYCLE = 16
"""Exponentials, roots and quotients that a multiprocessor computes in a cycle."""
SHARED_ARITHMETIC = 0.86
"""How much of its own time a block's arithmetic takes where blocks share a multiprocessor."""
CHAINED_VALUES = 64
"""Sums of such a product that a thread can keep in registers."""
MOST_SUMS = 128
"""Sums that a thread can keep in registers at all."""
CHAINED_ROWS = 16
"""Rows of it that a warp must have to itself to keep them there."""
THROUGH_MEMORY = 2.0
"""How much longer arithmetic takes where they go through shared memory."""
EXCHANGE_BARRIERS, WHOLE_STEPS = 4, 3
"""Barriers of a result that other threads need; steps of an operator on whole rows, as a norm."""
CHAIN_BARRIERS = 3
"""Barriers of a block in each iteration in which they do: each waits for all warps."""
CHAIN_CYCLES = 450.0
"""From a product to one of what is computed of it: rows across lanes, operands put in place."""
SECTOR_BYTES = 32
"""What is fetched at least of each row of a tile."""
CACHE_FACTOR = 1.8
"""What all multiprocessors load together, in parts of what device memory delivers at most.

Tiles that many blocks load come from the second-level cache, but on the same way.
"""
COPY_BYTES_A_CYCLE, BULK_BYTES_A_CYCLE = 36.0, 45.6
"""What a multiprocessor loads at most, by 16-byte copies of threads and by bulk copies."""
BULK_ROW_BYTES, COPY_ROW_BYTES = 128, 64
"""Bytes of a row that a bulk copy moves at a time, and that copies of threads should have."""
TOGETHER = 10.7
"""How little things that happen side by side are in each other's way: the power they are added in.

The larger, the closer they come to taking what the longest of them takes.
"""
OTHER_REGISTERS = 72
"""Registers of a thread beside its sums."""
FEWEST_REGISTERS = 80
"""What a thread needs at least, to see how many blocks share a multiprocessor."""


@dataclass(frozen=True)
class Load:
    """A tile that a block loads."""

    bytes: int
    """Of one tile, in whole sectors."""
    tensor_bytes: int
    looped: bool
    row_bytes: int = BULK_ROW_BYTES
    """Of a row of the tile."""

    def cycles(self, *, bulk: bool) -> float:
        """Of a multiprocessor that loads it: each part of a row takes as long as a whole one.

        Parts are as long as the rows of a swizzle that divide the tile's rows.
        """
        part = math.gcd(self.row_bytes, BULK_ROW_BYTES)
        if bulk:
            return self.bytes * BULK_ROW_BYTES / part / BULK_BYTES_A_CYCLE
        return self.bytes * max(COPY_ROW_BYTES / part, 1.0) / COPY_BYTES_A_CYCLE


@dataclass(frozen=True)
class Product:
    """A matrix product of one iteration, or of the end of a kernel."""

    instructions: int
    """Of the tensor cores, over all warps."""
    chain: int
    """How many add to the same sum."""
    group_rows: int = 0
    """Rows, where they are enough for warp groups to multiply tiles as they are loaded."""


@dataclass(frozen=True)
class Work:
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

    def stays_in_registers(self, threads: int, warp_size: int) -> bool:
        """Whether what one product passes on to another can stay with the threads that have it."""
        rows, columns = self.passed_on
        few = rows * columns <= CHAINED_VALUES * threads
        return few and threads // warp_size * CHAINED_ROWS <= rows

    def is_of_groups(self, threads: int, target: Target) -> bool:
        """Whether warp groups multiply all its products, and pass nothing on."""
        groups = threads // target.warp_size // GROUP_WARPS
        return (
            target.multiplies_in_warpgroups
            and groups > 0
            and not self.chained
            and bool(self.products)
            and all(
                p.group_rows and p.group_rows % (groups * GROUP_SHAPE[0]) == 0
                for p in self.products
            )
        )

    def cycles(self, threads: int, target: Target) -> float:
        """From its first instruction to its last, of a block that has a multiprocessor alone."""
        warp_size, schedulers = target.warp_size, target.schedulers_per_multiprocessor
        warps = max(threads // warp_size, 1)
        total = 0.0
        for product in self.products:
            groups = warps // GROUP_WARPS
            if (
                target.multiplies_in_warpgroups
                and product.group_rows
                and groups
                and product.group_rows % (groups * GROUP_SHAPE[0]) == 0
            ):
                total += product.instructions * GROUP_CYCLES / schedulers
                continue
            busy = product.instructions * MMA_CYCLES / min(warps, schedulers)
            # Warps share the sums first, and then what is added to each.
            sums = max(product.instructions // max(product.chain, 1), 1)
            along = max(warps // sums, 1)
            total += max(busy, product.chain / along * MMA_LATENCY)
        total += self.elements * ELEMENT_CYCLES / min(threads, schedulers * warp_size * 2)
        total += self.special / SPECIAL_A_CYCLE
        total += self.exchanges * EXCHANGE_BARRIERS * WARP_CYCLES * warps
        if self.chained and not self.stays_in_registers(threads, warp_size):
            total *= THROUGH_MEMORY
            total += CHAIN_BARRIERS * WARP_CYCLES * warps
        return total + self.chained * CHAIN_CYCLES


@dataclass(frozen=True)
class KernelShape:
    """What an estimate needs of a kernel under a partition."""

    blocks: int
    threads: int
    iterations: int
    loads: tuple[Load, ...]
    loop: Work
    after: Work
    stored_bytes: int
    """By one block."""
    kept_bytes: int
    """Shared memory beside the tiles of the loop, where products stay in registers."""
    passed_bytes: int = 0
    """What it takes besides where they do not."""

    def fixed_bytes(self, warp_size: int) -> int:
        """Shared memory beside the tiles of the loop."""
        if not self.loop.chained or self.loop.stays_in_registers(self.threads, warp_size):
            return self.kept_bytes
        return self.kept_bytes + self.passed_bytes

    def copy_cycles(self, *, bulk: bool) -> float:
        """Cycles of a multiprocessor for what a block loads."""
        return math.fsum(
            (self.iterations if load.looped else 1) * load.cycles(bulk=bulk) for load in self.loads
        )

    def prefers_bulk(self, target: Target) -> bool:
        """Whether bulk copies bring its tiles faster than copies of all threads.

        What warp groups multiply they bring in any case.
        """
        if target.bulk_bytes_in_flight is None:
            return False
        by_groups = self.loop.is_of_groups(self.threads, target)
        return by_groups or self.copy_cycles(bulk=True) <= self.copy_cycles(bulk=False)

    @property
    def loop_bytes(self) -> int:
        """What an iteration loads."""
        return sum(load.bytes for load in self.loads if load.looped)

    @property
    def first_bytes(self) -> int:
        """What is loaded once."""
        return sum(load.bytes for load in self.loads if not load.looped)


def tile_shape_of(space: TileSpace, partition: Partition, value: SSAValue) -> tuple[int, ...]:
    """A tile's extents under a partition."""
    shape = list(shape_of(value.type))
    for dim, number in enumerate(space.numbers[value]):
        if number is not None and not space.dimensions[number].fixed:
            shape[dim] = partition.split(number, space.dimensions[number].extent).tile
    return tuple(shape)


def _sector_bytes(shape: Sequence[int], element_bytes: int) -> int:
    row = -(-shape[-1] * element_bytes // SECTOR_BYTES) * SECTOR_BYTES
    return math.prod(shape[:-1]) * row


def _padded(extent: int, multiple: int) -> int:
    return -(-extent // multiple)


def product_index(op: Operation) -> TileIndex | None:
    """The index that a product of two tiles is summed over; ``None`` for other operators."""
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.AccumulatorOp):
        return None
    for index in op.tile_indices():
        if index.kind is IndexKind.SUMMED and sum(dim is not None for dim in index.operands) > 1:
            return index
    return None


def _work(space: TileSpace, partition: Partition, operators: Iterable[Operation]) -> Work:
    products: list[Product] = []
    elements = special = chained = sums = exchanges = 0
    derived: dict[SSAValue, tuple[int, int]] = {}
    passed_on = (0, 0)
    for op in operators:
        if not isinstance(op, HasTileIndices):
            continue
        tiles = [tile_shape_of(space, partition, value) for value in op.operands]
        sources = [derived[value] for value in op.operands if value in derived]
        if product_index(op) is not None:
            chained += bool(sources)
            passed_on = max([passed_on, *sources], key=math.prod)
            sources = [(tiles[0][-2], tiles[-1][-1])]
        if sources:
            derived.update(dict.fromkeys(op.results, sources[0]))
        if product_index(op) is not None:
            rows, columns = tiles[0][-2], tiles[-1][-1]
            m, n, k = MMA_SHAPE
            for lhs, rhs in matrices_of(op):
                steps = _padded(tile_shape_of(space, partition, lhs)[-1], k)
                count = math.prod(tiles[0][:-2]) * _padded(rows, m) * _padded(columns, n) * steps
                for_groups = _is_for_groups(lhs, rhs) and columns % GROUP_SHAPE[1] == 0
                products.append(Product(count, steps, rows if for_groups else 0))
            sums += math.prod(tiles[0][:-1]) * columns
        elif not (isinstance(op, tb.AccumulatorOp) and summed_by_product(op)):
            count = max(math.prod(shape) for shape in tiles)
            steps = WHOLE_STEPS if _makes_whole_rows(op) else 1
            exchanges += steps > 1
            elements += count * steps
            special += count * special_of(op)
    return Work(tuple(products), elements, special, chained, passed_on, sums, exchanges)


def _makes_whole_rows(op: Operation) -> bool:
    """Whether an operator makes of whole rows tiles of the same extents, as a norm."""
    return isinstance(op, HasTileIndices) and any(
        index.kind is IndexKind.WHOLE and index.result is not None for index in op.tile_indices()
    )


def special_of(op: Operation) -> int:
    """The instructions of special function units that an operator takes for an element."""
    if not isinstance(op, tb.UnaryOp | tb.BinaryOp):
        return 0
    return {**UNARY_FUNCTIONS, **BINARY_FUNCTIONS}[op.FUNCTION].special


def matrices_of(op: Operation) -> Sequence[tuple[SSAValue, SSAValue]]:
    """The pairs of matrices whose products an operator adds up."""
    if isinstance(op, tb.ConcatThenMatmulOp):
        return op.products()
    lhs, rhs = op.operands
    return [(lhs, rhs)]


def _is_for_groups(lhs: SSAValue, rhs: SSAValue) -> bool:
    """Whether warp groups could multiply two matrices as they are.

    They read a right matrix from shared memory, as it is loaded.  The left one is loaded, too, or
    is in registers: what another product gives, or what is computed once, before the loop.
    """
    return isinstance(rhs.owner, tb.InputOp) and (
        isinstance(lhs.owner, tb.InputOp) or _is_of_product(lhs) or _is_the_same(lhs)
    )


def _is_of_product(value: SSAValue) -> bool:
    """Whether a tile is what is computed, element by element, of one product."""
    op = value.owner
    while isinstance(op, Operation) and product_index(op) is None and len(op.operands) == 1:
        op = op.operands[0].owner
    return isinstance(op, Operation) and product_index(op) is not None


def summed_by_product(op: tb.AccumulatorOp) -> bool:
    """Whether an accumulator keeps what a product adds up anyway."""
    source = op.operands[0].owner
    is_product = isinstance(source, Operation) and product_index(source) is not None
    return is_product and op.adds and not op.reduces_last()


def shape_under(space: TileSpace, partition: Partition) -> KernelShape:
    """What a kernel is under a partition."""
    loads: list[Load] = []
    kept = passed = stored = 0
    # Products, and what is computed of them, are in registers, where there are enough.
    of_products: set[SSAValue] = set()
    phases = phases_of(space.graph.body.block)
    for op in phases:
        if isinstance(op, tb.InputOp):
            shape = tile_shape_of(space, partition, op.result)
            size = element_bytes_of(op.result.type)
            numbers = space.numbers[op.result]
            looped = any(n is not None and partition.cuts[n].looped for n in numbers)
            tensor = math.prod(shape_of(op.dtensor.type)) * size
            loads.append(Load(_sector_bytes(shape, size), tensor, looped, shape[-1] * size))
            kept += 0 if looped else math.prod(shape) * size
        elif isinstance(op, tb.OutputOp):
            shape = tile_shape_of(space, partition, op.stensor)
            stored += math.prod(shape) * element_bytes_of(op.dtensor_type)
        else:
            results = [tile_shape_of(space, partition, value) for value in op.results]
            size = sum(math.prod(shape) * 2 for shape in results)
            if product_index(op) is not None or of_products.intersection(op.operands):
                of_products.update(op.results)
                passed += size
            else:
                kept += size
    once = [op for op in phases if op.results and all(map(_is_the_same, op.results))]
    loop = [op for op, phase in phases.items() if phase is Phase.LOOP and op not in once]
    after = [op for op, phase in phases.items() if phase is Phase.AFTER or op in once]
    return KernelShape(
        math.prod(partition.grid),
        math.prod(partition.block),
        partition.forloop,
        tuple(loads),
        _work(space, partition, loop),
        _work(space, partition, after),
        stored,
        kept,
        passed,
    )


def _is_the_same(value: SSAValue) -> bool:
    """Whether a tile is the same in each iteration: loaded once, or computed of what is."""
    op = value.owner
    if isinstance(op, tb.InputOp):
        return op.loop_dim < 0
    if not isinstance(op, Operation) or isinstance(op, tb.AccumulatorOp):
        return False
    return bool(op.operands) and all(map(_is_the_same, op.operands))


def stages_of(shape: KernelShape, target: Target) -> int | None:
    """How many tiles of the loop are under way; ``None`` where not even two fit."""
    free = target.shared_memory_per_block - shape.fixed_bytes(target.warp_size)
    if shape.iterations == 1 or not shape.loop_bytes:
        return 1 if free >= shape.loop_bytes else None
    wanted = target.bulk_bytes_in_flight or 2 * target.bytes_in_flight_per_multiprocessor()
    most = int(free // shape.loop_bytes)
    stages = max(min(math.ceil(wanted / shape.loop_bytes) + 1, 8, most, shape.iterations), 0)
    return stages if stages >= 2 else None


def sums_of_a_thread(shape: KernelShape, target: Target) -> int:
    """How many sums of products a thread of a kernel can keep in registers."""
    registers = target.registers_per_multiprocessor // (shape.threads + target.warp_size)
    return min(MOST_SUMS, max(registers - OTHER_REGISTERS, registers // 2))


def longest(*times: float) -> float:
    """What several things take that happen side by side: a little more than the longest of them."""
    return sum(time**TOGETHER for time in times) ** (1 / TOGETHER)


def estimate(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds that a kernel takes; ``None`` where its tiles or sums do not fit a block."""
    stages = stages_of(shape, target)
    if stages is None or shape.loop.sums > sums_of_a_thread(shape, target) * shape.threads:
        return None
    clock = target.clock_ghz
    memory = shape.fixed_bytes(target.warp_size) + stages * shape.loop_bytes
    registers = max(FEWEST_REGISTERS, shape.loop.sums // shape.threads + OTHER_REGISTERS)
    resident = target.resident_blocks(shape.blocks, shape.threads, memory, registers)
    rounds = math.ceil(shape.blocks / (target.multiprocessors * resident))
    busiest = math.ceil(shape.blocks / target.multiprocessors)
    one_block = shape.iterations * shape.loop_bytes + shape.first_bytes
    # What all blocks load; tensors that are loaded often come from the cache.
    device = sum(load.tensor_bytes for load in shape.loads) + shape.blocks * shape.stored_bytes
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
    fetch = target.memory_latency_ns + resident * shape.loop_bytes / rate
    # The first of them are there when the kernel has been filled.
    later = max(shape.iterations - stages, 0) if shape.loop_bytes else 0
    ring = rounds * later * (fetch + turn) / stages
    # Blocks that share a multiprocessor hide each other's waits, and little of the arithmetic.
    in_turn = rounds * shape.iterations * turn
    shared = SHARED_ARITHMETIC if min(busiest, resident) > 1 else 1.0
    arithmetic = shared * busiest * (shape.iterations * iteration + after) / clock
    bound = longest(
        device / target.memory_bytes_per_ns,
        cached / (target.memory_bytes_per_ns * CACHE_FACTOR),
        copies,
        ring,
        in_turn,
        arithmetic,
    )
    tile = shape.loop_bytes + shape.first_bytes
    fill = target.memory_latency_ns + tile / rate
    drain = (iteration + after) / clock
    # Persistent blocks load the next work tile while they are at the end of this one.
    starts = 1 if shape.loop.is_of_groups(shape.threads, target) else rounds
    return LAUNCH_NS + starts * (fill + drain) + bound
