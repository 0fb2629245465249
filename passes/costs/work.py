"""What a block computes, and the cycles that it takes by itself.

Numbers without another source were fitted as those of ``passes/costs/kernels.py``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from mugraph.dialects.cute.atoms import F8_TYPES, mma_atom, tensor_core_atom
from mugraph.dialects.programming_model import (
    GROUP_ROWS,
    GROUP_THREADS,
    REGISTER_BYTES,
    WARPGROUP,
)
from mugraph.passes.costs.memory import shared_cycles
from mugraph.passes.costs.products import group_cycles, instruction_cycles
from mugraph.passes.targets import Target

INSTRUCTION = mma_atom("SM80_16x8x16_F32F16F16F32_TN")
"""What products are counted in, whoever computes them."""
ITERATION_CYCLES, WARP_CYCLES = 70.0, 14.6
"""What an iteration takes beside its arithmetic, and for each warp that waits for the others."""
WITH_OPERANDS, GROUP_SLACK = 1.81, 1.1
"""How much longer products of warps take with the loads of their operands, and those of groups."""
AS_HALVES = 2.0
"""How much longer single warps take for f8, whose operands become f16 first: of 16 rows by 4096 x
14336 an iteration of 32 columns and 256 of the depth took 328 ns on an H200 by four warps of a
block that has a multiprocessor alone, and 522 of 512 (``benchmarks/results/narrow_h200.md``)."""
ELEMENT_CYCLES = 3.0
"""Cycles of a thread for an element of an operator that is no product."""
CONVERSION_ISSUES = 4.5
"""Instructions for each element of few bits that becomes a factor of 16, as if none waited: fitted
to 34 plans of products of 1 to 64 rows by 4 and 8 bits on an H200; no script is kept."""
SINGLE_CONVERSION_ISSUES, CHAINED_CONVERSION_ISSUES = 10.0, 2.0
"""The same where each is read alone, and in a chain of products, in which others are computed
meanwhile: of f8 the loop of decode attention has 2.0 for each of keys, and 2.25 of values."""
RUN_CONVERSION_ISSUES = 3.0
"""The same of products of few rows, whose operands warps read by runs.

Written by hand three products of a row took 12.4, 12.0 and 13.0 us on an H200, and 14.9, 15.0 and
15.5 with loads of pairs (``benchmarks/results/narrow_weights_h200.md``); it is not fitted to plans.
"""
CONVERTING_TURN_CYCLES, LONE_GROUP = 350.0, 1.75
"""What each turn of warp groups that convert takes besides, and how much longer one converts that
has a multiprocessor alone: 64 rows and weights of 8192 x 8192 in 8 bits took 37.4 us with 64 of the
depth a turn on an H200, 37.7 by one group, and 30.0 by two with 128."""
WIDE_CONVERSION = 3.0
"""The same of a group that has more columns than one instruction, or more than 128 of the depth a
turn: 64 rows and 14336 x 4096 weights of 4 bits took 63.8 us with 128 columns a group and 29.2 with
64, 8192 x 8192 of 8 bits 53.2 with 256 of the depth and 30.0 with 128."""
SLICED_CONVERSION = 1.15
"""The same of as many single warps, which have pairs of matrices of their own: 64 rows and 8192 x
8192 weights of 4 bits took 33.4 us so where 31.2 were estimated."""
SHARED_ROWS, LEFT_WAITING = 64, 0.5
"""Rows for which groups that convert numbers of 4 bits were timed with several blocks a
multiprocessor, and what each block more leaves of the time that a turn takes besides.

64 rows took 43.7 us on an H200 of 8192 x 8192 by blocks alone, 31.6 and 29.5 by two and four; of
4096 x 14336 28.2 and 25.8 by two and four (``benchmarks/results/narrow_weights_h200.md``)."""
CONVERTED_STEPS = 8
"""Of :data:`INSTRUCTION` along the depth, at most, whose operands a group has in registers."""
MORE_WARPS = 0.2
"""And of four single warps more, each of which reads all of the left matrix."""
CHAINED_VALUES = 64
"""Sums of a product in a chain that a thread can keep in registers."""
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
ROW_VECTOR, MOST_ROW_VALUES, MOST_VALUES_OF_ONE, MANY_THREADS = 8, 64, 104, 512
"""Elements of a row that a thread loads at once, and at most keeps, more of one that many share.

