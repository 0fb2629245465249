"""What estimates ask of the tiles that a kernel loads and stores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from xdsl.ir import BlockArgument, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.alignment import row_alignment
from mugraph.dialects.programming_model import LINE_BYTES, SECTOR_BYTES, VECTOR_BYTES
from mugraph.dialects.tensor_types import base_layout, element_bytes_of, layout_of, strides_of
from mugraph.passes.costs.kernel_shape import FEW_ROWS
from mugraph.passes.costs.memory import FEWEST_ASYNC_BYTES
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.partition import Partition
from mugraph.passes.schedule.lower_threadblock.channels import products_scaled_by


def memory_strides(op: tb.InputOp | tb.OutputOp) -> tuple[int, ...] | None:
    """The strides of the tensor of a tile that is read where it lies; ``None`` if not known."""
    graph, source = op.parent_op(), op.dtensor
    if isinstance(op, tb.OutputOp) or not isinstance(source, BlockArgument) or graph is None:
        return None
    layout = layout_of(graph.operands[source.index].type)
    if layout is None or base_layout(layout).depth > 1:
        return None
    strides = strides_of(layout)
    # What a table leads to has a dimension more.
    return strides if len(strides) == len(op.tensor_shape) else None


def memory_order(op: tb.InputOp | tb.OutputOp) -> tuple[int, ...]:
    """The dimensions of a tile along which neighbours are neighbours in memory, inner ones first.

    That is the last one where nothing is known of the tensor; views are read where they lie.
    """
    last, strides = (len(op.tensor_shape) - 1,), memory_strides(op)
    if strides is None:
        return last
    moving = [dim for dim, extent in enumerate(op.tensor_shape) if extent > 1 and strides[dim]]
    return tuple(sorted(moving, key=lambda dim: strides[dim])) or last


def tensor_alignment(op: tb.InputOp | tb.OutputOp) -> int:
    """The bytes, 16 at most, of which rows of the tensor of a tile start at multiples."""
    graph, source = op.parent_op(), op.dtensor
    if isinstance(op, tb.OutputOp) or not isinstance(source, BlockArgument) or graph is None:
        return VECTOR_BYTES
    named = op.through is not None or op.windows is not None
    return VECTOR_BYTES if named else row_alignment(graph.operands[source.index])


def waits_for_loads(space: TileSpace) -> bool:
    """Whether threads wait in each iteration for what few rows multiply.

    No asynchronous copy brings what starts anywhere.  Then a loop is divided over any number of
    blocks that divides its iterations.  A row times 3584 x 1009 took 9.42 us on an H200 in four
    parts of seven iterations, and 7.03 in seven parts of two.  Of more rows that was not timed.
    """
    rows = [space.numbers[op.results[0]][-2] for op in space.products]
    few = bool(rows) and all(n is None or space.dimensions[n].extent <= FEW_ROWS for n in rows)
    return few and any(
        isinstance(op, tb.InputOp) and tensor_alignment(op) < FEWEST_ASYNC_BYTES
        for op in space.graph.body.block.ops
    )


def _scales_loaded(op: tb.InputOp) -> bool:
    """Whether a tile is numbers that scale products of matrices as they are loaded."""
    products = products_scaled_by(op)
    return bool(products) and all(
        isinstance(factor.owner, tb.InputOp) for each in products for factor in each.operands
    )


class Moved(NamedTuple):
    """What an estimate needs of a tile that is loaded or stored."""

    tile: SSAValue
    numbers: tuple[int, ...]
    """Of the tile's dimensions that may be cut otherwise."""
    element_bytes: int
    tensor_bytes: int
    stays_looped: bool
    """Whether the loop cuts another one, as rows of parts beside rows of what is no part."""
    tensor_shape: tuple[int, ...]
    order: tuple[int, ...]
    """The dimensions as they lie in memory."""
    row_alignment: int
    """The bytes of which the tensor's rows start at multiples."""
    scales_products: bool
    """Whether it is numbers of rows, or one, that scale products of warp groups."""
    innermost: int | None
    """The number of the dimension that lies innermost, if it has one."""
    has_columns: bool
    """Whether it has columns of a product's result, as weights have, and not its rows."""

    @classmethod
    def of(cls, space: TileSpace, op: tb.InputOp | tb.OutputOp) -> Moved:
        """The tile of an operator, between shared memory and a tensor."""
        is_input = isinstance(op, tb.InputOp)
        tile, type_ = (op.result, op.result.type) if is_input else (op.stensor, op.dtensor_type)
        numbers, size = space.numbers[tile], element_bytes_of(type_)
        free = [n for n in numbers if n is not None and not space.dimensions[n].fixed]
        stays = op.loop_dim >= 0 and numbers[op.loop_dim] not in (*free, None)
        extents = tuple(op.tensor_shape)
        strides = memory_strides(op) or (1,) * len(extents)
        # What a view repeats lies in memory once.
        total = math.prod(n for n, stride in zip(extents, strides, strict=True) if stride) * size
        order, aligned = memory_order(op), tensor_alignment(op)
        scales = isinstance(op, tb.InputOp) and _scales_loaded(op)
        inner = numbers[order[0]]
        columns = {space.numbers[product.results[0]][-1] for product in space.products} - {None}
        lies = stays, extents, order, aligned
        has_columns = not columns.isdisjoint(numbers)
        return cls(tile, tuple(free), size, total, *lies, scales, inner, has_columns)

    def alignment(self, shape: Sequence[int]) -> int:
        """The bytes, 16 at most, of which rows of a tile of these extents start at multiples."""
        inner = self.order[0]
        if shape[inner] >= self.tensor_shape[inner]:
            return self.row_alignment
        return math.gcd(self.row_alignment, shape[inner] * self.element_bytes)

    def row(self, shape: Sequence[Any]) -> Any:
        """The elements of a tile of these extents, or arrays of them, that lie side by side.

        Of what is shorter than a sector, such as scales, it is all along the last dimension: what
        is loaded beside it is there for the next iterations.
        """
        run, reaches = 1, 1
        for dim in self.order:
            run = run * shape[dim] ** reaches
            reaches = reaches * (shape[dim] == self.tensor_shape[dim])
        return run + (shape[-1] - run) * (run * self.element_bytes < SECTOR_BYTES)

    def existing(self, shape: Sequence[int]) -> tuple[int, ...]:
        """What there is of a tile of these extents: not what pads it."""
        return tuple(map(min, shape, self.tensor_shape))

    def row_bytes(self, shape: Sequence[int]) -> int:
        """What a row of a tile is brought in pieces of.

        Padded rows in pieces that both have: 128 x 128 scores of depth 72, in 80, took 512 us on an
        H200, and of depth 80 368.
        """
        row, whole = self.row(shape) * self.element_bytes, self.tensor_shape[-1]
        is_padded = shape[-1] > whole and whole * self.element_bytes % VECTOR_BYTES == 0
        return math.gcd(row, whole * self.element_bytes) if is_padded else row

    def cuts_lines(self, partition: Partition, shape: Sequence[int]) -> bool:
        """Whether iterations each move a part of a line of the cache."""
        number = self.innermost
        if number is None or number not in self.numbers:
            return False
        return partition.cuts[number].looped and self.row_bytes(shape) < LINE_BYTES

    def is_looped(self, partition: Partition) -> bool:
        """Whether each iteration moves another one."""
        return self.stays_looped or any(partition.cuts[number].looped for number in self.numbers)
