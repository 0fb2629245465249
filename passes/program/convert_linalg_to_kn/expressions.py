"""Scalar expressions in a normal form, and the functions of ``kn`` recognised in them.

Sums and products are flat and sorted, constants are folded, divisions by constants are products.
Equality is over the reals: what is recognised is the same function, rounded in other places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_TOLERANCE = 1e-6
"""How far constants of a front end, rounded to fp32, may be from the exact ones, relatively."""


@dataclass(frozen=True)
class Constant:
    """A number."""

    value: float


@dataclass(frozen=True)
class Argument:
    """An element of one of the operator's inputs."""

    index: int


@dataclass(frozen=True)
class Call:
    """A function of expressions; ``add`` and ``mul`` take any number of them."""

    function: str
    operands: tuple[Expression, ...]


Expression = Constant | Argument | Call


def call(function: str, *operands: Expression) -> Expression:
    """The normal form of a function of expressions in normal form."""
    simplify = _RULES.get(function)
    return Call(function, operands) if simplify is None else simplify(operands)


def substituted(expression: Expression, arguments: Sequence[Expression]) -> Expression:
    """The expression with its arguments replaced, in normal form again."""
    match expression:
        case Argument(index=index):
            return arguments[index]
        case Constant():
            return expression
        case Call(function=function, operands=operands):
            return call(function, *(substituted(operand, arguments) for operand in operands))


def _flattened(function: str, operands: Sequence[Expression]) -> list[Expression]:
    parts: list[Expression] = []
    for operand in operands:
        if isinstance(operand, Call) and operand.function == function:
            parts += operand.operands
        else:
            parts.append(operand)
    return parts


def _folded(
    function: str, operands: Sequence[Expression], fold: Callable[[list[float]], float], unit: float
) -> Expression:
    """An associative and commutative function, its constants made one, which stands first."""
    parts = _flattened(function, operands)
    constant = fold([part.value for part in parts if isinstance(part, Constant)])
    others: list[Expression] = [part for part in parts if not isinstance(part, Constant)]
    others.sort(key=repr)
    if constant != unit or not others:
        others.insert(0, Constant(constant))
    return others[0] if len(others) == 1 else Call(function, tuple(others))


def _add(operands: Sequence[Expression]) -> Expression:
    return _folded("add", operands, math.fsum, 0.0)


def _mul(operands: Sequence[Expression]) -> Expression:
    product = _folded("mul", operands, math.prod, 1.0)
    return _gelu_in(product) or _silu_in(product) or _quotient_in(product) or product


def _sub(operands: Sequence[Expression]) -> Expression:
    left, right = operands
    if isinstance(left, Constant) or isinstance(right, Constant):
        return call("add", left, call("mul", Constant(-1.0), right))
    return Call("sub", (left, right))


def _div(operands: Sequence[Expression]) -> Expression:
    left, right = operands
    if isinstance(right, Constant) and right.value != 0.0:
        return call("mul", left, Constant(1.0 / right.value))
    inner = _negated_exponent_in(right)
    if inner is not None:
        return call("mul", left, Call("sigmoid", (inner,)))
    reciprocal = _of_reciprocal(right)
    if reciprocal is not None and reciprocal[0] != 0.0:
        return call("mul", left, Constant(1.0 / reciprocal[0]), reciprocal[1])
    return Call("div", (left, right))


def _neg(operands: Sequence[Expression]) -> Expression:
    return call("mul", Constant(-1.0), *operands)


def _pow(operands: Sequence[Expression]) -> Expression:
    base, exponent = operands
    match exponent:
        case Constant(value=2.0):
            return call("mul", base, base)
        case Constant(value=1.0):
            return base
        case Constant(value=3.0 | 4.0 as count):
            return call("mul", *[base] * int(count))
        case Constant(value=0.5):
            return Call("sqrt", (base,))
        case Constant(value=-0.5):
            return call("div", Constant(1.0), Call("sqrt", (base,)))
        case Constant(value=-1.0):
            return call("div", Constant(1.0), base)
        case _:
            return Call("pow", (base, exponent))


def _maximum(operands: Sequence[Expression]) -> Expression:
    return _bounded("maximum", operands)


def _minimum(operands: Sequence[Expression]) -> Expression:
    return _bounded("minimum", operands)


def _bounded(function: str, operands: Sequence[Expression]) -> Expression:
    """``maximum(x, 0)`` is relu; a bound on each side is clamp."""
    bounds = [part for part in operands if isinstance(part, Constant)]
    others = [part for part in operands if not isinstance(part, Constant)]
    if len(bounds) != 1 or len(others) != 1:
        return Call(function, tuple(operands))
    (bound,), (inner,) = bounds, others
    if function == "minimum" and isinstance(inner, Call):
        if inner.function == "relu":
            return Call("clamp", (inner.operands[0], Constant(0.0), bound))
        if inner.function == "maximum" and isinstance(inner.operands[1], Constant):
            return Call("clamp", (*inner.operands, bound))
    if function == "maximum" and bound.value == 0.0:
        return Call("relu", (inner,))
    return Call(function, (inner, bound))


