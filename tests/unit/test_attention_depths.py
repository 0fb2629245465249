"""Attention of heads of any depth is one kernel whose products warp groups compute in registers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from thorough import inputs
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning, compile_pipeline
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.mugraph.plan.choose import space_of
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.retile.partition import choose_partition
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.equivalence.stages import SemanticsWatch
from mugraph.runtime.interpreter import run_function


def attention(heads: int, group: int, tokens: int, depth: int, *, causal: bool = True) -> ModuleOp:
    """A plain program."""
    graph = mi.new_kernel_graph("attention")
    q = graph.new_input((heads, group, tokens, depth), dtype=mi.float16)
    k, v = (graph.new_input((heads, 1, tokens, depth), dtype=mi.float16) for _ in range(2))
    scores = q @ mi.transpose(k) * depth**-0.5
    graph.mark_output(mi.softmax(mi.causal_mask(scores) if causal else scores) @ v)
    return graph.module()


def scheduled(module: ModuleOp, plan: Plan | None = None) -> list[sched.KernelOp]:
    """The kernels, which the module then has."""
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    return [op for op in module.body.block.ops if isinstance(op, sched.KernelOp)]


def require_attention(
    module: ModuleOp, *inputs: npt.NDArray[np.float16], causal: bool = True
) -> None:
    """The schedule's addresses give attention of queries, keys and values."""
    q, k, v = (each.astype(np.float64) for each in inputs)
    *_, tokens, depth = q.shape
    scores = q @ k.swapaxes(-1, -2) * depth**-0.5
    if causal:
        scores[..., ~np.tri(tokens, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    (found,) = run_function(module, None, inputs, level="address")
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=2e-3)


@pytest.mark.parametrize(("depth", "causal"), [(72, True), (256, False)])
def test_warp_groups_multiply_in_registers(depth: int, *, causal: bool) -> None:
    """Of any depth, also where rows are no whole steps, or a thread holds 128 sums."""
    (kernel,) = scheduled(attention(16, 1, 1024, depth, causal=causal))
    products = [op for op in kernel.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert {isinstance(op.lhs.type, sched.TileType) for op in products} == {True, False}
    assert not any(isinstance(op, sched.MmaOp) for op in kernel.walk())
    # What one product passes on to the other never is in memory.
    rings = [op for op in kernel.walk() if isinstance(op, sched.ChannelOp)]
    assert len(rings) == 3


def test_a_depth_that_is_no_whole_step_is_padded() -> None:
    """Rows of 72 are loaded as 80, zeros past their end, and 72 of them are stored.

    Five tiles of 64 tokens are the fewest as which no plan divides the 72 columns.
    """
    module = attention(2, 1, 320, 72)
    plan = Plan(grid=(2, 5, 1), forloop=5, block=(128, 1, 1), tile=(0, 0, 0, 80), loads="tma")
    (kernel,) = scheduled(module, plan)
    buffers = [op.result.type for op in kernel.walk() if isinstance(op, sched.AllocOp)]
    assert {tuple(type_.get_shape()[2:]) for type_ in buffers} == {(64, 80), (80, 64)}
    assert any(isinstance(op, sched.WarpgroupMmaOp) for op in kernel.walk())
    random = np.random.default_rng(0)
    q, k, v = random.uniform(-1, 1, (3, 2, 1, 320, 72)).astype(np.float16)
    require_attention(module, q, k, v)


def test_keys_of_one_iteration_are_padded_for_warp_groups() -> None:
    """Of 100 keys without a mask: 112 are loaded, and those behind the last one are masked."""
    module = attention(3, 1, 100, 64, causal=False)
    tiles = Plan(grid=(3, 2, 1), along=(-1, 2), tile=(0, 0, 64, 0), forloop=1)
    plan = replace(tiles, block=(128, 1, 1), loads="tma")
    (kernel,) = scheduled(module, plan)
    products = [op for op in kernel.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert len(products) == 2
    assert any(isinstance(op, sched.MaskOp) for op in kernel.walk())
    q, k, v = np.random.default_rng(1).uniform(-1, 1, (3, 3, 1, 100, 64)).astype(np.float16)
    require_attention(module, q, k, v, causal=False)


def test_keys_behind_the_last_are_later_than_every_query() -> None:
    """The causal mask leaves nothing of them, and no other mask takes registers beside it."""
    module = attention(2, 2, 150, 64)
    tiles = Plan(tile=(0, 0, 64, 0), grid=(2, 2, 3), loop_tile=64, forloop=3, block=(128, 1, 1))
    (kernel,) = scheduled(module, tiles.over(Plan(loads="tma")))
    masks = [op for op in kernel.walk() if isinstance(op, sched.MaskOp)]
    assert [op.outside for op in masks] == [None]
    random = np.random.default_rng(0)
    q = random.uniform(-1, 1, (2, 2, 150, 64)).astype(np.float16)
    k, v = random.uniform(-1, 1, (2, 2, 1, 150, 64)).astype(np.float16)
    require_attention(module, q, k, v)


def test_ragged_prompts_share_a_multiprocessor_as_whole_ones_do() -> None:
    for tokens in (236, 256):
        (kernel,) = scheduled(attention(256, 5, tokens, 128))
        assert kernel.resident_blocks == 3


@pytest.mark.parametrize(("tokens", "late"), [(128, False), (192, True)])
def test_loops_of_two_iterations_multiply_in_order(tokens: int, *, late: bool) -> None:
    """Of one warp group the second product is issued late where there are three or more."""
    parts = tokens // 64
    tiles = Plan(grid=(384, parts, 1), along=(-1, 2, -1), forloop=parts, block=(128, 1, 1))
    module = attention(384, 1, tokens, 64)
    (kernel,) = scheduled(module, tiles.over(Plan(loads="tma", stages=(2,))))
    products = [op for op in kernel.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert any(op.is_async for op in products) is late


def test_heads_that_share_keys_start_with_their_longest_rows() -> None:
    """Rows are planes of the grid beside heads and groups."""
    (kernel,) = scheduled(attention(16, 2, 2048, 128))
    assert kernel.planes is not None
    assert kernel.grid_dim[0] * kernel.grid_dim[1] == 32


def test_a_batch_that_a_call_says_starts_in_the_grids_order() -> None:
    """Groups of columns are of all columns, of which a call may launch some."""
    graph, batch = mi.new_kernel_graph("attention"), mi.Extent("n", largest=16)
    q, k, v = (graph.new_input((batch, 2048, 64), dtype=mi.float16) for _ in range(3))
    graph.mark_output(mi.softmax(mi.causal_mask(q @ mi.transpose(k) * 0.125)) @ v)
    (kernel,) = scheduled(module := graph.module())
    module.verify()
    assert kernel.cuts_by_call and kernel.descending_columns is None


FASTEST_FIRST = {
    72: [(256, 64), (128, 128)],
    96: [(128, 128), (256, 64)],
    128: [(128, 128), (128, 96), (128, 64)],
    192: [(128, 96), (128, 80), (128, 64)],
    256: [(128, 80), (128, 64), (128, 32)],
}
"""Rows and keys of tiles of two warp groups, by depth, in the order of their times on an H200: 32
heads of 4096 keys, bf16, no mask."""


@pytest.mark.parametrize("depth", FASTEST_FIRST)
def test_the_estimate_orders_tiles_as_they_were_measured(depth: int) -> None:
    module, target = attention(32, 1, 4096, depth, causal=False), target_named("sm_90a")
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (graph,) = [op for op in module.walk() if isinstance(op, CustomizedOp)]
    space = space_of(graph, Plan())
    times: list[float] = []
    for rows, keys in FASTEST_FIRST[depth]:
        plan = Plan(
            grid=(32, 4096 // rows, 1),
            forloop=-(-4096 // keys),
            loop_tile=keys if 4096 % keys else None,
            tile=(0, 0, 0, 80) if depth == 72 else None,
            block=(256, 1, 1),
        )
        time = estimate(shape_under(space, choose_partition(space, plan)), target)
        assert time is not None
        times.append(time)
    assert times == sorted(times)


@pytest.mark.parametrize("heads", [2, 8][: inputs(1, 2)])
def test_a_scale_that_the_kernel_computes_is_a_number_of_all_rows(heads: int) -> None:
    """One number for each head, which threads take from memory; no exponential overflows.

    Blocks share the keys of few heads; those of more have rows of their own.
    """
    graph = mi.new_kernel_graph("attention")
    shapes = ((heads, 64, 64), (heads, 1024, 64), (heads, 1024, 64), (heads, 1, 1))
    q, k, v, scale = map(graph.new_input, shapes)
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * mi.exp(scale)) @ v)
    module = graph.module()
    watch = SemanticsWatch.begin(module)
    scheduled(module)
    watch.check(module, "transpile")
    random = np.random.default_rng(0)
    given = [random.uniform(-1, 1, shape).astype(np.float16) for shape in shapes]
    queries, keys, values, scales = (each.astype(np.float64) for each in given)
    scores = queries @ keys.swapaxes(-1, -2) * np.exp(scales)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ values
    (found,) = run_function(module, None, given, level="address")
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=2e-2)


def test_sums_of_columns_of_values_are_added_up_below_the_largest_maximum() -> None:
    """Blocks that share columns out, and keys, too: each stores its maximum; nothing overflows."""
    graph = mi.new_kernel_graph("attention")
    shapes = ((2, 64, 64), (2, 1024, 64), (2, 1024, 64))
    queries, keys, values = map(graph.new_input, shapes)
    graph.mark_output(mi.softmax(queries @ mi.transpose(keys) * 0.125) @ values)
    module = graph.module()
    first, *_ = scheduled(module, Plan(grid=(2, 4, 1), along=(-1, 2), split_k=16))
    assert first.grid_dim == (2, 4, 16)
    random = np.random.default_rng(0)
    inputs = [(6 * random.standard_normal(shape)).astype(np.float16) for shape in shapes]
    q, k, v = (each.astype(np.float64) for each in inputs)
    scores = q @ k.swapaxes(-1, -2) / 8
    assert scores.max() > np.log(np.finfo(np.float32).max)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    (found,) = run_function(module, None, inputs, level="address")
    np.testing.assert_allclose(found.astype(np.float64), expected, atol=0.3)
