"""The body of a kernel that is being written: operators on tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
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
    others: tuple[SSAValue, ...] = ()
    """What exists after the loop, and may be larger."""


@dataclass
class TileWriter(KernelWriter):
    """Appends operators on tiles, of the extents that their operands have."""

    maxima: list[Maximum] = field(default_factory=list[Maximum])
    without_rule: list[str] = field(default_factory=list[str])
    """Functions behind which one of these does not cancel."""

    def number_of(self, maximum: Maximum) -> int:
        """The number of a maximum among these; equal ones have one number."""
        if maximum not in self.maxima:
            self.maxima.append(maximum)
        return self.maxima.index(maximum)

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
        try:
            shape = broadcast_shape([shape_of(tile.type) for tile in tiles])
        except ShapeError as error:
            # A part of a concatenation that the kernel cuts, beside what it has whole.
            raise NotFusedError(f"two tiles have different extents: {error}") from error
        return self.first(
            tb.elementwise(
                ScalarFunction(function, tuple(constants)), tiles, tb.STensorType.of(shape, type_)
            )
        )

    def cast(self, tile: SSAValue, type_: Attribute) -> SSAValue:
        """The tile in an element type."""
        if element_type_of(tile.type) == type_:
            return tile
        return self.first(tb.CastOp(tile, tb.STensorType.of(shape_of(tile.type), type_)))

    def product(
        self, left: SSAValue, right: SSAValue, type_: Attribute, precision: Precision | None
    ) -> SSAValue:
        """The matrix product.

        Raises :class:`NotFusedError` where a factor has one tile for several matrices.
        """
        try:
            shape = matmul_shape(shape_of(left.type), shape_of(right.type))
        except ShapeError as error:
            raise NotFusedError(f"the tiles of a matrix product do not fit: {error}") from error
        return self.first(tb.MatmulOp(left, right, tb.STensorType.of(shape, type_), precision))

    def reduce(self, tile: SSAValue, dim: int, type_: Attribute) -> SSAValue:
        """The sum along a dimension of a tile."""
        return self.first(tb.ReductionOp(tile, dim, _without(tile, dim, type_)))

    def part(self, tile: SSAValue, dim: int, start: int, extent: int) -> SSAValue:
        """The elements of a tile from ``start`` on along a dimension."""
        whole = shape_of(tile.type)[dim]
        extents = [start, extent, whole - start - extent]
        if whole == 1 or extents[2] < 0:
            raise NotFusedError(
                "a slice is cut out of a tile that does not have the whole dimension"
            )
        types = [_with(tile, dim, each) for each in extents if each > 0]
        return self.add(tb.SplitOp(tile, dim, types)).results[int(start > 0)]

    def join(self, tiles: Sequence[SSAValue], dim: int, type_: Attribute) -> SSAValue:
        """Tiles one after the other along a dimension."""
        tiles = [self.cast(tile, type_) for tile in tiles]
        extent = sum(shape_of(tile.type)[dim] for tile in tiles)
        return self.first(tb.ConcatOp(tiles, dim, _with(tiles[0], dim, extent)))

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
        scores, dim, others = self.maxima[number]
        largest = self.largest(scores, dim)
        found = self.first(tb.ForloopAccumOp(tb.AccumulatorKind.MAX, largest, largest.type))
        return reduce(lambda one, other: self.apply("max", one, other), others, found)


def _with(tile: SSAValue, dim: int, extent: int, type_: Attribute | None = None) -> tb.STensorType:
    """A tile's type with another extent along a dimension, and perhaps other elements."""
    shape = list(shape_of(tile.type))
    shape[dim] = extent
    return tb.STensorType.of(tuple(shape), type_ or element_type_of(tile.type))


def _without(tile: SSAValue, dim: int, type_: Attribute) -> tb.STensorType:
    return _with(tile, dim, 1, type_)
