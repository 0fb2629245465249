"""Repartitioned µGraphs are proved equal to what they were, and come through all passes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from schedules import passes_as_written
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.mugraph.online_softmax import OnlineSoftmaxPass
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.mugraph.plan.tiles import choose_least_time, in_one_iteration
from mugraph.passes.mugraph.retile import RetileError, RetilePass
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence import Answer, Checker, Subject
from mugraph.runtime.interpreter import run_function

EXAMPLES = Path(__file__).parents[2] / "examples"


def parse(text: str) -> ModuleOp:
    """The verified module of a text."""
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def example(name: str) -> ModuleOp:
    """One of the example µGraphs."""
    return parse((EXAMPLES / f"{name}.mlir").read_text(encoding="utf-8"))


def retiled(module: ModuleOp, plan: Plan) -> ModuleOp:
    """A copy with the first kernel cut as a plan says, which parses from its own text."""
    copy = module.clone()
    custom_kernels(copy)[0].decided = plan
    RetilePass().apply(Context(), copy)
    copy.verify()
    return parse(str(copy))


def planned(module: ModuleOp) -> ModuleOp:
    """A copy whose kernels are cut as ``--plan`` chooses."""
    copy = module.clone()
    for step in (PlanPass(notes=False), RetilePass()):
        step.apply(Context(), copy)
    copy.verify()
    return parse(str(copy))


PLANS = {
    "rmsnorm_linear": [
        Plan(grid=(192,), forloop=16),
        Plan(grid=(96, 4), along=(-1, 0)),
        Plan(split_k=4),
        Plan(grid=(48,), split_k=2, partial_sums="f16"),
        Plan(grid=(24, 2), along=(-1, 0), forloop=64, split_k=8, block=(256,)),
    ],
    "gated_mlp": [
        Plan(grid=(128,), forloop=32),
        Plan(grid=(2, 64), along=(0, 1)),
        Plan(forloop=1),
        Plan(split_k=2),
    ],
    "lora": [
        Plan(grid=(128,)),
        Plan(grid=(256,), forloop=4),
        Plan(grid=(64,), forloop=2, split_k=2),
    ],
    "attention_split_kv": [
        Plan(grid=(1, 4, 2), along=(-1, -1, 1)),
        Plan(forloop=8),
        Plan(merge=True),
        Plan(merge=True, forloop=8, split_k=8),
    ],
}


@pytest.mark.parametrize(
    ("name", "plan"), [(name, plan) for name, plans in PLANS.items() for plan in plans], ids=str
)
def test_what_is_computed_is_proved_to_stay(name: str, plan: Plan) -> None:
    module = example(name)
    after = retiled(module, plan)
    assert str(after) != str(module)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_a_merged_attention_is_one_kernel() -> None:
    merged = retiled(example("attention_split_kv"), Plan(merge=True))
    assert str(merged).count("kn.customized") == 1


def test_a_merge_undoes_a_split() -> None:
    module = example("gated_mlp")
    split = retiled(module, Plan(split_k=4))
    assert str(split).count("kn.customized") == 2
    merged = retiled(split, Plan(merge=True))
    assert str(merged).count("kn.customized") == 1
    verdict = Checker(Subject.of(module)).check(Subject.of(merged))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_other_uses_of_the_parts_are_no_merge() -> None:
    with pytest.raises(RetileError, match="used by several operators"):
        retiled(example("gated_mlp"), Plan(merge=True))


def test_a_kernel_that_is_merged_has_no_plan_of_its_own() -> None:
    module = example("attention_split_kv")
    custom_kernels(module)[1].decided = Plan(stages=(2,))
    with pytest.raises(
        RetileError, match=r"has stages = \[2\]; write that into the plan of the first"
    ):
        retiled(module, Plan(merge=True))


def test_merged_kernels_are_planned_as_one() -> None:
    """The plan's options are written into the first kernel only, which is cut as a whole."""
    module = example("attention_split_kv")
    PlanPass(merge=True).apply(Context(), module)
    first, second = (kernel.decided for kernel in custom_kernels(module))
    assert first.merge and first.cuts() and not second.parts()
    after = planned(example("attention_split_kv"))
    RetilePass().apply(Context(), module)
    assert not custom_kernels(module)[0].decided.merge
    verdict = Checker(Subject.of(after)).check(Subject.of(module))
    assert verdict.answer is Answer.PROVED, str(verdict)


