"""Whole µGraphs against the functions they were made for, in float64, and through every pass."""

from pathlib import Path

import numpy as np
import pytest
from interpreter_programs import (
    Array,
    context,
    customized,
    normal,
    parse,
    relative_error,
    tensor,
    tile,
)
from saved_mugraphs_of_few_heads import SAVED, first_of
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.sequence import verifying
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.errors import ExecutionError
from mugraph.tools.universe import MUGRAPH_UNIVERSE, PASSES

ROOT = Path(__file__).parents[3]
OF_OTHERS = ("transpile", "load-operators", "use-plans", "partition", "explain-partition")
"""A sequence of passes, and those that need a file or a mesh of devices."""
STAGES = tuple(name for name in PASSES if name not in OF_OTHERS)
"""The passes that need nothing but a module."""
"""The passes from a µGraph to a planned schedule, in the order in which they run."""

EXACT = 1e-13
"""What float64 may differ by from float64, relatively, in another order of additions."""
STORAGE = 2e-3
"""What fp16 results of fp32 sums may differ by from float64."""


def rmsnorm_linear(x: Array, w: Array) -> Array:
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True)) @ w


def gated_mlp(x: Array, w1: Array, w2: Array) -> Array:
    gate = x @ w1
    return gate / (1 + np.exp(-gate)) * (x @ w2)


def lora(x: Array, w: Array, a: Array, b: Array) -> Array:
    return x @ w + (x @ a) @ b


def attention(q: Array, k: Array, v: Array) -> Array:
    weights = np.exp(q @ k)
    return weights / weights.sum(axis=-1, keepdims=True) @ v


RMSNORM_LINEAR = customized(
    [(8, 64), (64, 24)],
    (8, 24),
    f"""
    %x = tb.input %d0 imap [-1, -1, -1] fordim 1 : {tensor((8, 64))} -> {tile((8, 16))}
    %w = tb.input %d1 imap [1, -1, -1] fordim 0 : {tensor((64, 24))} -> {tile((16, 8))}
    %m = tb.matmul %x, %w : ({tile((8, 16))}, {tile((16, 8))}) -> {tile((8, 8))}
    %am = tb.forloop_accum none %m : {tile((8, 8))} -> {tile((8, 8))}
    %ar = tb.forloop_accum rms %x : {tile((8, 16))} -> {tile((8, 1))}
    %y = tb.div %am, %ar : ({tile((8, 8))}, {tile((8, 1))}) -> {tile((8, 8))}
    tb.output %y omap [1, -1, -1] : {tile((8, 8))} -> {tensor((8, 24))}
    """,
    grid=(3, 1, 1),
    forloop=4,
)

NORM_THEN_LINEAR = customized(
    [(16, 64), (64, 24)],
    (16, 24),
    f"""
    %x = tb.input %d0 imap [0, -1, -1] : {tensor((16, 64))} -> {tile((8, 64))}
    %w = tb.input %d1 imap [-1, 1, -1] : {tensor((64, 24))} -> {tile((64, 8))}
    %n = tb.rms_norm %x : {tile((8, 64))} -> {tile((8, 64))}
    %m = tb.matmul %n, %w : ({tile((8, 64))}, {tile((64, 8))}) -> {tile((8, 8))}
    %y = tb.forloop_accum none %m : {tile((8, 8))} -> {tile((8, 8))}
    tb.output %y omap [0, 1, -1] : {tile((8, 8))} -> {tensor((16, 24))}
    """,
    grid=(2, 3, 1),
)

GATED_MLP = customized(
    [(8, 64), (64, 32), (64, 32)],
    (8, 32),
    f"""
    %x = tb.input %d0 imap [-1, -1, -1] fordim 1 : {tensor((8, 64))} -> {tile((8, 16))}
    %a = tb.input %d1 imap [1, -1, -1] fordim 0 : {tensor((64, 32))} -> {tile((16, 8))}
    %b = tb.input %d2 imap [1, -1, -1] fordim 0 : {tensor((64, 32))} -> {tile((16, 8))}
    %ma = tb.matmul %x, %a : ({tile((8, 16))}, {tile((16, 8))}) -> {tile((8, 8))}
    %mb = tb.matmul %x, %b : ({tile((8, 16))}, {tile((16, 8))}) -> {tile((8, 8))}
    %sa = tb.forloop_accum none %ma : {tile((8, 8))} -> {tile((8, 8))}
    %sb = tb.forloop_accum none %mb : {tile((8, 8))} -> {tile((8, 8))}
    %g = tb.silu %sa : {tile((8, 8))} -> {tile((8, 8))}
    %y = tb.mul %g, %sb : ({tile((8, 8))}, {tile((8, 8))}) -> {tile((8, 8))}
    tb.output %y omap [1, -1, -1] : {tile((8, 8))} -> {tensor((8, 32))}
    """,
    grid=(4, 1, 1),
    forloop=4,
)

