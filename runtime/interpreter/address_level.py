"""Execution of ``sched`` operators at the level of addresses.

Buffers are bytes of the block's shared memory at their planned offsets, fragments are what each
thread holds in registers, and asynchronous copies land when they are waited for.  An operator
runs for some threads of every block at once (:attr:`AddressFrame.threads`): for all of them, or
for one warp where an order of warps was asked for.  Who runs what when is decided in
:mod:`mugraph.runtime.interpreter.address_kernel`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues, impl, register_impls
from xdsl.ir import Operation

from mugraph.dialects import sched
from mugraph.dialects.elementwise import Epilogue
from mugraph.dialects.sched.mappings import IntArray
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    resolved_layout_of,
    shape_of,
    strides_of,
)
from mugraph.runtime.interpreter.address_plans import (
    AccessPlan,
    ComputePlan,
    CopyPlan,
    Plans,
    Threads,
)
from mugraph.runtime.interpreter.arithmetic import Array, convert, is_whole, round_to_tf32
from mugraph.runtime.interpreter.components import named_rows
from mugraph.runtime.interpreter.dispatch import impl_writing, runs
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import apply_chain
from mugraph.runtime.interpreter.memory import (
    BoolArray,
    DeviceTile,
    Ending,
    IndirectTile,
    InFlight,
    SharedBuffer,
    SharedMemory,
    Storage,
    WindowTile,
    element_dtype,
    poison,
)

COMPUTE = np.dtype(np.float32)
"""The type in which threads compute, and of their registers."""


def register_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of registers that hold elements of a type: fp32, or for integers 64 bits.

    Integers wrap around where they are stored, which is the same modulo 2^32.
    """
    return np.dtype(np.int64) if is_whole(dtype) else COMPUTE


def multiplicand(values: Array, *, in_tf32: bool) -> Array:
    """Elements of a matrix as they are multiplied; products of integers are exact in float64."""
    if is_whole(values.dtype):
        return values.astype(np.float64)
    wide = values.astype(COMPUTE)
    return round_to_tf32(wide) if in_tf32 else wide


class Landing(StrEnum):
    """When the data of an asynchronous copy is in shared memory."""

    LATEST = "latest"
    """When a wait covers the copy; the bytes are poison from the copy on until then."""
    EARLIEST = "earliest"
    """At once."""


@dataclass
class AddressFrame:
    """Where execution stands, and the memory of the blocks that run together."""

    lists: IntArray
    """The blocks of the grid that each block takes one after the other, by their indices along x,
    y, z: [positions, blocks, 3]."""
    iterations: int
    memory: SharedMemory
    threads: Threads
    landing: Landing
    first: int = 0
    """Which of the tiles along the loop the first iteration has."""
    iteration: int = 0
    position: int = 0
    """Where in the lists the running threads are."""
    first_thread: int = 0
    """The thread of the block from which ``threads`` are counted: a role's first."""
    copies: defaultdict[int, InFlight] = field(default_factory=lambda: defaultdict(InFlight))
    """The asynchronous copies of those who run together, by their first thread of the block."""
    products: defaultdict[int, InFlight] = field(default_factory=lambda: defaultdict(InFlight))
    """Their asynchronous products."""

    @property
    def blocks(self) -> IntArray:
        """The indices of the blocks of the grid that the running threads are at: [blocks, 3]."""
        return self.lists[self.position]

    @property
    def before(self) -> int:
        """The iterations of the blocks of the grid before these."""
        return self.position * self.iterations

    @property
    def running(self) -> int:
        """The first of the running threads, of those of the block."""
        return self.first_thread + self.threads.start


