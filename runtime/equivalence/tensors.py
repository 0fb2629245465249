"""Tensors as the normal form of an element at any place, and what is computed of whole tensors."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from functools import partial

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.tensor_types import element_type_of, row_major_strides, shape_of
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.functions import (
    apply_function,
    number,
    opposite,
    positive,
    truth,
    where,
)
from mugraph.runtime.equivalence.indices import OF_ARGUMENTS, ZERO, Affine, Scope, Variable, affine
from mugraph.runtime.equivalence.pieces import joined
from mugraph.runtime.equivalence.ranges import in_each_range
from mugraph.runtime.equivalence.terms import PLACE, NormalForm, free_variables

_POLYNOMIALS = {"identity", "add", "sub", "mul", "square", "mul_scalar", "add_scalar"}
"""Functions of which sums of choices are sums of choices again."""
ROW = "row"
"""The function of a number, and of an element of any row, that is the element of that row."""
_MOST_PIECES = 32
"""Of a concatenation: as many terms its elements may be a sum of."""


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
    inverted: dict[SSAValue, SymbolicTensor] = field(default_factory=dict[SSAValue, SymbolicTensor])
    """For each table that says which row is at a place, the places of the rows."""

    @property
    def anywhere(self) -> frozenset[Variable]:
        """The digits of any place of a tensor: what is so for each of them may differ for all."""
        return frozenset(digit for whole in self.bound for digit in self.scope.digits(whole))

    def input(self, number: int, shape: Sequence[int]) -> SymbolicTensor:
        """An argument of the function."""
        indices = self.places(shape)
        return self.tensor(indices, nf.element(number, indices))

    def places(self, shape: Sequence[int]) -> list[Affine]:
        """A new place in a tensor of these extents."""
        return [self.scope.index(extent) for extent in shape]

    def places_of(self, shape: Sequence[int], tensors: Sequence[SymbolicTensor]) -> list[Affine]:
        """The place of the first of some tensors that has these extents, which is read as it is.

        It is a new place where no tensor has them with one variable for each.
        """
        for tensor in tensors:
            extents = [tuple(digit.extent for digit in digits) for digits in tensor.digits]
            if extents == [() if extent == 1 else (extent,) for extent in shape]:
                return [affine(digits[0]) if digits else ZERO for digits in tensor.digits]
        return self.places(shape)

    def at(
        self, tensor: SymbolicTensor, indices: Sequence[Affine], *, may_end: bool = False
    ) -> NormalForm:
        """The element at a place, which ``may_end`` behind the tensor if nobody asks what is there.

        It may split variables of the indices: apply :meth:`settled` to what was read before.
        Raises ``NoProofError`` where the place cannot be taken apart as the tensor is.
        """
        values: dict[Variable, Affine] = {}
        for index, digits in zip(indices, tensor.digits, strict=True):
            extents = [digit.extent for digit in digits]
            parts = self.scope.take_apart(index, extents, may_end=may_end)
            values |= zip(digits, parts, strict=True)
        moved = {digit: part for digit, part in values.items() if part != affine(digit)}
        return nf.substitute(tensor.body, moved)

    def digits_of(self, tensor: SymbolicTensor) -> list[list[Variable]]:
        """The digits of each dimension in the variables of a body that is settled."""
        return [[d for v in digits for d in self.scope.digits(v)] for digits in tensor.digits]

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
        return joined(nf.sum_over(self.settled(form), variables))

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
                    for index in body.indices
                ):
                    place += 1
                    continue
                both = self.scope.variable(outer.extent * inner.extent)
                body = nf.substitute(body, {outer: ZERO, inner: affine(both)})
                left[place : place + 2] = [both]
                place = max(place - 1, 0)
            merged.append(tuple(left))
        return SymbolicTensor(tuple(merged), body)

    def cut(
        self, digits: Sequence[Variable], extent: int, body: NormalForm
    ) -> tuple[Sequence[Variable], NormalForm]:
        """A dimension of fewer places than its digits count, the first ones of them."""
        if math.prod(digit.extent for digit in digits) <= extent:
            return digits, body
        whole = self.merged([digits], body)
        ((digit, *others),) = whole.digits
        if others:
            raise NoProofError("places of ragged tiles are no digits of one number")
        if extent == 1:
            return [], nf.substitute(whole.body, {digit: ZERO})
        shorter = self.scope.variable(extent)
        return [shorter], nf.substitute(whole.body, {digit: affine(shorter)})

    def elementwise(
        self, shape: Sequence[int], function: ScalarFunction, *operands: SymbolicTensor
    ) -> SymbolicTensor:
        """A scalar function of each element, with extents of 1 broadcast."""
        places = self.places_of(shape, operands)
        forms = self.read(*((operand, broadcast(operand, places)) for operand in operands))
        by = frozenset[Variable]().union(*(form.choosing for form in forms)) - self.anywhere
        cases = math.prod(variable.extent for variable in by)
        if function.name in _POLYNOMIALS:
            return self.tensor(places, apply_function(function, *forms))
        chosen = sorted(by) if cases <= _MOST_PIECES else []
        return self.tensor(places, _in_each_case(function, forms, chosen))

    def combined(
        self,
        shape: Sequence[int],
        function: Callable[..., NormalForm],
        *operands: SymbolicTensor,
    ) -> SymbolicTensor:
        """Any function of each element, with extents of 1 broadcast."""
        places = self.places_of(shape, operands)
        forms = self.read(*((operand, broadcast(operand, places)) for operand in operands))
        return self.tensor(places, in_each_range(function, *forms))

    def rounded(
        self, result: Attribute, operands: Sequence[SSAValue], value: SymbolicTensor
    ) -> SymbolicTensor:
        """What an operator stores in the type of its result: a function, if it rounds for good."""
        type_ = element_type_of(result)
        if not rounds_for_good(type_, [element_type_of(operand.type) for operand in operands]):
            return value
        if type_ == i1:
            return self.map(truth, value)
        return self.map(lambda form: nf.application(f"to {type_}", [form]), value)

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

    def masked(
        self,
        shape: Sequence[int],
        forms: Sequence[LinearForm],
        constant: float,
        operand: SymbolicTensor,
        starts: Sequence[Affine] = (),
        lengths: Sequence[Affine] = (),
    ) -> SymbolicTensor:
        """The operand where all forms of its coordinates are at least 0, else the constant.

        Coordinates count from ``starts`` on, or from 0; the last ones of the forms are ``lengths``.
        """
        places = self.places(shape)
        (kept,) = self.read((operand, places))
        starts = starts or [ZERO] * len(places)
        coordinates = [place + start for place, start in zip(places, starts, strict=True)]
        coordinates += lengths
        holds = nf.constant(1)
        for form in forms:
            index = Affine((), form.constant)
            for place, coefficient in zip(coordinates, form.coefficients, strict=True):
                index += place.scaled(coefficient)
            if index.limits()[0] < 0:
                holds = nf.multiply(holds, at_least_0(index))
        masked = partial(where, holds, y=number(constant))
        return self.tensor(places, in_each_range(masked, kept))

    def length(self, holder: SymbolicTensor, largest: int) -> Affine:
        """The number that a tensor holds, from 0 to ``largest``.

        Raises ``NoProofError`` where no argument of the function is that tensor.
        """
        number = nf.input_of(self.at(holder, [ZERO] * len(holder.digits)))
        if number is None:
            raise NoProofError("a length is computed, and no argument of the function")
        return affine(Variable(OF_ARGUMENTS, number, largest + 1))

    def part(
        self, shape: Sequence[int], start: Sequence[int], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """The box of these extents that starts at ``start``."""
        places = self.places(shape)
        read = [place + Affine((), at) for place, at in zip(places, start, strict=True)]
        (form,) = self.read((operand, read))
        return self.tensor(places, form)

    def concatenated(
        self,
        shape: Sequence[int],
        dim: int,
        extents: Sequence[int],
        operands: Sequence[SymbolicTensor],
    ) -> SymbolicTensor:
        """Tensors of these extents along a dimension, one after the other.

        The place along it is a number of equal pieces and a place in one; which operand an element
        is of is chosen by the piece, or by bounds of the place where there are many pieces.
        """
        step = math.gcd(*extents)
        count = shape[dim] // step
        places = self.places(shape)
        if count > _MOST_PIECES:
            return self._in_ranges(places, dim, extents, operands)
        piece, within = self.scope.take_apart(places[dim], [count, step])
        starts = list(itertools.accumulate(extents, initial=0))
        body = NormalForm()
        for place in range(count):
            part = bisect.bisect(starts, place * step) - 1
            read = list(places)
            read[dim] = within + Affine((), place * step - starts[part])
            form = self.at(operands[part], read)
            body = nf.add(body, nf.multiply(nf.choice(piece, place), form))
        return self.tensor(places, body)

    def _in_ranges(
        self,
        places: Sequence[Affine],
        dim: int,
        extents: Sequence[int],
        operands: Sequence[SymbolicTensor],
    ) -> SymbolicTensor:
        """Tensors one after the other, each in its range of places along a dimension."""
        body, first = NormalForm(), 0
        for extent, operand in zip(extents, operands, strict=True):
            read = list(places)
            read[dim] = own = self.scope.index(extent)
            form = self.settled(self.at(operand, read))
            part = self.merged([self.scope.digits_of_index(own)], form)
            (digits,) = part.digits
            if len(digits) > 1:
                raise NoProofError("a part of a concatenation is no range of one tensor")
            moved = places[dim] + Affine((), -first)
            form = nf.substitute(part.body, dict.fromkeys(digits, moved))
            is_here = nf.within(places[dim], first, first + extent)
            body = nf.add(body, nf.multiply(is_here, form))
            first += extent
        return self.tensor(places, body)

    def permuted(
        self, shape: Sequence[int], dims: Sequence[int | None], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """The operand with its dimensions in another order; ``None`` for one that it lacks."""
        places = self.places(shape)
        read = [ZERO] * len(operand.digits)
        for place, dim in zip(places, dims, strict=True):
            if dim is not None:
                read[dim] = place
        (form,) = self.read((operand, read))
        return self.tensor(places, form)

    def reshaped(
        self, shape: Sequence[int], own: Sequence[int], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """The operand's elements, in row-major order, under other extents than its own."""
        if tuple(shape) == tuple(own):
            return operand
        places = self.places(shape)
        flat = ZERO
        for place, stride in zip(places, row_major_strides(shape), strict=True):
            flat += place.scaled(stride)
        (form,) = self.read((operand, self.scope.take_apart(flat, own)))
        return self.tensor(places, form)

    def windows(self, shape: Sequence[int], operand: SymbolicTensor) -> SymbolicTensor:
        """Runs of neighbours along the first dimension, one at each place of it."""
        first, second, *inner = places = self.places(shape)
        (form,) = self.read((operand, [first + second, *inner]))
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
        arguments = [nf.element(PLACE, [place]) for place in places]
        arguments += [self._anywhere(*each) for each in zip(values, operands, strict=True)]
        return self.tensor(places, nf.application(function, arguments))

    def of_runs(
        self,
        shape: Sequence[int],
        function: str,
        dim: int,
        value: SSAValue,
        operand: SymbolicTensor,
    ) -> SymbolicTensor:
        """A tensor of which each element is a function of the run of elements along a dimension.

        Of runs the function gives as many elements as the tensor has along that dimension: it is a
        function of the place there, too.
        """
        places = self.places(shape)
        anywhere = [*places]
        anywhere[dim] = self.any_place(self.first_bound(operand), shape_of(value.type)[dim])
        arguments = [nf.element(PLACE, [places[dim]]), self.at(operand, anywhere)]
        return self.tensor(places, nf.application(function, arguments))

    def random(
        self, shape: Sequence[int], function: str, seed: SymbolicTensor, offset: SymbolicTensor
    ) -> SymbolicTensor:
        """A function of an element's place in row-major order, a seed and an offset."""
        places = self.places(shape)
        flat = ZERO
        for place, stride in zip(places, row_major_strides(shape), strict=True):
            flat += place.scaled(stride)
        reads = [(each, [ZERO] * len(each.digits)) for each in (seed, offset)]
        arguments = [nf.element(PLACE, [flat]), *self.read(*reads)]
        return self.tensor(places, nf.application(function, arguments))

    def _anywhere(self, value: SSAValue, operand: SymbolicTensor) -> NormalForm:
        """A whole tensor: its element at a place of which nobody else has the variables."""
        first = self.first_bound(operand)
        extents = shape_of(value.type)
        anywhere = [self.any_place(first - dim, extent) for dim, extent in enumerate(extents)]
        return self.at(operand, anywhere)

    def first_bound(self, operand: SymbolicTensor) -> int:
        """The number of a variable below all that stand for any place in an operand's elements.

        So a place in the whole operand is none of those that its elements are functions of, also
        where only digits are left of these.
        """
        return self._bound_below(operand.body)

    def _bound_below(self, body: NormalForm, apart: Set[Variable] = frozenset()) -> int:
        """As :meth:`first_bound`, of a form, whatever variables ``apart`` stand for."""
        free = free_variables(self.settled(body)) - apart
        known = (each for each in self.bound if not free.isdisjoint(self.scope.digits(each)))
        return min((each.number for each in known), default=0) - 1

    def any_place(self, number: int, extent: int) -> Affine:
        """Any place along a dimension of a whole tensor."""
        if extent == 1:
            return ZERO
        variable = Variable(0, number, extent)
        self.bound.add(variable)
        return affine(variable)

    def rows(
        self,
        shape: Sequence[int],
        row_rank: int,
        count: int,
        table: SymbolicTensor,
        numbers: SymbolicTensor,
    ) -> SymbolicTensor:
        """Rows of a table: a function of their numbers, and of the element there of any row.

        ``count``: how many rows the table has.  Rows of rows are those whose numbers are at the
        others' numbers: a row of (rows p of x) is a row of x, whose number is a row of p.
        """
        places = self.places(shape)
        rank = len(shape) - row_rank
        (number,) = self.read((numbers, places[:rank]))

        def of_any(bound: int) -> NormalForm:
            any_row = self.any_place(bound, count)
            return self.settled(self.at(table, [any_row, *places[rank:]]))

        bound = self.first_bound(table)
        element = of_any(bound)
        if (inner := nf.applied(element, ROW)) is not None:
            # As the row of the list of numbers alone, whatever rows they are of.
            row = {*self.scope.digits_of_index(self.any_place(bound, count))}
            again = nf.applied(of_any(self._bound_below(inner[0], row)), ROW)
            assert again is not None  # with another name of the place
            number, element = nf.application(ROW, [number, again[0]]), inner[1]
        return self.tensor(places, nf.application(ROW, [number, element]))

    def map(
        self, function: Callable[[NormalForm], NormalForm], operand: SymbolicTensor
    ) -> SymbolicTensor:
        """A function of each element, whatever other elements are."""
        return self.of_body(operand, in_each_range(function, self.settled(operand.body)))

    def of_body(self, operand: SymbolicTensor, body: NormalForm) -> SymbolicTensor:
        """The tensor whose element is ``body`` in the operand's variables."""
        return self.merged(self.digits_of(operand), self.settled(body))


