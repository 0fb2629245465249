"""Plans of kernels whose blocks, in several rounds, stream weights from memory."""

from __future__ import annotations

import pytest
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


@pytest.mark.parametrize(("rows", "depth"), [(1, 2048), (1, 4096), (8, 4096)])
def test_weights_of_few_rows_have_long_reads_and_two_blocks_beside_each_other(
    rows: int, depth: int
) -> None:
    """As logits: a sixteenth of the depth, in three stages; of one row 128 columns a block."""
    plan = plan_of_logits(rows, depth)
    assert (plan.forloop, plan.stages) == (16, (3,))


def test_weights_of_more_rows_have_shorter_reads() -> None:
    """Weights of more rows were not timed with longer reads."""
    plan = plan_of_logits(16)
    assert (plan.forloop or 64) > 16
