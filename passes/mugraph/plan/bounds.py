"""What a kernel takes at least under each of many partitions, found for all of them at once.

A bound from below of :func:`~mugraph.passes.costs.kernels.estimate`, whatever number of threads a
block has.  It follows the estimate term by term, and where threads decide takes what is best: so
few partitions are estimated that are not nearly the fastest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from mugraph.dialects.cute.atoms import F8_TYPES
from mugraph.dialects.programming_model import GROUP_COLUMNS, GROUP_ROWS, SECTOR_BYTES
from mugraph.passes.costs.few_rows import LATE_NS, LONE_BULK_BYTES_A_CYCLE
from mugraph.passes.costs.kernels import (
    HELD_BYTES_A_CYCLE,
    LAUNCH_NS,
    OVERLAP_NS,
    SHARED_ARITHMETIC,
)
from mugraph.passes.costs.measured_rows import timed_rows
from mugraph.passes.costs.memory import (
    BULK_BYTES_A_CYCLE,
    BULK_ROW_BYTES,
    CACHE_FACTOR,
    COPY_BYTES_A_CYCLE,
    COPY_ROW_BYTES,
    TURN_NS,
    bytes_in_flight,
)
from mugraph.passes.costs.overlap import IN_A_KERNEL
from mugraph.passes.costs.products import group_cycles, instruction_cycles
from mugraph.passes.costs.residency import FEWEST_REGISTERS
from mugraph.passes.costs.work import (
    CHAINED_CONVERSION_ISSUES,
    ELEMENT_CYCLES,
    EXCHANGE_BARRIERS,
    GROUP_SLACK,
    INSTRUCTION,
    ITERATION_CYCLES,
    WARP_CYCLES,
    WITH_OPERANDS,
    issue_cycles,
)
from mugraph.passes.mugraph.plan.moved import Moved
from mugraph.passes.mugraph.plan.operators import OperatorWork
from mugraph.passes.mugraph.plan.shape import KernelModel
from mugraph.passes.mugraph.retile.partition import Partition
from mugraph.passes.targets import Target

Numbers = npt.NDArray[np.float64]
"""One for each partition."""
PART_BYTES = 4
"""Parts of sums are stored in fp32."""
ROUNDING = 1 - 1e-9
"""Sums in another order may be a little more."""


def _padded(extents: Numbers, multiple: int) -> Numbers:
    return np.ceil(extents / multiple)


@dataclass(frozen=True)
class TiledKernels:
    """A kernel under each of some partitions, all of them with loops along the same dimensions."""

    model: KernelModel
    partitions: Sequence[Partition]
    fewest_threads: int
    """Of a block."""
    target: Target

    @cached_property
    def shapes(self) -> Mapping[SSAValue, tuple[Numbers, ...]]:
        """The extents of all tiles."""
        count = len(self.partitions)
        extents = [
            None
            if dimension.fixed
            else np.array(
                [p.tile(number, dimension.extent) for p in self.partitions], dtype=np.float64
            )
            for number, dimension in enumerate(self.model.space.dimensions)
        ]
        shapes: dict[SSAValue, tuple[Numbers, ...]] = {}
        for alike, values in self.model.tiles.items():
            shape: list[Numbers] = []
            for extent, number in zip(alike.shape, alike.numbers, strict=True):
                cut = None if number is None else extents[number]
                shape.append(np.full(count, float(extent)) if cut is None else cut)
            shapes.update(dict.fromkeys(values, tuple(shape)))
        return shapes

    def is_looped(self, moved: Moved) -> bool:
        """Whether each iteration moves another tile."""
        return moved.is_looped(self.partitions[0])

    def existing(self, moved: Moved) -> list[Numbers]:
        """The extents of what there is of a tile, without what pads it."""
        shape = self.shapes[moved.tile]
        return [np.minimum(own, most) for own, most in zip(shape, moved.tensor_shape, strict=True)]

    def volume(self, value: SSAValue) -> Numbers:
        """The elements of a tile."""
        return math.prod(self.shapes[value], start=np.ones(len(self.partitions)))

    def total(self, values: Sequence[SSAValue]) -> Numbers:
        """The elements of some tiles together."""
        return sum(map(self.volume, values), start=np.zeros(len(self.partitions)))

    def cycles(self, operators: Sequence[OperatorWork]) -> Numbers:
        """What a block takes at least to compute operators once."""
        target = self.target
        most_threads = target.schedulers_per_multiprocessor * target.warp_size * 2
        total, products = np.zeros(len(self.partitions)), np.zeros(len(self.partitions))
        chained: set[SSAValue] = set()
        is_chain = False
        for op in operators:
            total += op.exchanged * EXCHANGE_BARRIERS * WARP_CYCLES * self.fewest_warps
            follows = not chained.isdisjoint(op.operands)
            if op.factors:
                is_chain |= follows
                follows = True
                products += self.product_cycles(op)
            elif op.steps:
                elements = np.max([self.volume(value) for value in op.operands], axis=0)
                if op.sums:
                    elements *= elements != self.volume(op.results[0])
                total += elements * (
                    op.steps * ELEMENT_CYCLES / most_threads + op.special / target.special_a_cycle
                )
            if follows:
                chained.update(op.results)
        # Blocks and warp groups hide what a chain waits for, and multiply beside the rest.
        return np.maximum(total, products) if is_chain else total + products

    def product_cycles(self, op: OperatorWork) -> Numbers:
        """What products take at least, of warps or of warp groups."""
        target = self.target
        each = WITH_OPERANDS * instruction_cycles(INSTRUCTION, target)
        each /= target.schedulers_per_multiprocessor
        m, n, k = INSTRUCTION.shape_mnk
        *leading, rows, _ = self.shapes[op.operands[0]]
        columns = self.shapes[op.operands[-1]][-1]
        tiles = _padded(rows, m) * _padded(columns, n)
        if op.converts_runs:
            tiles = np.minimum(tiles, _padded(rows, n) * _padded(columns, m))
        count = math.prod(leading, start=tiles)
        total = np.zeros(len(self.partitions))
        for factor in op.factors:
            instructions = count * _padded(self.shapes[factor.lhs][-1], k)
            cycles = instructions * each
            if (factor.fits_groups or factor.converted) and target.multiplies_in_warpgroups:
                by_groups = GROUP_SLACK * group_cycles(m * n * k, target, factor.element)
                can = (columns % GROUP_ROWS == 0) & (rows % GROUP_COLUMNS == 0)
                if not factor.converted:
                    can |= (rows % GROUP_ROWS == 0) & (columns % GROUP_COLUMNS == 0)
                fewer = np.minimum(cycles, by_groups * instructions)
                cycles = np.where(can, fewer, cycles)
            total += cycles
            if op.conversion:
                issues = self.volume(op.operands[-1]) * CHAINED_CONVERSION_ISSUES
                total += issues * issue_cycles(target)
        return total

    @cached_property
    def runs_ahead(self) -> npt.NDArray[np.bool_]:
        """Where warp groups may have all products of the loop, of which one may be in flight."""
        can = np.full(len(self.partitions), self.target.multiplies_in_warpgroups)
        for op in self.model.loop:
            if op.factors:
                rows, columns = self.shapes[op.operands[0]][-2], self.shapes[op.operands[-1]][-1]
                can &= (rows % GROUP_ROWS == 0) & (columns % GROUP_COLUMNS == 0)
        return can

    @cached_property
    def may_be_of_few_rows(self) -> bool:
        """Whether it is a product of f8 that ``passes/costs/few_rows.py`` may estimate."""
        return any(
            factor.promoted and factor.element in F8_TYPES
            for op in self.model.loop
            for factor in op.factors
        )

    @cached_property
    def may_be_of_groups(self) -> bool:
        """Whether it is of few rows that ``passes/costs/measured_rows.py`` may estimate."""
        products = [op for op in self.model.loop if op.factors]
        if len(products) != 1 or len(products[0].factors) != 1:
            return False
        number = self.model.space.numbers[products[0].operands[0]][-2]
        if number is None:
            return False
        return timed_rows(self.model.space.dimensions[number].extent) > 0

    @property
    def fewest_warps(self) -> int:
        """Of a block."""
        return max(self.fewest_threads // self.target.warp_size, 1)

    @cached_property
    def holds(self) -> npt.NDArray[np.bool_]:
        """Where threads may hold all tiles, so that a block needs no memory for them."""
        once = [bool(self.model.spans) and partition.forloop == 1 for partition in self.partitions]
        return np.array(once, dtype=np.bool_)

    @cached_property
    def loads(self) -> _Loads:
        """What a block loads."""
        zero = np.zeros(len(self.partitions))
        loop, first, kept, whole = (zero.copy() for _ in range(4))
        tensors = 0
        by_threads, by_bulk = (zero.copy(), zero.copy()), (zero.copy(), zero.copy())
        for load in self.model.loaded:
            if load.scales_products:
                continue  # threads that multiply may load it
            tile, size, tensor = load.tile, load.element_bytes, load.tensor_bytes
            shape = self.shapes[tile]
            row = load.row(shape) * size
            existing = self.existing(load)
            run = load.row(existing)
            loaded = math.prod(existing) // run * _padded(run * size, SECTOR_BYTES) * SECTOR_BYTES
            part = np.gcd(row.astype(np.int64), BULK_ROW_BYTES)
            of_threads: Numbers = (
                loaded * np.maximum(COPY_ROW_BYTES / part, 1.0) / COPY_BYTES_A_CYCLE
            )
            of_threads = np.where(self.holds, loaded / HELD_BYTES_A_CYCLE, of_threads)
            # Of few rows that warp groups multiply short rows of a tile take no longer.
            short = (
                np.ones(len(self.partitions)) if self.may_be_of_groups else BULK_ROW_BYTES / part
            )
            of_bulk = loaded * short / BULK_BYTES_A_CYCLE
            whole += np.where(self.holds & (loaded >= tensor), loaded, 0.0)
            is_looped = self.is_looped(load)
            by_threads[not is_looped][:] += of_threads
            by_bulk[not is_looped][:] += of_bulk
            if is_looped:
                loop += loaded
            else:
                first += loaded
                kept += self.volume(tile) * size
            tensors += tensor
        return _Loads(loop, first, kept, whole, tensors, by_threads, by_bulk)

    @cached_property
    def iteration_cycles(self) -> Numbers:
        """What an iteration computes at least."""
        return self.cycles(self.model.loop)

    @cached_property
    def after_cycles(self) -> Numbers:
        """What is computed once, at least."""
        return self.cycles(self.model.after)

    @cached_property
    def share(self) -> Numbers:
        """The part of its iterations of which masks leave something."""
        if not self.model.masks:
            return np.ones(len(self.partitions))
        return np.array([self.model.under(partition).share for partition in self.partitions])

    def least_times(self, splits: Sequence[int]) -> Numbers:
        """Nanoseconds that each takes at least with its loop divided over so many blocks.

        A row for each number of blocks, with what combines their sums.  Infinite where a block has
        no room for the tiles.
        """
        model, target, loads, count = self.model, self.target, self.loads, len(self.partitions)
        split = np.array(splits, dtype=np.int64)[:, None]
        is_divided = split > 1
        blocks = split * np.array([math.prod(p.grid) for p in self.partitions], dtype=np.float64)
        loops = np.array([p.forloop for p in self.partitions], dtype=np.int64)
        iterations: Numbers = (loops // split).astype(np.float64)
        turns = np.minimum(self.share * split, 1.0) * iterations
        stored = np.zeros(blocks.shape)
        for tile in model.stored:
            often = iterations if self.is_looped(tile) else 1.0
            stored += math.prod(self.existing(tile)) * tile.element_bytes * often
        stored = np.where(is_divided, self.total(model.sums) * PART_BYTES, stored)
        after: Numbers = np.where(is_divided, 0.0, self.after_cycles)
        kept = 2 * self.total(model.others) + loads.kept
        kept += sum(
            (self.volume(value) * size for value, size in model.once), start=np.zeros(count)
        )
        kept = np.where(self.holds, 0.0, kept)
        clock = target.clock_ghz
        alone = self.may_be_of_few_rows & (blocks <= target.multiprocessors)
        lone = alone | (self.may_be_of_groups & (blocks <= target.multiprocessors))
        faster = np.where(lone, LONE_BULK_BYTES_A_CYCLE / BULK_BYTES_A_CYCLE, 1.0)
        rate = max(BULK_BYTES_A_CYCLE, COPY_BYTES_A_CYCLE) * clock * faster
        at_once = np.where(iterations == 1, 1, 2) * loads.loop
        too_large = kept + at_once > target.shared_memory_per_block
        busiest = np.ceil(blocks / target.multiprocessors)
        resident = self._most_resident(kept + at_once)
        most = target.max_threads_per_multiprocessor // self.fewest_threads
        resident = np.where(self.holds, most, resident)
        rounds = np.ceil(blocks / (target.multiprocessors * resident))
        iteration = self.iteration_cycles
        warps = self.fewest_threads / target.warp_size
        # Products of warp groups that run ahead of each other hide that.
        waits = np.where(self.holds | self.runs_ahead, 0.0, ITERATION_CYCLES + WARP_CYCLES * warps)
        turn = (iteration + waits) / clock
        one_block = turns * loads.loop + loads.first
        device = loads.tensors + blocks * stored
        cached = blocks * (one_block + stored)
        cached -= np.maximum(blocks - target.multiprocessors, 0) * loads.whole
        cached = np.where(alone, 0.0, cached)
        copies = np.minimum(
            turns * loads.by_threads[0] + loads.by_threads[1],
            (turns * loads.by_bulk[0] + loads.by_bulk[1]) / faster,
        )
        # What comes once threads may load at the end, beside rings that go on.
        stages = self._most_stages(iterations, np.maximum(kept - loads.kept, 0.0))
        later = np.maximum(turns - stages, 0) * (loads.loop > 0)
        fetch = rounds * (TURN_NS + turn)
        fetch += blocks / target.multiprocessors * loads.loop / rate
        terms = np.stack(
            np.broadcast_arrays(
                device / target.memory_bytes_per_ns,
                cached / target.memory_bytes_per_ns / CACHE_FACTOR,
                busiest * copies / clock,
                later * fetch / stages,
                rounds * turns * turn,
                SHARED_ARITHMETIC * busiest * (turns * iteration + after) / clock,
            )
        )
        longest = terms.max(axis=0)
        bound = longest * ((terms / longest) ** IN_A_KERNEL).sum(axis=0) ** (1 / IN_A_KERNEL)
        ends = (loads.loop + loads.first) / rate + (iteration + after) / clock
        least = LAUNCH_NS + target.memory_latency_ns + np.where(self.holds, 0.0, ends) + bound
        least -= np.where(alone, LATE_NS, 0.0)
        parts = blocks * stored / target.memory_bytes_per_ns
        combined: Numbers = least + (LAUNCH_NS + target.memory_latency_ns + parts - OVERLAP_NS)
        whole: Numbers = np.where(is_divided, combined, least)
        return np.where(too_large, np.inf, whole * ROUNDING)

    def _most_resident(self, memory: Numbers) -> Numbers:
        """How many blocks a multiprocessor holds at most, of which each takes so much memory."""
        target, threads = self.target, self.fewest_threads
        memory = memory + target.reserved_shared_memory_per_block
        others = min(
            target.registers_per_multiprocessor // (threads * FEWEST_REGISTERS),
            target.max_threads_per_multiprocessor // threads,
            target.max_blocks_per_multiprocessor,
        )
        by_memory = np.floor(target.shared_memory_per_multiprocessor / memory)
        return np.maximum(np.minimum(by_memory, others), 1)

    def _most_stages(self, iterations: Numbers, kept: Numbers) -> Numbers:
        """How many tiles of the loop are under way at most."""
        target, loop = self.target, np.maximum(self.loads.loop, 1)
        wanted = (
            bytes_in_flight(0.0, 1, 1, target) or 2 * target.bytes_in_flight_per_multiprocessor()
        )
        room = np.floor((target.shared_memory_per_block - kept) / loop)
        # One more than threads have, for a product in flight.
        return np.maximum(np.minimum(np.ceil(wanted / loop) + 2, np.minimum(room, iterations)), 1)


@dataclass(frozen=True)
class _Loads:
    """Bytes of what a block loads, and cycles; each of the loop and of what is loaded once."""

    loop: Numbers
    """Of an iteration."""
    first: Numbers
    """Of what is loaded once."""
    kept: Numbers
    """What of it stays in shared memory."""
    whole: Numbers
    """Of tensors of which each block loads all, where multiprocessors have them in their caches."""
    tensors: int
    by_threads: tuple[Numbers, Numbers]
    """Cycles of copies of threads: in an iteration, and once."""
    by_bulk: tuple[Numbers, Numbers]
    """The same of bulk copies."""
