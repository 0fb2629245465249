"""Kernels that the last blocks run of those that compute parts of what they combine."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import PassPipeline
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from mugraph.codegen.cuda import print_module
from mugraph.codegen.cuda.cpp import CodegenError
from mugraph.dialects import kn, sched
from mugraph.dialects.cute.layout import Layout
from mugraph.dialects.tensor_types import shape_of, with_layout
from mugraph.passes.program.combine_in_last_blocks import CombineInLastBlocksPass
from mugraph.passes.program.persist_program import PersistProgramPass
from mugraph.passes.schedule.check_hazards import CheckHazardsPass
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

ROWS, PARTS = "tensor<1x4x2x64xf16>", "tensor<4x4x2x64xf32>"
STEP = """
  %q#N = kn.customized %X, %v grid [4, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: ROWS, %dv: tensor<1x4x64x64xf16>):
    %sx = tb.input %dx imap [1, -1, -1] : ROWS -> !tb.stensor<1x1x2x64xf16>
    %sv = tb.input %dv imap [1, -1, -1] : tensor<1x4x64x64xf16> -> !tb.stensor<1x1x64x64xf16>
    %m = tb.matmul %sx, %sv : (!tb.stensor<1x1x2x64xf16>, !tb.stensor<1x1x64x64xf16>) -> !tb.stensor<1x1x2x64xf16>
    tb.output %m omap [1, -1, -1] : !tb.stensor<1x1x2x64xf16> -> ROWS
  } : (ROWS, tensor<1x4x64x64xf16>) -> ROWS
  %p#N = kn.customized %X, %w grid [4, 4, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: ROWS, %dw: tensor<1x4x64x64xf16>):
    %sx = tb.input %dx imap [1, 3, -1] : ROWS -> !tb.stensor<1x1x2x16xf16>
    %sw = tb.input %dw imap [1, 2, -1] : tensor<1x4x64x64xf16> -> !tb.stensor<1x1x16x64xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1x1x2x16xf16>, !tb.stensor<1x1x16x64xf16>) -> !tb.stensor<1x1x2x64xf32>
    tb.output %m omap [1, 0, -1] : !tb.stensor<1x1x2x64xf32> -> PARTS
  } : (ROWS, tensor<1x4x64x64xf16>) -> PARTS
  %r#N = kn.customized %p#N grid [4, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dp: PARTS):
    %sp = tb.input %dp imap [1, -1, -1] : PARTS -> !tb.stensor<4x1x2x64xf32>
    %s = tb.reduction %sp dim 0 : !tb.stensor<4x1x2x64xf32> -> !tb.stensor<1x1x2x64xf16>
    tb.output %s omap [1, -1, -1] : !tb.stensor<1x1x2x64xf16> -> ROWS
  } : (PARTS) -> ROWS
