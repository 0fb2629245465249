"""The syntax tree of `.te` text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields

from xdsl.utils.lexer import Span


@dataclass(frozen=True)
class Node:
    """A part of the text."""

    span: Span[str]


# Expressions.


@dataclass(frozen=True)
class Number(Node):
    """``3`` or ``0.5``."""

    value: int | float


@dataclass(frozen=True)
class Name(Node):
    """A size, a variable, a number in a register, or a whole buffer."""

    name: str


@dataclass(frozen=True)
class Unary(Node):
    """``-x``."""

    operand: Expression


@dataclass(frozen=True)
class Binary(Node):
    """``x + y`` and the like, comparisons included."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Element(Node):
    """``A[i, j]``, or ``A[distinct p]``: no other iteration touches that element."""

    buffer: str
    indices: tuple[Expression, ...]
    distinct: bool = False


@dataclass(frozen=True)
class Section(Node):
    """``A[i * 16 : 16, 0 : K]``: starts and extents."""

    buffer: str
    starts: tuple[Expression, ...]
    extents: tuple[Expression, ...]


@dataclass(frozen=True)
class Apply(Node):
    """``exp(x)`` or ``mma(a, b)``."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Number | Name | Unary | Binary | Element | Section | Apply


@dataclass(frozen=True)
class Type(Node):
    """``f16[M, K]``, or ``f32`` alone: a number."""

    element: str
    extents: tuple[Expression, ...] | None


# Statements.


@dataclass(frozen=True)
class Loop(Node):
    """``par``, ``fully par`` and ``seq``."""

    parallel: bool
    fully: bool
    extent: Expression
    variable: str
    level: str | None
    alignment: Expression | None
    prefetch: Expression | None
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class If(Node):
    """``if i > 0 and j < N { ... }``."""

    conditions: tuple[Expression, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class New(Node):
    """``new t: f32[256] #shared``, ``reg a: f16[8]``, ``reg x = A[i]`` and ``reg a = [x, y]``."""

    name: str
    type: Type | None
    space: str | None
    value: Expression | tuple[Expression, ...] | None


@dataclass(frozen=True)
class NewMbarriers(Node):
    """``new full: mbarrier[4] #arrivals(1)``."""

    name: str
    count: Expression
    arrivals: Expression


@dataclass(frozen=True)
class Let(Node):
    """``let x = A[i] * 2``."""

    name: str
    value: Expression | Update


@dataclass(frozen=True)
class Assign(Node):
    """``C[i] = e``, ``C[i] += e``, ``x = e``; also ``c = f(a)`` for a function's result."""

    target: Name | Element | Section
    operator: str
    value: Expression


@dataclass(frozen=True)
class Update(Node):
    """``red C[i] += e`` and ``atomic C[i] max= e``."""

    atomic: bool
    target: Name | Element
    operator: str
    value: Expression


@dataclass(frozen=True)
class Anchor(Node):
    """``anchor e``."""

    value: Expression


@dataclass(frozen=True)
class Call(Node):
    """``f(a, b)`` as a statement."""

    call: Apply


@dataclass(frozen=True)
class Asm(Node):
    """``asm("...", a, out b)``: directions and operands; ``means ...``: what it does."""

    text: str
    operands: tuple[tuple[str, Expression], ...]
    meaning: tuple[Statement, ...] | None


Statement = Loop | If | New | NewMbarriers | Let | Assign | Update | Anchor | Call | Asm


@dataclass(frozen=True)
class Parameter(Node):
    """``a: f16[M, K]``, or ``reg a: f16[8]``."""

    name: str
    type: Type
    space: str | None


@dataclass(frozen=True)
class Function(Node):
    """``fn f(a: f16[M, K]): f32[M] { ... }``; the result's name is ``result`` if not given."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Parameter | None
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Size(Node):
    """``size M = 64``, or ``size M <= 8192 #multiple(4)``: a number that a call says."""

    name: str
    value: Expression | None
    is_of_call: bool = False
    multiple: Expression | None = None
    choices: tuple[int, ...] = ()
    """What an open size may be; its value is the first of them."""


@dataclass
class File:
    """What a file declares, and the statements outside functions."""

    sizes: list[Size] = field(default_factory=list[Size])
    functions: list[Function] = field(default_factory=list[Function])
    body: list[Statement] = field(default_factory=list["Statement"])


def nodes_of(value: object) -> Iterator[Node]:
    """All nodes of a syntax tree, in the order of the text."""
    if isinstance(value, Node):
        yield value
    if isinstance(value, (Node, File)):
        for one in fields(value):
            yield from nodes_of(getattr(value, one.name))
    elif isinstance(value, (tuple, list)):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from nodes_of(item)  # pyright: ignore[reportUnknownArgumentType]
