"""Computes in a kernel of its own, once, what all blocks compute alike of the tiles they load.

Where blocks that load the same tile of a tensor all compute the same of it first, its norm for
instance, a kernel before stores that for the whole tensor, and the blocks load it instead.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from mugraph.dialects import tb
from mugraph.dialects.interfaces import HasTileIndices, IndexKind
from mugraph.dialects.kn import CustomizedOp, accumulates
from mugraph.dialects.locations import Rewriter
from mugraph.dialects.maps import AXES
from mugraph.dialects.tensor_types import element_type_of, op_label, shape_of
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.mugraph.retile.writer import KernelWriter, replace_kernel, tensor_of

TILE_ELEMENTS = 4096
"""Of a tile of the new kernel, about; for targets it is partitioned anew."""


class Outlined(NamedTuple):
    """An input of a kernel's loop, and the operator that alone uses it."""

    load: tb.InputOp
    operator: Operation
    parallel: tuple[int, ...]
    """The dimensions along which the operator may be cut anyhow; of others a tile has all."""

    @property
    def result(self) -> SSAValue:
        """The operator's result."""
        return self.operator.results[0]

    def computed(self, tile: SSAValue) -> Operation:
        """What computes the result of a tile."""
        operator = self.operator.clone({self.load.result: tile})
        own = tb.STensorType(shape_of(tile.type), element_type_of(self.result.type))
        Rewriter.replace_value_with_new_type(operator.results[0], own)
        return operator


def find_outlined(graph: CustomizedOp) -> list[Outlined]:
    """What several blocks of a kernel compute alike of the tiles of its loop."""
    found: list[Outlined] = []
    for op in graph.body.block.ops:
        if not isinstance(op, tb.InputOp) or op.loop_dim < 0 or any(op.bounds()):
            continue
        if op.through is not None or op.windows is not None:
            continue  # the tensor has not as many elements
        shared = any(
            extent > 1 and dim < 0 for extent, dim in zip(graph.grid_dim, op.map_, strict=False)
        )
        users = list({use.operation for use in op.result.uses})
        if shared and len(users) == 1 and (parallel := _parallel(op, users[0])) is not None:
            found.append(Outlined(op, users[0], parallel))
    return found


def _parallel(load: tb.InputOp, op: Operation) -> tuple[int, ...] | None:
    """Along which dimensions an operator on a tile may be cut; ``None`` for others.

    It has one operand and result, of the same extents, and what it needs whole is whole.
    """
    if not isinstance(op, HasTileIndices) or isinstance(op, tb.AccumulatorOp) or accumulates(op):
        return None
    if len(op.operands) != 1 or len(op.results) != 1:
        return None
    tile, tensor = shape_of(load.result.type), shape_of(load.dtensor.type)
    if shape_of(op.results[0].type) != tile:
        return None
    indices = list(op.tile_indices())
    if any(index.operands != (index.result,) for index in indices):
        return None
    parallel = tuple(
        index.result
        for index in indices
        if index.kind is IndexKind.PARALLEL and index.result is not None
    )
    whole = all(tile[dim] == tensor[dim] for dim in range(len(tile)) if dim not in parallel)
    return parallel if parallel and whole else None


def _kernel_of(graph: CustomizedOp, found: Outlined) -> CustomizedOp:
    """The kernel that computes what is outlined of a whole tensor."""
    source = tensor_of(graph, found.load)
    shape = shape_of(source.type)
    tile = [extent if dim not in found.parallel else 1 for dim, extent in enumerate(shape)]
    # The last of the dimensions keeps several elements a block; the others are cut to the end.
    *outer, inner = found.parallel[-len(AXES) :]
    for dim in found.parallel[: -len(AXES)]:
        tile[dim] = shape[dim]
    room = max(TILE_ELEMENTS // math.prod(tile), 1)
    tile[inner] = max(
        size for size in range(1, shape[inner] + 1) if shape[inner] % size == 0 and size <= room
    )
    cut = (*outer, inner)
    grid = [shape[dim] // tile[dim] for dim in cut]
    map_ = (*cut, *(-1,) * (len(AXES) - len(cut)))
    kernel = KernelWriter()
    argument = kernel.argument(source, found.load.dtensor.name_hint)
    load = tb.InputOp(argument, map_, -1, tb.STensorType(tile, element_type_of(source.type)))
    load.result.name_hint = found.load.result.name_hint
    kernel.add(load)
    computed = kernel.add(found.computed(load.result)).results[0]
    computed.name_hint = found.result.name_hint
    # Results are stored behind the loop, of which there is one iteration.
    assert isinstance(computed.type, tb.STensorType)
    stored = tb.ForloopAccumOp(tb.AccumulatorKind.NONE, computed, computed.type)
    kernel.add(stored)
    kernel.add(tb.OutputOp(stored.result, map_, TensorType(computed.type.element_type, shape)))
    padded = (*grid, *(1,) * (len(AXES) - len(grid)))
    return kernel.finished(padded, graph.block_dim, 1)


def outline(graph: CustomizedOp) -> tuple[list[CustomizedOp], CustomizedOp]:
    """Replaces a kernel by those of what is outlined and one that loads their results.

    Raises :class:`RetileError` where blocks compute nothing alike of the tiles of a loop.
    """
    found = find_outlined(graph)
    if not found:
        raise RetileError(
            f"{op_label(graph)}: no operator of its loop computes, in several blocks alike, "
            "something of one tile alone, so there is nothing to outline"
        )
    before: list[CustomizedOp] = []
    rest = KernelWriter()
    of_load = {each.load: each for each in found}
    skipped = {each.operator for each in found}
    for op in graph.body.block.ops:
        if isinstance(op, tb.InputOp) and op in of_load:
            each = of_load[op]
            kernel = _kernel_of(graph, each)
            before.append(kernel)
            result = each.result
            kernel.results[0].name_hint = f"{result.name_hint or 'tiles'}_of_all"
            argument = rest.argument(kernel.results[0], kernel.results[0].name_hint)
            load = tb.InputOp(argument, op.map_, op.loop_dim, result.type)
            load.result.name_hint = result.name_hint
            rest.add(load)
            rest.values[result] = load.result
        elif isinstance(op, tb.InputOp):
            rest.load(graph, op, op.map_, op.loop_dim)
        elif op not in skipped:
            rest.copy(op)
    new = rest.finished(graph.grid_dim, graph.block_dim, graph.forloop_range)
    why = f"{op_label(graph)} cannot be divided so"
    replace_kernel(graph, [*before, new], new.results, why)
    return before, new
