"""Attention whose mask has rows of the least number throughout, as padded prompts have."""

from __future__ import annotations

from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.codegen.cuda import print_module
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context


def attention(*, mask: bool) -> str:
    """The CUDA of attention, with a mask of numbers or none."""
    graph = mi.new_kernel_graph("attention")
    q, k, v = (graph.new_input((64, 512, 64), dtype=mi.bfloat16) for _ in range(3))
    scores = (q @ mi.transpose(k)) * 0.125
    if mask:
        scores = scores + graph.new_input((1, 512, 512), dtype=mi.bfloat16)
    graph.mark_output(mi.softmax(scores) @ v)
    module = graph.module()
    PassPipeline(compile_pipeline("h200")).apply(make_context(), module)
    return print_module(module)


def test_powers_are_of_differences_that_do_not_overflow_where_numbers_are_added() -> None:
    # y c is -inf of y = finfo.min, and x c - y c was infinity.
    assert "ops::ScaledExpWideDifference<" in attention(mask=True)


def test_other_scores_take_no_comparison() -> None:
    text = attention(mask=False)
    assert "ops::ScaledExpDifference<" in text
    assert "ops::ScaledExpWideDifference<" not in text
