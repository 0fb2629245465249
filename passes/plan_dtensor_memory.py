"""``--plan-dtensor-memory``: intermediate DTensors get offsets in one workspace.

Source: seed 002 section 6.1: sequential allocation, aligned to 128 bytes, no reuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.interfaces import HasWorkspace
from mugraph.dialects.kn.workspace import NOT_IN_WORKSPACE, WORKSPACE_BYTES
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    layout_of,
    physical_elements,
    value_label,
)

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


def choose_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Offsets in bytes for tensors of these sizes, one behind the other, and the total."""
    offsets: list[int] = []
    total = 0
    for size in sizes:
        offsets.append(total)
        total += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return offsets, total


def plan_dtensor_memory(function: FuncOp) -> None:
    """Writes the plan into the operators and the size of the workspace into the function."""
    values = workspace_values(function)
    offsets, total = choose_offsets([tensor_bytes(value) for value in values])
    offset_of = dict(zip(values, offsets, strict=True))
    for op in function.walk():
        if isinstance(op, HasWorkspace):
            op.set_workspace_offsets(
                [offset_of.get(result, NOT_IN_WORKSPACE) for result in op.results]
            )
    function.attributes[WORKSPACE_BYTES] = IntegerAttr(total, i64)


@dataclass(frozen=True)
class PlanDTensorMemoryPass(ModulePass):
    """Gives every intermediate DTensor an offset in the function's workspace.

    Results of the function live in its outputs and get -1.  Pre-condition: ``--resolve-layout``.

    After: ``%s = kn.exp %x workspace [0] : ...`` and ``attributes {kn.workspace_bytes = 4096}`` on
    the function.
    """

    name = "plan-dtensor-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Plans every function of the module."""
        for function in op.walk():
            if isinstance(function, FuncOp):
                plan_dtensor_memory(function)