def attention() -> ModuleOp:
    """The example of attention, in one kernel."""
    return retiled(example("attention_split_kv"), Plan(merge=True, forloop=16))


def rewritten(module: ModuleOp) -> ModuleOp:
    """A copy with running maxima."""
    copy = module.clone()
    OnlineSoftmaxPass().apply(Context(), copy)
    copy.verify()
    return parse(str(copy))


@pytest.mark.parametrize(
    "plan", [Plan(split_k=4), Plan(forloop=4), Plan(forloop=8, split_k=8)], ids=str
)
def test_running_maxima_may_come_first_or_last(plan: Plan) -> None:
    first = retiled(rewritten(attention()), plan)
    last = rewritten(retiled(attention(), plan))
    assert str(first) == str(last) and "tb.reduction_max" in str(first)


@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_divided_sums_of_large_exponentials_come_right(scale: float) -> None:
    random = np.random.default_rng(0)
    module = rewritten(retiled(attention(), Plan(split_k=4)))
    q, k, v = (
        (random.standard_normal(shape) * factor).astype(np.float16)
        for shape, factor in (((2, 16, 64), scale), ((2, 64, 1024), scale), ((2, 1024, 64), 1.0))
    )
    scores = np.matmul(q.astype(np.float64), k.astype(np.float64)) / 8
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = np.matmul(weights / weights.sum(axis=-1, keepdims=True), v.astype(np.float64))
    (result,) = run_function(module, None, [q, k, v], "storage")
    np.testing.assert_allclose(result.astype(np.float64), expected, atol=4e-3 if scale < 1 else 0.2)
    assert np.isfinite(result).all()


def test_divided_attention_may_cut_rows_and_columns() -> None:
    """The parts of sums of rows lie along the dimension along which those of the product do."""
    graph = mi.new_kernel_graph("f")
    q, k, v = (graph.new_input(shape) for shape in ((32, 16), (2048, 16), (2048, 32)))
    graph.mark_output(mi.softmax(q @ mi.transpose(k)) @ v)
    module = graph.module()
    fuse_program(only_function(module), target_named("sm_90a"))
    after = retiled(module, Plan(grid=(2, 2), along=(0, 1), forloop=32, split_k=2))
    assert [tuple(kernel.grid_dim) for kernel in custom_kernels(after)] == [(2, 2, 2), (2, 2, 1)]
    assert str(after).count("tb.reduction_max") == 2
    verdict = Checker(Subject.of(graph.module())).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_retiled_schedules_have_no_hazards() -> None:
    """The last pass proves it; without an error the kernels are those of both parts."""
    module = rewritten(retiled(attention(), Plan(split_k=4)))
    verifying(passes_as_written()).apply(make_context(), module)
    assert str(module).count("sched.kernel @") == 2


def test_the_combining_kernel_fills_the_gpu() -> None:
    """It is cut as the first one; its tiles are free, for another plan to choose."""
    split = retiled(attention(), Plan(split_k=4))
    assert [tuple(kernel.grid_dim) for kernel in custom_kernels(split)] == [(2, 4, 1), (2, 1, 1)]
    first, second = custom_kernels(planned(split))
    assert tuple(first.grid_dim) == (2, 4, 1) and math.prod(second.grid_dim) > 2


