"""Products of warp groups, on bytes.

Products multiply what descriptors make the hardware read.

Asynchronous products read their operands as late as the program allows, when a wait covers them;
what overwrites an operand before that gives wrong numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.interpreter import (
    InterpreterFunctions,
    PythonValues,
    register_impls,
)
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.mappings import IntArray, matrix_offsets
from mugraph.dialects.tensor_types import base_layout, shape_of
from mugraph.runtime.interpreter.address_level import AddressFunctions, multiplicand
from mugraph.runtime.interpreter.address_plans import AccessPlan, accesses_of, plan_elements
from mugraph.runtime.interpreter.arithmetic import Array, convert, storage_dtype
from mugraph.runtime.interpreter.dispatch import impl_writing
from mugraph.runtime.interpreter.functions import apply_chain
from mugraph.runtime.interpreter.memory import Ending


@dataclass(frozen=True, eq=False)
class WarpgroupPlan:
    """Where the elements of both matrices lie, and which product every thread holds.

    ``reads`` and ``offsets``, [lines, k], are of the operands in memory, by their numbers; ``rows``
    and ``columns`` are [values, threads].  ``held`` says, of a left matrix in registers, the row
    and the k of each value of each thread.
    """

    reads: dict[int, AccessPlan]
    offsets: dict[int, IntArray]
    rows: IntArray
    columns: IntArray
    held: tuple[IntArray, IntArray] | None

    @classmethod
    def build(cls, op: sched.WarpgroupMmaOp) -> WarpgroupPlan:
        """The plan of a product."""
        reads = {access.operand: plan_elements(access) for access in accesses_of(op)}
        offsets: dict[int, IntArray] = {}
        for index, matrix in op.matrices().items():
            plain = base_layout(matrix)
            line = np.arange(plain[0].size(), dtype=np.int64)[:, None]
            depth = np.arange(plain[1].size(), dtype=np.int64)[None, :]
            line, depth = np.broadcast_arrays(line, depth)
            offsets[index] = matrix_offsets(matrix, line, depth) + (0 if index else op.lhs_offset)
        rows, columns = coordinates_of(op.accumulator)
        held = coordinates_of(op.lhs) if op.lhs_in_registers else None
        return cls(reads, offsets, rows, columns, held)


def coordinates_of(fragment: SSAValue) -> tuple[IntArray, IntArray]:
    """The row and the column of each value of each thread of a product, [values, threads]."""
    assert isinstance(fragment.type, sched.TileType)  # verified
    *_, row, column = fragment.type.thread_values().coordinates()
    return row, column


@register_impls
class WarpgroupFunctions(InterpreterFunctions):
    """Products of warp groups and waits for them."""

    def __init__(self, functions: AddressFunctions) -> None:
        self.functions = functions

    @impl_writing(sched.WarpgroupMmaOp)
    def run_warpgroup_mma(self, op: sched.WarpgroupMmaOp, args: PythonValues) -> None:
        """Adds the product to the accumulator, or notes that it is to be done."""
        frame = self.functions.frame
        product: list[Ending] = []
        if op.stage.happens_at(frame.iteration, frame.iterations):
            product = [partial(self._finish, op, args, frame.iteration, frame.position)]
        if op.is_async:
            frame.products[frame.running].commit(*product)
        else:
            for finish in product:
                finish()

    @impl_writing(sched.WarpgroupWaitOp)
    def run_warpgroup_wait(self, op: sched.WarpgroupWaitOp, args: PythonValues) -> None:
        """Finishes all but the newest products."""
        frame = self.functions.frame
        frame.products[frame.running].wait(op.pending_products)

    def _finish(
        self, op: sched.WarpgroupMmaOp, args: PythonValues, iteration: int, position: int
    ) -> None:
        """Multiplies what the operands of an iteration hold now, of a block of the list."""
        frame, plan = self.functions.frame, self.functions.plans.of(op, WarpgroupPlan.build)
        threads = frame.threads
        rows, columns = plan.rows[:, threads], plan.columns[:, threads]
        if not rows.size:
            return
        now = frame.iteration, frame.position
        frame.iteration, frame.position = iteration, position
        try:
            lhs, rhs = (self._matrix(plan, operand, op, args) for operand in (0, 1))
        finally:
            frame.iteration, frame.position = now
        lines, at_line = np.unique(rows, return_inverse=True)
        every = np.matmul(lhs[:, lines], rhs.swapaxes(-1, -2))
        width = shape_of(op.accumulator.type)[-1]
        for number, accumulator in enumerate(args[2:]):
            values = every[:, at_line.reshape(rows.shape), columns + number * width]
            sums = accumulator[:, :, threads.start : threads.start + rows.shape[1]]
            values = values.astype(sums.dtype, copy=False)
            sums[...] = values if op.is_fresh else sums + values

    def _matrix(
        self, plan: WarpgroupPlan, operand: int, op: sched.WarpgroupMmaOp, args: PythonValues
    ) -> Array:
        if operand not in plan.reads:
            return self._held(plan, op, args[0])
        read, where = plan.reads[operand], args[operand]
        starts = self.functions.starts(read, where)
        values = multiplicand(where.read(read.dtype, plan.offsets[operand], starts), in_tf32=False)
        if operand == 0 or op.through is None:
            return values
        made = apply_chain(op.through.data.functions, values)
        return convert(made, storage_dtype(op.multiplied_type)).astype(values.dtype)

    def _held(self, plan: WarpgroupPlan, op: sched.WarpgroupMmaOp, registers: Array) -> Array:
        """The left matrix that the running threads hold now; rows of others are not looked at."""
        assert plan.held is not None
        threads = self.functions.frame.threads
        rows, depth = (held[:, threads] for held in plan.held)
        values = registers[:, :, threads.start : threads.start + rows.shape[1]]
        extents = shape_of(op.lhs.type)[-2:]
        matrix = np.zeros((values.shape[0], *extents), values.dtype)
        matrix[:, rows, depth] = values
        return matrix
