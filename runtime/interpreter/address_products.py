"""Products of matrices at the level of addresses, and what is done with their fragments."""

from __future__ import annotations

import numpy as np
from xdsl.interpreter import InterpreterFunctions, PythonValues, register_impls
from xdsl.ir import SSAValue

from mugraph.dialects import sched
from mugraph.dialects.programming_model import WARP
from mugraph.dialects.sched.mappings import MATRICES, ROWS
from mugraph.dialects.tb import epilogue_of
from mugraph.runtime.interpreter.address_level import AddressFunctions, multiplicand
from mugraph.runtime.interpreter.address_plans import ComputePlan
from mugraph.runtime.interpreter.arithmetic import Array, convert, storage_dtype
from mugraph.runtime.interpreter.combining import COMBINERS, combine_lanes
from mugraph.runtime.interpreter.dispatch import impl_writing
from mugraph.runtime.interpreter.functions import apply_chain, fall
from mugraph.runtime.interpreter.matmul_plans import (
    MatmulPlan,
    OperandPlan,
    ScalarMatmulPlan,
    SwappedMatmulPlan,
    fragment_of,
    is_scalar_product,
    matrix_of,
    row_slots_of_source,
)
from mugraph.runtime.interpreter.memory import Storage, element_dtype


@register_impls
class ProductFunctions(InterpreterFunctions):
    """One implementation an operator; fragments are arrays, as for :class:`AddressFunctions`."""

    def __init__(self, functions: AddressFunctions) -> None:
        self.functions = functions

    def _operand(
        self, plan: MatmulPlan, operand: OperandPlan, where: Storage, *, in_tf32: bool
    ) -> Array:
        """What the running warps read of an operand, zero where it cannot reach a result."""
        starts = [self.functions.starts(read, where) for read in operand.reads]
        offsets = plan.offsets_of(operand, self.functions.frame.threads)
        dtype = operand.reads[0].dtype
        values = where.read(dtype, np.maximum(offsets, 0), starts[0])
        values = multiplicand(values, in_tf32=in_tf32)
        if not operand.is_whole:
            values[:, offsets < 0] = 0
        return values

    @impl_writing(sched.MmaOp)
    def run_mma(self, op: sched.MmaOp, args: PythonValues) -> None:
        """Adds every warp's product to its accumulator.

        The sum over k of one operator is numpy's, not step by step of the instruction.
        """
        in_tf32 = op.multiplies_in_tf32
        threads = self.functions.frame.threads
        if is_scalar_product(op):
            scalar = self.functions.plans.of(op, ScalarMatmulPlan.build)
            self._add_scalar_product(scalar, args)
            return
        if op.atom is not None and op.atom.swaps_operands:
            self._add_swapped_product(op, args)
            return
        plan = self.functions.plans.of(op, MatmulPlan.build)
        if not plan.takes_part(threads):
            return
        if op.lhs_in_registers:
            lhs = matrix_of(args[0][:, :, threads], plan, threads)
        else:
            lhs = self._operand(plan, plan.lhs, args[0], in_tf32=in_tf32)
        rhs = self._operand(plan, plan.rhs, args[1], in_tf32=in_tf32)
        if op.through is not None:
            made = apply_chain(op.through.data.functions, rhs)
            rhs = convert(made, storage_dtype(op.multiplied_type)).astype(rhs.dtype)
            if not plan.rhs.is_whole:
                rhs[:, plan.offsets_of(plan.rhs, threads) < 0] = 0
        product = np.matmul(lhs, rhs.swapaxes(-1, -2))
        shape = (product.shape[0], *plan.warps_along(threads), *product.shape[4:])
        values = fragment_of(np.broadcast_to(product, shape))
        sums = args[2][:, :, threads.start : threads.start + values.shape[2]]
        sums += values.astype(sums.dtype, copy=False)

    def _add_swapped_product(self, op: sched.MmaOp, args: PythonValues) -> None:
        """Adds every running warp's product, with swapped operands, to its accumulator."""
        plan = self.functions.plans.of(op, SwappedMatmulPlan.build)
        threads = self.functions.frame.threads
        first, last = threads.start // WARP, min(threads.stop, plan.threads) // WARP
        if first >= last:
            return
        matrices: list[Array] = []
        for operand, where in zip((plan.lhs, plan.rhs), args, strict=False):
            starts = self.functions.starts(operand.read, where)
            values = where.read(operand.read.dtype, operand.offsets[first:last], starts)
            values = multiplicand(values, in_tf32=False)
            if operand is plan.rhs and op.through is not None:
                made = apply_chain(op.through.data.functions, values)
                values = convert(made, storage_dtype(op.multiplied_type)).astype(values.dtype)
            values[:, ~operand.exists[first:last]] = 0
            matrices.append(values)
        product = np.matmul(matrices[0], matrices[1].swapaxes(-1, -2))
        values = product[:, :, plan.row, plan.column].swapaxes(1, 2)
        values = values.reshape(*values.shape[:2], -1)
        sums = args[2][:, :, first * WARP : last * WARP]
        sums += values.astype(sums.dtype, copy=False)

    @impl_writing(sched.LoadOp)
    def run_load(self, op: sched.LoadOp, args: PythonValues) -> None:
        """What lanes load of a left matrix, as they hold accumulators; or of numbers."""
        if not op.loads_operand:
            self._load_numbers(op, args)
            return
        threads = self.functions.frame.threads
        plan = self.functions.plans.of(op, MatmulPlan.of_load)
        if not plan.takes_part(threads):
            return
        matrix = self._operand(plan, plan.lhs, args[0], in_tf32=False)
        shape = (matrix.shape[0], *plan.warps_along(threads), *matrix.shape[4:])
        values = fragment_of(np.broadcast_to(matrix, shape))
        args[1][:, :, threads.start : threads.start + values.shape[2]] = values

    def _load_numbers(self, op: sched.LoadOp, args: PythonValues) -> None:
        """Values of a matrix, or the number of a column or row to all threads with values of it."""
        (plan,) = self.functions.plans.of(op, ComputePlan.build).sources
        threads = self.functions.frame.threads
        values = self.functions.load(plan, args[0])
        if op.loads_lines():
            values = deal_out_lines(values)
        values = apply_chain(epilogue_of(op).functions, values)
        keep(op.destination, args[1][:, :, threads], values)

    def _add_scalar_product(self, plan: ScalarMatmulPlan, args: PythonValues) -> None:
        """Adds what every running thread multiplies by itself to its accumulator."""
        threads = slice(
            self.functions.frame.threads.start, min(self.functions.frame.threads.stop, plan.threads)
        )
        if threads.start >= threads.stop:
            return
        matrices: list[Array] = []
        for operand, where in zip((plan.lhs, plan.rhs), args, strict=False):
            starts = self.functions.starts(operand.read, where)
            values = where.read(operand.read.dtype, operand.offsets[threads], starts)
            matrices.append(multiplicand(values, in_tf32=False))
        # [blocks, threads, rows, columns] to values, then threads.
        product = np.matmul(matrices[0], matrices[1].swapaxes(-1, -2))
        blocks, count = product.shape[:2]
        values = product.reshape(blocks, count, -1).swapaxes(1, 2)
        sums = args[2][:, :, threads]
        sums += values.astype(sums.dtype, copy=False)


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
    slots = functions.plans.of(op, row_slots_of_source)
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