def product(rows: int, depth: int, columns: int) -> ModuleOp:
    """A product of two matrices, in blocks of all rows and 64 columns."""
    return parse(f"""
func.func @f(%x: tensor<{rows}x{depth}xf16>, %w: tensor<{depth}x{columns}xf16>)
    -> tensor<{rows}x{columns}xf16> {{
  %o = kn.customized %x, %w grid [{columns // 64}, 1, 1] block [128, 1, 1] forloop {depth // 64} {{
  ^bb0(%dx: tensor<{rows}x{depth}xf16>, %dw: tensor<{depth}x{columns}xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1
      : tensor<{rows}x{depth}xf16> -> !tb.stensor<{rows}x64xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0
      : tensor<{depth}x{columns}xf16> -> !tb.stensor<64x64xf16>
    %y = tb.matmul %sx, %sw
      : (!tb.stensor<{rows}x64xf16>, !tb.stensor<64x64xf16>) -> !tb.stensor<{rows}x64xf16>
    %a = tb.forloop_accum none %y : !tb.stensor<{rows}x64xf16> -> !tb.stensor<{rows}x64xf16>
    %s = tb.silu %a : !tb.stensor<{rows}x64xf16> -> !tb.stensor<{rows}x64xf16>
    tb.output %s omap [1, -1, -1]
      : !tb.stensor<{rows}x64xf16> -> tensor<{rows}x{columns}xf16>
  }} : (tensor<{rows}x{depth}xf16>, tensor<{depth}x{columns}xf16>) -> tensor<{rows}x{columns}xf16>
  func.return %o : tensor<{rows}x{columns}xf16>
}}""")


@pytest.mark.parametrize(
    "plan", [Plan(tile=(72, 0)), Plan(grid=(2, 3), along=(-1, 0), tile=(32, 0))], ids=str
)
def test_loops_of_ragged_rows_are_divided(plan: Plan) -> None:
    """Parts lie side by side along the columns, whose tiles are whole."""
    module = product(70, 256, 128)
    after = retiled(module, replace(plan, split_k=2))
    assert "tensor<70x256xf32>" in str(after)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_sums_that_are_ragged_along_all_dimensions_are_not_divided() -> None:
    with pytest.raises(RetileError, match="fewer elements than the others along each dimension"):
        retiled(product(70, 256, 128), Plan(tile=(72, 48), split_k=2))


@pytest.mark.parametrize(("blocks", "least", "tile"), [(1, 70, 48), (7, 10, 64)])
def test_tiles_that_are_too_small_or_leave_some_empty_are_refused(
    blocks: int, least: int, tile: int
) -> None:
    why = rf"%dx cannot be cut so: 70 elements in {blocks} tiles need {least} .*, not {tile}"
    with pytest.raises(RetileError, match=why):
        retiled(product(70, 256, 128), Plan(grid=(blocks,), along=(0,), tile=(tile, 0)))


def test_a_loop_that_shall_not_be_divided_is_cut_otherwise() -> None:
    divided, kept = (product(16, 4096, 256) for _ in range(2))
    PlanPass(notes=False).apply(Context(), divided)
    PlanPass(split_k=1, notes=False).apply(Context(), kept)
    plans = [custom_kernels(module)[0].decided for module in (divided, kept)]
    assert (plans[0].split_k or 1) > 1 and plans[1].split_k == 1 and plans[1].cuts()


def test_plans_of_two_kernels() -> None:
    """The second one's loop is not the first one's; where no launch is dependent, its is not."""
    asked = Plan(split_k=4, stages=(2,), stores="threads", pdl="none")
    first, second = custom_kernels(retiled(attention(), asked))
    kept = Plan(tiles="written", stages=(2,), stores="threads", pdl="none")
    assert first.decided == kept
    assert second.decided == Plan(split_k=1, stores="threads", pdl="none")


def test_parts_are_combined_at_once_where_they_fit() -> None:
    split = retiled(attention(), Plan(split_k=4))
    assert custom_kernels(planned(split))[1].forloop_range == 1
    target = target_named("sm_90a")
    space = find_dimensions(custom_kernels(split)[1])
    choice = choose_least_time(space, target, Plan())
    assert choice is not None
    assert in_one_iteration(space, choice, target, Plan()).partition.forloop == 1
    small = replace(target, shared_memory_per_block=4096)
    assert in_one_iteration(space, choice, small, Plan()) == choice


def test_products_are_not_computed_at_once() -> None:
    space = find_dimensions(custom_kernels(example("lora"))[0])
    target = target_named("sm_90a")
    choice = choose_least_time(space, target, Plan())
    assert choice is not None and in_one_iteration(space, choice, target, Plan()) == choice