_RULES: dict[str, Callable[[Sequence[Expression]], Expression]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "neg": _neg,
    "pow": _pow,
    "maximum": _maximum,
    "minimum": _minimum,
}


def _is_constant(expression: Expression, value: float) -> bool:
    return isinstance(expression, Constant) and math.isclose(
        expression.value, value, rel_tol=_TOLERANCE
    )


def _one_plus(expression: Expression, function: str) -> Expression | None:
    """``y`` where the expression is ``1 + function(y)``."""
    if not isinstance(expression, Call) or expression.function != "add":
        return None
    if len(expression.operands) != 2 or not _is_constant(expression.operands[0], 1.0):
        return None
    inner = expression.operands[1]
    if isinstance(inner, Call) and inner.function == function:
        return inner.operands[0]
    return None


def _negated_exponent_in(expression: Expression) -> Expression | None:
    """``x`` where the expression is ``1 + exp(-x)``."""
    exponent = _one_plus(expression, "exp")
    return None if exponent is None else call("mul", Constant(-1.0), exponent)


def _without(factors: Sequence[Expression], wanted: Expression) -> list[Expression] | None:
    """The factors left when those of ``wanted`` are taken away; ``None`` where one is missing."""
    left = list(factors)
    for factor in _flattened("mul", [wanted]):
        if isinstance(factor, Constant) and factor.value == 0.0:
            return None
        if isinstance(factor, Constant):
            constants = [part for part in left if isinstance(part, Constant)]
            scale = constants[0].value if constants else 1.0
            others: list[Expression] = [part for part in left if not isinstance(part, Constant)]
            left = [*others, Constant(scale / factor.value)]
        elif factor in left:
            left.remove(factor)
        else:
            return None
    return left


def _gelu_in(product: Expression) -> Expression | None:
    """``gelu(x)`` times the rest, where the factors of x (1 + erf(x / sqrt 2)) / 2 are there."""
    if not isinstance(product, Call) or product.function != "mul":
        return None
    for place, factor in enumerate(product.operands):
        argument = _one_plus(factor, "erf")
        if argument is None:
            continue
        inner = call("mul", argument, Constant(math.sqrt(2.0)))
        if isinstance(inner, Constant):
            continue
        if isinstance(inner, Call) and inner.function == "mul":
            # What is left of the constants of an exact division.
            first = inner.operands[0]
            if _is_constant(first, 1.0):
                inner = call("mul", *inner.operands[1:])
        others = [*product.operands[:place], *product.operands[place + 1 :]]
        left = _without(others, inner)
        if left is not None:
            rest = call("mul", Constant(2.0), *left)
            rest = Constant(1.0) if _is_constant(rest, 1.0) else rest
            return call("mul", Call("gelu", (inner,)), rest)
    return None


def _of_reciprocal(expression: Expression) -> tuple[float, Expression] | None:
    """``c`` and ``y`` where the expression is ``c / y``."""
    match expression:
        case Call(function="div", operands=(Constant(value=scale), divisor)):
            return scale, divisor
        case _:
            return None


def _quotient_in(product: Expression) -> Expression | None:
    """``x / y`` where the factors are those of x and one, or several, ``1 / y``."""
    if not isinstance(product, Call) or product.function != "mul":
        return None
    divisors: list[Expression] = []
    others: list[Expression] = []
    for factor in product.operands:
        reciprocal = _of_reciprocal(factor)
        if reciprocal is None:
            others.append(factor)
        else:
            others.append(Constant(reciprocal[0]))
            divisors.append(reciprocal[1])
    return call("div", call("mul", *others), call("mul", *divisors)) if divisors else None


def size_of(expression: Expression) -> int:
    """The number of constants, arguments and functions in an expression."""
    match expression:
        case Call(operands=operands):
            return 1 + sum(map(size_of, operands))
        case _:
            return 1


def arguments_of(expression: Expression) -> frozenset[int]:
    """The arguments that an expression depends on."""
    match expression:
        case Argument(index=index):
            return frozenset({index})
        case Call(operands=operands):
            return frozenset[int]().union(*map(arguments_of, operands))
        case _:
            return frozenset()


def _silu_in(product: Expression) -> Expression | None:
    """``silu(x)`` times the rest, where the factors of ``x sigmoid(x)`` are there."""
    if not isinstance(product, Call) or product.function != "mul":
        return None
    for place, factor in enumerate(product.operands):
        if isinstance(factor, Call) and factor.function == "sigmoid":
            # A factor may stand there twice, as one object.
            others = [*product.operands[:place], *product.operands[place + 1 :]]
            left = _without(others, factor.operands[0])
            if left is not None:
                return call("mul", Call("silu", factor.operands), *left)
    return None