A softmax of 51,866 columns has 102 in each of 512 threads, which ptxas gives 128 registers: 7,500
rows took 543 us on an H200, and 1,351 in two parts, which a second kernel reads again."""
ROW_STEP_CYCLES = 18.0
"""What a warp takes for each of its steps along a row that it reduces alone (13 to 25 measured)."""
MOST_PADDED_ROWS = 2
"""Padded rows that a thread has a part of: 12 of 512 columns in 512 threads took 11.9 us on an H200
and 2 in 128 threads 4.8, 16 of 256 in 256 threads 4.5 and 4 of them 3.2."""
WORKING_REGISTERS = 24
"""Addresses, counters, predicates: about what ptxas uses where there is nothing else to hold."""
LOADING_REGISTERS = (40, 32, 24)
"""What the threads of an elected role keep: the first number that leaves the others enough.

Estimates count on the first one.
"""


def shares_rows(rows: int, length: int, threads: int, vector: int = 0) -> bool:
    """Whether threads of a block share rows evenly, each with its parts in registers.

    They load ``vector`` elements at once; 0 where that follows from the length.
    """
    vector = vector or math.gcd(length, ROW_VECTOR)
    vectors = length // vector
    each = math.ceil(rows * vectors / threads)
    even = rows == 1 or vectors % threads == 0 or threads % vectors == 0
    return even and each * vector <= most_values(threads, of_one_row=rows == 1 and vector > 1)


def most_values(threads: int, *, of_one_row: bool) -> int:
    """How many elements each of so many threads keeps at most.

    ``of_one_row``: vectors of a single row.  What is loaded element by element does not count: 4000
    x 50257 took 467 us on an H100, and 459 in parts.
    """
    return MOST_VALUES_OF_ONE if of_one_row and threads >= MANY_THREADS else MOST_ROW_VALUES


class Held(NamedTuple):
    """The tiles of a kernel without a loop and products, where threads can hold them."""

    peak_bytes: int
    """Of all that is needed at one time."""
    staged_bytes: int
    """Of tiles that are broadcast, which stay in shared memory."""
    largest: int
    """Elements of a tile at most."""
    vector: int = 0
    """Elements that a thread loads at once of rows that are padded; 0 where none are."""

    def shares_padded(self, rows: int, length: int, threads: int) -> bool:
        """Whether each thread has few of the padded rows."""
        if not self.vector:
            return True
        lanes = min(length // self.vector, threads)
        return rows * lanes <= MOST_PADDED_ROWS * threads

    def registers(self, threads: int, target: Target, *, of_one_row: bool = False) -> int | None:
        """What a thread needs; ``None`` where a block's threads have not so many.

        ``of_one_row``: tiles are a row each, of which something is reduced.
        """
        most = target.registers_per_multiprocessor // threads
        needed = WORKING_REGISTERS + math.ceil(self.peak_bytes / REGISTER_BYTES / threads)
        values = most_values(threads, of_one_row=of_one_row) * threads
        return needed if needed <= most and self.largest <= values else None


def issue_cycles(target: Target) -> float:
    """Cycles of a multiprocessor for an instruction of one thread of many."""
    return 1 / (target.warp_size * target.schedulers_per_multiprocessor)


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
    conversion: float = 0.0
    """Instructions for each of these."""
    swapped: bool = False
    """Whether warp groups multiply loaded matrices with swapped operands: none is in flight while
    the next one is issued."""
    sizes: tuple[int, int, int] = (0, 0, 0)
    """Rows, columns and depth of one of its products of two matrices."""
    bytes_with_sums: int = 0
    """Of what it multiplies and of its sums in shared memory, where it is the result of functions
    that is added up: registers have no room for many of these; 0 for other products."""
    row_tiles: int = 1
    """Instructions along its rows that the warp of some columns computes, one after another."""

    @property
    def macs(self) -> int:
        """Multiply-adds in whole instructions."""
        return self.instructions * math.prod(INSTRUCTION.shape_mnk)

    @property
    def is_f8(self) -> bool:
        """Whether it multiplies numbers of f8."""
        return self.element in F8_TYPES

    @property
    def steps_of_warps(self) -> float:
        """Instructions of single warps that add to the same sum, one after another.

        Those for numbers of 8 bits are of twice the depth.
        """
        atom = tensor_core_atom(self.element, self.element, (self.element,))
        return self.chain * min(INSTRUCTION.shape_mnk[2] / atom.shape_mnk[2], 1.0)

    def parts(self, warps: int) -> int:
        """Into how many parts along its depth so many single warps divide it."""
        shared = self.instructions // max(self.chain * self.row_tiles, 1)
        return max(warps // max(shared, 1), 1)

    def busiest(self, warps: int, pairs: int) -> float:
        """What the busiest warp converts, in parts of what each had if all had as much.

        Warps share the pairs of matrices evenly, and those of a pair its columns, whole tiles at a
        time: of three tiles one of two warps has two, and one of four warps none.

        A gated MLP of a row by 24576 x 4096 of 4 bits, with its norm, took 25.6 us on an H200 by
        tiles of 48 columns that four warps share, 19.3 by such tiles of a warp each, and 18.2 by
        32 columns of two warps (``benchmarks/results/narrow_weights_h200.md``).
        """
        tiles = self.instructions // max(self.chain * self.row_tiles * pairs, 1)
        sharing = warps // pairs
        return math.ceil(tiles / sharing) * sharing / max(tiles, 1)

    def is_wide(self, groups: int) -> bool:
        """Whether one of so many warp groups converts more than it has registers for at once."""
        return self.group_rows > groups * GROUP_ROWS or self.chain > CONVERTED_STEPS

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
    pairs: int = 1
    """Of matrices, which warps may share: then each product is that of one pair for its warps."""
    moved: int = 0
    """Elements of these that pass through shared memory where warps cannot share the pairs."""
    joins_state: bool = False
    """Whether a product becomes a part of what the loop carries: exchanges are then all that one
    product waits for of another.

    The loop of a gated delta rule, two products of 32 x 128 and 128 x 32 by 16 columns of a state,
    took 533 ns an iteration on an H200 by two warps and 486 by four, and of d 64 396 by two; the
    estimate is 1.25 to 1.42 of that (``benchmarks/results/recurrences_h200.md``)."""

    def shares_pairs(self, warps: int) -> bool:
        """Whether so many warps share the pairs evenly."""
        return warps % self.pairs == 0

    def stays_in_registers(self, threads: int, warp_size: int) -> bool:
        """Whether what one product passes on to another can stay with the threads that have it."""
        rows, columns = self.passed_on
        few = rows * columns <= CHAINED_VALUES * threads
        return few and threads // warp_size * CHAINED_ROWS <= rows

    def is_of_groups(self, threads: int, target: Target) -> bool:
        """Whether warp groups multiply all its products, and pass nothing on."""
        return not self.chained and self.suits_groups(threads, target)

    def runs_ahead(self, threads: int, target: Target) -> bool:
        """Whether they issue a product while another one is in flight."""
        swapped = any(product.swapped for product in self.products)
        return not swapped and self.is_of_groups(threads, target)

    def suits_groups(self, threads: int, target: Target) -> bool:
        """Whether warp groups multiply all its products, which bulk copies must bring."""
        groups = threads // target.warp_size // WARPGROUP
        return (
            target.multiplies_in_warpgroups
            and groups > 0
            and bool(self.products)
            and all(product.fills_groups(groups) for product in self.products)
        )

    def is_sliced(self, warps: int) -> bool:
        """Whether single warps have pairs of matrices of their own (``--slice-products``)."""
        return self.pairs > 1 and self.shares_pairs(warps)

    def element_cycles(self, threads: int, target: Target) -> float:
        """Of what is computed that is no product."""
        lanes = min(threads, target.schedulers_per_multiprocessor * target.warp_size * 2)
        moved = 0 if self.shares_pairs(threads // target.warp_size) else self.moved
        return (self.elements + moved) * ELEMENT_CYCLES / lanes

    def shared_by(self, blocks: int) -> PhaseWork:
        """A block's part of it where so many have columns of its products each."""
        products = tuple(p._replace(instructions=p.instructions // blocks) for p in self.products)
        elements, sums = self.elements // blocks, self.sums // blocks
        return self._replace(products=products, elements=elements, sums=sums)

    def by_warps(self) -> PhaseWork:
        """The same where single warps multiply."""
        return self._replace(products=tuple(p._replace(group_rows=0) for p in self.products))

    def cycles(self, threads: int, target: Target) -> float:
        """From its first instruction to its last, of a block that has a multiprocessor alone."""
        warp_size = target.warp_size
        warps = max(threads // warp_size, 1)
        total = self._cycles_of_products(threads, target)
        total += self.element_cycles(threads, target)
        total += self.special / target.special_a_cycle
        exchanges = self.exchanges + (0 if self.shares_pairs(warps) else self.pairs)
        total += exchanges * EXCHANGE_BARRIERS * WARP_CYCLES * warps
        total += sum(
            math.ceil(rows / warps) * length / warp_size * ROW_STEP_CYCLES
            for rows, length in self.rows
            if not shares_rows(rows, length, threads)
        )
        if self.chained and not self.joins_state:
            if not self.stays_in_registers(threads, warp_size):
                total *= THROUGH_MEMORY
                total += CHAIN_BARRIERS * WARP_CYCLES * warps
            total += self.chained * CHAIN_CYCLES
        if self.chained:
            total += self._conversion_cycles(threads, target)
        return total

    def _cycles_of_products(self, threads: int, target: Target) -> float:
        """Of all products, and outside of chains of what is converted for them.

        Single warps convert numbers while they wait for the sums of the product before.
        """
        warps = max(threads // target.warp_size, 1)
        times = [self._product_cycles(each, warps, target) for each in self.products]
        conversion = self._conversion_cycles(threads, target) if self.converts else 0.0
        if conversion and not self.suits_groups(threads, target):
            busy, waiting = map(math.fsum, zip(*times, strict=True))
            return max(busy + conversion, waiting)
        return math.fsum(max(each) for each in times) + conversion

    def _conversion_cycles(self, threads: int, target: Target) -> float:
        """Of what its threads make of numbers of few bits."""
        if not any(each.converted for each in self.products):
            return 0.0
        if self.chained:
            issues = CHAINED_CONVERSION_ISSUES * sum(each.converted for each in self.products)
            return issues * issue_cycles(target)
        issues = sum(each.converted * each.conversion for each in self.products)
        if not self.suits_groups(threads, target):
            # Of pairs that warps share, each warp reads the left matrix of its own alone.
            warps = threads // target.warp_size
            pairs = self.pairs if self.shares_pairs(warps) else 1
            if pairs > 1:
                issues *= max(each.busiest(warps, pairs) for each in self.products)
            more = threads / pairs / GROUP_THREADS - 1
            return issues * (1 + max(more, 0.0) * MORE_WARPS) * issue_cycles(target)
        groups = threads // GROUP_THREADS
        if any(each.is_wide(groups) for each in self.products):
            issues *= WIDE_CONVERSION
        few = self.products[0].sizes[0] == SHARED_ROWS
        if few and self.is_sliced(threads // target.warp_size):
            issues *= SLICED_CONVERSION
        return CONVERTING_TURN_CYCLES + issues * issue_cycles(target)

    @property
    def converts(self) -> bool:
        """Whether threads convert what is multiplied, and pass no product on."""
        return not self.chained and any(each.converted for each in self.products)

    def converts_in_turn(self, threads: int, target: Target) -> bool:
        """Whether warp groups convert 4 bits of what they multiply, beside those of other blocks.

        Low bits and high bits are a product each.
        """
        timed = len(self.products) == 2 and self.products[0].sizes[0] == SHARED_ROWS
        sliced = self.is_sliced(threads // target.warp_size)
        return timed and self.converts and not sliced and self.suits_groups(threads, target)

    def waiting_cycles(self, threads: int, target: Target) -> float:
        """How much longer a warp group converts that has a multiprocessor alone."""
        if threads != GROUP_THREADS or not self.suits_groups(threads, target):
            return 0.0
        issues = sum(each.converted * each.conversion for each in self.products)
        return (LONE_GROUP - 1) * issues * issue_cycles(target)

    def hidden_cycles(self, threads: int, blocks: int, target: Target) -> float:
        """What ``blocks`` that share a multiprocessor hide of what each turn takes besides.

        While one waits, others convert.
        """
        if not self.converts_in_turn(threads, target):
            return 0.0
        return CONVERTING_TURN_CYCLES * (1 - LEFT_WAITING ** (blocks - 1))

    @staticmethod
    def _product_cycles(product: Product, warps: int, target: Target) -> tuple[float, float]:
        """Of one product, by warp groups where they can, else by warps: of all its instructions,
        and of those that add to the same sums, one after another."""
        groups = warps // WARPGROUP
        if target.multiplies_in_warpgroups and groups and product.fills_groups(groups):
            cycles = GROUP_SLACK * group_cycles(product.macs, target, product.element)
            return cycles, operand_cycles(product, target)
        schedulers = min(warps, target.schedulers_per_multiprocessor)
        each = WITH_OPERANDS * instruction_cycles(INSTRUCTION, target)
        if product.is_f8:
            each *= AS_HALVES
        # Warps share the sums first, and then what is added to each.
        one_after_another = product.steps_of_warps / product.parts(warps) * target.mma_latency
        return product.instructions * each / schedulers, one_after_another
