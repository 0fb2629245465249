"""``--plan``: decides how each custom kernel is compiled, and writes it into its plan."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan, problem_of
from mugraph.dialects.tensor_types import op_label
from mugraph.passes.mugraph.plan.choose import filled_plan
from mugraph.passes.mugraph.retile import chosen_graphs
from mugraph.passes.targets import DEFAULT_TARGET, target_named


@dataclass(frozen=True)
class PlanPass(Plan, ModulePass):
    """Fills the plans of custom kernels: ``kn.customized ... plan <grid = [128], loads = tma>``.

    What a kernel's plan says is kept.  The options are the parts of a plan
    (``mugraph_dialects/plan.py``); each is written into every kernel whose plan leaves that part
    free.  Then the pass fills what an estimate of the time on the target ``arch`` decides, but in
    kernels that keep their tiles (``tiles = written``):

    - ``grid``, ``along``, ``forloop``, ``block`` and ``split_k``, where none of them is written.
      ``--retile`` cuts the kernel so.
    - ``outline``, where blocks compute something of the loop's tiles alike.
    - ``loads = cp_async``, where a producer would not pay, and then ``stages``.
    - ``ping_pong``, where the epilogue takes long beside the loop.
    - ``pdl``.

    ``stages`` and ``ping_pong`` are then ``preferred``: whether they fit shows only when the kernel
    is scheduled.  Any other part is kept, or refused with a sentence that says what would fit.
    Parts that stay free are decided by the pass that applies them, from the schedule it has.

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

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Fills the plan of every chosen kernel."""
        asked = self.over(Plan())
        problem = problem_of(asked)
        if problem is not None:
            raise PassFailedException(f"--{self.name}: {problem}")
        target = target_named(self.arch)
        for graph in chosen_graphs(op, self.function, self.kernel, self.name):
            plan = graph.decided.over(asked)
            require_consistent(graph, plan)
            graph.decided = filled_plan(graph, plan, target)


def require_consistent(graph: CustomizedOp, plan: Plan) -> None:
    """Raises ``PassFailedException`` where parts of a kernel's plan contradict each other."""
    cut = Plan(tiles="written").over(plan)
    if plan.tiles == "written" and cut.cuts():
        names = ", ".join(cut.cuts())
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