@pytest.mark.parametrize("name", ["rmsnorm_linear", "gated_mlp", "lora"])
def test_the_least_time_is_legal(name: str) -> None:
    module = example(name)
    after = planned(module)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_few_blocks_are_made_more() -> None:
    """A sixth of the multiprocessors at work is not the least time."""
    module = retiled(example("rmsnorm_linear"), Plan(grid=(24,)))
    custom_kernels(module)[0].decided = Plan()
    kernels = custom_kernels(planned(module))
    assert kernels[0].grid_dim[0] > 24 or len(kernels) > 1


def scores_in_memory() -> ModuleOp:
    """Attention whose scores a library computes, in two kernels and a product."""
    return parse("""
func.func @f(%q: tensor<2x16x32xf16>, %k: tensor<2x32x64xf16>, %v: tensor<2x64x32xf16>)
    -> tensor<2x16x32xf16> {
  %s = kn.matmul %q, %k : (tensor<2x16x32xf16>, tensor<2x32x64xf16>) -> tensor<2x16x64xf16>
  %o = kn.customized %s, %v grid [2, 1, 1] block [32, 1, 1] forloop 4 {
  ^bb0(%ds: tensor<2x16x64xf16>, %dv: tensor<2x64x32xf16>):
    %ss = tb.input %ds imap [0, -1, -1] fordim 2
        : tensor<2x16x64xf16> -> !tb.stensor<1x16x16xf16>
    %sv = tb.input %dv imap [0, -1, -1] fordim 1
        : tensor<2x64x32xf16> -> !tb.stensor<1x16x32xf16>
    %e = tb.exp %ss : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    %p = tb.matmul %e, %sv : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x32xf16>)
        -> !tb.stensor<1x16x32xf16>
    %n = tb.forloop_accum none %p : !tb.stensor<1x16x32xf16> -> !tb.stensor<1x16x32xf16>
    tb.output %n omap [0, -1, -1] : !tb.stensor<1x16x32xf16> -> tensor<2x16x32xf16>
  } : (tensor<2x16x64xf16>, tensor<2x64x32xf16>) -> tensor<2x16x32xf16>
  func.return %o : tensor<2x16x32xf16>
}
""")


def test_products_are_computed_where_their_tiles_are_read() -> None:
    module = scores_in_memory()
    inlined = retiled(module, Plan(inline=True))
    assert "kn.matmul" not in str(inlined) and str(inlined).count("tb.matmul") == 2
    assert "fordim 2 : tensor<2x32x64xf16> -> !tb.stensor<1x32x16xf16>" in str(inlined)
    verdict = Checker(Subject.of(module)).check(Subject.of(inlined))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_there_must_be_a_product_to_inline() -> None:
    with pytest.raises(RetileError, match="nothing to inline"):
        retiled(example("lora"), Plan(inline=True))


def test_results_apart_are_cut_together() -> None:
    """Two products in one kernel, whose columns one axis cuts."""
    module = parse("""
func.func @f(%x: tensor<8x64xf16>, %v: tensor<64x128xf16>, %w: tensor<64x64xf16>)
    -> (tensor<8x128xf16>, tensor<8x64xf16>) {
  %o, %p = kn.customized %x, %v, %w grid [4, 1, 1] block [32, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<8x64xf16>, %dv: tensor<64x128xf16>, %dw: tensor<64x64xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] : tensor<8x64xf16> -> !tb.stensor<8x64xf16>
    %sv = tb.input %dv imap [1, -1, -1] : tensor<64x128xf16> -> !tb.stensor<64x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] : tensor<64x64xf16> -> !tb.stensor<64x16xf16>
    %a = tb.matmul %sx, %sv : (!tb.stensor<8x64xf16>, !tb.stensor<64x32xf16>)
        -> !tb.stensor<8x32xf16>
    %b = tb.matmul %sx, %sw : (!tb.stensor<8x64xf16>, !tb.stensor<64x16xf16>)
        -> !tb.stensor<8x16xf16>
    %c = tb.forloop_accum none %a : !tb.stensor<8x32xf16> -> !tb.stensor<8x32xf16>
    %d = tb.forloop_accum none %b : !tb.stensor<8x16xf16> -> !tb.stensor<8x16xf16>
    tb.output %c omap [1, -1, -1] : !tb.stensor<8x32xf16> -> tensor<8x128xf16>
    tb.output %d omap [1, -1, -1] : !tb.stensor<8x16xf16> -> tensor<8x64xf16>
  } : (tensor<8x64xf16>, tensor<64x128xf16>, tensor<64x64xf16>)
      -> (tensor<8x128xf16>, tensor<8x64xf16>)
  func.return %o, %p : tensor<8x128xf16>, tensor<8x64xf16>
}
""")
    after = retiled(module, Plan(grid=(2,), forloop=4))
    assert "!tb.stensor<16x64xf16>" in str(after) and "!tb.stensor<16x32xf16>" in str(after)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)
    with pytest.raises(RetileError, match="does not have this dimension"):
        retiled(module, Plan(grid=(1, 2), along=(-1, 1)))


