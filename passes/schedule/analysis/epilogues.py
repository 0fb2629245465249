"""How long the epilogue of a persistent kernel takes beside its loop."""

from __future__ import annotations

import math

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.kernel import WARP
from mugraph.dialects.sched.structure import computing_block, loop_and_epilogue
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.costs.epilogues import (
    FUNCTION_CYCLES,
    VALUE_CYCLES,
    EpilogueTime,
    epilogue_cycles,
)
from mugraph.passes.costs.products import group_cycles
from mugraph.passes.targets import Target


def epilogue_time(kernel: sched.KernelOp, target: Target) -> EpilogueTime | None:
    """The estimate for a kernel whose warp groups multiply; ``None`` for others.

    Of ping-pong roles one is looked at.
    """
    phases = loop_and_epilogue(computing_block(kernel))
    if phases is None:
        return None
    loop, ends = phases
    products = sched.warpgroup_products(loop)
    warps = sched.enclosing_threads(loop) // WARP
    if not products or not target.multiplies_in_warpgroups:
        return None
    cycles = math.fsum(
        group_cycles(
            math.prod(shape_of(sums.type)) * shape_of(op.rhs.type)[-2], target, op.atom.a_type
        )
        for op in products
        for sums in op.accumulators
    )
    of_a_warp = math.fsum(_cycles(op) for op in ends.walk())
    return EpilogueTime(loop.iterations * cycles, epilogue_cycles(of_a_warp, warps, target))


def _cycles(op: Operation) -> float:
    """What a warp takes for an operator of the epilogue."""
    functions = len(epilogue_of(op).functions)
    if isinstance(op, sched.MapOp):
        return _values(op.destination) * FUNCTION_CYCLES * (1 + functions)
    if isinstance(op, sched.StoreOp):
        return _values(op.source) * (VALUE_CYCLES + FUNCTION_CYCLES * functions)
    return 0.0


def _values(value: SSAValue) -> int:
    """How many values of a fragment each thread holds."""
    return value.type.values_per_thread() if isinstance(value.type, sched.TileType) else 0
