"""Execution of threadblock graphs, ``kn.customized``.

Operators of the loop body run once an iteration, accumulators add up what the iterations give
them, operators after the loop run once.  All blocks of a box run together (see
:mod:`mugraph.runtime.interpreter.blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp, Phase, loop_invariant_tiles, phases_of
from mugraph.dialects.maps import Bound, mapped_axes
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array
from mugraph.runtime.interpreter.blocks import (
    GRID_AXES,
    Frame,
    boxes,
    broadcast_bytes,
    masked,
    padded,
    uniform_boxes,
)
from mugraph.runtime.interpreter.dispatch import implements, make_interpreter, runs
from mugraph.runtime.interpreter.errors import iterations_of
from mugraph.runtime.interpreter.functions import (
    apply_chain,
    apply_function,
    fall,
    matmul,
    max_groups,
    part_of,
    require_each_row,
    rms_norm,
    rows_to_write,
    see_windows,
    sum_groups,
    sum_last,
    take_rows,
    write_rows,
)
from mugraph.runtime.interpreter.lengths import lengths_in
from mugraph.runtime.interpreter.texpr.tiles import run_operator


def _unchanged(total: Array) -> Array:
    return total


def _summed(total: Array | None, value: Array) -> Array:
    # Sums start at +0, as a cleared accumulator does.
    return np.add(0 if total is None else total, value)


def _scaled(total: Array | None, factor: Array) -> Array | None:
    return None if total is None else total * factor


def _latest(total: Array | None, value: Array) -> Array:
    return value


def _largest(total: Array | None, value: Array) -> Array:
    return value if total is None else np.maximum(total, value)


@dataclass(frozen=True)
class Addend:
    """What one iteration adds to an accumulator, and what the sum becomes after the loop.

    An implementation returns it in place of an array where its operator accumulates.  ``combine``
    makes a new total of the old one, ``None`` in the first iteration, and the value.
    """

    value: Array
    finish: Callable[[Array], Array] = _unchanged
    combine: Callable[[Array | None, Array], Array] = _summed


@register_impls
@implements("run_elementwise", (*tb.ELEMENTWISE_OPERATORS, tb.CastOp))
class ThreadblockFunctions(InterpreterFunctions):
    """One implementation an operator of ``tb``.

    Operands and results are arrays of the computing type with the grid's axes first.  An
    implementation returns its rounded result, or an :class:`Addend`.
    """

    def __init__(self, frame: Frame, outputs: dict[Operation, Array]):
        self.frame = frame
        self.outputs = outputs
        self.counts: dict[Operation, Array] = {}
        """How many elements of each row a mean has been taken of so far."""
        self.running: dict[Operation, Array] = {}
        """The running maxima, and the states that the iteration before has left."""
        self.gathered: dict[Operation, Array] = {}
        """The rows that numbers name, of each input that reads through some."""

    def finish(self, op: Operation, value: Array) -> tuple[Array | Addend]:
        """Applies the operator's epilogue, then rounds, or leaves that until after the loop."""
        epilogue = tb.epilogue_of(op)
        value = apply_chain(epilogue.functions, value)
        if epilogue.accumulates:
            return (Addend(value),)
        return (self.round(op, value),)

    def round(self, op: Operation, value: Array) -> Array:
        """``value`` in the element type of the operator's result."""
        return self.frame.arithmetic.round(value, element_type_of(op.results[0].type))

    def whole_along(self, value: Array, dim: int, extent: int) -> Array:
        """Tiles with zeros for the elements along ``dim`` that do not exist; for sums over it."""
        shape = list(value.shape[GRID_AXES:])
        shape[dim] = extent
        return padded(self.frame.arithmetic, value, shape)

    @runs(tb.InputOp)
    def run_input(self, op: tb.InputOp, args: PythonValues) -> PythonValues:
        """The tile of the current iteration."""
        tensor: Array = args[0]
        if op.through is not None:
            if op not in self.gathered:
                self.gathered[op] = take_rows(tensor, self.frame.arithmetic.load(args[1]))
            tensor = self.gathered[op]
        if op.windows is not None:
            if op not in self.gathered:
                self.gathered[op] = see_windows(tensor, op.windows)
            tensor = self.gathered[op]
        slicing = op.slicing()
        tiles = self.frame.arithmetic.load(self.frame.tiles_of(tensor, slicing))
        if op.ends:
            tiles = masked(tiles, tb.forms_in_tiles(op.end_forms(), slicing), 0.0, self.frame)
        return (tiles,)

    @runs(tb.OutputOp)
    def run_output(self, op: tb.OutputOp, args: PythonValues) -> PythonValues:
        """Writes the tiles into the result, or into the iteration's slice of it."""
        value = args[0]
        if element_type_of(op.stensor.type) != element_type_of(op.dtensor_type):
            value = self.frame.arithmetic.store(value, op.dtensor_type)
        tensor = self.outputs[op]
        if op.through is None:
            self.frame.store_tiles(tensor, op.slicing(), value)
            return ()
        numbers = self.frame.arithmetic.load(args[1])
        require_each_row(op, tensor.shape[0], numbers)
        rows = rows_to_write(tensor, numbers)
        self.frame.store_tiles(rows, op.slicing(), value)
        write_rows(tensor, numbers, rows)
        return ()

    @runs(tb.MatmulOp)
    def run_matmul(self, op: tb.MatmulOp, args: PythonValues) -> PythonValues:
        """The matrix product of the tiles."""
        lhs, rhs = args
        if op.multiplies_in_tf32(op.lhs):
            lhs, rhs = (self.frame.arithmetic.multiplicand(value) for value in (lhs, rhs))
        return self.finish(op, matmul(lhs, rhs))

    def run_elementwise(
        self, interpreter: Interpreter, op: tb.ElementwiseOp, args: PythonValues
    ) -> PythonValues:
        """The operator's scalar function of each element."""
        return self.finish(op, apply_function(op.function, *args))

    @runs(tb.MaskOp)
    def run_mask(self, op: tb.MaskOp, args: PythonValues) -> PythonValues:
        """The elements whose places meet the condition; tiles have only those that exist."""
        value: Array = args[0]
        if op.condition is not None:
            value = masked(value, op.local_forms(), op.constant, self.frame)
        return self.finish(op, value)

    @runs(tb.RmsNormOp)
    def run_rms_norm(self, op: tb.RmsNormOp, args: PythonValues) -> PythonValues:
        """The norm over the tile's last dimension, times the weight."""
        value = rms_norm(args[0], epsilon=op.epsilon_value)
        return self.finish(op, value if op.weight is None else value * args[1])

    def run_any_reduction(
        self, interpreter: Interpreter, op: tb.AnyReductionOp, args: PythonValues
    ) -> PythonValues:
        """Sums of groups along one dimension."""
        dim = op.reduced_dim
        results = shape_of(op.result.type)[dim]
        value = self.whole_along(args[0], dim, shape_of(op.input.type)[dim])
        return self.finish(op, sum_groups(value, GRID_AXES + dim, op.groups(), results))

    run_reduction = impl(tb.ReductionOp)(run_any_reduction)
    run_reduction_strided = impl(tb.ReductionToDimxStridedOp)(run_any_reduction)
    run_reduction_contiguous = impl(tb.ReductionToDimxContiguousOp)(run_any_reduction)

    @runs(tb.ConcatOp)
    def run_concat(self, op: tb.ConcatOp, args: PythonValues) -> PythonValues:
        """The tiles in one."""
        axes = np.broadcast_shapes(*(part.shape[:GRID_AXES] for part in args))
        whole = self.frame.arithmetic.full((*axes, *shape_of(op.result.type)), 0.0)
        for part, (operand, _, start) in zip(args, op.moves(), strict=True):
            part_of_tile(whole, start, shape_of(operand.type))[...] = part
        return (whole,)

    @runs(tb.SplitOp)
    def run_split(self, op: tb.SplitOp, args: PythonValues) -> PythonValues:
        """The parts of the tile."""
        return tuple(
            part_of_tile(args[0], start, shape_of(part.type)) for _, part, start in op.moves()
        )

    @runs(tb.CustomOp)
    def run_custom(self, op: tb.CustomOp, args: PythonValues) -> PythonValues:
        """The function on the tiles, its parallel iterations in random order."""
        arithmetic = self.frame.arithmetic
        results = run_operator(op.function(), args, GRID_AXES, arithmetic)
        return tuple(arithmetic.load(result) for result in results)

    @runs(tb.ConcatThenMatmulOp)
    def run_concat_then_matmul(self, op: tb.ConcatThenMatmulOp, args: PythonValues) -> PythonValues:
        """The sum of the products."""
        return self.finish(op, matmul(args[0], args[2]) + matmul(args[1], args[3]))

    @runs(tb.ReductionMaxOp)
    def run_reduction_max(self, op: tb.ReductionMaxOp, args: PythonValues) -> PythonValues:
        """The running maximum, as it is stored, and how far below it the one before was."""
        axis = GRID_AXES + op.reduced_dim
        of_existing = tb.Groups(args[0].shape[axis], 1, 0)
        largest = max_groups(args[0], axis, of_existing, 1)
        arithmetic = self.frame.arithmetic
        earlier = self.running.get(op)
        if earlier is None:
            earlier = arithmetic.full(largest.shape, op.least)
        maximum = self.round(op, np.maximum(earlier, largest))
        self.running[op] = maximum
        change = arithmetic.round(fall(earlier, maximum), element_type_of(op.difference.type))
        return (maximum, change)

    def count_of(self, op: Operation, value: Array) -> Array:
        """How many elements of each row a mean has been taken of, with this tile's."""
        arithmetic = self.frame.arithmetic
        rows = value.shape[GRID_AXES:-1]
        count = arithmetic.full((*[1] * GRID_AXES, *rows, 1), value.shape[-1])
        if op in self.counts:
            # Rows of a ragged tile are not there in every iteration; no later tile has more.
            earlier = self.counts[op]
            count = earlier + padded(arithmetic, count, earlier.shape[GRID_AXES:])
        self.counts[op] = count
        return count

    @runs(tb.ForloopAccumOp)
    def run_forloop_accum(self, op: tb.ForloopAccumOp, args: PythonValues) -> PythonValues:
        """The sum, sum, mean or root mean square over the last dimension, or the maximum."""
        value: Array = args[0]
        match op.kind.data:
            case tb.AccumulatorKind.NONE:
                return (Addend(value),)
            case tb.AccumulatorKind.SUM:
                return (Addend(sum_last(value)),)
            case tb.AccumulatorKind.MEAN:
                count = self.count_of(op, value)
                return (Addend(sum_last(value), lambda total: total / count),)
            case tb.AccumulatorKind.MAX:
                return (Addend(value, combine=_largest),)
            case tb.AccumulatorKind.RMS:
                count = self.count_of(op, value)
                return (Addend(sum_last(np.square(value)), lambda total: np.sqrt(total / count)),)

    @runs(tb.ForloopAccumRescaleOp)
    def run_forloop_accum_rescale(
        self, op: tb.ForloopAccumRescaleOp, args: PythonValues
    ) -> PythonValues:
        """The sum with what was there before rescaled, perhaps summed over the last dimension."""
        value, rescale = args
        finish = sum_last if op.kind.data is tb.RescaledKind.SUM else _unchanged
        return (Addend(value, finish, lambda total, new: _summed(_scaled(total, rescale), new)),)

    @runs(tb.CarriedOp)
    def run_carried(self, op: tb.CarriedOp, args: PythonValues) -> PythonValues:
        """What the iteration before has left, or the number that the state begins from."""
        state = self.running.get(op)
        if state is None:
            shape = (*[1] * GRID_AXES, *shape_of(op.result.type))
            state = self.round(op, self.frame.arithmetic.full(shape, op.first))
        return (state,)

    @runs(tb.CarryOp)
    def run_carry(self, op: tb.CarryOp, args: PythonValues) -> PythonValues:
        """Leaves its operand to the next iteration, in which all that reads the state reads it."""
        self.running[op.carried] = args[0]
        return (Addend(args[0], combine=_latest),)

    def run_any_sum_to_dimx(
        self, interpreter: Interpreter, op: tb.ForloopAccumSumToDimxOp, args: PythonValues
    ) -> PythonValues:
        """Sums of groups along the last dimension."""
        shape = shape_of(op.input.type)
        value = self.whole_along(args[0], len(shape) - 1, shape[-1])
        return (Addend(sum_groups(value, value.ndim - 1, op.groups(), op.dimx)),)

    run_sum_to_dimx_strided = impl(tb.ForloopAccumSumToDimxStridedOp)(run_any_sum_to_dimx)
    run_sum_to_dimx_contiguous = impl(tb.ForloopAccumSumToDimxContiguousOp)(run_any_sum_to_dimx)