@register_impls
class AddressFunctions(InterpreterFunctions):
    """One implementation an operator; buffers are :class:`SharedBuffer`, fragments arrays.

    A fragment is [blocks, values, threads] of fp32 (integers: of 64 bits), poison where nothing was
    written.
    """

    def __init__(self, frame: AddressFrame, plans: Plans) -> None:
        self.frame = frame
        self.plans = plans

    # Memory.

    def starts(self, plan: AccessPlan, where: Storage) -> IntArray:
        """The first byte that offsets count from: one, or one a block.

        Raises ``ExecutionError`` where the access would leave the memory or is not aligned.
        """
        access = plan.access
        starts = where.starts(access.stage, self.frame.iteration, self.frame.position)
        if plan.last_byte < plan.first_byte:
            return starts
        first, last = int(starts.min()) + plan.first_byte, int(starts.max()) + plan.last_byte
        # What a predicate leaves of an access is looked at block by block, see `existing`.
        if access.predicate is None and (first < 0 or last >= where.size):
            raise ExecutionError(
                f"{plan.label} touches bytes {first} to {last} of {where.space}, which has "
                f"{where.size} bytes"
            )
        if np.any(starts % access.access_bytes):
            raise ExecutionError(
                f"{plan.label} moves {access.access_bytes} bytes from a start that is not aligned "
                "to them"
            )
        return starts

    def read(self, plan: AccessPlan, where: Storage) -> Array:
        """What the running threads read, [blocks, values, threads]; idle ones get poison."""
        chosen = plan.of(self.frame.threads)
        starts = self.starts(plan, where)
        if isinstance(where, IndirectTile):
            starts = self.starts_in_rows(plan, where, starts)
        if plan.access.predicate is not None and isinstance(where, DeviceTile):
            exists = self.existing(plan, where, starts)
            values = where.read_existing(plan.dtype, chosen.offsets, starts, exists)
        else:
            values = where.read(plan.dtype, chosen.offsets, starts)
        return chosen.expanded(values, poison(plan.dtype))

    def starts_in_rows(self, plan: AccessPlan, where: IndirectTile, starts: IntArray) -> IntArray:
        """The first byte that each access's offset counts from, [blocks, n]: of its row.

        Raises ``ExecutionError`` for a number that names no row.
        """
        return starts[:, None] + where.row_starts(self._numbers_of_rows(plan, where))

    def starts_of_written_rows(
        self, plan: AccessPlan, where: IndirectTile, starts: IntArray
    ) -> tuple[IntArray, BoolArray]:
        """As :meth:`starts_in_rows`, the first row's for a number that names none; which do."""
        numbers, named = named_rows(where.rows, self._numbers_of_rows(plan, where))
        return starts[:, None] + np.where(named, numbers, 0) * where.row_bytes, named

    def _numbers_of_rows(self, plan: AccessPlan, where: IndirectTile) -> IntArray:
        """The number of each access's row, [blocks, n]."""
        rows, frame = plan.access.rows, self.frame
        assert rows is not None  # as of every access to such a tile
        values = plan.offsets.shape[0] // rows.numbers.shape[0]
        numbers = np.repeat(rows.numbers, values, axis=0)[None, :, frame.threads]
        (kept,) = plan.of(frame.threads).compressed(numbers)
        return where.numbers_at(plan.access.stage, frame.iteration, frame.position, kept)

    def write(self, plan: AccessPlan, where: Storage, values: Array) -> None:
        """Writes the values of the running threads, rounded to the elements' type."""
        kept = plan.of(self.frame.threads).compressed(values)
        self.writer(plan, where)(convert(kept, plan.dtype))

    def writer(self, plan: AccessPlan, where: Storage) -> Callable[[Array], None]:
        """What writes [blocks, n] to where the running threads write now, of what exists there."""
        offsets = plan.of(self.frame.threads).offsets
        starts = self.starts(plan, where)
        named: BoolArray | None = None
        if isinstance(where, IndirectTile):
            starts, named = self.starts_of_written_rows(plan, where, starts)
        if (named is None and plan.access.predicate is None) or not isinstance(where, DeviceTile):
            return partial(where.write, offsets, starts)
        exists = np.array(True) if named is None else named
        if plan.access.predicate is not None:
            exists = exists & self.existing(plan, where, starts)
        return lambda values: where.write_existing(offsets, starts, values, exists)

    def existing(self, plan: AccessPlan, where: DeviceTile, starts: IntArray) -> BoolArray:
        """Which of the running threads' elements exist, [blocks, n], idle threads left out.

        Raises ``ExecutionError`` where one of them is outside of the tensor.
        """
        predicate = plan.access.predicate
        assert predicate is not None
        chosen = plan.of(self.frame.threads)
        iteration = self.frame.first + plan.access.stage.iteration_at(self.frame.iteration)
        existing = [predicate.existing(tuple(block), iteration) for block in self.frame.blocks]
        exists = np.empty((len(existing), chosen.offsets.size), np.bool_)
        known: dict[tuple[int, ...], BoolArray] = {}
        for row, counts in enumerate(existing):
            if counts not in known:
                known[counts] = self._elements_within(plan, predicate.counts, counts)
            exists[row] = known[counts]
        size = plan.dtype.itemsize
        each = starts if starts.ndim > 1 else starts[:, None]
        last = np.where(exists, each + chosen.offsets * size, 0).max(initial=0)
        if last + size > where.size:
            raise ExecutionError(
                f"{plan.label} touches byte {last + size - 1} of {where.space}, which has "
                f"{where.size} bytes"
            )
        return exists

    def _elements_within(
        self,
        plan: AccessPlan,
        counts_of: Callable[[Sequence[int], int], IntArray],
        existing: Sequence[int],
    ) -> BoolArray:
        """Which elements of a plan by elements exist in one block, idle threads left out."""
        access = plan.access
        counts = counts_of(existing, access.width)
        steps = np.arange(access.width)
        within = steps[None, :, None] < counts[:, None, :]
        flat = within.reshape(-1, counts.shape[1])[:, self.frame.threads]
        active = plan.of(self.frame.threads).active
        return flat.reshape(-1) if active is None else flat[active]

    def load(self, plan: AccessPlan, where: Storage) -> Array:
        """As :meth:`read`, in fp32, or integers of 64 bits."""
        return self.read(plan, where).astype(register_dtype(plan.dtype), copy=False)

    def finish(self, plan: AccessPlan, where: Storage, values: Array, epilogue: Epilogue) -> None:
        """Applies the epilogue, adds what is there where it accumulates, and writes."""
        values = apply_chain(epilogue.functions, values)
        if epilogue.accumulates:
            values = self.load(plan, where) + values
        self.write(plan, where, values)

    # Where data lives.

    @runs(sched.AllocOp)
    def run_alloc(self, op: sched.AllocOp, args: PythonValues) -> PythonValues:
        """The planned place of the buffer."""
        if op.byte_offset is None:
            raise ExecutionError(
                f"{op_label(op)} has no offset in shared memory; run --plan-stensor-memory first"
            )
        frame, size = self.frame, op.stage_bytes()
        buffer = SharedBuffer(frame.memory, op.byte_offset, op.stage_count, size, frame.iterations)
        return (buffer,)

    @runs(sched.EmptyOp)
    def run_fragment(self, op: sched.EmptyOp, args: PythonValues) -> PythonValues:
        """Registers of every thread, poison."""
        threads = sched.enclosing_kernel(op).threads
        shape = (self.frame.memory.blocks, op.values_per_thread(), threads)
        dtype = register_dtype(element_dtype(op.result.type))
        return (np.full(shape, poison(dtype), dtype),)

    @runs(sched.LocalTileOp)
    def run_tile(self, op: sched.LocalTileOp, args: PythonValues) -> PythonValues:
        """The tiles of the blocks."""
        source: DeviceTile = args[0]
        size = element_bytes_of(op.source.type)
        first, step = self._moved(source, op.block_strides(), op.iteration_stride(), size)
        if op.windows is not None:
            return (WindowTile(source.tensor, first, step, windows=op.windows),)
        if op.through is None:
            return (DeviceTile(source.tensor, first, step),)
        numbers: DeviceTile = args[1]
        width = element_bytes_of(op.through.type)
        strides = op.number_block_strides(), op.number_iteration_stride()
        tile = IndirectTile(
            *(source.tensor, first, step),
            numbers=DeviceTile(numbers.tensor, *self._moved(numbers, *strides, width)),
            rows=shape_of(op.source.type)[0],
            row_bytes=strides_of(resolved_layout_of(op.source))[0] * size,
        )
        return (tile,)

    def _moved(
        self, source: DeviceTile, of_blocks: Sequence[int], of_iteration: int, size: int
    ) -> tuple[IntArray, int]:
        """Where the blocks' tiles of a tensor start, and how far an iteration moves, in bytes."""
        moved = self.frame.lists @ np.array(of_blocks, dtype=np.int64) * size
        step = source.iteration_bytes + of_iteration * size
        return source.first + moved + self.frame.first * step, step

    # Transfers.

    @impl_writing(sched.CopyOp)
    def run_copy(self, op: sched.CopyOp, args: PythonValues) -> None:
        """Moves the tile of the iteration that the copy means, or notes it as in flight."""
        if any(isinstance(value.type, sched.TileType) for value in op.operands):
            self._copy_registers(op, args)
            return
        if op.is_early:
            return  # what brings the row brings all
        plan = self.plans.of(op, CopyPlan.build)
        stage = plan.destination.access.stage
        if not stage.happens_at(self.frame.iteration, self.frame.iterations):
            return
        source, destination = args
        values = self.read(plan.source, source)
        if op.is_async and self.frame.landing is Landing.LATEST:
            land = self.issue(plan.destination, destination, values)
            self.frame.copies[self.frame.running].uncommitted.append(land)
        else:
            self.write(plan.destination, destination, values)

    def _copy_registers(self, op: sched.CopyOp, args: PythonValues) -> None:
        """Moves the tile of an iteration to registers, or registers to it."""
        values = op.partition.data.values_per_thread(op.extents)
        plan = self.plans.of(op, lambda op: ComputePlan.build(op, values))
        if isinstance(op.destination.type, sched.TileType):
            (source,) = plan.sources
            if source.access.stage.happens_at(self.frame.iteration, self.frame.iterations):
                args[1][:, :, self.frame.threads] = self.load(source, args[0])
            return
        assert plan.destination is not None
        stage = plan.destination.access.stage
        if stage.happens_at(self.frame.iteration, self.frame.iterations):
            self.write(plan.destination, args[1], args[0][:, :, self.frame.threads])

    def issue(self, plan: AccessPlan, where: Storage, values: Array) -> Ending:
        """Begins a copy: until what this gives lets it land, its destination is poison."""
        chosen = plan.of(self.frame.threads)
        starts = self.starts(plan, where)
        kept = chosen.compressed(values)
        where.write(chosen.offsets, starts, np.broadcast_to(poison(plan.dtype), kept.shape))
        return partial(where.write, chosen.offsets, starts, kept)

    @runs(sched.CommitOp)
    def run_commit(self, op: sched.CommitOp, args: PythonValues) -> PythonValues:
        """Closes the running threads' group."""
        self.frame.copies[self.frame.running].commit()
        return (None,)

    @runs(sched.WaitOp)
    def run_wait(self, op: sched.WaitOp, args: PythonValues) -> PythonValues:
        """Lands the running threads' groups."""
        self.frame.copies[self.frame.running].wait(op.pending_groups)
        return ()

    def run_nothing(
        self, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        """Nothing: here kernels run one after the other."""
        return ()

    run_grid_wait = impl(sched.GridWaitOp)(run_nothing)
    run_grid_launch = impl(sched.GridLaunchOp)(run_nothing)
    run_prefetch = impl(sched.PrefetchOp)(run_nothing)
