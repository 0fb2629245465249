"""``--use-plans``: writes what a database of measured plans knows into the plans of kernels."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.likeness import likeness_of as alike
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import op_label
from mugraph.errors import UserError
from mugraph.passes.mugraph.known_plans.database import (
    Entry,
    PlanDatabase,
    PlanDatabaseWarning,
    measured_gpus,
    measured_plans,
    plan_text,
)
from mugraph.passes.mugraph.known_plans.structure import likeness_of, structure_of
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.choose import (
    filled_plan,
    require_cuttable,
    time_under,
    trial_of,
)
from mugraph.passes.mugraph.retile.errors import RetileError
from mugraph.passes.targets import DEFAULT_TARGET, Target, target_named


def use_plans(
    module: ModuleOp, database: PlanDatabase, gpu: str, target: Target
) -> list[CustomizedOp]:
    """Writes measured plans into the kernels that a database knows; returns those that got one.

    A kernel that it does not know gets the plan of the nearest one of the same operators, if it is
    estimated to gain at least as much here as there.  A plan that was measured of a kernel and that
    this cannot be cut by is left out, with a warning.
    """
    changed: list[CustomizedOp] = []
    known: dict[Hashable, tuple[Entry | None, Entry | None]] = {}
    for graph in custom_kernels(module):
        look = alike(graph, besides=(CERTIFICATE,))
        if look not in known:
            own = database.find(structure_of(graph), gpu)
            known[look] = own, own or database.nearest(*likeness_of(graph), gpu)
        own, entry = known[look]
        if entry is None or entry.plan == Plan():
            continue
        plan = graph.decided.over(entry.plan)
        problem = problem_with(graph, plan)
        if problem is not None and own is not None:
            warnings.warn(
                f"{op_label(graph)}: the plan that was measured on {gpu} is ignored: {problem}",
                PlanDatabaseWarning,
                stacklevel=2,
            )
        if problem is None and (own or estimated(graph, plan, target) <= entry.estimated):
            graph.decided = plan
            changed.append(graph)
    return changed


def estimated(graph: CustomizedOp, plan: Plan, target: Target) -> float:
    """What a plan is estimated to take, in parts of what ``--plan`` takes; infinite for none."""
    filled = (filled_plan(graph, each, target) for each in (plan, graph.decided))
    times = [time_under(graph, each, target) for each in filled]
    own, other = (math.inf if time is None else time for time in times)
    return round(own / other, 3) if other < math.inf else math.inf


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
    element types on the same GPU: ``gpu``, by default the target of ``arch``.  Where there is none
    it gets that of the nearest kernel of which one extent is another, up to twice or half as large,
    if the plan is estimated to gain at least as much here, by the target of ``arch``.  Parts
    that are written in its plan stay.  Other kernels are left to ``--plan``.  Entries of
    another version of mugraph, entries that were edited, and plans that a kernel cannot be cut by
    are ignored, with a warning.  With ``remarks`` a line on standard error says which kernels got
    a plan.

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
    remarks: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Writes the plans."""
        target = target_named(self.arch)
        gpu = self.gpu or target.name
        try:
            database = self._own().over(measured_plans(gpu))
        except UserError as error:
            raise PassFailedException(f"--{self.name}: {error}") from error
        if self.gpu and gpu not in database.gpus:
            others = ", ".join(sorted(database.gpus | measured_gpus()))
            text = f"there are no measured plans for gpu={gpu}; there are some for {others}"
            print(f"--{self.name}: note: {text}", file=sys.stderr)
        for graph in use_plans(op, database, gpu, target):
            if self.remarks:
                text = f"its plan <{plan_text(graph.decided)}> was measured on {gpu}"
                print(f"remark: {op_label(graph)}: {text} [measured-plan]", file=sys.stderr)

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
    "estimated",
    "measured_plans",
    "use_plans",
]
