"""Products of matrices at the level of addresses, and what is done with their fragments.

A warp multiplies what both matrices hold when it runs.  An asynchronous product of warp groups is
computed as late as the program allows, when a wait covers it; what overwrites an operand before
gives wrong numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from xdsl.interpreter import InterpreterFunctions, PythonValues, register_impls
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.mappings import MATRICES, ROWS, IntArray
from mugraph.dialects.sched.multiplies import MultipliesMatrices
from mugraph.dialects.tb import epilogue_of
from mugraph.runtime.interpreter.address_level import AddressFunctions, multiplicand
from mugraph.runtime.interpreter.address_plans import ComputePlan
from mugraph.runtime.interpreter.arithmetic import Array, convert, storage_dtype
from mugraph.runtime.interpreter.combining import COMBINERS, combine_lanes
from mugraph.runtime.interpreter.dispatch import impl_writing
from mugraph.runtime.interpreter.functions import apply_chain, fall
from mugraph.runtime.interpreter.memory import Ending, Storage, element_dtype
from mugraph.runtime.interpreter.product_plans import (
    HeldLines,
    HeldMatrix,
    ProductPlan,
    StoredMatrix,
)


@register_impls
class ProductFunctions(InterpreterFunctions):
    """One implementation an operator; fragments are arrays, as for :class:`AddressFunctions`."""

    def __init__(self, functions: AddressFunctions) -> None:
        self.functions = functions

    @impl_writing(sched.MmaOp)
    def run_mma(self, op: sched.MmaOp, args: PythonValues) -> None:
        """Adds every warp's product to its accumulator.

        The sum over k of one operator is numpy's, not step by step of the instruction.
        """
        plan = self.functions.plans.of(op, ProductPlan.of_warps)
        self._multiply(op, plan, args, in_tf32=op.multiplies_in_tf32)

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
        frame, plan = self.functions.frame, self.functions.plans.of(op, ProductPlan.of_groups)
        now = frame.iteration, frame.position
        frame.iteration, frame.position = iteration, position
        try:
            self._multiply(op, plan, args, is_fresh=op.is_fresh)
        finally:
            frame.iteration, frame.position = now

    def _multiply(
        self,
        op: MultipliesMatrices,
        plan: ProductPlan,
        args: PythonValues,
        *,
        in_tf32: bool = False,
        is_fresh: bool = False,
    ) -> None:
        """Adds the running warps' products to their accumulators, which lie side by side."""
        threads = self.functions.frame.threads
        warps = plan.sums.warps[threads.start // WARP : -(-threads.stop // WARP)]
        if not warps:
            return
        left = (
            self._stored(plan.left, args[0], in_tf32=in_tf32)
            if isinstance(plan.left, StoredMatrix)
            else self._held(plan.left, args[0])
        )
        right = self._stored(plan.right, args[1], in_tf32=in_tf32)
        if op.through is not None:
            made = apply_chain(op.through.data.functions, right)
            right = convert(made, storage_dtype(op.multiplied_type)).astype(right.dtype)
        accumulators = args[2:]
        width = right.shape[2] // len(accumulators)
        count = sum(warp.row.shape[1] for warp in warps)
        running = slice(threads.start, threads.start + count)
        for number, accumulator in enumerate(accumulators):
            columns = right[:, :, number * width : (number + 1) * width]
            values = _products_of_warps(warps, left, columns, plan.depths)
            sums = accumulator[:, :, running]
            sums[...] = values.astype(sums.dtype, copy=False) + (0 if is_fresh else sums)

    def _held(self, matrix: HeldMatrix, registers: Array) -> Array:
        """A left matrix in registers, [blocks, 1, rows, k]; rows of others are not there."""
        threads = self.functions.frame.threads
        held = matrix.of_threads(threads)
        values = registers[:, :, threads.start : threads.start + held.row.shape[1]]
        whole = np.zeros((values.shape[0], 1, *matrix.extents), values.dtype)
        whole[:, 0, held.row[held.exists], held.column[held.exists]] = values[:, held.exists]
        return whole

    def _stored(self, matrix: StoredMatrix, where: Storage, *, in_tf32: bool = False) -> Array:
        """Elements of a matrix in memory, as they are multiplied."""
        starts = [self.functions.starts(read, where) for read in matrix.reads]
        values = where.read(matrix.reads[0].dtype, matrix.offsets, starts[0])
        return multiplicand(values, in_tf32=in_tf32)

    @impl_writing(sched.LoadOp)
    def run_load(self, op: sched.LoadOp, args: PythonValues) -> None:
        """What lanes load of a left matrix, as they hold accumulators; or of numbers."""
        if not op.loads_operand:
            self._load_numbers(op, args)
            return
        threads = self.functions.frame.threads
        values = self._stored(self.functions.plans.of(op, StoredMatrix.of_load), args[0])
        held = op.destination.type
        assert isinstance(held, sched.TileType)  # verified
        values[:, ~held.thread_values().exists()] = 0
        registers = args[1][:, :, threads]
        registers[:, :, : values.shape[2]] = values[:, :, threads]

    def _load_numbers(self, op: sched.LoadOp, args: PythonValues) -> None:
        """Values of a matrix, or the number of a column or row to all threads with values of it."""
        (plan,) = self.functions.plans.of(op, ComputePlan.build).sources
        threads = self.functions.frame.threads
        values = self.functions.load(plan, args[0])
        if op.loads_lines():
            values = deal_out_lines(values)
        values = apply_chain(epilogue_of(op).functions, values)
        keep(op.destination, args[1][:, :, threads], values)


def _products_of_warps(
    warps: Sequence[HeldLines], left: Array, right: Array, depths: Sequence[IntArray]
) -> Array:
    """What each thread's values are of the products of its warp, [blocks, values, threads].

    Warp by warp, so that a warp computes the same bits whoever runs beside it.
    """
    values: list[Array] = []
    for warp in warps:
        one, other = (
            matrix[:, warp.part % matrix.shape[1]][:, lines][..., depths[warp.part]]
            for matrix, lines in ((left, warp.rows), (right, warp.columns))
        )
        product = np.matmul(one, other.swapaxes(-1, -2))
        values.append(np.where(warp.exists, product[:, warp.row, warp.column], 0))
    return np.concatenate(values, axis=-1)


def deal_out_lines(lines: Array) -> Array:
    """What lanes get by ``ldmatrix`` of the lines that they address: [blocks, values, threads]."""
    shape = (lines.shape[0], -1, ROWS // 2, 2, lines.shape[2] // WARP, MATRICES, ROWS)
    return lines.reshape(shape).transpose(0, 1, 5, 3, 4, 6, 2).reshape(lines.shape)


def keep(value: SSAValue, registers: Array, numbers: Array) -> None:
    """Writes numbers to registers, rounded to the type of the fragment."""
    rounded = convert(numbers, element_dtype(value.type))
    registers[...] = rounded.astype(registers.dtype)


def reduce_product(functions: AddressFunctions, op: sched.ReduceOp, args: PythonValues) -> None:
    """What threads hold of their rows in order, then what lanes have of a row."""
    source, destination, *differences = (array[:, :, functions.frame.threads] for array in args)
    combine, identity = COMBINERS[op.combination]
    totals = np.full(destination.shape, identity, destination.dtype)
    slots = functions.plans.of(op, _row_slots_of_source)
    # Neighbours of one row first.
    pairs = len(slots) % 2 == 0 and bool((slots[0::2] == slots[1::2]).all())
    for value in range(0, len(slots), 2 if pairs else 1):
        following = source[:, value]
        if pairs:
            following = combine(following, source[:, value + 1])
        totals[:, slots[value]] = combine(totals[:, slots[value]], following)
    if not op.is_partial:
        assert isinstance(op.destination.type, sched.TileType)
        lanes = op.destination.type.thread_values().holders
        totals = combine_lanes(totals, lanes, op.combination)
    epilogue = epilogue_of(op)
    totals = apply_chain(epilogue.functions, totals)
    earlier = destination.copy()
    if epilogue.accumulates:
        totals = combine(earlier, totals)
    keep(op.destination, destination, totals)
    for difference in differences:
        difference[...] = fall(earlier, destination)


def _row_slots_of_source(op: sched.ReduceOp) -> IntArray:
    """The position, among the numbers of rows, of the row of each value of the source."""
    source, rows = op.source.type, op.destination.type
    assert isinstance(source, sched.TileType) and isinstance(rows, sched.TileType)  # verified
    return rows.thread_values().value_of(source.thread_values())
