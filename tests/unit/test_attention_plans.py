"""The tiles that are planned for attention, as they were the fastest on an H200."""

from __future__ import annotations

import math

from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import tb
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.compile import before_planning, compile_pipeline
from mugraph.passes.costs.kernel_shape import KernelShape
from mugraph.passes.costs.loads import Load, Loads
from mugraph.passes.costs.work import PhaseWork
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.choose import filled_plan, space_of
from mugraph.passes.mugraph.plan.loading import stages_by_threads
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.passes.program.fuse_kernels import FuseKernelsPass
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function


def planned_kernel(graph: mi.KernelGraph) -> CustomizedOp:
    """The only kernel of a program, cut as it is planned."""
    module = graph.module()
    steps = compile_pipeline("sm_90a")
    last = [step.name for step in steps].index("retile")
    PassPipeline(steps[: last + 1]).apply(make_context(), module)
    (kernel,) = custom_kernels(only_function(module))
    return kernel


def planned(
    heads: int, tokens: int, depth: int, *, causal: bool, bias: bool = False
) -> CustomizedOp:
    """The planned kernel of attention of as many queries as keys; heads may share a bias."""
    graph = mi.new_kernel_graph("attention")
    shape = (heads, tokens, depth)
    q, k, v = (graph.new_input(shape, dtype=mi.bfloat16) for _ in range(3))
    scores = q @ mi.transpose(k) * depth**-0.5
    if bias:
        scores = scores + graph.new_input((tokens, tokens), dtype=mi.bfloat16)
    graph.mark_output(mi.softmax(mi.causal_mask(scores) if causal else scores) @ v)
    return planned_kernel(graph)


def plan_of(heads: int, tokens: int, depth: int, *, causal: bool) -> tuple[Plan, int]:
    """What is planned for it, and the kernel's threads."""
    kernel = planned(heads, tokens, depth, causal=causal)
    return kernel.decided, math.prod(kernel.block_dim)


def test_short_prompts_have_one_stage_so_that_three_blocks_start_side_by_side() -> None:
    plan, threads = plan_of(1024, 256, 128, causal=True)
    assert (plan.stages, threads) == ((1,), 128)


def test_prompts_of_which_two_small_blocks_have_a_multiprocessor_have_blocks_of_two_groups() -> (
    None
):
    assert plan_of(160, 2048, 128, causal=True)[1] == 256


def test_keys_are_cut_into_whole_steps_for_warp_groups() -> None:
    # A quarter of 352 is 88 keys, which single warps would multiply.
    kernel = planned(384, 352, 64, causal=False)
    products = [op for op in kernel.walk() if isinstance(op, tb.MatmulOp)]
    assert len(products) == 2
    assert all(shape_of(op.lhs.type)[-1] % 16 == 0 for op in products)


def test_prompts_have_one_stage_where_that_lets_in_a_third_block() -> None:
    """Of depth 64 three have two stages, and masks of ragged ends take registers."""
    assert plan_of(320, 1024, 128, causal=True)[0].stages == (1,)
    assert plan_of(320, 743, 128, causal=True)[0].stages == (1,)
    assert plan_of(256, 512, 64, causal=True)[0].stages is None
    assert plan_of(256, 300, 128, causal=False)[0].stages is None


def test_short_prompts_are_cut_for_three_blocks_of_a_warp_group_on_a_multiprocessor() -> None:
    """512 x 384 tokens of depth 64 took 54.9 us on an H200 so, and 61.9 with 128 keys and two."""
    kernel = planned(512, 384, 64, causal=False)
    assert (math.prod(kernel.block_dim), kernel.grid_dim[1]) == (128, 6)
    assert kernel.forloop_range > 3


def test_blocks_of_three_warp_groups_have_long_rows_of_little_depth() -> None:
    """12 heads took 106.5 us on an H200 so, and 117.5 by blocks of a group; masked rows only if
    they are very long: 16 heads of 16,384 tokens took 1,122 us so, and 1,209.
    """
    kernel = planned(12, 4096, 64, causal=False)
    assert (math.prod(kernel.block_dim), kernel.grid_dim[1]) == (384, 22)
    assert math.prod(planned(12, 4096, 64, causal=True).block_dim) == 128
    kernel = planned(16, 16384, 64, causal=True)
    assert (math.prod(kernel.block_dim), kernel.forloop_range) == (384, 128)


