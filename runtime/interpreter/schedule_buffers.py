"""Buffers and fragments as logical arrays: what moves them, and in which order operators run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import setitem
from typing import cast

import numpy as np
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.maps import AXES, Slicing
from mugraph.dialects.ragged import ragged_dims
from mugraph.dialects.tb import NOT_SPLIT, epilogue_of
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of, value_label
from mugraph.runtime.interpreter.arithmetic import Array
from mugraph.runtime.interpreter.blocks import GRID_AXES, Frame, padded
from mugraph.runtime.interpreter.dispatch import impl_writing, runs
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import (
    apply_chain,
    fall,
    part_of,
    rows_to_write,
    see_windows,
    take_rows,
    write_rows,
)
from mugraph.runtime.interpreter.mbarriers import Channel, OrderBarrier, by_values
from mugraph.runtime.interpreter.memory import InFlight
from mugraph.runtime.interpreter.roles import RoleMachine, steps_of, units_of

WHOLE = (NOT_SPLIT,) * len(AXES)
"""The map of a tensor that no grid axis splits."""


@dataclass(frozen=True)
class DeviceTile:
    """A tensor in device memory, and the tile of it that each block and iteration means."""

    tensor: Array
    slicing: Slicing
    numbers: Array | None = None
    """Which rows of the tensor tiles of rows that numbers name are written to."""

    @classmethod
    def whole(cls, tensor: Array) -> DeviceTile:
        """All of a tensor, for every block and iteration."""
        return cls(tensor, Slicing(tensor.shape, WHOLE, NOT_SPLIT, (1,) * len(AXES), 1))


@dataclass(frozen=True)
class Buffer:
    """A buffer or fragment: an array for each stage, ``None`` until one is written."""

    stages: list[Array | None]


@register_impls
class ScheduleFunctions(InterpreterFunctions):
    """One implementation an operator of ``sched`` that stands in a kernel."""

    def __init__(self, frame: Frame):
        self.frame = frame
        self.copies = defaultdict[sched.RoleOp | None, InFlight](InFlight)
        self.products = defaultdict[sched.RoleOp | None, InFlight](InFlight)

    def stage_of(self, buffer: Buffer, iteration: int | None = None) -> int:
        """The stage of an iteration, of the current one if it is not given."""
        meant = self.frame.iteration if iteration is None else iteration
        return (self.frame.before + meant) % len(buffer.stages)

    def read(self, operand: SSAValue, buffer: Buffer) -> Array:
        """What a buffer holds for the current iteration."""
        value = buffer.stages[self.stage_of(buffer)]
        if value is None:
            raise ExecutionError(
                f"{value_label(operand)} is read in iteration {self.frame.iteration} before "
                "anything was written to it, or before what is on its way was waited for"
            )
        return value

    def read_all(self, operands: Sequence[SSAValue], buffers: Sequence[Buffer]) -> list[Array]:
        """What the buffers of the first operands hold for the current iteration."""
        return [
            self.read(operand, buffer) for operand, buffer in zip(operands, buffers, strict=False)
        ]

    def write(
        self,
        destination: SSAValue,
        buffer: Buffer,
        value: Array,
        epilogue: Epilogue | None = None,
        iteration: int | None = None,
        *,
        is_rounded: bool = False,
    ) -> None:
        """Applies an epilogue, rounds, and writes to the stage of an iteration.

        ``is_rounded``: the value holds numbers of the buffer's element type.
        """
        if epilogue is not None:
            value = apply_chain(epilogue.functions, value)
            if epilogue.accumulates:
                value = self.read(destination, buffer) + value
        if not is_rounded:
            value = self.frame.arithmetic.round(value, element_type_of(destination.type))
        buffer.stages[self.stage_of(buffer, iteration)] = value

    def write_part(
        self,
        destination: SSAValue,
        buffer: Buffer,
        value: Array,
        start: Sequence[int],
        *,
        accumulates: bool = False,
        iteration: int | None = None,
        is_rounded: bool = False,
    ) -> None:
        """Writes, or adds to, the part of a buffer that begins at ``start``; the rest stays."""
        shape = value.shape[GRID_AXES:]
        before = buffer.stages[self.stage_of(buffer, iteration)]
        axes = value.shape[:GRID_AXES]
        if before is not None:
            axes = np.broadcast_shapes(axes, before.shape[:GRID_AXES])
        whole = self.frame.arithmetic.full((*axes, *shape_of(destination.type)), 0.0)
        if before is not None:
            whole[...] = before
        part = part_of(whole, (*[0] * GRID_AXES, *start), (*axes, *shape))
        part[...] = part + value if accumulates else value
        self.write(destination, buffer, whole, iteration=iteration, is_rounded=is_rounded)

    def keep_reduced(self, op: sched.ReduceOp, buffers: Sequence[Buffer], value: Array) -> None:
        """Writes sums, or keeps the larger of maxima and what is there; and by how much it grew."""
        epilogue = epilogue_of(op)
        if op.combination is sched.Combiner.SUM:
            self.write(op.destination, buffers[1], value, epilogue)
            return
        value = apply_chain(epilogue.functions, value)
        earlier = self.read(op.destination, buffers[1]) if epilogue.accumulates else None
        self.write(
            op.destination, buffers[1], value if earlier is None else np.maximum(earlier, value)
        )
        if op.difference is not None and earlier is not None:
            change = fall(earlier, self.read(op.destination, buffers[1]))
            self.write(op.difference, buffers[2], change)

    @runs(sched.AllocOp)
    def run_alloc(self, op: sched.AllocOp, args: PythonValues) -> PythonValues:
        """A buffer with nothing in it."""
        return (Buffer([None] * op.stage_count),)

    @runs(sched.EmptyOp)
    def run_fragment(self, op: sched.EmptyOp, args: PythonValues) -> PythonValues:
        """Registers with nothing in them."""
        return (Buffer([None]),)

    @runs(sched.LocalTileOp)
    def run_tile(self, op: sched.LocalTileOp, args: PythonValues) -> PythonValues:
        """A tile of a whole tensor."""
        source: DeviceTile = args[0]
        ends = dict(zip(op.end_of, args[len(op.tensors()) :], strict=True))
        if source.slicing.map_ != WHOLE or source.slicing.fordim != NOT_SPLIT:
            raise ExecutionError(
                f"{op_label(op)} is a tile of a tile; the interpreter cuts whole tensors only"
            )
        tensor = source.tensor
        if op.through is not None:
            rows: DeviceTile = args[1]
            numbers = self.frame.arithmetic.load(rows.tensor)
            if op.is_written:
                return (DeviceTile(tensor, op.slicing(ends), numbers),)
            tensor = take_rows(tensor, numbers)
        if op.windows is not None:
            tensor = see_windows(tensor, op.windows)
        return (DeviceTile(tensor, op.slicing(ends)),)

    @impl_writing(sched.CopyOp)
    def run_copy(self, op: sched.CopyOp, args: PythonValues) -> None:
        """Moves a tile; one that comes asynchronously is nowhere until it has been waited for."""
        iteration = self.frame.iteration + op.ahead_of
        if op.fixed_iteration is not None:
            iteration = op.fixed_iteration
        if op.is_early:
            return  # what brings the row brings all
        if not op.ahead_of or iteration < self.frame.iterations:
            self.copy(op, args, iteration)
            if op.is_async:
                stages, stage = args[1].stages, self.stage_of(args[1], iteration)
                land = partial(setitem, stages, stage, stages[stage])
                self.copies[sched.enclosing_role(op)].uncommitted.append(land)
                stages[stage] = None

    @runs(sched.CommitOp)
    def run_commit(self, op: sched.CommitOp, args: PythonValues) -> PythonValues:
        """Closes a group of copies."""
        self.copies[sched.enclosing_role(op)].commit()
        return (None,)

    @runs(sched.WaitOp)
    def run_wait(self, op: sched.WaitOp, args: PythonValues) -> PythonValues:
        """Lands groups of copies."""
        self.copies[sched.enclosing_role(op)].wait(op.pending_groups)
        return ()

    @runs(sched.BulkCopyOp)
    def run_bulk_copy(self, op: sched.BulkCopyOp, args: PythonValues) -> PythonValues:
        """Moves a tile at once."""
        if op.stage.happens_at(self.frame.iteration, self.frame.iterations):
            iteration = op.stage.iteration_at(self.frame.iteration)
            self.copy(op, args[:2], iteration)
        return ()

    def loaded_tile(self, value: SSAValue, tile: DeviceTile, iteration: int) -> Array:
        """The tile of an iteration; what does not exist of it is zero."""
        tiles = self.frame.tiles_of(tile.tensor, tile.slicing, iteration)
        arithmetic = self.frame.arithmetic
        return padded(arithmetic, arithmetic.load(tiles), shape_of(value.type))

    def copy(
        self,
        op: sched.CopyOp | sched.BulkCopyOp,
        buffers: PythonValues,
        iteration: int,
    ) -> None:
        """Moves what exists of the tile of an iteration."""
        source, destination = cast(tuple[DeviceTile | Buffer, DeviceTile | Buffer], buffers)
        if isinstance(source, DeviceTile) and isinstance(destination, Buffer):
            self.require_iteration(op, source, iteration)
            loaded = self.loaded_tile(op.source, source, iteration)
            is_same = element_type_of(op.source.type) == element_type_of(op.destination.type)
            if isinstance(op, sched.CopyOp) and op.repeats:
                loaded = np.broadcast_to(loaded, (*loaded.shape[: -len(op.extents)], *op.extents))
            write: Callable[..., None] = self.write
            if isinstance(op, sched.BulkCopyOp) and op.at is not None:
                write = partial(self.write_part, start=op.start)
            write(op.destination, destination, loaded, iteration=iteration, is_rounded=is_same)
        elif isinstance(source, Buffer) and isinstance(destination, DeviceTile):
            self.require_iteration(op, destination, iteration)
            value = self.read(op.source, source)
            first = self.frame.first_block()
            start = op.start if isinstance(op, sched.BulkCopyOp) and op.at is not None else None
            for entry in ragged_dims(destination.slicing.bounds()):
                existing = entry.bound.existing(first, self.frame.first + iteration)
                if start is not None:
                    existing = max(existing - start[entry.dim], 0)
                value = value[along(GRID_AXES + entry.dim, slice(0, existing))]
            self.write_tile(op.destination, destination, value, iteration, start)

    def require_iteration(self, op: Operation, tile: DeviceTile, iteration: int) -> None:
        """Raises ``ExecutionError`` for the tile of an iteration that does not happen."""
        if tile.slicing.fordim != NOT_SPLIT and iteration >= tile.slicing.iterations:
            raise ExecutionError(
                f"{op_label(op)} copies the tile of iteration {iteration}, but the loop has "
                f"{tile.slicing.iterations}"
            )

    def run_nothing(
        self, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        """Synchronisation, which has nothing to do where every write is seen at once."""
        return ()

    run_barrier = impl(sched.BarrierOp)(run_nothing)
    run_cluster_barrier = impl(sched.ClusterBarrierOp)(run_nothing)
    run_grid_wait = impl(sched.GridWaitOp)(run_nothing)
    run_grid_launch = impl(sched.GridLaunchOp)(run_nothing)
    run_prefetch = impl(sched.PrefetchOp)(run_nothing)
    run_proxy_fence = impl(sched.ProxyFenceOp)(run_nothing)
    run_bulk_wait = impl(sched.BulkWaitOp)(run_nothing)

    @runs(sched.ChannelOp)
    def run_channel(self, op: sched.ChannelOp, args: PythonValues) -> PythonValues:
        """A channel through which nothing has come."""
        return (Channel.of(op, by_values),)

    @runs(sched.OrderBarrierOp)
    def run_order_barrier(self, op: sched.OrderBarrierOp, args: PythonValues) -> PythonValues:
        """An order barrier at which nobody has arrived."""
        return (OrderBarrier.of(op, by_values),)

    def run_body(self, kernel: sched.KernelOp, interpreter: Interpreter) -> None:
        """The operators of a kernel in order, its roles side by side.

        Tiles stay in their registers.
        """
        frame, registers = self.frame, dict[SSAValue, SSAValue]()

        def run_operator(op: Operation) -> None:
            operands = [registers.setdefault(v, sched.registers_of(v)) for v in op.operands]
            values = interpreter.run_op(op, interpreter.get_values(operands))
            interpreter.set_values(zip(op.results, values, strict=True))

        def count_of(loop: sched.ForloopOp) -> int:
            if loop.bound is not None:
                (frame.iterations,) = interpreter.get_values((loop.bound,))
            return frame.iterations

        for of_roles, group in groupby(
            kernel.body.block.ops, lambda op: isinstance(op, sched.RoleOp)
        ):
            if of_roles:
                units = units_of(sched.roles_of(kernel), frame.positions, together=True)
                RoleMachine(interpreter, frame, lambda _, op: run_operator(op)).run(units)
                continue
            for step in steps_of(group, count_of=count_of):
                frame.iteration = step.iteration
                run_operator(step.op)

    def write_tile(
        self,
        destination: SSAValue,
        tile: DeviceTile,
        value: Array,
        iteration: int,
        start: Sequence[int] | None = None,
    ) -> None:
        """Rounds, and writes the tiles of the blocks and an iteration, or a part from ``start``."""
        # The tile's type may be narrower than what is written.
        value = self.frame.arithmetic.round(value, element_type_of(destination.type))
        if tile.numbers is None:
            self.frame.store_tiles(tile.tensor, tile.slicing, value, iteration, start)
            return
        rows = rows_to_write(tile.tensor, tile.numbers)
        self.frame.store_tiles(rows, tile.slicing, value, iteration, start)
        write_rows(tile.tensor, tile.numbers, rows)


def along(axis: int, index: slice) -> tuple[slice, ...]:
    """The index that takes part of one axis."""
    return (*[slice(None)] * axis, index)
