"""What the elements of a custom kernel's results are: symbolic execution of ``tb``.

Grids, loops and tiles add variables to those of the program around the kernel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.interfaces import HasRaggedTiles
from mugraph.dialects.maps import Bound, mapped_axes
from mugraph.dialects.ragged import Bounds
from mugraph.dialects.tb.graph_bounds import bounds_of_graph
from mugraph.dialects.tb.ragged import moving_dims
from mugraph.dialects.tensor_types import (
    element_type_of,
    op_label,
    shape_of,
    value_label,
)
from mugraph.passes.mugraph.expand_custom import operators_of
from mugraph.passes.texpr.te_inline import inline_calls
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.closed_forms import execute_in_closed_form
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.functions import (
    apply_function,
    candidates,
    fall,
    fallen,
    largest,
    largest_so_far,
    require_settled,
    root,
    square,
)
from mugraph.runtime.equivalence.indices import ZERO, Affine, Variable, affine
from mugraph.runtime.equivalence.quotients import inverse
from mugraph.runtime.equivalence.ranges import in_each_range
from mugraph.runtime.equivalence.recurrences import carries_state, execute_by_iterations
from mugraph.runtime.equivalence.symbolic_views import concatenated, seen_through
from mugraph.runtime.equivalence.tensors import Symbolic, SymbolicTensor
from mugraph.runtime.equivalence.terms import NormalForm, free_variables
from mugraph.runtime.interpreter.constants import meant_by


def require_one_length(op: Operation, places: Sequence[int]) -> None:
    """Raises ``NoProofError`` where one of an operator's lengths is a number for each place."""
    if max(places, default=-1) >= 0:
        raise NoProofError(f"{op_label(op)} has a length for each place, which has no normal form")


