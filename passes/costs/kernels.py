"""How long a kernel of a given shape takes: an estimate to choose by.

A kernel is bound by what keeps it longest: device memory, the second-level cache, the copies that a
multiprocessor has under way, its tensor cores and other arithmetic, or one iteration after another.
Before that it must be launched and have its first tiles; after it the last tile is still computed.

Numbers without another source were fitted together to repartitions of the workloads of
``benchmarks/h200`` and to saved µGraphs on an H200; ``benchmarks/results/retile_model_h200.md``
compares them with what was measured.  The estimate orders partitions of one kernel; microseconds
are right to some tenths.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from mugraph.dialects.programming_model import (
    GROUP_THREADS,
    MAX_THREADS,
    REGISTER_BYTES,
    REGISTER_STEP,
)
from mugraph.passes.costs.chains import FEWEST_STAGES, chain_ns, gains_blocks, is_chain
from mugraph.passes.costs.epilogues import SPECIAL_CYCLES, VALUE_CYCLES
from mugraph.passes.costs.few_rows import (
    LATE_NS,
    bound_of_lone_groups,
    has_lone_groups,
    is_of_few_rows,
    memory_of_few_rows,
)
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.measured_rows import copies_of_groups
from mugraph.passes.costs.memory import (
    BULK_BYTES_A_CYCLE,
    CACHE_FACTOR,
    COPY_BYTES_A_CYCLE,
    LOADED_AGAIN,
    TURN_NS,
    bytes_in_flight,
    device_ns,
)
from mugraph.passes.costs.overlap import IN_A_KERNEL, side_by_side
from mugraph.passes.costs.residency import (
    COMPUTING_REGISTERS,
    GROUP_REGISTERS,
    MOST_SUMS,
    PLAIN_REGISTERS,
    SWAPPED_REGISTERS,
    fits_registers,
    has_room_for_sums,
    packed_blocks,
    resident_blocks,
)
from mugraph.passes.costs.work import (
    ITERATION_CYCLES,
    LOADING_REGISTERS,
    ROW_VECTOR,
    WARP_CYCLES,
    Held,
)
from mugraph.passes.targets import Target

LAUNCH_NS = 880.0
"""From one kernel's end to the next one's first load, and from its last store to its end."""
OVERLAP_NS = 1000.0
"""What is saved where a kernel is launched while the one before it ends; no script fits it."""
ISSUE_CYCLES = 150.0
"""What an iteration takes besides where the threads that compute load, too."""
SHARED_ARITHMETIC = 0.86
"""How much of its own time a block's arithmetic takes where blocks share a multiprocessor."""
MOST_STAGES = 8
"""Tiles of the loop under way: more than that bring nothing."""
WAITING_STAGES = 2
"""The same where threads wait for what they load."""
SHORTEST_TURN = 440.0
"""Cycles of a turn of a warp group that has a multiprocessor alone, however short its products are.

64 x 40 and 64 x 64 results took 440 and 380 a turn with 64 of the depth on an H200: 256 x 1280 x
1280 took 7.1 us so, and 5.1 with 128 of it.  Six other products took 0.81 to 0.97 of their time."""
ZEROS, MANY_ZEROS = 0.85, 0.25
"""What copies take, besides all else, to write zeros in place of rows that there are not, in parts
of what memory takes for as many bytes, and of which part of a tile on.

70 x 4096 x 14336 took 45 us on an H200 in tiles of 128 rows and 34 of 72, 68 x 1280 x 3840 8.4 and
9.7 by 60 and 120 blocks, and 7.0 of 72; a gated MLP of 52 rows was fastest in tiles of 64."""
SUSTAINED = 1.18
"""How much longer products that run ahead of each other take than alone: turns hide what else they
take, and power limits the clock.

3086 x 8192 x 3584 took 283, 315 and 340 us on an H200 in tiles of 176, 192 and 256 columns, whose
rounds are full to 0.99, 0.90 and 0.87: what a tile takes grows with its columns alone.
"""
WORK_TILE_CYCLES = 4000.0
"""What a persistent block takes from one work tile to the next, beside what it computes: its last
product, barriers, its results, and the first product of the next one: 1.9 to 3 us of that layer and
of 8192 x 5120 x 1280 (``benchmarks/results/filled_rounds_h200.md``)."""
LEAST_STAGES = 3
"""Of consumers that alternate: one is read, one in use by a product in flight, one on its way."""
RAGGED_COLUMNS_NS = 1500.0
"""What results of warp groups take to leave through shared memory, as they must where the last
block along their columns has fewer: 512 x 1600 x 1600 took 12.3 us on an H100 in tiles of 64 x 104
and 7.8 in tiles of 128 x 64 (``benchmarks/results/shapes_candidates_h200.md``)."""
PARTS_OF_LINES = 0.04
"""What device memory takes longer for lines of which iterations load a part each.

A row times 151,936 x 4096 in 16 bits took 293 us on an H200 in tiles of 128 columns and 32 of the
depth, in four stages, and 278 of 64 columns and 64; by bulk copies tiles of 128 columns took 299
with 32 of the depth and 289 with 64 (``benchmarks/results/narrow_weights_h200.md``)."""
HELD_BYTES_A_CYCLE, HELD_LANES, HELD_CYCLES, BLOCK_NS, HELD_POWER = 100.0, 128, 2.0, 55.0, 3.0
"""What threads load to registers and store, how many of them compute at once, how long an element
takes each, what a block takes from its launch to its first load, and how little all of that is in
each other's way, as :data:`IN_A_KERNEL`.  With :data:`WARP_CYCLES` for each meeting of warps they
were fitted to 114 kernels of rows of 512 to 32,000 columns on an H200; no script is kept."""
HELD_CACHE_FACTOR = 2.0
"""What all multiprocessors load and store together in that fit, in parts of what device memory
delivers.  With :data:`~mugraph.passes.costs.memory.CACHE_FACTOR`, that of bulk copies, norms of
4096 x 1280 would have one warp a row, and no such plan was timed."""
LONE_WARPS = 3.0
"""How many warps of a scheduler hide what each waits for, where blocks have a multiprocessor alone.

A norm of 4096 elements that are rounded to f8 took 3.0, 2.6, 2.4 and 2.9 us on an H200 by 128, 256,
512 and 1024 threads, and codes of 12288 3.4 by 256 and 2.8 by 512: plans that were written by hand
(``benchmarks/results/narrow_weights_h200.md``); no script is kept.  Other lone rows were not timed
so, but 126 rows of 256 elements, which took 1.62 us by 128 threads and 1.36 as pairs by 64, and 68
rows of 1280, for which 160 threads, one for each vector, were the fastest of nine plans."""
ACCESS_CYCLES = 10.0
"""What an access of fewer bytes than a whole vector takes of a thread: a softmax of 4096 x 50,257
took 406 us on an H200 in two kernels that moved elements, about 200 more than its bytes take."""
ALONE, LONG_ROW = 1.3, 16384
"""How much longer blocks wait that have a multiprocessor alone, one after another (1.1 to 1.4), and
elements of a row of which they do not: an RMS norm of 3739 x 29544 took 125 us on an H200, and a
softmax of 7500 x 51866 543."""
SEVERAL_VALUES, SEVERAL_ROWS = 16, 1.3
"""Values of a thread that has several rows, and how much longer more of them take (1.1 to 1.4)."""

