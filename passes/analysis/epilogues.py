"""How long the epilogue of a persistent kernel takes beside its loop.

While the warps of a block are in an epilogue the tensor cores wait, unless other warps multiply
meanwhile (``--ping-pong``).  The constants are fitted to what two kernels on an H200 took
at several depths of their products (``benchmarks/results/h200_turns.md``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mugraph.dialects import sched
from mugraph.dialects.sched.kernel import WARP_THREADS, WARPGROUP
from mugraph.dialects.sched.structure import computing_block
from mugraph.dialects.tb.operators import epilogue_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.use_warpgroups import MACS_A_CYCLE

FIXED_CYCLES = 1000.0
"""The end of the last product, two barriers, and the first product of the next tile."""
VALUE_CYCLES, FUNCTION_CYCLES = 1.25, 10.0
"""What a warp takes to write one value a thread, and for a function of it."""
LEAST_SHARE = 1 / 12
"""From which share of the loop on roles of one warp group in turn were faster.

They have smaller tiles, and load more for each result.
"""


@dataclass(frozen=True)
class EpilogueTime:
    """Cycles of the loop and of the epilogue of one block of the grid, both about."""

    loop: float
    epilogue: float

    @property
    def is_long(self) -> bool:
        """Whether it pays that other warps multiply meanwhile."""
        return self.epilogue >= LEAST_SHARE * self.loop


def epilogue_time(kernel: sched.KernelOp) -> EpilogueTime | None:
    """The estimate for a kernel whose warp groups multiply; ``None`` for others.

    Of roles that take turns one is looked at.
    """
    phases = list(computing_block(kernel).ops)
    loop = next((op for op in phases if isinstance(op, sched.ForloopOp)), None)
    ends = next((op for op in phases if isinstance(op, sched.EpilogueOp)), None)
    if loop is None or ends is None:
        return None
    products = [op for op in loop.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    warps = sched.enclosing_threads(loop) // WARP_THREADS
    if not products:
        return None
    macs = sum(
        math.prod(shape_of(sums.type)) * shape_of(op.rhs.type)[-2]
        for op in products
        for sums in op.accumulators
    )
    of_a_warp = math.fsum(_cycles(op) for op in ends.walk())
    return EpilogueTime(
        loop.iterations * macs / MACS_A_CYCLE,
        FIXED_CYCLES + of_a_warp * warps / WARPGROUP,
    )


def _cycles(op: Operation) -> float:
    """What a warp takes for an operator of the epilogue."""
    functions = len(epilogue_of(op).functions)
    if isinstance(op, sched.MapOp):
        return _values(op.destination) * FUNCTION_CYCLES * (1 + functions)
    if isinstance(op, sched.StoreOp | sched.QuadStoreOp):
        return _values(op.source) * (VALUE_CYCLES + FUNCTION_CYCLES * functions)
    return 0.0


def _values(value: SSAValue) -> int:
    """How many values of a fragment each thread holds."""
    return value.type.values_per_thread() if isinstance(value.type, sched.FragmentType) else 0


__all__ = ["EpilogueTime", "epilogue_time"]
