"""``--plan-swizzle`` before scheduling and after it: the schedule's accesses have the last word.

Planned on a µGraph, by what operators declare, and again on its schedule, a buffer gets the layout
that it gets when only the schedule is planned.
"""

import json
from pathlib import Path

import pytest
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.sched import AllocOp
from mugraph.dialects.tensor_types import layout_of
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.mugraph.fuse_threadblock import FuseThreadblockPass
from mugraph.passes.mugraph.resolve_layout import ResolveLayoutPass
from mugraph.passes.schedule.lower_threadblock import LowerThreadblockPass
from mugraph.passes.schedule.plan_swizzle import PlanSwizzlePass
from mugraph.reading import make_context, read_module
from mugraph.tools.import_mirage import import_mirage

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.mlir"))
SAVED = ROOT.parent / "shared" / "mugraphs"


def apply(module: ModuleOp, *passes: ModulePass) -> ModuleOp:
    PassPipeline(passes).apply(make_context(), module)
    module.verify()
    return module


def tile_layouts(module: ModuleOp) -> dict[str, str]:
    """The layout of every tile of the µGraph, by its place and name."""
    found: dict[str, str] = {}
    for op in module.walk():
        if isinstance(op, CustomizedOp):
            for inner in op.body.block.ops:
                for result in inner.results:
                    found[f"{len(found)} %{result.name_hint}"] = str(layout_of(result.type))
    return found


def buffer_layouts(module: ModuleOp) -> list[tuple[str | None, str]]:
    """The layout of every buffer of the schedule, in order."""
    return [
        (op.result.name_hint, str(layout_of(op.result.type)))
        for op in module.walk()
        if isinstance(op, AllocOp)
    ]


def check(module: ModuleOp) -> int:
    """Compares both orders on a µGraph; how many layouts swizzling changed."""
    apply(module, DecomposeThreadblockPass(), FuseThreadblockPass(), ResolveLayoutPass())
    scheduled = apply(module.clone(), LowerThreadblockPass(), PlanSwizzlePass())
    unscheduled = module.clone()
    plain = tile_layouts(unscheduled)
    apply(unscheduled, PlanSwizzlePass())
    swizzled = tile_layouts(unscheduled)
    apply(unscheduled, LowerThreadblockPass(), PlanSwizzlePass())
    assert buffer_layouts(unscheduled) == buffer_layouts(scheduled)
    return sum(plain[name] != swizzled[name] for name in plain)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    changed = check(read_module(str(path), make_context()))
    # Tiles of one row have no conflicts to swizzle away.
    assert changed > 0 or path.stem == "norm_transition"


@pytest.mark.skipif(not SAVED.is_dir(), reason=f"no saved µGraphs at {SAVED.parent.name}/mugraphs")
@pytest.mark.parametrize(
    "path", sorted(SAVED.glob("*.json")) if SAVED.is_dir() else [], ids=lambda path: path.stem
)
def test_saved_mugraphs(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    graphs = json.loads(text)
    count = len(graphs) if isinstance(graphs[0], list) else 1
    # The graphs of a file are cuts of one program.
    taken = range(0, count, inputs(3, 1))
    changed = [check(import_mirage(text, index)[0]) for index in taken]
    assert sum(changed) > 0
