"""What blocks have registers for, and how many of them share a multiprocessor."""

from __future__ import annotations

import math
from functools import lru_cache

from mugraph.dialects.programming_model import (
    GROUP_ROWS,
    GROUP_THREADS,
    MAX_THREAD_REGISTERS,
    REGISTER_BYTES,
    REGISTER_STEP,
)
from mugraph.passes.costs.kept_sums import RegisterWork, register_limit, registers_of_works
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.warp_layouts import Tiles, choose_warp_layout
from mugraph.passes.costs.work import INSTRUCTION, LOADING_REGISTERS, Product
from mugraph.passes.targets import Target

MOST_SUMS, MOST_GROUP_SUMS = 128, 160
"""Sums that a thread can keep in registers at all, and where a block is one warp group.

With 152, a gated MLP of 148 rows takes 34.0 us on an H200, and 51.8 with 128 of padded rows.
"""
MOST_WITH_TILES = 200
"""The same with what is loaded once for the epilogue, such as a residual, beside them: with 216 two
products took 4 and 5 % longer on an H200 than with 192."""
OTHER_REGISTERS = 72
"""Registers of a thread beside its sums."""
CHAIN_REGISTERS = 36
"""The same where two warp groups pass on what they multiply."""
GROUP_REGISTERS = 24
"""Those of a thread of one such group beside another block's, as its kernel asks for them, and of
three groups, which have no more."""
MUCH_HELD, RECOMPUTED_REGISTERS = 136, 8
"""Registers that it does with less than, where it has the rows of one instruction and no mask of a
ragged end needs some (``MUCH_HELD`` of ``passes/schedule/plan_stensor_memory``).

Of 176, for 128 sums and 32 keys of depth 256, it spills where 168 are left: 256 prompts of 512
tokens took 200 us on an H200, and 112 by two groups.  In tiles of 128 rows and 32 keys two blocks
share a multiprocessor: 384 matrices of 256 queries and keys took 30 us, and 25 in tiles of 64."""
PLAIN_REGISTERS, COMPUTING_REGISTERS, SWAPPED_REGISTERS = 80, 16, 32
"""The same of warp groups whose sums are a result as they are, where something is computed of
them, and of swapped operands: what a kernel asks for (``registers_wanted`` of
``passes/schedule/plan_stensor_memory``)."""
FEWEST_REGISTERS = 80
"""What a thread needs at least, to see how many blocks share a multiprocessor."""


MOST_PACKED, FEWEST_PACKED = 4, 4
"""Blocks of one warp that are launched as one at most, and of these for each multiprocessor at
least."""


def packed_blocks(blocks: int, threads: int, target: Target) -> int:
    """How many of so many blocks are launched as one: several, if they are one warp each."""
    if threads != target.warp_size:
        return 1
    together = MOST_PACKED
    while together > 1 and blocks < together * FEWEST_PACKED * target.multiprocessors:
        together //= 2
    return together


def sums_of_a_thread(threads: int, target: Target) -> int:
    """How many sums of products a thread can keep in registers, of a block of so many."""
    registers = target.registers_per_multiprocessor // (threads + target.warp_size)
    return min(MOST_SUMS, max(registers - OTHER_REGISTERS, registers // 2))


def chained_sums_of_a_thread(threads: int, target: Target) -> int:
    """The same of warp groups that pass sums on in registers; what is passed on counts half again.

    They have what the threads that load leave.  0 where registers stay where they are.
    """
    if not target.moves_registers or threads % GROUP_THREADS:
        return 0
    left = target.registers_per_multiprocessor - LOADING_REGISTERS[0] * GROUP_THREADS
    most = min(left // threads, MAX_THREAD_REGISTERS)
    others = CHAIN_REGISTERS if threads <= 2 * GROUP_THREADS else GROUP_REGISTERS
    return most // REGISTER_STEP * REGISTER_STEP - others


def fits_registers(shape: KernelShape, target: Target) -> bool:
    """Whether the threads of a block have registers for its sums."""
    # What the loop has summed is kept while products after it are computed.
    sums, threads = shape.loop.sums + shape.after.sums, shape.threads
    if shape.loop.is_of_groups(threads, target) and not shape.after.products:
        late = shape.loading.first_bytes // REGISTER_BYTES
        if late and sums + late > MOST_WITH_TILES * threads:
            return False
    if sums <= sums_of_a_thread(threads, target) * threads:
        return True
    if threads == GROUP_THREADS and shape.loop.is_of_groups(threads, target):
        return sums <= MOST_GROUP_SUMS * threads
    passed_on = math.prod(shape.passed_on)
    fits = sums + passed_on // 2 <= chained_sums_of_a_thread(threads, target) * threads
    return fits and shape.is_chain_of_groups(target)


def has_room_for_sums(shape: KernelShape, target: Target) -> bool:
    """Whether products of which functions are added up have room for the sums.

    That is in registers, beside the product, or else in shared memory, beside what is multiplied.
    """
    limit = register_limit(shape.threads, target.registers_per_multiprocessor)

    def keeps(product: Product) -> bool:
        tiles = _tiles_of_warp(product.sizes, shape.threads, 1, target)
        work = RegisterWork(tiles.values, tiles.operands, transformed=True)
        return registers_of_works([work], frozenset([0])) <= limit

    return all(
        each.bytes_with_sums <= target.shared_memory_per_block or keeps(each)
        for each in (*shape.loop.products, *shape.after.products)
    )


def resident_blocks(shape: KernelShape, stages: int, target: Target) -> int:
    """How many blocks share a multiprocessor."""
    memory = shape.fixed_bytes(target.warp_size) + stages * shape.loop_bytes
    threads = shape.threads
    registers = shape.loop.sums // threads + OTHER_REGISTERS
    if shape.is_chain_of_groups(target):
        if threads > GROUP_THREADS:
            return 1  # two such blocks beside each other were not measured
        sums = shape.loop.sums + shape.after.sums + math.prod(shape.passed_on) // 2
        registers = sums // threads + GROUP_REGISTERS
        if registers == MUCH_HELD and shape.passed_on[0] == GROUP_ROWS and not shape.masks_ends:
            registers -= RECOMPUTED_REGISTERS
        threads += target.warp_size  # a warp beside them loads
    elif _is_of_warps(shape, target) and shape.prefers_bulk(target):
        registers = _sums_of_warps(shape, target) + PLAIN_REGISTERS
        threads += target.warp_size
    return target.resident_blocks(shape.blocks, threads, memory, max(FEWEST_REGISTERS, registers))


def _sums_of_warps(shape: KernelShape, target: Target) -> int:
    """Sums of products that a thread has where single warps share them: those along k have all."""
    return sum(
        _tiles_of_warp(each.sizes, shape.threads, max(shape.iterations, 1), target).values
        for each in shape.loop.products
    )


@lru_cache(1 << 12)
def _tiles_of_warp(
    sizes: tuple[int, int, int], threads: int, iterations: int, target: Target
) -> Tiles:
    layout = choose_warp_layout(*sizes, INSTRUCTION, threads, target, iterations=iterations)
    return layout.tiles_of_a_warp(*sizes[:2])


def _is_of_warps(shape: KernelShape, target: Target) -> bool:
    """Whether single warps multiply, and pass nothing on."""
    loop = shape.loop
    return bool(loop.products) and not (loop.chained or loop.suits_groups(shape.threads, target))
