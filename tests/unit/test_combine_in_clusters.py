"""Kernels whose blocks, in clusters, combine the parts that they compute."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.dialects import sched
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.kn.workspace import WORKSPACE_BYTES
from mugraph.dialects.sched.programs import persistent_programs
from mugraph.dialects.tensor_types import with_layout
from mugraph.passes.program.persist_program import PersistProgramPass
from mugraph.passes.schedule.check_hazards import CheckHazardsPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

PARTS = """
func.func @f(%x: tensor<1x4xROWSx256xf16>, %w: tensor<1x4x256xCOLUMNSxf16> {mugraph.constant}) -> tensor<1x4xROWSxCOLUMNSxf16> {
  %p = kn.customized %x, %w grid [4, PARTS, 1] block [64, 1, 1] forloop 2 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: tensor<1x4xROWSx256xf16>, %dw: tensor<1x4x256xCOLUMNSxf16>):
    %sx = tb.input %dx imap [1, 3, -1] fordim 3 : tensor<1x4xROWSx256xf16> -> !tb.stensor<1x1xROWSxDEPTHxf16>
    %sw = tb.input %dw imap [1, 2, -1] fordim 2 : tensor<1x4x256xCOLUMNSxf16> -> !tb.stensor<1x1xDEPTHxCOLUMNSxf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1xROWSxDEPTHxf16>, !tb.stensor<1x1xDEPTHxCOLUMNSxf16>) -> !tb.stensor<1x1xROWSxCOLUMNSxf16>
    %s = tb.forloop_accum none %m : !tb.stensor<1x1xROWSxCOLUMNSxf16> -> !tb.stensor<1x1xROWSxCOLUMNSxf32>
    tb.output %s omap [1, 0, -1] : !tb.stensor<1x1xROWSxCOLUMNSxf32> -> tensor<PARTSx4xROWSxCOLUMNSxf32>
  } : (tensor<1x4xROWSx256xf16>, tensor<1x4x256xCOLUMNSxf16>) -> tensor<PARTSx4xROWSxCOLUMNSxf32>
  %y = kn.customized %p grid [BLOCKS, 1, 1] block [THREADS, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dp: tensor<PARTSx4xROWSxCOLUMNSxf32>):
    %sp = tb.input %dp imap [1, -1, -1] : tensor<PARTSx4xROWSxCOLUMNSxf32> -> !tb.stensor<PARTSxEACHxROWSxCOLUMNSxf32>
    %s = tb.reduction %sp dim 0 : !tb.stensor<PARTSxEACHxROWSxCOLUMNSxf32> -> !tb.stensor<1xEACHxROWSxCOLUMNSxf16>
    tb.output %s omap [1, -1, -1] : !tb.stensor<1xEACHxROWSxCOLUMNSxf16> -> tensor<1x4xROWSxCOLUMNSxf16>
  } : (tensor<PARTSx4xROWSxCOLUMNSxf32>) -> tensor<1x4xROWSxCOLUMNSxf16>
  func.return %y : tensor<1x4xROWSxCOLUMNSxf16>
}
"""  # noqa: E501 the text as it is printed


ATTENTION = """
func.func @f(%x: tensor<1x2x4x32xf16>, %w: tensor<1x2x32x16xf16> {mugraph.constant}, %k: tensor<1x2x16x256xf16>, %v: tensor<1x2x256x16xf16>) -> tensor<1x2x4x16xf16> {
  %q = kn.customized %x, %w grid [2, 1, 1] block [128, 1, 1] forloop 1 {
  ^bb0(%dx: tensor<1x2x4x32xf16>, %dw: tensor<1x2x32x16xf16>):
    %sx = tb.input %dx imap [1, -1, -1] : tensor<1x2x4x32xf16> -> !tb.stensor<1x1x4x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] : tensor<1x2x32x16xf16> -> !tb.stensor<1x1x32x16xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1x4x32xf16>, !tb.stensor<1x1x32x16xf16>) -> !tb.stensor<1x1x4x16xf16>
    tb.output %m omap [1, -1, -1] : !tb.stensor<1x1x4x16xf16> -> tensor<1x2x4x16xf16>
  } : (tensor<1x2x4x32xf16>, tensor<1x2x32x16xf16>) -> tensor<1x2x4x16xf16>
  %o = kn.customized %q, %k, %v grid [2, 1, 1] block [128, 1, 1] forloop 8 plan <split_k = 4> {
  ^bb0(%dq: tensor<1x2x4x16xf16>, %dk: tensor<1x2x16x256xf16>, %dv: tensor<1x2x256x16xf16>):
    %sq = tb.input %dq imap [1, -1, -1] : tensor<1x2x4x16xf16> -> !tb.stensor<1x1x4x16xf16>
    %sk = tb.input %dk imap [1, -1, -1] fordim 3 : tensor<1x2x16x256xf16> -> !tb.stensor<1x1x16x32xf16>
    %s = tb.matmul %sq, %sk : (!tb.stensor<1x1x4x16xf16>, !tb.stensor<1x1x16x32xf16>) -> !tb.stensor<1x1x4x32xf32>
    %max, %fall = tb.reduction_max %s dim 3 : !tb.stensor<1x1x4x32xf32> -> (!tb.stensor<1x1x4x1xf32>, !tb.stensor<1x1x4x1xf32>)
    %d = tb.sub %s, %max : (!tb.stensor<1x1x4x32xf32>, !tb.stensor<1x1x4x1xf32>) -> !tb.stensor<1x1x4x32xf32>
    %r = tb.exp %fall : !tb.stensor<1x1x4x1xf32> -> !tb.stensor<1x1x4x1xf32>
    %e = tb.exp %d : !tb.stensor<1x1x4x32xf32> -> !tb.stensor<1x1x4x32xf16>
    %n = tb.forloop_accum_rescale sum %e by %r : (!tb.stensor<1x1x4x32xf16>, !tb.stensor<1x1x4x1xf32>) -> !tb.stensor<1x1x4x1xf32>
    %sv = tb.input %dv imap [1, -1, -1] fordim 2 : tensor<1x2x256x16xf16> -> !tb.stensor<1x1x32x16xf16>
    %p = tb.matmul %e, %sv : (!tb.stensor<1x1x4x32xf16>, !tb.stensor<1x1x32x16xf16>) -> !tb.stensor<1x1x4x16xf32>
    %a = tb.forloop_accum_rescale none %p by %r : (!tb.stensor<1x1x4x16xf32>, !tb.stensor<1x1x4x1xf32>) -> !tb.stensor<1x1x4x16xf32>
    %y = tb.div %a, %n : (!tb.stensor<1x1x4x16xf32>, !tb.stensor<1x1x4x1xf32>) -> !tb.stensor<1x1x4x16xf16>
    tb.output %y omap [1, -1, -1] : !tb.stensor<1x1x4x16xf16> -> tensor<1x2x4x16xf16>
  } : (tensor<1x2x4x16xf16>, tensor<1x2x16x256xf16>, tensor<1x2x256x16xf16>) -> tensor<1x2x4x16xf16>
  func.return %o : tensor<1x2x4x16xf16>
}
"""  # noqa: E501 the text as it is printed


def program(
    parts: int, blocks: int = 4, threads: int = 64, rows: int = 2, columns: int = 16
) -> str:
    """Products in some parts, and a kernel of so many blocks that adds them up."""
    numbers = {"PARTS": parts, "DEPTH": 128 // parts, "BLOCKS": blocks, "THREADS": threads}
    numbers |= {"EACH": 4 // blocks, "ROWS": rows, "COLUMNS": columns}
    text = PARTS
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return text


def twice() -> str:
    """The same, with a kernel that adds up squares: it reads the parts twice."""
    parts, tile = "tensor<4x4x2x16xf32>", "!tb.stensor<4x1x2x16xf32>"
    text = program(4).replace("kn.customized %p", "kn.customized %p, %p")
    text = text.replace(f"%dp: {parts}", f"%dp: {parts}, %dq: {parts}")
    squares = (
        f"%sq = tb.input %dq imap [1, -1, -1] : {parts} -> {tile}\n"
        f"%squares = tb.mul %sp, %sq : ({tile}, {tile}) -> {tile}\n"
        "%s = tb.reduction %squares"
    )
    text = text.replace("%s = tb.reduction %sp", squares)
    return text.replace(f"}} : ({parts}) ->", f"}} : ({parts}, {parts}) ->")


STEP = """
  %N = kn.customized %L, %w grid [4, 4, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: tensor<1x4x2x64xf16>, %dw: tensor<1x4x64x64xf16>):
    %sx = tb.input %dx imap [1, 3, -1] : tensor<1x4x2x64xf16> -> !tb.stensor<1x1x2x16xf16>
    %sw = tb.input %dw imap [1, 2, -1] : tensor<1x4x64x64xf16> -> !tb.stensor<1x1x16x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1x2x16xf16>, !tb.stensor<1x1x16x64xf16>) -> !tb.stensor<1x1x2x64xf32>
    %e = tb.exp %m : !tb.stensor<1x1x2x64xf32> -> !tb.stensor<1x1x2x64xf32>
    tb.output %m omap [1, 0, -1] : !tb.stensor<1x1x2x64xf32> -> tensor<4x4x2x64xf32>
    tb.output %e omap [1, 0, -1] : !tb.stensor<1x1x2x64xf32> -> tensor<4x4x2x64xf32>
  } : (tensor<1x4x2x64xf16>, tensor<1x4x64x64xf16>) -> (tensor<4x4x2x64xf32>, tensor<4x4x2x64xf32>)
  %R = kn.customized %A, %B grid [4, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dp: tensor<4x4x2x64xf32>, %dq: tensor<4x4x2x64xf32>):
    %sp = tb.input %dp imap [1, -1, -1] : tensor<4x4x2x64xf32> -> !tb.stensor<4x1x2x64xf32>
    %sq = tb.input %dq imap [1, -1, -1] : tensor<4x4x2x64xf32> -> !tb.stensor<4x1x2x64xf32>
    %t = tb.sub %sp, %sq : (!tb.stensor<4x1x2x64xf32>, !tb.stensor<4x1x2x64xf32>) -> !tb.stensor<4x1x2x64xf32>
    %s = tb.reduction %t dim 0 : !tb.stensor<4x1x2x64xf32> -> !tb.stensor<1x1x2x64xf16>
    tb.output %s omap [1, -1, -1] : !tb.stensor<1x1x2x64xf16> -> tensor<1x4x2x64xf16>
  } : (tensor<4x4x2x64xf32>, tensor<4x4x2x64xf32>) -> tensor<1x4x2x64xf16>
