"""Pipelines as text, and variants of them in which one thing is switched off.

A :class:`Variant` is a pipeline and what is taken out of it.  :func:`ablations` names the variants
of a workload: each pass of :data:`OPTIONAL_PASSES` skipped, and each part of :data:`PARTS_OFF`
written into the plans.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline

from mugraph.errors import UserError
from mugraph.passes.sequence import flattened
from mugraph.reading import multiverse
from mugraph.tools.mg_opt import check_options

OURS = "mugraph"
"""The system that is our kernel as its workload's pipeline makes it."""

TRY = "try "
"""How the names of further pipelines begin."""

PLANNED = "transpile"
"""What is done to a workload: ``mugraph.compile`` does the same."""

OPTIONAL_PASSES = (
    "promote-registers",
    "use-warpgroups",
    "merge-products",
    "pipeline-products",
    "set-register-budgets",
    "bulk-stores",
    "plan-swizzle",
    "fuse-threadblock",
)
"""Passes that can be left out, where a pipeline has them."""

PARTS_OFF = (
    "tiles=written",
    "online-softmax=false",
    "loads=cp_async",
    "loads=tma preferred=loads",
    "swap-ab=false",
    "persistent=false",
    "ping-pong=1",
    "stores=threads",
    "pdl=none",
)
"""Parts of plans that are written in place of what ``--plan``, or a later pass, decides."""


@dataclass(frozen=True)
class Variant:
    """A pipeline, and what is taken out of it."""

    name: str
    pipeline: str
    without: str | None = None
    """A pass that is skipped wherever it stands."""

    def passes(self, arch: str) -> tuple[ModulePass, ...]:
        """The passes, sequences replaced by what they run."""
        return tuple(s for s in flat_passes(self.pipeline, arch) if s.name != self.without)


def flat_passes(pipeline: str, arch: str) -> tuple[ModulePass, ...]:
    """The passes of a pipeline's text; ``UserError`` (``ToolError``) for what is no pass."""
    available = multiverse().all_passes
    steps: list[ModulePass] = []
    for spec in parse_pipeline(pipeline):
        if spec.name not in available:
            raise UserError(f"unknown pass {spec.name!r} in the pipeline {pipeline!r}")
        kind = available[spec.name]()
        if any(field.name == "arch" for field in dataclasses.fields(kind)):
            spec = ArgSpec(spec.name, {"arch": (arch,), **spec.parameters})
        check_options(spec.name, spec, kind)
        steps.append(kind.from_spec(spec))
    return flattened(steps)


def tried(text: str) -> dict[str, tuple[Variant, ...]]:
    """Other pipelines for workloads, from lines of ``workload: passes``; ``#`` begins a comment.

    Raises ``UserError`` for a line that is none.
    """
    variants: dict[str, tuple[Variant, ...]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        stated = line.partition("#")[0].strip()
        workload, colon, pipeline = stated.partition(":")
        if not stated:
            continue
        if not colon or not pipeline.strip():
            raise UserError(f"line {number} is {line!r}; expected 'workload: passes'.")
        others = variants.get(workload.strip(), ())
        variant = Variant(f"{TRY}{len(others) + 1}", pipeline.strip())
        variants[workload.strip()] = (*others, variant)
    return variants


def with_parts(parts: str, pipeline: str = PLANNED) -> str:
    """A pipeline before which parts are written into the plans of all kernels."""
    return f"plan{{{parts}}},{pipeline}"


def ablations(pipeline: str, arch: str) -> tuple[Variant, ...]:
    """The variants of a pipeline in which one thing is switched off or planned otherwise.

    Variants that lead to the same kernels are found when these are built.
    """
    present = [step.name for step in flat_passes(pipeline, arch)]
    skipped = [
        Variant(f"without {name}", pipeline, without=name)
        for name in OPTIONAL_PASSES
        if name in present
    ]
    planned = [Variant(part, with_parts(part, pipeline)) for part in PARTS_OFF]
    return (*skipped, *planned)
