"""Element-wise operators, reductions and stores at the level of addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.interpreter import InterpreterFunctions, PythonValues, register_impls

from mugraph.dialects import sched
from mugraph.dialects.rows import WARP, LinearRows
from mugraph.dialects.sched.accesses import stage_reference
from mugraph.dialects.sched.types import Distribution
from mugraph.dialects.tb import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.address_level import COMPUTE, AddressFunctions
from mugraph.runtime.interpreter.address_plans import (
    AccessPlan,
    ComputePlan,
    ElementwisePlan,
    HeldOperand,
    ReducePlan,
    StorePlan,
    existing,
)
from mugraph.runtime.interpreter.address_products import reduce_product
from mugraph.runtime.interpreter.arithmetic import Array, convert, is_whole
from mugraph.runtime.interpreter.combining import COMBINERS, combine_lanes, halved
from mugraph.runtime.interpreter.dispatch import impl_writing, runs
from mugraph.runtime.interpreter.functions import apply_chain, apply_function, fall
from mugraph.runtime.interpreter.memory import BoolArray, SharedBuffer, element_dtype
from mugraph.runtime.interpreter.texpr.tiles import run_step_on_bytes


@register_impls
class ComputeFunctions(InterpreterFunctions):
    """One implementation an operator; fragments are arrays, as for :class:`AddressFunctions`."""

    def __init__(self, functions: AddressFunctions) -> None:
        self.functions = functions

    @impl_writing(sched.FillOp)
    def run_fill(self, op: sched.FillOp, args: PythonValues) -> None:
        """The constant in every register, or in all stages of the buffer."""
        (destination,) = args
        if not isinstance(destination, SharedBuffer):
            destination[:, :, self.functions.frame.threads] = op.value.value.data
            return
        plan = self.functions.plans.of(op, ComputePlan.build).destination
        assert plan is not None
        shape = (self.functions.frame.memory.blocks, *plan.of(self.functions.frame.threads).shape)
        self.functions.write(plan, destination, np.full(shape, op.value.value.data, COMPUTE))

    @impl_writing(sched.RenewOp)
    def run_renew(self, op: sched.RenewOp, args: PythonValues) -> None:
        """The same numbers."""

    @impl_writing(sched.MapOp)
    def run_map(self, op: sched.MapOp, args: PythonValues) -> None:
        """The scalar function of each element."""
        plan = self.functions.plans.of(op, ElementwisePlan.build)
        value = apply_function(op.function.data, *self._sources(plan, args[:-1]))
        self._finish_elements(op, plan.destination, plan.active, args[-1], value)

    def _sources(self, plan: ElementwisePlan, args: PythonValues) -> list[Array]:
        """What an element-wise operator reads, from memory or from registers."""
        return [
            source.of_registers(arg[:, :, self.functions.frame.threads])
            if isinstance(source, HeldOperand)
            else self.functions.load(source, arg)
            for source, arg in zip(plan.sources, args, strict=True)
        ]

    @impl_writing(sched.MaskOp)
    def run_mask(self, op: sched.MaskOp, args: PythonValues) -> None:
        """The source, with the constant where elements do not exist."""
        plan = self.functions.plans.of(op, ElementwisePlan.build)
        (value,) = self._sources(plan, args[:1])
        value = value.copy()
        frame = self.functions.frame
        for index, block in enumerate(frame.blocks):
            exists = op.exists(tuple(block), frame.first + frame.iteration)
            idle = sched.enclosing_threads(op) - exists.shape[1]
            outside = np.pad(~exists, ((0, 0), (0, idle)))[:, frame.threads]
            value[index, outside] = op.constant
        self._finish_elements(op, plan.destination, plan.active, args[1], value)

    def _finish_elements(
        self,
        op: sched.MapOp | sched.MaskOp | sched.ReduceOp,
        plan: AccessPlan | None,
        active: BoolArray,
        destination: Any,
        value: Array,
    ) -> None:
        """As :meth:`finish` for a buffer; adds to registers, or overwrites them.

        ``active`` says which values exist, ``[values, threads]``.
        """
        epilogue = epilogue_of(op)
        if plan is not None:
            self.functions.finish(plan, destination, value, epilogue)
            return
        value = apply_chain(epilogue.functions, value)
        # Threads without an element leave their registers as they are.
        value = np.where(active[:, self.functions.frame.threads], value, 0)
        registers = destination[:, :, self.functions.frame.threads]
        if not epilogue.accumulates:
            registers[...] = 0
        # What is added to integers is rounded to one first.
        registers += convert(value, registers.dtype)
        if not is_whole(registers.dtype):
            registers[...] = convert(registers, element_dtype(op.destination.type))

    @runs(sched.CustomOp)
    def run_custom(self, op: sched.CustomOp, args: PythonValues) -> PythonValues:
        """What the running threads do of the step."""
        frame, stage = self.functions.frame, stage_reference(op)
        starts = [int(place.starts(stage, frame.iteration, frame.position)[0]) for place in args]
        run_step_on_bytes(op, frame.memory.bytes, starts, frame.threads)
        return ()

    @runs(sched.MoveOp)
    def run_move(self, op: sched.MoveOp, args: PythonValues) -> PythonValues:
        """Elements as they are."""
        plan = self.functions.plans.of(op, ComputePlan.of_move)
        assert plan.destination is not None
        self.functions.write(
            plan.destination, args[1], self.functions.read(plan.sources[0], args[0])
        )
        return ()

    @impl_writing(sched.ReduceOp)
    def run_reduce(self, op: sched.ReduceOp, args: PythonValues) -> None:
        """Sums of groups or their largest elements, in the order of the header library."""
        if sched.is_of_product(op.destination):
            reduce_product(self.functions, op, args)
            return
        if op.drops_dim:
            self._sum_parts(op, args)
            return
        if op.rows is not None:
            reduce_rows = self._reduce_rows if op.parts is None else self._parts_of_warps
            reduce_rows(op, op.rows, args)
            return
        plan = self.functions.plans.of(op, ReducePlan.build)
        values = self.functions.load(plan.source, args[0])
        active = plan.source.of(self.functions.frame.threads).active
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
            self.functions.finish(plan.destination, args[1], value, epilogue)
            return
        value = apply_chain(epilogue.functions, value)
        if not epilogue.accumulates:
            self.functions.write(plan.destination, args[1], value)
            return
        earlier = self.functions.load(plan.destination, args[1])
        self.functions.write(plan.destination, args[1], np.maximum(earlier, value))
        if plan.difference is not None:
            change = fall(earlier, self.functions.load(plan.destination, args[1]))
            self.functions.write(plan.difference, args[2], change)

    def _sum_parts(self, op: sched.ReduceOp, args: PythonValues) -> None:
        """Sums of what lies along a dimension, added one by one."""
        plan = self.functions.plans.of(op, ComputePlan.of_parts)
        first, *others = (self.functions.load(part, args[0]) for part in plan.sources)
        for part in others:
            first = first + part
        assert isinstance(op.distribution, Distribution)  # verified
        held = op.distribution.thread_values(shape_of(op.destination.type))
        active = existing(held, sched.enclosing_threads(op))
        self._finish_elements(op, plan.destination, active, args[1], first)

    def _of_threads(self, op: sched.ReduceOp, rows: LinearRows, registers: Array) -> Array:
        """What each running thread makes of its elements of each row, [blocks, rows, threads]."""
        combine, identity = COMBINERS[op.combination]
        held = registers[:, :, self.functions.frame.threads]
        held_by = rows.partition.thread_values(rows.shape)
        active = existing(held_by, sched.enclosing_threads(op))
        held = np.where(active[:, self.functions.frame.threads], held, identity).astype(held.dtype)
        blocks, _, threads = held.shape
        vectors = held.reshape(blocks, rows.values, rows.rounds, rows.partition.vector, threads)
        parts = halved(vectors, combine)
        totals = parts[:, :, 0]
        for step in range(1, rows.rounds):
            totals = combine(totals, parts[:, :, step])
        return totals

    def _reduce_rows(self, op: sched.ReduceOp, rows: LinearRows, args: PythonValues) -> None:
        """Rows of a fragment: by shuffles, or every thread of what it reads from memory."""
        threads = self.functions.frame.threads
        combine, identity = COMBINERS[op.combination]
        if isinstance(op.source.type, sched.TileType):
            totals = combine_lanes(
                self._of_threads(op, rows, args[0]), op.lane_count, op.combination
            )
        else:
            (source,) = self.functions.plans.of(op, ComputePlan.build).sources
            read = self.functions.load(source, args[0])
            shape = (read.shape[0], rows.values, -1, source.access.width, read.shape[2])
            steps = read.reshape(shape)
            vectors = steps[:, :, 0]
            for step in range(1, steps.shape[2]):
                vectors = combine(vectors, steps[:, :, step])
            totals = halved(vectors, combine)
            held = existing(rows.thread_values(), sched.enclosing_threads(op))
            totals = np.where(held[:, threads], totals, identity)
        epilogue = epilogue_of(op)
        value = apply_chain(epilogue.functions, totals)
        registers = args[1][:, :, threads]
        earlier = registers.copy()
        registers[...] = combine(earlier, value) if epilogue.accumulates else value
        if op.difference is not None:
            args[2][:, :, threads] = fall(earlier, registers)

    def _parts_of_warps(self, op: sched.ReduceOp, rows: LinearRows, args: PythonValues) -> None:
        """What each warp makes of its part of each row."""
        plan = self.functions.plans.of(op, ComputePlan.build).destination
        assert plan is not None  # parts are written to memory
        totals = combine_lanes(self._of_threads(op, rows, args[0]), WARP, op.combination)
        self.functions.write(plan, args[1], totals)

    @runs(sched.StoreOp)
    def run_store(self, op: sched.StoreOp, args: PythonValues) -> PythonValues:
        """Writes the registers to a buffer through the epilogue."""
        plan = self.functions.plans.of(op, StorePlan.build)
        values = plan.of_registers(args[0], self.functions.frame.threads)
        self.functions.finish(plan.destination, args[1], values, epilogue_of(op))
        return ()
