"""Places and expressions of a function, as operators of the ``te`` dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from xdsl.dialects.builtin import AffineMapAttr, FileLineColLoc, IntAttr, StringAttr, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.lexer import Span

from mugraph.dialects import te
from mugraph.dialects.te.numbers import COMPARISONS, UNARY_OPERATORS
from mugraph.texpr import scalars, syntax
from mugraph.texpr.run_time_sizes import of_dimensions
from mugraph.texpr.scope import (
    Binding,
    BufferBinding,
    CallSizeBinding,
    IndexBinding,
    MbarriersBinding,
    SizeBinding,
    ValueBinding,
    constant_of,
    fail,
    index_of,
    is_index,
    is_number,
    lookup,
)

UNKNOWN_EXTENT = 2**31 - 1
"""The extent of an undeclared parameter until its accesses are known."""
_ARITY = {"max": 2, "min": 2, "pow": 2, "select": 3, "fma": 3}

FUNCTIONS = ", ".join([*UNARY_OPERATORS, "abs", *_ARITY, *te.ELEMENT_TYPES])
"""Those of numbers, as messages list them."""


def is_builtin(name: str) -> bool:
    """Whether it is a function of numbers."""
    return name in _ARITY or name in te.ELEMENT_TYPES or name in UNARY_OPERATORS or name == "abs"


def location_of(span: Span[str]) -> FileLineColLoc:
    """Where a part of the text is."""
    place = span.get_location()
    return FileLineColLoc(StringAttr(place.file), IntAttr(place.line), IntAttr(place.col))


class ExpressionBuilder:
    """Adds expressions, and what they read, to a block."""

    def __init__(self, block: Block, bindings: dict[str, Binding]) -> None:
        self._block = block
        self._bindings = bindings
        self._span: Span[str] | None = None

    def _add(self, operation: Operation) -> SSAValue:
        if self._span is not None:
            operation.location = location_of(self._span)
        self._block.add_op(operation)
        return operation.results[0]

    def _append(self, operation: Operation, node: syntax.Node) -> None:
        operation.location = location_of(node.span)
        self._block.add_op(operation)
        if isinstance(operation, te.CallOp):
            return  # checked by ``Specialise``; there is no module yet to find the function in
        self._check(operation, node)

    def _check(self, operation: Operation, node: syntax.Node) -> None:
        """Verifies an operator, and fails at its place in the text."""
        try:
            operation.verify(verify_nested_ops=False)
        except VerifyException as error:
            fail(node, str(error).removeprefix("Operation does not verify: "))

    def _buffer(self, node: syntax.Node, name: str) -> BufferBinding:
        binding = lookup(node, name, self._bindings)
        if not isinstance(binding, BufferBinding):
            fail(node, f"'{name}' is no buffer")
        return binding

    def _place(
        self, place: syntax.Name | syntax.Element
    ) -> tuple[BufferBinding, list[SSAValue], AffineMapAttr]:
        if isinstance(place, syntax.Name):
            binding = self._buffer(place, place.name)
            if not binding.scalar:
                fail(place, f"'{place.name}' has several elements: write {place.name}[...]")
            return binding, [], AffineMapAttr(AffineMap.constant_map(0))
        binding = self._buffer(place, place.buffer)
        shape = binding.type.get_shape()
        rank = len(shape)
        if len(place.indices) not in (1, rank):
            fail(
                place,
                f"'{place.buffer}' has {rank} dimensions, and {len(place.indices)} indices here",
            )
        indices = place.indices
        if len(indices) != rank and not is_number(indices[0], self._bindings):
            indices = of_dimensions(indices[0], binding.extents, self._bindings)
        extents = shape if len(indices) == rank else (binding.type.elements,)
        variables: list[SSAValue] = []
        expressions = tuple(
            self._element_index(index, extent, variables)
            for index, extent in zip(indices, extents, strict=True)
        )
        return binding, variables, AffineMapAttr(AffineMap(len(variables), 0, expressions))

    def _element_index(
        self, index: syntax.Expression, extent: int, variables: list[SSAValue]
    ) -> AffineExpr:
        """An index of an element: an expression of loops, or a number that is computed."""
        if not is_number(index, self._bindings):
            return index_of(index, self._bindings, variables)
        value = self._value(index)
        if not isinstance(value, SSAValue) or value.type != i32:
            fail(index, f"an index is a whole number, an i32, not a {scalars.type_name(value)}")
        if extent >= UNKNOWN_EXTENT:
            fail(index, "a buffer that numbers are indices of is declared, with its extents")
        operation = te.IndexOfOp(value, extent)
        self._append(operation, index)
        variables.append(operation.result)
        return AffineExpr.dimension(len(variables) - 1)

    def _failing(self, node: syntax.Node) -> Callable[[str], NoReturn]:
        return lambda message: fail(node, message)

    def _converted(self, value: scalars.Scalar, type_: Attribute, node: syntax.Node) -> SSAValue:
        return scalars.convert(value, type_, self._add, self._failing(node))

    def _value(self, expression: syntax.Expression) -> scalars.Scalar:
        outer, self._span = self._span, expression.span
        try:
            if is_index(expression, self._bindings):
                return self._index_value(expression)
            return self._scalar(expression)
        finally:
            self._span = outer

    def _index_value(self, expression: syntax.Expression) -> SSAValue:
        variables: list[SSAValue] = []
        index = index_of(expression, self._bindings, variables)
        map_ = AffineMapAttr(AffineMap(len(variables), 0, (index,)))
        return self._add(te.IndexValueOp(variables, map_))

    def _named_value(self, expression: syntax.Expression) -> ValueBinding:
        """What the name of a ``let`` stands for; one of an index may stand in indices."""
        value = self._value(expression)
        index: tuple[tuple[SSAValue, ...], AffineExpr] | None = None
        if is_index(expression, self._bindings, named=True):
            variables: list[SSAValue] = []
            found = index_of(expression, self._bindings, variables)
            index = tuple(variables), found
        return ValueBinding(value, index)

    def _scalar(self, expression: syntax.Expression) -> scalars.Scalar:
        failing = self._failing(expression)
        match expression:
            case syntax.Number(value=value):
                return value
            case syntax.Name():
                return self._named(expression)
            case syntax.Unary(operand=operand):
                return scalars.negate(self._value(operand), self._add, failing)
            case syntax.Binary(operator=operator):
                left, right = self._value(expression.left), self._value(expression.right)
                if operator in COMPARISONS:
                    return scalars.compare(operator, left, right, self._add, failing)
                return scalars.binary(operator, left, right, self._add, failing)
            case syntax.Element():
                buffer, variables, map_ = self._place(expression)
                view = te.ViewOp(buffer.value, variables, map_)
                self._append(view, expression)
                return view.result
            case syntax.Section():
                fail(expression, "a section is no number; it is an argument of a function")
            case syntax.Apply():
                return self._apply(expression)

    def _named(self, name: syntax.Name) -> scalars.Scalar:
        if name.name == "inf":
            return float("inf")
        match lookup(name, name.name, self._bindings):
            case SizeBinding(value=value):
                return value
            case ValueBinding(value=value):
                return value
            case BufferBinding():
                buffer, variables, map_ = self._place(name)
                view = te.ViewOp(buffer.value, variables, map_)
                self._append(view, name)
                return view.result
            case IndexBinding():
                return self._index_value(name)
            case CallSizeBinding():
                fail(name, f"a call says '{name.name}', and only functions that it calls know it")
            case MbarriersBinding():
                fail(name, f"'{name.name}' are mbarriers, which are no numbers")

    def _apply(self, call: syntax.Apply) -> scalars.Scalar:
        failing = self._failing(call)
        name, count = call.function, len(call.arguments)
        if not is_builtin(name):
            fail(
                call,
                f"{name} is no function of numbers ({FUNCTIONS}); the result of a 'fn' is a "
                f"buffer, to be stored first: new c = {name}(...)",
            )
        expected = _ARITY.get(name, 1)
        if count != expected:
            fail(call, f"{name} takes {expected} argument{'s'[: expected > 1]}, not {count}")
        values = [self._value(argument) for argument in call.arguments]
        if name in te.ELEMENT_TYPES:
            return scalars.cast_to(values[0], te.ELEMENT_TYPES[name], self._add, failing)
        if name in scalars.BINARY_FUNCTIONS:
            return scalars.binary(name, values[0], values[1], self._add, failing)
        if name == "select":
            return scalars.select(values[0], values[1], values[2], self._add, failing)
        if name == "fma":
            return scalars.fused_multiply_add(values, self._add, failing)
        return scalars.unary_function(name, values[0], self._add, failing)

    def _section(self, section: syntax.Section) -> SSAValue:
        binding = self._buffer(section, section.buffer)
        variables: list[SSAValue] = []
        starts = [index_of(start, self._bindings, variables) for start in section.starts]
        extents = [constant_of(one, self._bindings, "an extent") for one in section.extents]
        rank = len(binding.type.get_shape())
        if len(starts) != rank:
            fail(section, f"'{section.buffer}' has {rank} dimensions, its section {len(starts)}")
        map_ = AffineMapAttr(AffineMap(len(variables), 0, tuple(starts)))
        operation = te.SectionOp(binding.value, variables, map_, extents)
        self._append(operation, section)
        return operation.result
