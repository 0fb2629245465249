"""Left matrices that products of a loop take from registers that were loaded before it."""

from __future__ import annotations

from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.codegen.cuda import print_module
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context


def attention_of_scaled_queries(stages: tuple[int, ...]) -> str:
    """The CUDA of attention that multiplies its queries by numbers in front of its loop."""
    graph = mi.new_kernel_graph("attention")
    q, k, v = (graph.new_input((256, 512, 64), dtype=mi.bfloat16) for _ in range(3))
    scales = graph.new_input((1, 512, 64), dtype=mi.bfloat16)
    graph.mark_output(mi.softmax((q * scales) @ mi.transpose(k)) @ v)
    module = graph.module()
    PassPipeline(compile_pipeline("h200", Plan(stages=stages))).apply(make_context(), module)
    return print_module(module)


def test_something_reads_registers_behind_a_loop_that_finishes_its_products_one_by_one() -> None:
    # ptxas 13.0 had the probabilities in the registers of the queries else.
    text = attention_of_scaled_queries((1, 1))
    assert "RegisterOperand" in text
    assert "RegisterWarpgroupMatmul" in text
    assert "::issue" not in text
    assert text.count("mugraph::keep(") == 1


def test_nothing_does_where_probabilities_are_multiplied_beside_the_next_scores() -> None:
    text = attention_of_scaled_queries((2, 2))
    assert "RegisterWarpgroupMatmul" in text
    assert "::issue" in text
    assert "mugraph::keep(" not in text
