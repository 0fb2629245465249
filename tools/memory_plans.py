"""Modules at any stage, with their memory planned: what pictures of plans start from."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from mugraph.dialects import sched
from mugraph.dialects.cute.errors import LayoutError
from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.schedule.plan_stensor_memory import PlanSTensorMemoryPass
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context
from mugraph.tools.mugraph_files import read_mugraphs


def shared_memory_limit(arch: str) -> int:
    """The bytes of shared memory that a block may have; raises ``PassFailedException``."""
    return target_named(arch).shared_memory_per_block


def missing_passes(module: ModuleOp, arch: str) -> tuple[ModulePass, ...]:
    """The passes that lead from a module to one whose memory is planned.

    All of ``--transpile`` where a µGraph is left, the last planning pass where only offsets are
    missing, and none where there is a plan.
    """
    if any(isinstance(op, CustomizedOp) for op in module.walk()) or not any(
        isinstance(op, sched.KernelOp) for op in module.walk()
    ):
        return transpile_pipeline(arch, check_hazards=False)
    if any(isinstance(op, sched.AllocOp) and op.byte_offset is None for op in module.walk()):
        return (PlanSTensorMemoryPass(arch=arch),)
    return ()


def planned_module(path: str, arch: str) -> ModuleOp:
    """The module of a file, with its memory planned."""
    context = make_context()
    target_named(arch)
    module = read_mugraphs(path, context, "mg-viz draws memory and schedules of µGraphs.")
    PassPipeline(missing_passes(module, arch)).apply(context, module)
    module.verify()
    return module


def kernels_of(module: ModuleOp, name: str | None = None) -> list[sched.KernelOp]:
    """The scheduled kernels of a module, or the one of a name; raises ``LayoutError`` for none."""
    kernels = [op for op in module.walk() if isinstance(op, sched.KernelOp)]
    if not kernels:
        raise LayoutError(
            "There is no schedule to draw: the module has no custom kernel; for a program of whole "
            "tensors run mg-opt --fuse-kernels first."
        )
    chosen = [op for op in kernels if name in (None, op.sym_name.data)]
    if not chosen:
        there = ", ".join(f"'{op.sym_name.data}'" for op in kernels)
        raise LayoutError(f"There is no kernel '{name}'; the module has {there}.")
    return chosen
