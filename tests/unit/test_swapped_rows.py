"""Rows that are no whole 64 are columns of warp groups, and wide tiles are several boxes."""

from __future__ import annotations

import numpy as np
from emulated_programs import check_emulated_later
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.codegen.cuda import print_module
from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

BLOCK_OF_A_GROUP_AND_A_PRODUCER = 160


def gated_mlp(rows: int) -> str:
    """silu(x @ w1) * (x @ w2) of a layer whose weights take about as long as its products."""
    graph = mi.new_kernel_graph("gated_mlp")
    x = graph.new_input((rows, 3072))
    gate, up = graph.new_input((3072, 8192)), graph.new_input((3072, 8192))
    graph.mark_output(mi.silu(x @ gate) * (x @ up))
    return str(graph)


def planned(text: str) -> CustomizedOp:
    """The one kernel of a program, with its plan."""
    context = make_context()
    module = parse_text(context, text, "program")
    steps = compile_pipeline("sm_90a")
    names = [step.name for step in steps]
    PassPipeline(steps[: names.index("plan") + 1]).apply(context, module)
    (kernel,) = (op for op in module.walk() if isinstance(op, CustomizedOp))
    return kernel


def test_rows_are_cut_into_nearly_equal_tiles_of_eights() -> None:
    assert planned(gated_mlp(148)).decided.tile == (152, 0)
    rows, _ = planned(gated_mlp(286)).decided.tile or (0, 0)
    assert rows % 8 == 0
    assert 0 < -286 % rows < 16


def test_many_tiles_of_rows_need_no_swap() -> None:
    """6000 rows are 25 tiles of 240, which warp groups would compute with swapped operands."""
    graph = mi.new_kernel_graph("linear")
    x, residual = graph.new_input((6000, 1280)), graph.new_input((6000, 5120))
    graph.mark_output(x @ graph.new_input((1280, 5120)) + residual)
    assert planned(str(graph)).decided.tile == (128, 0)


def test_a_scheduler_has_whole_warps() -> None:
    target = target_named("h200")
    threads = BLOCK_OF_A_GROUP_AND_A_PRODUCER
    # Two blocks have ten warps: three of one scheduler, 170 registers a thread each.
    assert target.resident_blocks(1000, threads, 0, 168) == 2
    assert target.resident_blocks(1000, threads, 0, 176) == 1
    assert target.resident_blocks(1000, 128, 0, 128) == 4


def test_rows_of_256_bytes_are_two_swizzled_boxes() -> None:
    context = make_context()
    text = """
    func.func @f(%x: tensor<8x4096xf16>,
                 %w: tensor<4096x3584xf16, #cute.layout<(4096,3584):(1,4096)>>)
        -> tensor<8x3584xf16> {
      %o = kn.customized %x, %w grid [224, 1, 1] block [256, 1, 1] forloop 32
          plan <tiles = written, loads = tma, swap_ab = false> {
      ^bb0(%dx: tensor<8x4096xf16>, %dw: tensor<4096x3584xf16, #cute.layout<(4096,3584):(1,4096)>>):
        %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<8x4096xf16> -> !tb.stensor<8x128xf16>
        %sw = tb.input %dw imap [1, -1, -1] fordim 0
          : tensor<4096x3584xf16, #cute.layout<(4096,3584):(1,4096)>> -> !tb.stensor<128x16xf16>
        %m = tb.matmul %sx, %sw
          : (!tb.stensor<8x128xf16>, !tb.stensor<128x16xf16>) -> !tb.stensor<8x16xf16>
        %am = tb.forloop_accum none %m : !tb.stensor<8x16xf16> -> !tb.stensor<8x16xf16>
        tb.output %am omap [1, -1, -1] : !tb.stensor<8x16xf16> -> tensor<8x3584xf16>
      } : (tensor<8x4096xf16>, tensor<4096x3584xf16, #cute.layout<(4096,3584):(1,4096)>>)
        -> tensor<8x3584xf16>
      func.return %o : tensor<8x3584xf16>
    }
    """
    module = parse_text(context, text, "program")
    PassPipeline(compile_pipeline("sm_90a")).apply(context, module)
    cuda = print_module(module)
    assert "{64, 16}, CU_TENSOR_MAP_SWIZZLE_128B" in cuda
    assert "{64, 8}, CU_TENSOR_MAP_SWIZZLE_128B" in cuda


def test_stages_of_any_rows_are_swizzled() -> None:
    """13 rows of 128 bytes are no whole pattern of a swizzle; the next stage begins anew."""
    text = """
    func.func @f(%x: tensor<13x512xf16>, %w: tensor<512x64xf16>) -> tensor<13x64xf16> {
      %o = kn.customized %x, %w grid [4, 1, 1] block [64, 1, 1] forloop 8
          plan <tiles = written, loads = tma, stages = [3]> {
      ^bb0(%dx: tensor<13x512xf16>, %dw: tensor<512x64xf16>):
        %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<13x512xf16> -> !tb.stensor<13x64xf16>
        %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<512x64xf16> -> !tb.stensor<64x16xf16>
        %m = tb.matmul %sx, %sw
          : (!tb.stensor<13x64xf16>, !tb.stensor<64x16xf16>) -> !tb.stensor<13x16xf16>
        %am = tb.forloop_accum none %m : !tb.stensor<13x16xf16> -> !tb.stensor<13x16xf16>
        tb.output %am omap [1, -1, -1] : !tb.stensor<13x16xf16> -> tensor<13x64xf16>
      } : (tensor<13x512xf16>, tensor<512x64xf16>) -> tensor<13x64xf16>
      func.return %o : tensor<13x64xf16>
    }
    """
    context = make_context()
    made = generate_cuda(parse_text(context, text, "program"), context, "sm_90a")
    assert "{64, 13}, CU_TENSOR_MAP_SWIZZLE_128B" in made.source
    assert "(stage + 3).index() * 1024" in made.source
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in ((13, 512), (512, 64)))

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w])
        exact = x.astype(np.float64) @ w.astype(np.float64)
        np.testing.assert_allclose(result, exact, rtol=2**-9, atol=5e-2)

    check_emulated_later(made, check)
