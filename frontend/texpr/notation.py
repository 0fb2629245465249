"""How operators are written in `.te` text, and what the text leaves unsaid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from mugraph.dialects import te
from mugraph.dialects.te.numbers import OPERATOR_NAMES
from mugraph.errors import UserError
from mugraph.texpr import body, scalars

COMPARISON, OR, XOR, AND, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(9)
"""How tightly an expression holds together, from the loosest."""

_LEVELS = {
    **{"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT},
    **{"or": OR, "xor": XOR, "and": AND, "shl": SHIFT, "shr": SHIFT},
}
_SYMBOLS = {name: symbol for symbol, name in scalars.SYMBOLS.items()}
INFIX: dict[type[Operation], tuple[str, int]] = {
    kind: (_SYMBOLS[name], _LEVELS[name])
    for kind, name in OPERATOR_NAMES.items()
    if name in _LEVELS
}
FUNCTIONS: dict[type[Operation], str] = {
    arith.SelectOp: "select",
    **{kind: name for kind, name in OPERATOR_NAMES.items() if name not in _LEVELS},
}
COMBINATIONS = {combination: symbol for symbol, combination in body.COMBINATIONS.items()}
_ARITHMETIC = (*INFIX, *FUNCTIONS, arith.NegfOp, arith.CmpfOp, arith.CmpiOp)
"""Operators that extend f16 and bf16 by themselves."""
TYPE_NAMES = {type_: name for name, type_ in te.ELEMENT_TYPES.items()}


class TexprPrintError(UserError):
    """A module that no `.te` text describes."""


@dataclass(frozen=True)
class Expression:
    """The text of a value that has not been used yet.

    ``reads``: it has elements of buffers in it, so that statements must not come between.
    """

    text: str
    level: int
    reads: bool

    def at(self, level: int) -> str:
        """The text where an expression of at least that level is wanted."""
        return f"({self.text})" if self.level < level else self.text


def update_of(bind: te.BindOp) -> tuple[str, Operation] | None:
    """For a store that came from ``C[i] += x``: the operator ``+=``, and what adds.

    That is ``C[i] + x`` of the same element, read after ``x`` was computed, used for nothing else.
    """
    operator = bind.value.owner
    if isinstance(operator, arith.TruncFOp) and is_used_once(operator):
        operator = operator.input.owner
    if not (isinstance(operator, Operation) and is_used_once(operator)):
        return None
    names = FUNCTIONS | {kind: symbol for kind, (symbol, _) in INFIX.items()}
    symbol = names.get(type(operator))
    if symbol not in ("+", "-", "*", "/", "max", "min"):
        return None
    old = operator.operands[0].owner
    if isinstance(old, arith.ExtFOp) and is_used_once(old):
        old = old.input.owner
    if not (isinstance(old, te.ViewOp) and is_used_once(old)):
        return None
    same = (
        old.buffer is bind.buffer
        and old.index_map == bind.index_map
        and tuple(old.indices) == tuple(bind.indices)
    )
    between: list[Operation] = []
    following = old.next_op
    while following is not None and following is not bind:
        between.append(following)
        following = following.next_op
    only = (arith.ConstantOp, arith.ExtFOp, arith.TruncFOp, type(operator))
    if not same or following is None or not all(isinstance(op, only) for op in between):
        return None
    return f"{symbol}=", operator


def is_used_once(op: Operation) -> bool:
    """Whether an operator has one result, which one operand is."""
    return len(op.results) == 1 and len(list(op.results[0].uses)) == 1


def is_scalar_use(op: Operation) -> bool:
    """Whether an operator can name a buffer of one element without an index."""
    if isinstance(op, te.AccessOp):
        return op.index_map.results == (AffineExpr.constant(0),)
    return isinstance(op, (te.AsmOp, te.CallOp))


def widens(user: Operation, value: SSAValue) -> bool:
    """Whether `.te` text extends an element in this use without being told to, never to f64."""
    if stores(user, value):
        return value.type == f32
    return value.type != f64 and isinstance(user, _ARITHMETIC)


def stores(user: Operation, value: SSAValue) -> bool:
    """Whether `.te` text rounds a value in this use without being told to."""
    return isinstance(user, (te.BindOp, te.RedOp, te.AtomicOp)) and user.value is value


def constant_expression(attribute: FloatAttr[Any] | IntegerAttr) -> Expression:
    """A number in as few digits as read back to it."""
    value = attribute.value.data
    level = UNARY if math.copysign(1, value) < 0 else ATOM
    if isinstance(value, int):
        return Expression(str(value), level, False)
    if math.isnan(value):
        raise TexprPrintError("there is no .te text for a constant that is no number (NaN).")
    type_ = cast(AnyFloat, attribute.type)
    texts = (f"{value:.{digits}g}" for digits in range(1, 18))
    text = next(text for text in texts if FloatAttr(float(text), type_) == attribute)
    return Expression(text if set(text) & set("en.") else f"{text}.0", level, False)
