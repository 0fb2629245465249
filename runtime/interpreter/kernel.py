"""Execution of kernel-level operators: ``kn``, and launches of ``sched`` kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    ReturnedValues,
    TerminatorValue,
    impl,
    impl_callable,
    impl_terminator,
    register_impls,
)
from xdsl.ir import Operation, Region, SSAValue

from mugraph.dialects import kn, sched
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter.address_launches import AddressLauncher
from mugraph.runtime.interpreter.arithmetic import Arithmetic, Array
from mugraph.runtime.interpreter.dispatch import implements, runs
from mugraph.runtime.interpreter.functions import (
    apply_function,
    arg_max_groups,
    largest,
    matmul,
    max_groups,
    part_of,
    put_rows,
    rms_norm,
    scan,
    see_windows,
    sum_groups,
    take_rows,
)
from mugraph.runtime.interpreter.groups import group_tiles, invert_places, sort_groups
from mugraph.runtime.interpreter.lengths import numbers_in
from mugraph.runtime.interpreter.random_numbers import random_numbers
from mugraph.runtime.interpreter.schedule import run_kernel
from mugraph.runtime.interpreter.threadblock import run_threadblock_graph


@register_impls
@implements("run_elementwise", (*kn.ELEMENTWISE_OPERATORS, kn.CastOp))
@implements("run_composite", [op for op in kn.COMPOSITE_OPERATORS if not op.HAS_KERNEL])
class KernelFunctions(InterpreterFunctions):
    """One implementation an operator; values are tensors in device memory, of logical extents.

    Of functions, too: xDSL has those, but to import one dialect's implementations is to import all
    of them with their dialects.
    """

    def __init__(self, arithmetic: Arithmetic, launcher: AddressLauncher | None = None):
        self.arithmetic = arithmetic
        self.launcher = launcher

    @impl_callable(FuncOp)
    def run_function(
        self, interpreter: Interpreter, op: FuncOp, args: PythonValues
    ) -> PythonValues:
        """The results of a function; one without a body is refused."""
        if op.is_declaration:
            return interpreter.call_external(op.sym_name.data, op, args)
        return interpreter.run_ssacfg_region(op.body, args, op.sym_name.data)

    @impl(CallOp)
    def run_call(self, interpreter: Interpreter, op: CallOp, args: PythonValues) -> PythonValues:
        """The results of the function of that name."""
        return interpreter.call_op(op.callee, args)

    @impl_terminator(ReturnOp)
    def run_return(
        self, interpreter: Interpreter, op: ReturnOp, args: PythonValues
    ) -> tuple[TerminatorValue, PythonValues]:
        """Ends a function, whose results the operands are."""
        return ReturnedValues(args), ()

    def _loaded(self, args: PythonValues) -> list[Array]:
        return [self.arithmetic.load(arg) for arg in args]

    def _stored(self, op: kn.KernelOp, value: Array) -> tuple[Array]:
        return (self.arithmetic.store(value, op.result.type),)

    def _stored_all(self, op: Operation, values: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(
            self.arithmetic.store(value, result.type)
            for value, result in zip(values, op.results, strict=True)
        )

    @runs(kn.MatmulOp)
    def run_matmul(self, op: kn.MatmulOp, args: PythonValues) -> PythonValues:
        """The batched matrix product, summed in the computing type whatever ``compute`` says."""
        lhs, rhs = self._loaded(args)
        if op.multiplies_in_tf32(op.lhs):
            lhs, rhs = (self.arithmetic.multiplicand(value) for value in (lhs, rhs))
        return self._stored(op, matmul(lhs, rhs))

    def run_elementwise(
        self, interpreter: Interpreter, op: kn.ElementwiseOp, args: PythonValues
    ) -> PythonValues:
        """The operator's scalar function of each element."""
        return self._stored(op, apply_function(op.function, *self._loaded(args)))

    @runs(kn.MaskOp)
    def run_mask(self, op: kn.MaskOp, args: PythonValues) -> PythonValues:
        """The elements inside, and the constant in place of the others."""
        (value,) = self._loaded(args[:1])
        largest = zip(args[1:], op.largest, strict=True)
        inside = op.inside([numbers_in(op, held, most) for held, most in largest])
        result = self.arithmetic.full(inside.shape, op.constant)
        result[inside] = value[inside]
        return self._stored(op, result)

    @runs(kn.GatherOp)
    def run_gather(self, op: kn.GatherOp, args: PythonValues) -> PythonValues:
        """Rows of the table; a number that names none is refused."""
        return self._stored(op, take_rows(*self._loaded(args)))

    @runs(kn.ScatterOp)
    def run_scatter(self, op: kn.ScatterOp, args: PythonValues) -> PythonValues:
        """The table with new rows; a number that names none is refused."""
        values, table, rows = self._loaded(args)
        return self._stored(op, put_rows(values, table, rows, op.row_dim))

    @runs(kn.GroupTilesOp)
    def run_group_tiles(self, op: kn.GroupTilesOp, args: PythonValues) -> PythonValues:
        """Which group and rows tiles have, and where rows are; wrong ends are refused."""
        (ends,) = self._loaded(args)
        tables = group_tiles(ends, shape_of(op.places.type)[0], op.rows_of_a_tile)
        return self._stored_all(op, tables)

    @runs(kn.SortGroupsOp)
    def run_sort_groups(self, op: kn.SortGroupsOp, args: PythonValues) -> PythonValues:
        """The order of rows by their groups; a number that names no group is refused."""
        (groups,) = self._loaded(args)
        return self._stored_all(op, sort_groups(groups, shape_of(op.ends.type)[0]))

    @runs(kn.InvertPlacesOp)
    def run_invert_places(self, op: kn.InvertPlacesOp, args: PythonValues) -> PythonValues:
        """The row at each place; places that two rows have, or that are none, are refused."""
        (places,) = self._loaded(args)
        return self._stored_all(op, invert_places(places, shape_of(op.rows.type)))

    @runs(kn.ExtentOp)
    def run_extent(self, op: kn.ExtentOp, args: PythonValues) -> PythonValues:
        """What the call says, as a tensor."""
        return self._stored_all(op, self._loaded((args[0].reshape(1),)))

    @runs(kn.RandomOp)
    def run_random(self, op: kn.RandomOp, args: PythonValues) -> PythonValues:
        """Random numbers of a seed and an offset."""
        shape = shape_of(op.result.type)
        numbers = random_numbers(op.distribution.data, shape, *self._loaded(args))
        return self._stored(op, numbers)

    @runs(kn.ReductionOp)
    def run_reduction(self, op: kn.ReductionOp, args: PythonValues) -> PythonValues:
        """Sums, or maxima, of runs of neighbours along a dimension."""
        (value,) = self._loaded(args)
        results = shape_of(op.result.type)[op.reduced_dim]
        combine = sum_groups if op.combination is Combiner.SUM else max_groups
        return self._stored(op, combine(value, op.reduced_dim, op.groups(), results))

    @runs(kn.ArgMaxOp)
    def run_arg_max(self, op: kn.ArgMaxOp, args: PythonValues) -> PythonValues:
        """Places of largest elements in runs of neighbours along a dimension."""
        (value,) = self._loaded(args)
        results = shape_of(op.result.type)[op.reduced_dim]
        return self._stored(op, arg_max_groups(value, op.reduced_dim, op.groups(), results))

    @runs(kn.TopKOp)
    def run_top_k(self, op: kn.TopKOp, args: PythonValues) -> PythonValues:
        """The largest elements along a dimension, and their places."""
        (value,) = self._loaded(args)
        return self._stored_all(op, largest(value, op.reduced_dim, op.count))

    @runs(kn.ScanOp)
    def run_scan(self, op: kn.ScanOp, args: PythonValues) -> PythonValues:
        """Sums up to each element along a dimension, or a recurrence, one element after another."""
        value, *decay = self._loaded(args)
        sums = scan(value, op.reduced_dim, *decay)
        if op.is_exclusive:
            before, along = self.arithmetic.full(sums.shape, 0.0), (slice(None),) * op.reduced_dim
            before[(*along, slice(1, None))] = sums[(*along, slice(-1))]
            sums = before
        return self._stored(op, sums)

    @runs(kn.RmsNormOp)
    def run_rms_norm(self, op: kn.RmsNormOp, args: PythonValues) -> PythonValues:
        """The norm over the last dimensions, times the weight."""
        value, *weight = self._loaded(args)
        factors = weight[0] if weight else None
        result = rms_norm(value, len(op.normalized), factors, op.epsilon_value)
        return self._stored(op, result)

    def run_composite(
        self, interpreter: Interpreter, op: kn.CompositeOp, args: PythonValues
    ) -> PythonValues:
        """What it is made of, one after the other; who watches sees the operator itself."""
        parts = Interpreter(interpreter.module)
        parts.register_implementations(self)
        (result,) = parts.run_ssacfg_region(Region(op.expanded()), args, op.name)
        return (result,)

    def run_moves(
        self, interpreter: Interpreter, op: kn.MovesElements, args: PythonValues
    ) -> PythonValues:
        """Moves elements as they are."""
        values: dict[SSAValue, Array] = dict(zip(op.operands, args, strict=True))
        values |= {result: self.arithmetic.empty(result.type) for result in op.results}
        for source, destination, start in op.moves():
            smaller = min(source, destination, key=lambda value: math.prod(shape_of(value.type)))
            shape = shape_of(smaller.type)
            sides = [
                value if shape_of(side.type) == shape else part_of(value, start, shape)
                for side in (source, destination)
                for value in [values[side]]
            ]
            sides[1][...] = sides[0]
        return tuple(values[result] for result in op.results)

    run_copy = impl(kn.CopyOp)(run_moves)
    run_slice = impl(kn.SliceOp)(run_moves)
    run_concat = impl(kn.ConcatOp)(run_moves)
    run_split = impl(kn.SplitOp)(run_moves)
    run_chunk = impl(kn.ChunkOp)(run_moves)

    @runs(kn.WindowsOp)
    def run_windows(self, op: kn.WindowsOp, args: PythonValues) -> PythonValues:
        """The operand's elements, and zeros outside of it."""
        return (see_windows(args[0], op.windows),)

    @runs(kn.ViewOp)
    def run_view(self, op: kn.ViewOp, args: PythonValues) -> PythonValues:
        """The operand's elements where the result's layout finds them."""
        (value,) = args
        return (value.reshape(math.prod(shape_of(op.input.type)))[op.source_indices()],)

    @impl(kn.CustomizedOp)
    def run_customized(
        self, interpreter: Interpreter, op: kn.CustomizedOp, args: PythonValues
    ) -> PythonValues:
        """The threadblock graph in every block."""
        if self.launcher is not None:
            self.launcher.refuse(op)
        return run_threadblock_graph(op, args, self.arithmetic, interpreter.module)

    @impl(sched.LaunchOp)
    def run_launch(
        self, interpreter: Interpreter, op: sched.LaunchOp, args: PythonValues
    ) -> PythonValues:
        """The kernel's schedule in every block, at the level that was asked for."""
        if self.launcher is not None:
            return self.launcher.launch(op, args, self.arithmetic, interpreter.module)
        return run_kernel(op, args, self.arithmetic, interpreter.module)
