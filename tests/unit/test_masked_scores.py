"""Which scores a mask makes minus infinity, however far from them it stands."""

import sys

import pytest
from xdsl.dialects.func import ReturnOp

import mugraph.build as mi
from mugraph.passes.mugraph.online_softmax.masked import is_masked


@pytest.mark.parametrize("masked", [True, False])
def test_a_mask_is_found_behind_more_operators_than_python_calls(*, masked: bool) -> None:
    graph = mi.new_kernel_graph("scores")
    x = graph.new_input((1, 8), dtype=mi.float32)
    scores = mi.causal_mask(x) if masked else x
    for _ in range(sys.getrecursionlimit()):
        scores = scores + x
    graph.mark_output(scores)
    (end,) = (op for op in graph.module().walk() if isinstance(op, ReturnOp))
    assert is_masked(end.arguments[0]) is masked
