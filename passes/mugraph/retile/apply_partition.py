"""Writes a partition into a threadblock graph."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import tb
from mugraph.dialects.interfaces import AdaptsToTiles
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.tensor_types import element_type_of, layout_of, shape_of, value_label
from mugraph.passes.mugraph.retile.dimensions import TileSpace
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.partition import Partition, tile_shape_of


def map_of(
    space: TileSpace, value: SSAValue, old: Sequence[int], partition: Partition
) -> tuple[int, ...]:
    """The map of a tile: the dimension that each axis cuts, or what it was where that is fixed."""
    numbers = space.numbers[value]
    entries: list[int] = []
    for axis in range(len(AXES)):
        if partition.grid[axis] == 1:
            entries.append(-1)
        elif not partition.cut_by(axis) or axis in space.fixed_axes:
            entries.append(old[axis])
        else:
            cut = [d for d, number in enumerate(numbers) if number in partition.cut_by(axis)]
            entries.append(cut[0] if cut else -1)
    return tuple(entries)


def loop_dim_of(numbers: Sequence[int | None], partition: Partition) -> int:
    """The dimension of a tile that the loop cuts, or -1."""
    looped = [
        dim
        for dim, number in enumerate(numbers)
        if number is not None and partition.cuts[number].looped
    ]
    return looped[0] if looped else -1


def stays_looped(space: TileSpace, value: SSAValue, loop_dim: int) -> bool:
    """Whether the loop cuts a dimension of a tile that must stay cut as it is.

    Others that go with it may be cut in another way, as rows beside parts of sums of rows.
    """
    number = space.numbers[value][loop_dim] if loop_dim >= 0 else None
    return number is not None and bool(space.dimensions[number].fixed)


def retiled_type(space: TileSpace, partition: Partition, value: SSAValue) -> tb.STensorType:
    """A tile's type under a partition; raises :class:`RetileError` for one with a layout."""
    shape = tile_shape_of(space, partition, value)
    if shape == shape_of(value.type):
        assert isinstance(value.type, tb.STensorType)
        return value.type
    if layout_of(value.type) is not None:
        raise RetileError(
            f"{value_label(value)} has a layout, which is one for tiles of its extents; run "
            "--retile before --resolve-layout, and leave the layouts of tiles to that"
        )
    return tb.STensorType(shape, element_type_of(value.type))


def apply_partition(space: TileSpace, partition: Partition) -> None:
    """Repartitions the graph in place; raises :class:`RetileError` where it does not verify."""
    graph = space.graph
    graph.properties["grid"] = DenseArrayBase.from_list(i64, list(partition.grid))
    graph.properties["block"] = DenseArrayBase.from_list(i64, list(partition.block))
    graph.properties["forloop"] = IntegerAttr(partition.forloop, i64)
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp) or (isinstance(op, tb.MaskOp) and op.condition is not None):
            map_ = map_of(space, op.result, op.map_, partition)
            loop_dim = loop_dim_of(space.numbers[op.result], partition)
            op.lie(map_, op.loop_dim if stays_looped(space, op.result, op.loop_dim) else loop_dim)
        elif isinstance(op, tb.OutputOp):
            map_ = map_of(space, op.stensor, op.map_, partition)
            op.properties["omap"] = DenseArrayBase.from_list(i64, list(map_))
        for result in op.results:
            type_ = retiled_type(space, partition, result)
            if type_ != result.type:
                new = Rewriter.replace_value_with_new_type(result, type_)
                space.numbers[new] = space.numbers.pop(result)
    for op in graph.body.block.ops:
        if isinstance(op, AdaptsToTiles):
            op.adapt_to_tiles()
    try:
        graph.verify()
    except VerifyException as error:
        raise RetileError(f"the new partition does not go together: {error}") from error