"""  # noqa: E501 the text as it is printed
ALONE = STEP[: STEP.index("  %p#N")]
"""The product of the whole depth."""
ADDS = "%p#N grid [4, 1, 1] block [64"


def program(step: str = STEP, constant: str = " {mugraph.constant}") -> str:
    """Two steps, of which the second one multiplies what the first one has added up."""
    weights = f"tensor<1x4x64x64xf16>{constant}"
    text = f"func.func @f(%x: ROWS, %v: {weights}, %w: {weights}) -> (ROWS, ROWS, ROWS) {{"
    for number, rows in enumerate(("x", "r0")):
        text += step.replace("#N", str(number)).replace("%X", f"%{rows}")
    text += "func.return %q0, %q1, %r1 : ROWS, ROWS, ROWS\n}"
    return text.replace("ROWS", ROWS).replace("PARTS", PARTS)


def scheduled(text: str, arch: str = "sm_90a") -> ModuleOp:
    """The finished schedule."""
    module = parse_text(make_context(), text, "f")
    PassPipeline(transpile_pipeline(arch)).apply(make_context(), module)
    module.verify()
    return module


def until_last_blocks(text: str) -> ModuleOp:
    """The schedule in front of ``--combine-in-last-blocks``."""
    module, pipeline = parse_text(make_context(), text, "f"), transpile_pipeline("sm_90a")
    at = next(n for n, each in enumerate(pipeline) if isinstance(each, CombineInLastBlocksPass))
    PassPipeline(pipeline[:at]).apply(make_context(), module)
    return module


def consumers_of(module: ModuleOp) -> list[sched.LaunchOp]:
    """The launches of kernels that run in last blocks."""
    return [op for op in module.walk() if isinstance(op, sched.LaunchOp) and op.last]


def test_the_last_block_adds_up() -> None:
    """Two launches count with the same counters, of which each one leaves zeros."""
    made = generate_cuda(parse_text(make_context(), program(), "f"), make_context(), "sm_90a")
    assert made.source.count("mugraph::launch(") == 2
    rng = np.random.default_rng(7)
    shapes = ((1, 4, 2, 64), (1, 4, 64, 64), (1, 4, 64, 64))
    x, v, w = (rng.standard_normal(shape).astype(np.float16) / 8 for shape in shapes)

    def check(kernels: CudaModule) -> None:
        rows = x.astype(np.float64)
        middle = (rows @ w).astype(np.float16).astype(np.float64)
        expected = (rows @ v, middle @ v, middle @ w)
        for _ in range(2):
            for result, one in zip(kernels.run([x, v, w]), expected, strict=True):
                np.testing.assert_allclose(result, one, rtol=2**-8, atol=2**-9)

    check_emulated_later(made, check)


@pytest.mark.parametrize(
    ("why", "text", "arch"),
    [
        ("nothing brings weights", program(constant=""), "sm_90a"),
        ("no kernel starts early", program(), "sm_80"),
        (
            "it has more threads",
            program(STEP.replace(ADDS, ADDS.replace("64", "128"))),
            "sm_90a",
        ),
        (
            "clusters combine what shares no launch",
            program(STEP.replace(ALONE, "")).replace("%q0, %q1", "%r0, %x"),
            "sm_90a",
        ),
    ],
)
def test_others_are_launched(why: str, text: str, arch: str) -> None:
    """What cannot run in last blocks, or is not known to gain, has a launch of its own."""
    assert not consumers_of(scheduled(text, arch)), why


def test_views_behind_the_producer_are_not_there() -> None:
    """A kernel that reads one stays where it is, though what it views is there."""
    step = STEP.replace(
        "%r#N = kn.customized %p#N",
        "%b#N = kn.transpose %x dims [1, 0, 2, 3] : ROWS -> tensor<4x1x2x64xf16>\n"
        "  %r#N = kn.customized %p#N, %b#N",
    )
    step = step.replace("(PARTS) ->", "(PARTS, tensor<4x1x2x64xf16>) ->")
    step = step.replace("^bb0(%dp: PARTS)", "^bb0(%dp: PARTS, %db: tensor<4x1x2x64xf16>)")
    module = until_last_blocks(program(step))
    view = next(op for op in module.walk() if isinstance(op, kn.ViewOp))
    user = next(iter(view.result.uses)).operation
    view.detach()
    assert user.parent is not None
    user.parent.insert_op_before(view, user)
    CombineInLastBlocksPass().apply(make_context(), module)
    module.verify()
    assert len(consumers_of(module)) == 1


def test_blocks_have_room_to_count() -> None:
    """A kernel that takes all shared memory of a block stays where it is."""
    module = until_last_blocks(program())
    kernel = next(op for op in reversed(list(module.ops)) if isinstance(op, sched.KernelOp))
    kernel.smem = IntegerAttr(target_named("sm_90a").shared_memory_per_block, i64)
    CombineInLastBlocksPass("sm_90a").apply(make_context(), module)
    assert all(consumer.resolve() is not kernel for consumer in consumers_of(module))
    assert any(op.resolve() is kernel for op in module.walk() if isinstance(op, sched.LaunchOp))


def test_what_other_blocks_write_is_a_hazard() -> None:
    """They may not have ended."""
    module = scheduled(program())
    kernel = consumers_of(module)[0].resolve()
    (tile,) = (use.operation for use in kernel.body.block.args[0].uses)
    assert isinstance(tile, sched.LocalTileOp)
    for value in (kernel.body.block.args[0], tile.result):
        layout = Layout(tuple(shape_of(value.type)), (512, 64, 256, 1))
        Rewriter.replace_value_with_new_type(value, with_layout(value.type, layout))
    with pytest.raises(PassFailedException, match="the 4 blocks that it runs in the last of do"):
        CheckHazardsPass().apply(make_context(), module)


@pytest.mark.parametrize(
    ("counters", "hazard"),
    [
        (None, "has no counters"),
        (1 << 20, "end at byte 1048592 of a workspace of"),
        (0, "over the counters of"),
    ],
)
def test_counters_have_bytes_of_their_own(counters: int | None, hazard: str) -> None:
    """In the workspace, behind all tensors."""
    module = scheduled(program())
    consumers_of(module)[0].counters = None if counters is None else IntegerAttr(counters, i64)
    with pytest.raises(PassFailedException, match=hazard):
        CheckHazardsPass().apply(make_context(), module)


def test_launches_in_last_blocks_are_no_tasks() -> None:
    """Their blocks would have to be tasks of the producer."""
    module = scheduled(program())
    PersistProgramPass().apply(make_context(), module)
    module.verify()
    assert consumers_of(module)


def test_counts_are_verified() -> None:
    """All blocks that compute parts of one tile count together."""
    module = scheduled(program())
    consumers_of(module)[0].last = IntegerAttr(2, i64)
    with pytest.raises(VerifyException, match="which takes 8 blocks, not 16"):
        module.verify()


@pytest.mark.parametrize(
    ("last", "cluster", "counters", "fault"),
    [
        (4, None, 2, "counters 2 must be of .* and begin at a multiple of 4 bytes"),
        (None, None, 0, "counters 0 must be of a kernel that runs in last blocks"),
        (4, 4, 0, "in clusters, or the last ones, not both"),
    ],
)
def test_counters_are_of_last_blocks(
    last: int | None, cluster: int | None, counters: int, fault: str
) -> None:
    """What has blocks of its own, or clusters, counts nothing."""
    consumer = consumers_of(scheduled(program()))[0]
    consumer.last = None if last is None else IntegerAttr(last, i64)
    consumer.cluster = None if cluster is None else IntegerAttr(cluster, i64)
    consumer.counters = IntegerAttr(counters, i64)
    with pytest.raises(VerifyException, match=fault):
        consumer.verify()


def test_last_blocks_without_counters_are_not_printed() -> None:
    """The sentence names the launch that needs them."""
    module = scheduled(program())
    consumer = consumers_of(module)[0]
    consumer.counters = None
    with pytest.raises(CodegenError, match="%r0 runs in last blocks, which have no counters"):
        print_module(module)
