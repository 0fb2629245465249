"""``--plan-dtensor-memory``: intermediate DTensors get offsets in one workspace.

Tensors that no kernel needs at the same time share bytes.  Source of the alignment: seed 002,
section 6.1, whose plans have no reuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.functions import is_foreign
from mugraph.dialects.interfaces import HasWorkspace, SharesMemory
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE, WORKSPACE_BYTES
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    layout_of,
    physical_elements,
    value_label,
)
from mugraph.passes.analysis.lifetimes import Lifetime
from mugraph.passes.plan_stensor_memory.allocate import Request
from mugraph.passes.plan_stensor_memory.certificate import (
    WORKSPACE_CERTIFICATE,
    certificate_attribute,
)
from mugraph.passes.plan_stensor_memory.pack import STEP_LIMIT, pack

ALIGNMENT = 128
"""Every tensor of the workspace starts at a multiple of this many bytes."""


def workspace_values(function: FuncOp) -> list[SSAValue]:
    """The results of kernels that are not results of the function, in order."""
    returned = {
        operand for op in function.walk() if isinstance(op, ReturnOp) for operand in op.operands
    }
    return [
        result
        for op in function.walk()
        if isinstance(op, HasWorkspace)
        for result in op.results
        if result not in returned
    ]


def tensor_bytes(value: SSAValue) -> int:
    """The bytes that a DTensor spans, its padding included."""
    layout = layout_of(value.type)
    if layout is None:
        raise PassFailedException(
            f"--plan-dtensor-memory: {value_label(value)} has no layout yet; run --resolve-layout "
            "first"
        )
    return physical_elements(layout) * element_bytes_of(value.type)


def lifetimes_of(function: FuncOp, values: Sequence[SSAValue]) -> list[Lifetime]:
    """From the operator that computes a tensor to the last one that reads it, both included.

    Kernels of a function run one after the other, so that the tensors of one are free for what the
    next one writes.
    """
    position = {op: index for index, op in enumerate(function.walk())}
    lifetimes: list[Lifetime] = []
    for value in values:
        born = position[value.owner] if isinstance(value.owner, Operation) else 0
        readers = (position[use.operation] for seen in views_of(value) for use in seen.uses)
        lifetimes.append(Lifetime(born, max([born, *readers])))
    return lifetimes


def views_of(value: SSAValue) -> list[SSAValue]:
    """The values that lie in the memory of a DTensor, itself first."""
    found = [value]
    for seen in found:
        for use in seen.uses:
            op = use.operation
            if isinstance(op, SharesMemory):
                found += [result for result in op.results if op.memory_of(result) is seen]
    return found


def plan_dtensor_memory(
    function: FuncOp, *, reuse: bool = True, step_limit: int = STEP_LIMIT
) -> None:
    """Writes the plan into the operators; size and certificate of the workspace into the function.

    Without ``reuse`` every tensor has bytes of its own, as if all lived to the end.
    """
    values = workspace_values(function)
    sizes = [tensor_bytes(value) for value in values]
    lifetimes = lifetimes_of(function, values) if reuse else [Lifetime(0, 0)] * len(values)
    requests = [Request(size, life) for size, life in zip(sizes, lifetimes, strict=True)]
    found = pack(requests, ALIGNMENT, step_limit)
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


@dataclass(frozen=True)
class PlanDTensorMemoryPass(ModulePass):
    """Gives every intermediate DTensor an offset in the function's workspace.

    Tensors share bytes where no operator needs both of them; ``reuse=false`` gives each its own.
    Results of the function live in its outputs and get -1.  ``kn.workspace_certificate`` on the
    function records the workspace's size, the lower bound and whether they meet; ``step-limit``
    bounds the exact search for a smaller one.  Pre-condition: ``--resolve-layout``.

    After: ``%s = kn.exp %x workspace [0] : ...`` and ``attributes {kn.workspace_bytes = 4096}`` on
    the function.
    """

    name = "plan-dtensor-memory"

    reuse: bool = True
    step_limit: int = STEP_LIMIT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Plans every µGraph of the module, scheduled or not."""
        for function in op.walk():
            if isinstance(function, FuncOp) and not is_foreign(function):
                plan_dtensor_memory(function, reuse=self.reuse, step_limit=self.step_limit)