def at_least_0(index: Affine) -> NormalForm:
    """1 where a place is at least 0, else 0; of both signs one is said by the other.

    Which one is, the first element of a tensor decides, however its dimensions are cut.
    """
    if index.constant < 0:
        return opposite(at_least_0(index.scaled(-1) + Affine((), -1)))
    return positive(nf.element(PLACE, [index + Affine((), 1)]))


def _in_each_case(
    function: ScalarFunction, forms: Sequence[NormalForm], by: Sequence[Variable]
) -> NormalForm:
    """A function of forms in which parts are chosen: what it is of each choice."""
    body = NormalForm()
    for values in itertools.product(*(range(variable.extent) for variable in by)):
        known = {v: Affine((), value) for v, value in zip(by, values, strict=True)}
        known_forms = [nf.substitute(form, known) for form in forms]
        case = in_each_range(partial(apply_function, function), *known_forms)
        for variable, value in zip(by, values, strict=True):
            case = nf.multiply(nf.choice(affine(variable), value), case)
        body = nf.add(body, case)
    return body


def broadcast(operand: SymbolicTensor, places: Sequence[Affine]) -> list[Affine]:
    """The place in an operand that goes with one in a tensor of larger extents."""
    return [place if digits else ZERO for place, digits in zip(places, operand.digits, strict=True)]
