"""The devices that a model of torch is cut for, by the process groups of its collectives."""

from __future__ import annotations

import os
from collections import Counter
from importlib import import_module
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from mugraph.jit import compile
from mugraph.jit.mesh import MeshKernel
from mugraph.torch.aten import CONVERSIONS, collectives
from mugraph.torch.aten.conversion import Devices
from mugraph.torch.operator import import_torch


def devices_of(graph_module: Any) -> Devices | None:
    """The process group of most of a graph's exchanges; ``None`` where there are none.

    Devices of another group are not in the same program: what they exchange stays in torch.
    """
    groups = Counter(node.args[-1] for node in graph_module.graph.nodes if is_exchange(node))
    if not groups:
        return None
    ((group, _),) = groups.most_common(1)
    return Devices(group, _process_group(group).size())


def is_exchange(node: Any) -> bool:
    """Whether a call is a collective that programs have."""
    name = str(node.target)
    is_ours = name.startswith(f"{collectives.NAMESPACE}.") and name in CONVERSIONS
    return node.op == "call_function" and is_ours and name != collectives.WAIT


def compile_for(devices: Devices, module: ModuleOp, device_type: str) -> MeshKernel:
    """The kernel of the program of each device; GPUs of one host reach each other's memory."""
    group = _process_group(devices.group)
    modes: Any = import_module("torch.utils._python_dispatch")
    meshes: Any = import_module("torch.distributed.device_mesh")
    # What is made here is none of the graph that torch traces.
    with modes._disable_current_modes():
        mesh = meshes.DeviceMesh.from_group(group, device_type)
        arch = "cpu" if device_type == "cpu" else "native"
        peers = device_type == "cuda" and _reach_each_other(group)
        try:
            return compile(module, arch, mesh=mesh, peers=peers)
        except DiagnosticException:
            return compile(module, arch, mesh=mesh, peers=peers, fuse=False)


def _process_group(name: str) -> Any:
    distributed: Any = import_module("torch.distributed.distributed_c10d")
    return distributed._resolve_process_group(name)


def _reach_each_other(group: Any) -> bool:
    """Whether the GPUs of a group are of one host, as far as ``torchrun`` says, and have links."""
    torch, distributed = import_torch(), import_module("torch.distributed")
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    ranks = distributed.get_process_group_ranks(group)
    if not here or len({rank // here for rank in ranks}) > 1 or torch.cuda.device_count() < here:
        return False
    own = torch.cuda.current_device()
    others = [rank % here for rank in ranks if rank % here != own]
    return all(torch.cuda.can_device_access_peer(own, other) for other in others)
