"""Quasi-affine index expressions: their text, and how they are kept beside their operands.

An expression is built of induction variables, constants, negation, sums, products with a constant,
floor division and modulo by a positive constant.  An operator keeps the expressions as a builtin
``affine_map`` whose dimensions are its ``indices`` operands; its text has the variables in place:
``[%i * 64 + %j floordiv 4]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AffineMapAttr, DenseArrayBase, IntegerType, i1
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.parser.affine_parser import AffineParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.mlir_lexer import MLIRToken

from mugraph.dialects.tensor_types import row_major_strides

_SUM, _PRODUCT, _ATOM = range(3)
_TOKENS = {
    AffineBinaryOpKind.Add: ("+", _SUM),
    AffineBinaryOpKind.Mul: ("*", _PRODUCT),
    AffineBinaryOpKind.FloorDiv: ("floordiv", _PRODUCT),
    AffineBinaryOpKind.CeilDiv: ("ceildiv", _PRODUCT),
    AffineBinaryOpKind.Mod: ("mod", _PRODUCT),
}


Call: TypeAlias = Callable[[AffineBinaryOpExpr, Callable[[AffineExpr], str]], str | None]
"""The text of an operation as a call, given that of its operands; ``None`` for an infix."""


def index_text(
    expression: AffineExpr,
    names: Sequence[str],
    tokens: tuple[str, str] = ("floordiv", "mod"),
    precedence: int = _SUM,
    call: Call | None = None,
) -> str:
    """An expression with ``names`` for its dimensions; ``tokens`` are those of division and modulo.

    It reads back to the same expression, but for what ``call`` writes.
    """

    def part(one: AffineExpr, level: int = _SUM) -> str:
        return index_text(one, names, tokens, level, call)

    match expression:
        case AffineConstantExpr():
            return str(expression.value)
        case AffineDimExpr():
            return names[expression.position]
        case AffineBinaryOpExpr():
            if call is not None and (text := call(expression, part)) is not None:
                return text
            token, level = _TOKENS[expression.kind]
            token = {"floordiv": tokens[0], "mod": tokens[1]}.get(token, token)
            first, right = expression.lhs, expression.rhs
            is_sum = expression.kind is AffineBinaryOpKind.Add
            if is_sum and isinstance(right, AffineConstantExpr) and negated(first) is not None:
                first, right = right, first  # `3 - i` reads as `i * -1 + 3`
            left = part(first, level)
            if is_sum:
                taken = negated(right)
                if taken is not None:
                    token, right = "-", taken
            text = f"{left} {token} {part(right, level + 1)}"
            return f"({text})" if level < precedence else text
        case _:
            raise VerifyException("an index expression has no symbols")


def compared(expression: AffineExpr, *, equal: bool) -> tuple[AffineExpr, str, int]:
    """``expression == 0`` or ``>= 0`` with its constant on the other side, as in ``i <= 3``."""
    token, bound = "==" if equal else ">=", 0
    match expression:
        case AffineBinaryOpExpr(AffineBinaryOpKind.Add, rest, AffineConstantExpr(constant)):
            expression, bound = rest, -constant
        case _:
            pass
    match expression:
        case AffineBinaryOpExpr(AffineBinaryOpKind.Mul, rest, AffineConstantExpr(-1)) if not equal:
            return rest, "<=", -bound
        case _:
            return expression, token, bound


def negated(expression: AffineExpr) -> AffineExpr | None:
    """``x`` for ``-x``, ``c x`` for ``-c x``, where that is how the expression was written."""
    match expression:
        case AffineConstantExpr(value) if value < 0:
            return AffineExpr.constant(-value)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, lhs=lhs, rhs=AffineConstantExpr(c)):
            # The text must read back to the same tree, and a product binds to the left.
            if c < 0 and not isinstance(lhs, AffineConstantExpr):
                return lhs * -c
            return None
        case _:
            return None


class IndexReader(AffineParser):
    """Reads index expressions of an operator and collects the variables in them."""

    def __init__(self, parser: Parser) -> None:
        super().__init__(parser._parser_state)  # pyright: ignore[reportPrivateUsage]
        self.operands: list[UnresolvedOperand] = []
        self._names: list[str] = []
        self._variables = parser

    def expression(self) -> AffineExpr:
        """Reads a sum; raises ``ParseError`` where it is not quasi-affine."""
        return self._parse_affine_expr(self._variable)

    def _variable(self) -> AffineExpr | None:
        operand = self._variables.parse_optional_unresolved_operand()
        if operand is None:
            return None
        name = f"{operand.operand_name}#{operand.index}"
        if name not in self._names:
            self._names.append(name)
            self.operands.append(operand)
        return AffineExpr.dimension(self._names.index(name))

    def _create_binop_expr(self, lhs: AffineExpr, rhs: AffineExpr, binop: MLIRToken) -> AffineExpr:
        factors = [one for one in (lhs, rhs) if isinstance(one, AffineConstantExpr)]
        if binop.text == "*" and not factors:
            raise ParseError(
                binop.span,
                "a product of two variables is not quasi-affine; one factor must be a constant",
            )
        is_divided = binop.text in ("floordiv", "ceildiv", "mod")
        if is_divided and not (isinstance(rhs, AffineConstantExpr) and rhs.value > 0):
            message = "the divisor of an index must be a positive constant"
            raise ParseError(binop.span, message)
        return super()._create_binop_expr(lhs, rhs, binop)

    def map(self, expressions: Sequence[AffineExpr]) -> AffineMapAttr:
        """The expressions as one map of the variables met so far."""
        return AffineMapAttr(AffineMap(len(self.operands), 0, tuple(expressions)))


def range_of(
    expression: AffineExpr,
    operands: Sequence[SSAValue],
    bounds: Callable[[SSAValue], tuple[int, int]],
) -> tuple[int, int]:
    """The least and the greatest value of an expression, by the ``bounds`` of its operands."""
    match expression:
        case AffineConstantExpr(value):
            return value, value
        case AffineDimExpr():
            return bounds(operands[expression.position])
        case AffineBinaryOpExpr(kind=kind, lhs=lhs, rhs=rhs):
            low, high = range_of(lhs, operands, bounds)
            first, last = range_of(rhs, operands, bounds)
            match kind:
                case AffineBinaryOpKind.Add:
                    return low + first, high + last
                case AffineBinaryOpKind.Mul:
                    products = (low * first, high * first)
                    return min(products), max(products)
                case AffineBinaryOpKind.FloorDiv:
                    return low // first, high // first
                case AffineBinaryOpKind.CeilDiv:
                    return -(-low // first), -(-high // first)
                case AffineBinaryOpKind.Mod:
                    fits = low >= 0 and high < first
                    return (low, high) if fits else (0, first - 1)
        case _:
            raise VerifyException("an index expression has no symbols")


def terms_of(expression: AffineExpr, factor: int = 1) -> list[tuple[AffineExpr, int]]:
    """What a sum is of, each without and with its constant factor."""
    match expression:
        case AffineConstantExpr(value):
            return [(AffineExpr.constant(1), value * factor)] if value else []
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add, lhs=lhs, rhs=rhs):
            return terms_of(lhs, factor) + terms_of(rhs, factor)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, lhs=lhs, rhs=AffineConstantExpr(by)):
            return terms_of(lhs, factor * by)
        case _:
            return [(expression, factor)]


def coordinates_of(index: Sequence[AffineExpr], shape: Sequence[int]) -> tuple[AffineExpr, ...]:
    """An index as one expression a dimension, also where it is the row-major number."""
    if len(index) == len(shape):
        return tuple(index)
    (number,) = index
    found: list[AffineExpr] = []
    for place, (extent, stride) in enumerate(zip(shape, row_major_strides(shape), strict=True)):
        if extent == 1:
            found.append(AffineExpr.constant(0))
            continue
        quotient = number if stride == 1 else number // stride
        found.append(quotient if place == 0 else quotient % extent)
    return tuple(found)


def print_index(printer: Printer, expression: AffineExpr, operands: Sequence[SSAValue]) -> None:
    """Prints ``%i * 64 + %j``."""
    # The printer gives names as it prints them: the text between them is made first.
    text = index_text(expression, [f"\0{position}\0" for position in range(len(operands))])
    for count, part in enumerate(text.split("\0")):
        if count % 2:
            printer.print_ssa_value(operands[int(part)])
        else:
            printer.print_string(part)


def verify_indices(label: str, map_: AffineMap, operands: Sequence[SSAValue]) -> None:
    """Raises ``VerifyException`` unless ``map_`` is quasi-affine in as many operands."""
    if map_.num_symbols or map_.num_dims != len(operands):
        raise VerifyException(
            f"{label}: its map of indices has {map_.num_dims} dimensions and {map_.num_symbols} "
            f"symbols; expected {len(operands)} dimensions, one an operand"
        )
    for expression in map_.results:
        for part in expression.dfs():
            if isinstance(part, AffineBinaryOpExpr) and part.kind in (
                AffineBinaryOpKind.FloorDiv,
                AffineBinaryOpKind.CeilDiv,
                AffineBinaryOpKind.Mod,
            ):
                divisor = part.rhs
                if not (isinstance(divisor, AffineConstantExpr) and divisor.value > 0):
                    raise VerifyException(
                        f"{label}: the divisor of an index must be a positive constant"
                    )


def _print_map(
    printer: Printer, map_: AttributeVariable, indices: VariadicOperandVariable, op: IRDLOperation
) -> None:
    """Prints ``%i * 64 + %j, 0``."""
    attribute = map_.get(op)
    if isinstance(attribute, AffineMapAttr):
        operands = indices.get(op)
        printer.print_list(
            attribute.data.results, lambda expression: print_index(printer, expression, operands)
        )


@irdl_custom_directive
class IndexList(CustomDirective):
    """``[%i * 64 + %j, 0]``, without a space before it."""

    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the expressions."""
        reader = IndexReader(parser)
        expressions = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, reader.expression)
        self.map.set(state, reader.map(expressions))
        self.indices.set(state, reader.operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the expressions."""
        with printer.in_square_brackets():
            _print_map(printer, self.map, self.indices, op)
        state.should_emit_space, state.last_was_punctuation = True, False


@irdl_custom_directive
class Index(CustomDirective):
    """``%i * 64 + %j``."""

    indices: VariadicOperandVariable
    map: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the expression."""
        reader = IndexReader(parser)
        self.map.set(state, reader.map([reader.expression()]))
        self.indices.set(state, reader.operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the expression."""
        state.print_whitespace(printer)
        _print_map(printer, self.map, self.indices, op)


@irdl_custom_directive
class Conditions(CustomDirective):
    """``%i - 1 >= 0, %j mod 2 == 0``: expressions, and whether each is equal to 0."""

    indices: VariadicOperandVariable
    map: AttributeVariable
    equalities: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Parses the conditions."""
        reader = IndexReader(parser)
        equalities: list[int] = []

        def condition() -> AffineExpr:
            expression = reader.expression()
            # `>=` and `==` are two tokens each.
            equal = parser.parse_optional_punctuation("=") is not None
            if not equal:
                parser.parse_punctuation(">")
            parser.parse_punctuation("=")
            if parser.parse_integer(allow_boolean=False):
                parser.raise_error("a condition is '>= 0' or '== 0'")
            equalities.append(int(equal))
            return expression

        expressions = parser.parse_comma_separated_list(parser.Delimiter.NONE, condition)
        self.map.set(state, reader.map(expressions))
        self.equalities.set(state, DenseArrayBase.from_list(i1, equalities))
        self.indices.set(state, reader.operands)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Prints the conditions."""
        map_, equalities = self.map.get(op), self.equalities.get(op)
        if not isinstance(map_, AffineMapAttr) or not isa(equalities, DenseArrayBase[IntegerType]):
            return
        for position, (expression, equal) in enumerate(
            zip(map_.data.results, equalities.get_values(), strict=True)
        ):
            printer.print_string(", " if position else " ")
            print_index(printer, expression, self.indices.get(op))
            printer.print_string(" == 0" if equal else " >= 0")
        state.should_emit_space, state.last_was_punctuation = True, False
