"""Rows of which the blocks of a cluster have a part each: both kernels of them in one launch."""

from __future__ import annotations

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from row_programs import softmax
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import PassFailedException, VerifyException

import mugraph.build as mi
from mugraph.dialects import sched
from mugraph.passes.compile import before_planning
from mugraph.passes.mugraph.online_softmax.kernel import custom_kernels
from mugraph.passes.mugraph.plan.choose import require_cuttable
from mugraph.passes.program.fuse_kernels.row_clusters import parts_in_clusters
from mugraph.passes.targets import target_named
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

TARGET = target_named("h200")

ROWS = """
func.func @f(%x: tensor<ROWSx256xf16>) -> tensor<ROWSx256xf16> {
  %v = kn.view %x : tensor<ROWSx256xf16> -> tensor<ROWSx4x64xf16>
  %m, %s = kn.customized %v grid [ROWS, 4, 1] block [32, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: tensor<ROWSx4x64xf16>):
    %sx = tb.input %dx imap [0, 1, -1] : tensor<ROWSx4x64xf16> -> !tb.stensor<1x1x64xf16>
    %max, %fall = tb.reduction_max %sx dim 2 : !tb.stensor<1x1x64xf16> -> (!tb.stensor<1x1x1xf32>, !tb.stensor<1x1x1xf32>)
    %d = tb.sub %sx, %max : (!tb.stensor<1x1x64xf16>, !tb.stensor<1x1x1xf32>) -> !tb.stensor<1x1x64xf32>
    %e = tb.exp %d : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x64xf32>
    %sum = tb.reduction %e dim 2 : !tb.stensor<1x1x64xf32> -> !tb.stensor<1x1x1xf32>
    tb.output %max omap [0, 1, -1] : !tb.stensor<1x1x1xf32> -> tensor<ROWSx4x1xf32>
    tb.output %sum omap [0, 1, -1] : !tb.stensor<1x1x1xf32> -> tensor<ROWSx4x1xf32>
  } : (tensor<ROWSx4x64xf16>) -> (tensor<ROWSx4x1xf32>, tensor<ROWSx4x1xf32>)
  %m2 = kn.view %m : tensor<ROWSx4x1xf32> -> tensor<ROWSx4xf32>
  %s2 = kn.view %s : tensor<ROWSx4x1xf32> -> tensor<ROWSx4xf32>
  %y = kn.customized %m2, %s2, %x grid [ROWS, 4, 1] block [32, 1, 1] forloop 1 plan <tiles = written, loads = cp_async, clusters = true> {
  ^bb0(%dm: tensor<ROWSx4xf32>, %ds: tensor<ROWSx4xf32>, %dx: tensor<ROWSx256xf16>):
    %sm = tb.input %dm imap [0, -1, -1] : tensor<ROWSx4xf32> -> !tb.stensor<1x4xf32>
    %max, %fall = tb.reduction_max %sm dim 1 : !tb.stensor<1x4xf32> -> (!tb.stensor<1x1xf32>, !tb.stensor<1x1xf32>)
    %d = tb.sub %sm, %max : (!tb.stensor<1x4xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x4xf32>
    %e = tb.exp %d : !tb.stensor<1x4xf32> -> !tb.stensor<1x4xf32>
    %ss = tb.input %ds imap [0, -1, -1] : tensor<ROWSx4xf32> -> !tb.stensor<1x4xf32>
    %w = tb.mul %ss, %e : (!tb.stensor<1x4xf32>, !tb.stensor<1x4xf32>) -> !tb.stensor<1x4xf32>
    %sum = tb.reduction %w dim 1 : !tb.stensor<1x4xf32> -> !tb.stensor<1x1xf32>
    %sx = tb.input %dx imap [0, 1, -1] : tensor<ROWSx256xf16> -> !tb.stensor<1x64xf16>
    %dx2 = tb.sub %sx, %max : (!tb.stensor<1x64xf16>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x64xf32>
    %ex = tb.exp %dx2 : !tb.stensor<1x64xf32> -> !tb.stensor<1x64xf32>
    %q = tb.div %ex, %sum : (!tb.stensor<1x64xf32>, !tb.stensor<1x1xf32>) -> !tb.stensor<1x64xf16>
    tb.output %q omap [0, 1, -1] : !tb.stensor<1x64xf16> -> tensor<ROWSx256xf16>
  } : (tensor<ROWSx4xf32>, tensor<ROWSx4xf32>, tensor<ROWSx256xf16>) -> tensor<ROWSx256xf16>
  func.return %y : tensor<ROWSx256xf16>
}
"""  # noqa: E501 the text as it is printed


def scheduled(text: str, arch: str = "sm_90a") -> ModuleOp:
    """The finished schedule, without hazards."""
    module = parse_text(make_context(), text, "f")
    PassPipeline(transpile_pipeline(arch)).apply(make_context(), module)
    module.verify()
    return module


def clusters_of(module: ModuleOp) -> list[int]:
    """The sizes of the clusters of a program's launches."""
    found = (op.cluster for op in module.walk() if isinstance(op, sched.LaunchOp))
    return [size.value.data for size in found if size is not None]


