"""Plans of kernels whose blocks, in several rounds, stream weights from memory."""

from __future__ import annotations

from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning
from mugraph.passes.mugraph.plan.choose import filled_plan
from mugraph.passes.targets import target_named
from mugraph.reading import make_context


def plan_of_logits(rows: int, depth: int = 4096) -> Plan:
    """The plan of the transpose of 151,936 rows behind another product, in bf16."""
    graph = mi.new_kernel_graph("logits")
    x = graph.new_input((rows, depth), dtype=mi.bfloat16)
    before, w = (
        graph.new_input((columns, depth), dtype=mi.bfloat16, constant=True)
        for columns in (depth, 151936)
    )
    graph.mark_output(mi.rms_norm(x @ mi.transpose(before)) @ mi.transpose(w))
    module = graph.module()
    PassPipeline(before_planning("h200")).apply(make_context(), module)
    *_, kernel = (op for op in module.walk() if isinstance(op, CustomizedOp))
    return filled_plan(kernel, Plan(), target_named("h200"))


def test_weights_of_a_row_that_come_in_several_rounds_have_four_stages() -> None:
    """As logits: 2,374 blocks, of which memory's bytes are the time."""
    assert plan_of_logits(1).stages == (4,)


def test_fewer_iterations_have_longer_reads_and_two_blocks_beside_each_other() -> None:
    """Half of the depth: 1,187 blocks of 128 columns and 128 of the depth, in three stages."""
    plan = plan_of_logits(1, 2048)
    assert (plan.grid, plan.forloop, plan.stages) == ((1187, 1, 1), 16, (3,))


def test_others_have_the_stages_that_the_last_round_needs() -> None:
    """Weights of several rows were not timed with more."""
    assert plan_of_logits(4).stages == (3,)
