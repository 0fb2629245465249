"""How inputs and outputs lie on several GPUs: Mirage's ``input_map`` and ``output_map``."""

from __future__ import annotations

from collections.abc import Sequence

from mugraph.dialects.sharding import Axes, Mesh, Sharding
from mugraph.tools.import_mirage.document import Node

NOT_SHARDED = (-1, -1, -1)
GPU_DIM = "gpu_dim"
"""Our field of an input: how many GPUs there are along x, y and z, which Mirage does not write."""


def mesh_in(operators: Sequence[Node]) -> Mesh | None:
    """The GPUs that inputs say the graph is for; ``None`` where none says it."""
    for operator in operators:
        recorded = operator.optional_field(GPU_DIM)
        if recorded is not None:
            extents = recorded.xyz(1)
            used = max((axis for axis in range(3) if extents[axis] > 1), default=0)
            return Mesh(extents[: used + 1])
    return None


def sharding_in(operator: Node, name: str, rank: int, mesh: Mesh | None) -> Sharding:
    """How a tensor of so many dimensions lies on GPUs; raises ``MirageImportError`` for others."""
    recorded = operator.optional_field(name)
    map_ = NOT_SHARDED if recorded is None else recorded.xyz(-1)
    if recorded is not None and map_ != NOT_SHARDED and mesh is None:
        raise recorded.error(
            "this tensor is cut over several GPUs, and the file does not say how many there are; "
            "give --mesh, such as 4 or 2x2."
        )
    split: list[Axes] = [()] * rank
    for axis, dim in enumerate(map_):
        if dim < 0:
            continue
        assert recorded is not None
        assert mesh is not None
        if dim >= rank:
            raise recorded.error(f"there is no dimension {dim} in a tensor of {rank} dimensions.")
        if axis >= len(mesh.shape):
            raise recorded.error(f"{'xyz'[axis]} cuts the tensor, which the mesh {mesh} lacks.")
        split[dim] = (*split[dim], axis)
    return Sharding(tuple(split))


def map_of(sharding: Sharding | None) -> tuple[int, ...] | None:
    """The dimension that each of x, y and z cuts; ``None`` where the format cannot say it.

    Of a dimension that several cut x is the outermost, and parts of sums have no map.
    """
    found = [-1, -1, -1]
    for dim, axes in enumerate(() if sharding is None else sharding.split_axes):
        if list(axes) != sorted(axes):
            return None
        for axis in axes:
            found[axis] = dim
    return None if sharding is not None and sharding.partial else tuple(found)
