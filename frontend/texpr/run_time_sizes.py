"""Sizes that a call says: extents that are made of them, and loops as long as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.indices import range_of
from mugraph.texpr import syntax
from mugraph.texpr.scope import (
    Binding,
    Bindings,
    IndexBinding,
    SizeBinding,
    constant_of,
    fail,
    index_of,
)


@dataclass(frozen=True)
class RunTimeExtent:
    """The extent of a loop: an expression whose dimensions are sizes, and its largest value."""

    expression: AffineExpr
    sizes: tuple[SSAValue, ...]
    largest: int

    def condition(self, variable: SSAValue, body: Block) -> te.IfOp:
        """What an iteration of the largest loop stands under: that it is in front of the end."""
        left = self.expression - AffineExpr.dimension(len(self.sizes)) - 1
        map_ = AffineMapAttr(AffineMap(len(self.sizes) + 1, 0, (left,)))
        return te.IfOp([*self.sizes, variable], map_, [False], body)


class RunTimeSizes:
    """The sizes of a function that a call says, and what they may be."""

    def __init__(self, bindings: Mapping[str, Binding]) -> None:
        self._sizes = {
            one.value: one.size
            for one in bindings.values()
            if isinstance(one, IndexBinding) and one.size is not None
        }

    def _range_of(self, size: SSAValue) -> tuple[int, int]:
        """The least and the largest value of a size."""
        return self._sizes[size].multiple, self._sizes[size].largest

    def extent_of(self, loop: syntax.Loop, bindings: Bindings) -> RunTimeExtent | None:
        """The extent of a loop where a call says some size in it; ``None`` for others."""
        sizes: list[SSAValue] = []
        expression = index_of(loop.extent, bindings, sizes)
        if not any(one in self._sizes for one in sizes):
            return None
        if any(one not in self._sizes for one in sizes):
            fail(loop.extent, "the extent of a loop is made of sizes, not of loops' variables")
        if loop.fully or loop.prefetch is not None:
            what = (
                "'fully par' has a thread or block" if loop.fully else "#prefetch(n) has a buffer"
            )
            fail(loop.extent, f"{what} for each iteration: their number is a constant")
        largest = range_of(expression, sizes, self._range_of)[1]
        return RunTimeExtent(expression, tuple(sizes), largest)

    def largest_extent(self, extent: syntax.Expression, bindings: Bindings) -> int:
        """The extent of a buffer; of one that a call says the largest."""
        sizes: list[SSAValue] = []
        expression = index_of(extent, bindings, sizes)
        if sizes and all(one in self._sizes for one in sizes):
            return range_of(expression, sizes, self._range_of)[1]
        return constant_of(extent, bindings, "an extent")


def names_of_extents(type_: syntax.Type, bindings: Bindings) -> list[str]:
    """Of each dimension of a buffer the size that a call says; ``""`` for numbers."""
    names: list[str] = []
    for extent in type_.extents or ():
        binding = bindings.get(extent.name) if isinstance(extent, syntax.Name) else None
        of_call = binding.size if isinstance(binding, IndexBinding) else None
        if of_call is None:
            constant_of(extent, bindings, "the extent of a parameter, which is no size alone,")
        names.append("" if of_call is None else of_call.name)
    return names


class _Product(NamedTuple):
    """A summand of an index: a number times expressions."""

    number: int
    factors: tuple[syntax.Expression, ...]


def _summands(expression: syntax.Expression, bindings: Bindings) -> list[_Product]:
    """The summands of an index expression, products multiplied out."""
    match expression:
        case syntax.Number(value=int(value)):
            return [_Product(value, ())]
        case syntax.Name(name=name) if isinstance(size := bindings.get(name), SizeBinding):
            return [_Product(size.value, ())]
        case syntax.Unary(operand=operand):
            return [one._replace(number=-one.number) for one in _summands(operand, bindings)]
        case syntax.Binary(operator="+" | "-" | "*" as operator):
            left, right = (
                _summands(side, bindings) for side in (expression.left, expression.right)
            )
            if operator == "*":
                return [
                    _Product(one.number * other.number, (*one.factors, *other.factors))
                    for one in left
                    for other in right
                ]
            sign = 1 if operator == "+" else -1
            return left + [one._replace(number=sign * one.number) for one in right]
        case _:
            return [_Product(1, (expression,))]


def _without(product: _Product, extent: _Product) -> _Product | None:
    """A summand divided by an extent; ``None`` where the extent is no factor of it."""
    names = [factor.name if isinstance(factor, syntax.Name) else "" for factor in product.factors]
    left = list(product.factors)
    for factor in extent.factors:
        if not isinstance(factor, syntax.Name) or factor.name not in names:
            return None
        place = names.index(factor.name)
        del names[place], left[place]
    if product.number % extent.number:
        return None
    return _Product(product.number // extent.number, tuple(left))


def of_dimensions(
    index: syntax.Expression, extents: Sequence[syntax.Expression], bindings: Bindings
) -> tuple[syntax.Expression, ...]:
    """The indices of an element that are its number in row-major order: ``i * N + j`` is i, j.

    What is a multiple of the extents behind a dimension is its index.  The number itself where
    these are all constants.
    """
    divisors = [one for extent in extents[1:] for one in _summands(extent, bindings)]
    if not any(divisor.factors for divisor in divisors):
        return (index,)
    rest = _summands(index, bindings)
    found: list[syntax.Expression] = []
    for divisor in reversed(divisors):
        quotients = [_without(one, divisor) for one in rest]
        pairs = [*zip(rest, quotients, strict=True)]
        found.append(_sum([one for one, outer in pairs if outer is None], index))
        rest = [outer for _one, outer in pairs if outer is not None]
    return (_sum(rest, index), *reversed(found))


def _sum(summands: Sequence[_Product], node: syntax.Expression) -> syntax.Expression:
    """The expression of summands, at the place of another one in the text."""
    total: syntax.Expression = syntax.Number(node.span, 0)
    for summand in summands:
        term: syntax.Expression = syntax.Number(node.span, summand.number)
        for factor in summand.factors:
            term = syntax.Binary(node.span, "*", factor, term)
        total = syntax.Binary(node.span, "+", total, term)
    return total


def move_inwards(condition: te.IfOp) -> None:
    """Lets the only parallel loop under a condition stand around it: nested loops are dealt as one.

    The condition joins one that all of the loop's body stands under.
    """
    (*rest,) = condition.body.block.ops
    if len(rest) != 1 or not isinstance(loop := rest[0], te.ParOp) or loop.is_fully:
        return
    loop.detach()
    Rewriter.insert_op(loop, InsertPoint.before(condition))
    condition.detach()
    inside = [*loop.body.block.ops]
    if len(inside) == 1 and isinstance(inner := inside[0], te.IfOp):
        count = len(condition.indices)
        moved = [AffineExpr.dimension(count + place) for place in range(len(inner.indices))]
        expressions = (
            *condition.map.data.results,
            *(one.replace_dims_and_symbols(moved, []) for one in inner.map.data.results),
        )
        operands = [*condition.indices, *inner.indices]
        map_ = AffineMapAttr(AffineMap(len(operands), 0, expressions))
        equal = [*condition.equalities.get_values(), *inner.equalities.get_values()]
        joined = te.IfOp(
            operands, map_, [bool(one) for one in equal], inner.detach_region(inner.body)
        )
        joined.location = condition.location
        inner.detach()
        inner.erase()
        condition.erase()
        loop.body.block.add_op(joined)
        return
    for op in inside:
        op.detach()
        condition.body.block.add_op(op)
    loop.body.block.add_op(condition)
