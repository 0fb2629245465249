"""The kernels of a graph that can be tuned, each as a module of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue
from xdsl.passes import PassPipeline

from mugraph.dialects.alignment import ALIGNMENT, alignment_of
from mugraph.dialects.kn import CustomizedOp, ViewOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning
from mugraph.passes.mugraph.known_plans.structure import structure_of
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.candidates import candidates, variants
from mugraph.passes.targets import target_named
from mugraph.version import __version__


@dataclass(frozen=True)
class TunedKernel:
    """A kernel, alone in a function of its own."""

    name: str
    structure: str
    module: ModuleOp
    target: str
    """The target that its plans are estimated for."""

    @property
    def graph(self) -> CustomizedOp:
        """The kernel in its module."""
        (graph,) = custom_kernels(self.module)
        return graph

    def candidates(self, count: int) -> list[Plan]:
        """So many plans that may be the fastest."""
        return candidates(self.graph, target_named(self.target), count)

    def variants(self, plan: Plan) -> list[Plan]:
        """Plans that differ from one in a part."""
        return variants(plan, self.graph.decided)


def tunable_kernels(
    module: ModuleOp, context: Context, target: str, *, fuse: bool = True
) -> tuple[list[TunedKernel], list[str]]:
    """The kernels of a program, those that are alike once, and why others cannot be tuned.

    ``fuse`` is that of ``mugraph.compile``.  The module is not changed.  Raises what the passes
    raise.
    """
    module = module.clone()
    PassPipeline(before_planning(target, fuse=fuse)).apply(context, module)
    found: dict[str, TunedKernel] = {}
    left: list[str] = []
    for number, graph in enumerate(custom_kernels(module)):
        function = graph.parent_op()
        assert isinstance(function, FuncOp)
        name = f"{function.sym_name.data}_custom{number}"
        problem = why_not(graph)
        if problem is not None:
            left.append(f"{name} is not tuned: {problem}")
            continue
        structure = structure_of(graph)
        if structure not in found:
            found[structure] = TunedKernel(name, structure, alone(graph, name), target)
    return [*found.values()], left


def why_not(graph: CustomizedOp) -> str | None:
    """A clause for a user: why a kernel cannot be measured alone; ``None`` where it can."""
    if graph.held_lengths:
        return "memory says how large its tensors are; tune it with the extents that matter"
    plan = graph.decided
    if plan.tiles is not None:
        return "its plan says tiles = written"
    if plan.merge or plan.inline:
        return "its plan makes one kernel of it and others"
    return None


def alone(graph: CustomizedOp, name: str) -> ModuleOp:
    """A module with a function that is one kernel, and the views that it takes of arguments."""
    views: list[ViewOp] = []
    sources: list[SSAValue] = []
    for source in graph.operands:
        chain: list[ViewOp] = []
        while isinstance(view := source.owner, ViewOp):
            chain.append(view)
            source = view.input
        views += reversed(chain)
        sources.append(source)
    arguments, results = [*dict.fromkeys(sources)], [*graph.results]
    function = FuncOp(name, ([each.type for each in arguments], [each.type for each in results]))
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, function.args, strict=True))
    copies = [op.clone(values) for op in (*dict.fromkeys(views), graph)]
    function.body.block.add_ops([*copies, ReturnOp(*copies[-1].results)])
    function.arg_attrs = _promises(map(alignment_of, arguments))
    function.res_attrs = _promises(map(alignment_of, results))
    module = ModuleOp([function])
    module.verify()
    return module


def _promises(alignments: Iterator[int]) -> ArrayAttr[DictionaryAttr]:
    return ArrayAttr(
        [DictionaryAttr({ALIGNMENT: IntegerAttr(alignment, i64)}) for alignment in alignments]
    )


@cache
def compiler_version() -> str:
    """mugraph's version and a digest of all that makes code of a plan.

    What one compiler measured says nothing of the code of another one.
    """
    digest = hashlib.sha256()
    for package in ("dialects", "passes", "codegen", "runtime"):
        folder = Path(str(import_module(f"mugraph.{package}").__file__)).parent
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".py", ".h", ".cuh", ".cu") and path.is_file():
                digest.update(path.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"
