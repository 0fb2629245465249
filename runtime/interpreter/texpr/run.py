"""Runs functions of the ``te`` dialect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Any, cast

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.ancestors import enclosing
from mugraph.dialects.locations import note_place
from mugraph.dialects.named_extents import (
    ExtentError,
    argument_names,
    named_extents,
    sized,
    sizes_of_call,
)
from mugraph.dialects.te.mbarriers import MBARRIER_BYTES
from mugraph.dialects.te.points import box_offsets
from mugraph.dialects.tensor_types import source_name, source_values
from mugraph.passes.texpr.analysis.roles import takes_turns
from mugraph.passes.texpr.te_inline import fold_sections, inline_calls
from mugraph.runtime.interpreter.arithmetic import Array, Precision, is_whole
from mugraph.runtime.interpreter.errors import ExecutionError, iterations_of
from mugraph.runtime.interpreter.memory import InFlight
from mugraph.runtime.interpreter.texpr.batch import Batch, Places, Rows, Storage
from mugraph.runtime.interpreter.texpr.instructions import execute_asm
from mugraph.runtime.interpreter.texpr.numbers import compute, dtype_of
from mugraph.runtime.interpreter.texpr.roles import chosen_by, run_in_turns

_MOST_DRAWN = 1 << 16
"""How many iterations, or runs of neighbours, are put in random order at most."""
_MOST_GROUPS = 3
"""Into how many groups the iterations of a parallel loop are dealt at most."""


@dataclass(frozen=True)
class TexprExecution:
    """What a function left in its buffers."""

    outputs: dict[str, Array]
    """The contents of each parameter that the function writes, by its name."""
    anchors: list[Array]
    """What each ``te.anchor`` observed, in the order of the text; sorted, as order is free."""


def run_texpr(
    function: FuncOp,
    inputs: Sequence[Array],
    *,
    precision: Precision = Precision.STORAGE,
    seed: int | None = 0,
) -> TexprExecution:
    """Runs a function on the contents of its parameters, declared results left out.

    A parallel loop deals its iterations at random into groups; the groups run one after another,
    the iterations of a group together, a statement at a time, in random order: some of the orders
    that the language allows.  Without a ``seed`` all iterations run together, in order.  Reading
    what was never written, and leaving a buffer, raise ``ExecutionError``.

    ``precision``: "storage" computes in the types of the program, "float64" computes everything but
    integers in float64 and rounds nothing.
    """
    original = function
    function = function.clone()
    inline_calls(function, original)
    fold_sections(function)
    runner = Runner(precision, None if seed is None else np.random.default_rng(seed))
    batch = Batch(1)
    given = iter(inputs)
    names = te.parameter_names(function)
    takes = len(te.input_parameters(function))
    label = f"function @{function.sym_name.data}"
    if len(inputs) != takes:
        raise ExecutionError(f"{label} takes {takes} arguments, got {len(inputs)}")
    sizes = _sizes_of_call(function, inputs)
    for position, argument in enumerate(function.body.block.args):
        if not isinstance(argument.type, te.BufferType):
            value = sizes[argument_names(function, position)[0]]
            batch.values[argument] = np.array([value], np.int64)
            continue
        type_ = argument.type
        shape = sized(argument_names(function, position), type_.get_shape(), sizes)
        storage = runner.storage(type_, 1, shape)
        if not te.is_result(function, position):
            value = np.asarray(next(given))
            if value.size != math.prod(shape):
                raise ExecutionError(
                    f"{names[position]} of {label} has {math.prod(shape)} elements, got an array "
                    f"of {value.size}"
                )
            storage.elements[0] = value.reshape(-1).astype(storage.elements.dtype)
            storage.written[:] = True
        batch.buffers[argument] = storage, np.zeros(1, np.int64)
    if 0 not in sizes.values():
        with np.errstate(all="ignore"):
            runner.block(function.body.block, batch)
    outputs: dict[str, Array] = {}
    for position in te.written_parameters(original):
        storage, _ = batch.buffer(function.body.block.args[position])
        outputs[names[position]] = storage.elements[0].reshape(storage.shape)
    anchors = [op for op in function.walk() if isinstance(op, te.AnchorOp)]
    return TexprExecution(outputs, [np.sort(runner.observed(op)) for op in anchors])


def _sizes_of_call(function: FuncOp, inputs: Sequence[Array]) -> dict[str, int]:
    """The sizes that a call says, which follow from the extents of its inputs."""
    extents = tuple(named_extents(function).values())
    names = [argument_names(function, position) for position in te.input_parameters(function)]
    try:
        return sizes_of_call(extents, names, [np.shape(one) for one in inputs]) if extents else {}
    except ExtentError as error:
        raise ExecutionError(f"function @{function.sym_name.data}: {error}") from error


class Runner:
    """Runs the operators of a function, many iterations of loops at once."""

    def __init__(self, precision: Precision, generator: np.random.Generator | None) -> None:
        self._precision = precision
        self._generator = generator
        self._observed: dict[te.AnchorOp, list[Array]] = {}
        self._copies = InFlight()

    def observed(self, op: te.AnchorOp) -> Array:
        """All that an anchor observed."""
        return np.concatenate(self._observed.get(op, [np.zeros(0)]))

    def storage(
        self, type_: te.BufferType, copies: int, shape: tuple[int, ...] | None = None
    ) -> Storage:
        """Buffers without contents, of the type's extents or of those of a call."""
        extents = type_.get_shape() if shape is None else shape
        dtype = dtype_of(type_.element_type, self._precision)
        filler = 0 if is_whole(dtype) else math.nan
        elements = np.full((copies, math.prod(extents)), filler, dtype)
        return Storage(elements, np.zeros(elements.shape, np.bool_), extents)

    def dtype_of(self, buffer: SSAValue) -> np.dtype[Any]:
        """The numpy type of a buffer's elements."""
        return dtype_of(cast(te.BufferType, buffer.type).element_type, self._precision)

    def block(self, block: Block, batch: Batch) -> None:
        """Runs the operators of a block in order."""
        for op in block.ops:
            try:
                self._run(op, batch)
            except ExecutionError as error:
                note_place(error, op)
                raise

    @singledispatchmethod
    def _run(self, op: Operation, batch: Batch) -> None:
        operands = [batch.value(operand) for operand in op.operands]
        if len(op.results) != 1:
            raise ExecutionError(f"'{op.name}' cannot be executed by the interpreter yet")
        batch.values[op.results[0]] = self.compute(op, operands, batch.count)

    def compute(self, op: Operation, operands: list[Array], count: int) -> Array:
        """The result of an operator on numbers, in each of ``count`` iterations."""
        return compute(op, operands, count, self._precision)

    def reduce(
        self, combination: te.Combination, storage: Storage, rows: Rows, at: Rows, values: Array
    ) -> None:
        """Combines each element of a buffer with all the values for it."""
        _COMBINE[combination].at(storage.elements, (rows, at), values)

    def run(self, op: Operation, batch: Batch) -> None:
        """Runs an operator in all iterations of a batch."""
        self._run(op, batch)

    @_run.register(ReturnOp)
    @_run.register(te.NewMbarriersOp)  # set up by threads
    @_run.register(te.BarrierOp)
    @_run.register(te.IterationOp)
    @_run.register(te.SectionOp)  # evaluated where it is an operand
    def _(self, op: Operation, batch: Batch) -> None:
        pass

    @_run.register
    def _(self, op: te.MbarrierAddressOp, batch: Batch) -> None:
        number = batch.index(op.number, list(op.indices))
        batch.values[op.result] = (number * MBARRIER_BYTES).astype(np.int32)

    # Loops.

    @_run.register
    def _(self, op: te.ParOp, batch: Batch) -> None:
        if op.is_fully and takes_turns(op):
            run_in_turns(self, op, batch, self._generator)
            return
        count, extent = batch.count, op.iterations
        if op.is_fully or self._generator is None:
            groups = [np.arange(count * extent)]
        else:
            points = _in_random_order(count * extent, self._generator)
            cuts = np.sort(self._generator.integers(0, len(points) + 1, _MOST_GROUPS - 1))
            groups = np.split(points, cuts)
        for group in groups:
            if len(group):
                lanes = extent if op.is_fully else batch.lanes
                inner = Batch(len(group), batch, group // extent, lanes)
                inner.values[op.variable] = group % extent
                self.block(op.body.block, inner)

    @_run.register
    def _(self, op: te.KernelOp, batch: Batch) -> None:
        # Blocks of a cluster stay together: they may have buffers in common.
        blocks = _launched_blocks(op, batch).reshape(-1, op.cluster_blocks)
        if self._generator is not None:
            self._generator.shuffle(blocks)
        blocks = blocks.reshape(-1)
        inner = Batch(len(blocks), batch, np.zeros(len(blocks), np.int64))
        inner.values[op.variable] = blocks
        self.block(op.body.block, inner)

    @_run.register
    def _(self, op: te.ThreadsOp, batch: Batch) -> None:
        if takes_turns(op):
            run_in_turns(self, op, batch, self._generator)
            return
        # All threads of all blocks, an operator at a time: barriers have nothing to wait for.
        points = np.arange(batch.count * op.iterations)
        inner = Batch(len(points), batch, points // op.iterations, op.iterations)
        inner.values[op.variable] = points % op.iterations
        self._copies = InFlight()
        self.block(op.body.block, inner)
        if self._copies.under_way:
            raise ExecutionError(
                "'te.copy_async': copies are under way when the block's program ends; 'te.wait 0' "
                "waits for them"
            )

    @_run.register
    def _(self, op: te.StepOp, batch: Batch) -> None:
        self.block(op.body.block, batch)

    @_run.register
    def _(self, op: te.ApplyOp, batch: Batch) -> None:
        batch.values[op.result] = batch.index(op.expression, list(op.indices))

    @_run.register
    def _(self, op: te.AllReduceOp, batch: Batch) -> None:
        of_block = op.threads is te.Scope.BLOCK
        threads = enclosing(op, te.ThreadsOp)
        is_parted = isinstance(threads, te.ThreadsOp) and batch.lanes != threads.iterations
        if batch.lanes is None or (of_block and is_parted):
            raise ExecutionError("'te.all_reduce' stands where not all threads of a block come")
        together = batch.lanes if of_block else min(te.WARP, batch.lanes)
        values = batch.value(op.value).reshape(-1, together)
        totals = _COMBINE[op.combines].reduce(values, axis=1)
        batch.values[op.result] = np.repeat(totals, together)

    @_run.register
    def _(self, op: te.SeqOp, batch: Batch) -> None:
        for iteration in iterations_of(op, op.iterations):
            inner = Batch(batch.count, batch, None, batch.lanes)
            inner.values[op.variable] = np.full(batch.count, iteration, np.int64)
            self.block(op.body.block, inner)

    @_run.register(te.IfOp)
    @_run.register(te.WhenOp)
    def _(self, op: te.IfOp | te.WhenOp, batch: Batch) -> None:
        chosen = chosen_by(op, batch)
        if chosen is not None:
            self.block(op.body.block, chosen)

    # Buffers.

    @_run.register
    def _(self, op: te.NewOp, batch: Batch) -> None:
        holder, kernel = enclosing(op, te.ThreadsOp), enclosing(op, te.KernelOp)
        sharing = (batch.lanes or 1) if holder is not None and holder.shares(op) else 1
        if isinstance(kernel, te.KernelOp) and op.result.type.memory_space is te.Space.CLUSTER:
            sharing *= kernel.cluster_blocks
        owners = np.arange(batch.count) // sharing
        storage = self.storage(op.result.type, batch.count // sharing)
        batch.buffers[op.result] = storage, owners

    def places(self, op: Operation, touch: te.Touch, batch: Batch) -> Places:
        """The elements that an operator touches; ``ExecutionError`` where some are none."""
        storage, rows = batch.buffer(touch.buffer)
        indices = list(touch.indices)
        numbers = np.zeros(batch.count, np.int64)
        touch = replace(touch, sized=storage.shape)
        for expression, part, extent in zip(
            touch.expressions, touch.box, touch.extents, strict=True
        ):
            index = batch.index(expression, indices)
            outside = (index < 0) | (index + part > extent)
            if outside.any():
                first = int(np.argmax(outside))
                found = index[first] if index[first] < 0 else index[first] + part - 1
                raise ExecutionError(
                    f"'{op.name}': {source_name(touch.buffer)} is accessed at index {found}"
                    f"{self._where(op, batch, first)}; it has elements from 0 to {extent - 1}"
                )
            numbers = numbers * extent + index
        return Places(storage, rows[:, None], numbers[:, None] + box_offsets(touch))

    def _all_touched(self, op: te.HasTouches, batch: Batch) -> list[Places]:
        assert isinstance(op, Operation)
        touches = [op.exact_touch()] if isinstance(op, te.AccessOp) else op.touches()
        return [self.places(op, touch, batch) for touch in touches]

    def _registers(self, buffer: SSAValue, batch: Batch) -> Places:
        """All elements of a thread's buffer."""
        storage, rows = batch.buffer(buffer)
        return Places(storage, rows[:, None], np.arange(math.prod(storage.shape))[None])

    def _where(self, op: Operation, batch: Batch, row: int) -> str:
        variables = [loop.variable for loop in reversed(te.enclosing_loops(op))]
        values = {one: int(batch.value(one)[row]) for one in variables}
        return f" where {source_values(values)}" if values else ""

    def read(self, op: Operation, buffer: SSAValue, places: Places, batch: Batch) -> Array:
        """What elements hold; ``ExecutionError`` for one that nothing was written to."""
        missing = places.first_unwritten()
        if missing is not None:
            iteration, number = missing
            raise ExecutionError(
                f"'{op.name}' reads {source_name(buffer)}[{number}]"
                f"{self._where(op, batch, iteration)}, which nothing has written"
            )
        return places.read()

    @_run.register
    def _(self, op: te.ViewOp, batch: Batch) -> None:
        (places,) = self._all_touched(op, batch)
        batch.values[op.result] = self.read(op, op.buffer, places, batch)[:, 0]

    @_run.register
    def _(self, op: te.LoadOp, batch: Batch) -> None:
        (places,) = self._all_touched(op, batch)
        values = self.read(op, op.buffer, places, batch)
        self._registers(op.registers, batch).write(values)

    @_run.register
    def _(self, op: te.StoreOp, batch: Batch) -> None:
        (places,) = self._all_touched(op, batch)
        registers = self._registers(op.registers, batch)
        places.write(self.read(op, op.registers, registers, batch))

    @_run.register
    def _(self, op: te.AsyncCopy, batch: Batch) -> None:
        read, write = op.touches()
        target = self.places(op, write, batch)
        chosen = Batch(batch.count, batch) if read.only is None else chosen_by(read.only, batch)
        source = None if chosen is None else self.places(op, read, chosen)
        # Between now and the wait the target holds nothing.
        target.storage.written[target.rows, target.numbers] = False

        def land() -> None:
            values = np.zeros(target.numbers.shape, target.storage.elements.dtype)
            if chosen is not None and source is not None:
                rows = slice(None) if chosen.parents is None else chosen.parents
                values[rows] = self.read(op, op.source, source, chosen)
            target.write(values)

        self._copies.uncommitted.append(land)

    @_run.register
    def _(self, op: te.CommitOp, batch: Batch) -> None:
        self._copies.commit()

    @_run.register
    def _(self, op: te.WaitOp, batch: Batch) -> None:
        self._copies.wait(op.groups)

    @_run.register
    def _(self, op: te.BindOp, batch: Batch) -> None:
        (places,) = self._all_touched(op, batch)
        places.write(batch.value(op.value)[:, None])

    def _combined(self, op: te.CombiningOp, batch: Batch) -> tuple[Storage, Rows, Rows]:
        """The element that an operator combines with a number: storage, copy and number."""
        (places,) = self._all_touched(op, batch)
        self.read(op, op.buffer, places, batch)
        return places.storage, places.rows[:, 0], places.numbers[:, 0]

    @_run.register
    def _(self, op: te.RedOp, batch: Batch) -> None:
        self.reduce(op.combines, *self._combined(op, batch), batch.value(op.value))

    @_run.register
    def _(self, op: te.AtomicOp, batch: Batch) -> None:
        storage, rows, at = self._combined(op, batch)
        value = batch.value(op.value)
        before = np.empty_like(value)
        combine = _COMBINE[op.combines]
        order = np.arange(batch.count)
        if self._generator is not None:
            self._generator.shuffle(order)
        for row in order:
            place = rows[row], at[row]
            before[row] = storage.elements[place]
            storage.elements[place] = combine(before[row], value[row])
        batch.values[op.result] = before

    @_run.register
    def _(self, op: te.AnchorOp, batch: Batch) -> None:
        self._observed.setdefault(op, []).append(batch.value(op.value))

    @_run.register
    def _(self, op: te.IndexOfOp, batch: Batch) -> None:
        batch.values[op.result] = batch.value(op.value).astype(np.int64)

    @_run.register
    def _(self, op: te.IndexValueOp, batch: Batch) -> None:
        value = batch.index(op.expression, list(op.indices))
        batch.values[op.result] = value.astype(np.int32)

    @_run.register
    def _(self, op: te.AsmOp, batch: Batch) -> None:
        if op.meaning is not None:
            self.block(op.meaning.block, batch)
            return
        operands: list[Array] = []
        buffers: dict[int, Places] = {}
        touches = iter(op.touches())
        for position, argument in enumerate(op.arguments):
            if not isinstance(argument.type, te.BufferType):
                operands.append(batch.value(argument)[:, np.newaxis])
                continue
            places = buffers[position] = self.places(op, next(touches), batch)
            is_read = op.operand_directions[position] is not te.Direction.OUT
            operands.append(self.read(op, argument, places, batch) if is_read else places.read())
        for position, value in execute_asm(op, operands, batch.lanes).items():
            buffers[position].write(value)


def _in_random_order(count: int, generator: np.random.Generator) -> Rows:
    """The numbers below ``count`` in random order; of many numbers neighbours stay neighbours."""
    together = -(-count // _MOST_DRAWN)
    starts = generator.permutation(-(-count // together)) * together
    if together == 1:
        return starts
    points = (starts[:, None] + np.arange(together)).reshape(-1)
    return points[points < count]


def _launched_blocks(kernel: te.KernelOp, batch: Batch) -> Rows:
    """The numbers of the blocks that run."""
    function = enclosing(kernel, FuncOp)
    assert function is not None
    values = {cut.argument: int(batch.value(function.args[cut.argument])[0]) for cut in kernel.cuts}
    x, y, z = (np.arange(extent) for extent in kernel.launched_grid(values))
    wide, high, _ = kernel.grid_dim
    return ((z[:, None, None] * high + y[:, None]) * wide + x).reshape(-1)


_COMBINE: dict[te.Combination, Any] = {
    te.Combination.ADD: np.add,
    te.Combination.MAX: np.maximum,
    te.Combination.MIN: np.minimum,
}
