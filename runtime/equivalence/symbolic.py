"""What the elements of a µGraph's results are, as normal forms in the elements of its inputs.

Symbolic execution of ``kn`` and ``tb``: a value is a normal form of one element, whose place is a
free variable for each digit of each dimension.  Grids, loops and tiles add variables; nothing
depends on how large extents are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import kn, tb
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.maps import block_coordinate_factors, mapped_axes
from mugraph.dialects.tensor_types import op_label, shape_of
from mugraph.passes.te_inline import inline_calls
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.indices import ZERO, Affine, Scope, Variable, affine
from mugraph.runtime.equivalence.normal_form import NormalForm
from mugraph.runtime.interpreter.constants import meant_by


def silu(x: NormalForm) -> NormalForm:
    """x / (1 + exp(-x))."""
    decay = nf.add(nf.constant(1), nf.exponential(nf.scale(x, -1)))
    return nf.multiply(x, nf.inverse(decay))


def _sigmoid(x: NormalForm) -> NormalForm:
    return nf.inverse(nf.add(nf.constant(1), nf.exponential(nf.scale(x, -1))))


def _unknown(function: str) -> Callable[..., NormalForm]:
    """A function of which only that it is one is known; its constants are part of its name."""

    def apply(*arguments: NormalForm | float) -> NormalForm:
        forms = [argument for argument in arguments if isinstance(argument, NormalForm)]
        constants = [str(argument) for argument in arguments if isinstance(argument, float)]
        return nf.application(" ".join([function, *constants]), forms)

    return apply


def _identity(x: NormalForm) -> NormalForm:
    return x


def _subtract(x: NormalForm, y: NormalForm) -> NormalForm:
    return nf.add(x, nf.scale(y, -1))


def _divide(x: NormalForm, y: NormalForm) -> NormalForm:
    return nf.multiply(x, nf.inverse(y))


def _square(x: NormalForm) -> NormalForm:
    return nf.multiply(x, x)


def _maximum(x: NormalForm, y: NormalForm) -> NormalForm:
    """The larger of both, in whatever order."""
    return nf.application("max", sorted((x, y), key=lambda form: form.key))


def _add_scalar(x: NormalForm, constant: float) -> NormalForm:
    return nf.add(x, nf.constant(meant_by(constant)))


def _mul_scalar(x: NormalForm, constant: float) -> NormalForm:
    return nf.scale(x, meant_by(constant))


SCALAR_FUNCTIONS: dict[str, Callable[..., NormalForm]] = {
    "identity": _identity,
    "exp": nf.exponential,
    "silu": silu,
    "gelu": _unknown("gelu"),
    "sigmoid": _sigmoid,
    "relu": _unknown("relu"),
    "log": _unknown("log"),
    "clamp": _unknown("clamp"),
    "pow": _unknown("pow"),
    "max": _maximum,
    "square": _square,
    "sqrt": nf.square_root,
    "mul_scalar": _mul_scalar,
    "add_scalar": _add_scalar,
    "add": nf.add,
    "sub": _subtract,
    "mul": nf.multiply,
    "div": _divide,
}
"""The normal form of each scalar function: operands, then constants."""


def apply_function(function: ScalarFunction, *operands: NormalForm) -> NormalForm:
    """The function of normal forms; raises ``NoProofError`` for one that the table lacks."""
    compute = SCALAR_FUNCTIONS.get(function.name)
    if compute is None:
        raise NoProofError(f"the function '{function}' has no normal form")
    return compute(*operands, *function.constants)


_PLACE = -1
"""The number of the tensor whose elements are their own places."""
_BOUND = -1
"""The number of the first variable that stands for any place of a whole tensor."""


@dataclass(frozen=True)
class SymbolicTensor:
    """A tensor as the normal form of its element at a place.

    ``digits`` holds, for each dimension, the free variables whose mixed-radix number is the place
    along it, outermost first; none where the extent is 1.
    """

    digits: tuple[tuple[Variable, ...], ...]
    body: NormalForm


@dataclass
class Symbolic:
    """Computes symbolic tensors; variables of all of them are of one scope."""

    scope: Scope = field(default_factory=Scope)
    bound: set[Variable] = field(default_factory=set[Variable])
    """The variables that stand for any place of a tensor that an unknown function takes."""

    def input(self, number: int, shape: Sequence[int]) -> SymbolicTensor:
        """An argument of the function."""
        indices = self.places(shape)
        return self.tensor(indices, nf.element(number, indices))

    def places(self, shape: Sequence[int]) -> list[Affine]:
        """A new place in a tensor of these extents."""
        return [self.scope.index(extent) for extent in shape]

    def at(self, tensor: SymbolicTensor, indices: Sequence[Affine]) -> NormalForm:
        """The element at a place.

        It may split variables of the indices: apply :meth:`settled` to what was read before.
        Raises ``NoProofError`` where the place cannot be taken apart as the tensor is.
        """
        values: dict[Variable, Affine] = {}
        for index, digits in zip(indices, tensor.digits, strict=True):
            parts = self.scope.take_apart(index, [digit.extent for digit in digits])
            values |= zip(digits, parts, strict=True)
        return nf.substitute(tensor.body, values)

    def settled(self, form: NormalForm) -> NormalForm:
        """The normal form with split variables written as their digits."""
        return nf.substitute(form, self.scope.values())

    def read(self, *reads: tuple[SymbolicTensor, Sequence[Affine]]) -> list[NormalForm]:
        """Elements of several tensors, in the same variables."""
        forms = [self.at(tensor, indices) for tensor, indices in reads]
        return [self.settled(form) for form in forms]

    def sum(self, form: NormalForm, indices: Sequence[Affine]) -> NormalForm:
        """The sum over the ranges of indices that :meth:`places` made."""
        variables = [v for index in indices for v in self.scope.digits_of_index(index)]
        return nf.sum_over(self.settled(form), variables)

    def tensor(self, indices: Sequence[Affine], body: NormalForm) -> SymbolicTensor:
        """The tensor whose element at a place that :meth:`places` made is ``body``."""
        digits = [self.scope.digits_of_index(index) for index in indices]
        return self.merged(digits, self.settled(body))

    def merged(self, digits: Sequence[Sequence[Variable]], body: NormalForm) -> SymbolicTensor:
        """The same tensor with fewer digits, where neighbours always occur side by side."""
        merged: list[tuple[Variable, ...]] = []
        for places in digits:
            left = list(places)
            place = 0
            while place + 1 < len(left):
                outer, inner = left[place : place + 2]
                if any(
                    index.coefficient(outer) != inner.extent * index.coefficient(inner)
                    for index in nf.indices_of(body)
                ):
                    place += 1
                    continue
                both = self.scope.variable(outer.extent * inner.extent)
                body = nf.substitute(body, {outer: ZERO, inner: affine(both)})
                left[place : place + 2] = [both]
                place = max(place - 1, 0)
            merged.append(tuple(left))
        return SymbolicTensor(tuple(merged), body)

    def elementwise(
        self, shape: Sequence[int], function: ScalarFunction, *operands: SymbolicTensor
    ) -> SymbolicTensor:
        """A scalar function of each element, with extents of 1 broadcast."""
        places = self.places(shape)
        forms = self.read(*((operand, _broadcast(operand, places)) for operand in operands))
        return self.tensor(places, apply_function(function, *forms))

    def matmul(
        self, shape: Sequence[int], depth: int, lhs: SymbolicTensor, rhs: SymbolicTensor
    ) -> SymbolicTensor:
        """The matrix product over the last two dimensions."""
        *batch, row, column = places = self.places(shape)
        inner = self.scope.index(depth)
        left, right = self.read((lhs, [*batch, row, inner]), (rhs, [*batch, inner, column]))
        return self.tensor(places, self.sum(nf.multiply(left, right), [inner]))

    def reduction(
        self, shape: Sequence[int], dim: int, groups: tb.Groups, operand: SymbolicTensor
    ) -> SymbolicTensor:
        """Sums of groups along one dimension; ``shape`` is the result's."""
        places = self.places(shape)
        inner = self.scope.index(groups.count)
        read = list(places)
        read[dim] = places[dim].scaled(groups.start_step) + inner.scaled(groups.step)
        (form,) = self.read((operand, read))
        return self.tensor(places, self.sum(form, [inner]))

    def part(
        self, shape: Sequence[int], start: Sequence[int], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """The box of these extents that starts at ``start``."""
        places = self.places(shape)
        read = [place + Affine((), at) for place, at in zip(places, start, strict=True)]
        (form,) = self.read((operand, read))
        return self.tensor(places, form)

    def permuted(
        self, shape: Sequence[int], dims: Sequence[int | None], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """The operand with its dimensions in another order; ``None`` for one of extent 1."""
        places = self.places(shape)
        read = [ZERO] * len(operand.digits)
        for place, dim in zip(places, dims, strict=True):
            if dim is not None:
                read[dim] = place
        (form,) = self.read((operand, read))
        return self.tensor(places, form)

    def unknown(
        self,
        shape: Sequence[int],
        function: str,
        values: Sequence[SSAValue],
        operands: Sequence[SymbolicTensor],
    ) -> SymbolicTensor:
        """A tensor of which each element is a function of its place and of whole tensors.

        Equal functions of equal tensors are equal, and nothing else is known of them.  A tensor
        stands there as its element at a place of which nobody else has the variables.
        """
        places = self.places(shape)
        arguments = [nf.element(_PLACE, [place]) for place in places]
        for value, operand in zip(values, operands, strict=True):
            extents = shape_of(value.type)
            anywhere = [Variable(0, _BOUND - dim, extent) for dim, extent in enumerate(extents)]
            self.bound |= set(anywhere)
            indices = [affine(one) if one.extent > 1 else ZERO for one in anywhere]
            arguments.append(self.at(operand, indices))
        return self.tensor(places, nf.application(function, arguments))

    def map(
        self, function: Callable[[NormalForm], NormalForm], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """A function of each element."""
        return self.merged(operand.digits, function(self.settled(operand.body)))


def _broadcast(operand: SymbolicTensor, places: Sequence[Affine]) -> list[Affine]:
    return [place if digits else ZERO for place, digits in zip(places, operand.digits, strict=True)]


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

    def run(self) -> list[SymbolicTensor]:
        """The results, in order."""
        for op in self.graph.body.block.ops:
            if isinstance(op, tb.OutputOp):
                self.outputs.append(self.output(op))
                continue
            if isinstance(op, tb.SplitOp):
                whole = self.values[op.input]
                for _, part, start in op.moves():
                    self.values[part] = self.symbolic.part(shape_of(part.type), start, whole)
                continue
            value = self.compute(op)
            epilogue = tb.epilogue_of(op)
            for function in epilogue.functions:
                value = self.symbolic.map(
                    lambda form, step=function: apply_function(step, form), value
                )
            if epilogue.accumulates:
                value = self.accumulated(value)
            self.values[op.results[0]] = value
        return self.outputs

    def compute(self, op: Operation) -> SymbolicTensor:
        """An operator's result, before its epilogue."""
        if isinstance(op, tb.InputOp):
            return self.input(op)
        operands = [self.values[operand] for operand in op.operands]
        shape = shape_of(op.results[0].type)
        symbolic = self.symbolic
        match op:
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
            case tb.ForloopAccumSumToDimxOp():
                sums = self.accumulated(operands[0])
                return symbolic.reduction(shape, len(shape) - 1, op.groups(), sums)
            case tb.CustomOp() if len(op.outputs) == 1:
                return symbolic.unknown(shape, _identity_of(op), op.inputs, operands)
            case _:
                raise NoProofError(f"{op_label(op)} has no normal form")

    def input(self, op: tb.InputOp) -> SymbolicTensor:
        """The tile of the block and the iteration."""
        _require_whole_tiles(op)
        shape = shape_of(op.dtensor.type)
        tile = shape_of(op.result.type)
        places = self.symbolic.places(tile)
        factors = block_coordinate_factors(shape, op.map_, self.graph.grid_dim)
        indices = list(places)
        for dim, extent in enumerate(tile):
            for block, factor in zip(self.block, factors, strict=True):
                indices[dim] += block.scaled(factor[dim])
            if dim == op.loop_dim:
                indices[dim] += self.iteration.scaled(extent)
        (form,) = self.symbolic.read((self.values[op.dtensor], indices))
        return self.symbolic.tensor(places, form)

    def output(self, op: tb.OutputOp) -> SymbolicTensor:
        """The tensor that the blocks' tiles make."""
        scope = self.symbolic.scope
        _require_whole_tiles(op)
        tile = self.values[op.stensor]
        digits: list[list[Variable]] = []
        for dim, places in enumerate(tile.digits):
            axes = mapped_axes(op.map_, self.graph.grid_dim, dim)
            blocks = [digit for axis in axes for digit in scope.digits_of_index(self.block[axis])]
            if dim == op.loop_dim:
                blocks += scope.digits_of_index(self.iteration)
            digits.append([*blocks, *places])
        # The block's variables are the kernel's; the tensor's are its own.
        own = {v: scope.variable(v.extent) for places in digits for v in places}
        body = nf.substitute(
            self.symbolic.settled(tile.body), {v: affine(name) for v, name in own.items()}
        )
        bound = {digit for one in self.symbolic.bound for digit in scope.digits(one)}
        if nf.free_variables(body) - set(own.values()) - bound:
            raise NoProofError(
                f"{op_label(op)} stores a value that is not the same in all blocks or iterations"
            )
        return self.symbolic.merged([[own[v] for v in places] for places in digits], body)

    def accumulated(self, value: SymbolicTensor) -> SymbolicTensor:
        """The sum over the iterations."""
        return self.symbolic.map(lambda form: self.symbolic.sum(form, [self.iteration]), value)

    def forloop_accum(self, op: tb.ForloopAccumOp, operand: SymbolicTensor) -> SymbolicTensor:
        """The sum, the sum or mean over the last dimension, or its root mean square."""
        count = shape_of(op.input.type)[-1] * self.graph.forloop_range
        match op.kind.data:
            case tb.AccumulatorKind.NONE:
                return self.accumulated(operand)
            case tb.AccumulatorKind.SUM:
                return self._sum_last(op, self.accumulated(operand))
            case tb.AccumulatorKind.MEAN:
                total = self._sum_last(op, self.accumulated(operand))
                return self.symbolic.map(lambda form: nf.scale(form, Fraction(1, count)), total)
            case tb.AccumulatorKind.MAX:
                raise NoProofError(f"{op_label(op)} is a maximum over iterations")
            case tb.AccumulatorKind.RMS:
                squares = self.accumulated(self.symbolic.map(_square, operand))
                return self._root_mean(self._sum_last(op, squares), count)

    def rms_norm(
        self, op: tb.RmsNormOp, operand: SymbolicTensor, weight: SymbolicTensor | None = None
    ) -> SymbolicTensor:
        """x / sqrt(mean of x² over the last dimension + epsilon), times the weight."""
        shape = shape_of(op.input.type)
        squares = self._sum_last(op, self.symbolic.map(_square, operand))
        norm = self._root_mean(squares, shape[-1], op.epsilon_value)
        normal = self.symbolic.elementwise(shape, ScalarFunction("div"), operand, norm)
        if weight is None:
            return normal
        return self.symbolic.elementwise(shape, ScalarFunction("mul"), normal, weight)

    def _sum_last(
        self, op: tb.ForloopAccumOp | tb.RmsNormOp, operand: SymbolicTensor
    ) -> SymbolicTensor:
        shape = shape_of(op.input.type)
        last = len(shape) - 1
        groups = tb.Groups(shape[last], 1, 0)
        return self.symbolic.reduction((*shape[:last], 1), last, groups, operand)

    def _root_mean(self, total: SymbolicTensor, count: int, epsilon: float = 0.0) -> SymbolicTensor:
        added = nf.constant(meant_by(epsilon))
        return self.symbolic.map(
            lambda form: nf.square_root(nf.add(nf.scale(form, Fraction(1, count)), added)), total
        )


def kernel_rms_norm(
    symbolic: Symbolic,
    op: kn.RmsNormOp,
    operand: SymbolicTensor,
    weight: SymbolicTensor | None = None,
) -> SymbolicTensor:
    """x / sqrt(mean of x² + epsilon), times a weight, over the last dimensions."""
    shape = shape_of(op.input.type)
    kept = len(shape) - len(op.normalized)
    total = symbolic.map(_square, operand)
    for dim in range(kept, len(shape)):
        summed = (*shape[:kept], *[1] * (dim + 1 - kept), *shape[dim + 1 :])
        total = symbolic.reduction(summed, dim, tb.Groups(shape[dim], 1, 0), total)
    epsilon = nf.constant(meant_by(op.epsilon_value))
    norm = symbolic.map(
        lambda form: nf.square_root(nf.add(nf.scale(form, Fraction(1, op.group_size)), epsilon)),
        total,
    )
    result = symbolic.elementwise(shape, ScalarFunction("div"), operand, norm)
    if weight is None:
        return result
    factors = SymbolicTensor(((),) * kept + weight.digits, weight.body)
    return symbolic.elementwise(shape, ScalarFunction("mul"), result, factors)


def _identity_of(op: tb.CustomOp) -> str:
    """What a custom operator computes, as text: that of its function, whatever it is called."""
    try:
        function = op.function().clone()
        inline_calls(function, op.function())
    except VerifyException as error:
        raise NoProofError(str(error)) from error
    function.properties["sym_name"] = StringAttr("operator")
    return str(function)


def _require_whole_tiles(op: tb.InputOp | tb.OutputOp) -> None:
    """Raises ``NoProofError`` where tiles differ in how many elements they have."""
    if any(op.bounds()):
        raise NoProofError(f"{op_label(op)} has ragged tiles, which have no normal form")


def results_of(function: FuncOp, symbolic: Symbolic) -> list[SymbolicTensor]:
    """The results of a function; raises ``NoProofError`` at an operator without a normal form."""
    values: dict[SSAValue, SymbolicTensor] = {
        argument: symbolic.input(number, shape_of(argument.type))
        for number, argument in enumerate(function.args)
    }
    for op in function.body.block.ops:
        operands = [values[operand] for operand in op.operands]
        match op:
            case ReturnOp():
                return operands
            case kn.CustomizedOp():
                results = ThreadblockExecution(symbolic, op, operands).run()
            case kn.ElementwiseOp():
                shape = shape_of(op.result.type)
                results = [symbolic.elementwise(shape, op.function, *operands)]
            case kn.MatmulOp():
                depth = shape_of(op.lhs.type)[-1]
                results = [symbolic.matmul(shape_of(op.result.type), depth, *operands)]
            case kn.ReductionOp():
                shape = shape_of(op.result.type)
                results = [symbolic.reduction(shape, op.reduced_dim, op.groups(), *operands)]
            case kn.RmsNormOp():
                results = [kernel_rms_norm(symbolic, op, *operands)]
            case kn.CopyOp():
                results = operands
            case kn.ViewOp():
                dims = op.permuted_dims()
                if dims is None:
                    raise NoProofError(f"{op_label(op)} regroups dimensions; it has no normal form")
                results = [symbolic.permuted(shape_of(op.result.type), dims, *operands)]
            case kn.PartsOp():
                results = [
                    symbolic.part(shape_of(part.type), start, *operands)
                    for _, part, start in op.moves()
                ]
            case _:
                raise NoProofError(f"{op_label(op)} has no normal form")
        values |= zip(op.results, results, strict=True)
    raise NoProofError("the function has no func.return")
