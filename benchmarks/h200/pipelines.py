"""Pipelines as text, and variants of them in which one thing is switched off.

A :class:`Variant` is a pipeline and what is taken out of it.  :func:`ablations` names the variants
of a workload: each pass of :data:`OPTIONAL_PASSES` skipped, loads that run ahead in the other way,
and each option of the passes before ``transpile`` left out.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

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

TRANSPILE = "transpile"

OPTIONAL_PASSES = (
    "retile",
    "online-softmax",
    "promote-registers",
    "use-warpgroups",
    "merge-products",
    "pipeline-products",
    "share-registers",
    "persist-blocks",
    "bulk-stores",
    "alternate-consumers",
    "overlap-launches",
    "plan-swizzle",
    "fuse-threadblock",
)
"""Passes that can be left out, where a pipeline has them."""

PIPELINE_OPTION = ("schedule-threadblock", "pipeline")
"""How loads run ahead: each of the two ways is set against the other."""

WAYS = ("channels", "async-copies")

FEW_ROWS = ("schedule-threadblock", "small_m")
"""Who computes products of few rows: what is chosen is set against both."""

FEW_ROWS_BY = ("mma", "swap")

OPTIONS_OFF = (("schedule-threadblock", "warps_along_k"),)
"""Options that are on and can be switched off."""


@dataclass(frozen=True)
class Variant:
    """A pipeline, and what is taken out of it."""

    name: str
    pipeline: str
    without: str | None = None
    """A pass that is skipped wherever it stands."""
    switched: tuple[str, str, Any] | None = None
    """A pass, an option of it, and the value that the option gets."""

    def passes(self, arch: str) -> tuple[ModulePass, ...]:
        """The passes, sequences replaced by what they run."""
        kept = [step for step in flat_passes(self.pipeline, arch) if step.name != self.without]
        if self.switched is None:
            return tuple(kept)
        name, option, value = self.switched
        return tuple(
            dataclasses.replace(step, **{option: value}) if step.name == name else step
            for step in kept
        )


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


def ablations(pipeline: str, arch: str) -> tuple[Variant, ...]:
    """The variants of a pipeline in which one thing is switched off, none of them twice."""
    full = flat_passes(pipeline, arch)
    seen = [full]
    variants: list[Variant] = []
    for variant in (*_skipped(pipeline, full), *_switched(pipeline, full), *_unwritten(pipeline)):
        steps = variant.passes(arch)
        if steps not in seen:
            seen.append(steps)
            variants.append(variant)
    return tuple(variants)


def _skipped(pipeline: str, full: tuple[ModulePass, ...]) -> list[Variant]:
    """Without each pass that can be left out."""
    present = [step.name for step in full]
    return [
        Variant(f"without {name}", pipeline, without=name)
        for name in OPTIONAL_PASSES
        if name in present
    ]


def _switched(pipeline: str, full: tuple[ModulePass, ...]) -> list[Variant]:
    """With loads that run ahead in the other way, and with each option that is on switched off."""
    name, option = PIPELINE_OPTION
    used = {getattr(step, option) for step in full if step.name == name}
    off = [
        Variant(f"{other.replace('_', '-')}=false", pipeline, None, (step, other, False))
        for step, other in OPTIONS_OFF
        if any(getattr(one, other) for one in full if one.name == step)
    ]
    few, small = FEW_ROWS
    asked = {getattr(step, small) for step in full if step.name == few}
    off += [
        Variant(f"small-m={way}", pipeline, None, (few, small, way))
        for way in FEW_ROWS_BY
        if asked and way not in asked
    ]
    return off + [
        Variant(f"{option}={way}", pipeline, None, (name, option, way))
        for way in WAYS
        # What is chosen where nothing is said is the first of them.
        if used and way not in used and (way != WAYS[0] or WAYS[1] in used)
    ]


def _unwritten(pipeline: str) -> list[Variant]:
    """Without each pass and each option of a pass that stands in the text before ``transpile``.

    What ``transpile`` is told to leave out (``overlap-launches=false``, for instance) is put in.
    """
    specs = list(parse_pipeline(pipeline))
    variants: list[Variant] = []
    for index, spec in enumerate(specs):
        before, after = list(map(str, specs[:index])), list(map(str, specs[index + 1 :]))
        if spec.name != TRANSPILE:
            variants.append(Variant(f"without {spec.name}", ",".join([*before, *after])))
        for option in spec.parameters:
            if spec.name != TRANSPILE:
                name = f"without {spec.name} {option}"
            elif spec.parameters[option] == (False,):
                name = f"with {option}"
            else:
                continue
            if spec.name != TRANSPILE and len(spec.parameters) == 1:
                continue  # that is the pass left out
            fewer = {key: value for key, value in spec.parameters.items() if key != option}
            text = ",".join([*before, str(ArgSpec(spec.name, fewer)), *after])
            variants.append(Variant(name, text))
    return variants
