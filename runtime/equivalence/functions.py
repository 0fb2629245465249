"""What is known of the scalar functions: their normal forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from mugraph.dialects.elementwise import ScalarFunction
from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.definedness import (
    expect_nonzero,
    expect_positive,
    is_never_zero,
    is_positive,
)
from mugraph.runtime.equivalence.errors import NoProofError
from mugraph.runtime.equivalence.pieces import joined
from mugraph.runtime.equivalence.quotients import inverse, shared_factors, square_root, without
from mugraph.runtime.equivalence.terms import (
    POSITIVE,
    Application,
    Exponential,
    Factor,
    NormalForm,
    Power,
    Term,
    applies,
)
from mugraph.runtime.interpreter.constants import meant_by


def silu(x: NormalForm) -> NormalForm:
    """x / (1 + exp(-x))."""
    decay = nf.add(nf.constant(1), nf.exponential(nf.scale(x, -1)))
    return nf.multiply(x, inverse(decay))


def _sigmoid(x: NormalForm) -> NormalForm:
    return inverse(nf.add(nf.constant(1), nf.exponential(nf.scale(x, -1))))


def root(x: NormalForm) -> NormalForm:
    """The square root."""
    expect_positive(x, "root")
    return square_root(x)


def _log(x: NormalForm) -> NormalForm:
    """A sum of the logarithms of positive factors that all terms have, and of the rest."""
    expect_positive(x, "logarithm")
    total, taken = NormalForm(), list[tuple[Factor, Fraction]]()
    for factor, power in shared_factors(x):
        match factor:
            case Exponential(exponent):
                summand = exponent
            case Power(base) if is_positive(base):
                summand = _log(base)
            case _:
                continue
        total = nf.add(total, nf.scale(summand, power))
        taken.append((factor, power))
    rest = without(tuple(taken), x) if taken else x
    return total if rest == nf.constant(1) else nf.add(total, nf.application("log", [rest]))


def _power(x: NormalForm, y: NormalForm) -> NormalForm:
    expect_positive(x, "power")
    return nf.application("pow", [x, y])


def _softplus(x: NormalForm) -> NormalForm:
    return _log(nf.add(nf.constant(1), nf.exponential(x)))


def _tanh(x: NormalForm) -> NormalForm:
    """1 - 2 / (1 + exp(2 x))."""
    growth = nf.add(nf.constant(1), nf.exponential(nf.scale(x, 2)))
    return nf.add(nf.constant(1), nf.scale(inverse(growth), -2))


def _erf(x: NormalForm) -> NormalForm:
    return nf.application("erf", [x])


def _cos(x: NormalForm) -> NormalForm:
    return nf.application("cos", [x])


def _sin(x: NormalForm) -> NormalForm:
    return nf.application("sin", [x])


def _round(x: NormalForm) -> NormalForm:
    return nf.application("round", [x])


def _floor(x: NormalForm) -> NormalForm:
    return nf.application("floor", [x])


def _power_below(x: NormalForm) -> NormalForm:
    return nf.application("power_below", [x])


def _bits(x: NormalForm, first: float, count: float) -> NormalForm:
    return nf.application(f"bits {first:g} {count:g}", [x])


def _fp4(x: NormalForm) -> NormalForm:
    return nf.application("fp4", [x])


def _nf4(x: NormalForm) -> NormalForm:
    return nf.application("nf4", [x])


def _gelu(x: NormalForm) -> NormalForm:
    """x (1 + erf(x / sqrt(2))) / 2."""
    scaled = nf.multiply(x, square_root(nf.constant(Fraction(1, 2))))
    return nf.scale(nf.multiply(x, nf.add(nf.constant(1), _erf(scaled))), Fraction(1, 2))


def _reciprocal(x: NormalForm) -> NormalForm:
    return _divide(nf.constant(1), x)


def _reciprocal_or_zero(x: NormalForm) -> NormalForm:
    """Factors that are never 0 leave it; of the rest it is a reciprocal only if that is not 0."""
    if not x.terms:
        return x
    never_zero = tuple(
        (factor, power)
        for factor, power in shared_factors(x)
        if isinstance(factor, Exponential)
        or (isinstance(factor, Power) and is_never_zero(factor.base))
    )
    number = x.terms[0].coefficient
    rest = nf.scale(without(never_zero, x), 1 / number)
    inverted = nf.product(tuple((factor, -power) for factor, power in never_zero), 1 / number)
    if is_never_zero(rest):
        return nf.multiply(inverted, inverse(rest))
    return nf.multiply(inverted, nf.application("reciprocal or zero", [rest]))


def _rsqrt(x: NormalForm) -> NormalForm:
    return _reciprocal(root(x))


def positive(x: NormalForm) -> NormalForm:
    """1 where a number is more than 0, else 0."""
    return nf.application(POSITIVE, [x])


_INFINITY, _WHERE = "infinity", "where"


def number(constant: float) -> NormalForm:
    """What an fp32 constant stands for; of an infinity nothing is known but its sign."""
    if math.isinf(constant):
        return nf.scale(nf.application(_INFINITY, []), 1 if constant > 0 else -1)
    return nf.constant(meant_by(constant))


def _has_infinity(form: NormalForm) -> bool:
    factors = (factor for term in form.terms for factor, _ in term.factors)
    return any(
        isinstance(factor, Application) and factor.function == _INFINITY for factor in factors
    )


def _less(x: NormalForm, y: NormalForm) -> NormalForm:
    return positive(_subtract(y, x))


def opposite(truth: NormalForm) -> NormalForm:
    """1 for 0 and 0 for 1."""
    return _subtract(nf.constant(1), truth)


def _less_equal(x: NormalForm, y: NormalForm) -> NormalForm:
    return opposite(_less(y, x))


_NOT_0 = "not 0"


def truth(form: NormalForm) -> NormalForm:
    """1 where a form is not 0, else 0: itself where that is known."""
    is_truth = form in (nf.constant(0), nf.constant(1)) or _comparison(form) is not None
    return form if is_truth else nf.application(_NOT_0, [form])


def _comparison(form: NormalForm) -> tuple[Factor, int] | None:
    """The comparison that a form is, and 1; or 0 with the one of which it is the opposite."""
    for one, value in ((form, 1), (opposite(form), 0)):
        match one.terms:
            case (Term(coefficient, (), ((Application(name) as factor, power),)),):
                if name in (POSITIVE, _NOT_0) and coefficient == power == 1:
                    return factor, value
            case _:
                pass
    return None


def where(condition: NormalForm, x: NormalForm, y: NormalForm) -> NormalForm:
    """y, and 1 or 0 times what x is above it; what is 1 or 0 already is that number.

    Of infinities, for which that is no number, it is an unknown function.
    """
    holds = truth(condition)
    if _has_infinity(x) and not _has_infinity(y):
        holds, x, y = opposite(holds), y, x
    if _has_infinity(y):
        known = _comparison(holds)
        return nf.application(_WHERE, [holds, nf.given(x, *known) if known else x, y])
    return nf.add(y, nf.multiply(holds, _subtract(x, y)))


def masked_exponent(term: Term, power: Fraction) -> tuple[NormalForm, NormalForm] | None:
    """When a summand of an exponent is more than minus infinity, and what it is then.

    The exponent is multiplied by ``power``.  ``None`` of a summand that no mask made so.
    """
    match term:
        case Term(coefficient, (), ((Application(name, (holds, kept, infinity)), one),)) if (
            name == _WHERE and one == 1 and infinity == number(-math.inf)
        ):
            times = coefficient * power
            return (holds, nf.scale(kept, times)) if times > 0 else None
        case _:
            return None


def positive_logarithm(x: NormalForm) -> NormalForm | None:
    """The logarithm of a product of exponentials and of powers of positive sums.

    ``None`` of anything else, and where a mask makes exponents minus infinity: it may be 0.
    """
    match x.terms:
        case (Term(coefficient, (), factors),) if coefficient == 1 and all(
            isinstance(factor, Exponential)
            or (isinstance(factor, Power) and is_positive(factor.base))
            for factor, _ in factors
        ):
            return None if applies(_WHERE, x) else _log(x)
        case _:
            return None


def _identity(x: NormalForm) -> NormalForm:
    return x


def _subtract(x: NormalForm, y: NormalForm) -> NormalForm:
    return nf.add(x, nf.scale(y, -1))


def _divide(x: NormalForm, y: NormalForm) -> NormalForm:
    expect_nonzero(y)
    return nf.multiply(x, inverse(y))


def square(x: NormalForm) -> NormalForm:
    """x²."""
    return nf.multiply(x, x)


_LARGEST, _CANDIDATE = "largest", "candidate"
_LARGEST_SO_FAR, _FALL = "largest so far", "fall of the largest so far"


def candidates(x: NormalForm) -> NormalForm:
    """A sum, of one unknown function, that says which numbers ``x`` is the largest of.

    Over all iterations, the largest so far is the largest of all.
    """
    for function in (_LARGEST, _LARGEST_SO_FAR):
        if (numbers := _argument_of(function, x)) is not None:
            return numbers
    return nf.application(_CANDIDATE, [x])


def _argument_of(function: str, x: NormalForm) -> NormalForm | None:
    """What a function is applied to, if ``x`` is just that."""
    match x.terms:
        case (Term(coefficient, (), ((Application(name, (form,)), power),)),) if (
            name == function and coefficient == power == 1
        ):
            return form
        case _:
            return None


def largest_so_far(numbers: NormalForm) -> NormalForm:
    """The largest, in an iteration, of what :func:`candidates` of it and those before stand for."""
    return nf.application(_LARGEST_SO_FAR, [numbers])


def fall(numbers: NormalForm) -> NormalForm:
    """The largest number before an iteration less the largest with it."""
    return nf.application(_FALL, [numbers])


def fallen(rescale: NormalForm) -> NormalForm | None:
    """Of which numbers it is e to the power of the :func:`fall`; ``None`` of anything else."""
    match rescale.terms:
        case (Term(coefficient, (), ((Exponential(exponent), power),)),) if (
            coefficient == power == 1
        ):
            return _argument_of(_FALL, exponent)
        case _:
            return None


def is_settled(form: NormalForm) -> bool:
    """Whether a form does not depend on what was the largest on the way."""
    return not any(applies(name, form) for name in (_LARGEST_SO_FAR, _FALL))


def require_settled(form: NormalForm) -> NormalForm:
    """The form; raises ``NoProofError`` where it depends on what was the largest on the way."""
    if not is_settled(form):
        raise NoProofError("a running maximum does not cancel")
    return form


def largest(numbers: NormalForm) -> NormalForm:
    """The largest of what a sum of :func:`candidates` stands for; how often does not matter."""
    once = NormalForm(tuple(Term(Fraction(1), t.bound, t.factors) for t in numbers.terms))
    match once.terms:
        case (Term(_, (), ((Application(function, (form,)), power),)),) if (
            function == _CANDIDATE and power == 1
        ):
            return form
        case _:
            return nf.application(_LARGEST, [once])


def _add(x: NormalForm, y: NormalForm) -> NormalForm:
    return joined(nf.add(x, y))


def _maximum(x: NormalForm, y: NormalForm) -> NormalForm:
    return largest(joined(nf.add(candidates(x), candidates(y))))


def _relu(x: NormalForm) -> NormalForm:
    return _maximum(x, nf.constant(0))


def _abs(x: NormalForm) -> NormalForm:
    """The larger of x and -x; a number, and roots that all terms have, leave it."""
    if not x.terms or is_positive(x):
        return x
    roots = [
        [
            each
            for each in term.factors
            if each[1].denominator % 2 == 0 and term.sums_over_none_of(each[0])
        ]
        for term in x.terms
    ]
    common = [each for each in roots[0] if all(each in own for own in roots)]
    size = abs(x.terms[0].coefficient)
    inverse_of_common = tuple((factor, -power) for factor, power in common)
    x = nf.multiply(x, nf.product(inverse_of_common, 1 / size))
    return nf.multiply(nf.product(tuple(common), size), _maximum(x, nf.scale(x, -1)))


def _minimum(x: NormalForm, y: NormalForm) -> NormalForm:
    return nf.scale(_maximum(nf.scale(x, -1), nf.scale(y, -1)), -1)


def _clamp(x: NormalForm, low: float, high: float) -> NormalForm:
    bounds = (nf.constant(meant_by(bound)) for bound in (low, high))
    return _minimum(_maximum(x, next(bounds)), next(bounds))


def _add_scalar(x: NormalForm, constant: float) -> NormalForm:
    return nf.add(x, nf.constant(meant_by(constant)))


def _fill(x: NormalForm, constant: float) -> NormalForm:
    return number(constant)


def _mul_scalar(x: NormalForm, constant: float) -> NormalForm:
    match x.terms:
        # A choice of a number or an infinity is one of the scaled number or an infinity.
        case (Term(coefficient, (), ((Application(name, (holds, y, infinity)), power),)),) if (
            name == _WHERE and coefficient == power == 1 and constant and not _has_infinity(y)
        ):
            sign = 1 if constant > 0 else -1
            return where(holds, _mul_scalar(y, constant), nf.scale(infinity, sign))
        case _:
            return nf.scale(x, meant_by(constant))


SCALAR_FUNCTIONS: dict[str, Callable[..., NormalForm]] = {
    "identity": _identity,
    "exp": nf.exponential,
    "silu": silu,
    "gelu": _gelu,
    "erf": _erf,
    "reciprocal": _reciprocal,
    "reciprocal_or_zero": _reciprocal_or_zero,
    "rsqrt": _rsqrt,
    "abs": _abs,
    "where": where,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "tanh": _tanh,
    "relu": _relu,
    "log": _log,
    "cos": _cos,
    "round": _round,
    "floor": _floor,
    "power_below": _power_below,
    "bits": _bits,
    "fp4": _fp4,
    "nf4": _nf4,
    "sin": _sin,
    "clamp": _clamp,
    "pow": _power,
    "max": _maximum,
    "min": _minimum,
    "less": _less,
    "less_equal": _less_equal,
    "square": square,
    "sqrt": root,
    "mul_scalar": _mul_scalar,
    "add_scalar": _add_scalar,
    "fill": _fill,
    "add": _add,
    "sub": _subtract,
    "mul": nf.multiply,
    "div": _divide,
}
"""The normal form of each scalar function: operands, then constants."""


def apply_function(function: ScalarFunction, *operands: NormalForm) -> NormalForm:
    """The function of normal forms; raises ``NoProofError`` for one that the table lacks."""
    if function.parts:
        outer, *inner = function.parts
        return apply_function(outer, *(apply_function(part, *operands) for part in inner))
    compute = SCALAR_FUNCTIONS.get(function.name)
    if compute is None:
        raise NoProofError(f"the function '{function}' has no normal form")
    if function.name not in ("identity", "where") and any(map(_has_infinity, operands)):
        raise NoProofError(f"'{function}' of an infinity has no normal form")
    return compute(*operands, *function.constants)
