"""Plans of kernels that load weights before they wait for the kernels in front of them."""

from __future__ import annotations

import math

import pytest
from row_programs import softmax
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from benchmarks.h200.pipelines import flat_passes
from mugraph.dialects import sched
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import before_planning
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.mugraph.plan.choose import filled_plan
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text

MLP = """
func.func @f(%in: !x, %wg: !w ATTRIBUTES, %wu: !w ATTRIBUTES, FRONT
  %h = kn.customized %x, %wg, %wu grid [128, 1, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%dx: !x, %dg: !w, %du: !w):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : !x -> !tb.stensor<1x64xbf16>
    %sg = tb.input %dg imap [1, -1, -1] fordim 0 : !w -> !tb.stensor<64x64xbf16>
    %pg = tb.matmul %sx, %sg : (!tb.stensor<1x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<1x64xbf16>
    %g = tb.forloop_accum none %pg : !tb.stensor<1x64xbf16> -> !tb.stensor<1x64xbf16>
    %su = tb.input %du imap [1, -1, -1] fordim 0 : !w -> !tb.stensor<64x64xbf16>
    %pu = tb.matmul %sx, %su : (!tb.stensor<1x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<1x64xbf16>
    %u = tb.forloop_accum none %pu : !tb.stensor<1x64xbf16> -> !tb.stensor<1x64xbf16>
    %a = tb.silu %g : !tb.stensor<1x64xbf16> -> !tb.stensor<1x64xbf16>
    %r = tb.mul %a, %u : (!tb.stensor<1x64xbf16>, !tb.stensor<1x64xbf16>) -> !tb.stensor<1x64xbf16>
    tb.output %r omap [1, -1, -1] : !tb.stensor<1x64xbf16> -> !h
  } : (!x, !w, !w) -> !h
  %y = kn.customized %h, %wd grid [32, 1, 1] block [128, 1, 1] forloop 128 {
  ^bb0(%dh: !h, %dd: !d):
    %sh = tb.input %dh imap [-1, -1, -1] fordim 1 : !h -> !tb.stensor<1x64xbf16>
    %sd = tb.input %dd imap [1, -1, -1] fordim 0 : !d -> !tb.stensor<64x64xbf16>
    %pd = tb.matmul %sh, %sd : (!tb.stensor<1x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<1x64xbf16>
    %s = tb.forloop_accum none %pd : !tb.stensor<1x64xbf16> -> !tb.stensor<1x64xbf16>
    tb.output %s omap [1, -1, -1] : !tb.stensor<1x64xbf16> -> !x
  } : (!h, !d) -> !x
  func.return %y : !x
}
"""  # noqa: E501 the text as it is printed
TYPES = {
    "!x": "tensor<1x2048xbf16, #cute.layout<(1,2048):(2048,1)>>",
    "!h": "tensor<1x8192xbf16, #cute.layout<(1,8192):(8192,1)>>",
    "!w": "tensor<2048x8192xbf16, #cute.layout<(2048,8192):(1,2048)>>",
    "!o": "tensor<2048x2048xbf16, #cute.layout<(2048,2048):(1,2048)>>",
    "!d": "tensor<8192x2048xbf16, #cute.layout<(8192,2048):(1,8192)>>",
}


OF_ROWS = """%wd: !d ATTRIBUTES) -> !x {
  %x = kn.customized %in grid [BLOCKS, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%di: !x):
    %si = tb.input %di imap [1, -1, -1] : !x -> !tb.stensor<1xCOLUMNSxbf16>
    %q = tb.square %si : !tb.stensor<1xCOLUMNSxbf16> -> !tb.stensor<1xCOLUMNSxbf16>
    tb.output %q omap [1, -1, -1] : !tb.stensor<1xCOLUMNSxbf16> -> !x
  } : (!x) -> !x
"""
A_PRODUCT = """%wd: !d ATTRIBUTES, %wo: !o ATTRIBUTES) -> !x {
  %x = kn.customized %in, %wo grid [32, 1, 1] block [128, 1, 1] forloop 32 {
  ^bb0(%di: !x, %do: !o):
    %si = tb.input %di imap [-1, -1, -1] fordim 1 : !x -> !tb.stensor<1x64xbf16>
    %so = tb.input %do imap [1, -1, -1] fordim 0 : !o -> !tb.stensor<64x64xbf16>
    %po = tb.matmul %si, %so : (!tb.stensor<1x64xbf16>, !tb.stensor<64x64xbf16>) -> !tb.stensor<1x64xbf16>
    %q = tb.forloop_accum none %po : !tb.stensor<1x64xbf16> -> !tb.stensor<1x64xbf16>
    tb.output %q omap [1, -1, -1] : !tb.stensor<1x64xbf16> -> !x
  } : (!x, !o) -> !x
"""  # noqa: E501 the text as it is printed
"""What computes the rows of the MLP: a kernel of so many blocks, or a product of fewer weights."""


