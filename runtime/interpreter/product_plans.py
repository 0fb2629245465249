"""What a product multiplies at the level of addresses: where matrices lie, and who holds the sums.

Matrices are those that the operator says it multiplies, by their layouts.  Who holds what of the
accumulator, and of a left matrix in registers, follows from the fragment's thread-value layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.thread_values import BoolArray
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.accesses import ThreadAccess
from mugraph.dialects.sched.mappings import IntArray, matrix_offsets
from mugraph.dialects.tensor_types import AnyLayout, base_layout
from mugraph.runtime.interpreter.address_plans import AccessPlan, accesses_of, plan_elements


@dataclass(frozen=True, eq=False)
class HeldMatrix:
    """Which element of which part of a matrix each value of each thread is, [values, threads]."""

    part: IntArray
    row: IntArray
    column: IntArray
    exists: BoolArray

    @classmethod
    def of(cls, fragment: SSAValue) -> HeldMatrix:
        """The elements of a fragment."""
        assert isinstance(fragment.type, sched.TileType)  # verified
        held = fragment.type.thread_values()
        *leading, row, column = held.coordinates()
        part = leading[0] if fragment.type.parts > 1 else np.zeros_like(row)
        return cls(part, row, column, held.exists())

    @cached_property
    def extents(self) -> tuple[int, int]:
        """The rows and columns of the matrix that are held."""
        return int(self.row[self.exists].max()) + 1, int(self.column[self.exists].max()) + 1

    @cached_property
    def warps(self) -> list[HeldLines]:
        """What each warp holds."""
        threads = self.row.shape[1]
        slices = (slice(first, first + WARP) for first in range(0, threads, WARP))
        return [HeldLines.of(self.of_threads(each)) for each in slices]

    def of_threads(self, threads: slice) -> HeldMatrix:
        """The same of some threads, of those that hold any."""
        return HeldMatrix(
            self.part[:, threads],
            self.row[:, threads],
            self.column[:, threads],
            self.exists[:, threads],
        )


@dataclass(frozen=True, eq=False)
class HeldLines:
    """The rows and columns of a part that a warp holds, and where each value is, [values, threads].

    ``row`` and ``column`` count among ``rows`` and ``columns``.
    """

    part: int
    rows: IntArray
    columns: IntArray
    row: IntArray
    column: IntArray
    exists: BoolArray

    @classmethod
    def of(cls, held: HeldMatrix) -> HeldLines:
        """Those of what a warp holds."""
        rows, row = np.unique(np.where(held.exists, held.row, 0), return_inverse=True)
        columns, column = np.unique(np.where(held.exists, held.column, 0), return_inverse=True)
        shape = held.row.shape
        part = int(held.part[0, 0])
        return cls(part, rows, columns, row.reshape(shape), column.reshape(shape), held.exists)


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """A matrix in memory: ``offsets`` are those of its elements from the start of the stage.

    ``reads`` are the declared accesses, for their extents and their alignment.
    """

    reads: tuple[AccessPlan, ...]
    offsets: IntArray

    @classmethod
    def of(
        cls,
        accesses: Sequence[ThreadAccess],
        operand: int,
        matrix: AnyLayout,
        starts: Sequence[int],
    ) -> StoredMatrix:
        """All of an operand, [parts, rows, columns], of which parts begin at some elements."""
        rows, columns = (np.arange(mode.size(), dtype=np.int64) for mode in base_layout(matrix))
        first = np.array(starts, np.int64)[:, None, None]
        reads = [access for access in accesses if access.operand == operand]
        return cls(_plans(reads), matrix_offsets(matrix, rows[:, None], columns, first))

    @classmethod
    def of_load(cls, op: sched.LoadOp) -> StoredMatrix:
        """What threads load of a left matrix, [values, threads]; for what none is, any element."""
        matrix, held = op.matrix(), HeldMatrix.of(op.destination)
        coordinates = (np.where(held.exists, each, 0) for each in (held.row, held.column))
        return cls(_plans(accesses_of(op)), matrix_offsets(matrix, *coordinates))


def _plans(accesses: Sequence[ThreadAccess]) -> tuple[AccessPlan, ...]:
    return tuple(plan_elements(access) for access in accesses)


@dataclass(frozen=True, eq=False)
class ProductPlan:
    """Both matrices of a product, (rows, k) and (columns, k), and its accumulator.

    ``depths`` are the k that each part of the accumulator is a sum over: of warps along k their
    steps.
    """

    left: StoredMatrix | HeldMatrix
    right: StoredMatrix
    sums: HeldMatrix
    depths: Sequence[IntArray]

    @classmethod
    def of_warps(cls, op: sched.MmaOp) -> ProductPlan:
        """The plan of a product by warps, or by single threads."""
        accesses, parts = accesses_of(op), op.parts
        starts = range(parts if op.is_sliced else 1)
        left, right = (
            StoredMatrix.of(accesses, operand, matrix, [apart * part for part in starts])
            for operand, (matrix, apart) in enumerate(
                zip(op.matrices(), op.strides_of_slices(), strict=True)
            )
        )
        k = np.arange(right.offsets.shape[-1], dtype=np.int64)
        takers = 1 if op.is_sliced or op.atom is None else parts
        step = k // (1 if op.atom is None else op.atom.shape_mnk[2])
        depths = [k[step % takers == part % takers] for part in range(parts)]
        held = HeldMatrix.of(op.lhs) if op.lhs_in_registers else left
        return cls(held, right, HeldMatrix.of(op.accumulator), depths)

    @classmethod
    def of_groups(cls, op: sched.WarpgroupMmaOp) -> ProductPlan:
        """The plan of a product by warp groups."""
        accesses = accesses_of(op)
        stored = {
            operand: StoredMatrix.of(accesses, operand, matrix, [0 if operand else op.lhs_offset])
            for operand, matrix in op.matrices().items()
        }
        left = HeldMatrix.of(op.lhs) if op.lhs_in_registers else stored[0]
        k = np.arange(stored[1].offsets.shape[-1], dtype=np.int64)
        return cls(left, stored[1], HeldMatrix.of(op.accumulator), [k])
