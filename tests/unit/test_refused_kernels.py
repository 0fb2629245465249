"""A kernel that later passes refuse stands apart; the rest of its program stays fused."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

import mugraph.build as mi
from mugraph.dialects import kn, sched
from mugraph.passes.compile import FuseCompilablePass, compile_pipeline, with_kernels_that_compile
from mugraph.reading import make_context, parse_text
from mugraph.runtime.ahead_of_time import generate_sources
from mugraph.runtime.interpreter import run_function

WIDTH = 50257


def program() -> ModuleOp:
    """A norm of rows that do not fit a block, and a layer whose kernel does."""
    graph = mi.new_kernel_graph("program")
    x, y = (graph.new_input((4, WIDTH), dtype=mi.float32) for _ in range(2))
    graph.mark_output(mi.layer_norm(x + y))
    z, w = graph.new_input((32, 512)), graph.new_input((512, 256))
    graph.mark_output(mi.silu(mi.rms_norm(z) @ w))
    return graph.module()


def custom_kernels(module: ModuleOp) -> list[set[str]]:
    """The operators of each custom kernel."""
    kernels = [op for op in module.walk() if isinstance(op, kn.CustomizedOp)]
    return [{op.name for op in kernel.walk()} for kernel in kernels]


def schedule(module: ModuleOp, *, checked: bool) -> ModuleOp:
    own, context = module.clone(), make_context()
    for step in compile_pipeline("sm_90a", checked=checked):
        step.apply(context, own)
    return own


def test_the_operators_of_that_kernel_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    module = program()
    with pytest.raises(PassFailedException, match="bytes of shared memory"):
        schedule(module, checked=False)
    fused = module.clone()
    FuseCompilablePass("sm_90a").apply(make_context(), fused)
    said = capsys.readouterr().err
    assert said.count("note") == 1 and "'kn.add', 'kn.reduction', 'kn.mul_scalar' share" in said
    assert "plan-stensor-memory: " in said and "bytes of shared memory" in said
    assert any({"tb.matmul", "tb.silu"} <= kernel for kernel in custom_kernels(fused))
    assert any(op.name == "kn.add" for op in fused.walk())
    values = np.random.default_rng(0)
    x, y = (values.standard_normal((4, WIDTH), np.float32) for _ in range(2))
    z = values.standard_normal((32, 512)).astype(np.float16)
    w = (values.standard_normal((512, 256)) / 16).astype(np.float16)
    for ours, written in zip(
        *(run_function(each, None, [x, y, z, w]) for each in (fused, module)), strict=True
    ):
        np.testing.assert_allclose(ours, written, atol=4e-3)


def test_libraries_and_kernels_are_made_of_the_rest() -> None:
    module = program()
    scheduled = with_kernels_that_compile(lambda checked: schedule(module, checked=checked))
    assert len([op for op in scheduled.walk() if isinstance(op, sched.KernelOp)]) >= 2
    sources = generate_sources(module, make_context(), ["sm_90a"])
    assert "program_custom1_sm_90a" in sources.files["src/program_sm_90a.cu"]


def test_what_a_user_wrote_is_refused_as_before() -> None:
    text = """
    func.func @f(%x: tensor<8x65536xf32>) -> tensor<8x65536xf32> {
      %o = kn.customized %x grid [8, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
      ^bb0(%dx: tensor<8x65536xf32>):
        %sx = tb.input %dx imap [0, -1, -1] : tensor<8x65536xf32> -> !tb.stensor<1x65536xf32>
        %s = tb.reduction %sx dim 1 : !tb.stensor<1x65536xf32> -> !tb.stensor<1x1xf32>
        %e = tb.div %sx, %s : (!tb.stensor<1x65536xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x65536xf32>
        tb.output %e omap [0, -1, -1] : !tb.stensor<1x65536xf32> -> tensor<8x65536xf32>
      } : (tensor<8x65536xf32>) -> tensor<8x65536xf32>
      func.return %o : tensor<8x65536xf32>
    }
    """  # noqa: E501
    module = parse_text(make_context(), text, "<text>")
    with pytest.raises(PassFailedException, match="bytes of shared memory"):
        with_kernels_that_compile(lambda checked: schedule(module, checked=checked))
