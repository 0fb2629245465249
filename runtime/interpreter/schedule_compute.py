"""Element-wise operators, reductions and stores on logical arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.interpreter import InterpreterFunctions, PythonValues, register_impls

from mugraph.dialects import sched
from mugraph.dialects.rows import WARP, LinearRows
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.blocks import GRID_AXES, constant_tile, masked, padded
from mugraph.runtime.interpreter.dispatch import impl_writing, runs
from mugraph.runtime.interpreter.functions import (
    apply_chain,
    apply_function,
    max_groups,
    part_of,
    sum_groups,
)
from mugraph.runtime.interpreter.schedule_buffers import (
    DeviceTile,
    ScheduleFunctions,
    along,
)
from mugraph.runtime.interpreter.texpr.tiles import run_step


@register_impls
class ComputeFunctions(InterpreterFunctions):
    """One implementation an operator."""

    def __init__(self, functions: ScheduleFunctions) -> None:
        self.functions = functions

    @impl_writing(sched.FillOp)
    def run_fill(self, op: sched.FillOp, args: PythonValues) -> None:
        """One value everywhere."""
        shape = shape_of(op.destination.type)
        value = constant_tile(self.functions.frame.arithmetic, shape, op.value.value.data)
        self.functions.write(op.destination, args[0], value)

    @impl_writing(sched.RenewOp)
    def run_renew(self, op: sched.RenewOp, args: PythonValues) -> None:
        """The same numbers."""

    @impl_writing(sched.MapOp)
    def run_map(self, op: sched.MapOp, args: PythonValues) -> None:
        """The scalar function of each element."""
        value = apply_function(op.function.data, *self.functions.read_all(op.sources, args))
        whole = (*value.shape[:GRID_AXES], *shape_of(op.destination.type))
        if tuple(value.shape) != whole:
            value = value + np.zeros(whole)
        self.functions.write(op.destination, args[-1], value, epilogue_of(op))

    @impl_writing(sched.MaskOp)
    def run_mask(self, op: sched.MaskOp, args: PythonValues) -> None:
        """The source, with the constant where elements do not exist."""
        source = self.functions.read(op.source, args[0])
        shape = list(source.shape)
        kept = source
        for entry in op.ragged:
            shape[GRID_AXES + entry.dim] = self.functions.frame.existing(entry.bound)
            kept = kept[along(GRID_AXES + entry.dim, slice(0, shape[GRID_AXES + entry.dim]))]
        frame = self.functions.frame
        if op.condition is not None:
            kept = masked(kept, op.forms(), op.constant, frame)
        value = padded(frame.arithmetic, kept, source.shape[GRID_AXES:], op.constant)
        self.functions.write(op.destination, args[1], value, epilogue_of(op))

    @impl_writing(sched.ReduceOp)
    def run_reduce(self, op: sched.ReduceOp, args: PythonValues) -> None:
        """Sums of groups along one dimension, or their largest elements."""
        dim = op.reduced_dim
        source = self.functions.read(op.source, args[0])
        if op.parts is not None and op.rows is not None:
            value = self._parts_of_warps(source, op.rows, op.combination)
            self.functions.write(op.destination, args[1], value)
            return
        if op.is_partial:
            # What each lane holds of a row, side by side, is a run of its own.
            source = source[..., np.concatenate(columns_of_lanes(op))]
        combine = sum_groups if op.combination is sched.Combiner.SUM else max_groups
        value = combine(source, GRID_AXES + dim, op.groups(), op.reduced_shape()[dim])
        whole = (*value.shape[:GRID_AXES], *shape_of(op.destination.type))
        self.functions.keep_reduced(op, args, value.reshape(whole))

    def _parts_of_warps(self, value: Array, rows: LinearRows, combiner: sched.Combiner) -> Array:
        """Sums, or the largest elements, of what each warp holds of each row."""
        axis = GRID_AXES + rows.dim
        is_sum = combiner is sched.Combiner.SUM
        # A row is rounds of vectors of the warps' lanes, in this order; a single one may end early.
        of_warp = rows.partition.vector * WARP
        whole = list(value.shape[GRID_AXES:])
        whole[rows.dim] = rows.results * rows.rounds * rows.warps * of_warp
        value = padded(self.functions.frame.arithmetic, value, whole, 0.0 if is_sum else -np.inf)
        split = (*value.shape[:axis], rows.results, rows.rounds, rows.warps, of_warp)
        parts = value.reshape(*split, *value.shape[axis + 1 :])
        of_warps = parts.sum(axis=axis + 3) if is_sum else parts.max(axis=axis + 3)
        parts = of_warps.sum(axis=axis + 1) if is_sum else of_warps.max(axis=axis + 1)
        merged = (*value.shape[:axis], rows.results * rows.warps, *value.shape[axis + 1 :])
        return parts.reshape(merged)

    @runs(sched.CustomOp)
    def run_custom(self, op: sched.CustomOp, args: PythonValues) -> PythonValues:
        """What all threads do of the step, an operator at a time."""
        frame, read = self.functions.frame, op.buffers_read()
        tiles = [
            self.functions.read(value, buffer)
            if value in read and buffer.stages[self.functions.stage_of(buffer)] is not None
            else None
            for value, buffer in zip(op.buffers, args, strict=True)
        ]
        written = run_step(op, tiles, GRID_AXES, frame.arithmetic)
        for operand, value in written.items():
            loaded = frame.arithmetic.load(value)
            self.functions.write(op.buffers[operand], args[operand], loaded)
        return ()

    @runs(sched.MoveOp)
    def run_move(self, op: sched.MoveOp, args: PythonValues) -> PythonValues:
        """A part of a buffer."""
        value = self.functions.read(op.source, args[0])
        start, shape = op.start, shape_of(op.part.type)
        if op.part is op.destination:
            box = (*value.shape[:GRID_AXES], *shape)
            self.functions.write(
                op.destination, args[1], part_of(value, (*[0] * GRID_AXES, *start), box)
            )
            return ()
        self.functions.write_part(op.destination, args[1], value, start)
        return ()

    @runs(sched.StoreOp)
    def run_store(self, op: sched.StoreOp, args: PythonValues) -> PythonValues:
        """Writes a fragment to a buffer through its epilogue."""
        value, epilogue = self.functions.read(op.source, args[0]), epilogue_of(op)
        if isinstance(args[1], DeviceTile):
            value = apply_chain(epilogue.functions, value)
            iteration = self.functions.frame.iteration
            self.functions.write_tile(op.destination, args[1], value, iteration)
            return ()
        if op.origin is not None:
            shape = (*value.shape[:GRID_AXES], *shape_of(op.destination.type))
            first = op.first_column
            value = part_of(value, (*[0] * (len(shape) - 1), first), shape)
        if op.at is None:
            self.functions.write(op.destination, args[1], value, epilogue)
            return ()
        value = apply_chain(epilogue.functions, value)
        self.functions.write_part(
            op.destination, args[1], value, op.start, accumulates=epilogue.accumulates
        )
        return ()


def columns_of_lanes(op: sched.ReduceOp) -> Sequence[Sequence[int]]:
    """The columns of a product's fragment that each lane holds of a row."""
    assert isinstance(op.source.type, sched.TileType)  # verified
    *_, row, column = op.source.type.thread_values().coordinates()
    lanes = shape_of(op.destination.type)[-1]
    return [sorted(set(column[row[:, lane] == row[0, 0], lane].tolist())) for lane in range(lanes)]
