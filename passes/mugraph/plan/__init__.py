"""``--plan``: decides how each custom kernel is compiled, and writes it into its plan."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.functions import mugraphs_of
from mugraph.dialects.kn import CERTIFICATE, CustomizedOp
from mugraph.dialects.likeness import likeness_of
from mugraph.dialects.named_extents import buckets_of
from mugraph.dialects.plan import Plan, problem_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.choose import filled_plan, why_tiles_stay
from mugraph.passes.mugraph.retile.merge import is_merged
from mugraph.passes.targets import DEFAULT_TARGET, target_named


@dataclass(frozen=True)
class PlanPass(Plan, ModulePass):
    """Chooses plans of custom kernels: ``kn.customized ... plan <grid = [128], loads = tma>``.

    What a kernel's plan says is kept.  The options are the parts of a plan
    (``mugraph_dialects/plan.py``); each is written into every kernel whose plan leaves that part
    free.  Then the pass fills what an estimate of the time on the target ``arch`` decides, but in
    kernels that keep their tiles (``tiles = written``):

    - ``grid``, ``along``, ``forloop``, ``block`` and ``split_k``, where none of them is written.
      ``--retile`` cuts the kernel so; kernels that it makes beside it are planned by another
      ``--plan``.  A note says which kernels stay as they are, and why (``notes=false``: none).
    - ``outline``, where blocks compute something of the loop's tiles alike.
    - ``loads = cp_async``, where a producer would not pay, and then ``stages``.
    - ``ping_pong``, where the epilogue takes long beside the loop.
    - ``pdl``.

    ``stages`` and ``ping_pong`` are then ``preferred``: whether they fit shows only when the kernel
    is scheduled.  Any other part is kept, or refused with a sentence that says what would fit.
    Parts that stay free are decided by the pass that applies them, from the schedule it has.
    A kernel that another one's plan merges with it is left to that plan.

    ``function`` and ``kernel`` (counted from 0 in each function) choose one; default is all.

    Before::

        %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 64 {

    After::

        %o = kn.customized %x, %w grid [96, 1, 1] block [128, 1, 1] forloop 64
            plan <grid = [192, 1, 1], forloop = 32, block = [256, 1, 1]> {
    """

    name = "plan"

    arch: str = DEFAULT_TARGET
    function: str = ""
    kernel: int = -1
    notes: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fills the plan of every chosen kernel."""
        asked = self.over(Plan())
        problem = problem_of(asked)
        if problem is not None:
            raise PassFailedException(f"--{self.name}: {problem}")
        target = target_named(self.arch)
        graphs = self.chosen_graphs(op)
        if not graphs and (asked.cuts() or asked.regroups()):
            raise PassFailedException(
                f"--{self.name}: there is no custom kernel ('kn.customized') to cut otherwise; "
                "other operators of 'kn' have no grid and no for-loop"
            )
        known: dict[Hashable, Plan] = {}
        for graph in graphs:
            if self.kernel < 0 and is_merged(graph):
                continue  # it becomes a part of the kernel before
            plan = graph.decided.over(asked)
            require_consistent(graph, plan)
            look = likeness_of(graph, besides=(CERTIFICATE,)), plan
            if plan.regroups():
                graph.decided = filled_plan(graph, plan, target)  # with kernels around it
            else:
                if look not in known:
                    known[look] = filled_plan(graph, plan, target)
                graph.decided = known[look]
            if self.notes and plan.tiles is None and not graph.decided.cuts():
                sentence = f"{op_label(graph)} stays as it is: {why_tiles_stay(graph, target)}"
                print(f"--{self.name}: note: {sentence}", file=sys.stderr)

    def chosen_graphs(self, module: ModuleOp) -> list[CustomizedOp]:
        """The custom kernels of one function, or of all, and of them one, or all.

        Raises ``PassFailedException`` where there is no such function or kernel.
        """
        every = [each for op in mugraphs_of(module) for each in buckets_of(module, op)]
        functions = [op for op in every if self.function in ("", op.sym_name.data)]
        if not functions:
            missing = f"µGraph @{self.function}" if self.function else "function with a body"
            raise PassFailedException(f"--{self.name}: the module has no {missing}")
        chosen: list[CustomizedOp] = []
        for op in functions:
            graphs = custom_kernels(op)
            if self.kernel >= len(graphs):
                raise PassFailedException(
                    f"--{self.name}: @{op.sym_name.data} has {len(graphs)} custom kernels; there "
                    f"is no kernel {self.kernel}, counted from 0"
                )
            chosen += graphs if self.kernel < 0 else [graphs[self.kernel]]
        return chosen


def require_consistent(graph: CustomizedOp, plan: Plan) -> None:
    """Raises ``PassFailedException`` where parts of a kernel's plan contradict each other."""
    if plan.tiles == "written" and plan.cuts():
        names = ", ".join(plan.cuts())
        raise PassFailedException(
            f"--plan: {op_label(graph)}: tiles = written keeps grid, for-loop and block, but its "
            f"plan also says {names}; leave one of them out"
        )
    if plan.persistent is False and (plan.ping_pong or 1) > 1:
        raise PassFailedException(
            f"--plan: {op_label(graph)}: {plan.text_of('ping_pong')} needs persistent blocks; "
            "write persistent = true, or leave persistent free"
        )
    if plan.loads == "cp_async" and plan.needs_producer():
        raise PassFailedException(
            f"--plan: {op_label(graph)}: swap_ab, persistent and ping_pong need a producer; write "
            "loads = tma, or leave loads free"
        )


__all__ = ["PlanPass"]
