"""The body of a kernel that is being written: operators on tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.elementwise import ScalarFunction
from mugraph.dialects.precision import Precision
from mugraph.dialects.shapes import ShapeError, broadcast_shape, matmul_shape
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.mugraph.retile.writer import KernelWriter
from mugraph.passes.program.fuse_kernels.errors import NotFusedError


class Maximum(NamedTuple):
    """The largest elements of tiles of the loop along a dimension, over all iterations."""

    scores: SSAValue
    dim: int


@dataclass
class TileWriter(KernelWriter):
    """Appends operators on tiles, of the extents that their operands have."""

    maxima: list[Maximum] = field(default_factory=list[Maximum])

    def first(self, op: Operation) -> SSAValue:
        """Appends an operator; its first result."""
        return self.add(op).results[0]

    def name_last(self, hint: str | None) -> None:
        """Names what the last operator gives, unless it has a name."""
        last = self.block.last_op
        if last is not None and last.results:
            last.results[0].name_hint = last.results[0].name_hint or hint

    def apply(
        self,
        function: str,
        *tiles: SSAValue,
        constants: Sequence[float] = (),
        type_: Attribute = f32,
    ) -> SSAValue:
        """A scalar function of each element."""
        shape = broadcast_shape([shape_of(tile.type) for tile in tiles])
        return self.first(
            tb.elementwise(
                ScalarFunction(function, tuple(constants)), tiles, tb.STensorType(shape, type_)
            )
        )

    def cast(self, tile: SSAValue, type_: Attribute) -> SSAValue:
        """The tile in an element type."""
        if element_type_of(tile.type) == type_:
            return tile
        return self.first(tb.CastOp(tile, tb.STensorType(shape_of(tile.type), type_)))

    def product(
        self, left: SSAValue, right: SSAValue, type_: Attribute, precision: Precision | None
    ) -> SSAValue:
        """The matrix product.

        Raises :class:`NotFusedError` where a factor has one tile for several matrices.
        """
        try:
            shape = matmul_shape(shape_of(left.type), shape_of(right.type))
        except ShapeError as error:
            raise NotFusedError(f"a product has tiles that do not fit: {error}") from error
        return self.first(tb.MatmulOp(left, right, tb.STensorType(shape, type_), precision))

    def reduce(self, tile: SSAValue, dim: int, type_: Attribute) -> SSAValue:
        """The sum along a dimension of a tile."""
        return self.first(tb.ReductionOp(tile, dim, _without(tile, dim, type_)))

    def accumulate(self, tile: SSAValue) -> SSAValue:
        """The sum over the iterations."""
        return self.first(tb.ForloopAccumOp(tb.AccumulatorKind.NONE, tile, tile.type))

    def total(self, tile: SSAValue, dim: int, type_: Attribute) -> SSAValue:
        """The sum along a dimension of all tiles of the loop."""
        if dim != len(shape_of(tile.type)) - 1:
            return self.accumulate(self.reduce(tile, dim, type_))
        kind = tb.AccumulatorKind.SUM
        return self.first(tb.ForloopAccumOp(kind, tile, _without(tile, dim, type_)))

    def largest(self, tile: SSAValue, dim: int) -> SSAValue:
        """The largest elements along a dimension, so far."""
        type_ = _without(tile, dim, f32)
        return self.first(tb.ReductionMaxOp(tile, dim, (type_, type_)))

    def maximum(self, number: int) -> SSAValue:
        """One of the maxima, after the loop."""
        scores, dim = self.maxima[number]
        largest = self.largest(scores, dim)
        return self.first(tb.ForloopAccumOp(tb.AccumulatorKind.MAX, largest, largest.type))


def _without(tile: SSAValue, dim: int, type_: Attribute) -> tb.STensorType:
    shape = list(shape_of(tile.type))
    shape[dim] = 1
    return tb.STensorType(shape, type_)


__all__ = ["Maximum", "TileWriter"]
