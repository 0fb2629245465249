"""Typed arithmetic on numbers: how `.te` expressions become operators of ``arith`` and ``math``.

Floating-point arithmetic is in f32, or in f64 where a number of f64 takes part: others are extended
first, and rounded when they are stored.  Integers are i32, divided by floor.  A number without a
type takes that of what it meets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    f64,
    i1,
    i8,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import te
from mugraph.dialects.element_types import is_number_of, u8
from mugraph.dialects.te.numbers import INTEGER_OPERATORS, operators_on, predicate_of
from mugraph.dialects.te.types import EXTENDED_TYPES

Scalar = SSAValue | int | float
"""A value, or a number that has no type yet."""

Emit = Callable[[Operation], SSAValue]
"""Adds an operator to the program and gives its result."""

Fail = Callable[[str], NoReturn]
"""Raises the error with a message."""

WHOLE_TYPES = (i1, i8, u8, i32)
"""What holds no fractions."""

SYMBOLS = {
    **{"+": "add", "-": "sub", "*": "mul", "/": "div"},
    **{"&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr"},
}
"""The names of operators that stand between numbers."""

_CONSTANT_OPS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if isinstance(a, int) and isinstance(b, int) else a / b,
    "%": lambda a, b: a % b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "max": max,
    "min": min,
    "pow": lambda a, b: a**b,
}

BINARY_FUNCTIONS = ("max", "min", "pow")


def type_name(value: Scalar) -> str:
    """What a message calls the type of a value."""
    if isinstance(value, SSAValue):
        if value.type == i1:
            return "condition"
        return next(n for n, t in te.ELEMENT_TYPES.items() if t == value.type)
    return "integer" if isinstance(value, int) else "number"


def constant(value: int | float, type_: Attribute, emit: Emit) -> SSAValue:
    """A number of a type."""
    if type_ == u8:  # constants have signs
        return emit(arith.TruncIOp(constant(value, i32, emit), u8))
    if type_ in WHOLE_TYPES:
        return emit(arith.ConstantOp(IntegerAttr(int(value), cast(IntegerType, type_))))
    return emit(arith.ConstantOp(FloatAttr(float(value), cast(AnyFloat, type_))))


def computed_type(value: Scalar | None) -> Attribute:
    """The type in which a value is computed with: i32, f32 or f64."""
    if not isinstance(value, SSAValue):
        return i32 if isinstance(value, int) else f32
    if value.type in (i8, u8, i32):
        return i32
    return f64 if value.type == f64 else f32


def typed(value: Scalar, emit: Emit) -> SSAValue:
    """The value, or the number as i32 or f32."""
    return value if isinstance(value, SSAValue) else constant(value, computed_type(value), emit)


def widened(value: SSAValue, emit: Emit) -> SSAValue:
    """The value in the type that arithmetic is in."""
    if value.type == i8:
        return emit(arith.ExtSIOp(value, i32))
    if value.type == u8:
        return emit(arith.ExtUIOp(value, i32))
    return emit(arith.ExtFOp(value, f32)) if value.type in EXTENDED_TYPES else value


def negate(value: Scalar, emit: Emit, fail: Fail) -> Scalar:
    """``-x``."""
    if not isinstance(value, SSAValue):
        return -value
    if computed_type(value) == i32:
        return binary("-", 0, value, emit, fail)
    if value.type == i1:
        fail("a condition has no sign")
    return emit(arith.NegfOp(widened(value, emit)))


def _joined(operator: str, values: Sequence[Scalar], emit: Emit, fail: Fail) -> list[SSAValue]:
    """The operands in one type: i32, or f64 where one is of f64, or f32."""
    wide = [widened(one, emit) if isinstance(one, SSAValue) else one for one in values]
    types = {type_name(value) for value in wide if isinstance(value, SSAValue)}
    if "condition" in types:
        if operator in "&|^":
            fail(f"'{operator}' takes two truths or two i32; put comparisons in parentheses")
        fail(f"'{operator}' takes numbers, not a condition; use select(condition, x, y)")
    is_integer = types == {"i32"}
    if "i32" in types and not is_integer:
        fail(f"'{operator}' of an i32 and a floating-point number; write f32(...) around the i32")
    type_ = i32 if is_integer else f64 if "f64" in types else f32
    joined: list[SSAValue] = []
    for value in wide:
        if isinstance(value, SSAValue):
            joined.append(value if value.type == type_ else emit(arith.ExtFOp(value, f64)))
        elif is_integer and isinstance(value, float):
            fail(f"'{operator}' of an i32 and {value:g}; write f32(...) around the i32")
        else:
            joined.append(constant(value, type_, emit))
    return joined


def binary(operator: str, left: Scalar, right: Scalar, emit: Emit, fail: Fail) -> Scalar:
    """``+``, ``-``, ``*``, ``/``, ``%``, ``max``, ``min`` or ``pow`` of two numbers."""
    if not isinstance(left, SSAValue) and not isinstance(right, SSAValue):
        try:
            return _CONSTANT_OPS[operator](left, right)
        except (ZeroDivisionError, OverflowError, TypeError, ValueError):
            fail(f"'{operator}' of {left} and {right} is no number")
    if operator == "%":
        quotient = binary("/", left, right, emit, fail)
        if isinstance(quotient, SSAValue) and quotient.type != i32:
            quotient = emit(math_dialect.FloorOp(quotient))
        return binary("-", left, binary("*", quotient, right, emit, fail), emit, fail)
    if operator in "&|^" and _is_condition(left) and _is_condition(right):
        return emit(INTEGER_OPERATORS[SYMBOLS[operator]](left, right))
    lhs, rhs = _joined(operator, (left, right), emit, fail)
    operators, name = operators_on(lhs.type), SYMBOLS.get(operator, operator)
    if name not in operators:
        takes = "i32, not floating-point numbers"
        fail(
            f"'{operator}' takes {'floating-point numbers, not i32' if lhs.type == i32 else takes}"
        )
    return emit(operators[name](lhs, rhs))


def _is_condition(value: Scalar) -> bool:
    return isinstance(value, SSAValue) and value.type == i1


def compare(operator: str, left: Scalar, right: Scalar, emit: Emit, fail: Fail) -> SSAValue:
    """A comparison; false where a number is NaN, except ``!=``."""
    lhs, rhs = _joined(operator, (left, right), emit, fail)
    integer = lhs.type == i32
    kind = arith.CmpiOp if integer else arith.CmpfOp
    return emit(kind(lhs, rhs, predicate_of(operator, integer=integer)))


def select(condition: Scalar, left: Scalar, right: Scalar, emit: Emit, fail: Fail) -> SSAValue:
    """``left`` where the condition holds, ``right`` otherwise; both are evaluated."""
    if not isinstance(condition, SSAValue) or condition.type != i1:
        fail("select takes a comparison first: select(x < 0, -x, x)")
    lhs, rhs = _joined("select", (left, right), emit, fail)
    return emit(arith.SelectOp(condition, lhs, rhs))


def unary_function(name: str, value: Scalar, emit: Emit, fail: Fail) -> SSAValue:
    """A function of one floating-point number, or ``abs`` of any number."""
    if not isinstance(value, SSAValue):
        value = constant(value, f32, emit)
    if value.type == i1:
        fail(f"{name} takes a number, not a condition")
    value = widened(value, emit)
    operators = operators_on(value.type)
    if name not in operators:
        fail(f"{name} takes a floating-point number, not an i32; write f32(...) around it")
    return emit(operators[name](value))


def convert(value: Scalar, type_: Attribute, emit: Emit, fail: Fail) -> SSAValue:
    """What is stored in an element of a type: rounded between floating-point types."""
    wanted = next(name for name, known in te.ELEMENT_TYPES.items() if known == type_)
    if not isinstance(value, SSAValue):
        if type_ in WHOLE_TYPES and not is_number_of(type_, value):
            fail(f"{value:g} is no {wanted}")
        return constant(value, type_, emit)
    if value.type == type_:
        return value
    if {*WHOLE_TYPES} & {value.type, type_}:
        fail(f"a {type_name(value)} where {wanted} is expected; write {wanted}(...) around it")
    return cast_to(value, type_, emit, fail)


def cast_to(value: Scalar, type_: Attribute, emit: Emit, fail: Fail) -> SSAValue:
    """``f16(x)`` and the like; towards zero from floating-point to i32, 1 where a truth holds.

    What is narrower than f32 is rounded from f32, also where the value is of f64.
    """
    if not isinstance(value, SSAValue):
        if type_ == i1:
            return constant(value != 0, i1, emit)
        return constant(math.trunc(value) if type_ in WHOLE_TYPES else value, type_, emit)
    if value.type == type_:
        return value
    if type_ == i1:
        return compare("!=", value, 0, emit, fail)
    if value.type == i1:
        number = i32 if type_ in WHOLE_TYPES else f32
        one, zero = constant(1, number, emit), constant(0, number, emit)
        return cast_to(emit(arith.SelectOp(value, one, zero)), type_, emit, fail)
    value = widened(value, emit)
    if value.type == type_:
        return value
    if type_ in (i8, u8):
        return emit(arith.TruncIOp(cast_to(value, i32, emit, fail), cast(IntegerType, type_)))
    if type_ == i32:
        return emit(arith.FPToSIOp(value, i32))
    if value.type == i32:
        number = f64 if type_ == f64 else f32
        return cast_to(emit(arith.SIToFPOp(value, number)), type_, emit, fail)
    if type_ == f64:
        return emit(arith.ExtFOp(value, f64))
    if value.type == f64:
        return cast_to(emit(arith.TruncFOp(value, f32)), type_, emit, fail)
    return emit(arith.TruncFOp(value, cast(AnyFloat, type_)))


def fused_multiply_add(values: Sequence[Scalar], emit: Emit, fail: Fail) -> SSAValue:
    """``fma(a, b, c)``, rounded once."""
    a, b, c = _joined("fma", values, emit, fail)
    if a.type == i32:
        fail("fma takes floating-point numbers")
    return emit(math_dialect.FmaOp(a, b, c))
