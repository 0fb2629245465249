"""Kernels that load a table before they wait for the kernel that writes one row of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

from mugraph.dialects import sched
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule

STEP = """
func.func @f(%new: tensor<1x128xf16>, %table: tensor<ROWSx128xf16>, %at: tensor<1xi64>, %other: tensor<1xi64>, %q: tensor<128x8xf16>) -> (tensor<ROWSx128xf16>, tensor<ROWSx8xf16>) {
  %rows = kn.scatter %new into %table rows %at dim 0 : (tensor<1x128xf16>, tensor<ROWSx128xf16>, tensor<1xi64>) -> tensor<ROWSx128xf16>
  %y = kn.customized %rows, %q grid [3, 1, 1] block [64, 1, 1] forloop 1 plan <tiles = written, loads = cp_async> {
  ^bb0(%dr: tensor<ROWSx128xf16>, %dq: tensor<128x8xf16>):
    %sr = tb.input %dr imap [0, -1, -1] : tensor<ROWSx128xf16> -> !tb.stensor<192x128xf16>
    %sq = tb.input %dq imap [-1, -1, -1] : tensor<128x8xf16> -> !tb.stensor<128x8xf16>
    %m = tb.matmul %sr, %sq : (!tb.stensor<192x128xf16>, !tb.stensor<128x8xf16>) -> !tb.stensor<192x8xf16>
    tb.output %m omap [0, -1, -1] : !tb.stensor<192x8xf16> -> tensor<ROWSx8xf16>
  } : (tensor<ROWSx128xf16>, tensor<128x8xf16>) -> tensor<ROWSx8xf16>
  func.return %rows, %y : tensor<ROWSx128xf16>, tensor<ROWSx8xf16>
}
"""  # noqa: E501 the text as it is printed


def step(rows: int = 576) -> str:
    """A product with a table into which a row is put, in three blocks."""
    return STEP.replace("ROWS", str(rows))


WITHIN_A_CALL = (
    step()
    .replace("-> (tensor<576x128xf16>, ", "-> (")
    .replace("return %rows, %y : tensor<576x128xf16>, ", "return %y : ")
)
"""Only the product is a result."""
TWO_ROWS = step().replace("<1x128xf16", "<2x128xf16").replace("<1xi64", "<2xi64")


def scheduled(text: str, arch: str = "sm_90a") -> ModuleOp:
    """The finished schedule."""
    module = parse_text(make_context(), text, "f")
    PassPipeline(transpile_pipeline(arch)).apply(make_context(), module)
    module.verify()
    return module


def with_a_stale_row(source: str, row: int) -> str:
    """What early copies bring in place of the row is wrong: each thread overwrites its vectors."""
    landed = "tb::wait_group<0>();  // sched.wait\n"
    block, place = divmod(row, 192)
    stale = f"""
  for (int vector = 0; vector < 16; ++vector) {{
    if (blockIdx.x != {block} || ({place} * 16 + vector) % 64 != thread) continue;
    const int at = {place} * 128 + (vector ^ {place % 8}) * 8;
    for (int i = 0; i < 8; ++i) sr[at + i] = half_t(1000.0f);
  }}