UNEVEN_LANES, MANY_VECTORS = 1.4, 8
"""How much longer blocks of one warp take where some lanes have more vectors of a row than others,
or each has so many: norms of 1408 and 1600 columns took 1.5 and 1.3 times as long as estimated on
an H200, one of 2048 took 18.3 us and 16.3 by 256 threads, and 768 and 1280 columns as estimated."""


def stages_of(shape: KernelShape, target: Target) -> int | None:
    """How many tiles of the loop are under way; ``None`` where not even two fit."""
    free = target.shared_memory_per_block - shape.fixed_bytes(target.warp_size)
    loop_bytes = shape.loop_bytes
    if shape.iterations == 1 or not loop_bytes:
        return 1 if free >= loop_bytes else None
    wanted = target.bulk_bytes_in_flight or 2 * target.bytes_in_flight_per_multiprocessor()
    if shape.is_chain_of_groups(target):
        resident = resident_blocks(shape, FEWEST_STAGES, target)
        if shape.blocks > resident * target.multiprocessors:
            # As many blocks share a multiprocessor as have room for the fewest stages.
            free -= target.shared_memory_per_block - _share_of(resident, target)
            wanted /= resident
    most = int(free // loop_bytes)
    most = min(most, WAITING_STAGES if shape.loading.waited_for else MOST_STAGES)
    stages = max(min(math.ceil(wanted / loop_bytes) + 1, most, shape.iterations), 0)
    return stages if stages >= FEWEST_STAGES else None


def _share_of(resident: int, target: Target) -> int:
    """The shared memory of a block where so many share a multiprocessor."""
    share = target.shared_memory_per_multiprocessor // resident
    return share - target.reserved_shared_memory_per_block


def _held_estimate(shape: KernelShape, held: Held, registers: int, target: Target) -> float:
    """Nanoseconds of a kernel whose threads load their parts of tiles, compute and store them.

    Blocks that share a multiprocessor hide what each waits for: its loads, and other warps.
    Nothing hides what the last of them does once its rows are loaded.  What all blocks load, such
    as weights, stays in the cache of a multiprocessor: a layer norm of 4096 x 512 took 4.2 us on an
    H200 in blocks of eight rows, and 3.6 in blocks of a warp and a row.
    """
    clock = target.clock_ghz
    _, loaded, tensor_bytes, *_ = shape.loading
    # Beside the tiles a thread has a vector of results in f32 (``schedule/analysis/registers.py``).
    registers += ROW_VECTOR
    launched = packed_blocks(shape.blocks, shape.threads, target)
    resident = launched * target.resident_blocks(
        math.ceil(shape.blocks / launched),
        launched * shape.threads,
        launched * held.staged_bytes,
        registers,
    )
    rounds = math.ceil(shape.blocks / (target.multiprocessors * resident))
    busiest = math.ceil(shape.blocks / target.multiprocessors)
    rate = HELD_BYTES_A_CYCLE * clock
    rows = (*shape.loop.rows, *shape.after.rows)
    meetings = sum(length > target.warp_size * ROW_VECTOR for _, length in rows)
    issued = (shape.loop.elements + shape.after.elements) * HELD_CYCLES
    issued += shape.narrow_accesses * ACCESS_CYCLES
    special = (shape.loop.special + shape.after.special) / target.special_a_cycle
    meeting = meetings * WARP_CYCLES * shape.threads / target.warp_size
    moved = loaded + shape.stored_bytes
    # Lanes of other blocks compute what those of one do not.
    together = min(busiest, resident)
    work = issued / min(shape.threads * together, HELD_LANES) + special
    # Threads without a vector compute nothing.
    lone = min(shape.threads, held.largest // math.gcd(held.largest, ROW_VECTOR)) / LONE_WARPS
    lanes = lone if busiest == 1 else shape.threads
    alone = issued / min(lanes, HELD_LANES) + special
    block = moved / rate + (alone + meeting) / clock
    # All of a row is loaded before anything of it is stored.
    whole = any(count * length >= held.largest for count, length in rows)
    waits = (rounds - 1) * target.memory_latency_ns + (rounds - whole) * block
    long = bool(rows) and all(count == 1 and length >= LONG_ROW for count, length in rows)
    if resident == 1 and rounds > 1 and not long:
        waits *= ALONE
    shared = SHARED_ARITHMETIC if together > 1 else 1.0
    again = shape.loading.whole_bytes
    cached = shape.blocks * (moved - again) + min(shape.blocks, target.multiprocessors) * again
    bound = side_by_side(
        device_ns(tensor_bytes + shape.blocks * shape.stored_bytes, target),
        device_ns(cached, target) / HELD_CACHE_FACTOR,
        busiest * moved / rate,
        waits,
        busiest * (shared * work / clock + BLOCK_NS / launched),
        power=HELD_POWER,
    )
    if held.largest > SEVERAL_VALUES * shape.threads and any(count > 1 for count, _ in rows):
        bound *= SEVERAL_ROWS
    vectors = held.largest // ROW_VECTOR
    uneven = vectors % target.warp_size > 0 or vectors >= MANY_VECTORS * target.warp_size
    if shape.threads == target.warp_size < vectors and uneven:
        bound *= UNEVEN_LANES
    drain = whole * (shape.stored_bytes / rate + (alone + meeting) / clock)
    return LAUNCH_NS + target.memory_latency_ns + bound + drain


class Ring(NamedTuple):
    """How warp groups have the tiles of a loop: as passes on schedules will choose it."""

    stages: int
    kept: int
    """Stages in use by a product in flight, beside the one that is being read."""
    resident: int
    """Blocks that share a multiprocessor."""
    goes_on: bool
    """Whether blocks take several work tiles each, and load the next one's at the end of one."""
    waits: bool = False
    """Whether they wait at the end of each about as long as other blocks begin: halves of what is
    computed leave one after the other.  3546 x 4096 x 1024 with a bias took 54.9 us on an H200 in
    tiles of 256 columns so, and 48.6 in tiles of 128 by consumers in turn."""


def ring_of(shape: KernelShape, target: Target) -> Ring | None:
    """The ring of a kernel in which warp groups multiply; ``None`` where not two stages fit.

    As many blocks share a multiprocessor as registers and two stages of each let; the bytes under
    way are those of all of them (``pipeline_loads/rings.py``).  Results leave beside the rings of
    blocks that go on, in halves where they must, and what comes once threads load at the end
    (``--persist-blocks``).
    """
    loop_bytes = shape.loop_bytes
    if target.bulk_bytes_in_flight is None or not loop_bytes:
        return None
    tensors = sum(load.tensor_bytes for load in shape.loads if load.looped)
    new = tensors / (shape.blocks * shape.iterations * loop_bytes)
    kept = 1 if shape.loop.runs_ahead(shape.threads, target) else 0
    fixed = shape.fixed_bytes(target.warp_size)
    # Sums in fp32 leave through buffers that are there before the stages are chosen.
    in_parts = shape.result_bytes >= REGISTER_BYTES * shape.loop.sums > 0
    fixed += shape.result_bytes if in_parts else 0
    for resident in range(_groups_that_share(shape, target), 0, -1):
        share = _share_of(resident, target)
        flight = bytes_in_flight(new, shape.blocks, resident, target)
        wanted = math.ceil(flight / (loop_bytes * resident)) + 1 + kept
        most = min(wanted, shape.iterations)
        stages = min(most, int((share - fixed) // loop_bytes))
        if stages >= min(2, shape.iterations):
            break
    else:
        return None
    if not kept or shape.blocks <= resident * target.multiprocessors:
        return Ring(stages, kept, resident, goes_on=False)
    beside = fixed if in_parts else shape.result_bytes // 2
    beside_rings = min(most, int((share - beside) // loop_bytes))
    goes_on = beside_rings >= stages or can_alternate(shape, target)
    stages = max(stages, beside_rings)
    fits = in_parts or stages * loop_bytes + shape.result_bytes <= share
    waits = bool(shape.after.elements) and goes_on and not (fits or can_alternate(shape, target))
    return Ring(stages, kept, resident, goes_on, waits)


def can_alternate(shape: KernelShape, target: Target) -> bool:
    """Whether two consumers of a warp group each may alternate, with their results beside a ring.

    With room for two stages only a gated MLP of 1024 rows took 57 us on an H100, and with four of
    half the depth 50.
    """
    stages = min(LEAST_STAGES, shape.iterations)
    room = target.shared_memory_per_block - 2 * shape.result_bytes
    return shape.threads == GROUP_THREADS and stages * shape.loop_bytes <= room


def _groups_that_share(shape: KernelShape, target: Target) -> int:
    """How many blocks of warp groups registers let share a multiprocessor.

    An even share of them, or of swapped operands what threads that load leave
    (``--set-register-budgets``).
    """
    threads, products = shape.threads, len(shape.loop.products)
    sums = (shape.loop.sums + shape.after.sums) // threads
    if not shape.loop.runs_ahead(threads, target):
        wanted = sums + SWAPPED_REGISTERS
    else:
        wanted = sums + (COMPUTING_REGISTERS if shape.after.elements else PLAIN_REGISTERS)
        once = [load for load in shape.loads if not load.looped]
        wanted += sum(load.row_registers for load in once)
        # Tiles such as a residual are in registers beside the sums, at the end.
        tiles = sum(load.bytes for load in once if not load.row_registers)
        wanted += tiles // REGISTER_BYTES // threads
    resident = target.resident_blocks(shape.blocks, threads + target.warp_size, 0, wanted)
    waves = math.ceil(shape.blocks / target.multiprocessors)
    while resident < waves and not shape.loop.runs_ahead(threads, target):
        of_all = threads + GROUP_THREADS
        start = target.registers_per_multiprocessor // (resident + 1) // of_all
        start -= start % REGISTER_STEP
        left = (start * of_all - LOADING_REGISTERS[0] * GROUP_THREADS) // threads
        of_instruction = min(sums // products, MOST_SUMS) + GROUP_REGISTERS
        if left < wanted or start < of_instruction:
            break
        resident += 1
    return resident


def time_in_epilogues(shape: KernelShape, ring: Ring, target: Target) -> float:
    """Nanoseconds in which all warps of a persistent block are in epilogues, but for the last one.

    Blocks that share a multiprocessor hide little of that: a gated MLP of 512 rows, 14336 x 4096,
    took 209 us on an H200 in two blocks of 128 threads and 196 in one of 256.
    """
    if not ring.goes_on:
        return 0.0
    after, more = shape.after, math.ceil(shape.blocks / target.multiprocessors) - 1
    issued = (after.elements * VALUE_CYCLES + after.special * SPECIAL_CYCLES) / target.warp_size
    cycles = WORK_TILE_CYCLES + issued / target.schedulers_per_multiprocessor
    return more * cycles / target.clock_ghz


def fill_ns(shape: KernelShape, target: Target, *, bulk: bool) -> float:
    """Nanoseconds in which a block's first tiles come, behind the first of their bytes."""
    rate = BULK_BYTES_A_CYCLE if bulk else COPY_BYTES_A_CYCLE
    return (shape.loop_bytes + shape.loading.first_bytes) / (rate * target.clock_ghz)


@lru_cache(1 << 14)
def estimate(shape: KernelShape, target: Target) -> float | None:
    """Nanoseconds that a kernel takes; ``None`` where tiles, sums or rows do not fit a block."""
    held = shape.held_registers(target)
    if shape.held is not None and held is not None:
        return _held_estimate(shape, shape.held, held, target)
    if shape.held is not None and shape.held.vector:
        return None  # rows are padded for threads to hold them
    stages = stages_of(shape, target)
    fits = fits_registers(shape, target) and has_room_for_sums(shape, target)
    if stages is None or not fits:
        return None
    if is_chain(shape, stages, target):
        staged = (stages, 1) if gains_blocks(shape, target) else (stages,)
        return LAUNCH_NS + min(chain_ns(shape, each, target) for each in staged)
    clock = target.clock_ghz
    loop_bytes, first_bytes, tensor_bytes, *_ = shape.loading
    fewest = shape.loop.converts_in_turn(shape.threads, target)
    resident = resident_blocks(shape, FEWEST_STAGES if fewest else stages, target)
    groups: Ring | None = None
    if shape.loop.is_of_groups(shape.threads, target) and not shape.loop.converts:
        groups = ring_of(shape, target)
        if groups is None:
            return None
        stages, resident = groups.stages, groups.resident
    rounds = math.ceil(shape.blocks / (target.multiprocessors * resident))
    busiest = math.ceil(shape.blocks / target.multiprocessors)
    one_block = shape.turns * loop_bytes + first_bytes
    # What all blocks load; tensors that are loaded often come from the cache.
    device = tensor_bytes + shape.blocks * shape.stored_bytes
    cached = shape.blocks * (one_block + shape.stored_bytes)
    bulk = shape.prefers_bulk(target)
    rate = (BULK_BYTES_A_CYCLE if bulk else COPY_BYTES_A_CYCLE) * clock
    of_groups = copies_of_groups(shape, target)
    copies = busiest * (of_groups or shape.copy_cycles(bulk=bulk)) / clock
    later = max(shape.turns - stages, 0) if loop_bytes else 0
    iteration = shape.loop.cycles(shape.threads, target)
    iteration += shape.row_cycles(target) if bulk else 0.0
    after = shape.after.cycles(shape.threads, target)
    # A tile's place is taken while the tile is fetched and used, and each stage is one.
    warps = shape.threads / target.warp_size
    issue = 0.0 if bulk or shape.loop.converts else ISSUE_CYCLES
    turn = (iteration + ITERATION_CYCLES + WARP_CYCLES * warps + issue) / clock
    if groups is not None and groups.kept and resident == 1:
        turn = max(SUSTAINED * iteration, SHORTEST_TURN) / clock
    # What no block has loaded before comes from device memory.
    new = min(tensor_bytes / max(shape.blocks * one_block, 1), 1.0)
    latency = TURN_NS + new * (target.memory_latency_ns - TURN_NS)
    fetch = latency + resident * loop_bytes / rate
    # The first of them are there when the kernel has been filled.
    ring = rounds * later * (fetch + turn) / stages
    waits = shape.loading.waits(shape.threads)
    if waits:
        ring = rounds * shape.turns * ((waits - 1) * latency + fetch + turn)
    if groups is not None:
        # A product is in flight until the next one has been issued, and its stage is in use: a
        # block that is alone loads the others only.
        free = max(stages - groups.kept, 1)
        beside = (fetch + (1 + groups.kept) * turn) / stages
        ring = rounds * later * ((fetch + turn) / free if resident == 1 else beside)
    # Blocks that share a multiprocessor hide each other's waits, and little of the arithmetic.
    in_turn = rounds * shape.turns * turn
    together = min(busiest, resident)
    shared = SHARED_ARITHMETIC if together > 1 and not shape.loop.converts else 1.0
    each = iteration
    # Persistent blocks load the next work tile while they are at the end of this one.
    goes_on = groups is not None and groups.goes_on and not groups.waits
    starts = 1.0 if goes_on else float(rounds)
    between = 0.0 if groups is None else time_in_epilogues(shape, groups, target)
    if shape.loop.converts:
        if together == 1:
            each += shape.loop.waiting_cycles(shape.threads, target)
        each -= shape.loop.hidden_cycles(shape.threads, together, target)
        # Others convert while a block begins.
        starts = min(starts, max(shape.blocks / (target.multiprocessors * resident), 1.0))
    if shape.loop.chained and shape.turns > stages:
        # What is computed between the products of a long chain takes no longer for being of few
        # threads: others multiply meanwhile.
        each -= shape.loop.element_cycles(shape.threads, target)
        each += shape.loop.element_cycles(MAX_THREADS, target)
    arithmetic = shared * busiest * (shape.turns * each + after) / clock
    # Measured of one product in a loop.
    if len(shape.loop.products) == 1:
        device += PARTS_OF_LINES * sum(each.tensor_bytes for each in shape.loads if each.in_parts)
    from_memory = device_ns(device, target)
    last = shape.blocks % target.multiprocessors if rounds > 1 else 0
    if last and shape.loop.products and not shape.loop.chained:
        # Few multiprocessors have one block more than others, and ask for less than memory
        # delivers.  Where several blocks share one it has begun beside another.
        share, alone = last / shape.blocks, copies / busiest
        if groups is not None and resident == 1:
            alone = max(alone, ring / rounds, in_turn / rounds)
        from_memory = max(from_memory, (1 - share) * from_memory + alone)
    if is_of_few_rows(shape, target):
        from_memory = memory_of_few_rows(shape, device, target)
    elif shape.loop.products and not shape.loop.chained:
        again = device_ns(shape.loaded_again, target) / CACHE_FACTOR
        from_memory = side_by_side(from_memory, again, power=LOADED_AGAIN)
    late = 0.0
    if has_lone_groups(shape, target):
        bound = bound_of_lone_groups(shape, from_memory, in_turn, target)
        late = LATE_NS
    else:
        bound = side_by_side(
            from_memory,
            device_ns(cached, target) / CACHE_FACTOR,
            copies,
            ring,
            in_turn,
            arithmetic,
            power=IN_A_KERNEL,
        )
    padding = sum(
        load.padding
        for load in shape.loads
        if load.looped and load.padding > MANY_ZEROS * load.bytes
    )
    bound += ZEROS * device_ns(shape.blocks * shape.turns * padding, target)
    # What later blocks wait for besides is among the bytes of all.
    drain = (iteration + after) / clock
    fill = fill_ns(shape, target, bulk=bulk)
    waited = starts * (target.memory_latency_ns + drain) + between
    if groups is not None and shape.ragged_columns and not groups.goes_on:
        waited += RAGGED_COLUMNS_NS
    return LAUNCH_NS + fill + waited + bound - late