def test_tiles_of_one_group_have_a_bias_that_heads_share() -> None:
    """32 heads of depth 64 took 398 us on an H200 so, and 462 by three groups of 192 x 128."""
    kernel = planned(32, 4096, 64, causal=False, bias=True)
    tiles = (math.prod(kernel.block_dim), kernel.grid_dim[1], kernel.forloop_range)
    assert tiles == (128, 64, 32)
    kernel = planned(32, 4096, 128, causal=False, bias=True)
    assert (math.prod(kernel.block_dim), kernel.grid_dim[1]) == (256, 32)


def decode(matrices: int, rows: int, keys: int) -> CustomizedOp:
    """The planned kernel of queries of as many rows, of depth 128."""
    graph = mi.new_kernel_graph("decode")
    shapes = [(matrices, 1, count, 128) for count in (rows, keys, keys)]
    q, k, v = (graph.new_input(shape, dtype=mi.bfloat16) for shape in shapes)
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * 128**-0.5) @ v)
    return planned_kernel(graph)


def test_what_single_warps_pass_on_is_no_more_than_the_loop_keeps() -> None:
    """So three blocks of two stages are known to fit, whose last round has few: two have three."""
    assert decode(512, 8, 2641).decided.stages == (3,)


def test_keys_that_heads_share_lie_in_memory_once() -> None:
    graph = mi.new_kernel_graph("attention")
    q = graph.new_input((16, 8, 512, 64), dtype=mi.bfloat16)
    k, v = (graph.new_input((16, 1, 512, 64), dtype=mi.bfloat16) for _ in "kv")
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * 0.125) @ v)
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    (kernel,) = custom_kernels(only_function(module))
    space = space_of(kernel, Plan())
    loads = shape_under(space, partition_of(space)).loads
    assert sorted(load.tensor_bytes >> 20 for load in loads) == [1, 1, 8]


def test_long_rows_keep_their_stages() -> None:
    assert plan_of(32, 4096, 128, causal=False)[0].stages is None


def test_scores_of_a_decode_step_stay_in_the_kernel_that_takes_their_exponentials() -> None:
    """What a maximum of them takes, which would be written in a kernel of their own, counts."""
    graph = mi.new_kernel_graph("decode")
    q, k, v = (graph.new_input((200, 1, rows, 64), dtype=mi.bfloat16) for rows in (1, 8192, 8192))
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * 0.125) @ v)
    module = graph.module()
    FuseKernelsPass("sm_90a").apply(make_context(), module)
    assert len(custom_kernels(only_function(module))) == 1


def test_few_blocks_of_the_last_round_have_more_stages_in_as_many_rounds() -> None:
    """Three blocks of 72 KB share one of 132 multiprocessors, or two with a third stage."""
    load = Load(32 << 10, 1 << 30, looped=True)
    shape = KernelShape(
        512, 128, 256, Loads((load,)), PhaseWork((), 1), PhaseWork((), 1), 1024, 6 << 10
    )
    target = target_named("h200")
    # 512 blocks: two rounds either way, 116 blocks in the last one of three blocks.
    assert stages_by_threads(shape, target) == (3,)
    # 396 blocks are one round of three, and two of two; 450 are two either way.
    assert stages_by_threads(shape._replace(blocks=396), target) is None
    assert stages_by_threads(shape._replace(blocks=450), target) == (3,)
    # 792 blocks are two rounds of three, and three of two.
    assert stages_by_threads(shape._replace(blocks=792), target) is None


def test_norms_of_queries_stay_in_registers_and_change_no_tiles() -> None:
    def plan(*, normed: bool) -> Plan:
        graph = mi.new_kernel_graph("attention")
        q, k = graph.new_input((16, 256, 64)), graph.new_input((16, 64, 4096))
        v = graph.new_input((16, 4096, 64))
        queries = mi.rms_norm(q, graph.new_input((64,)), 1e-6) if normed else q
        graph.mark_output(mi.softmax(queries @ k) @ v)
        module = graph.module()
        FuseKernelsPass("sm_90a").apply(make_context(), module)
        (kernel,) = custom_kernels(only_function(module))
        return filled_plan(kernel, Plan(), target_named("sm_90a"))

    assert plan(normed=True) == plan(normed=False)
    assert (plan(normed=True).forloop, plan(normed=True).split_k) == (32, 4)
