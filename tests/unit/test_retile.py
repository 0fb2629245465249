"""Repartitioned µGraphs are proved equal to what they were, and come through all passes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from schedules import passes_as_written
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.mugraph.online_softmax import OnlineSoftmaxPass
from mugraph.passes.mugraph.retile import RetileError, RetilePass
from mugraph.passes.mugraph.retile.auto import in_one_iteration
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
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


def retiled(module: ModuleOp, **options: object) -> ModuleOp:
    """A repartitioned copy, which parses from its own text."""
    copy = module.clone()
    RetilePass(**options).apply(Context(), copy)  # type: ignore[arg-type]
    copy.verify()
    return parse(str(copy))


RETILINGS: dict[str, list[dict[str, object]]] = {
    "rmsnorm_linear": [
        {"grid": (192,), "forloop": 16},
        {"grid": (96, 4), "along": (-1, 0)},
        {"split": 4},
        {"grid": (48,), "split": 2, "parts": "f16"},
        {"grid": (24, 2), "along": (-1, 0), "forloop": 64, "split": 8, "block": (256,)},
    ],
    "gated_mlp": [
        {"grid": (128,), "forloop": 32},
        {"grid": (2, 64), "along": (0, 1)},
        {"forloop": 1},
        {"split": 2},
    ],
    "lora": [
        {"grid": (128,)},
        {"grid": (256,), "forloop": 4},
        {"grid": (64,), "forloop": 2, "split": 2},
    ],
    "attention_split_kv": [
        {"kernel": 0, "grid": (1, 4, 2), "along": (-1, -1, 1)},
        {"kernel": 0, "forloop": 8},
        {"kernel": 0, "merge": True},
        {"kernel": 0, "merge": True, "forloop": 8, "split": 8},
    ],
}


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name, retilings in RETILINGS.items() for options in retilings],
    ids=str,
)
def test_what_is_computed_is_proved_to_stay(name: str, options: dict[str, object]) -> None:
    module = example(name)
    after = retiled(module, **options)
    assert str(after) != str(module)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_a_merged_attention_is_one_kernel() -> None:
    merged = retiled(example("attention_split_kv"), merge=True, kernel=0)
    assert str(merged).count("kn.customized") == 1


def test_a_merge_undoes_a_split() -> None:
    module = example("gated_mlp")
    split = retiled(module, split=4)
    assert str(split).count("kn.customized") == 2
    merged = retiled(split, merge=True, kernel=0)
    assert str(merged).count("kn.customized") == 1
    verdict = Checker(Subject.of(module)).check(Subject.of(merged))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_other_uses_of_the_parts_are_no_merge() -> None:
    with pytest.raises(RetileError, match="not all used by one other custom kernel"):
        retiled(example("gated_mlp"), merge=True)


def attention() -> ModuleOp:
    """The example of attention, in one kernel."""
    return retiled(example("attention_split_kv"), merge=True, kernel=0, forloop=16)


def rewritten(module: ModuleOp) -> ModuleOp:
    """A copy with running maxima."""
    copy = module.clone()
    OnlineSoftmaxPass().apply(Context(), copy)
    copy.verify()
    return parse(str(copy))


@pytest.mark.parametrize("options", [{"split": 4}, {"forloop": 4}, {"forloop": 8, "split": 8}])
def test_running_maxima_may_come_first_or_last(options: dict[str, object]) -> None:
    first = retiled(rewritten(attention()), **options)
    last = rewritten(retiled(attention(), **options))
    assert str(first) == str(last) and "tb.reduction_max" in str(first)


@pytest.mark.parametrize("scale", [0.5, 5.0])
def test_divided_sums_of_large_exponentials_come_right(scale: float) -> None:
    random = np.random.default_rng(0)
    module = rewritten(retiled(attention(), split=4))
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


def test_retiled_schedules_have_no_hazards() -> None:
    """The last pass proves it; without an error the kernels are those of both parts."""
    module = rewritten(retiled(attention(), split=4))
    verifying(passes_as_written()).apply(make_context(), module)
    assert str(module).count("sched.kernel @") == 2


def test_the_combining_kernel_fills_the_gpu() -> None:
    split = retiled(attention(), split=4)
    grids = [
        line.split("grid ")[1].split("]")[0] for line in str(split).splitlines() if "grid" in line
    ]
    assert grids[0].startswith("[2, 4, 1") and grids[1] != "[2, 1, 1"
    left = retiled(attention(), split=4, spread=False)
    assert "grid [2, 1, 1]" in str(left)


def test_parts_are_combined_at_once_where_they_fit() -> None:
    assert " forloop 1 {" in str(retiled(attention(), split=4))
    target = target_named("sm_90a")
    left = retiled(attention(), split=4, spread=False)
    *_, second = (op for op in left.walk() if isinstance(op, CustomizedOp))
    space = find_dimensions(second)
    whole = in_one_iteration(space, partition_of(space), target)
    assert whole is not None and whole.forloop == 1
    small = replace(target, shared_memory_per_block=4096)
    assert in_one_iteration(space, partition_of(space), small) is None


@pytest.mark.parametrize("name", ["rmsnorm_linear", "gated_mlp", "lora"])
def test_the_least_time_is_legal(name: str) -> None:
    module = example(name)
    after = retiled(module, auto=True)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_few_blocks_are_made_more() -> None:
    """A sixth of the multiprocessors at work is not the least time."""
    module = retiled(example("rmsnorm_linear"), grid=(24,))
    text = str(retiled(module, auto=True))
    blocks = int(text.split("grid [")[1].split(",")[0])
    assert blocks > 24 or "kn.customized" in text.split("kn.customized", 2)[2]


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
    inlined = retiled(module, inline=True)
    assert "kn.matmul" not in str(inlined) and str(inlined).count("tb.matmul") == 2
    assert "fordim 2 : tensor<2x32x64xf16> -> !tb.stensor<1x32x16xf16>" in str(inlined)
    verdict = Checker(Subject.of(module)).check(Subject.of(inlined))
    assert verdict.answer is Answer.PROVED, str(verdict)


def test_there_must_be_a_product_to_inline() -> None:
    with pytest.raises(RetileError, match="nothing to inline"):
        retiled(example("lora"), inline=True)


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
    after = retiled(module, grid=(2,), forloop=4)
    assert "!tb.stensor<16x64xf16>" in str(after) and "!tb.stensor<16x32xf16>" in str(after)
    verdict = Checker(Subject.of(module)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)
    with pytest.raises(RetileError, match="does not have this dimension"):
        retiled(module, grid=(1, 2), along=(-1, 1))


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
    after = retiled(module, outline=True, split=2)
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
        retiled(module, outline=True)