@pytest.mark.parametrize("rows", [1, 3])
def test_each_block_goes_on_with_its_part(rows: int) -> None:
    """Once each has given its numbers to all others."""
    text = ROWS.replace("ROWS", str(rows))
    module = scheduled(text)
    assert clusters_of(module) == [4]
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    assert made.source.count("mugraph::launch(") == 1
    assert made.source.count("mugraph::give_to_cluster<4>(") == 2
    x = (3 * np.random.default_rng(5).standard_normal((rows, 256))).astype(np.float16)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    for level in ("logical", "address"):
        (result,) = run_function(module, None, [x], level=level)
        np.testing.assert_allclose(result, expected, rtol=2**-9, atol=2**-20)

    def check(kernels: CudaModule) -> None:
        np.testing.assert_allclose(kernels.run([x])[0], expected, rtol=2**-9, atol=2**-20)

    check_emulated_later(made, check)


def test_other_grids_cannot_have_clusters() -> None:
    """A plan that says so is refused: here the second kernel has half as many blocks."""
    text = ROWS.replace("ROWS", "4")
    second = text.index("grid", text.index("%y ="))
    text = text[:second] + text[second:].replace("[4, 4, 1]", "[2, 4, 1]", 1)
    text = text.replace("!tb.stensor<1x4xf32>", "!tb.stensor<2x4xf32>")
    head, tail = text[:second], text[second:]
    tail = tail.replace("stensor<1x64", "stensor<2x64").replace("stensor<1x1x", "stensor<2x1x")
    tail = tail.replace("stensor<1x1xf32", "stensor<2x1xf32")
    with pytest.raises(PassFailedException, match="grid, 2, 4, 8; leave it out"):
        scheduled(head + tail)


def test_a_cluster_has_the_blocks_of_a_row() -> None:
    """Not those of all rows, whose numbers would be given from other places."""
    module = scheduled(ROWS.replace("ROWS", "2"))
    (*_, last) = (op for op in module.walk() if isinstance(op, sched.LaunchOp))
    last.cluster = IntegerAttr(8, i64)
    with pytest.raises(VerifyException, match="the 4 blocks along the last axis of the grid"):
        module.verify()


def test_a_target_without_clusters_says_so() -> None:
    with pytest.raises(PassFailedException, match="clusters = true: a100 has none; leave it out"):
        scheduled(ROWS.replace("ROWS", "3"), "sm_80")


def test_numbers_are_read_from_the_first_one_on() -> None:
    """What a block has in shared memory is all of the numbers, not those of a view of some."""
    parts = "tensor<3x4x1xf32, #cute.layout<(3,4,1):(4,1,1)>>"
    last = "tensor<3x2xf32, #cute.layout<(3,2):(4,1)>>"
    text = ROWS.replace("ROWS", "3").replace("tensor<3x4x1xf32>", parts)
    text = text.replace(f" : {parts} -> tensor<3x4xf32>", f" from 2 : {parts} -> {last}")
    text = text.replace("tensor<3x4xf32>", last).replace("tensor<1x4xf32>", "tensor<1x2xf32>")
    with pytest.raises(PassFailedException, match="cannot have clusters = true"):
        scheduled(text)
    assert clusters_of(scheduled(text.replace(", clusters = true", ""))) == []


def test_a_launch_of_two_kernels_starts_behind_none_alone() -> None:
    """Also where views stand between them: a launch of each has more than one kernel."""
    first = """  %x = kn.customized %a grid [3, 4, 1] block [32, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%da: tensor<3x256xf16>):
    %sa = tb.input %da imap [0, 1, -1] : tensor<3x256xf16> -> !tb.stensor<1x64xf16>
    %ra = tb.exp %sa : !tb.stensor<1x64xf16> -> !tb.stensor<1x64xf16>
    tb.output %ra omap [0, 1, -1] : !tb.stensor<1x64xf16> -> tensor<3x256xf16>
  } : (tensor<3x256xf16>) -> tensor<3x256xf16>
  %v = kn.view"""  # noqa: E501 the text as it is printed
    text = ROWS.replace("ROWS", "3").replace("@f(%x", "@f(%a").replace("  %v = kn.view", first)
    launches = [op for op in scheduled(text).walk() if isinstance(op, sched.LaunchOp)]
    assert [op.is_joined for op in launches] == [False, False, True]
    assert [op.launch_in_front() for op in launches] == [None, None, None]


@pytest.mark.parametrize(("rows", "clusters"), [(7, True), (16, None)])
def test_few_long_rows_are_planned_for_clusters(rows: int, clusters: bool | None) -> None:
    """On an H200 7 rows took 3.22 us so and 3.77 without, 16 of 17,920 elements 3.50 and 3.34."""
    module = softmax(rows, 32000)
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    *_, last = custom_kernels(only_function(module))
    assert last.decided.clusters is clusters
    assert clusters is None or last.decided.grid == (rows, 8)


def test_kernels_that_cannot_be_cut_so_are_left() -> None:
    """A softmax that is stored as f8 keeps its blocks: it is compiled without clusters."""
    graph = mi.new_kernel_graph("rows")
    x = graph.new_input((4, 32768), dtype=mi.float16)
    graph.mark_output(mi.cast(mi.softmax(x), mi.float8_e4m3fn))
    module = graph.module()
    PassPipeline(before_planning("sm_90a")).apply(make_context(), module)
    for kernel in custom_kernels(only_function(module)):
        require_cuttable(kernel, kernel.decided)


@pytest.mark.parametrize(
    ("rows", "extent", "parts"),
    [(16, 17920, 8), (33, 65536, 4), (64, 28672, 2), (132, 65536, None), (16, 17928, None)],
)
def test_all_clusters_run_at_once(rows: int, extent: int, parts: int | None) -> None:
    """Of whole vectors; not of more blocks than there are multiprocessors."""
    assert parts_in_clusters(TARGET, rows, extent) == parts