def part_of_tile(value: Array, start: Sequence[int], shape: Sequence[int]) -> Array:
    """The box of a tile that starts at ``start``, in every block: a view."""
    return part_of(value, (*[0] * GRID_AXES, *start), (*value.shape[:GRID_AXES], *shape))


def _tile_bytes(graph: CustomizedOp, arithmetic: Arithmetic, box: Sequence[int]) -> int:
    """What all tiles of a threadblock graph take together, one iteration's of each."""
    axes_of: dict[SSAValue, set[int]] = {}
    total = 0
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp):
            rank = len(shape_of(op.result.type))
            axes = {
                axis for dim in range(rank) for axis in mapped_axes(op.map_, graph.grid_dim, dim)
            }
        else:
            axes = set[int]().union(*(axes_of.get(value, set()) for value in op.operands))
            if isinstance(op, tb.MaskOp):
                axes |= {axis for axis, dim in enumerate(op.map_) if dim >= 0}
            elif isinstance(op, tb.CarriedOp):
                axes = set(range(GRID_AXES))
        for result in op.results:
            axes_of[result] = axes
            total += broadcast_bytes(arithmetic, box, axes, shape_of(result.type))
    return total


def _bounds(graph: CustomizedOp) -> list[Bound]:
    """All that says which elements of tiles exist."""
    return [
        bound
        for op in graph.body.block.ops
        if isinstance(op, tb.InputOp | tb.OutputOp)
        for bound in op.bounds()
        if bound is not None
    ]