"""
    assert source.index("tb::grid_wait()") < source.index(landed) < source.index("tb::CopyRow<")
    return source.replace(landed, landed + stale, 1)


def copies_of(module: ModuleOp) -> list[sched.CopyOp]:
    """The copies of tables, early ones and those of the row that arrives."""
    copies = [op for op in module.walk() if isinstance(op, sched.CopyOp)]
    return [op for op in copies if op.is_early or op.is_arriving]


@pytest.mark.parametrize(("rows", "at"), [(576, 5), (576, 575), (576, -2), (560, 550)])
def test_the_row_comes_behind_the_wait(rows: int, at: int) -> None:
    """Wherever it is, in a tile of which some rows do not exist, too, and whatever was there."""
    made = generate_cuda(parse_text(make_context(), step(rows), "f"), make_context(), "sm_90a")
    made = replace(made, source=with_a_stale_row(made.source, at % rows))
    rng = np.random.default_rng(7)
    shapes = ((1, 128), (rows, 128), (128, 8))
    new, table, q = (rng.standard_normal(shape).astype(np.float16) / 4 for shape in shapes)
    after = table.copy()
    after[at] = new[0]

    def check(kernels: CudaModule) -> None:
        number, other = np.array([at]), np.array([0])
        stored, result = kernels.run([new, table, number, other, q])
        np.testing.assert_array_equal(stored, after)
        expected = after.astype(np.float64) @ q.astype(np.float64)
        np.testing.assert_allclose(result, expected, rtol=2**-9, atol=2**-9)

    check_emulated_later(made, check)


def test_the_call_starts_behind_all_others() -> None:
    """What others wrote to the table, and a copy of it, are complete before a kernel loads it."""
    made = generate_cuda(parse_text(make_context(), step(), "f"), make_context(), "sm_90a")
    host = made.source[made.source.index("_execute_mugraph") :]
    order = ["if (rows != table)", "::run(stream, ", 'mugraph::launch("f_custom0"']
    assert host.count(order[0]) == host.count(order[1]) == 1
    assert [*map(host.index, order)] == sorted(map(host.index, order))


def test_loads_may_come_last() -> None:
    """A kernel without sums in registers has nothing to clear behind them."""
    text = step(5).replace("grid [3,", "grid [1,").replace("%dq imap [-1,", "%dq imap [0,")
    text = text.replace("<1x128xf16", "<1x1x128xf16").replace("<128x8xf16", "<5x128x8xf16")
    for old, new in (("192x", "5x1x"), ("<5x128xf16", "<5x1x128xf16"), ("<5x8xf16", "<5x1x8xf16")):
        text = text.replace(old, new)
    module = scheduled(text)
    (loads,) = (op for op in module.walk() if isinstance(op, sched.PrologueOp))
    *_, last, _ = loads.body.block.ops
    assert isinstance(last, sched.CommitOp)


@pytest.mark.parametrize(
    ("why", "text", "arch"),
    [
        ("no kernel starts early", step(), "sm_80"),
        ("blocks load 32 KB", step().replace("192x", "128x").replace("576x", "384x"), "sm_90a"),
        ("two rows are written", TWO_ROWS, "sm_90a"),
        ("the table is no result", step().replace("return %rows", "return %table"), "sm_90a"),
        ("it lies in the workspace, which others use before", WITHIN_A_CALL, "sm_90a"),
    ],
)  # fmt: skip
def test_others_wait(why: str, text: str, arch: str) -> None:
    """Where more than one row may be written, or nothing is gained."""
    assert not copies_of(scheduled(text, arch)), why


def test_the_row_is_that_of_the_scatter() -> None:
    """A launch that gives another number is refused."""
    module = scheduled(step())
    (launch,) = (op for op in module.walk() if isinstance(op, sched.LaunchOp))
    (number,) = (each.number for each in launch.resolve().arriving_rows.values())
    function = launch.parent_op()
    assert function is not None
    launch.operands[number] = function.regions[0].block.args[3]
    with pytest.raises(VerifyException, match="the row that is written has the number"):
        module.verify()


@pytest.mark.parametrize(
    ("kept", "missing"), [(0, "an 'arriving' copy of it behind"), (1, "early")]
)
def test_both_copies_of_a_tile_are_there(kept: int, missing: str) -> None:
    """One of them brings only a part of it."""
    module = scheduled(step())
    copies = copies_of(module)
    copies.pop(1 - kept).detach()
    with pytest.raises(VerifyException, match=missing):
        copies[0].verify()


def test_copies_of_other_tensors_are_not_early() -> None:
    """Only a table whose row the kernel knows is loaded twice."""
    module = scheduled(step())
    early, arriving = copies_of(module)
    assert early.is_early and arriving.is_arriving
    kernel = sched.enclosing_kernel(early)
    kernel.arriving = None
    with pytest.raises(VerifyException, match="its kernel must name that row of the table"):
        module.verify()
    early.early = arriving.arriving = None
    other = next(op for op in kernel.walk() if isinstance(op, sched.CopyOp) and not op.is_async)
    other.early = UnitAttr()
    with pytest.raises(VerifyException, match="it must be asynchronous"):
        module.verify()
