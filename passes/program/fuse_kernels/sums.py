"""What sums, maxima and matrix products make of forms: how a loop adds them up."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import kn, tb
from mugraph.dialects.element_types import rounds_for_good
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.reductions import Combiner
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of
from mugraph.passes.mugraph.mask_ragged import before_functions
from mugraph.passes.program.fuse_kernels.algebra import (
    apply_function,
    in_the_loop,
    require_no_powers,
    settled,
    times,
)
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.forms import (
    Form,
    Slices,
    Term,
    Total,
    Whole,
    combined,
    nothing,
)
from mugraph.passes.program.fuse_kernels.indices import GroupIndices
from mugraph.passes.program.fuse_kernels.writer import Maximum, TileWriter


@dataclass
class KernelBody:
    """A kernel that is being written: its indices, the one that its loop walks, and its body."""

    indices: GroupIndices
    looped: int | None
    writer: TileWriter
    maps_of: Callable[[SSAValue], tuple[tuple[int, ...], int]]
    """The dimension of a tensor that each axis of the grid cuts, and that which the loop does."""

    def axis_of(self, op: kn.MaskOp, dim: int) -> int:
        """The axis of the grid whose blocks have one place each along a dimension of a mask.

        -1 for no dimension, or one of one element.
        """
        if dim < 0 or shape_of(op.result.type)[dim] == 1:
            return -1
        map_, _ = self.maps_of(op.result)
        if dim not in map_ or self.indices.of_value[op.result][dim] not in self.indices.batched:
            raise NotFusedError(
                f"{op_label(op)} has one length for each index along dimension {dim}, and a block "
                "would have several of these"
            )
        return map_.index(dim)

    def walks(self, value: SSAValue, dim: int) -> bool:
        """Whether the loop walks along a dimension of a tensor."""
        return self.looped is not None and self.indices.of_value[value][dim] == self.looped


@singledispatch
def form_of(op: Operation, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    """The form of an operator's result; operators that may share a kernel register a function.

    Raises :class:`NotFusedError` where the loop cannot compute it.
    """
    raise NotFusedError(f"{op_label(op)} has no rule for sharing a kernel")


def can_share(op: Operation) -> bool:
    """Whether an operator may share a kernel with others at all; tiles compute no integers."""
    if isinstance(op, kn.ElementwiseOp) and not isinstance(op, kn.CastOp) and op.computes_integers:
        return False
    if isinstance(op, kn.CopyOp) and op.place is None:
        return False  # it is asked for: what reads it takes other addresses
    return form_of.dispatch(type(op)) is not form_of.dispatch(object)


def _rounds(op: kn.KernelOp) -> bool:
    """Whether an operator rounds its result as a part of what a program means."""
    operands = [element_type_of(value.type) for value in op.operands]
    return rounds_for_good(element_type_of(op.result.type), operands)


@form_of.register
def _(op: kn.ElementwiseOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    function = ScalarFunction(op.FUNCTION, op.function.constants)
    type_ = element_type_of(op.result.type)
    return apply_function(kernel.writer, function, type_, forms, rounds=_rounds(op))


@form_of.register
def _(op: kn.CopyOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    """The same tile, which is stored once more."""
    (form,) = forms
    return form


@form_of.register
def _(op: kn.MaskOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    """Of a sum of terms each one, where the constant is 0."""
    form, *_ = forms
    writer = kernel.writer
    shape, (map_, loop_dim) = shape_of(op.result.type), kernel.maps_of(op.result)
    numbers = [
        writer.length(length, largest, length.name_hint, kernel.axis_of(op, dim))
        for length, largest, dim in zip(op.lengths, op.largest, op.dims_of_lengths, strict=True)
    ]

    def masked(tile: SSAValue) -> SSAValue:
        first, functions = before_functions(
            writer.cast(tile, element_type_of(op.result.type)), op.constant
        )
        mask = tb.MaskOp.at_places(first, op.constant, op.condition, shape, map_, loop_dim, numbers)
        tile = writer.first(mask)
        for function in functions:
            tile = writer.first(function.clone({function.operands[0]: tile}))
        return tile

    if isinstance(form, Slices) and op.constant == 0 and not form.plus:
        if any(term.tile is None for term in form.terms):
            raise NotFusedError(f"{op_label(op)} masks a value that exists only after the loop")
        return Slices(
            tuple(replace(term, tile=masked(term.tile)) for term in form.terms if term.tile)
        )
    if isinstance(form, Slices) or loop_dim >= 0:
        return Slices((Term(masked(in_the_loop(form, f"what {op_label(op)} masks"))),))
    tile = masked(settled(writer, form))
    return Whole(tile) if isinstance(form, Whole) else Total(tile)


@form_of.register
def _(op: kn.BroadcastOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    for dim, number in enumerate(kernel.indices.of_value[op.result]):
        is_new = shape_of(op.input.type)[dim] != shape_of(op.result.type)[dim]
        if is_new and number not in kernel.indices.batched:
            raise NotFusedError(
                f"{op_label(op)} repeats elements along a dimension other than the batch of a "
                "product"
            )
    # Of these a block has one each, or the product does not fit.
    return forms[0]


Move = Callable[[Sequence[SSAValue]], SSAValue]


def _moved(writer: TileWriter, op: Operation, move: Move, forms: Sequence[Form]) -> Form:
    """What moves elements of tiles as they are; ``move`` writes it."""
    if any(isinstance(form, Slices) for form in forms):
        tile = move([in_the_loop(form, f"what {op_label(op)} moves") for form in forms])
        return Slices((Term(tile),))
    tile = move([settled(writer, form) for form in forms])
    return Whole(tile) if all(isinstance(form, Whole) for form in forms) else Total(tile)


@form_of.register
def _(op: kn.SliceOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    ((_, _, start),) = op.moves()
    own, wanted = shape_of(op.input.type), shape_of(op.result.type)

    def cut(tiles: Sequence[SSAValue]) -> SSAValue:
        (tile,) = tiles
        for dim, first in enumerate(start):
            if own[dim] != wanted[dim]:
                tile = kernel.writer.part(tile, dim, first, wanted[dim])
        return tile

    return _moved(kernel.writer, op, cut, forms)


@form_of.register
def _(op: kn.ConcatOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    def join(tiles: Sequence[SSAValue]) -> SSAValue:
        return kernel.writer.join(tiles, op.joined_dim, element_type_of(op.result.type))

    return _moved(kernel.writer, op, join, forms)


@form_of.register
def _(op: kn.MatmulOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    if op.compute is not None:
        raise NotFusedError(f"{op_label(op)} has compute f16, which only cuBLAS does")
    type_ = element_type_of(op.result.type)
    if not _rounds(op):
        return _product(op, kernel, forms, type_)
    sums = _product(op, kernel, forms, f32)
    return apply_function(
        kernel.writer, ScalarFunction(kn.CastOp.FUNCTION), type_, [sums], rounds=True
    )


def _product(op: kn.MatmulOp, kernel: KernelBody, forms: Sequence[Form], type_: Attribute) -> Form:
    """The sums of a product, in an element type."""
    writer = kernel.writer
    types = element_type_of(op.lhs.type), element_type_of(op.rhs.type)
    precision = None if op.precision is None else op.precision.data
    rank = len(shape_of(op.lhs.type))

    def product(left: SSAValue, right: SSAValue) -> SSAValue:
        left, right = map(writer.cast, (left, right), types)
        return writer.product(left, right, type_, precision)

    left, right = forms
    if kernel.walks(op.lhs, rank - 1):
        return _summed_product(writer, product, left, right, type_)
    if isinstance(left, Slices) or isinstance(right, Slices):
        return _sliced_product(writer, product, left, right)
    tile = product(settled(writer, left), settled(writer, right))
    is_whole = isinstance(left, Whole) and isinstance(right, Whole)
    return Whole(tile) if is_whole else Total(tile)


Product = Callable[[SSAValue, SSAValue], SSAValue]


def _slices(form: Form) -> Slices:
    match form:
        case Whole(tile):
            return Slices((Term(tile),))
        case Slices(_, plus) if not plus:
            return form
        case _:
            raise NotFusedError("a matrix product takes a maximum that exists only after the loop")


def _require_slices(tiles: Sequence[SSAValue | None], dim: int) -> None:
    """Raises :class:`NotFusedError` where a tile stands for all elements of a slice.

    It would be added up once an iteration, and not once an element.
    """
    extents = {shape_of(tile.type)[dim] for tile in tiles if tile is not None}
    if len(extents) > 1:
        raise NotFusedError(
            "a summand is the same in all iterations, so a sum over the loop would count it "
            "once a tile"
        )


def _late_factors(
    writer: TileWriter, left: Term, right: Term
) -> tuple[SSAValue | None, SSAValue | None]:
    return times(writer, left.times, right.times), times(writer, left.over, right.over)


def _summed_product(
    writer: TileWriter, product: Product, left: Form, right: Form, type_: Attribute
) -> Total:
    """A product over the loop's index: each pair of terms is added up, its late factors after."""
    total: Total | None = None
    require_no_powers(_slices(left).terms, _slices(right).terms)
    pairs = list(itertools.product(_slices(left).terms, _slices(right).terms))
    _require_slices([one.tile for one, _ in pairs], -1)
    _require_slices([other.tile for _, other in pairs], -2)
    for one, other in pairs:
        if one.tile is not None and other.tile is not None:
            tile = writer.accumulate(product(one.tile, other.tile))
        elif other.tile is not None:
            tile = writer.total(other.tile, len(shape_of(other.tile.type)) - 2, type_)
        elif one.tile is not None:
            tile = writer.total(one.tile, len(shape_of(one.tile.type)) - 1, type_)
        else:
            raise NotFusedError(
                "a matrix product sums over the loop, and neither operand has tiles there"
            )
        total = _with(writer, total, tile, one, other, type_)
    assert total is not None
    return total


