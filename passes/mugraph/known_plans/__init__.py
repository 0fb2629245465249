"""``--use-plans``: writes what a database of measured plans knows into the plans of kernels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import op_label
from mugraph.errors import UserError
from mugraph.passes.mugraph.known_plans.database import (
    Entry,
    PlanDatabase,
    PlanDatabaseWarning,
    measured_plans,
)
from mugraph.passes.mugraph.known_plans.structure import structure_of
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.choose import require_cuttable, trial_of
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.targets import DEFAULT_TARGET, target_named


def use_plans(module: ModuleOp, database: PlanDatabase, gpu: str) -> list[CustomizedOp]:
    """Writes measured plans into the kernels that a database knows; returns those that got one.

    A plan that a kernel cannot be cut by is left out, with a warning.
    """
    changed: list[CustomizedOp] = []
    for graph in custom_kernels(module):
        entry = database.find(structure_of(graph), gpu)
        if entry is None or entry.plan == Plan():
            continue
        plan = graph.decided.over(entry.plan)
        problem = problem_with(graph, plan)
        if problem is not None:
            warnings.warn(
                f"{op_label(graph)}: the plan that was measured on {gpu} is ignored: {problem}",
                PlanDatabaseWarning,
                stacklevel=2,
            )
            continue
        graph.decided = plan
        changed.append(graph)
    return changed


def problem_with(graph: CustomizedOp, plan: Plan) -> str | None:
    """Why a kernel cannot be cut as a plan says; ``None`` where it can."""
    with trial_of(graph):
        try:
            require_cuttable(graph, plan)
        except RetileError as error:
            return str(error)
    return None


@dataclass(frozen=True)
class UsePlansPass(ModulePass):
    """Gives custom kernels the plans that were measured to be the fastest (``docs/tuning.md``).

    ``database`` is a file that ``mg-tune`` wrote; what comes with mugraph counts, too, where the
    file says nothing.  A kernel gets the plan that stands there for the same operators, extents and
    element types on the same GPU: ``gpu``, by default the target of ``arch``.  Parts
    that are written in its plan stay.  Other kernels are left to ``--plan``.  Entries of
    another version of mugraph, entries that were edited, and plans that a kernel cannot be cut by
    are ignored, with a warning.

    Pre-condition: stands before ``--plan``, and after ``--fuse-kernels``.

    Before::

        %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 64 {

    After::

        %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 64
            plan <grid = [192, 1, 1], loads = tma, pdl = end> {
    """

    name = "use-plans"

    database: str = ""
    gpu: str = ""
    arch: str = DEFAULT_TARGET

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Writes the plans."""
        gpu = self.gpu or target_named(self.arch).name
        try:
            database = self._own().over(measured_plans(gpu))
        except UserError as error:
            raise PassFailedException(f"--{self.name}: {error}") from error
        use_plans(op, database, gpu)

    def _own(self) -> PlanDatabase:
        """What the file has, if one is said."""
        if not self.database:
            return PlanDatabase()
        path = Path(self.database)
        if not path.is_file():
            raise PassFailedException(
                f"--{self.name}: there is no file {self.database}; write database=FILE with one "
                "that mg-tune wrote"
            )
        return PlanDatabase.read(path)


__all__ = [
    "Entry",
    "PlanDatabase",
    "PlanDatabaseWarning",
    "UsePlansPass",
    "measured_plans",
    "use_plans",
]
