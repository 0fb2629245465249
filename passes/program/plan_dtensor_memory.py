"""``--plan-dtensor-memory``: intermediate DTensors get offsets in one workspace.

Tensors that no kernel needs at the same time share bytes.  Source of the alignment: Mirage's
``src/transpiler/plan_dtensor_memory.cc``, whose plans have no reuse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE, WORKSPACE_BYTES, tensor_bytes
from mugraph.passes.each import FunctionPass
from mugraph.passes.memory.lifetimes import Lifetime, tensor_lifetimes, workspace_values
from mugraph.passes.memory.packing.allocate import Request
from mugraph.passes.memory.packing.certificate import (
    WORKSPACE_CERTIFICATE,
    certificate_attribute,
)
from mugraph.passes.memory.packing.pack import pack

ALIGNMENT = 128
"""Every tensor of the workspace starts at a multiple of this many bytes."""


def plan_dtensor_memory(function: FuncOp, *, reuse: bool = True) -> None:
    """Writes the plan into the operators; size and certificate of the workspace into the function.

    Without ``reuse`` every tensor has bytes of its own, as if all lived to the end.
    """
    values = workspace_values(function)
    try:
        sizes = [tensor_bytes(value) for value in values]
    except VerifyException as error:
        raise PassFailedException(f"--plan-dtensor-memory: {error}") from error
    lifetimes = tensor_lifetimes(function, values) if reuse else [Lifetime(0, 0)] * len(values)
    requests = [Request(size, life) for size, life in zip(sizes, lifetimes, strict=True)]
    found = pack(requests, ALIGNMENT)
    offset_of = dict(zip(values, found.plan.offsets, strict=True))
    for op in function.walk():
        if isinstance(op, HasWorkspace):
            op.set_workspace_offsets(
                [offset_of.get(result, NOT_IN_WORKSPACE) for result in op.results]
            )
    function.attributes[WORKSPACE_BYTES] = IntegerAttr(found.plan.peak, i64)
    function.attributes.pop(WORKSPACE_CERTIFICATE, None)
    if values:
        function.attributes[WORKSPACE_CERTIFICATE] = certificate_attribute(found)


def plan_anew(ops: Iterable[Operation]) -> None:
    """Plans the workspaces of the functions around operators again, where they are planned."""
    for function in dict.fromkeys(op.parent_op() for op in ops):
        if isinstance(function, FuncOp) and WORKSPACE_BYTES in function.attributes:
            plan_dtensor_memory(function)


@dataclass(frozen=True)
class PlanDTensorMemoryPass(FunctionPass):
    """Gives every intermediate DTensor an offset in the function's workspace.

    Tensors share bytes where no operator needs both of them; ``reuse=false`` gives each its own.
    Results of the function live in its outputs and get -1.  ``kn.workspace_certificate`` on the
    function records the workspace's size, the lower bound and whether they meet.  Pre-condition:
    ``--resolve-layout``.

    After: ``%s = kn.exp %x workspace [0] : ...`` and ``attributes {kn.workspace_bytes = 4096}`` on
    the function.
    """

    name = "plan-dtensor-memory"

    reuse: bool = True

    def run(self, function: FuncOp) -> None:
        """Plans a µGraph, scheduled or not."""
        plan_dtensor_memory(function, reuse=self.reuse)