def _with(
    writer: TileWriter,
    total: Total | None,
    tile: SSAValue,
    one: Term,
    other: Term,
    type_: Attribute,
) -> Total:
    """A sum so far, and one more sum over the loop with its late factors."""
    factor, divisor = _late_factors(writer, one, other)
    if factor is not None:
        tile = writer.apply("mul", tile, factor, type_=type_)
    if divisor is not None:
        tile = writer.apply("div", tile, divisor, type_=type_)
    power = combined(one.power, other.power)
    if total is None:
        return Total(tile, power)
    if total.power != power or total.tile is None:
        raise NotFusedError(
            "exponentials would be added from which different maxima are subtracted"
        )
    return Total(writer.apply("add", total.tile, tile, type_=type_), power)


def _sliced_product(writer: TileWriter, product: Product, left: Form, right: Form) -> Slices:
    """A product within an iteration, over an index of which tiles have all."""
    terms: list[Term] = []
    for one, other in itertools.product(_slices(left).terms, _slices(right).terms):
        if one.tile is None or other.tile is None:
            raise NotFusedError(
                "an operand of a matrix product in the loop exists only after the loop"
            )
        for term, dim in ((one, -1), (other, -2)):
            for late in (term.times, term.over):
                if late is not None and shape_of(late.type)[dim] > 1:
                    raise NotFusedError(
                        "a matrix product in the loop sums over a dimension along which a "
                        "factor from after the loop differs"
                    )
        factors = _late_factors(writer, one, other)
        tile = product(one.tile, other.tile)
        terms.append(Term(tile, *factors, combined(one.power, other.power)))
    return Slices(tuple(terms))


