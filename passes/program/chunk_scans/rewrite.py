"""Writes a scan as products of matrices within chunks, and a scan of what chunks leave."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, reduce

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Attribute, SSAValue

from mugraph.dialects import kn
from mugraph.dialects.element_types import HALF_TYPES
from mugraph.dialects.kn.composite import Expansion
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.precision import Precision
from mugraph.dialects.tensor_types import element_type_of, shape_of
from mugraph.passes.program.chunk_scans.analysis import Recurrence, aligned, long_dims
from mugraph.passes.program.chunk_scans.logarithms import logarithm

ROWS, COLUMNS = -2, -1


class ChunkWriter:
    """Writes a recurrence in chunks.

    Tensors are ``[*batch, chunks, rows, columns]``; an extent is 1 where they are the same.
    ``numbers`` is any tensor of at least as many elements as a chunk has: it gives a matrix of
    constants its extents.
    """

    def __init__(self, found: Recurrence, parts: Expansion, numbers: SSAValue) -> None:
        self.found = found
        self.parts = parts
        self.numbers = numbers
        shape = shape_of(found.scan.input.type)
        self.batch = [shape[dim] for dim in found.batch]
        self.size = found.chunk
        self.rank = len(self.batch) + 3
        factors = [*found.keys, *found.queries, *found.values]
        inner = {*found.depth, *found.width}
        types = {element_type_of(each.type) for each in factors if long_dims(each) & inner}
        self.factor_type: Attribute = f32
        """What matrices are rounded to before they are multiplied: nothing is lost of f32."""
        if len(types) == 1 and not types.isdisjoint(HALF_TYPES):
            (self.factor_type,) = types

    # Views of the program's tensors.

    def rows(self, value: SSAValue, dims: Sequence[int]) -> SSAValue:
        """A tensor with a row for each element of a chunk; ``dims`` together are the columns."""
        found, shape = self.found, shape_of(value.type)
        first = [*found.batch, found.dim, *dims]
        order = [*first, *(dim for dim in range(len(shape)) if dim not in first)]
        if order != sorted(order):
            value = self.parts.add(kn.TransposeOp(value, order))
        along = [found.chunks, self.size] if shape[found.dim] > 1 else [1, 1]
        columns = math.prod(shape[dim] for dim in dims)
        return self.reshaped(value, [*(shape[dim] for dim in found.batch), *along, columns])

    def reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The same elements in the same order."""
        if [*shape_of(value.type)] == [*shape]:
            return value
        return self.parts.add(kn.ReshapeOp(value, TensorType(element_type_of(value.type), shape)))

    def turned(self, value: SSAValue) -> SSAValue:
        """A tensor with rows for columns."""
        order = list(range(self.rank))
        order[ROWS], order[COLUMNS] = order[COLUMNS], order[ROWS]
        return self.parts.add(kn.TransposeOp(value, order))

    def product_of(
        self, values: Sequence[SSAValue], dims: Sequence[int], scale: float = 1.0
    ) -> SSAValue:
        """The product of factors and a number, with a row for each element of a chunk."""
        product = reduce(
            lambda one, other: self.parts.apply("mul", one, other),
            [self.rows(value, dims) for value in values],
        )
        if scale == 1.0:
            return product
        return self.parts.apply("mul_scalar", product, constants=(scale,))

    # Operators.

    def rounded(self, value: SSAValue, type_: Attribute | None = None) -> SSAValue:
        """A matrix as it is multiplied."""
        type_ = type_ or self.factor_type
        if element_type_of(value.type) == type_:
            return value
        return self.parts.add(kn.CastOp(value, TensorType(type_, shape_of(value.type))))

    def matmul(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """A product for each chunk, in fp32."""
        return self.product(self.rounded(left), self.rounded(right))

    def product(self, left: SSAValue, right: SSAValue) -> SSAValue:
        """A product for each chunk, in fp32, of matrices of one type."""
        leading = (*self.batch, self.found.chunks)
        lhs, rhs = (self.spread(value, leading) for value in (left, right))
        type_ = TensorType(f32, (*leading, shape_of(left.type)[-2], shape_of(right.type)[-1]))
        precision = Precision.IEEE if self.factor_type == f32 else None
        return self.parts.add(kn.MatmulOp(lhs, rhs, type_, precision=precision))

    def spread(self, value: SSAValue, leading: Sequence[int]) -> SSAValue:
        """A matrix for each chunk, where all are the same."""
        shape = [*leading, *shape_of(value.type)[-2:]]
        if shape == [*shape_of(value.type)]:
            return value
        return self.parts.add(kn.BroadcastOp(value, TensorType(element_type_of(value.type), shape)))

    def masked(
        self, square: SSAValue, *, upper: bool = False, constant: float = 0.0, apart: int = 0
    ) -> SSAValue:
        """A square matrix ``apart`` places below its diagonal, or above it; else a constant."""
        steps = [0] * self.rank
        steps[ROWS], steps[COLUMNS] = (-1, 1) if upper else (1, -1)
        return self.parts.add(kn.MaskOp(square, [LinearForm(tuple(steps), -apart)], constant))

    @cached_property
    def zeros(self) -> SSAValue:
        """A square of zeros."""
        return self.constant(0.0)

    def constant(self, number: float) -> SSAValue:
        """A square of one number; the numbers that give it its extents have no part in it."""
        parts, type_ = self.parts, element_type_of(self.numbers.type)
        flat = self.reshaped(self.numbers, [math.prod(shape_of(self.numbers.type))])
        some = parts.add(kn.SliceOp(flat, [0], TensorType(type_, [self.size])))
        ones = [1] * (self.rank - 2)
        row = self.reshaped(some, [*ones, 1, self.size])
        column = self.reshaped(some, [*ones, self.size, 1])
        return parts.apply("fill", parts.apply("add", column, row), constants=(number,))

    # The recurrence.

    def write(self) -> SSAValue:
        """What :class:`Recurrence` calls y, of its type."""
        found = self.found
        decays = None if found.scan.decay is None else Decays(self, found.scan.decay)
        values = self.product_of(found.values, found.width, found.scale)
        if found.depth:
            inside, left, queries = self.of_products(values, decays)
        else:
            inside, left, queries = *self.of_sums(values, decays), None
        # What the chunks before have left: of all but their own elements.
        dim = len(self.batch)
        decay = None if decays is None else decays.of_chunk
        before = self.parts.add(kn.ScanOp(left, dim, left.type, decay, exclusive=True))
        if queries is not None:
            before = self.matmul(queries, before)
        if decays is not None:
            before = self.parts.apply("mul", before, decays.up_to_each)
        return self.as_result(self.parts, inside, before)

    def of_products(
        self, values: SSAValue, decays: Decays | None
    ) -> tuple[SSAValue, SSAValue, SSAValue]:
        """What a chunk's elements give one another, what they leave, and the queries.

        Sums are exchanged: q_t (sum of d_tj k_j v_j) is the sum of (q_t k_j) d_tj v_j.
        """
        found, parts = self.found, self.parts
        queries = self.rounded(self.product_of(self.turned_queries(), found.depth))
        keys = self.turned(self.product_of(found.keys, found.depth))
        scores = self.matmul(queries, keys)
        if decays is None:
            return self.matmul(self.masked(scores), values), self.matmul(keys, values), queries
        inside = self.matmul(parts.apply("mul", scores, decays.between), values)
        left = self.matmul(parts.apply("mul", keys, decays.to_the_end), values)
        return inside, left, queries

    def turned_queries(self) -> list[SSAValue]:
        """The queries, with their depth where the state has it."""
        found: list[SSAValue] = []
        for query in self.found.queries:
            if not aligned(query, self.found.last):
                rank = len(shape_of(query.type))
                order = (*range(rank - 2), rank - 1, rank - 2)
                query = self.parts.add(kn.TransposeOp(query, order))
            found.append(query)
        return found

    def of_sums(self, values: SSAValue, decays: Decays | None) -> tuple[SSAValue, SSAValue]:
        """What a chunk's elements give one another, and what they leave."""
        if decays is None:
            triangle = self.masked(self.constant(1.0))
            return self.matmul(triangle, values), self.parts.reduce(values, [self.rank + ROWS])
        kept = self.parts.apply("mul", values, self.turned(decays.to_the_end))
        return self.matmul(decays.between, values), self.parts.reduce(kept, [self.rank + ROWS])

    def as_result(self, parts: Expansion, inside: SSAValue, before: SSAValue) -> SSAValue:
        """The sum of both, with the dimensions of the program's result."""
        found, (result,) = self.found, self.found.last.results
        type_, shape = element_type_of(result.type), shape_of(result.type)
        total = parts.apply("add", inside, before, type_=TensorType(type_, shape_of(inside.type)))
        first = [*found.batch, found.dim, *found.width]
        order = [*first, *(dim for dim in range(len(shape)) if dim not in first)]
        if order == sorted(order):
            return parts.add(kn.ReshapeOp(total, result.type))
        total = self.reshaped(total, [shape[dim] for dim in order])
        places = [order.index(dim) for dim in range(len(order))]
        return parts.add(kn.TransposeOp(total, places, result.type))


class Decays:
    """Products of decays, as exponentials of sums of their logarithms.

    With G the sum up to each element of a chunk, and E that of the chunk.
    """

    def __init__(self, writer: ChunkWriter, decay: SSAValue) -> None:
        parts = writer.parts
        self.writer, self.parts = writer, parts
        column = writer.rows(logarithm(decay, parts), ())
        self.each = column
        if shape_of(column.type)[ROWS] == writer.size:
            self.rows = parts.add(kn.ScanOp(column, writer.rank + ROWS, column.type))
            self.columns = writer.turned(self.rows)
            self.whole = parts.reduce(column, [writer.rank + ROWS])
            return
        square = parts.apply("add", column, writer.zeros)
        self.rows = parts.reduce(writer.masked(square), [writer.rank + COLUMNS])
        self.columns = parts.reduce(writer.masked(square, upper=True), [writer.rank + ROWS])
        self.whole = parts.apply("mul_scalar", column, constants=(float(writer.size),))

    @cached_property
    def between(self) -> SSAValue:
        """exp(G_i - G_j) where j is at most i, else 0."""
        difference = self.parts.apply("sub", self.rows, self.columns)
        kept = self.writer.masked(difference, constant=-math.inf)
        return self.parts.apply("exp", kept)

    @cached_property
    def earlier(self) -> SSAValue:
        """G without an element's own decay, a column."""
        return self.parts.apply("sub", self.rows, self.each)

    @cached_property
    def between_earlier(self) -> SSAValue:
        """exp(G_(i-1) - G_j) where j is less than i, else 0."""
        difference = self.parts.apply("sub", self.earlier, self.columns)
        kept = self.writer.masked(difference, constant=-math.inf, apart=1)
        return self.parts.apply("exp", kept)

    @cached_property
    def to_the_end(self) -> SSAValue:
        """exp(E - G), a row."""
        return self.parts.apply("exp", self.parts.apply("sub", self.whole, self.columns))

    @cached_property
    def up_to_each(self) -> SSAValue:
        """exp(G), a column."""
        return self.parts.apply("exp", self.rows)

    @cached_property
    def of_chunk(self) -> SSAValue:
        """exp(E)."""
        return self.parts.apply("exp", self.whole)
