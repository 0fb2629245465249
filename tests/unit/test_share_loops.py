"""Blocks that share a loop: how many take tiles of it follows from how many a call launches."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.dialects.launch_extents import integer_array
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.schedule.share_loops import may_share, shared_axis
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

SEQUENCES, HEADS, KEYS, TILE, PARTS = 4, 2, 520, 16, 3
RANDOM = np.random.default_rng(281501)


def decode() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("decode")
    b = mi.Extent("b", largest=SEQUENCES)
    q = graph.new_input((b, HEADS, 4, 32), name="q")
    length = graph.new_input((1,), dtype=mi.int32, name="length")
    n = mi.Extent("n", largest=KEYS, held=length)
    k, v = (graph.new_input((b, HEADS, n, 32), name=name) for name in "kv")
    scores = graph.matmul(q, graph.transpose(k, [0, 1, 3, 2]), dtype=mi.float32)
    graph.mark_output(mi.cast(mi.softmax(scores, 3), mi.float16) @ v)
    return graph


@pytest.mark.one_in(2)
@pytest.mark.parametrize("at_once", [5, 8, 12, 20])
def test_any_number_of_blocks_may_share_a_loop(at_once: int) -> None:
    """Of 2 to 8 loops 2 or 3 blocks each take tiles, by how many run at once."""
    module, context = decode().module(), make_context()
    PassPipeline(compile_pipeline("sm_90a", Plan(loop_tile=TILE, split_k=PARTS))).apply(
        context, module
    )
    kernel, _ = (op for op in module.ops if isinstance(op, sched.KernelOp))
    axis = kernel.grid_dim.index(PARTS)
    assert shared_axis(kernel) == axis and may_share(kernel, axis)
    assert kernel.parts is None  # as all of its blocks run at once
    kernel.parts = integer_array([axis, at_once])
    module.verify()

    def check(kernels: CudaModule) -> None:
        for sequences in range(1, SEQUENCES + 1):
            for keys in (0, 1, 40, 300, KEYS):
                q = RANDOM.standard_normal((sequences, HEADS, 4, 32)).astype(np.float16)
                k, v = (np.full((sequences, HEADS, KEYS, 32), np.nan, np.float16) for _ in "kv")
                shape = (2, sequences, HEADS, keys, 32)
                k[:, :, :keys], v[:, :, :keys] = RANDOM.standard_normal(shape) / 4
                (found,) = kernels.run([q, np.array([keys], np.int32), k, v])
                wide = (x[:, :, :keys].astype(np.float64) for x in (k, v))
                left, right = wide
                powers = np.exp(q.astype(np.float64) @ left.swapaxes(2, 3))
                sums = np.maximum(powers.sum(-1, keepdims=True), 1e-30)
                np.testing.assert_allclose(found, powers @ right / sums, rtol=1e-2, atol=1e-2)

    check_emulated_later(generate_cuda(module.clone(), context, "sm_90a"), check)
