"""Kernels of one launch: right on the emulator, and refused where one waits for another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later, emulated, graph_of
from xdsl.dialects.func import FuncOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

import mugraph.build as mi
from mugraph.dialects.kn.overlap import CanJoin, launches_of
from mugraph.passes.memory.lifetimes import tensor_lifetimes
from mugraph.passes.program.join_launches import join_launches
from mugraph.passes.schedule.analysis.hazards import find_workspace_hazards
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule


def step(keys: Any, values: Any, old_keys: Any, old_values: Any, at: Any, table: Any) -> Any:
    """Rows into two tables at one place, a row of another, and odd numbers of elements."""
    place = at + at
    return (
        mi.scatter(keys, old_keys, place, dim=1),
        mi.scatter(values, old_values, place, dim=1),
        mi.gather(table, at),
        mi.sqrt(table * table),
    )


def inputs() -> list[Any]:
    """Rows of 64 elements for a table of 4 heads and 24 places; another table of 3 by 5."""
    rng = np.random.default_rng(7)
    rows = [rng.standard_normal((4, 1, 64)).astype(np.float16) for _ in range(2)]
    tables = [rng.standard_normal((4, 24, 64)).astype(np.float16) for _ in range(2)]
    return [*rows, *tables, np.array([2], np.int64), rng.random((3, 5)).astype(np.float32)]


def test_parts_of_a_launch_compute_what_each_does_alone() -> None:
    keys, values, old_keys, old_values, at, table = given = inputs()
    results = emulated(step, *given)
    for new, rows, old in zip(results, (keys, values), (old_keys, old_values), strict=False):
        expected = old.copy()
        expected[:, 2 * at[0]] = rows[:, 0]
        np.testing.assert_array_equal(new, expected)
    np.testing.assert_array_equal(results[2], table[at])
    np.testing.assert_array_equal(results[3], np.sqrt(table * table))


def launches_in(source: str) -> list[str]:
    """The lines of a generated file that launch kernels, but for copies into results."""
    host = source[source.index("static void _execute_mugraph") :]
    lines = [line.strip() for line in host.splitlines()]
    starts = ("kn::", "mugraph::launch(")
    return [line for line in lines if line.startswith(starts) and "kn::Copy<" not in line]


def test_what_is_ready_is_launched_together() -> None:
    """The sum and the product; then both scatters, the rows and the root."""
    text = generate_cuda(graph_of(step, *inputs()).module(), make_context(), "sm_90a").source
    assert [line.count("part") - 1 for line in launches_in(text)] == [3, 3]


PRODUCTS = """
func.func @f(%x: tensor<16x64xf16>, %v: tensor<64x64xf16>, %w: tensor<64x96xf16>)
    -> (tensor<16x64xf16>, tensor<16x96xf16>) {
  %a = kn.customized %x, %v grid [2, 2, 1] block [64, 1, 1] forloop 2 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: tensor<16x64xf16>, %dw: tensor<64x64xf16>):
    %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<8x32xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<64x64xf16> -> !tb.stensor<32x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<8x32xf16>, !tb.stensor<32x32xf16>) -> !tb.stensor<8x32xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<8x32xf16> -> !tb.stensor<8x32xf16>
    tb.output %s omap [1, 0, -1] : !tb.stensor<8x32xf16> -> tensor<16x64xf16>
  } : (tensor<16x64xf16>, tensor<64x64xf16>) -> tensor<16x64xf16>
  %b = kn.customized %x, %w grid [3, 1, 1] block [64, 1, 1] forloop 4 plan <tiles = written, loads = cp_async> {
  ^bb0(%dx: tensor<16x64xf16>, %dw: tensor<64x96xf16>):
    %sx = tb.input %dx imap [-1, -1, -1] fordim 1 : tensor<16x64xf16> -> !tb.stensor<16x16xf16>
    %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<64x96xf16> -> !tb.stensor<16x32xf16>
    %m = tb.matmul %sx, %sw : (!tb.stensor<16x16xf16>, !tb.stensor<16x32xf16>) -> !tb.stensor<16x32xf16>
    %s = tb.forloop_accum none %m : !tb.stensor<16x32xf16> -> !tb.stensor<16x32xf16>
    tb.output %s omap [1, -1, -1] : !tb.stensor<16x32xf16> -> tensor<16x96xf16>
  } : (tensor<16x64xf16>, tensor<64x96xf16>) -> tensor<16x96xf16>
  func.return %a, %b : tensor<16x64xf16>, tensor<16x96xf16>
}
"""  # noqa: E501 the text as it is printed


def test_custom_kernels_of_a_launch_compute_what_each_does_alone() -> None:
    """Seven blocks, four of a grid of two rows, of kernels that differ in threads, loops and
    memory."""
    text = PRODUCTS.replace("block [64, 1, 1] forloop 4", "block [128, 1, 1] forloop 4")
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    (launch,) = launches_in(made.source)
    assert "dim3(7), dim3(128, 1, 1)" in launch
    rng = np.random.default_rng(3)
    x, v, w = (rng.standard_normal((16, 64)), *(rng.standard_normal((64, n)) for n in (64, 96)))
    given = [each.astype(np.float16) for each in (x, v, w)]

    def check(kernels: CudaModule) -> None:
        for result, weight in zip(kernels.run(given), given[1:], strict=True):
            exact = given[0].astype(np.float64) @ weight.astype(np.float64)
            np.testing.assert_allclose(result, exact, rtol=2**-10, atol=1e-2)

    check_emulated_later(made, check)


def test_a_kernel_shares_a_launch_with_itself() -> None:
    """Each of its runs has arguments of its own."""
    start, end = PRODUCTS.index("  %a = kn"), PRODUCTS.index("  %b = kn")
    once = PRODUCTS[start:end]
    again = once.replace("%a =", "%b =").replace("%x, %v", "%x, %w")
    head = "func.func @f(%x: tensor<16x64xf16>, %v: tensor<64x64xf16>, %w: tensor<64x64xf16>)"
    results = "tensor<16x64xf16>, tensor<16x64xf16>"
    text = f"{head} -> ({results}) {{\n{once}{again}  func.return %a, %b : {results}\n}}"
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    (launch,) = launches_in(made.source)
    assert "dim3(8), dim3(64, 1, 1)" in launch and made.source.count("_part(uint3") == 1
    rng = np.random.default_rng(4)
    given = [rng.standard_normal(shape).astype(np.float16) for shape in ((16, 64), *[(64, 64)] * 2)]

    def check(kernels: CudaModule) -> None:
        for result, weight in zip(kernels.run(given), given[1:], strict=True):
            exact = given[0].astype(np.float64) @ weight.astype(np.float64)
            np.testing.assert_allclose(result, exact, rtol=2**-10, atol=1e-2)

    check_emulated_later(made, check)


BY_TMA = "forloop 4 plan <tiles = written, loads = tma>"


@pytest.mark.parametrize(
    ("why", "old", "new"),
    [
        ("a role that loads", "forloop 4 plan <tiles = written, loads = cp_async>", BY_TMA),
        ("what the other computes", "%b = kn.customized %x,", "%b = kn.customized %a,"),
    ],
)  # fmt: skip
def test_custom_kernels_that_differ_are_launched_alone(why: str, old: str, new: str) -> None:
    text = PRODUCTS.replace(old, new)
    assert text != PRODUCTS, why
    made = generate_cuda(parse_text(make_context(), text, "f"), make_context(), "sm_90a")
    assert len(launches_in(made.source)) == 2


CHAIN = """
func.func @f(%x: !m, %y: !m) -> !m {
  %a = kn.exp %x workspace [0] : !m -> !m
  %b = kn.sqrt %a workspace [128] : !m -> !m
  %c = kn.exp %y workspace [0] : !m -> !m
  %d = kn.mul %b, %c workspace [-1] : (!m, !m) -> !m
  func.return %d : !m
}
""".replace("!m", "tensor<8x8xf16, #cute.layout<(8,8):(8,1)>>")


def chain(*joined: str) -> FuncOp:
    """Two kernels in a row and one beside them; those that share the launch before are named."""
    module = Parser(make_context(), CHAIN).parse_module()
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    for op in function.body.block.ops:
        if isinstance(op, CanJoin) and op.results[0].name_hint in joined:
            op.set_joined()
    return function


@pytest.mark.parametrize(("joined", "hazards"), [((), 0), (("c",), 1)])
def test_tensors_of_one_launch_are_needed_at_the_same_time(
    joined: tuple[str, ...], hazards: int
) -> None:
    """Alone, ``%c`` may lie where ``%a`` was; with what reads ``%a`` it must not."""
    function = chain(*joined)
    assert len(list(find_workspace_hazards(function))) == hazards
    a, _, c, *_ = (op.results[0] for op in function.body.block.ops if op.results)
    first, second = tensor_lifetimes(function, [a, c])
    assert first.overlaps(second) == bool(hazards)


def test_a_part_that_waits_for_another_is_refused() -> None:
    with pytest.raises(VerifyException, match="reads %a, which the launch that it is a part of"):
        chain("b").verify()
    with pytest.raises(VerifyException, match="nothing stands there"):
        chain("a").verify()


@pytest.mark.parametrize("count", [2, 64, 65, 130])
def test_a_launch_has_at_most_64_parts(count: int) -> None:
    """All of them depend on nothing, so that as few launches as possible are needed."""

    def program(*tensors: Any) -> Any:
        return [mi.exp(x) for x in tensors]

    module = graph_of(program, *[np.zeros((4, 4), np.float32)] * count).module()
    (function,) = (op for op in module.walk() if isinstance(op, FuncOp))
    join_launches(function, target_named("sm_90a"))
    assert len(launches_of(function.body.block.ops)) - 1 == -(-count // 64)
