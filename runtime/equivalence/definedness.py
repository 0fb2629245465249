"""Where a proof's functions may be undefined.

Equal normal forms say that two functions are equal wherever both are defined.  That is almost
everywhere where roots and logarithms are taken of what is never negative, and quotients by what
is not always 0.  Anything else is written down in the derivation, to be looked at on numbers.
"""

from __future__ import annotations

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.derivation import current
from mugraph.runtime.equivalence.notation import show
from mugraph.runtime.equivalence.terms import (
    Application,
    Below,
    Choice,
    Element,
    Exponential,
    NormalForm,
    Power,
    Term,
)

_LONGEST = 80
"""Characters of a normal form that a message quotes."""


def expect_positive(form: NormalForm, function: str) -> None:
    """Writes down that ``function`` takes a number which may be negative everywhere."""
    if not is_positive(form):
        _write_down(form, f"the {function} of")


def expect_nonzero(form: NormalForm) -> None:
    """Writes down that something is divided by what may be 0 everywhere."""
    if not (_is_product(form) or is_positive(form) or is_positive(nf.scale(form, -1))):
        _write_down(form, "the quotient by")


def _write_down(form: NormalForm, what: str) -> None:
    text = show(form)
    shown = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    current().partial[f"{what} {shown}"] = None


def is_positive(form: NormalForm) -> bool:
    """Whether it is a sum of products that are never negative, and not always 0."""
    return bool(form.terms) and all(_is_term_positive(term) for term in form.terms)


def _is_term_positive(term: Term) -> bool:
    if term.coefficient < 0:
        return False
    for factor, power in term.factors:
        match factor:
            case Exponential() | Below():
                continue
            case Power(base) if power.denominator % 2 == 0 or is_positive(base):
                continue
            case Element() | Power() | Application() | Choice():
                if power.denominator % 2 == 0 or power.numerator % 2:
                    return False
    return True


def is_never_zero(form: NormalForm) -> bool:
    """Whether it is more than 0 for all inputs: a sum of such as :func:`is_positive`, one of which
    is a product of exponentials.
    """
    return is_positive(form) and any(map(_is_term_never_zero, form.terms))


def _is_term_never_zero(term: Term) -> bool:
    return all(
        isinstance(factor, Exponential)
        or (isinstance(factor, Power) and is_never_zero(factor.base))
        for factor, _ in term.factors
    )


def _is_product(form: NormalForm) -> bool:
    """Whether it is one product of inputs and exponentials, which is 0 almost nowhere."""
    return (
        len(form.terms) == 1
        and all(isinstance(factor, Element | Exponential) for factor, _ in form.terms[0].factors)
        and not form.terms[0].bound
    )
