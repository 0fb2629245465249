"""Sizes that a call says: extents that are made of them, and loops as long as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from mugraph.dialects import te
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.te.indices import range_of
from mugraph.texpr import syntax
from mugraph.texpr.scope import Binding, Bindings, IndexBinding, constant_of, fail, index_of


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
