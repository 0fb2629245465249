"""What names stand for, and constants and index expressions made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span

from mugraph.dialects import te
from mugraph.dialects.named_extents import NamedExtent
from mugraph.texpr import syntax


@dataclass(frozen=True)
class SizeBinding:
    """A named size."""

    value: int


@dataclass(frozen=True)
class CallSizeBinding:
    """A named size that a call says; in a function it is one of its parameters."""

    extent: NamedExtent


@dataclass(frozen=True)
class IndexBinding:
    """The variable of a loop, or a size that a call says."""

    value: SSAValue
    size: NamedExtent | None = None


@dataclass(frozen=True)
class BufferBinding:
    """A buffer; a scalar one is written without an index."""

    value: SSAValue
    type: te.BufferType
    scalar: bool = False
    extents: tuple[syntax.Expression, ...] = ()
    """Its extents in the text where a call says some of them."""


@dataclass(frozen=True)
class ValueBinding:
    """The name of a ``let``; of an index also what it is in indices: variables and expression."""

    value: SSAValue | int | float
    index: tuple[tuple[SSAValue, ...], AffineExpr] | None = None


@dataclass(frozen=True)
class MbarriersBinding:
    """Some mbarriers."""

    value: SSAValue


Binding = (
    SizeBinding | CallSizeBinding | IndexBinding | BufferBinding | ValueBinding | MbarriersBinding
)
Bindings = Mapping[str, Binding]


def fail(node: syntax.Node | Span[str], message: str) -> NoReturn:
    """Raises ``ParseError`` at a part of the text."""
    raise ParseError(node.span if isinstance(node, syntax.Node) else node, message)


def size_given(name: str) -> str:
    """How a user gives a size its value, to the tools and in Python."""
    return f"--size {name}=64 (in Python sizes={{'{name}': 64}})"


def lookup(node: syntax.Node, name: str, bindings: Bindings) -> Binding:
    """What a name stands for."""
    binding = bindings.get(name)
    if binding is None:
        hint = f"; give its value with {size_given(name)}, or write 'size {name} = 64'"
        fail(node, f"'{name}' is not defined{hint if name.isupper() else ''}")
    return binding


def constant_of(expression: syntax.Expression, bindings: Bindings, what: str) -> int:
    """The value of an expression of sizes and numbers."""
    index = index_of(expression, bindings, [])
    if not isinstance(index, AffineConstantExpr):
        fail(expression, f"{what} must be a constant")
    return index.value


def index_of(
    expression: syntax.Expression, bindings: Bindings, variables: list[SSAValue]
) -> AffineExpr:
    """A quasi-affine expression; ``variables`` are its dimensions, and new ones are added."""
    match expression:
        case syntax.Number(value=int(value)):
            return AffineExpr.constant(value)
        case syntax.Number():
            fail(expression, "an index is a whole number")
        case syntax.Name(name=name):
            return _index_of_name(expression, name, bindings, variables)
        case syntax.Unary(operand=operand):
            return index_of(operand, bindings, variables) * -1
        case syntax.Binary(operator="+" | "-" | "*" | "/" | "%" as operator):
            left = index_of(expression.left, bindings, variables)
            right = index_of(expression.right, bindings, variables)
            return _combine(expression, operator, left, right)
        case syntax.Binary(operator=operator):
            fail(expression, f"'{operator}' is no operator of indices")
        case syntax.Element(buffer=buffer) | syntax.Section(buffer=buffer):
            fail(expression, f"an index cannot depend on the contents of '{buffer}'")
        case syntax.Apply(function=function):
            fail(expression, f"an index is quasi-affine: {function}(...) cannot stand in it")


def _index_of_name(
    node: syntax.Name, name: str, bindings: Bindings, variables: list[SSAValue]
) -> AffineExpr:
    match lookup(node, name, bindings):
        case SizeBinding(value=value):
            return AffineExpr.constant(value)
        case IndexBinding(value=variable):
            if variable not in variables:
                variables.append(variable)
            return AffineExpr.dimension(variables.index(variable))
        case ValueBinding(index=(inner, expression)):
            variables += [one for one in inner if one not in variables]
            places = [AffineExpr.dimension(variables.index(one)) for one in inner]
            return expression.replace_dims_and_symbols(places, [])
        case _:
            fail(
                node,
                f"'{name}' is neither a loop's variable nor a size; an index depends on nothing "
                "else",
            )


def _combine(node: syntax.Binary, operator: str, left: AffineExpr, right: AffineExpr) -> AffineExpr:
    match operator:
        case "+":
            return left + right
        case "-":
            return left + right * -1
        case "*":
            if not isinstance(right, AffineConstantExpr):
                left, right = right, left
            if not isinstance(right, AffineConstantExpr):
                fail(node, "a product of two variables is not quasi-affine; one must be a constant")
            return left * right
        case _:
            if not (isinstance(right, AffineConstantExpr) and right.value > 0):
                what = "divisor" if operator == "/" else "modulus"
                fail(node.right, f"the {what} of an index must be a positive constant")
            return left // right if operator == "/" else left % right


def is_number(expression: syntax.Expression, bindings: Bindings) -> bool:
    """Whether an expression is made of the contents of buffers, or otherwise no index."""
    match expression:
        case syntax.Number(value=value):
            return not isinstance(value, int)
        case syntax.Name(name=name):
            match bindings.get(name):
                case ValueBinding(index=None) | BufferBinding():
                    return True
                case _:
                    return False
        case syntax.Unary(operand=operand):
            return is_number(operand, bindings)
        case syntax.Binary(operator="+" | "-" | "*" | "/" | "%", left=left, right=right):
            return is_number(left, bindings) or is_number(right, bindings)
        case syntax.Binary() | syntax.Element() | syntax.Apply():
            return True
        case syntax.Section():
            return False


def is_index(expression: syntax.Expression, bindings: Bindings, *, named: bool = False) -> bool:
    """Whether an expression has a loop's variable in it, and nothing but indices.

    With ``named`` the names of indices are indices, too; else they are numbers.
    """
    return _has_variable(expression, bindings, named) is True


def _has_variable(expression: syntax.Expression, bindings: Bindings, named: bool) -> bool | None:
    """Whether a variable is in an index expression; ``None`` where it is no index expression."""
    match expression:
        case syntax.Number(value=int()):
            return False
        case syntax.Name(name=name):
            match bindings.get(name):
                case IndexBinding():
                    return True
                case SizeBinding():
                    return False
                case ValueBinding(index=(_, _)) if named:
                    return True
                case _:
                    return None
        case syntax.Unary(operand=operand):
            return _has_variable(operand, bindings, named)
        case syntax.Binary(
            operator="+" | "-" | "*" | "/" | "%" as operator, left=left, right=right
        ):
            one, other = (_has_variable(side, bindings, named) for side in (left, right))
            if one is None or other is None or (other and operator in "/%"):
                return None
            return None if operator == "*" and one and other else one or other
        case _:
            return None