"""  # noqa: E501 the text as it is printed


def steps(second: tuple[str, str]) -> str:
    """Two steps of the same kernels; what the consumer of the second one reads, in this order."""
    text = "func.func @f(%x: X, %w: tensor<1x4x64x64xf16> {mugraph.constant}) -> X {"
    for number, (x, reads) in enumerate((("x", ("p", "q")), ("r0", second))):
        values = {"%N": f"%p{number}, %q{number}", "%L": f"%{x}", "%R": f"%r{number}"}
        values |= {name: f"%{read}{number}" for name, read in zip(("%A", "%B"), reads, strict=True)}
        step = STEP
        for name, value in values.items():
            step = step.replace(name, value)
        text += step
    return f"{text}func.return %r1 : X\n}}".replace("X", "tensor<1x4x2x64xf16>")


def both() -> str:
    """The same, which also returns the parts."""
    own, parts = "tensor<1x4x2x16xf16>", "tensor<4x4x2x16xf32>"
    text = program(4).replace(f"-> {own} {{\n", f"-> ({own}, {parts}) {{\n", 1)
    return text.replace(f"return %y : {own}", f"return %y, %p : {own}, {parts}")


def scheduled(text: str, arch: str = "sm_90a") -> ModuleOp:
    """The finished schedule."""
    module = parse_text(make_context(), text, "f")
    PassPipeline(transpile_pipeline(arch)).apply(make_context(), module)
    module.verify()
    return module


def consumers_of(module: ModuleOp) -> list[sched.LaunchOp]:
    """The launches of kernels that combine parts in clusters."""
    return [op for op in module.walk() if isinstance(op, sched.LaunchOp) and op.cluster]


@pytest.mark.parametrize("parts", [2, 4, 8])
def test_a_block_of_each_cluster_adds_up(parts: int) -> None:
    """The parts come to the first block of a cluster in shared memory."""
    text = program(parts)
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    assert made.source.count("mugraph::launch(") == 1
    assert f"__cluster_dims__({parts}, 1, 1)" in made.source
    rng = np.random.default_rng(7)
    shapes = ((1, 4, 2, 256), (1, 4, 256, 16))
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w])
        expected = x.astype(np.float64) @ w.astype(np.float64)
        np.testing.assert_allclose(result, expected, rtol=2**-9, atol=2**-7)

    check_emulated_later(made, check)


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("a block needs the parts of two clusters", program(4, blocks=2)),
        ("it has more threads", program(4, threads=128)),
        ("clusters of 16 blocks are not for all devices", program(16)),
        ("nothing brings weights", program(4).replace(" {mugraph.constant}", "")),
        ("the parts are a result, too", both()),
        ("parts of 128 KB do not fit beside what adds them up", program(8, rows=64, columns=64)),
        ("one kernel reads its operands in two orders", steps(("q", "p"))),
    ],
)  # fmt: skip
def test_others_are_launched(why: str, text: str) -> None:
    """What cannot combine in clusters, or is not known to gain, has a launch of its own."""
    assert not consumers_of(scheduled(text)), why


def test_all_launches_of_two_kernels_are_clusters() -> None:
    """Where they read alike."""
    assert len(consumers_of(scheduled(steps(("p", "q"))))) == 2


def test_a_tensor_is_read_twice() -> None:
    """It is in shared memory once."""
    made = generate_cuda(parse_text(make_context(), twice(), "f"), make_context(), "sm_90a")
    assert "__cluster_dims__(4, 1, 1)" in made.source
    rng = np.random.default_rng(7)
    shapes = ((1, 4, 2, 256), (1, 4, 256, 16))
    x, w = (rng.standard_normal(shape).astype(np.float16) / 4 for shape in shapes)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w])
        rows, columns = x.astype(np.float64).reshape(4, 2, 4, 64), w.reshape(4, 4, 64, 16)
        parts = np.einsum("hrpk,hpkc->phrc", rows, columns.astype(np.float64))
        np.testing.assert_allclose(result[0], (parts**2).sum(0), rtol=2**-8, atol=2**-7)

    check_emulated_later(made, check)


def test_programs_with_tasks_keep_their_workspace() -> None:
    """The counters of the tasks lie after the tensors, as they were planned."""
    product = """
      %r = kn.customized %y, %v grid [4, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async, tasks = true> {
      ^bb0(%dy: tensor<1x4x2x16xf16>, %dv: tensor<1x4x16x16xf16>):
        %sy = tb.input %dy imap [1, -1, -1] : tensor<1x4x2x16xf16> -> !tb.stensor<1x1x2x16xf16>
        %sv = tb.input %dv imap [1, -1, -1] : tensor<1x4x16x16xf16> -> !tb.stensor<1x1x16x16xf16>
        %m = tb.matmul %sy, %sv : (!tb.stensor<1x1x2x16xf16>, !tb.stensor<1x1x16x16xf16>) -> !tb.stensor<1x1x2x16xf16>
        tb.output %m omap [1, -1, -1] : !tb.stensor<1x1x2x16xf16> -> tensor<1x4x2x16xf16>
      } : (tensor<1x4x2x16xf16>, tensor<1x4x16x16xf16>) -> tensor<1x4x2x16xf16>
    """  # noqa: E501 the text as it is printed
    more = product + product.replace("%r =", "%z =").replace("%y, %v", "%r, %v")
    text = program(4).replace("func.return %y", f"{more} func.return %z")
    text = text.replace("constant}", "constant}, %v: tensor<1x4x16x16xf16> {mugraph.constant}")
    module = scheduled(text)
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    (tasks,) = persistent_programs(function.body.block.ops)
    size = function.attributes[WORKSPACE_BYTES]
    assert isinstance(size, IntegerAttr)
    assert tasks.counters.stop == size.value.data
    assert not consumers_of(module)


def test_parts_of_attention_are_combined_in_their_launch() -> None:
    """The kernel that combines them is planned for that: maxima, sums and outputs at once."""
    check_attention(ATTENTION, scale=False)


def test_few_weights_in_attention_leave_it_its_clusters() -> None:
    """The weights of a norm of queries are few bytes beside the keys."""
    old = """  ^bb0(%dq: tensor<1x2x4x16xf16>, %dk"""
    own = """  ^bb0(%dq: tensor<1x2x4x16xf16>, %dg: tensor<1x1x1x16xf16>, %dk"""
    load = """    %sq = tb.input %dq imap [1, -1, -1] : tensor<1x2x4x16xf16> -> !tb.stensor<1x1x4x16xf16>
"""  # noqa: E501 the text as it is printed
    scaled = """    %raw = tb.input %dq imap [1, -1, -1] : tensor<1x2x4x16xf16> -> !tb.stensor<1x1x4x16xf16>
    %sg = tb.input %dg imap [-1, -1, -1] : tensor<1x1x1x16xf16> -> !tb.stensor<1x1x1x16xf16>
    %sq = tb.mul %raw, %sg : (!tb.stensor<1x1x4x16xf16>, !tb.stensor<1x1x1x16xf16>) -> !tb.stensor<1x1x4x16xf16>
"""  # noqa: E501 the text as it is printed
    text = ATTENTION.replace(old, own).replace(load, scaled)
    text = text.replace("kn.customized %q, %k", "kn.customized %q, %g, %k")
    text = text.replace(
        "(tensor<1x2x4x16xf16>, tensor<1x2x16x256xf16>",
        "(tensor<1x2x4x16xf16>, tensor<1x1x1x16xf16>, tensor<1x2x16x256xf16>",
    )
    text = text.replace(
        "%k: tensor<1x2x16x256xf16>, %v",
        "%g: tensor<1x1x1x16xf16> {mugraph.constant}, %k: tensor<1x2x16x256xf16>, %v",
        1,
    )
    check_attention(text, scale=True)


def check_attention(text: str, *, scale: bool) -> None:
    """Clusters of four compute it, as float64 does; ``scale``: queries are scaled."""
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    assert made.source.count("mugraph::launch(") == 2
    assert "__cluster_dims__(4, 1, 1)" in made.source
    rng = np.random.default_rng(9)
    shapes = ((1, 2, 4, 32), (1, 2, 32, 16), (1, 2, 16, 256), (1, 2, 256, 16))
    x, w, k, v = (rng.standard_normal(shape).astype(np.float16) / 2 for shape in shapes)
    g = rng.standard_normal((1, 1, 1, 16)).astype(np.float16)

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run([x, w, g, k, v] if scale else [x, w, k, v])
        q = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float16).astype(np.float64)
        if scale:
            q = (q * g).astype(np.float16).astype(np.float64)
        scores = q @ k.astype(np.float64)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        expected = weights @ v.astype(np.float64) / weights.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(result, expected, rtol=2**-9, atol=2**-10)

    check_emulated_later(made, check)


def test_there_are_no_clusters_before_sm_90() -> None:
    """Older GPUs launch both."""
    assert not consumers_of(scheduled(program(4), "sm_80"))


def test_what_another_cluster_writes_is_a_hazard() -> None:
    """Also where something else reads the parts, which are in no memory of the device."""
    module = scheduled(program(4))
    (consumer,) = consumers_of(module)
    CheckHazardsPass().apply(make_context(), module)
    kernel = consumer.resolve()
    layout = Layout((4, 4, 2, 16), (128, 32, 16, 1))
    Rewriter.replace_value_with_new_type(
        kernel.body.block.args[0], with_layout(kernel.body.block.args[0].type, layout)
    )
    with pytest.raises(PassFailedException, match="that its cluster of 4 does not write"):
        CheckHazardsPass().apply(make_context(), module)


def test_launches_in_clusters_are_no_tasks() -> None:
    """Tasks would have to be clusters."""
    module = scheduled(program(4))
    PersistProgramPass().apply(make_context(), module)
    module.verify()
    assert consumers_of(module)


def test_no_third_kernel_shares_clusters() -> None:
    """Two kernels share a launch that has clusters."""
    module = scheduled(program(4))
    (consumer,) = consumers_of(module)
    third = consumer.clone()
    third.cluster = None
    block = consumer.parent
    assert block is not None
    block.insert_op_after(third, consumer)
    with pytest.raises(VerifyException, match="no third operator may"):
        module.verify()


@pytest.mark.parametrize(
    ("size", "fault"),
    [(2, "which takes 8 blocks, not 16"), (1, "a cluster has two blocks at least")],
)
def test_clusters_are_verified(size: int, fault: str) -> None:
    """A cluster has all blocks that compute parts of one tile."""
    module = scheduled(program(4))
    (consumer,) = consumers_of(module)
    consumer.cluster = IntegerAttr(size, i64)
    with pytest.raises(VerifyException, match=fault):
        module.verify()