LORA = customized(
    [(8, 64), (64, 32), (64, 8), (8, 32)],
    (8, 32),
    f"""
    %x = tb.input %d0 imap [-1, -1, -1] fordim 1 : {tensor((8, 64))} -> {tile((8, 16))}
    %w = tb.input %d1 imap [1, -1, -1] fordim 0 : {tensor((64, 32))} -> {tile((16, 8))}
    %a = tb.input %d2 imap [-1, -1, -1] fordim 0 : {tensor((64, 8))} -> {tile((16, 8))}
    %b = tb.input %d3 imap [1, -1, -1] : {tensor((8, 32))} -> {tile((8, 8))}
    %m = tb.matmul %x, %w : ({tile((8, 16))}, {tile((16, 8))}) -> {tile((8, 8))}
    %l = tb.matmul %x, %a : ({tile((8, 16))}, {tile((16, 8))}) -> {tile((8, 8))}
    %r = tb.matmul %l, %b : ({tile((8, 8))}, {tile((8, 8))}) -> {tile((8, 8))}
    %s = tb.add %m, %r : ({tile((8, 8))}, {tile((8, 8))}) -> {tile((8, 8))}
    %y = tb.forloop_accum none %s : {tile((8, 8))} -> {tile((8, 8))}
    tb.output %y omap [1, -1, -1] : {tile((8, 8))} -> {tensor((8, 32))}
    """,
    grid=(4, 1, 1),
    forloop=4,
)


def split_attention(order: str) -> str:
    """softmax(QK)V of 2 heads, 16 queries of 8 numbers, 64 keys; 4 blocks a head share the keys.

    The first kernel leaves the blocks' partial results side by side, 4 times 8 columns; the
    second adds those that belong together.
    """
    q, k, v, o, n = (2, 16, 8), (2, 8, 64), (2, 64, 8), (2, 16, 32), (2, 16, 4)
    tq, tk, tv, ts = tile((1, 16, 8)), tile((1, 8, 8)), tile((1, 8, 8)), tile((1, 16, 8))
    wide, one, four = tile((1, 16, 32)), tile((1, 16, 1)), tile((1, 16, 4))
    types = f"({tensor(q)}, {tensor(k)}, {tensor(v)})"
    return f"""
func.func @attention(%q: {tensor(q)}, %k: {tensor(k)}, %v: {tensor(v)}) -> {tensor(q)} {{
  %o, %n = kn.customized %q, %k, %v grid [2, 4, 1] block [128, 1, 1] forloop 2 {{
  ^bb0(%dq: {tensor(q)}, %dk: {tensor(k)}, %dv: {tensor(v)}):
    %sq = tb.input %dq imap [0, -1, -1] : {tensor(q)} -> {tq}
    %sk = tb.input %dk imap [0, 2, -1] fordim 2 : {tensor(k)} -> {tk}
    %sv = tb.input %dv imap [0, 1, -1] fordim 1 : {tensor(v)} -> {tv}
    %s = tb.matmul %sq, %sk : ({tq}, {tk}) -> {ts}
    %e = tb.exp %s : {ts} -> {ts}
    %p = tb.matmul %e, %sv : ({ts}, {tv}) -> {tq}
    %ap = tb.forloop_accum none %p : {tq} -> {tq}
    %ae = tb.forloop_accum sum %e : {ts} -> {one}
    tb.output %ap omap [0, 2, -1] : {tq} -> {tensor(o)}
    tb.output %ae omap [0, 2, -1] : {one} -> {tensor(n)}
  }} : {types} -> ({tensor(o)}, {tensor(n)})
  %r = kn.customized %o, %n grid [2, 1, 1] block [128, 1, 1] forloop 1 {{
  ^bb0(%do: {tensor(o)}, %dn: {tensor(n)}):
    %so = tb.input %do imap [0, -1, -1] : {tensor(o)} -> {wide}
    %sn = tb.input %dn imap [0, -1, -1] : {tensor(n)} -> {four}
    %ao = tb.forloop_accum_sum_to_dimx_{order} %so : {wide} -> {tq}
    %an = tb.forloop_accum sum %sn : {four} -> {one}
    %d = tb.div %ao, %an : ({tq}, {one}) -> {tq}
    tb.output %d omap [0, -1, -1] : {tq} -> {tensor(q)}
  }} : ({tensor(o)}, {tensor(n)}) -> {tensor(q)}
  func.return %r : {tensor(q)}
}}
"""


GRAPHS = {
    "rmsnorm_linear": (RMSNORM_LINEAR, rmsnorm_linear),
    "norm_then_linear": (NORM_THEN_LINEAR, rmsnorm_linear),
    "gated_mlp": (GATED_MLP, gated_mlp),
    "lora": (LORA, lora),
    "attention": (split_attention("strided"), attention),
}


def inputs_of(module: ModuleOp) -> list[Array]:
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    shapes = [shape_of(type_) for type_ in function.function_type.inputs]
    scales = (1.0, *(shape[-2] ** -0.5 for shape in shapes[1:]))
    return [
        normal(shape, scale, seed)
        for seed, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
    ]


