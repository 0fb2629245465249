"""Pipelines as text, and their passes."""

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


@dataclass(frozen=True)
class Variant:
    """A pipeline, and the name of its kernels among the systems; without any, ours."""

    name: str = OURS
    pipeline: str = PLANNED


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
