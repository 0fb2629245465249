"""Functions of runs by the parts of these: what slices that are put together are functions of.

A function of a run takes its element at any place.  Where that place has digits by which something
is chosen, the elements of a concatenation differ in form from those of one tensor.  A function that
takes an element for each value of such a digit, one after the other, has the same arguments for
both.  It says as much, as all that depends on the digit is in them, and its name says which digit:
a run of two elements, each twice, has the elements of one of both, twice, by another digit.
"""

from __future__ import annotations

from fractions import Fraction

from mugraph.runtime.equivalence import normal_form as nf
from mugraph.runtime.equivalence.indices import Affine, Variable
from mugraph.runtime.equivalence.pieces import freed
from mugraph.runtime.equivalence.terms import (
    Application,
    Exponential,
    Factor,
    NormalForm,
    Power,
    Term,
    free_variables,
)


def by_values(form: NormalForm, digit: Variable) -> NormalForm:
    """The form with functions of elements for all values of a digit, the innermost ones first.

    A function whose arguments no longer depend on the digit then stays as it is.
    """
    if digit not in free_variables(form):
        return form
    total = NormalForm()
    for term in form.terms:
        bound, factors = freed(term)
        product = nf.constant(term.coefficient)
        for factor, power in factors:
            product = nf.multiply(product, _of_factor(factor, power, digit))
        total = nf.add(total, nf.sum_over(product, bound))
    return total


def _of_factor(factor: Factor, power: Fraction, digit: Variable) -> NormalForm:
    match factor:
        case Exponential(exponent):
            return nf.exponential(nf.scale(by_values(exponent, digit), power))
        case Power(base):
            factor = Power(by_values(base, digit))
        case Application(function, arguments):
            arguments = tuple(by_values(argument, digit) for argument in arguments)
            if any(digit in free_variables(argument) for argument in arguments):
                values = [{digit: Affine((), value)} for value in range(digit.extent)]
                arguments = tuple(nf.substitute(a, value) for value in values for a in arguments)
                function = f"{function} of the {digit.extent} values of digit {digit.number}"
            factor = Application(function, arguments)
        case _:
            pass
    return NormalForm((Term(Fraction(1), (), ((factor, power),)),))
