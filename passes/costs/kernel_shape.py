"""What an estimate needs of a kernel."""

from __future__ import annotations

import math
from typing import NamedTuple

from mugraph.dialects.programming_model import REGISTER_BYTES, VECTOR_BYTES
from mugraph.passes.costs.loads import Loading, Loads
from mugraph.passes.costs.memory import device_ns
from mugraph.passes.costs.work import INSTRUCTION, Held, PhaseWork, shares_rows
from mugraph.passes.targets import Target

FEW_ROWS = INSTRUCTION.shape_mnk[0]
"""Of a product: one instruction's."""


class KernelShape(NamedTuple):
    """What an estimate needs of a kernel under a partition."""

    blocks: int
    threads: int
    iterations: int
    loads: Loads
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
    """What threads hold where there is no product, and one iteration."""
    masks_ends: bool = False
    """Whether its last iteration has fewer elements than others, which a mask of its own says."""
    stored_again: int = 0
    """Bytes of copies of these tiles that are stored for other devices."""

    ragged_columns: bool = False
    """Whether the last block along the columns of a result has fewer."""
    parts: int = 1
    """Over how many blocks the loop of a partition is divided."""

    @property
    def result_bytes(self) -> int:
        """The bytes of the tiles that a block stores: each leaves through one buffer."""
        return self.stored_bytes - self.stored_again

    def held_registers(self, target: Target) -> int | None:
        """Registers of a thread that holds its part of all tiles; ``None`` where it cannot."""
        rows = (*self.loop.rows, *self.after.rows)
        if (
            self.held is None
            or self.iterations > 1
            or not all(
                shares_rows(*row, self.threads, self.held.vector)
                and self.held.shares_padded(*row, self.threads)
                for row in rows
            )
        ):
            return None
        of_one_row = bool(rows) and all(count == 1 and length % 2 == 0 for count, length in rows)
        return self.held.registers(self.threads, target, of_one_row=of_one_row)

    @property
    def narrow_accesses(self) -> float:
        """How often threads that hold tiles move less than a whole vector."""
        aligned = min((load.alignment for load in self.loads), default=VECTOR_BYTES)
        if aligned >= VECTOR_BYTES:
            return 0.0
        moved = self.loading.first_bytes + self.stored_bytes
        return moved / aligned

    @property
    def passed_on(self) -> tuple[int, int]:
        """Rows and columns of the largest product that another one takes what is computed of."""
        return max(self.loop.passed_on, self.after.passed_on, key=math.prod)

    @property
    def reads_between_products(self) -> bool:
        """Whether an iteration loads more tiles of several rows than products take one each of."""
        row = REGISTER_BYTES * self.passed_on[1]
        tiles = sum(load.looped and load.bytes > row for load in self.loads)
        return tiles > len(self.loop.products)

    def is_chain_of_groups(self, target: Target) -> bool:
        """Whether warp groups multiply all, of which something is passed on in registers."""
        if not self.loop.chained and not self.after.chained:
            return False
        phases = (self.loop, self.after)
        return all(work.suits_groups(self.threads, target) for work in phases if work.products)

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

    def product_ns(self, target: Target) -> float:
        """What the products of the busiest multiprocessor take at its highest rate."""
        work = [(self.turns, self.loop), (1, self.after)]
        cycles = math.fsum(
            times * product.macs / (target.most_macs_a_cycle(product.element) or 1)
            for times, phase in work
            for product in phase.products
        )
        return math.ceil(self.blocks / target.multiprocessors) * cycles / target.clock_ghz

    def prefers_bulk(self, target: Target) -> bool:
        """Whether bulk copies bring its tiles faster than copies of all threads.

        What warp groups multiply they bring in any case.  What single warps convert they do not:
        with 8192 x 8192 weights that took 18.4 us and not 15.0 (1 row, 4 bits), 23.1 and not 16.3
        (16 rows), 36.5 and not 22.5 (16 rows, 8 bits), on an H200.  Nor what few rows multiply
        while memory brings it: a row times 151,936 x 4096 in 16 bits took 284 us at best so, and
        278 by threads.  Of several products in a loop that is not measured.  Nor f8, which single
        warps convert, too: 16 rows by 6144 x 4096 took 12.7 us so, and 9.1 by threads.
        """
        if target.bulk_bytes_in_flight is None or not self.loading.comes_in_bulk:
            return False
        by_groups = self.loop.suits_groups(self.threads, target)
        converts = any(product.converted or product.is_f8 for product in self.loop.products)
        if by_groups or converts or self.loading.needs_groups:
            return by_groups
        few = all(product.sizes[0] <= FEW_ROWS for product in self.loop.products)
        if len(self.loop.products) == 1 and few and self.waits_for_memory(target):
            return False
        reading = self.turns * self.row_cycles(target)
        return self.copy_cycles(bulk=True) + reading <= self.copy_cycles(bulk=False)

    def waits_for_memory(self, target: Target) -> bool:
        """Whether device memory takes longer for all tensors than a multiprocessor's copies do."""
        busiest = math.ceil(self.blocks / target.multiprocessors)
        copies = busiest * self.copy_cycles(bulk=False) / target.clock_ghz
        return copies < device_ns(self.loading.tensor_bytes, target)

    def row_cycles(self, target: Target) -> float:
        """What an iteration takes longer for long rows that bulk copies bring: warps read them."""
        by_groups = self.loop.suits_groups(self.threads, target)
        return self.loading.row_cycles if self.loop.products and not by_groups else 0.0

    @property
    def loaded_again(self) -> float:
        """The bytes that blocks load a second time, while tensors come from device memory."""
        often = [self.blocks * (self.turns if load.looped else 1) for load in self.loads]
        return math.fsum(
            min(max(times * load.bytes - load.tensor_bytes, 0.0), load.tensor_bytes)
            for times, load in zip(often, self.loads, strict=True)
        )

    def divided(self, split: int) -> KernelShape:
        """The kernel with its loop divided over so many blocks."""
        if split == 1:
            return self
        # What masks leave is in few of the parts: their blocks take the longest.
        share = min(self.share * split, 1.0)
        blocks, iterations = self.blocks * split, self.iterations // split
        parts = self.parts * split
        return self._replace(blocks=blocks, iterations=iterations, share=share, parts=parts)

    @property
    def loading(self) -> Loading:
        """What its loads take."""
        return self.loads.together

    @property
    def loop_bytes(self) -> int:
        """What an iteration loads."""
        return self.loading.loop_bytes
