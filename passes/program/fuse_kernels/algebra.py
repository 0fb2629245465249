"""What element-wise functions make of forms: how numbers that exist after a loop leave it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

from xdsl.ir import Attribute, SSAValue

from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.tensor_types import element_type_of
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.forms import (
    Degrees,
    Form,
    Slices,
    Term,
    Total,
    Whole,
    combined,
    scaled,
)
from mugraph.passes.program.fuse_kernels.writer import TileWriter

MOST_TERMS = 4
"""Terms of one value; each is a product, or a sum, of its own."""

Rule = Callable[[TileWriter, Attribute, Sequence[float], Sequence[Form]], Form]
"""A function's form, of its result's element type, its constants and its operands."""


def settled(writer: TileWriter, form: Form) -> SSAValue:
    """A value that exists after the loop, as a tile.

    Raises :class:`NotFusedError` where a power of e is left without its maximum: it would overflow.
    """
    if isinstance(form, Whole):
        return form.tile
    if isinstance(form, Slices):
        raise NotFusedError(
            "an operator would combine a sum, which exists only after the loop, with tiles of one "
            "iteration"
        )
    if form.power:
        raise NotFusedError("an exponential would lose the maximum that keeps it from overflow")
    tile = form.tile
    for number, degree in form.plus.items():
        part = writer.maximum(number)
        if degree != 1:
            part = writer.apply("mul_scalar", part, constants=[float(degree)])
        tile = part if tile is None else writer.apply("add", tile, part)
    if tile is None:
        raise NotFusedError("two maxima cancel, and the kernel cannot store the 0 that remains")
    return tile


def in_the_loop(form: Form, what: str) -> SSAValue:
    """A value as a tile of the loop; raises :class:`NotFusedError` where it is not one."""
    match form:
        case Whole(tile):
            return tile
        case Slices((Term(tile) as term,), plus) if tile is not None and term.is_plain and not plus:
            return tile
        case _:
            raise NotFusedError(
                f"{what} takes a value that exists only after the loop, and is not linear in it"
            )


def _terms(form: Form, what: str) -> tuple[Term, ...]:
    """A value as a sum of terms; no maxima are added to it."""
    match form:
        case Whole(tile):
            return (Term(tile),)
        case Total(tile, power, plus) if tile is not None and not plus:
            return (Term(None, tile, None, power),)
        case Slices(terms, plus) if not plus:
            return terms
        case _:
            raise NotFusedError(f"{what} takes a maximum over the loop, and is not linear in it")


def times(writer: TileWriter, one: SSAValue | None, other: SSAValue | None) -> SSAValue | None:
    """The product of two tiles; ``None`` is 1."""
    if one is None or other is None:
        return other if one is None else one
    return writer.apply("mul", one, other)


def _multiplied(writer: TileWriter, one: Term, other: Term, type_: Attribute) -> Term:
    tiles = [tile for tile in (one.tile, other.tile) if tile is not None]
    return Term(
        writer.apply("mul", *tiles, type_=type_) if len(tiles) == 2 else next(iter(tiles), None),
        times(writer, one.times, other.times),
        times(writer, one.over, other.over),
        combined(one.power, other.power),
    )


def _inverted(writer: TileWriter, term: Term) -> Term:
    tile = None
    if term.tile is not None:
        type_ = element_type_of(term.tile.type)
        tile = writer.apply("reciprocal", term.tile, type_=type_)
    return Term(tile, term.over, term.times, scaled(term.power, Fraction(-1)))


def _of_terms(terms: Sequence[Term], plus: Degrees | None = None) -> Slices:
    if len(terms) > MOST_TERMS:
        raise NotFusedError(f"a value would be a sum of more than {MOST_TERMS} terms")
    return Slices(tuple(terms), plus or {})


def require_no_powers(one: Sequence[Term], other: Sequence[Term]) -> None:
    """Raises :class:`NotFusedError` where a product of two sums would become sums of powers.

    Both have a summand that is known only after the loop, as (x - mean) (x - mean) has.
    """
    if all(_is_centred(terms) for terms in (one, other)):
        raise NotFusedError(
            "two sums are multiplied that both have a summand from after the loop; multiplied out, "
            "their powers would cancel, with large rounding errors"
        )


def _is_centred(terms: Sequence[Term]) -> bool:
    tiles = [term.tile is not None for term in terms]
    return any(tiles) and not all(tiles)


def _late_product(
    writer: TileWriter, function: str, type_: Attribute, forms: Sequence[Form]
) -> Form:
    """A product, or a quotient, after the loop; powers of e stay beside it."""
    left, right = map(_total, forms)
    if left.plus or right.plus or left.tile is None or right.tile is None:
        return _nonlinear(writer, function, type_, (), forms)
    tile = writer.apply(function, left.tile, right.tile, type_=type_)
    return Total(tile, combined(left.power, right.power, -1 if function == "div" else 1))


def _mul(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    if _is_late(forms):
        return _late_product(writer, "mul", type_, forms)
    one, other = (_terms(form, "a product") for form in forms)
    require_no_powers(one, other)
    pairs = itertools.product(one, other)
    return _of_terms([_multiplied(writer, *pair, type_) for pair in pairs])


def _div(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    if _is_late(forms):
        return _late_product(writer, "div", type_, forms)
    one, other = forms
    divisors = _terms(other, "a quotient")
    if len(divisors) != 1:
        raise NotFusedError(
            "the divisor is a sum of terms, and a quotient is not linear in its divisor"
        )
    (divisor,) = divisors
    dividends = _terms(one, "a quotient")
    if divisor.is_plain and divisor.tile is not None:
        by = divisor.tile
        return _of_terms(
            [
                Term(_quotient(writer, term.tile, by, type_), term.times, term.over, term.power)
                for term in dividends
            ]
        )
    inverted = _inverted(writer, divisor)
    return _of_terms([_multiplied(writer, term, inverted, type_) for term in dividends])


def _quotient(
    writer: TileWriter, tile: SSAValue | None, by: SSAValue, type_: Attribute
) -> SSAValue:
    if tile is None:
        return writer.apply("reciprocal", by, type_=type_)
    return writer.apply("div", tile, by, type_=type_)


def _sum(function: str) -> Rule:
    sign = -1 if function == "sub" else 1

    def rule(
        writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
    ) -> Form:
        one, other = forms
        if _is_late(forms):
            return _late_sum(writer, function, type_, _total(one), _total(other))
        left, right = (_summands(form) for form in forms)
        plus = combined(left.plus, right.plus, sign)
        terms = list(left.terms)
        for term in right.terms:
            place = next((i for i, own in enumerate(terms) if _may_join(own, term)), None)
            if place is None:
                terms.append(term if sign > 0 else _negated(writer, term))
                continue
            own = terms[place]
            assert own.tile is not None and term.tile is not None
            joined = writer.apply(function, own.tile, term.tile, type_=type_)
            terms[place] = Term(joined, own.times, own.over, own.power)
        return _of_terms(terms, plus)

    return rule


def _may_join(one: Term, other: Term) -> bool:
    return one.tile is not None and other.tile is not None and one.late == other.late


def _summands(form: Form) -> Slices:
    match form:
        case Whole(tile):
            return Slices((Term(tile),))
        case Total(tile, power, plus):
            return Slices(() if tile is None else (Term(None, tile, None, power),), plus)
        case Slices():
            return form


def _negated(writer: TileWriter, term: Term) -> Term:
    if term.times is not None:
        negated = writer.apply("mul_scalar", term.times, constants=[-1.0])
        return Term(term.tile, negated, term.over, term.power)
    assert term.tile is not None
    type_ = element_type_of(term.tile.type)
    tile = writer.apply("mul_scalar", term.tile, constants=[-1.0], type_=type_)
    return Term(tile, None, term.over, term.power)


def _late_sum(
    writer: TileWriter, function: str, type_: Attribute, one: Total, other: Total
) -> Form:
    sign = -1 if function == "sub" else 1
    if one.power != other.power and one.tile is not None and other.tile is not None:
        raise NotFusedError(
            "exponentials would be added from which different maxima are subtracted"
        )
    plus = combined(one.plus, other.plus, sign)
    power = other.power if one.tile is None else one.power
    if one.tile is None or other.tile is None:
        tile = one.tile
        if other.tile is not None:
            tile = other.tile
            if sign < 0:
                tile = writer.apply("mul_scalar", tile, constants=[-1.0], type_=type_)
    else:
        tile = writer.apply(function, one.tile, other.tile, type_=type_)
    if tile is None and not plus:
        raise NotFusedError("two maxima cancel, and the kernel cannot store the 0 that remains")
    if plus and power:
        raise NotFusedError("an exponential would lose the maximum that keeps it from overflow")
    return Total(tile, power, plus)


def _max(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    """A maximum over all iterations and another value is one that begins with that value.

    What both have as summands leaves it: max(a + c, b + c) = max(a, b) + c.
    """
    if not _is_late(forms):
        return _nonlinear(writer, "max", type_, constants, forms)
    one, other = map(_total, forms)
    if one.tile is not None:
        one, other = other, one
    rises = combined(one.plus, other.plus, -1)
    if one.tile is not None or other.tile is None or other.power or [*rises.values()] != [1]:
        return _nonlinear(writer, "max", type_, constants, forms)
    (number,) = rises
    largest = writer.maxima[number]
    joined = largest._replace(others=(*largest.others, other.tile))
    return Total(None, plus=combined({writer.number_of(joined): Fraction(1)}, other.plus))


def _exp(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    (form,) = forms
    match form:
        case Slices((term,), plus) if term.is_plain and term.tile is not None:
            return Slices((Term(writer.apply("exp", term.tile, type_=type_), power=plus),))
        case Total(tile, power, plus) if tile is not None and not power:
            return Total(writer.apply("exp", tile, type_=type_), plus)
        case _:
            return _nonlinear(writer, "exp", type_, constants, forms)


def _log(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    (form,) = forms
    if isinstance(form, Total) and form.tile is not None and not form.plus:
        return Total(writer.apply("log", form.tile, type_=type_), plus=form.power)
    return _nonlinear(writer, "log", type_, constants, forms)


def _mul_scalar(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    (form,), (factor,) = forms, constants

    def scale(tile: SSAValue) -> SSAValue:
        return writer.apply("mul_scalar", tile, constants=constants, type_=type_)

    match form:
        case Whole(tile):
            return Whole(scale(tile))
        case Total(tile, power, plus):
            own = None if tile is None else scale(tile)
            return Total(own, power, scaled(plus, Fraction(factor)))
        case Slices(terms, plus):
            return Slices(
                tuple(_scaled_term(term, scale) for term in terms), scaled(plus, Fraction(factor))
            )


def _scaled_term(term: Term, scale: Callable[[SSAValue], SSAValue]) -> Term:
    if term.tile is not None:
        return Term(scale(term.tile), term.times, term.over, term.power)
    assert term.times is not None, "a term without a tile is a number known after the loop"
    return Term(None, scale(term.times), term.over, term.power)


def _cast(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    (form,) = forms
    match form:
        case Whole(tile):
            return Whole(writer.cast(tile, type_))
        case Total(tile, power, plus) if tile is not None:
            return Total(writer.cast(tile, type_), power, plus)
        case Total():
            return form
        case Slices(terms, plus):
            return Slices(
                tuple(
                    term
                    if term.tile is None
                    else Term(writer.cast(term.tile, type_), term.times, term.over, term.power)
                    for term in terms
                ),
                plus,
            )


def _square(
    writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
) -> Form:
    if isinstance(forms[0], Slices):
        require_no_powers(forms[0].terms, forms[0].terms)
    return _multiplicative("square", Fraction(2))(writer, type_, constants, forms)


def _multiplicative(function: str, degree: Fraction) -> Rule:
    """A function with f(a b) = f(a) f(b), and f(a) = a^degree for a positive a."""

    def rule(
        writer: TileWriter, type_: Attribute, constants: Sequence[float], forms: Sequence[Form]
    ) -> Form:
        match forms[0]:
            case Total(tile, power, plus) if tile is not None and not plus:
                return Total(writer.apply(function, tile, type_=type_), scaled(power, degree))
            case Slices((term,), plus) if term.tile is not None and not plus:
                times, over = (
                    None if late is None else writer.apply(function, late)
                    for late in (term.times, term.over)
                )
                tile = writer.apply(function, term.tile, type_=type_)
                return Slices((Term(tile, times, over, scaled(term.power, degree)),))
            case _:
                return _nonlinear(writer, function, type_, constants, forms)

    return rule


def _nonlinear(
    writer: TileWriter,
    function: str,
    type_: Attribute,
    constants: Sequence[float],
    forms: Sequence[Form],
) -> Form:
    """Any function: of tiles of the loop, or of what exists after it."""
    if _is_late(forms):
        if any(isinstance(form, Total) and form.plus for form in forms):
            writer.without_rule.append(function)
        tiles = [settled(writer, form) for form in forms]
        return Total(writer.apply(function, *tiles, constants=constants, type_=type_))
    try:
        tiles = [in_the_loop(form, f"'{function}'") for form in forms]
    except NotFusedError as error:
        why = (f"; '{each}' has no rule for a largest element" for each in writer.without_rule[:1])
        raise NotFusedError("".join([str(error), *why])) from error
    tile = writer.apply(function, *tiles, constants=constants, type_=type_)
    return Whole(tile) if all(isinstance(form, Whole) for form in forms) else Slices((Term(tile),))


def _is_late(forms: Sequence[Form]) -> bool:
    """Whether values exist after the loop, some of them there only."""
    return any(isinstance(form, Total) for form in forms) and not any(
        isinstance(form, Slices) for form in forms
    )


def _total(form: Form) -> Total:
    """A value that exists after the loop."""
    assert not isinstance(form, Slices)
    return Total(form.tile) if isinstance(form, Whole) else form


RULES: dict[str, Rule] = {
    "identity": _cast,
    "add": _sum("add"),
    "sub": _sum("sub"),
    "mul": _mul,
    "div": _div,
    "mul_scalar": _mul_scalar,
    "max": _max,
    "exp": _exp,
    "log": _log,
    "square": _square,
    "abs": _multiplicative("abs", Fraction(1)),
    "reciprocal_or_zero": _multiplicative("reciprocal_or_zero", Fraction(-1)),
}
"""Functions through which numbers that exist after the loop pass."""


def apply_function(
    writer: TileWriter,
    function: ScalarFunction,
    type_: Attribute,
    forms: Sequence[Form],
    *,
    rounds: bool,
) -> Form:
    """The form of a scalar function's result, of that element type.

    One that ``rounds`` for good is not linear, whatever the function.
    Raises :class:`NotFusedError` where the function is not linear, nor a power, in what exists
    after the loop.
    """
    rule = RULES.get(function.name)
    if rounds or rule is None or all(isinstance(form, Whole) for form in forms):
        return _nonlinear(writer, function.name, type_, function.constants, forms)
    return rule(writer, type_, function.constants, forms)
