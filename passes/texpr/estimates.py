"""Times of a tensor expression's kernels by estimate: nothing is proved, compiled or run."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects import te
from mugraph.passes.costs.mapped_kernels import KernelTime, estimate_mapped
from mugraph.passes.targets import target_named
from mugraph.passes.texpr.analysis.block_work import new_bytes, work_of
from mugraph.passes.texpr.te_map import TeMapPass
from mugraph.passes.texpr.te_prefetch import TePrefetchPass
from mugraph.passes.texpr.te_promote import TePromotePass
from mugraph.passes.texpr.te_vectorize import TeVectorizePass


def estimate_kernels(module: ModuleOp, arch: str) -> tuple[KernelTime, ...]:
    """What each kernel takes that is made of a module, which is mapped to threads and changed.

    Raises what passes raise where it has none.
    """
    for step in (
        TeMapPass(arch, prove=False),
        TePrefetchPass(),
        TePromotePass(arch),
        TeVectorizePass(),
    ):
        step.apply(Context(), module)
    target = target_named(arch)
    return tuple(
        estimate_mapped(work_of(op, target), op.iterations, new_bytes(op), target)
        for op in module.walk()
        if isinstance(op, te.KernelOp)
    )
