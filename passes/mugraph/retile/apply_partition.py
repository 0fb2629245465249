"""Writes a partition into a threadblock graph."""

from __future__ import annotations

from collections.abc import Sequence, Set

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import tb
from mugraph.dialects.interfaces import AdaptsToTiles
from mugraph.dialects.launch_extents import integer_array
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
    entries: list[int] = []
    for axis in range(len(AXES)):
        if partition.grid[axis] == 1:
            entries.append(-1)
        elif not partition.cut_by(axis) or axis in space.fixed_axes:
            entries.append(old[axis])
        else:
            entries.append(_cut_dim(space, value, partition.cut_by(axis), old[axis]))
    return tuple(entries)


def loop_dim_of(space: TileSpace, value: SSAValue, old: int, partition: Partition) -> int:
    """The dimension of a tile that the loop cuts, or -1; what it was where that is fixed."""
    looped = {number for number, cut in enumerate(partition.cuts) if cut.looped}
    return _cut_dim(space, value, looped, old)


def _cut_dim(space: TileSpace, value: SSAValue, numbers: Set[int], old: int) -> int:
    """The dimension of a tile that is one of those that are cut, or -1.

    ``old`` was it: a dimension that is fixed may be cut in some tiles and whole in others, such as
    those of a chunk, and so it stays.
    """

    def is_fixed(dim: int) -> bool:
        number = own[dim]
        return number is not None and bool(space.dimensions[number].fixed)

    own = space.numbers[value]
    if old >= 0 and is_fixed(old):
        return old
    cut = [dim for dim, number in enumerate(own) if number in numbers and not is_fixed(dim)]
    return cut[0] if cut else -1


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
    return tb.STensorType.of(shape, element_type_of(value.type))


def apply_partition(space: TileSpace, partition: Partition) -> None:
    """Repartitions the graph in place; raises :class:`RetileError` where it does not verify."""
    graph = space.graph
    graph.properties["grid"] = integer_array(partition.grid)
    graph.properties["block"] = integer_array(partition.block)
    graph.properties["forloop"] = IntegerAttr(partition.forloop, i64)
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp) or (isinstance(op, tb.MaskOp) and op.condition is not None):
            map_ = map_of(space, op.result, op.map_, partition)
            op.lie(map_, loop_dim_of(space, op.result, op.loop_dim, partition))
        elif isinstance(op, tb.OutputOp):
            map_ = map_of(space, op.stensor, op.map_, partition)
            op.properties["omap"] = integer_array(map_)
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
