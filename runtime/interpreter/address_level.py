"""Execution of ``sched`` operators at the level of addresses.

Buffers are bytes of the block's shared memory at their planned offsets, fragments are what each
thread holds in registers, and asynchronous copies land when they are waited for.  An operator
runs for some threads of every block at once (:attr:`AddressFrame.threads`): for all of them, or
for one warp where an order of warps was asked for.  Who runs what when is decided in
:mod:`mugraph.runtime.interpreter.address_kernel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
from mugraph.dialects.rows import WARP, LinearRows
from mugraph.dialects.sched.fragments import lanes_of_a_row
from mugraph.dialects.sched.mappings import IntArray
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    op_label,
    shape_of,
)
from mugraph.runtime.interpreter.address_plans import (
    AccessPlan,
    ComputePlan,
    CopyPlan,
    ElementwisePlan,
    HeldOperand,
    Plans,
    ReducePlan,
    Threads,
    held_by,
    rows_held_by,
)
from mugraph.runtime.interpreter.arithmetic import Array, convert, is_whole, round_to_tf32
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.runtime.interpreter.functions import apply_chain, apply_function, fall
from mugraph.runtime.interpreter.matmul_plans import (
    MatmulPlan,
    OperandPlan,
    ScalarMatmulPlan,
    fragment_of,
    is_scalar_product,
    matrix_of,
    positions_of_sources,
    row_slots_of_source,
)
from mugraph.runtime.interpreter.memory import (
    BoolArray,
    CopyGroups,
    CopyInFlight,
    DeviceTile,
    Place,
    SharedBuffer,
    SharedMemory,
    element_dtype,
    poison,
)
from mugraph.runtime.interpreter.schedule import multiplies_in_tf32

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

    blocks: IntArray
    """The index of each block along x, y, z: [blocks, 3]."""
    iterations: int
    memory: SharedMemory
    threads: Threads
    landing: Landing
    iteration: int = 0
    first_thread: int = 0
    """The thread of the block from which ``threads`` are counted: a role's first."""
    groups: dict[int, CopyGroups] = field(default_factory=dict[int, CopyGroups])
    """The asynchronous copies of those who run together, by their first thread."""

    def copies(self) -> CopyGroups:
        """The asynchronous copies of the running threads."""
        return self.groups.setdefault(self.first_thread + self.threads.start, CopyGroups())


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

    def starts(self, plan: AccessPlan, where: Place) -> IntArray:
        """The first byte that offsets count from: one, or one a block.

        Raises ``ExecutionError`` where the access would leave the memory or is not aligned.
        """
        access = plan.access
        starts = where.starts(access.stage, self.frame.iteration)
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

    def read(self, plan: AccessPlan, where: Place) -> Array:
        """What the running threads read, [blocks, values, threads]; idle ones get poison."""
        chosen = plan.of(self.frame.threads)
        starts = self.starts(plan, where)
        if plan.access.predicate is not None and isinstance(where, DeviceTile):
            exists = self.existing(plan, where, starts)
            values = where.read_existing(plan.dtype, chosen.offsets, starts, exists)
        else:
            values = where.read(plan.dtype, chosen.offsets, starts)
        return chosen.expanded(values, poison(plan.dtype))

    def write(self, plan: AccessPlan, where: Place, values: Array) -> None:
        """Writes the values of the running threads, rounded to the elements' type."""
        chosen = plan.of(self.frame.threads)
        kept = convert(chosen.compressed(values), plan.dtype)
        starts = self.starts(plan, where)
        if plan.access.predicate is not None and isinstance(where, DeviceTile):
            exists = self.existing(plan, where, starts)
            where.write_existing(chosen.offsets, starts, kept, exists)
        else:
            where.write(chosen.offsets, starts, kept)

    def existing(self, plan: AccessPlan, where: DeviceTile, starts: IntArray) -> BoolArray:
        """Which of the running threads' elements exist, [blocks, n], idle threads left out.

        Raises ``ExecutionError`` where one of them is outside of the tensor.
        """
        predicate = plan.access.predicate
        assert predicate is not None
        chosen = plan.of(self.frame.threads)
        iteration = plan.access.stage.iteration_at(self.frame.iteration)
        existing = [predicate.existing(tuple(block), iteration) for block in self.frame.blocks]
        exists = np.empty((len(existing), chosen.offsets.size), np.bool_)
        known: dict[tuple[int, ...], BoolArray] = {}
        for row, counts in enumerate(existing):
            if counts not in known:
                known[counts] = self._elements_within(plan, predicate.counts, counts)
            exists[row] = known[counts]
        size = plan.dtype.itemsize
        last = np.where(exists, starts[:, None] + chosen.offsets * size, 0).max(initial=0)
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

    def load(self, plan: AccessPlan, where: Place) -> Array:
        """As :meth:`read`, in fp32, or integers of 64 bits."""
        return self.read(plan, where).astype(register_dtype(plan.dtype), copy=False)

    def finish(self, plan: AccessPlan, where: Place, values: Array, epilogue: Epilogue) -> None:
        """Applies the epilogue, adds what is there where it accumulates, and writes."""
        values = apply_chain(epilogue.functions, values)
        if epilogue.accumulates:
            values = self.load(plan, where) + values
        self.write(plan, where, values)

    # Where data lives.

    @impl(sched.AllocOp)
    def run_alloc(
        self, interpreter: Interpreter, op: sched.AllocOp, args: PythonValues
    ) -> PythonValues:
        """The planned place of the buffer."""
        if op.byte_offset is None:
            raise ExecutionError(
                f"{op_label(op)} has no offset in shared memory; run --plan-stensor-memory first"
            )
        return (SharedBuffer(self.frame.memory, op.byte_offset, op.stage_count, op.stage_bytes()),)

    @impl(sched.FragmentOp)
    def run_fragment(
        self, interpreter: Interpreter, op: sched.FragmentOp, args: PythonValues
    ) -> PythonValues:
        """Registers of every thread, poison."""
        threads = sched.enclosing_kernel(op).threads
        shape = (self.frame.memory.blocks, op.values_per_thread(), threads)
        dtype = register_dtype(element_dtype(op.result.type))
        return (np.full(shape, poison(dtype), dtype),)

    @impl(sched.TileOp)
    def run_tile(
        self, interpreter: Interpreter, op: sched.TileOp, args: PythonValues
    ) -> PythonValues:
        """The tiles of the blocks."""
        source: DeviceTile = args[0]
        size = element_bytes_of(op.source.type)
        moved = self.frame.blocks @ np.array(op.block_strides(), dtype=np.int64) * size
        iteration_bytes = source.iteration_bytes + op.iteration_stride() * size
        return (DeviceTile(source.tensor, source.first + moved, iteration_bytes),)

    # Transfers.

    @impl(sched.CopyOp)
    def run_copy(
        self, interpreter: Interpreter, op: sched.CopyOp, args: PythonValues
    ) -> PythonValues:
        """Moves the tile of the iteration that the copy means, or notes it as in flight."""
        if any(isinstance(value.type, sched.FragmentType) for value in op.operands):
            self._copy_registers(op, args)
            return ()
        plan = self.plans.of(op, CopyPlan.build)
        stage = plan.destination.access.stage
        if not stage.happens_at(self.frame.iteration, self.frame.iterations):
            return ()
        source, destination = args
        values = self.read(plan.source, source)
        if op.is_async and self.frame.landing is Landing.LATEST:
            self._issue(plan.destination, destination, values)
        else:
            self.write(plan.destination, destination, values)
        return ()

    def _copy_registers(self, op: sched.CopyOp, args: PythonValues) -> None:
        """Moves the tile of an iteration to registers, or registers to it."""
        values = op.partition.data.values_per_thread(shape_of(op.source.type))
        plan = self.plans.of(op, lambda op: ComputePlan.build(op, values))
        if isinstance(op.destination.type, sched.FragmentType):
            (source,) = plan.sources
            if source.access.stage.happens_at(self.frame.iteration, self.frame.iterations):
                args[1][:, :, self.frame.threads] = self.load(source, args[0])
            return
        assert plan.destination is not None
        stage = plan.destination.access.stage
        if stage.happens_at(self.frame.iteration, self.frame.iterations):
            self.write(plan.destination, args[1], args[0][:, :, self.frame.threads])

    def _issue(self, plan: AccessPlan, where: Place, values: Array) -> None:
        """Notes a copy as in flight; until it lands, its destination is poison."""
        chosen = plan.of(self.frame.threads)
        starts = self.starts(plan, where)
        kept = chosen.compressed(values)
        where.write(chosen.offsets, starts, np.broadcast_to(poison(plan.dtype), kept.shape))
        copy = CopyInFlight(where, chosen.offsets, starts, kept)
        self.frame.copies().uncommitted.append(copy)

    @impl(sched.CommitOp)
    def run_commit(
        self, interpreter: Interpreter, op: sched.CommitOp, args: PythonValues
    ) -> PythonValues:
        """Closes the running threads' group."""
        self.frame.copies().commit()
        return ()

    @impl(sched.WaitOp)
    def run_wait(
        self, interpreter: Interpreter, op: sched.WaitOp, args: PythonValues
    ) -> PythonValues:
        """Lands the running threads' groups."""
        self.frame.copies().wait(op.pending_groups)
        return ()

    def run_nothing(
        self, interpreter: Interpreter, op: Operation, args: PythonValues
    ) -> PythonValues:
        """Nothing: here kernels run one after the other."""
        return ()

    run_grid_wait = impl(sched.GridWaitOp)(run_nothing)
    run_grid_launch = impl(sched.GridLaunchOp)(run_nothing)

    # Computation.

    @impl(sched.FillOp)
    def run_fill(
        self, interpreter: Interpreter, op: sched.FillOp, args: PythonValues
    ) -> PythonValues:
        """The constant in every register, or in all stages of the buffer."""
        (destination,) = args
        if not isinstance(destination, SharedBuffer):
            destination[:, :, self.frame.threads] = op.value.value.data
            return ()
        plan = self.plans.of(op, ComputePlan.build).destination
        assert plan is not None
        shape = (self.frame.memory.blocks, *plan.of(self.frame.threads).shape)
        self.write(plan, destination, np.full(shape, op.value.value.data, COMPUTE))
        return ()

    @impl(sched.ElementwiseOp)
    def run_elementwise(
        self, interpreter: Interpreter, op: sched.ElementwiseOp, args: PythonValues
    ) -> PythonValues:
        """The scalar function of each element."""
        plan = self.plans.of(op, ElementwisePlan.build)
        value = apply_function(op.function.data, *self._sources(plan, args[:-1]))
        self._finish_elements(plan.destination, plan.active, args[-1], value, epilogue_of(op))
        return ()

    def _sources(self, plan: ElementwisePlan, args: PythonValues) -> list[Array]:
        """What an element-wise operator reads, from memory or from registers."""
        return [
            source.of_registers(arg[:, :, self.frame.threads])
            if isinstance(source, HeldOperand)
            else self.load(source, arg)
            for source, arg in zip(plan.sources, args, strict=True)
        ]

    @impl(sched.MaskOp)
    def run_mask(
        self, interpreter: Interpreter, op: sched.MaskOp, args: PythonValues
    ) -> PythonValues:
        """The source, with the constant where elements do not exist."""
        plan = self.plans.of(op, ElementwisePlan.build)
        (value,) = self._sources(plan, args[:1])
        value = value.copy()
        predicate = op.predicate()
        width = op.partition.data.vector
        for index, block in enumerate(self.frame.blocks):
            existing = predicate.existing(tuple(block), self.frame.iteration)
            counts = predicate.counts(existing, width)
            within = np.arange(width)[None, :, None] < counts[:, None, :]
            outside = ~within.reshape(-1, counts.shape[1])[:, self.frame.threads]
            value[index, outside] = op.constant
        self._finish_elements(plan.destination, plan.active, args[1], value, epilogue_of(op))
        return ()

    def _finish_elements(
        self,
        plan: AccessPlan | None,
        active: BoolArray,
        destination: Any,
        value: Array,
        epilogue: Epilogue,
    ) -> None:
        """As :meth:`finish` for a buffer; adds to registers, or overwrites them.

        ``active`` says which values exist, ``[values, threads]``.
        """
        if plan is not None:
            self.finish(plan, destination, value, epilogue)
            return
        value = apply_chain(epilogue.functions, value)
        # Threads without an element leave their registers as they are.
        value = np.where(active[:, self.frame.threads], value, 0)
        registers = destination[:, :, self.frame.threads]
        if not epilogue.accumulates:
            registers[...] = 0
        # What is added to integers is rounded to one first.
        registers += convert(value, registers.dtype)

    @impl(sched.MoveOp)
    def run_move(
        self, interpreter: Interpreter, op: sched.MoveOp, args: PythonValues
    ) -> PythonValues:
        """Elements as they are."""
        plan = self.plans.of(op, ComputePlan.of_move)
        assert plan.destination is not None
        self.write(plan.destination, args[1], self.read(plan.sources[0], args[0]))
        return ()

    @impl(sched.ReduceOp)
    def run_reduce(
        self, interpreter: Interpreter, op: sched.ReduceOp, args: PythonValues
    ) -> PythonValues:
        """Sums of groups or their largest elements, in the order of the header library."""
        if op.rows is not None:
            self._reduce_rows(op, op.rows, args)
            return ()
        plan = self.plans.of(op, ReducePlan.build)
        values = self.load(plan.source, args[0])
        active = plan.source.of(self.frame.threads).active
        combine, identity = COMBINERS[op.combination]
        if active is not None:
            values[:, ~active] = identity
        blocks, _, threads = values.shape
        steps = values.reshape(blocks, plan.rounds, -1, threads)
        totals = np.full((blocks, plan.rounds, threads), identity, values.dtype)
        for step in range(steps.shape[2]):
            totals = combine(totals, steps[:, :, step])
        value = combine_lanes(totals, op.lane_count, op.combination)
        epilogue = epilogue_of(op)
        if op.combination is sched.Combiner.SUM:
            self.finish(plan.destination, args[1], value, epilogue)
            return ()
        value = apply_chain(epilogue.functions, value)
        if not epilogue.accumulates:
            self.write(plan.destination, args[1], value)
            return ()
        earlier = self.load(plan.destination, args[1])
        self.write(plan.destination, args[1], np.maximum(earlier, value))
        if plan.difference is not None:
            change = fall(earlier, self.load(plan.destination, args[1]))
            self.write(plan.difference, args[2], change)
        return ()

    def _of_threads(
        self, op: sched.ReduceOp | sched.ReduceWarpsOp, rows: LinearRows, registers: Array
    ) -> Array:
        """What each running thread makes of its elements of each row, [blocks, rows, threads]."""
        combine, identity = COMBINERS[op.combination]
        held = registers[:, :, self.frame.threads]
        active = held_by(rows.partition, rows.shape, sched.enclosing_threads(op))
        held = np.where(active[:, self.frame.threads], held, identity).astype(held.dtype)
        blocks, _, threads = held.shape
        vectors = held.reshape(blocks, rows.values, rows.rounds, rows.partition.vector, threads)
        parts = halved(vectors, combine)
        totals = parts[:, :, 0]
        for step in range(1, rows.rounds):
            totals = combine(totals, parts[:, :, step])
        return totals

    def _reduce_rows(self, op: sched.ReduceOp, rows: LinearRows, args: PythonValues) -> None:
        """Rows of a fragment: by shuffles, or every thread of what it reads from memory."""
        threads = self.frame.threads
        combine, identity = COMBINERS[op.combination]
        if isinstance(op.source.type, sched.FragmentType):
            totals = combine_lanes(
                self._of_threads(op, rows, args[0]), op.lane_count, op.combination
            )
        else:
            (source,) = self.plans.of(op, ComputePlan.build).sources
            read = self.load(source, args[0])
            shape = (read.shape[0], rows.values, -1, source.access.width, read.shape[2])
            steps = read.reshape(shape)
            vectors = steps[:, :, 0]
            for step in range(1, steps.shape[2]):
                vectors = combine(vectors, steps[:, :, step])
            totals = halved(vectors, combine)
            held = rows_held_by(rows, sched.enclosing_threads(op))
            totals = np.where(held[:, threads], totals, identity)
        epilogue = epilogue_of(op)
        value = apply_chain(epilogue.functions, totals)
        registers = args[1][:, :, threads]
        earlier = registers.copy()
        registers[...] = combine(earlier, value) if epilogue.accumulates else value
        if op.difference is not None:
            args[2][:, :, threads] = fall(earlier, registers)

    @impl(sched.ReduceWarpsOp)
    def run_reduce_warps(
        self, interpreter: Interpreter, op: sched.ReduceWarpsOp, args: PythonValues
    ) -> PythonValues:
        """What each warp makes of its part of each row."""
        plan = self.plans.of(op, ComputePlan.build).destination
        rows = op.rows
        if rows is None or plan is None:
            raise ExecutionError(f"{op_label(op)}: the warps of {op.partition} are not modelled")
        totals = combine_lanes(self._of_threads(op, rows, args[0]), WARP, op.combination)
        self.write(plan, args[1], totals)
        return ()

    def _operand(
        self, plan: MatmulPlan, operand: OperandPlan, where: Place, *, in_tf32: bool
    ) -> Array:
        """What the running warps read of an operand, zero where it cannot reach a result."""
        starts = [self.starts(read, where) for read in operand.reads]
        offsets = plan.offsets_of(operand, self.frame.threads)
        dtype = operand.reads[0].dtype
        values = where.read(dtype, np.maximum(offsets, 0), starts[0])
        values = multiplicand(values, in_tf32=in_tf32)
        if not operand.is_whole:
            values[:, offsets < 0] = 0
        return values

    @impl(sched.MmaOp)
    def run_mma(
        self, interpreter: Interpreter, op: sched.MmaOp, args: PythonValues
    ) -> PythonValues:
        """Adds every warp's product to its accumulator.

        The sum over k of one operator is numpy's, not step by step of the instruction.
        """
        in_tf32 = multiplies_in_tf32(op)
        threads = self.frame.threads
        if is_scalar_product(op):
            scalar = self.plans.of(op, ScalarMatmulPlan.build)
            self._add_scalar_product(scalar, args)
            return ()
        plan = self.plans.of(op, MatmulPlan.build)
        if not plan.takes_part(threads):
            return ()
        if op.lhs_in_registers:
            lhs = matrix_of(args[0][:, :, threads], plan, threads)
        else:
            lhs = self._operand(plan, plan.lhs, args[0], in_tf32=in_tf32)
        rhs = self._operand(plan, plan.rhs, args[1], in_tf32=in_tf32)
        product = np.matmul(lhs, rhs.swapaxes(-1, -2))
        shape = (product.shape[0], *plan.warps_along(threads), *product.shape[4:])
        values = fragment_of(np.broadcast_to(product, shape))
        sums = args[2][:, :, threads.start : threads.start + values.shape[2]]
        sums += values.astype(sums.dtype, copy=False)
        return ()

    @impl(sched.LoadOp)
    def run_load(
        self, interpreter: Interpreter, op: sched.LoadOp, args: PythonValues
    ) -> PythonValues:
        """What lanes load of a left matrix, as they hold accumulators."""
        threads = self.frame.threads
        plan = self.plans.of(op, MatmulPlan.of_load)
        if not plan.takes_part(threads):
            return ()
        matrix = self._operand(plan, plan.lhs, args[0], in_tf32=False)
        shape = (matrix.shape[0], *plan.warps_along(threads), *matrix.shape[4:])
        values = fragment_of(np.broadcast_to(matrix, shape))
        args[1][:, :, threads.start : threads.start + values.shape[2]] = values
        return ()

    @impl(sched.LoadColumnsOp)
    def run_load_columns(
        self, interpreter: Interpreter, op: sched.LoadColumnsOp, args: PythonValues
    ) -> PythonValues:
        """The number of each column, to all threads with values of it."""
        (plan,) = self.plans.of(op, ComputePlan.build).sources
        threads = self.frame.threads
        values = apply_chain(epilogue_of(op).functions, self.load(plan, args[0]))
        self._keep(op.destination, args[1][:, :, threads], values)
        return ()

    @impl(sched.MapOp)
    def run_map(
        self, interpreter: Interpreter, op: sched.MapOp, args: PythonValues
    ) -> PythonValues:
        """The scalar function of what each thread holds."""
        *arrays, destination = (array[:, :, self.frame.threads] for array in args)
        positions = self.plans.of(op, positions_of_sources)
        values = [
            array if held is None else array[:, held]
            for array, held in zip(arrays, positions, strict=True)
        ]
        result = apply_chain(epilogue_of(op).functions, apply_function(op.function.data, *values))
        if epilogue_of(op).accumulates:
            result = destination + result
        self._keep(op.destination, destination, result)
        return ()

    def _keep(self, value: SSAValue, registers: Array, numbers: Array) -> None:
        """Writes numbers to registers, rounded to the type of the fragment."""
        rounded = convert(numbers, element_dtype(value.type))
        registers[...] = rounded.astype(registers.dtype)

    @impl(sched.ReduceRowsOp)
    def run_reduce_rows(
        self, interpreter: Interpreter, op: sched.ReduceRowsOp, args: PythonValues
    ) -> PythonValues:
        """What threads hold of their rows in order, then what lanes have of a row."""
        source, destination, *differences = (array[:, :, self.frame.threads] for array in args)
        combine, identity = COMBINERS[op.combination]
        totals = np.full(destination.shape, identity, destination.dtype)
        slots = self.plans.of(op, row_slots_of_source)
        for value, slot in enumerate(slots):
            totals[:, slot] = combine(totals[:, slot], source[:, value])
        if not op.is_partial:
            assert isinstance(op.source.type, sched.FragmentType)
            lanes = lanes_of_a_row(op.source.type)
            totals = combine_lanes(totals, lanes, op.combination)
        epilogue = epilogue_of(op)
        totals = apply_chain(epilogue.functions, totals)
        earlier = destination.copy()
        if epilogue.accumulates:
            totals = combine(earlier, totals)
        self._keep(op.destination, destination, totals)
        for difference in differences:
            difference[...] = fall(earlier, destination)
        return ()

    def _add_scalar_product(self, plan: ScalarMatmulPlan, args: PythonValues) -> None:
        """Adds what every running thread multiplies by itself to its accumulator."""
        threads = slice(self.frame.threads.start, min(self.frame.threads.stop, plan.threads))
        if threads.start >= threads.stop:
            return
        matrices: list[Array] = []
        for operand, where in zip((plan.lhs, plan.rhs), args, strict=False):
            starts = self.starts(operand.read, where)
            values = where.read(operand.read.dtype, operand.offsets[threads], starts)
            matrices.append(multiplicand(values, in_tf32=False))
        # [blocks, threads, rows, columns] to values, then threads.
        product = np.matmul(matrices[0], matrices[1].swapaxes(-1, -2))
        blocks, count = product.shape[:2]
        values = product.reshape(blocks, count, -1).swapaxes(1, 2)
        sums = args[2][:, :, threads]
        sums += values.astype(sums.dtype, copy=False)

    @impl(sched.StoreOp)
    def run_store(
        self, interpreter: Interpreter, op: sched.StoreOp, args: PythonValues
    ) -> PythonValues:
        """Writes the registers to a buffer through the epilogue."""
        plan = self.plans.of(op, ComputePlan.build).destination
        assert plan is not None
        self.finish(plan, args[1], args[0][:, :, self.frame.threads], epilogue_of(op))
        return ()

    @impl(sched.SumPartsOp)
    def run_sum_parts(
        self, interpreter: Interpreter, op: sched.SumPartsOp, args: PythonValues
    ) -> PythonValues:
        """The parts added one by one."""
        plan = self.plans.of(op, ComputePlan.of_parts)
        first, *others = (self.load(part, args[0]) for part in plan.sources)
        for part in others:
            first = first + part
        shape = shape_of(op.destination.type)
        active = held_by(op.partition.data, shape, sched.enclosing_threads(op))
        self._finish_elements(plan.destination, active, args[1], first, epilogue_of(op))
        return ()

    @impl(sched.AccumulateOp)
    def run_accumulate(
        self, interpreter: Interpreter, op: sched.AccumulateOp, args: PythonValues
    ) -> PythonValues:
        """Adds registers to registers through the epilogue."""
        source, destination = (array[:, :, self.frame.threads] for array in args)
        destination += apply_chain(epilogue_of(op).functions, source)
        return ()