def norms_before_attention(tile: int = 16) -> ModuleOp:
    """Attention over norms of queries and values; a block loads ``tile`` columns of the values."""
    return parse(f"""
func.func @f(%q: tensor<2x32x16xf16>, %k: tensor<2x16x64xf16>, %v: tensor<2x64x16xf16>) -> tensor<2x32x16xf16> {{
  %o = kn.customized %q, %k, %v grid [2, 2, {16 // tile}] block [64, 1, 1] forloop 4 {{
  ^bb0(%dq: tensor<2x32x16xf16>, %dk: tensor<2x16x64xf16>, %dv: tensor<2x64x16xf16>):
    %sq = tb.input %dq imap [0, 1, -1] : tensor<2x32x16xf16> -> !tb.stensor<1x16x16xf16>
    %sk = tb.input %dk imap [0, -1, -1] fordim 2 : tensor<2x16x64xf16> -> !tb.stensor<1x16x16xf16>
    %sv = tb.input %dv imap [0, -1, {2 if tile < 16 else -1}] fordim 1 : tensor<2x64x16xf16> -> !tb.stensor<1x16x{tile}xf16>
    %nq = tb.rms_norm %sq : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    %nv = tb.rms_norm %sv : !tb.stensor<1x16x{tile}xf16> -> !tb.stensor<1x16x{tile}xf16>
    %s = tb.matmul %nq, %sk : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x16xf16>) -> !tb.stensor<1x16x16xf16>
    %e = tb.exp %s : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x16xf16>
    %p = tb.matmul %e, %nv : (!tb.stensor<1x16x16xf16>, !tb.stensor<1x16x{tile}xf16>) -> !tb.stensor<1x16x{tile}xf16>
    %n = tb.forloop_accum none %p : !tb.stensor<1x16x{tile}xf16> -> !tb.stensor<1x16x{tile}xf16>
    %l = tb.forloop_accum sum %e : !tb.stensor<1x16x16xf16> -> !tb.stensor<1x16x1xf16>
    %r = tb.div %n, %l : (!tb.stensor<1x16x{tile}xf16>, !tb.stensor<1x16x1xf16>) -> !tb.stensor<1x16x{tile}xf16>
    tb.output %r omap [0, 1, {2 if tile < 16 else -1}] : !tb.stensor<1x16x{tile}xf16> -> tensor<2x32x16xf16>
  }} : (tensor<2x32x16xf16>, tensor<2x16x64xf16>, tensor<2x64x16xf16>) -> tensor<2x32x16xf16>
  func.return %o : tensor<2x32x16xf16>
}}
""")  # noqa: E501


def test_what_blocks_compute_alike_is_computed_once_before() -> None:
    """The norm of the values; that of the queries is each block's own, and stays."""
    module = norms_before_attention()
    after = retiled(module, Plan(outline=True, split_k=2))
    first, main, last = str(after).split("kn.customized")[1:]
    assert "tb.rms_norm %sv" in first and "tb.rms_norm" not in last
    assert main.count("tb.rms_norm") == 1 and "tb.rms_norm %sq" in main
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)
    verifying(passes_as_written("sm_90a", online_softmax=True)).apply(make_context(), after)
    assert str(after).count("sched.kernel @") == 3


