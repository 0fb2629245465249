"""``--plan-swizzle``: layouts of shared memory become free of bank conflicts."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mugraph.dialects.interfaces import HasSharedAccesses, SharedAccess
from mugraph.dialects.tensor_types import (
    element_bytes_of,
    resolved_layout_of,
    shape_of,
    strides_of,
    with_layout,
)
from mugraph.passes.plan_swizzle.choose import SwizzleDemand, choose_swizzle

__all__ = ["PlanSwizzlePass", "SwizzleDemand", "choose_swizzle", "plan_swizzle"]


def collect_accesses(root: Operation) -> dict[SSAValue, list[SharedAccess]]:
    """All accesses to each shared-memory value under ``root``, in order of appearance."""
    accesses: dict[SSAValue, list[SharedAccess]] = {}
    for op in root.walk():
        if isinstance(op, HasSharedAccesses):
            for access in op.shared_accesses():
                accesses.setdefault(access.value, []).append(access)
    return accesses


def demand_of(value: SSAValue, accesses: list[SharedAccess]) -> SwizzleDemand:
    """What the accesses to one value together ask of its layout."""
    return SwizzleDemand(
        shape_of(value.type),
        strides_of(resolved_layout_of(value)),
        element_bytes_of(value.type),
        max(access.chunk for access in accesses),
        frozenset(access.walk for access in accesses),
    )


def plan_swizzle(root: Operation) -> None:
    """Chooses and writes the layout of every shared-memory value under ``root``."""
    layouts = {
        value: choose_swizzle(demand_of(value, accesses))
        for value, accesses in collect_accesses(root).items()
    }
    for value, layout in layouts.items():
        Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))


@dataclass(frozen=True)
class PlanSwizzlePass(ModulePass):
    """Composes a swizzle with, or pads, the layout of every tile that threads walk across.

    Works on a µGraph, scheduled or not: what an access needs is asked of the operator.  Running it
    again changes nothing.  Pre-condition: ``--resolve-layout``.

    Before: ``!tb.stensor<16x128xf16, (16,128):(128,1)>`` as an operand of ``tb.matmul``.
    After: ``!tb.stensor<16x128xf16, S<3,3,4> o (16,128):(128,1)>``.
    """

    name = "plan-swizzle"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Plans the whole module."""
        plan_swizzle(op)
