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
from mugraph.runtime.equivalence.pieces import with_factors, with_inner
from mugraph.runtime.equivalence.terms import (
    Application,
    Factor,
    NormalForm,
    Term,
    free_variables,
)


def by_values(form: NormalForm, digit: Variable) -> NormalForm:
    """The form with functions of elements for all values of a digit, the innermost ones first.

    A function whose arguments no longer depend on the digit then stays as it is.
    """
    if digit not in free_variables(form):
        return form
    return with_factors(form, lambda factor, power: _of_factor(factor, power, digit))


def _of_factor(factor: Factor, power: Fraction, digit: Variable) -> NormalForm:
    if not isinstance(factor, Application):
        return with_inner(factor, power, lambda form: by_values(form, digit))
    function = factor.function
    arguments = tuple(by_values(argument, digit) for argument in factor.arguments)
    if any(digit in free_variables(argument) for argument in arguments):
        values = [{digit: Affine((), value)} for value in range(digit.extent)]
        arguments = tuple(nf.substitute(a, value) for value in values for a in arguments)
        function = f"{function} of the {digit.extent} values of digit {digit.number}"
    return NormalForm((Term(Fraction(1), (), ((Application(function, arguments), power),)),))
