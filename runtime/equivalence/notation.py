"""Normal forms as text, such as ``sum(a<4096) in0[i, a] * in1[a, j]``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mugraph.runtime.equivalence.indices import OF_ARGUMENTS, Affine, Variable
from mugraph.runtime.equivalence.terms import (
    Application,
    Below,
    Choice,
    Element,
    Exponential,
    Factor,
    NormalForm,
    Power,
    Term,
)

Names = Mapping[Variable, str]


def show(form: NormalForm, names: Names | None = None) -> str:
    """The normal form; ``names`` are for its free variables, which are ``v0`` ... without."""
    if not form.terms:
        return "0"
    return " + ".join(_term(term, names or {}) for term in form.terms)


def _variable(variable: Variable, names: Names) -> str:
    if variable in names:
        return names[variable]
    if variable.height == 0:
        return f"v{variable.number}"
    if variable.height == OF_ARGUMENTS:
        return f"length{variable.number}"
    # a, b … for innermost sums; a', b' … for sums around them.
    return chr(ord("a") + variable.number % 26) + "'" * (variable.height - 1)


def _index(index: Affine, names: Names) -> str:
    parts = [
        _variable(variable, names)
        if coefficient == 1
        else f"{coefficient}*{_variable(variable, names)}"
        for variable, coefficient in index.terms
    ]
    if index.constant or not parts:
        parts.append(str(index.constant))
    return "+".join(parts)


def _factor(factor: Factor, power: Fraction, names: Names) -> str:
    match factor:
        case Element(tensor, indices):
            text = f"in{tensor}[{', '.join(_index(index, names) for index in indices)}]"
        case Choice(index, value):
            text = f"[{_index(index, names)}={value}]"
        case Below(index, bound):
            text = f"[{_index(index, names)}<{bound}]"
        case Exponential(exponent):
            text = f"exp({show(exponent, names)})"
        case Application(function, arguments):
            text = f"{function}({', '.join(show(form, names) for form in arguments)})"
        case Power(base):
            text = f"({show(base, names)})"
    return text if power == 1 else f"{text}^({power})"


def _term(term: Term, names: Names) -> str:
    parts = [_factor(factor, power, names) for factor, power in term.factors]
    if term.coefficient != 1 or not parts:
        parts.insert(0, str(term.coefficient))
    product = " * ".join(parts)
    if not term.bound:
        return product
    ranges = ", ".join(f"{_variable(v, names)}<{v.extent}" for v in term.bound)
    return f"sum({ranges}) {product}"