@form_of.register
def _(op: kn.ReductionOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    dim, writer, type_ = op.reduced_dim, kernel.writer, element_type_of(op.result.type)
    if shape_of(op.result.type)[dim] != 1:
        raise NotFusedError(f"{op_label(op)} reduces to more than one element a row")
    if _rounds(op):
        raise NotFusedError(f"{op_label(op)} rounds its result, so no loop may add it up in parts")
    (form,) = forms
    looped = kernel.walks(op.input, dim)
    if op.combination is Combiner.MAX:
        return _largest(writer, form, dim, looped=looped)
    match form:
        case Whole(tile):
            return Whole(writer.reduce(tile, dim, type_))
        case Total():
            return Total(writer.reduce(settled(writer, form), dim, type_))
        case Slices() if looped:
            return _summed(writer, form, dim, shape_of(op.input.type)[dim], type_)
        case Slices():
            tile = in_the_loop(form, "a sum")
            return Slices((Term(writer.reduce(tile, dim, type_)),))


@form_of.register
def _(op: kn.ScanOp, kernel: KernelBody, forms: Sequence[Form]) -> Form:
    """The loop takes one element of a recurrence after the other, and carries the last one."""
    if not kernel.walks(op.input, op.reduced_dim):
        raise NotFusedError(f"the loop does not go along the dimension that {op_label(op)} scans")
    if _rounds(op):
        raise NotFusedError(f"{op_label(op)} rounds its result, so no loop may add it up in parts")
    writer = kernel.writer
    added, *decays = [in_the_loop(form, f"what {op_label(op)} adds up") for form in forms]
    before = writer.first(tb.CarriedOp(tb.STensorType(shape_of(added.type), f32)))
    kept = writer.apply("mul", before, *decays) if decays else before
    after = writer.apply("add", kept, added)
    last = writer.first(tb.CarryOp(after, before))
    before.name_hint, after.name_hint, last.name_hint = "state", op.result.name_hint, "last"
    tile = before if op.is_exclusive else after
    return Slices((Term(writer.cast(tile, element_type_of(op.result.type))),))


def _summed(writer: TileWriter, form: Slices, dim: int, extent: int, type_: Attribute) -> Total:
    """The sum along the loop's index, term by term."""
    if form.plus:
        raise NotFusedError("a sum over the loop has a maximum over the loop as a summand")
    _require_slices([term.tile for term in form.terms], dim)
    total: Total | None = None
    for term in form.terms:
        if term.tile is not None:
            total = _with(
                writer, total, writer.total(term.tile, dim, type_), term, Term(None), type_
            )
            continue
        assert term.times is not None
        counted = writer.apply("mul_scalar", term.times, constants=[float(extent)], type_=type_)
        total = _with(
            writer, total, counted, Term(None, None, term.over, term.power), Term(None), type_
        )
    assert total is not None
    return total


def _largest(writer: TileWriter, form: Form, dim: int, *, looped: bool) -> Form:
    """A maximum: of the loop's tiles it is a number that may cancel later."""
    if looped:
        plus = form.plus if isinstance(form, Slices) else nothing()
        terms = replace(form, plus=nothing()) if isinstance(form, Slices) else form
        number = writer.number_of(Maximum(in_the_loop(terms, "a maximum"), dim))
        return Total(None, plus=combined({number: Fraction(1)}, plus))
    match form:
        case Whole(tile):
            return Whole(writer.largest(tile, dim))
        case Total():
            return Total(writer.largest(settled(writer, form), dim))
        case Slices():  # it would become the largest of all iterations
            raise NotFusedError("the loop does not go along the dimension of a maximum")
