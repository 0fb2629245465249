"""``mugraph.compile``: the passes of ``--transpile``, after those that choose which operators share
kernels."""

from __future__ import annotations

from xdsl.passes import ModulePass

from mugraph.dialects.plan import Plan
from mugraph.passes.mugraph.known_plans import UsePlansPass
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.program.bucket_extents import BucketExtentsPass
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.passes.schedule.lower_threadblock import LowerThreadblockPass
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.passes.transpile import transpile_pipeline


def compile_pipeline(
    arch: str = DEFAULT_TARGET,
    plan: Plan | None = None,
    *,
    fuse: bool = True,
    known_plans: UsePlansPass | None = None,
) -> tuple[ModulePass, ...]:
    """The passes of ``mugraph.compile``: operators share kernels, unless told not to, and then
    those of ``--transpile``.

    ``known_plans`` runs before kernels are planned.
    """
    steps = transpile_pipeline(arch, plan)
    if fuse:
        steps = (BucketExtentsPass(), FuseKernelsPass(arch), *steps)
    if known_plans is None:
        return steps
    start = _first(steps, PlanPass)
    return (*steps[:start], known_plans, *steps[start:])


def before_planning(arch: str = DEFAULT_TARGET, *, fuse: bool = True) -> tuple[ModulePass, ...]:
    """The passes of :func:`compile_pipeline` after which kernels are planned."""
    steps = compile_pipeline(arch, fuse=fuse)
    return steps[: _first(steps, PlanPass)]


def _first(steps: tuple[ModulePass, ...], kind: type[ModulePass]) -> int:
    return next(place for place, step in enumerate(steps) if isinstance(step, kind))


def planned_then_scheduled(
    arch: str = DEFAULT_TARGET, plan: Plan | None = None, *, fuse: bool = True
) -> tuple[tuple[ModulePass, ...], tuple[ModulePass, ...]]:
    """The passes of :func:`compile_pipeline` in two parts.

    The first is up to the layouts and places of device tensors.

    After the first part a function's signature is final; the second makes the kernels for ``arch``.
    """
    steps = compile_pipeline(arch, plan, fuse=fuse)
    start = _first(steps, LowerThreadblockPass)
    return steps[:start], steps[start:]
