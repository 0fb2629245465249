"""``mugraph.compile``: the passes of ``--transpile``, after those that choose which operators share
kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, PassFailedException

from mugraph.dialects.plan import Plan
from mugraph.errors import first_line
from mugraph.passes.mugraph.known_plans import UsePlansPass
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.program.bucket_extents import BucketExtentsPass
from mugraph.passes.program.choose_buckets import ChooseBucketsPass
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.passes.program.fuse_kernels.refused import Refusal
from mugraph.passes.program.fuse_kernels.searches import Searches
from mugraph.passes.program.unfold_modes import UnfoldModesPass
from mugraph.passes.schedule.lower_threadblock import LowerThreadblockPass
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.passes.transpile import LEVEL_ENDS, transpile_pipeline

T = TypeVar("T")


@dataclass(frozen=True)
class FuseCompilablePass(FuseKernelsPass):
    """``--fuse-kernels`` of programs that may be compiled again, but for kernels that
    ``--transpile`` refuses.

    ``checked``: each kernel that is found is compiled alone, which takes as long as the program
    does, and those that are refused are left out.  ``searches`` has what was found before.
    """

    plan: Plan = field(default_factory=Plan)
    checked: bool = True
    searches: Searches = field(default_factory=Searches, compare=False)

    def known(self) -> Searches:
        """What has been found of programs before."""
        return self.searches

    def refusal(self, ctx: Context) -> Refusal | None:
        """The first line of what a pass says of a kernel alone."""
        if not self.checked:
            return None

        def why(kernel: ModuleOp) -> str | None:
            try:
                verifying(transpile_pipeline(self.arch, self.plan), LEVEL_ENDS).apply(ctx, kernel)
            except DiagnosticException as error:
                return first_line(error).removesuffix(":")
            return None

        return why


def with_kernels_that_compile(make: Callable[[bool], T]) -> T:
    """``make(False)``; where a pass refuses a kernel in that, ``make(True)``.

    What is made takes its passes from :func:`compile_pipeline`, with that as ``checked``.  Raises
    what the first one raises where the second fails, too.
    """
    try:
        return make(False)
    except PassFailedException as error:
        try:
            return make(True)
        except DiagnosticException:
            raise error from None


def compile_pipeline(
    arch: str = DEFAULT_TARGET,
    plan: Plan | None = None,
    *,
    fuse: bool = True,
    checked: bool = False,
    searches: Searches | None = None,
    known_plans: UsePlansPass | None = None,
) -> tuple[ModulePass, ...]:
    """The passes of ``mugraph.compile``: operators share kernels, unless told not to, and then
    those of ``--transpile``.

    ``checked``: no kernels that these refuse (:class:`FuseCompilablePass`).  ``searches`` has what
    was found for programs before.  ``known_plans`` runs before kernels are planned.
    """
    steps = transpile_pipeline(arch, plan)
    if fuse:
        searches = Searches() if searches is None else searches
        compilable = FuseCompilablePass(
            arch, plan=plan or Plan(), checked=checked, searches=searches
        )
        buckets = ChooseBucketsPass(arch), BucketExtentsPass()
        steps = (UnfoldModesPass(), *buckets, compilable, *steps)
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
    arch: str = DEFAULT_TARGET,
    plan: Plan | None = None,
    *,
    fuse: bool = True,
    checked: bool = False,
    searches: Searches | None = None,
) -> tuple[tuple[ModulePass, ...], tuple[ModulePass, ...]]:
    """The passes of :func:`compile_pipeline` in two parts.

    The first is up to the layouts and places of device tensors.

    After the first part a function's signature is final; the second makes the kernels for ``arch``.
    """
    steps = compile_pipeline(arch, plan, fuse=fuse, checked=checked, searches=searches)
    start = _first(steps, LowerThreadblockPass)
    return steps[:start], steps[start:]