def _operators_of(phases: dict[Operation, Phase], phase: Phase) -> list[Operation]:
    return [op for op, its_phase in phases.items() if its_phase is phase]


def _run(interpreter: Interpreter, ops: Sequence[Operation]) -> dict[Operation, Addend]:
    """Runs operators in order; binds their results, and returns those that accumulate."""
    addends: dict[Operation, Addend] = {}
    for op in ops:
        values = interpreter.run_op(op, interpreter.get_values(op.operands))
        if values and isinstance(values[0], Addend):
            addends[op] = values[0]
        else:
            interpreter.set_values(zip(op.results, values, strict=True))
    return addends


def _run_box(
    graph: CustomizedOp,
    phases: dict[Operation, Phase],
    inputs: Sequence[Array],
    outputs: dict[Operation, Array],
    frame: Frame,
    module: ModuleOp,
) -> None:
    functions = ThreadblockFunctions(frame, outputs)
    interpreter = make_interpreter(module, functions)
    interpreter.set_values(zip(graph.body.block.args, inputs, strict=True))
    _run(interpreter, _operators_of(phases, Phase.BEFORE))
    totals: dict[Operation, Array] = {}
    finishes: dict[Operation, Callable[[Array], Array]] = {}
    loop = _operators_of(phases, Phase.LOOP)
    for iteration in iterations_of(graph, frame.iterations):
        frame.iteration = iteration
        if frame.iterations > 1:
            interpreter.push_scope("iteration")
        for op, addend in _run(interpreter, loop).items():
            value = addend.value
            if op in totals:
                # No later tile has more elements.
                value = padded(frame.arithmetic, value, totals[op].shape[GRID_AXES:])
            totals[op] = addend.combine(totals.get(op), value)
            finishes[op] = addend.finish
        if frame.iterations > 1:
            interpreter.pop_scope()
    for op, total in totals.items():
        result: Any = functions.round(op, finishes[op](total))
        interpreter.set_values([(op.results[0], result)])
    if frame.iterations > 1:
        # What is the same in every iteration may be used after the loop, too.
        invariant = loop_invariant_tiles(graph.body.block)
        _run(interpreter, [op for op in loop if op.results and invariant.issuperset(op.results)])
    _run(interpreter, _operators_of(phases, Phase.AFTER))


def run_threadblock_graph(
    graph: CustomizedOp, inputs: Sequence[Array], arithmetic: Arithmetic, module: ModuleOp
) -> tuple[Array, ...]:
    """The results of a ``kn.customized`` on tensors in device memory."""
    results = tuple(arithmetic.empty(output.type) for output in graph.outputs)
    stores = [op for op in graph.body.block.ops if isinstance(op, tb.OutputOp)]
    outputs: dict[Operation, Array] = dict(zip(stores, results, strict=True))
    phases = phases_of(graph.body.block, graph.forloop_range)
    whole = boxes(graph.grid_dim, lambda extents: _tile_bytes(graph, arithmetic, extents))
    alike = list(uniform_boxes(whole, _bounds(graph)))
    for lengths in lengths_in(graph, inputs, graph.grid_dim):
        for box in filter(None, map(lengths.part_of, alike)):
            frame = Frame(
                *(arithmetic, graph.grid_dim, graph.forloop_range, box), lengths=lengths.values
            )
            _run_box(graph, phases, inputs, outputs, frame, module)
    return results
