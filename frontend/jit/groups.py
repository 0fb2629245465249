"""Which processes of ``torch.distributed`` the devices of a program are."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import zip_longest
from typing import Any, NamedTuple

from mugraph.dialects.sharding import Axes, Mesh
from mugraph.errors import UserError


class Group(NamedTuple):
    """The devices that this one meets in a collective."""

    process_group: Any
    members: tuple[int, ...]
    """For each place in the group, the member's number in the process group."""
    place: int
    """This device's."""


def mesh_shape(device_mesh: Any) -> Mesh:
    """The mesh that a ``torch.distributed.device_mesh.DeviceMesh`` is."""
    ranks = getattr(device_mesh, "mesh", None)
    if ranks is None or not hasattr(device_mesh, "get_coordinate"):
        raise UserError(
            f"mesh is a {type(device_mesh).__name__}; expected a torch.distributed DeviceMesh, "
            "such as init_device_mesh('cuda', (4,)) makes"
        )
    if device_mesh.get_coordinate() is None:
        rank = import_module("torch.distributed").get_rank()
        raise UserError(
            f"the process of rank {rank} is none of the devices of {device_mesh}, and only those "
            "compile what they run"
        )
    return Mesh(tuple(ranks.shape))


def place_of(device_mesh: Any, mesh: Mesh, axes: Axes) -> int:
    """The place of this device among those that differ along these axes only."""
    place = 0
    coordinate = device_mesh.get_coordinate()
    for axis in axes:
        place = place * mesh.shape[axis] + coordinate[axis]
    return place


def group_of(device_mesh: Any, mesh: Mesh, axes: Axes) -> Group:
    """The process group of this device along some axes."""
    distributed: Any = import_module("torch.distributed")
    ranks = device_mesh.mesh.flatten().tolist()
    groups = [[ranks[device] for device in group] for group in mesh.groups(axes)]
    own = distributed.get_rank()
    members = next(group for group in groups if own in group)
    if len(axes) == 1:
        process_group = device_mesh.get_group(axes[0])
    else:
        process_group, _ = distributed.new_subgroups_by_enumeration(groups)
    numbers = tuple(distributed.get_group_rank(process_group, rank) for rank in members)
    return Group(process_group, numbers, members.index(own))


def expect_alike(device_mesh: Any, name: str, exchanges: Sequence[str]) -> None:
    """Raises ``UserError`` where devices of a mesh exchange different tensors; all of them call it.

    Else they would wait for one another for ever, or read what does not fit.
    """
    distributed: Any = import_module("torch.distributed")
    own = (distributed.get_rank(), [*exchanges])
    for axis in range(device_mesh.ndim):
        group = device_mesh.get_group(axis)
        found: list[Any] = [None] * group.size()
        distributed.all_gather_object(found, own, group)
        (first, wanted), *others = found
        for rank, its in others:
            for number, (one, other) in enumerate(zip_longest(wanted, its, fillvalue="nothing")):
                if one != other:
                    raise UserError(
                        f"{name} is not the same on all devices: exchange {number} is {one} on "
                        f"rank {first}, and {other} on rank {rank}; give all of them inputs of the "
                        "same shapes, and cut tensors along dimensions that the number of devices "
                        "divides"
                    )