@pytest.mark.parametrize("module", [attention(), norms_before_attention(tile=8)])
def test_norms_of_parts_of_rows_are_not_outlined(module: ModuleOp) -> None:
    with pytest.raises(RetileError, match="nothing to outline"):
        retiled(module, Plan(outline=True))


PARTS_BESIDE_A_RESIDUAL = """
func.func @f(%x: tensor<64x64xf16>, %parts: tensor<128x64xf32>) -> tensor<64x64xf16> {
  %o = kn.customized %x, %parts grid [2, 2, 1] block [128, 1, 1] forloop 2 {
  ^bb0(%dx: tensor<64x64xf16>, %dp: tensor<128x64xf32>):
    %row = tb.input %dx imap [1, 0, -1] fordim -1 : tensor<64x64xf16> -> !tb.stensor<32x32xf16>
    %part = tb.input %dp imap [1, 0, -1] fordim 0 : tensor<128x64xf32> -> !tb.stensor<32x32xf32>
    %sum = tb.forloop_accum none %part : !tb.stensor<32x32xf32> -> !tb.stensor<32x32xf16>
    %both = tb.add %row, %sum : (!tb.stensor<32x32xf16>, !tb.stensor<32x32xf16>) -> !tb.stensor<32x32xf16>
    tb.output %both omap [1, 0, -1] : !tb.stensor<32x32xf16> -> tensor<64x64xf16>
  } : (tensor<64x64xf16>, tensor<128x64xf32>) -> tensor<64x64xf16>
  func.return %o : tensor<64x64xf16>
}
"""  # noqa: E501


def test_parts_of_sums_beside_what_is_no_part_stay_in_the_loop() -> None:
    """Rows of the parts are cut by the loop, too; columns of both may be cut anew."""
    module = parse(PARTS_BESIDE_A_RESIDUAL)
    after = retiled(module, Plan(grid=(4, 2)))
    assert custom_kernels(after)[0].grid_dim == (4, 2, 1)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_no_loop_cuts_what_a_running_maximum_keeps() -> None:
    """A maximum of each column stays apart from those of the columns of other tiles."""
    graph = mi.new_kernel_graph("columns")
    x, w, v = (graph.new_input(shape) for shape in ((16, 256), (256, 16), (16, 16)))
    graph.mark_output((mi.reduction_max(x, 0) @ w * 0.125) @ v)
    source, random = graph.module(), np.random.default_rng(0)
    shapes = (16, 256), (256, 16), (16, 16)
    inputs = [(random.standard_normal(shape) / 4).astype(np.float16) for shape in shapes]
    (wanted,) = run_function(source, None, inputs, "float64")
    for plan in (None, Plan(forloop=2)):
        module = source.clone()
        PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
        (found,) = run_function(module, None, inputs)
        np.testing.assert_allclose(found, wanted, atol=4e-3 * np.abs(wanted).max())


ROUNDED_BY_A_MAXIMUM = """
func.func @rounded(%x: tensor<1x256xf16>, %m: tensor<1x64xf16>, %w: tensor<256x64xf16>) -> tensor<1x64xf16> {
  %y = kn.customized %x, %m, %w grid [2, 1, 1] block [64, 1, 1] forloop 4 {
  ^bb0(%dx: tensor<1x256xf16>, %dm: tensor<1x64xf16>, %dw: tensor<256x64xf16>):
    %parts = tb.input %dm imap [-1, -1, -1] : tensor<1x64xf16> -> !tb.stensor<1x64xf16>
    %largest, %fall = tb.reduction_max %parts dim 1 : !tb.stensor<1x64xf16> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %t = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<1x256xf16> -> !tb.stensor<1x64xf16>
    %s = tb.div %t, %largest : (!tb.stensor<1x64xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x64xf16>
    %u = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<256x64xf16> -> !tb.stensor<64x32xf16>
    %p = tb.matmul %s, %u : (!tb.stensor<1x64xf16>, !tb.stensor<64x32xf16>) -> !tb.stensor<1x32xf32>
    %sum = tb.forloop_accum none %p : !tb.stensor<1x32xf32> -> !tb.stensor<1x32xf32>
    %o = tb.mul %sum, %largest : (!tb.stensor<1x32xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x32xf16>
    tb.output %o omap [1, -1, -1] : !tb.stensor<1x32xf16> -> tensor<1x64xf16>
  } : (tensor<1x256xf16>, tensor<1x64xf16>, tensor<256x64xf16>) -> tensor<1x64xf16>
  func.return %y : tensor<1x64xf16>
}
"""  # noqa: E501