def widened(inputs: list[Array]) -> list[Array]:
    return [value.astype(np.float64) for value in inputs]


@pytest.mark.parametrize("name", GRAPHS)
def test_float64_is_the_function(name: str) -> None:
    text, function = GRAPHS[name]
    module = parse(text)
    inputs = inputs_of(module)
    (result,) = run_function(module, None, inputs, "float64")
    assert relative_error(result, function(*widened(inputs))) < EXACT


@pytest.mark.parametrize("name", GRAPHS)
def test_storage_precision_is_near_and_repeatable(name: str) -> None:
    text, function = GRAPHS[name]
    module = parse(text)
    inputs = inputs_of(module)
    (result,) = run_function(module, None, inputs)
    assert 0 < relative_error(result, function(*widened(inputs))) < STORAGE
    (again,) = run_function(module, None, inputs)
    np.testing.assert_array_equal(result, again)


def test_split_attention_needs_the_strided_sum() -> None:
    module = parse(split_attention("contiguous"))
    inputs = inputs_of(module)
    (result,) = run_function(module, None, inputs, "float64")
    assert relative_error(result, attention(*widened(inputs))) > 0.1


@pytest.mark.parametrize("name", GRAPHS)
def test_every_stage_computes_the_same(name: str) -> None:
    """Up to reciprocals, which passes round to fp32 constants."""
    text, function = GRAPHS[name]
    module = parse(text)
    inputs = inputs_of(module)
    expected = function(*widened(inputs))
    ctx = context()
    for stage in STAGES:
        MUGRAPH_UNIVERSE.all_passes[stage]()().apply(ctx, module)
        module.verify()
        (result,) = run_function(module, None, inputs, "float64")
        assert relative_error(result, expected) < 1e-7, f"after {stage}"
        (result,) = run_function(module, None, inputs)
        assert relative_error(result, expected) < STORAGE, f"after {stage}"


def test_fusion_rounds_less() -> None:
    """The fused product is summed in fp32; apart, each iteration's is rounded to fp16 first."""
    module = parse(GATED_MLP)
    inputs = inputs_of(module)
    expected = gated_mlp(*widened(inputs))
    (apart,) = run_function(module, None, inputs)
    MUGRAPH_UNIVERSE.all_passes["fuse-threadblock"]()().apply(context(), module)
    (fused,) = run_function(module, None, inputs)
    assert relative_error(fused, expected) < relative_error(apart, expected)


def test_the_example_at_full_size() -> None:
    module = parse((ROOT / "examples" / "rmsnorm_linear.mlir").read_text(encoding="utf-8"))
    inputs = inputs_of(module)
    expected = rmsnorm_linear(*widened(inputs))
    (result,) = run_function(module, "rmsnorm_linear", inputs)
    assert relative_error(result, expected) < STORAGE


SAVED_FUNCTIONS = {
    "rmsnorm_bs8": rmsnorm_linear,
    "gated_mlp": gated_mlp,
    "lora": lora,
    "gqa_bs8": attention,
    "mha_bs8": attention,
    "single_mqa_bs1": attention,
}


@pytest.mark.parametrize("name", SAVED_FUNCTIONS)
def test_saved_graphs(name: str) -> None:
    """The first graph of each file, at both precisions."""
    path = SAVED / f"{name}.json"
    if not path.exists():
        pytest.skip(f"{path.name} is not there: this µGraph was not run")
    function = SAVED_FUNCTIONS[name]
    module = first_of(path)
    inputs = inputs_of(module)
    compared = slice(None)
    if function is attention:
        inputs[0] *= np.float16(0.25)
        # At most 16 heads: the float64 reference would take most of the time.
        compared = slice(None, None, max(1, inputs[0].shape[0] // 16))
        expected = attention(*widened([value[compared] for value in inputs]))
    else:
        expected = function(*widened(inputs))
    for precision, limit in (("float64", EXACT), ("storage", STORAGE)):
        (result,) = run_function(module, None, inputs, precision)
        assert np.isfinite(result).all()
        assert relative_error(result[compared], expected) < limit


def test_a_loop_that_takes_hours_is_refused() -> None:
    whole, part = tensor((16, 64)), tile((16, 64))
    text = customized(
        [(16, 64)],
        (16, 64),
        f"""
        %x = tb.input %d0 imap [-1, -1, -1] : {whole} -> {part}
        %a = tb.forloop_accum none %x : {part} -> {part}
        tb.output %a omap [-1, -1, -1] : {part} -> {whole}
        """,
        forloop=2**31 - 1,
    )
    module = parse(text)
    scheduled = module.clone()
    verifying(passes_as_written()).apply(context(), scheduled)
    for program, level in ((module, "logical"), (scheduled, "logical"), (scheduled, "address")):
        with pytest.raises(ExecutionError, match=r"has 2147483647 iterations, .* at most 4194304"):
            run_function(program, None, inputs_of(module), level=level)