COMBINERS: dict[sched.Combiner, tuple[Callable[[Array, Array], Array], float]] = {
    sched.Combiner.SUM: (np.add, 0.0),
    sched.Combiner.MAX: (np.maximum, -np.inf),
}
"""What makes one number of two, and what changes none."""


def halved(vectors: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """The halves of vectors, [..., vector, threads], combined until one number of each is left."""
    while vectors.shape[-2] > 1:
        half = vectors.shape[-2] // 2
        vectors = combine(vectors[..., :half, :], vectors[..., half:, :])
    return vectors[..., 0, :]


def combine_lanes(
    totals: Array, lanes: int, combiner: sched.Combiner = sched.Combiner.SUM
) -> Array:
    """Combines ``lanes`` neighbouring threads, over the distances lanes / 2, ..., 2, 1.

    [..., threads] to the same extents; every lane has the result.  Twin of the butterfly of
    ``Reduce``; threads past the last whole group change nothing.
    """
    combine, identity = COMBINERS[combiner]
    threads = totals.shape[-1]
    shape = (*totals.shape[:-1], -(-threads // lanes) * lanes)
    padded = np.full(shape, identity, totals.dtype)
    padded[..., :threads] = totals
    grouped = padded.reshape(*totals.shape[:-1], -1, lanes)
    distance = lanes // 2
    lane = np.arange(lanes)
    while distance:
        grouped = combine(grouped, grouped[..., lane ^ distance])
        distance //= 2
    return grouped.reshape(padded.shape)[..., :threads]