def program(attributes: str, blocks: int = 128, *, behind_a_product: bool = False) -> ModuleOp:
    """An MLP of one row behind a kernel of so many blocks, or behind a product."""
    text = MLP.replace("FRONT", A_PRODUCT if behind_a_product else OF_ROWS)
    text = text.replace("ATTRIBUTES", attributes).replace("BLOCKS", str(blocks))
    text = text.replace("COLUMNS", str(2048 // blocks))
    for name, type_ in TYPES.items():
        text = text.replace(name, type_)
    return parse_text(make_context(), text, "mlp")


def gate(attributes: str, blocks: int = 128, *, behind_a_product: bool = False) -> CustomizedOp:
    """The kernel of gate and up, planned."""
    module = program(attributes, blocks, behind_a_product=behind_a_product)
    PassPipeline((PlanPass(arch="sm_90a"),)).apply(make_context(), module)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    _, own, _ = (op for op in function.walk() if isinstance(op, CustomizedOp))
    return own


def test_weights_that_are_there_early_come_in_few_iterations() -> None:
    """Memory bounds the kernel in both, and nothing hides the first tiles of what may change."""
    changing, constant = gate(""), gate("{mugraph.constant}")
    turns = [plan.forloop or 32 for plan in (changing.decided, constant.decided)]
    assert constant.decided.pdl == "early"
    assert turns[1] < turns[0]


def test_behind_few_blocks_as_much_is_on_its_way_as_fits() -> None:
    """Weights come while one block works, and shared memory says how many."""
    plans = gate("{mugraph.constant}").decided, gate("{mugraph.constant}", 1).decided
    turns = [plan.forloop or 32 for plan in plans]
    ahead = [
        ((plan.stages or (2,))[0] - 1) / turns for plan, turns in zip(plans, turns, strict=True)
    ]
    assert turns[1] > turns[0]
    assert ahead[1] >= 1.5 * ahead[0]


def test_behind_a_shorter_product_half_of_the_shared_memory_is_left() -> None:
    """As many bytes are on their way, and blocks of both share a multiprocessor."""
    plans = [gate("{mugraph.constant}", behind_a_product=own).decided for own in (False, True)]
    turns = [plan.forloop or 32 for plan in plans]
    ahead = [
        ((plan.stages or (2,))[0] - 1) / count for plan, count in zip(plans, turns, strict=True)
    ]
    assert turns[1] >= turns[0] and ahead[1] >= ahead[0]
    module = program("{mugraph.constant}", behind_a_product=True)
    PassPipeline(flat_passes("transpile", "h200")).apply(make_context(), module)
    output, gate_up, down = (
        op for op in module.walk() if isinstance(op, sched.KernelOp) and op.constant_inputs
    )
    target = target_named("h200")
    memory = target.shared_memory_per_multiprocessor - 2 * target.reserved_shared_memory_per_block
    sizes = [kernel.smem_bytes or 0 for kernel in (output, gate_up, down)]
    assert sizes[0] + sizes[1] <= memory < sizes[0] + 2 * sizes[1]
    assert 2 * sizes[2] > memory


def test_what_threads_wait_for_has_one_stage_behind_few_blocks_too() -> None:
    """Rows of 1001 elements are shifted as they are loaded: nothing is on its way meanwhile."""
    graph = mi.KernelGraph()
    x, w = graph.new_input((16, 1001)), graph.new_input((1001, 8001), constant=True)
    graph.mark_output(mi.softmax(x, 1) @ w)
    module = graph.module()
    PassPipeline(flat_passes("fuse-kernels,plan", "h200")).apply(make_context(), module)
    _, product = (op for op in module.walk() if isinstance(op, CustomizedOp))
    assert (product.decided.pdl, product.decided.stages) == ("early", (1,))


@pytest.mark.parametrize(("rows", "start"), [(64, "late"), (256, "early")])
def test_a_kernel_that_streams_hides_the_launch_of_the_next_if_it_is_long(
    rows: int, start: str
) -> None:
    graph = mi.KernelGraph()
    x, scale = graph.new_input((rows, 2048, 16)), graph.new_input((2048, 1))
    graph.mark_output(mi.exp(x * scale) + scale)
    module = graph.module()
    PassPipeline(flat_passes("fuse-kernels,plan", "sm_90a")).apply(make_context(), module)
    (kernel,) = [op for op in module.walk() if isinstance(op, CustomizedOp)]
    assert kernel.decided.pdl == start


def softmax_plans(rows: int, columns: int) -> list[Plan]:
    """The plans of the kernels of a softmax, a program by itself."""
    module = softmax(rows, columns)
    PassPipeline(flat_passes("fuse-kernels,plan", "sm_90a")).apply(make_context(), module)
    return [op.decided for op in module.walk() if isinstance(op, CustomizedOp)]


@pytest.mark.parametrize(
    ("rows", "columns", "start"),
    [
        (256, 128, ["early"]),
        (182, 1024, ["early"]),
        (8, 14336, ["early"]),  # few blocks
        (32, 8192, ["late"]),
        (16, 17920, ["early", "late"]),
        (4096, 8192, ["early"]),  # several launches long
    ],
)
def test_a_short_kernel_of_rows_hides_the_launch_of_the_next(
    rows: int, columns: int, start: list[str]
) -> None:
    """Beside a longer one, and behind the second of two, the next one is in the way."""
    assert [plan.pdl for plan in softmax_plans(rows, columns)] == start


@pytest.mark.parametrize(("columns", "threads"), [(128, 32), (512, 32), (1024, 128)])
def test_a_block_of_a_short_row_is_a_warp(columns: int, threads: int) -> None:
    """Of two vectors a lane, at most: it meets no other warp."""
    (plan,) = softmax_plans(256, columns)
    assert (plan.block or (128,))[0] == threads


@pytest.mark.parametrize(("rows", "start"), [(64, "late"), (256, "end")])
def test_f8_that_few_rows_multiply_once_hides_the_launch_of_the_next(rows: int, start: str) -> None:
    graph = mi.KernelGraph()
    x = graph.new_input((rows, 8192), dtype=mi.float8_e4m3fn)
    w = graph.new_input((8192, 8192), dtype=mi.float8_e4m3fn)
    scale = graph.new_input((rows, 1), dtype=mi.float32)
    sums = graph.matmul(x, mi.transpose(w), dtype=mi.float32)
    graph.mark_output(mi.cast(sums * scale, mi.bfloat16))
    module = graph.module()
    PassPipeline(flat_passes("fuse-kernels,plan{split_k=1}", "h200")).apply(make_context(), module)
    (kernel,) = [op for op in module.walk() if isinstance(op, CustomizedOp)]
    assert kernel.decided.pdl == start


def behind_a_norm(rows: int, columns: tuple[int, ...], plan: Plan) -> Plan:
    """The plan of one kernel that multiplies rows of 4,096, behind their norm, as it is filled."""
    graph = mi.KernelGraph()
    x = graph.new_input((rows, 4096), dtype=mi.bfloat16)
    scale = graph.new_input((1, 4096), dtype=mi.bfloat16, constant=True)
    normed = mi.rms_norm(x) * scale
    graph.mark_output(normed)
    for count in columns:
        w = graph.new_input((count, 4096), dtype=mi.bfloat16, constant=True)
        graph.mark_output(normed @ mi.transpose(w))
    module = graph.module()
    PassPipeline(before_planning("h200")).apply(make_context(), module)
    *_, kernel = (op for op in module.walk() if isinstance(op, CustomizedOp))
    return filled_plan(kernel, plan, target_named("h200"))


@pytest.mark.parametrize(
    ("rows", "blocks", "stages"), [(1, (128, 1, 1), (5,)), (8, (128, 1, 1), (4,))]
)
def test_sums_of_few_rows_stay_whole_and_leave_half_of_the_memory(
    rows: int, blocks: tuple[int, ...], stages: tuple[int, ...]
) -> None:
    """Queries and values of 4,096, 32 and 8 columns a block: parts of keys have room beside them.

    Each block has all rows, so that none loads weights that another one has loaded.
    """
    plan = behind_a_norm(rows, (4096, 1024), Plan())
    assert (plan.split_k, plan.grid, plan.stages) == (None, blocks, stages)


KEYS = """
func.func @f(%in: !x, %w: !w {mugraph.constant}) -> !y {
  %x = kn.customized %in grid [8, 1, 1] block [128, 1, 1] forloop 1 plan <tiles = written> {
  ^bb0(%di: !x):
    %si = tb.input %di imap [1, -1, -1] : !x -> !tb.stensor<1x1x2048xbf16>
    %n = tb.silu %si : !tb.stensor<1x1x2048xbf16> -> !tb.stensor<1x1x2048xbf16>
    tb.output %n omap [1, -1, -1] : !tb.stensor<1x1x2048xbf16> -> !x
  } : (!x) -> !x
  %y = kn.customized %x, %w grid [8, 1, 1] block [128, 1, 1] forloop 32 plan <forloop = 32, split_k = 8> {
  ^bb0(%dx: !x, %dw: !w):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 2 : !x -> !tb.stensor<1xROWSx64xbf16>
    %sw = tb.input %dw imap [0, -1, -1] fordim 1 : !w -> !tb.stensor<1x64x64xbf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<1xROWSx64xbf16>, !tb.stensor<1x64x64xbf16>) -> !tb.stensor<1xROWSx64xbf16>
    %s = tb.forloop_accum none %m : !tb.stensor<1xROWSx64xbf16> -> !tb.stensor<1xROWSx64xbf16>
    %o = tb.silu %s : !tb.stensor<1xROWSx64xbf16> -> !tb.stensor<1xROWSx64xbf16>
    tb.output %o omap [0, -1, -1] : !tb.stensor<1xROWSx64xbf16> -> !y
  } : (!x, !w) -> !y
  func.return %y : !y
}
"""  # noqa: E501 the text as it is printed


@pytest.mark.parametrize(("rows", "alike"), [(8, True), (64, False)])
def test_one_block_combines_the_parts_that_several_compute_of_few_rows(
    rows: int, alike: bool
) -> None:
    """Eight parts of keys of eight heads: the last of their blocks may run it then."""
    text = KEYS.replace("ROWS", str(rows))
    for name, shape in {"!x": (1, rows, 2048), "!w": (8, 2048, 64), "!y": (8, rows, 64)}.items():
        text = text.replace(name, f"tensor<{'x'.join(map(str, shape))}xbf16>")
    text = text.replace("1x1x2048xbf16", f"1x{rows // 8}x2048xbf16")
    module = parse_text(make_context(), text, "f")
    PassPipeline(flat_passes("plan,retile,plan,retile", "h200")).apply(make_context(), module)
    _, parts, sums = (op for op in module.walk() if isinstance(op, CustomizedOp))
    assert (8 * math.prod(sums.grid_dim) == math.prod(parts.grid_dim)) == alike
    assert not alike or sums.block_dim == parts.block_dim


@pytest.mark.parametrize(("rows", "loads"), [(1, "cp_async"), (8, "cp_async"), (16, None)])
def test_parts_of_few_rows_come_by_all_threads_in_half_of_the_memory(
    rows: int, loads: str | None
) -> None:
    """As keys of 4,096, which last blocks add up: blocks with a producer share no launch."""
    written = Plan(grid=(8, 1, 1), forloop=64, block=(256, 1, 1), split_k=8)
    plan = behind_a_norm(rows, (1024,), written)
    assert plan.loads == loads
    assert loads is None or (plan.stages or (0,))[0] >= 6


def test_attention_of_a_step_has_as_many_parts_as_a_cluster_has_blocks() -> None:
    """Eight heads of eight queries: clusters combine them, where 14 parts need a launch."""
    graph = mi.KernelGraph()
    x = graph.new_input((1, 1024), dtype=mi.bfloat16)
    w = graph.new_input((8192, 1024), dtype=mi.bfloat16, constant=True)
    k, v = (graph.new_input((8, 1088, 128), dtype=mi.bfloat16) for _ in range(2))
    q = mi.reshape(x @ mi.transpose(w), (8, 8, 128))
    graph.mark_output(mi.softmax(q @ mi.transpose(k) * 128**-0.5) @ v)
    module = graph.module()
    PassPipeline(before_planning("h200")).apply(make_context(), module)
    *_, kernel = (op for op in module.walk() if isinstance(op, CustomizedOp))
    plan = filled_plan(kernel, Plan(), target_named("h200"))
    assert (plan.grid, plan.split_k) == ((8, 1, 1), 8)