@pytest.mark.parametrize("plan", [Plan(forloop=2), Plan(grid=(4,), forloop=8)], ids=str)
def test_a_maximum_of_what_no_loop_moves_does_not_run(plan: Plan) -> None:
    """It is the same in all iterations, however many there are."""
    random = np.random.default_rng(0)
    inputs = [
        random.standard_normal(shape).astype(np.float16) for shape in ((1, 256), (1, 64), (256, 64))
    ]
    module = parse(ROUNDED_BY_A_MAXIMUM)
    (wanted,) = run_function(module, None, inputs, "float64")
    PassPipeline(compile_pipeline("sm_90a", plan)).apply(make_context(), module)
    (found,) = run_function(module, None, inputs)
    np.testing.assert_allclose(found, wanted, atol=4e-3 * np.abs(wanted).max())


FALLS_AT_FIRST = """
func.func @f(%x: tensor<1x128xf16>, %m: tensor<1x8xf16>, %w: tensor<128x64xf16>) -> tensor<1x64xf16> {
  %y = kn.customized %x, %m, %w grid [1, 1, 1] block [64, 1, 1] forloop {count} {
  ^bb0(%dx: tensor<1x128xf16>, %dm: tensor<1x8xf16>, %dw: tensor<128x64xf16>):
    %parts = tb.input %dm imap [-1, -1, -1] : tensor<1x8xf16> -> !tb.stensor<1x8xf16>
    %largest, %fall = tb.reduction_max %parts dim 1 from -4.000000e+00 : !tb.stensor<1x8xf16> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %weight = tb.exp %fall : !tb.stensor<1x1xf32> -> !tb.stensor<1x1xf32>
    %t = tb.input %dx imap [-1, -1, -1] {loop} 1 : tensor<1x128xf16> -> !tb.stensor<1x{depth}xf16>
    %s = tb.mul %t, %weight : (!tb.stensor<1x{depth}xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x{depth}xf16>
    %u = tb.input %dw imap [-1, -1, -1] {loop} 0 : tensor<128x64xf16> -> !tb.stensor<{depth}x64xf16>
    %p = tb.matmul %s, %u : (!tb.stensor<1x{depth}xf16>, !tb.stensor<{depth}x64xf16>) -> !tb.stensor<1x64xf32>
    %sum = tb.forloop_accum none %p : !tb.stensor<1x64xf32> -> !tb.stensor<1x64xf16>
    tb.output %sum omap [-1, -1, -1] : !tb.stensor<1x64xf16> -> tensor<1x64xf16>
  } : (tensor<1x128xf16>, tensor<1x8xf16>, tensor<128x64xf16>) -> tensor<1x64xf16>
  func.return %y : tensor<1x64xf16>
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("count", "why"), [(2, "its kernel cannot be cut otherwise"), (1, "keeps the largest of all")]
)
def test_no_loop_is_cut_anew_in_which_a_maximum_falls_at_first(count: int, why: str) -> None:
    """The first iteration alone is weighed by the fall, however many there are."""
    text = FALLS_AT_FIRST.replace("{count}", str(count)).replace("{depth}", str(128 // count))
    for dim in (0, 1):
        text = text.replace(f"{{loop}} {dim}", f"fordim {dim}" if count > 1 else "fordim -1")
    with pytest.raises(RetileError, match=why):
        retiled(parse(text), Plan(forloop=4))
