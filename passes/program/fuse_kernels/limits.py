"""What a kernel of some operators takes at least, before it is built.

However ``--plan`` cuts it: blocks may divide what is parallel into single elements, and a loop's
sums over :data:`SPLITS` blocks.  Bounds from below of what
:func:`~mugraph.passes.costs.kernels.estimate` says, term by term.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation, SSAValue

from mugraph.dialects.interfaces import HasTileIndices
from mugraph.dialects.kn import CastOp, ElementwiseOp, MatmulOp
from mugraph.dialects.programming_model import GROUP_ROWS
from mugraph.dialects.tensor_types import element_bytes_of
from mugraph.passes.costs.kernels import LAUNCH_NS, SHARED_ARITHMETIC
from mugraph.passes.costs.memory import (
    BULK_BYTES_A_CYCLE,
    BULK_ROW_BYTES,
    COPY_BYTES_A_CYCLE,
    COPY_ROW_BYTES,
)
from mugraph.passes.costs.products import group_cycles, instruction_cycles
from mugraph.passes.costs.residency import sums_of_a_thread
from mugraph.passes.costs.work import (
    CHAIN_CYCLES,
    ELEMENT_CYCLES,
    GROUP_SLACK,
    INSTRUCTION,
    ITERATION_CYCLES,
    WARP_CYCLES,
    WITH_OPERANDS,
)
from mugraph.passes.mugraph.plan.partitions import SPLITS
from mugraph.passes.mugraph.plan.tiles import BLOCKS
from mugraph.passes.program.fuse_kernels.indices import GroupIndices
from mugraph.passes.targets import WGMMA, Target

Index = int | None
ROW_CYCLES = min(COPY_ROW_BYTES / COPY_BYTES_A_CYCLE, BULK_ROW_BYTES / BULK_BYTES_A_CYCLE)
"""What a row of a tile takes to load, however short it is."""


@dataclass(frozen=True)
class Limits:
    """A kernel of operators, of whose results some are stored, as far as their indices tell."""

    operators: Sequence[HasTileIndices]
    indices: GroupIndices
    stored: Sequence[SSAValue]

    @cached_property
    def by_grid(self) -> frozenset[int]:
        """The indices that blocks may divide."""
        side_by_side = self.indices.side_by_side(self.stored)
        return side_by_side.union(self.indices.parallel(self.stored))

    @cached_property
    def loaded(self) -> list[SSAValue]:
        """What the operators do not compute."""
        made = {result for op in self.operators for result in op.results}
        return [value for value in self.indices.of_value if value not in made]

    def least_bytes(self, looped: Index) -> int:
        """What the tiles that a block loads take at least.

        Without a loop ``--plan`` may add one along any index.
        """
        if looped is None and self.indices.looped:
            return min(map(self.least_bytes, self.indices.looped))
        cut = {*self.by_grid, looped}
        return sum(
            element_bytes_of(value.type) * self._elements(self.indices.of_value[value], cut)
            for value in self.loaded
        )

    def fit(self, looped: Index, target: Target) -> bool:
        """Whether tiles may fit a block whose loop walks along an index."""
        if self.least_bytes(looped) > target.shared_memory_per_block:
            return False
        if looped is None and self.indices.looped:
            return any(self._keeps_sums(n, target) for n in self.indices.looped)
        return self._keeps_sums(looped, target)

    def overflow(self, looped: Index, target: Target) -> bool:
        """Whether a block has no place for a tile, be it loaded or computed, in some loop.

        It may be in shared memory or, in f32, in registers.
        """
        most = target.shared_memory_per_block // 2 + target.registers_per_multiprocessor
        cut = {*self.by_grid, looped}
        too_large = (
            self._elements(self.indices.of_value[each], cut) > most for each in self.loaded
        )
        return any(too_large) or not self._keeps_sums(looped, target)

    def _keeps_sums(self, looped: Index, target: Target) -> bool:
        """Whether threads of a block can keep the sums of all its products."""
        cut = {*self.by_grid, looped}
        most = max(threads * sums_of_a_thread(threads, target) for threads in BLOCKS)
        products = (op for op in self.operators if isinstance(op, MatmulOp))
        return most >= sum(
            self._elements(self.indices.of_value[product.result], cut) for product in products
        )

    def least_time(self, target: Target) -> float:
        """Nanoseconds that a kernel takes at least for what one of its blocks does."""
        cycles = max(self._load_cycles(), self._product_cycles(target), self._scan_cycles(target))
        return LAUNCH_NS + target.memory_latency_ns + cycles / target.clock_ghz

    def _elements(self, numbers: Sequence[Index], cut: Container[Index]) -> int:
        """The elements of a tile of which some indices are cut into single ones."""
        extents = self.indices.extents
        return math.prod(extents[n] for n in numbers if n is not None and n not in cut)

    def _load_cycles(self) -> float:
        """What a block takes to load its tiles, though a loop be divided over some blocks."""
        loops = [self._cycles_of_loads({*self.by_grid, looped}) for looped in self.indices.looped]
        whole = self._cycles_of_loads(self.by_grid)
        if self.indices.scanned:
            return whole
        return max(min(loops, default=whole), whole / max(SPLITS))

    def _cycles_of_loads(self, cut: Container[Index]) -> float:
        cycles = 0.0
        for value in self.loaded:
            *outer, inner = self.indices.of_value[value] or [None]
            row = self._elements([inner], cut) * element_bytes_of(value.type)
            cycles += self._elements(outer, cut) * max(ROW_CYCLES, row / BULK_BYTES_A_CYCLE)
        return cycles

    def _product_cycles(self, target: Target) -> float:
        """What a block takes for its products, though a loop be divided over some blocks."""
        if self.indices.scanned:
            return 0.0  # they are counted in each of its iterations
        products = [op for op in self.operators if isinstance(op, MatmulOp)]
        if not products:
            return 0.0

        def cycles_along(looped: int) -> float:
            own = [op for op in products if looped in self._numbers(op)]
            cycles = (self._cycles_of_product(op, self.by_grid, target) for op in own)
            return sum(cycles) / max(SPLITS)

        return SHARED_ARITHMETIC * min(map(cycles_along, self.indices.looped), default=0.0)

    def _numbers(self, op: Operation) -> set[Index]:
        """The indices that an operator runs through."""
        return {n for value in (*op.operands, *op.results) for n in self.indices.of_value[value]}

    def _cycles_of_product(self, op: MatmulOp, cut: Container[Index], target: Target) -> float:
        """What a product of a block takes at least, by warps or by warp groups."""
        *leading, rows, depth = self.indices.of_value[op.lhs]
        *_, columns = self.indices.of_value[op.rhs]
        m, n, k = INSTRUCTION.shape_mnk
        others = self._elements(leading, cut) * -(-self._elements([columns], cut) // n)
        others *= -(-self._elements([depth], cut) // k)
        own = self._elements([rows], cut)
        by_warps = WITH_OPERANDS * instruction_cycles(INSTRUCTION, target)
        by_warps *= others * -(-own // m) / target.schedulers_per_multiprocessor
        if WGMMA not in target.macs_a_cycle:
            return by_warps
        macs = others * -(-own // GROUP_ROWS) * GROUP_ROWS * n * k
        rates = target.macs_a_cycle[WGMMA]
        fastest = max(rates, key=rates.__getitem__)
        return min(by_warps, GROUP_SLACK * group_cycles(macs, target, fastest))

    def _scan_cycles(self, target: Target) -> float:
        """What a block takes to go along what operators scan, element by element."""
        if not self.indices.scanned:
            return 0.0
        (scanned, *_) = self.indices.scanned
        cut = {*self.by_grid, scanned}
        warps = min(BLOCKS) / target.warp_size
        cycles = ITERATION_CYCLES + WARP_CYCLES * warps
        threads = 2 * target.schedulers_per_multiprocessor * target.warp_size
        chained: set[SSAValue] = set()
        for op in self.operators:
            if scanned not in self.indices.of_value[op.results[0]]:
                continue
            follows = not chained.isdisjoint(op.operands)
            if isinstance(op, MatmulOp):
                cycles += self._cycles_of_product(op, cut, target) + follows * CHAIN_CYCLES
                follows = True
            elif self._takes_steps(op):
                elements = self._elements(self.indices.of_value[op.results[0]], cut)
                cycles += elements * ELEMENT_CYCLES / threads
            if follows:
                chained.update(op.results)
        return cycles * self.indices.extents[scanned]

    def _takes_steps(self, op: Operation) -> bool:
        """Whether each iteration computes each element of an operator's result.

        Where something is summed over the loop, algebra may leave it for later.
        """
        if not isinstance(op, ElementwiseOp) or op.FUNCTION in (CastOp.FUNCTION, "mul_scalar"):
            return False
        return all(
            number in self.indices.of_value[each.results[0]]
            for number in self.indices.scanned
            for each in self.indices.combined[number]
        )