@dataclass
class ThreadblockExecution:
    """Symbolic execution of one ``kn.customized``."""

    symbolic: Symbolic
    graph: kn.CustomizedOp
    arguments: Sequence[SymbolicTensor]

    def __post_init__(self) -> None:
        scope = self.symbolic.scope
        self.block = [scope.index(extent) for extent in self.graph.grid_dim]
        self.iteration = scope.index(self.graph.forloop_range)
        self.values: dict[SSAValue, SymbolicTensor] = dict(
            zip(self.graph.body.block.args, self.arguments, strict=True)
        )
        self.outputs: list[SymbolicTensor] = []
        self.bounds = bounds_of_graph(self.graph.body.block)

    @cached_property
    def lengths(self) -> list[Affine]:
        """The kernel's lengths, where something that is computed depends on them."""
        require_one_length(self.graph, [held.axis for held in self.graph.held_lengths])
        return [
            self.symbolic.length(self.arguments[held.argument], held.largest)
            for held in self.graph.held_lengths
        ]

    def run(self) -> list[SymbolicTensor]:
        """The results, in order."""
        if carries_state(self.graph):
            if not execute_in_closed_form(self):
                execute_by_iterations(self)
            return self.outputs
        for op in self.graph.body.block.ops:
            self.execute(op)
        return self.outputs

    def execute(self, op: Operation) -> None:
        """Finds the values of an operator's results, or what it stores."""
        if isinstance(op, tb.OutputOp):
            self.outputs.append(self.output(op))
            return
        if isinstance(op, tb.SplitOp):
            whole = self.values[op.input]
            for _, part, start in op.moves():
                self.values[part] = self.symbolic.part(shape_of(part.type), start, whole)
            return
        if isinstance(op, tb.ReductionMaxOp):
            self.running_maximum(op)
            return
        if isinstance(op, tb.CustomOp) and (parts := operators_of(op)):
            for part in parts:
                # Elements are at the places of the result's.
                self.bounds |= dict.fromkeys(part.results, self.bounds[op.outputs[0]])
                self.execute(part)
            self.values[op.outputs[0]] = self.values[parts[-1].results[0]]
            return
        value = self.compute(op)
        epilogue = tb.epilogue_of(op)
        for function in epilogue.functions:
            value = self.symbolic.map(lambda form, step=function: apply_function(step, form), value)
        if epilogue.accumulates:
            value = self.accumulated(self.existing(value, self._moving_bounds(op)))
        if not isinstance(op, tb.InputOp):
            value = self.symbolic.rounded(op.results[0].type, op.operands, value)
        self.values[op.results[0]] = value

    def compute(self, op: Operation) -> SymbolicTensor:
        """An operator's result, before its epilogue."""
        if isinstance(op, tb.InputOp):
            return self.input(op)
        operands = [self.operand(op, place) for place in range(len(op.operands))]
        shape = shape_of(op.results[0].type)
        symbolic = self.symbolic
        match op:
            case tb.MaskOp() if op.condition is not None:
                (kept,) = operands
                given = self.starts(op), self.lengths
                return symbolic.masked(shape, op.forms(), op.constant, kept, *given)
            case tb.ElementwiseOp():
                return symbolic.elementwise(shape, op.function, *operands)
            case tb.MatmulOp():
                return symbolic.matmul(shape, shape_of(op.lhs.type)[-1], *operands)
            case tb.ConcatThenMatmulOp():
                sums = [
                    symbolic.matmul(
                        shape, shape_of(lhs.type)[-1], self.values[lhs], self.values[rhs]
                    )
                    for lhs, rhs in op.products()
                ]
                return symbolic.elementwise(shape, ScalarFunction("add"), *sums)
            case tb.AnyReductionOp():
                return symbolic.reduction(shape, op.reduced_dim, op.groups(), *operands)
            case tb.RmsNormOp():
                return self.rms_norm(op, *operands)
            case tb.ForloopAccumOp():
                return self.forloop_accum(op, operands[0])
            case tb.ForloopAccumRescaleOp():
                return self.rescaled(op, *operands)
            case tb.ForloopAccumSumToDimxOp():
                sums = self.accumulated(operands[0])
                return symbolic.reduction(shape, len(shape) - 1, op.groups(), sums)
            case tb.ConcatOp():
                return concatenated(op, symbolic, operands)
            case tb.CustomOp() if len(op.outputs) == 1:
                return symbolic.unknown(shape, identity_of(op), op.inputs, operands)
            case _:
                raise NoProofError(f"{op_label(op)} has no normal form")

    def input(self, op: tb.InputOp) -> SymbolicTensor:
        """The tile of the block and the iteration."""
        tile = shape_of(op.result.type)
        places = self.symbolic.places(tile)
        starts = zip(places, self.starts(op), strict=True)
        indices = [place + start for place, start in starts]
        tensor = self.values[op.dtensor]
        if op.windows is not None:
            tensor = seen_through(op.windows, self.symbolic, op.dtensor, tensor)
        if op.through is not None:
            numbers, shape = self.values[op.through], op.tensor_shape
            rank, count = len(shape) - len(op.numbers_shape), shape_of(op.dtensor.type)[0]
            tensor = self.symbolic.rows(shape, rank, count, tensor, numbers)
        form = self.symbolic.at(tensor, indices, may_end=any(op.bounds()))
        loaded = self.symbolic.tensor(places, form)
        if not op.ends:
            return loaded
        given = self.starts(op), self.lengths
        return self.symbolic.masked(tile, op.end_forms(), 0.0, loaded, *given)

    def starts(self, op: tb.InputOp | tb.MaskOp) -> list[Affine]:
        """Where the tile of the block and the iteration begins, along each dimension."""
        slicing = op.slicing()
        factors = slicing.block_factors()
        starts: list[Affine] = []
        for dim in range(len(slicing.shape)):
            start = ZERO
            for block, factor in zip(self.block, factors, strict=True):
                start += block.scaled(factor[dim])
            if dim == op.loop_dim:
                start += self.iteration.scaled(slicing.iteration_step())
            starts.append(start)
        return starts

    def operand(self, op: Operation, place: int) -> SymbolicTensor:
        """An operand as the operator combines it: a number for no element where none exists."""
        value = op.operands[place]
        # What operators within a custom one read exists where its operands do.
        if not isinstance(op, HasRaggedTiles) or not any(self.bounds.get(value, ())):
            return self.values[value]
        return self.existing(self.values[value], self._combined(op, place))

    def _combined(self, op: HasRaggedTiles, place: int) -> Bounds:
        """Which elements of an operand exist, along the dimensions that the operator sums over.

        Maxima take candidates: they say themselves which elements exist.
        """
        bounds = self.bounds[op.operands[place]]
        identities = op.identities(place, bounds)
        return tuple(
            bound if identities.get(dim) == 0 else None for dim, bound in enumerate(bounds)
        )

    def _candidates(self, op: tb.ReductionMaxOp | tb.ForloopAccumOp) -> SymbolicTensor:
        """The elements of the operand that exist, as what a maximum is taken of."""
        bounds = self.bounds[op.input]
        combined = op.identities(0, bounds)
        tile = self.symbolic.map(candidates, self.values[op.input])
        return self.existing(
            tile, tuple(bound if dim in combined else None for dim, bound in enumerate(bounds))
        )

    def _moving_bounds(self, op: Operation) -> Bounds:
        """Which elements of what an epilogue accumulates exist in an iteration but not in all."""
        operands = [self.bounds[value] for value in op.operands]
        if not any(bound for bounds in operands for bound in bounds):
            return ()
        assert isinstance(op, HasRaggedTiles)
        bounds = op.result_bounds(operands)
        moving = moving_dims(bounds)
        return tuple(bound if dim in moving else None for dim, bound in enumerate(bounds))

    def existing(self, tile: SymbolicTensor, bounds: Bounds) -> SymbolicTensor:
        """A tile times 1 where elements exist and 0 where they do not."""
        if not any(bounds):
            return tile
        places = self.symbolic.places(_extents(tile))
        (form,) = self.symbolic.read((tile, places))
        for place, bound in zip(places, bounds, strict=True):
            if bound is not None:
                form = nf.multiply(self._exists(place, bound), form)
        return self.symbolic.tensor(places, form)

    def _exists(self, place: Affine, bound: Bound) -> NormalForm:
        """1 where an element exists: below the end of the block's elements, and of the tensor's."""
        number = ZERO
        for index, count in zip(self.block, bound.blocks, strict=True):
            if count > 1:
                number = number.scaled(count) + index
        if not bound.moves:
            return nf.below(number.scaled(bound.step) + place, bound.extent)
        if bound.stride is not None:
            moved = number.scaled(bound.step) + self.iteration.scaled(bound.stride)
            return nf.below(moved + place, bound.extent)
        own = place + self.iteration.scaled(bound.tile)
        return nf.multiply(
            nf.below(own, bound.step), nf.below(number.scaled(bound.step) + own, bound.extent)
        )

    def output(self, op: tb.OutputOp) -> SymbolicTensor:
        """The tensor that the blocks' tiles make."""
        scope = self.symbolic.scope
        tile = self.values[op.stensor]
        if element_type_of(op.stensor.type) != element_type_of(op.dtensor_type):
            tile = self.symbolic.rounded(op.dtensor_type, [op.stensor], tile)
        digits: list[list[Variable]] = []
        for dim, places in enumerate(self.symbolic.digits_of(tile)):
            axes = mapped_axes(op.map_, self.graph.grid_dim, dim)
            blocks = [digit for axis in axes for digit in scope.digits_of_index(self.block[axis])]
            if dim == op.loop_dim:
                blocks += scope.digits_of_index(self.iteration)
            digits.append([*blocks, *places])
        # The block's variables are the kernel's; the tensor's are its own.
        own = {v: scope.variable(v.extent) for places in digits for v in places}
        body = nf.substitute(
            require_settled(self.symbolic.settled(tile.body)),
            {v: affine(name) for v, name in own.items()},
        )
        stored: list[Sequence[Variable]] = [[own[v] for v in places] for places in digits]
        for dim, bound in enumerate(op.bounds()):
            if bound is not None:
                stored[dim], body = self._stored(op, dim, bound, stored[dim], body)
        anywhere = {digit for one in self.symbolic.bound for digit in scope.digits(one)}
        if free_variables(body) - {*itertools.chain.from_iterable(stored)} - anywhere:
            raise NoProofError(
                f"{op_label(op)} stores a value that is not the same in all blocks or iterations"
            )
        made = self.symbolic.merged(stored, body)
        return made if op.through is None else self._put(op, op.through, made)

    def _put(self, op: tb.OutputOp, through: SSAValue, made: SymbolicTensor) -> SymbolicTensor:
        """The result that rows are put into: where places were inverted, what is at these."""
        symbolic, shape = self.symbolic, shape_of(op.dtensor_type)
        assert isinstance(through, BlockArgument)  # verified
        operand = self.graph.inputs[through.index]
        places, inversion = symbolic.inverted.get(operand), operand.owner
        if places is None or not isinstance(inversion, kn.InvertPlacesOp):
            raise NoProofError(
                f"{op_label(op)} stores rows through {value_label(operand)}, which is no result of "
                "'kn.invert_places'"
            )
        (named,) = shape_of(inversion.places.type)
        if named < shape[0]:
            raise NoProofError(
                f"{op_label(op)} stores {shape[0]} rows through {value_label(operand)}, which "
                f"names {named} of them; nothing is stored to the others"
            )
        count = math.prod(op.numbers_shape)
        rows = symbolic.reshaped((count, *shape[1:]), op.tensor_shape, made)
        return symbolic.rows(shape, len(shape) - 1, count, rows, places)

    def _stored(
        self,
        op: tb.OutputOp,
        dim: int,
        bound: Bound,
        digits: Sequence[Variable],
        body: NormalForm,
    ) -> tuple[Sequence[Variable], NormalForm]:
        """The places along a dimension that ragged tiles store, and the element there."""
        axes = mapped_axes(op.map_, self.graph.grid_dim, dim)
        blocks = sum(len(self.symbolic.scope.digits_of_index(self.block[axis])) for axis in axes)
        own, body = self.symbolic.cut(digits[blocks:], bound.step, body)
        return self.symbolic.cut([*digits[:blocks], *own], bound.extent, body)

    def running_maximum(self, op: tb.ReductionMaxOp) -> None:
        """The largest so far along a dimension; where tiles do not move it is the largest."""
        shape, dim = shape_of(op.maximum.type), op.reduced_dim
        groups = tb.Groups(shape_of(op.input.type)[dim], 1, 0)
        if moving_dims(self.bounds[op.maximum]):
            raise NoProofError(f"{op_label(op)} has other rows in other iterations")
        numbers = self.symbolic.reduction(shape, dim, groups, self._candidates(op))
        moves = free_variables(self.symbolic.settled(numbers.body)) & {
            *self.symbolic.scope.digits_of_index(self.iteration)
        }
        if moves:
            # Of all iterations: what they choose by their number stays within.
            body = self.symbolic.settled(numbers.body)
            self.values[op.maximum] = self.symbolic.of_body(numbers, largest_so_far(body))
            self.values[op.difference] = self.symbolic.of_body(numbers, fall(body))
            return
        self.values[op.maximum] = self.symbolic.map(largest, numbers)
        self.values[op.difference] = self.symbolic.of_body(numbers, nf.constant(0))

    def rescaled(
        self, op: tb.ForloopAccumRescaleOp, operand: SymbolicTensor, rescale: SymbolicTensor
    ) -> SymbolicTensor:
        """The sum of what was computed below a running maximum: as below the last one."""
        shape = shape_of(op.input.type)

        def below_the_last(summand: NormalForm, factor: NormalForm) -> NormalForm:
            if factor == nf.constant(1):
                return summand
            numbers = fallen(factor)
            if numbers is None:
                raise NoProofError(f"{op_label(op)} rescales by something else than maxima")
            of_all = self.symbolic.sum(numbers, [self.iteration])
            last = in_each_range(largest, of_all)
            rise = nf.add(largest_so_far(numbers), nf.scale(last, -1))
            return nf.multiply(summand, in_each_range(nf.exponential, rise))

        total = self.accumulated(self.symbolic.combined(shape, below_the_last, operand, rescale))
        return self._sum_last(op, total) if op.kind.data is tb.RescaledKind.SUM else total

    def accumulated(self, value: SymbolicTensor) -> SymbolicTensor:
        """The sum over the iterations."""
        body = require_settled(self.symbolic.sum(value.body, [self.iteration]))
        return self.symbolic.of_body(value, body)

    def forloop_accum(self, op: tb.ForloopAccumOp, operand: SymbolicTensor) -> SymbolicTensor:
        """The sum or maximum, the sum or mean over the last dimension, or its root mean square."""
        match op.kind.data:
            case tb.AccumulatorKind.NONE:
                return self.accumulated(operand)
            case tb.AccumulatorKind.SUM:
                return self._sum_last(op, self.accumulated(operand))
            case tb.AccumulatorKind.MEAN:
                total = self._sum_last(op, self.accumulated(operand))
                return self._mean(total, self._sum_last(op, self.accumulated(self._ones(op))))
            case tb.AccumulatorKind.MAX:
                numbers = self.accumulated(self._candidates(op))
                return self.symbolic.map(largest, numbers)
            case tb.AccumulatorKind.RMS:
                squares = self.accumulated(self.symbolic.map(square, operand))
                count = self._sum_last(op, self.accumulated(self._ones(op)))
                return self._root_mean(self._sum_last(op, squares), count)

    def rms_norm(
        self, op: tb.RmsNormOp, operand: SymbolicTensor, weight: SymbolicTensor | None = None
    ) -> SymbolicTensor:
        """x / sqrt(mean of x² over the last dimension + epsilon), times the weight."""
        shape = shape_of(op.input.type)
        squares = self._sum_last(op, self.symbolic.map(square, operand))
        count = self._sum_last(op, self._ones(op))
        norm = self._root_mean(squares, count, op.epsilon_value)
        normal = self.symbolic.elementwise(shape, ScalarFunction("div"), operand, norm)
        if weight is None:
            return normal
        return self.symbolic.elementwise(shape, ScalarFunction("mul"), normal, weight)

    def _sum_last(
        self, op: tb.AccumulatorOp | tb.RmsNormOp, operand: SymbolicTensor
    ) -> SymbolicTensor:
        shape = shape_of(op.input.type)
        last = len(shape) - 1
        groups = tb.Groups(shape[last], 1, 0)
        return self.symbolic.reduction((*shape[:last], 1), last, groups, operand)

    def _ones(self, op: tb.AccumulatorOp | tb.RmsNormOp) -> SymbolicTensor:
        """1 for each element of the operand that exists."""
        places = self.symbolic.places(shape_of(op.input.type))
        ones = self.symbolic.tensor(places, nf.constant(1))
        return self.existing(ones, self._combined(op, 0))

    def _mean(self, total: SymbolicTensor, count: SymbolicTensor) -> SymbolicTensor:
        """A sum divided by how many elements it is of."""

        def quotient(form: NormalForm, number: NormalForm) -> NormalForm:
            return nf.multiply(form, inverse(number))

        return self.symbolic.combined(_extents(total), quotient, total, count)

    def _root_mean(
        self, total: SymbolicTensor, count: SymbolicTensor, epsilon: float = 0.0
    ) -> SymbolicTensor:
        added = nf.constant(meant_by(epsilon))
        return self.symbolic.map(lambda form: root(nf.add(form, added)), self._mean(total, count))


def _extents(tensor: SymbolicTensor) -> list[int]:
    return [math.prod(digit.extent for digit in digits) for digits in tensor.digits]


def identity_of(op: tb.CustomOp) -> str:
    """What a custom operator computes, as text: that of its function, whatever it is called."""
    try:
        function = op.function().clone()
        inline_calls(function, op.function())
    except VerifyException as error:
        raise NoProofError(str(error)) from error
    function.properties["sym_name"] = StringAttr("operator")
    return str(function)
