"""Products of matrices on logical arrays, and what is done with their fragments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from xdsl.interpreter import InterpreterFunctions, PythonValues, register_impls

from mugraph.dialects import sched
from mugraph.dialects.cute.atoms import mma_atom
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.sched.multiplies import MultipliesMatrices
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.blocks import GRID_AXES
from mugraph.runtime.interpreter.dispatch import impl_writing
from mugraph.runtime.interpreter.functions import apply_chain, matmul
from mugraph.runtime.interpreter.schedule_buffers import (
    Buffer,
    DeviceTile,
    ScheduleFunctions,
)


@register_impls
class ProductFunctions(InterpreterFunctions):
    """One implementation an operator."""

    def __init__(self, functions: ScheduleFunctions) -> None:
        self.functions = functions

    @impl_writing(sched.MmaOp)
    def run_mma(self, op: sched.MmaOp, args: PythonValues) -> None:
        """Adds the product to the accumulator."""
        lhs, rhs, accumulator = args
        matrices = [self.functions.read(op.lhs, lhs), self.functions.read(op.rhs, rhs)]
        matrices = self._multiplied(op, *matrices)
        if op.multiplies_in_tf32:
            matrices = [self.functions.frame.arithmetic.multiplicand(matrix) for matrix in matrices]
        if op.at is not None:
            *_, rows, columns = shape_of(op.accumulator.type)
            *_, row, column = op.start
            left, right = matrices
            matrices = [left[..., row : row + rows, :], right[..., :, column : column + columns]]
        has_sums = op.parts > 1 and not op.is_sliced
        multiply = partial(self._products_of_parts, op) if has_sums else matmul
        product = multiply(*matrices)
        self.functions.write(op.accumulator, accumulator, product, Epilogue(accumulates=True))

    def _multiplied(self, op: MultipliesMatrices, left: Array, right: Array) -> list[Array]:
        """The left matrix of several, and what functions make of the right one."""
        if op.lhs_start is not None:
            part = tuple(
                slice(start, start + extent)
                for start, extent in zip(op.start_of_lhs, op.lhs_shape, strict=True)
            )
            left = left[(..., *part)]
        if op.through is not None:
            made = apply_chain(op.through.data.functions, right)
            right = self.functions.frame.arithmetic.round(made, op.multiplied_type)
        return [left, right]

    def _products_of_parts(self, op: sched.MmaOp, left: Array, right: Array) -> Array:
        """The products over the steps of k that each of the warps along k takes, side by side."""
        accumulator = op.accumulator.type
        mma = accumulator.tiled_mma if isinstance(accumulator, sched.TileType) else None
        assert mma is not None
        step = mma_atom(mma.atom).shape_mnk[2]
        taken = -(-left.shape[-1] // step)
        taker: npt.NDArray[np.int64] = np.arange(left.shape[-1], dtype=np.int64) // step % op.parts
        axes = np.broadcast_shapes(left.shape[:GRID_AXES], right.shape[:GRID_AXES])
        extents = (*left.shape[GRID_AXES:-1], right.shape[-1])
        products = self.functions.frame.arithmetic.full((*axes, op.parts, *extents), 0.0)
        for part in range(min(op.parts, taken)):
            product = matmul(left[..., taker == part], right[..., taker == part, :])
            products[(*(slice(None),) * GRID_AXES, part)] = product
        return products

    @impl_writing(sched.WarpgroupMmaOp)
    def run_warpgroup_mma(self, op: sched.WarpgroupMmaOp, args: PythonValues) -> None:
        """Adds the product to its sums, side by side; an asynchronous one when it is waited for."""
        lhs, rhs, *sums = args
        frame = self.functions.frame
        products = self.functions.products[sched.enclosing_role(op)]
        if not op.stage.happens_at(frame.iteration, frame.iterations):
            if op.is_async:
                products.commit()
            return
        now, frame.iteration = frame.iteration, op.stage.iteration_at(frame.iteration)
        try:
            left, right = self.functions.read(op.lhs, lhs), self.functions.read(op.rhs, rhs)
            left, right = self._multiplied(op, left, right)
            product = self._cut(op, matmul(left, right), (left, right), sums)
        finally:
            frame.iteration = now
        if op.is_async:
            products.commit(partial(self._add, op, product, sums))
        else:
            self._add(op, product, sums)

    def _cut(
        self,
        op: sched.WarpgroupMmaOp,
        product: Array,
        factors: tuple[Array, Array],
        sums: Sequence[Buffer],
    ) -> Array:
        """The product as its instruction adds it up, which may keep few bits of the addends."""
        bits = op.atom.sum_bits
        if bits is None:
            return product
        before = None
        if not op.is_fresh and len(sums) == 1:
            before = self.functions.read(op.accumulator, sums[0])
        depth = op.atom.shape_mnk[2]
        return self.functions.frame.arithmetic.added_with(bits, depth, product, factors, before)

    def _add(self, op: sched.WarpgroupMmaOp, product: Array, sums: Sequence[Buffer]) -> None:
        """Adds a product to its sums, or writes it to a fresh one."""
        epilogue = Epilogue(accumulates=not op.is_fresh)
        columns = shape_of(op.accumulator.type)[-1]
        for number, (value, accumulator) in enumerate(zip(op.accumulators, sums, strict=True)):
            part = product
            if len(sums) > 1:
                beside = slice(number * columns, (number + 1) * columns)
                part = product[(*(slice(None),) * (len(product.shape) - 1), beside)]
            self.functions.write(value, accumulator, part, epilogue)

    @impl_writing(sched.WarpgroupWaitOp)
    def run_warpgroup_wait(self, op: sched.WarpgroupWaitOp, args: PythonValues) -> None:
        """Finishes all but the newest products."""
        self.functions.products[sched.enclosing_role(op)].wait(op.pending_products)

    @impl_writing(sched.LoadOp)
    def run_load(self, op: sched.LoadOp, args: PythonValues) -> None:
        """A matrix as it is, or numbers side by side."""
        frame = self.functions.frame
        now, frame.iteration = frame.iteration, frame.iteration + op.ahead_of
        if isinstance(args[0], DeviceTile):
            value = self.functions.loaded_tile(op.source, args[0], frame.iteration)
        else:
            value = self.functions.read(op.source, args[0])
        frame.iteration = now
        shape = shape_of(op.destination.type)
        if op.loads_one_number:
            one = value.reshape(*value.shape[:GRID_AXES], 1)
            value = one[..., np.zeros(math.prod(shape), dtype=int)]
        value = value.reshape(*value.shape[:GRID_AXES], *shape)
        self.functions.write(op.destination, args[1], value, epilogue_of(op))
