"""One call for a kernel that computes each element of its result from those at the same place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mugraph.build.errors import BuildError, build_errors
from mugraph.build.kernel_graph import KernelGraph
from mugraph.build.tensors import DTensor, STensor
from mugraph.build.threadblock_graph import new_threadblock_graph
from mugraph.dialects import tb
from mugraph.dialects.shapes import broadcast_shape
from mugraph.dialects.tb.elementwise import ElementwiseOp
from mugraph.dialects.tensor_types import op_label

TILE_ELEMENTS = 2048
"""About how many elements of its result a block computes: 16 for each of its threads."""
THREADS = 128

_AXES = 3


def pointwise(
    function: Callable[..., STensor], *inputs: DTensor, name: str | None = None
) -> DTensor:
    """The result of a function of tiles, applied to whole tensors in a kernel of its own.

    ``function`` takes a tile of each tensor and returns one, by element-wise operators:
    ``pointwise(lambda gate, up: mi.silu(gate) * up, gate, up)``.  Ranks are equal; an extent of 1
    is broadcast.  Grid and maps are chosen so that each block has about 2048 elements.  Raises
    :class:`BuildError` for other operators, and where the tensors do not fit.
    """
    graph = inputs[0].graph if inputs else None
    if not isinstance(graph, KernelGraph):
        raise BuildError("pointwise: expected at least one tensor of a kernel graph")
    with build_errors():
        shape = broadcast_shape([x.stand_ins for x in inputs])
    grid, map_ = cut(shape)
    block = new_threadblock_graph(grid, (THREADS, 1, 1))
    tiles = [
        # One element serves all blocks along a dimension that is broadcast.
        block.new_input(x, [dim if dim >= 0 and x.stand_ins[dim] > 1 else -1 for dim in map_], 0)
        for x in inputs
    ]
    result = function(*tiles)
    block.new_output(result, map_, 0, dims=shape)
    for op in block.operations:
        if not isinstance(op, (tb.InputOp, tb.OutputOp, ElementwiseOp)):
            raise BuildError(
                f"pointwise: {op_label(op)} combines elements of a tile, and so depends on how the "
                "tensor is cut; write that kernel with new_threadblock_graph"
            )
    (made,) = graph.customized(inputs, block, names=[] if name is None else [name])
    return made


def cut(shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A grid, and the dimension that each of its axes cuts, for tiles of about 2048 elements.

    Innermost dimensions stay whole as far as they can, so that threads read neighbours.
    """
    blocks: list[tuple[int, int]] = []
    elements = TILE_ELEMENTS
    for dim, extent in reversed(list(enumerate(shape))):
        tile = min(extent, max(elements, 1))
        if tile < extent:
            blocks.append((-(-extent // tile), dim))
        elements //= tile
    if len(blocks) > _AXES:
        raise BuildError(
            f"pointwise: a tensor of {list(shape)} must be cut along {len(blocks)} dimensions, and "
            f"a grid has {_AXES}; merge some of them"
        )
    # The first axis may be the longest.
    blocks.sort(reverse=True)
    blocks += [(1, -1)] * (_AXES - len(blocks))
    return tuple(count for count, _ in blocks), tuple(dim for _, dim in blocks)
