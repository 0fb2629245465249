"""What a product multiplies at the level of addresses: where matrices lie, and who holds the sums.

Matrices are those that the operator says it multiplies, by their layouts.  Who holds what of the
accumulator, and of a left matrix in registers, follows from the fragment's thread-value layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.cute.thread_values import BoolArray
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

    def of_threads(self, threads: slice) -> HeldMatrix:
        """The same of some threads, of those that hold any."""
        return HeldMatrix(
            self.part[:, threads],
            self.row[:, threads],
            self.column[:, threads],
            self.exists[:, threads],
        )


@dataclass(frozen=True, eq=False)
class StoredMatrix:
    """A matrix in memory: ``offsets`` are those of its elements from the start of the stage.

    ``reads`` are the declared accesses, for their extents and their alignment.
    """

    reads: tuple[AccessPlan, ...]
    offsets: IntArray

    @classmethod
    def of(
        cls, accesses: Sequence[ThreadAccess], matrix: AnyLayout, starts: Sequence[int] = (0,)
    ) -> StoredMatrix:
        """All of a matrix, [parts, rows, columns], of which parts begin at some elements."""
        rows, columns = (np.arange(mode.size(), dtype=np.int64) for mode in base_layout(matrix))
        first = np.array(starts, np.int64)[:, None, None]
        return cls(_plans(accesses), matrix_offsets(matrix, rows[:, None], columns, first))

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
        left, right = (
            StoredMatrix.of(
                [access for access in accesses if access.operand == operand],
                matrix,
                [apart * part for part in range(parts if op.is_sliced else 1)],
            )
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
        accesses, matrices = accesses_of(op), op.matrices()
        stored = {
            operand: StoredMatrix.of(
                [access for access in accesses if access.operand == operand],
                matrix,
                [0 if operand else op.lhs_offset],
            )
            for operand, matrix in matrices.items()
        }
        left = HeldMatrix.of(op.lhs) if op.lhs_in_registers else stored[0]
        k = np.arange(stored[1].offsets.shape[-1], dtype=np.int64)
        return cls(left, stored[1], HeldMatrix.of(op.accumulator), [k])
