"""Partitions that do not divide, nested axes, outputs of each iteration: every level computes them.

What a tile has no elements for must never show: inputs that are not finite would carry it into
results, and memory between and behind the tensors is NaN at the level of addresses.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

from mugraph.build import new_kernel_graph, new_threadblock_graph
from mugraph.codegen.cuda import print_module
from mugraph.dialects import sched, tb
from mugraph.dialects.elementwise import (
    SCHEDULED_BINARY_FUNCTIONS,
    SCHEDULED_UNARY_FUNCTIONS,
    UNARY_FUNCTIONS,
    ZERO_AT_ZERO,
    ScalarFunction,
)
from mugraph.dialects.maps import Bound, Split
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.memory.memory_access import memory_access_costs
from mugraph.passes.mugraph.decompose_threadblock import DecomposeThreadblockPass
from mugraph.passes.schedule.analysis.hazards import find_hazards
from mugraph.passes.sequence import verifying
from mugraph.reading import make_context, parse_text
from mugraph.runtime.equivalence import Answer, Checker
from mugraph.runtime.equivalence.subject import Subject
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.functions import SCALAR_FUNCTIONS, apply_function

Array = npt.NDArray[Any]


def parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return module


def transpiled(text: str) -> ModuleOp:
    module = parse(text)
    verifying(passes_as_written("sm_90a")).apply(make_context(), module)
    module.verify()
    return module


def results_everywhere(text: str, inputs: list[Array]) -> list[list[Array]]:
    """The results in float64 and at every level, in two orders of warps at that of addresses."""
    module = parse(text)
    scheduled = transpiled(text)
    assert print_module(scheduled)
    results = [
        run_function(module, None, inputs, "float64"),
        run_function(module, None, inputs),
        run_function(scheduled, None, inputs),
    ]
    for order in ("forward", 3):
        results.append(run_function(scheduled, None, inputs, level="address", order=order))
    return results


def require_equal(found: list[list[Array]], expected: list[Array], tolerance: float = 4e-3) -> None:
    for results in found:
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(
                result.astype(np.float64), wanted, rtol=tolerance, atol=tolerance
            )


def random(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float16)


# Splits and bounds.


@st.composite
def splits(draw: st.DrawFn) -> Split:
    blocks = tuple(draw(st.lists(st.integers(1, 4), min_size=3, max_size=3)))
    return Split(draw(st.integers(1, 60)), blocks, draw(st.integers(1, 5)))


def blocks_of(split: Split) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(count) for count in split.blocks)))


@given(splits())
def test_tiles_hold_every_element_once_and_nothing_else(split: Split) -> None:
    bound = split.bound()
    visits = np.zeros(split.extent, int)
    for block in blocks_of(split):
        start = sum(f * index for f, index in zip(split.factors(), block, strict=True))
        for iteration in range(split.iterations):
            first = start + iteration * split.tile
            count = split.tile if bound is None else bound.existing(block, iteration)
            assert 0 <= count <= split.tile
            assert not count or first + count <= split.extent
            visits[first : first + count] += 1
    assert (visits == 1).all()


@given(splits())
def test_blocks_between_two_cuts_have_equally_many_elements(split: Split) -> None:
    for bound in (split.bound(), (split.bound() or Bound(1, (1, 1, 1), 1, 1, False))):
        if bound is None:
            continue
        cuts = bound.cuts()
        found: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
        for block in blocks_of(split):
            pairs = zip(cuts, block, strict=True)
            box = tuple(sum(cut <= index for cut in of_axis) for of_axis, index in pairs)
            counts = tuple(bound.existing(block, it) for it in range(split.iterations))
            found.setdefault(box, set()).add(counts)
        assert all(len(counts) == 1 for counts in found.values())


@given(splits())
def test_a_sum_over_iterations_has_what_the_first_one_has(split: Split) -> None:
    bound = split.bound()
    if bound is None:
        return
    total = bound.of_first_iteration()
    for block in blocks_of(split):
        count = split.tile if total is None else total.existing(block, 3)
        assert count == bound.existing(block, 0)


def test_functions_listed_as_zero_at_zero_are() -> None:
    zero = np.zeros(1)
    for name in ZERO_AT_ZERO:
        constants = (2.0,) * len(UNARY_FUNCTIONS[name].constants) if name in UNARY_FUNCTIONS else ()
        function = ScalarFunction(name, constants)
        assert apply_function(function, *[zero] * function.arity) == 0, name
    for name in set(SCALAR_FUNCTIONS) - ZERO_AT_ZERO - {"clamp", "add_scalar", "fill"}:
        described = {
            **UNARY_FUNCTIONS,
            **SCHEDULED_UNARY_FUNCTIONS,
            **SCHEDULED_BINARY_FUNCTIONS,
        }.get(name)
        constants = (2.0,) * len(described.constants) if described else ()
        function = ScalarFunction(name, constants)
        with np.errstate(all="ignore"):
            value = apply_function(function, *[zero] * function.arity)
        assert value != 0 and function.at([0.0] * function.arity) is None, name
    for at_zero in (ScalarFunction("clamp", (0.5, 1.0)), ScalarFunction("fill", (0.5,))):
        assert apply_function(at_zero, zero) == at_zero.at([0.0]) == 0.5


# What graphs compute.


MATMUL = """
func.func @f(%x: tensor<37x50xf16>, %w: tensor<50x29xf16>) -> tensor<37x29xf16> {
  %o = kn.customized %x, %w grid [3, 2, 1] block [BLOCK] forloop 3 {
  ^bb0(%dx: tensor<37x50xf16>, %dw: tensor<50x29xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<37x50xf16> -> !tb.stensor<13x17xf16>
    %sw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<50x29xf16> -> !tb.stensor<17x15xf16>
    %ex = tb.exp %sx : !tb.stensor<13x17xf16> -> !tb.stensor<13x17xf16>
    %m = tb.matmul %ex, %sw : (!tb.stensor<13x17xf16>, !tb.stensor<17x15xf16>) -> !tb.stensor<13x15xf16>
    %am = tb.forloop_accum none %m : !tb.stensor<13x15xf16> -> !tb.stensor<13x15xf32>
    %ar = tb.forloop_accum rms %sx : !tb.stensor<13x17xf16> -> !tb.stensor<13x1xf16>
    %d = tb.div %am, %ar : (!tb.stensor<13x15xf32>, !tb.stensor<13x1xf16>) -> !tb.stensor<13x15xf16>
    tb.output %d omap [0, 1, -1] : !tb.stensor<13x15xf16> -> tensor<37x29xf16>
  } : (tensor<37x50xf16>, tensor<50x29xf16>) -> tensor<37x29xf16>
  func.return %o : tensor<37x29xf16>
}
"""  # noqa: E501


@pytest.mark.parametrize("block", ["128, 1, 1", "16, 4, 1", "33, 1, 1"])
def test_a_norm_and_a_product(block: str) -> None:
    x, w = random(37, 50), random(50, 29)
    exact, other = x.astype(np.float64), w.astype(np.float64)
    expected = np.exp(exact) @ other / np.sqrt(np.square(exact).mean(1, keepdims=True))
    require_equal(
        results_everywhere(MATMUL.replace("BLOCK", block), [x, w]), [expected], tolerance=2e-2
    )


def test_rows_that_are_not_finite_stay_where_they_are() -> None:
    """Infinities and NaN of one row reach that row of the result and no other."""
    x, w = random(37, 50), random(50, 29)
    x[36, 3], x[12, 49], x[5, 5] = np.inf, np.nan, -np.inf
    expected = results_everywhere(MATMUL.replace("BLOCK", "64, 1, 1"), [x, w])
    for results in expected[1:]:
        finite = np.isfinite(results[0]).all(axis=1)
        assert set(np.flatnonzero(~finite)) <= {5, 12, 36}
        assert finite.sum() >= 34


NESTED = """
func.func @f(%x: tensor<47x20xf16>) -> (tensor<47x20xf16>, tensor<47x1xf16>) {
  %o, %r = kn.customized %x grid [2, 3, 2] block [32, 1, 1] forloop 3 {
  ^bb0(%d: tensor<47x20xf16>):
    %s = tb.input %d imap [0, 0, 0] fordim 1 : tensor<47x20xf16> -> !tb.stensor<4x7xf16>
    %e = tb.exp %s : !tb.stensor<4x7xf16> -> !tb.stensor<4x7xf16>
    tb.output %e omap [0, 0, 0] fordim 1 : !tb.stensor<4x7xf16> -> tensor<47x20xf16>
    %a = tb.forloop_accum sum %e : !tb.stensor<4x7xf16> -> !tb.stensor<4x1xf16>
    tb.output %a omap [0, 0, 0] : !tb.stensor<4x1xf16> -> tensor<47x1xf16>
  } : (tensor<47x20xf16>) -> (tensor<47x20xf16>, tensor<47x1xf16>)
  func.return %o, %r : tensor<47x20xf16>, tensor<47x1xf16>
}
"""


def test_three_axes_of_one_dimension_and_an_output_of_each_iteration() -> None:
    x = random(47, 20)
    expected = np.exp(x.astype(np.float64))
    require_equal(
        results_everywhere(NESTED, [x]), [expected, expected.sum(1, keepdims=True)], tolerance=1e-2
    )


NESTED_WITH_GAP = """
func.func @f(%x: tensor<10x4xf32>) -> tensor<10x4xf32> {
  %o = kn.customized %x grid [2, 2, 3] block [32, 1, 1] forloop 1 {
  ^bb0(%d: tensor<10x4xf32>):
    %s = tb.input %d imap [0, 1, 0] fordim 0 : tensor<10x4xf32> -> !tb.stensor<2x2xf32>
    tb.output %s omap [0, 1, 0] fordim 0 : !tb.stensor<2x2xf32> -> tensor<10x4xf32>
  } : (tensor<10x4xf32>) -> tensor<10x4xf32>
  func.return %o : tensor<10x4xf32>
}
"""


def test_a_block_without_elements_does_nothing() -> None:
    """Six slices of two rows hold ten rows, the sixth is empty; a loop of one iteration."""
    x = random(10, 4).astype(np.float32)
    require_equal(results_everywhere(NESTED_WITH_GAP, [x]), [x], tolerance=0)


MANY_OUTPUTS = """
func.func @f(%x: tensor<9x24xf16>, %w: tensor<9x1xf16>) -> (tensor<9x24xf16>, tensor<27x8xf16>, tensor<9x1xf16>, tensor<9x1xf16>, tensor<27x1xf16>) {
  %o:5 = kn.customized %x, %w grid [1, 1, 1] block [64, 1, 1] forloop 3 {
  ^bb0(%d: tensor<9x24xf16>, %dw: tensor<9x1xf16>):
    %s = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<9x24xf16> -> !tb.stensor<9x8xf16>
    %only = tb.input %d imap [-1, -1, -1] fordim 1 : tensor<9x24xf16> -> !tb.stensor<9x8xf16>
    %late = tb.input %dw imap [-1, -1, -1] : tensor<9x1xf16> -> !tb.stensor<9x1xf16>
    %same = tb.input %dw imap [-1, -1, -1] : tensor<9x1xf16> -> !tb.stensor<9x1xf16>
    %q = tb.square %s : !tb.stensor<9x8xf16> -> !tb.stensor<9x8xf16>
    tb.output %q omap [-1, -1, -1] fordim 1 : !tb.stensor<9x8xf16> -> tensor<9x24xf16>
    %a = tb.forloop_accum sum %q : !tb.stensor<9x8xf16> -> !tb.stensor<9x1xf16>
    %b = tb.mul %a, %late : (!tb.stensor<9x1xf16>, !tb.stensor<9x1xf16>) -> !tb.stensor<9x1xf16>
    tb.output %only omap [-1, -1, -1] fordim 0 : !tb.stensor<9x8xf16> -> tensor<27x8xf16>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<9x1xf16> -> tensor<9x1xf16>
    tb.output %b omap [-1, -1, -1] : !tb.stensor<9x1xf16> -> tensor<9x1xf16>
    tb.output %same omap [-1, -1, -1] fordim 0 : !tb.stensor<9x1xf16> -> tensor<27x1xf16>
  } : (tensor<9x24xf16>, tensor<9x1xf16>) -> (tensor<9x24xf16>, tensor<27x8xf16>, tensor<9x1xf16>, tensor<9x1xf16>, tensor<27x1xf16>)
  func.return %o#0, %o#1, %o#2, %o#3, %o#4 : tensor<9x24xf16>, tensor<27x8xf16>, tensor<9x1xf16>, tensor<9x1xf16>, tensor<27x1xf16>
}
"""  # noqa: E501


def test_outputs_of_inputs_of_both_phases_and_one_tile_stored_twice() -> None:
    x, w = random(9, 24), random(9, 1)
    exact = x.astype(np.float64)
    sums = np.square(exact).sum(1, keepdims=True) * w
    expected = [
        np.square(exact),
        np.concatenate(np.split(exact, 3, axis=1)),
        sums,
        sums,
        np.concatenate([w.astype(np.float64)] * 3),
    ]
    require_equal(results_everywhere(MANY_OUTPUTS, [x, w]), expected, tolerance=1e-2)


PADDED = """
#padded = #cute.layout<(21,45):(48,1)>
func.func @f(%x: tensor<21x45xf16, #padded>) -> tensor<21x45xf16, #padded> {
  %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 3
      plan <loads = cp_async> {
  ^bb0(%d: tensor<21x45xf16, #padded>):
    %s = tb.input %d imap [0, -1, -1] fordim 1 : tensor<21x45xf16, #padded> -> !tb.stensor<11x15xf16>
    tb.output %s omap [0, -1, -1] fordim 1 : !tb.stensor<11x15xf16> -> tensor<21x45xf16, #padded>
  } : (tensor<21x45xf16, #padded>) -> tensor<21x45xf16, #padded>
  func.return %o : tensor<21x45xf16, #padded>
}
"""  # noqa: E501

WIDE = (
    PADDED.replace("21x45", "21x61")
    .replace("(21,45):(48,1)", "(21,61):(64,1)")
    .replace("11x15", "11x16")
    .replace("forloop 3", "forloop 4")
)


def test_the_last_vector_of_a_ragged_row_is_split() -> None:
    """Rows of 61 in tiles of 16: 16-byte copies all the same, the last of 5 of 8 elements."""
    x = random(21, 61)
    scheduled = transpiled(WIDE)
    text = str(scheduled)
    assert "sched.copy async" in text and "vector 8" in text and "within [0, 1]" in text
    require_equal(results_everywhere(WIDE, [x]), [x.astype(np.float64)], tolerance=0)
    require_equal(results_everywhere(PADDED, [random(21, 45)]), [random(21, 45)], tolerance=0)


def kernel_of(module: ModuleOp) -> sched.KernelOp:
    return next(op for op in module.walk() if isinstance(op, sched.KernelOp))


def test_a_copy_that_leaves_the_tensor_is_found() -> None:
    kernel = kernel_of(transpiled(WIDE))
    assert find_hazards(kernel) == []
    copies = [op for op in kernel.walk() if isinstance(op, sched.CopyOp)]
    for copy in copies:
        kept = copy.properties.pop("within")
        with pytest.raises(VerifyException, match="ragged along dimension 0"):
            copy.verify_()
        assert any("of which some do not exist" in str(found) for found in find_hazards(kernel))
        copy.properties["within"] = kept


def test_sectors_count_what_exists() -> None:
    """61 of 64 elements of 21 rows; the 5 of a row's last vector are moved one by one."""
    kernel = kernel_of(transpiled(WIDE))
    costs = [cost for cost in memory_access_costs(kernel) if cost.access.in_device_memory]
    loads = sum(cost.per_launch for cost in costs if cost.access.kind.value == "read")
    # Of each row, a sector for the whole vectors of each of four tiles, and one an element.
    assert loads == 21 * (4 + 5)
    assert sum(cost.per_launch for cost in costs) == 2 * loads


def test_each_block_divides_by_its_number_of_elements() -> None:
    text = """
    func.func @f(%x: tensor<4x9xf16>) -> tensor<4x2xf16> {
      %o = kn.customized %x grid [2, 1, 1] block [32, 1, 1] forloop 1 {
      ^bb0(%d: tensor<4x9xf16>):
        %s = tb.input %d imap [1, -1, -1] : tensor<4x9xf16> -> !tb.stensor<4x5xf16>
        %r = tb.forloop_accum rms %s : !tb.stensor<4x5xf16> -> !tb.stensor<4x1xf16>
        tb.output %r omap [1, -1, -1] : !tb.stensor<4x1xf16> -> tensor<4x2xf16>
      } : (tensor<4x9xf16>) -> tensor<4x2xf16>
      func.return %o : tensor<4x2xf16>
    }
    """
    x = random(4, 9)
    halves = (x[:, :5].astype(np.float64), x[:, 5:].astype(np.float64))
    expected = np.stack([np.sqrt(np.square(half).mean(1)) for half in halves], axis=1)
    require_equal([run_function(parse(text), None, [x])], [expected])
    x[0, 0], x[1, 5] = np.inf, np.nan
    expected[0, 0], expected[1, 1] = np.inf, np.nan
    for level in ("logical", "address"):
        require_equal([run_function(transpiled(text), None, [x], level=level)], [expected])


def mean_of_rows(
    kind: str, shape: tuple[int, int], grid: tuple[int, int], fordim: int, loop: int
) -> ModuleOp:
    """Means of tiles that a grid cuts along rows and columns, and the loop along ``fordim``."""
    graph = new_kernel_graph("f")
    block = new_threadblock_graph((*grid, 1), (32, 1, 1), loop)
    x = graph.new_input(shape)
    mean = block.forloop_accum(block.new_input(x, (0, 1, -1), fordim), kind)
    rows = Split(shape[0], (grid[0], 1, 1)).block_extent
    height = -(-rows // loop) * grid[0] if fordim == 0 and loop > 1 else shape[0]
    block.new_output(mean, (0, 1, -1), dims=(height, grid[1]))
    (result,) = graph.customized([x], block)
    graph.mark_output(result)
    return graph.module()


def expected_means(
    kind: str, x: Array, grid: tuple[int, int], fordim: int, loop: int
) -> npt.NDArray[np.float64]:
    """Each row of each block: its sum divided by the number of its elements, element by element."""
    splits = [
        Split(extent, (count, 1, 1), loop if dim == fordim else 1)
        for dim, (extent, count) in enumerate(zip(x.shape, grid, strict=True))
    ]
    height = splits[0].tile
    totals, counts = np.zeros((2, grid[0] * height, grid[1]))
    for (row, column), value in np.ndenumerate(x.astype(np.float64)):
        block_row, within = divmod(row, splits[0].block_extent)
        place = block_row * height + within % height, column // splits[1].block_extent
        totals[place] += value**2 if kind == "rms" else value
        counts[place] += 1
    with np.errstate(invalid="ignore"):
        means = (totals / counts)[: x.shape[0]]
    return np.sqrt(means) if kind == "rms" else means


@pytest.mark.one_in(5)
@pytest.mark.parametrize("kind", ["mean", "rms"])
@pytest.mark.parametrize(
    ("shape", "grid", "fordim", "loop"),
    [
        # The loop cuts rows, of which the last iteration has fewer, or none.
        ((5, 8), (1, 1), 0, 2),
        ((5, 7), (1, 1), 0, 4),
        ((3, 7), (1, 1), 0, 5),
        # So it does while blocks have unequally many columns, the last perhaps none.
        ((5, 7), (1, 2), 0, 2),
        ((6, 10), (1, 4), 0, 4),
        ((7, 9), (1, 4), 0, 3),
        ((8, 6), (1, 2), 0, 3),
        # The loop cuts columns, and blocks unequal rows.
        ((5, 11), (2, 2), 1, 4),
        ((8, 10), (1, 3), 1, 3),
    ],
)
def test_means_are_divided_by_the_elements_that_exist(
    kind: str, shape: tuple[int, int], grid: tuple[int, int], fordim: int, loop: int
) -> None:
    x = np.random.default_rng(sum(shape)).uniform(0.25, 2, shape).astype(np.float16)
    text = str(mean_of_rows(kind, shape, grid, fordim, loop))
    require_equal(results_everywhere(text, [x]), [expected_means(kind, x, grid, fordim, loop)])


@pytest.mark.parametrize("kind", ["mean", "rms"])
def test_decomposed_means_are_equal_in_every_arithmetic_of_the_checker(kind: str) -> None:
    module = mean_of_rows(kind, (7, 9), (1, 2), 0, 3)
    decomposed = module.clone()
    DecomposeThreadblockPass().apply(make_context(), decomposed)
    checker = Checker(Subject.of(decomposed), thorough=True)
    assert checker.check(Subject.of(module)).answer is Answer.PROVED


EXP = """
func.func @f(%x: tensor<8x12xf16>) -> tensor<8x12xf16> {
  %o = kn.customized %x grid [2, 2, 1] block [32, 1, 1] forloop 3 {
  ^bb0(%d: tensor<8x12xf16>):
    %s = tb.input %d imap [0, 0, -1] fordim 1 : tensor<8x12xf16> -> !tb.stensor<2x4xf16>
    %e = tb.exp %s : !tb.stensor<2x4xf16> -> !tb.stensor<2x4xf16>
    tb.output %e omap [0, 0, -1] fordim 1 : !tb.stensor<2x4xf16> -> tensor<8x12xf16>
  } : (tensor<8x12xf16>) -> tensor<8x12xf16>
  func.return %o : tensor<8x12xf16>
}
"""

WHOLE_EXP = """
func.func @f(%x: tensor<8x12xf16>) -> tensor<8x12xf16> {
  %o = kn.exp %x : tensor<8x12xf16> -> tensor<8x12xf16>
  func.return %o : tensor<8x12xf16>
}
"""


def answer(one: str, other: str) -> Answer:
    """Whether two functions are the same; what is proved is tested as well."""
    subjects = [Subject.of(parse(text)) for text in (one, other)]
    return Checker(subjects[1], thorough=True).check(subjects[0]).answer


def test_outputs_of_each_iteration_and_of_ragged_tiles_are_proved() -> None:
    assert answer(EXP, WHOLE_EXP) is Answer.PROVED
    assert answer(EXP.replace("tb.exp", "tb.silu"), WHOLE_EXP) is Answer.DIFFERENT
    ragged, whole = (text.replace("8x12", "7x11") for text in (EXP, WHOLE_EXP))
    assert answer(ragged, whole) is Answer.PROVED
    assert answer(ragged.replace("tb.exp", "tb.silu"), whole) is Answer.DIFFERENT


RAGGED_PRODUCT = """
func.func @f(%x: tensor<7x11xf16>, %w: tensor<11x5xf16>) -> tensor<7x5xf16> {
  %o = kn.customized %x, %w grid [2, 3, 1] block [32, 1, 1] forloop 3 {
  ^bb0(%dx: tensor<7x11xf16>, %dw: tensor<11x5xf16>):
    %sx = tb.input %dx imap [0, -1, -1] fordim 1 : tensor<7x11xf16> -> !tb.stensor<4x4xf16>
    %sw = tb.input %dw imap [-1, 1, -1] fordim 0 : tensor<11x5xf16> -> !tb.stensor<4x2xf16>
    %e = tb.exp %sx : !tb.stensor<4x4xf16> -> !tb.stensor<4x4xf16>
    %m = tb.matmul %e, %sw : (!tb.stensor<4x4xf16>, !tb.stensor<4x2xf16>) -> !tb.stensor<4x2xf16>
    %a = tb.forloop_accum none %m : !tb.stensor<4x2xf16> -> !tb.stensor<4x2xf16>
    %h, %fall = tb.reduction_max %sx dim 1 : !tb.stensor<4x4xf16> -> (!tb.stensor<4x1xf16>, !tb.stensor<4x1xf16>)
    %l = tb.forloop_accum max %h : !tb.stensor<4x1xf16> -> !tb.stensor<4x1xf16>
    %s = tb.forloop_accum sum %e : !tb.stensor<4x4xf16> -> !tb.stensor<4x1xf16>
    %d = tb.div %a, %s : (!tb.stensor<4x2xf16>, !tb.stensor<4x1xf16>) -> !tb.stensor<4x2xf16>
    %t = tb.add %d, %l : (!tb.stensor<4x2xf16>, !tb.stensor<4x1xf16>) -> !tb.stensor<4x2xf16>
    tb.output %t omap [0, 1, -1] : !tb.stensor<4x2xf16> -> tensor<7x5xf16>
  } : (tensor<7x11xf16>, tensor<11x5xf16>) -> tensor<7x5xf16>
  func.return %o : tensor<7x5xf16>
}
"""  # noqa: E501

WHOLE_PRODUCT = """
func.func @f(%x: tensor<7x11xf16>, %w: tensor<11x5xf16>) -> tensor<7x5xf16> {
  %e = kn.exp %x : tensor<7x11xf16> -> tensor<7x11xf16>
  %m = kn.matmul %e, %w : (tensor<7x11xf16>, tensor<11x5xf16>) -> tensor<7x5xf16>
  %l = kn.reduction %x combine max dim 1 : tensor<7x11xf16> -> tensor<7x1xf16>
  %s = kn.reduction %e dim 1 : tensor<7x11xf16> -> tensor<7x1xf16>
  %d = kn.div %m, %s : (tensor<7x5xf16>, tensor<7x1xf16>) -> tensor<7x5xf16>
  %t = kn.add %d, %l : (tensor<7x5xf16>, tensor<7x1xf16>) -> tensor<7x5xf16>
  func.return %t : tensor<7x5xf16>
}
"""


def test_products_sums_and_maxima_of_what_exists_are_proved() -> None:
    assert answer(RAGGED_PRODUCT, WHOLE_PRODUCT) is Answer.PROVED
    # Ten of the eleven columns in the sum, as if the last did not exist.
    shorter = WHOLE_PRODUCT.replace(
        "%s = kn.reduction %e dim 1 : tensor<7x11xf16> -> tensor<7x1xf16>",
        "%part = kn.slice %e from [0, 0] : tensor<7x11xf16> -> tensor<7x10xf16>\n"
        "  %s = kn.reduction %part dim 1 : tensor<7x10xf16> -> tensor<7x1xf16>",
    )
    assert answer(RAGGED_PRODUCT, shorter) is Answer.DIFFERENT


@pytest.mark.one_in(5)
@pytest.mark.parametrize("shape", [(7, 11), (8, 9), (5, 13), (3, 7)])
@pytest.mark.parametrize(("blocks", "loop"), [(2, 3), (1, 2), (3, 4)])
def test_other_cuts_of_a_ragged_norm_are_the_same(
    shape: tuple[int, int], blocks: int, loop: int
) -> None:
    cut = str(mean_of_rows("rms", shape, (blocks, 1), 1, loop))
    whole = str(mean_of_rows("rms", shape, (1, 1), 1, 1))
    assert answer(cut, whole) is Answer.PROVED


def test_a_graph_that_divides_has_no_trace_of_all_this() -> None:
    text = WIDE.replace("21x61", "22x64").replace("(21,61)", "(22,64)")
    module = transpiled(text)
    assert "within" not in str(module) and "Within" not in print_module(module)
    assert not any(isinstance(op, sched.MaskOp | tb.MaskOp) for op in module.walk())


def test_bulk_copies_bring_tiles_that_end_with_their_tensor() -> None:
    """Tiles of 128 x 64 of 300 x 1008 elements: what lies past the end is zero, or not stored."""
    text = """
    func.func @f(%x: tensor<300x1008xf16>, %w: tensor<1008x136xf16>) -> tensor<300x136xf16> {
      %o = kn.customized %x, %w grid [2, 3, 1] block [128, 1, 1] forloop 16
          plan <tiles = written> {
      ^bb0(%dx: tensor<300x1008xf16>, %dw: tensor<1008x136xf16>):
        %sx = tb.input %dx imap [-1, 0, -1] fordim 1 : tensor<300x1008xf16> -> !tb.stensor<128x64xf16>
        %sw = tb.input %dw imap [1, -1, -1] fordim 0 : tensor<1008x136xf16> -> !tb.stensor<64x128xf16>
        %m = tb.matmul %sx, %sw : (!tb.stensor<128x64xf16>, !tb.stensor<64x128xf16>) -> !tb.stensor<128x128xf16>
        %a = tb.forloop_accum none %m : !tb.stensor<128x128xf16> -> !tb.stensor<128x128xf16>
        tb.output %a omap [1, 0, -1] : !tb.stensor<128x128xf16> -> tensor<300x136xf16>
      } : (tensor<300x1008xf16>, tensor<1008x136xf16>) -> tensor<300x136xf16>
      func.return %o : tensor<300x136xf16>
    }
    """  # noqa: E501
    x, w = random(300, 1008), random(1008, 136)
    kernel = kernel_of(transpiled(text))
    assert any(isinstance(op, sched.WarpgroupMmaOp) for op in kernel.walk())
    copies = [op for op in kernel.walk() if isinstance(op, sched.BulkCopyOp)]
    assert {copy.is_load for copy in copies} == {True, False}
    assert not any(isinstance(op, sched.CopyOp) for op in kernel.walk())
    assert find_hazards(kernel) == []
    costs = [cost for cost in memory_access_costs(kernel) if cost.access.in_device_memory]
    stored = sum(cost.per_launch for cost in costs if cost.access.kind.value == "write")
    # Of the 8.5 sectors of a row one begins, ends, or is divided between blocks.
    assert stored == 300 * (8.5 + 1)
    product = x.astype(np.float64) @ w.astype(np.float64)
    require_equal(results_everywhere(text, [x, w]), [product], tolerance=1e-2)


DECODE = """
func.func @decode(%q: tensor<Hx7x64xf16>, %k: tensor<HxKEYSx64xf16>, %v: tensor<HxKEYSx64xf16>)
    -> tensor<Hx7x64xf16> {
  %kt = kn.transpose %k dims [0, 2, 1] : tensor<HxKEYSx64xf16> -> tensor<Hx64xKEYSxf16>
  %s = kn.matmul %q, %kt : (tensor<Hx7x64xf16>, tensor<Hx64xKEYSxf16>) -> tensor<Hx7xKEYSxf16>
  %t = kn.mul_scalar %s by 1.250000e-01 : tensor<Hx7xKEYSxf16> -> tensor<Hx7xKEYSxf16>
  %p = kn.softmax %t dim 2 : tensor<Hx7xKEYSxf16> -> tensor<Hx7xKEYSxf16>
  %o = kn.matmul %p, %v : (tensor<Hx7xKEYSxf16>, tensor<HxKEYSx64xf16>) -> tensor<Hx7x64xf16>
  func.return %o : tensor<Hx7x64xf16>
}
"""


def decode(keys: int, plan: Plan | None = None, heads: int = 2) -> ModuleOp:
    """Attention of seven queries to so many keys, up to a schedule."""
    context = make_context()
    module = parse_text(
        context, DECODE.replace("KEYS", str(keys)).replace("<H", f"<{heads}"), "decode"
    )
    for step in compile_pipeline("sm_90a", plan):
        PassPipeline((step,)).apply(context, module)
    return module


@pytest.mark.parametrize(("tile", "iterations", "blocks"), [(32, 33, 11), (64, 17, 17)])
def test_blocks_that_share_a_ragged_loop_end_in_ragged_tiles(
    tile: int, iterations: int, blocks: int
) -> None:
    """33 tiles of 32 have 29 more places than there are keys, 17 of 64 have 61 more."""
    plan = Plan(forloop=iterations, loop_tile=tile, split_k=blocks)
    random = np.random.default_rng(0)
    shapes = ((2, 7, 64), (2, 1027, 64), (2, 1027, 64))
    q, k, v = (random.standard_normal(shape).astype(np.float16) for shape in shapes)
    scores = 0.125 * q.astype(np.float64) @ k.transpose(0, 2, 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    (result,) = run_function(decode(1027, plan), None, [q, k, v])
    np.testing.assert_allclose(result.astype(np.float64), expected, atol=1e-3)


@pytest.mark.parametrize("keys", [51325, 128 * 401])
def test_few_rows_of_scores_over_any_number_of_keys_are_one_kernel_of_many_blocks(
    keys: int,
) -> None:
    """A loop that no power of two divides is divided in ragged tiles; six kernels took nine times
    as long on an H200."""
    kernels = [op for op in decode(keys, heads=16).walk() if isinstance(op, sched.KernelOp)]
    assert len(kernels) == 2
    assert math.prod(kernels[0].grid_dim) >= 100
