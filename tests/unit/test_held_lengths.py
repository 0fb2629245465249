"""Extents and conditions whose values device memory holds: at every size from 0 to the largest.

What lies behind a length is NaN in the operands, and must stay as it was in the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import PassFailedException

import mugraph.build as mi
from mugraph.build.errors import BuildError
from mugraph.dialects import sched
from mugraph.dialects.linear_forms import LinearForm
from mugraph.dialects.plan import Plan
from mugraph.dialects.sched.domain import spans_of, with_lengths
from mugraph.dialects.spans import span_of
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.schedule.analysis.hazards import counts_of
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.errors import ExecutionError

Array = Any
RANDOM = np.random.default_rng(20)
LARGEST, LONG = 150, 520
SIZES = (0, 1, 61, 150)


def held(graph: mi.KernelGraph, largest: int = LARGEST) -> mi.Extent:
    """An extent in the first input."""
    return mi.Extent(
        "n", largest=largest, held=graph.new_input((1,), dtype=mi.int32, name="length")
    )


def attention(largest: int = LARGEST) -> mi.KernelGraph:
    graph = mi.new_kernel_graph("attention")
    n = held(graph, largest)
    q = graph.new_input((2, 16, 32), name="q")
    k, v = (graph.new_input((2, n, 32), name=name) for name in "kv")
    graph.mark_output(graph.softmax(q @ graph.transpose(k, [0, 2, 1]), 2) @ v)
    return graph


def mlp() -> mi.KernelGraph:
    """Rows that the length counts, in several kernels."""
    graph = mi.new_kernel_graph("mlp")
    x = graph.new_input((held(graph), 64), name="x")
    up, down = graph.new_input((64, 128), name="up"), graph.new_input((128, 64), name="down")
    graph.mark_output(mi.silu(x @ up) @ down)
    return graph


def sums() -> mi.KernelGraph:
    """Sums over what the length counts, and a result of as many rows."""
    graph = mi.new_kernel_graph("sums")
    x = graph.new_input((4, held(graph), 40), name="x")
    graph.mark_output(graph.reduction(mi.exp(x), 1))
    graph.mark_output(x * x)
    return graph


def products() -> mi.KernelGraph:
    """A product over what the length counts, whose loop ends there."""
    graph = mi.new_kernel_graph("products")
    n = held(graph)
    x, y = graph.new_input((n, 64), name="x"), graph.new_input((n, 32), name="y")
    graph.mark_output(graph.transpose(x, [1, 0]) @ y)
    return graph


def stored() -> mi.KernelGraph:
    """What one kernel masks, another one sums over."""
    graph = mi.new_kernel_graph("stored")
    n = held(graph)
    x, w = graph.new_input((33, n), name="x"), graph.new_input((n, 1), name="w")
    graph.mark_output(graph.softmax(x, 0) @ w)
    return graph


def returned() -> mi.KernelGraph:
    """A result that ends at the length, and that another kernel sums over."""
    graph = mi.new_kernel_graph("returned")
    n = held(graph)
    x, w = graph.new_input((n, n), name="x"), graph.new_input((n, 8), name="w")
    p = graph.softmax(x, 1)
    graph.mark_output(p @ w)
    graph.mark_output(p)
    return graph


def numpy_attention(q: Array, k: Array, v: Array) -> list[Array]:
    if not k.shape[1]:
        return [np.zeros_like(q)]
    scores = q @ k.transpose(0, 2, 1)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return [powers / powers.sum(-1, keepdims=True) @ v]


def numpy_mlp(x: Array, up: Array, down: Array) -> list[Array]:
    return [(x @ up) / (1 + np.exp(-(x @ up))) @ down]


def numpy_sums(x: Array) -> list[Array]:
    return [np.exp(x).sum(1, keepdims=True), x * x]


def numpy_products(x: Array, y: Array) -> list[Array]:
    return [x.T @ y]


def numpy_stored(x: Array, w: Array) -> list[Array]:
    return [np.exp(x) / np.exp(x).sum(0, keepdims=True) @ w]


def numpy_returned(x: Array, w: Array) -> list[Array]:
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    return [p @ w, p]


N = -1
"""An extent of an input that the length is."""
Numpy = Callable[..., list[Array]]
PROGRAMS: dict[str, tuple[Callable[[], mi.KernelGraph], Sequence[Any], Numpy, Plan]] = {
    "attention": (attention, [(2, 16, 32), (2, N, 32), (2, N, 32)], numpy_attention, Plan()),
    "mlp": (mlp, [(N, 64), (64, 128), (128, 64)], numpy_mlp, Plan()),
    "sums": (sums, [(4, N, 40)], numpy_sums, Plan()),
    "stored": (stored, [(33, N), (N, 1)], numpy_stored, Plan()),
    "returned": (returned, [(N, N), (N, 8)], numpy_returned, Plan()),
    "products": (products, [(N, 64), (N, 32)], numpy_products, Plan(forloop=5, split_k=1)),
}
EMULATED = PROGRAMS if THOROUGH else ("products", "stored", "returned")


@cache
def scheduled(program: str, arch: str = "sm_90a") -> ModuleOp:
    module, context = PROGRAMS[program][0]().module(), make_context()
    PassPipeline(compile_pipeline(arch, PROGRAMS[program][3])).apply(context, module)
    module.verify()
    return module


def inputs_at(program: str, size: int) -> tuple[list[Array], list[Array]]:
    """The arguments of a call, and what counts of them."""
    given: list[Array] = [np.array([size], np.int32)]
    meant: list[Array] = []
    for shape in PROGRAMS[program][1]:
        counts = tuple(slice(size) if extent == N else slice(None) for extent in shape)
        whole = RANDOM.standard_normal([LARGEST if e == N else e for e in shape]) / 4
        array = np.full(whole.shape, np.nan, np.float16)
        array[counts] = whole[counts]
        given.append(array)
        meant.append(array[counts].astype(np.float64))
    return given, meant


def require_close(program: str, results: Sequence[Array], meant: Sequence[Array]) -> None:
    with np.errstate(all="ignore"):
        wanted = PROGRAMS[program][2](*meant)
    for result, expected in zip(results, wanted, strict=True):
        part = result[tuple(map(slice, expected.shape))]
        np.testing.assert_allclose(part, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_level_computes_the_same_at_every_size(program: str) -> None:
    source, module = PROGRAMS[program][0]().module(), scheduled(program)
    for size in SIZES:
        given, meant = inputs_at(program, size)
        require_close(program, run_function(source, None, given), meant)
        require_close(program, run_function(module, None, given), meant)


def test_a_tensor_may_have_three_names() -> None:
    """Together they stand for more elements than a tensor may have."""
    graph = mi.new_kernel_graph("three")
    b, holders = mi.Extent("b", largest=5), [graph.new_input((1,), dtype=mi.int32) for _ in "tn"]
    t, n = (mi.Extent(name, largest=9, held=each) for name, each in zip("tn", holders, strict=True))
    graph.mark_output(graph.new_input((b, t, n)) @ graph.new_input((b, n, 8)))
    x, w = (RANDOM.standard_normal(shape).astype(np.float16) for shape in ((3, 9, 9), (3, 9, 8)))
    given = [np.array([4], np.int32), np.array([7], np.int32), x, w]
    (found,) = run_function(graph.module(), None, given, "float64")
    expected = x[:, :4, :7].astype(np.float64) @ w[:, :7].astype(np.float64)
    np.testing.assert_allclose(found[:, :4], expected, rtol=1e-9)


def test_the_level_of_addresses_knows_lengths() -> None:
    """A tile that ends in the middle, and no tile at all."""
    module = scheduled("products")
    for size in (0, 61):
        given, meant = inputs_at("products", size)
        require_close("products", run_function(module, None, given, level="address"), meant)


@pytest.mark.parametrize("program", EMULATED)
def test_kernels_at_every_size(program: str) -> None:
    """What lies behind the end in results stays as it was, poison."""

    def check(kernels: CudaModule) -> None:
        for size in SIZES:
            given, meant = inputs_at(program, size)
            results = kernels.run(given)
            require_close(program, results, meant)
            for result in results:
                if LARGEST in result.shape:
                    behind = np.moveaxis(result, result.shape.index(LARGEST), 0)[size:]
                    assert np.isnan(behind).all()

    made = generate_cuda(scheduled(program).clone(), make_context(), "sm_90a")
    check_emulated_later(made, check)


def test_loops_and_blocks_end_where_the_length_does() -> None:
    (kernel,) = (op for op in scheduled("products").ops if isinstance(op, sched.KernelOp))
    assert kernel.domain is not None and kernel.held_lengths[0].largest == LARGEST
    known = with_lengths(kernel, [61])
    known.verify()
    assert known.lengths is None and span_of(known.domain_forms(), (0, 0, 0), 5).count == 3
    assert counts_of(kernel) == [1, 2, 3, 4]
    first, *_ = (op for op in scheduled("mlp").ops if isinstance(op, sched.KernelOp))
    (cut,) = first.cuts
    assert first.grid_at({cut.argument: 0})[cut.axis] == 0
    assert first.grid_at({cut.argument: 61})[cut.axis] == -(-61 // cut.step)


def test_blocks_that_share_a_loop_have_some_of_every_length() -> None:
    """Of 300 keys in tiles of 64 the first two of three blocks have two tiles, the last one.

    Of 64 the first has one and the others run no iteration.
    """
    source, context, keys = attention(LONG).module(), make_context(), Plan(loop_tile=64, split_k=3)
    module = source.clone()
    PassPipeline(compile_pipeline("sm_90a", keys)).apply(context, module)
    module.verify()
    kernel, _ = (op for op in module.ops if isinstance(op, sched.KernelOp))
    assert kernel.is_interleaved and 0 in counts_of(kernel)
    for keys, expected in ((300, [2, 2, 1]), (64, [1, 0, 0])):
        known = with_lengths(kernel, [keys])
        parts = [spans_of(known, [slice(0, 1), slice(n, n + 1), slice(0, 1)]) for n in range(3)]
        assert [span.count for ((span, _),) in parts] == expected
    given: list[list[Array]] = []
    for size in (0, 1, 64, 130, 300, LONG):
        q = RANDOM.standard_normal((2, 16, 32)) / 4
        k, v = (np.full((2, LONG, 32), np.nan, np.float16) for _ in "kv")
        k[:, :size], v[:, :size] = RANDOM.standard_normal((2, 2, size, 32)) / 4
        given.append([np.array([size], np.int32), q.astype(np.float16), k, v])

    def require(results: list[Array], call: list[Array]) -> None:
        (size,) = call[0]
        meant = [call[1].astype(np.float64), *(x[:, :size].astype(np.float64) for x in call[2:])]
        require_close("attention", results, meant)

    for call in given:
        require(run_function(module, None, call), call)
        if call[0][0] in (1, 300):
            require(run_function(module, None, call, level="address"), call)

    def check(kernels: CudaModule) -> None:
        for call in given:
            require(kernels.run(call), call)

    check_emulated_later(generate_cuda(module.clone(), context, "sm_90a"), check)


def window(i: LinearForm, j: LinearForm, at: LinearForm) -> list[LinearForm]:
    return [at + i - j, j - at + 3]


def test_a_mask_of_a_position_is_what_its_condition_says() -> None:
    """Keys up to a position that memory holds, of queries that follow it."""
    graph = mi.new_kernel_graph("window")
    x = graph.new_input((8, 24), dtype=mi.float32, name="x")
    position = graph.new_input((1,), dtype=mi.int64, name="position")
    kept = graph.mask(x, window, 0.0, lengths=[(position, 16)])
    graph.mark_output(kept)
    values = RANDOM.standard_normal((8, 24)).astype(np.float32)
    i, j = np.indices(values.shape)
    for at in (0, 5, 16):
        (result,) = run_function(graph.module(), None, [values, np.array([at])])
        expected = np.where((at + i - j >= 0) & (j - at + 3 >= 0), values, 0)
        np.testing.assert_array_equal(result, expected)
    with pytest.raises(ExecutionError, match="reads the length 17; it may be 0 to 16"):
        run_function(graph.module(), None, [values, np.array([17])])


def test_a_mask_may_say_another_range_of_a_length() -> None:
    graph = mi.new_kernel_graph("ranges")
    length = graph.new_input((1,), dtype=mi.int32, name="length")
    n = mi.Extent("n", largest=LARGEST, held=length)
    x, y = graph.new_input((4, n), name="x"), graph.new_input((n, 8), name="y")
    kept = graph.mask(x, lambda i, j, n: n - j - 2, 0.0, lengths=[(length, LARGEST // 2)])
    graph.mark_output(kept @ y)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    (kernel,) = (op for op in module.ops if isinstance(op, sched.KernelOp))
    assert [each.largest for each in kernel.held_lengths] == [LARGEST // 2, LARGEST]

    def check(kernels: CudaModule) -> None:
        x, y = (np.full(shape, np.nan, np.float16) for shape in ((4, LARGEST), (LARGEST, 8)))
        x[:, :61], y[:61] = RANDOM.standard_normal((4, 61)), RANDOM.standard_normal((61, 8))
        (found,) = kernels.run([np.array([61], np.int32), x, y])
        wanted = x[:, :60].astype(np.float64) @ y[:60].astype(np.float64)
        np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=2e-2)

    check_emulated_later(generate_cuda(module.clone(), make_context(), "sm_90a"), check)


def of_mean(graph: mi.KernelGraph) -> None:
    graph.mark_output(graph.mean(graph.new_input((4, held(graph)), name="x"), 1))


def of_float(graph: mi.KernelGraph) -> None:
    length = graph.new_input((1,), dtype=mi.float32, name="length")
    graph.mark_output(graph.new_input((4, mi.Extent("n", largest=8, held=length))) * 2)


def of_result(graph: mi.KernelGraph) -> None:
    length = graph.new_input((1,), dtype=mi.int32, name="length")
    mi.Extent("n", largest=8, held=length + length)


def of_multiples(graph: mi.KernelGraph) -> None:
    length = graph.new_input((1,), dtype=mi.int32, name="length")
    n = mi.Extent("n", largest=8, multiple=4, held=length)
    graph.mark_output(graph.new_input((4, n)) * 2)


def of_one(graph: mi.KernelGraph) -> None:
    length = graph.new_input((1,), dtype=mi.int32, name="length")
    graph.mark_output(graph.new_input((4, mi.Extent("n", largest=1, held=length))) * 2)


def of_two_names(graph: mi.KernelGraph) -> None:
    n = held(graph)
    other = mi.Extent("k", largest=LARGEST, held=graph.new_input((1,), dtype=mi.int32))
    graph.mark_output(graph.new_input((4, n)) + graph.new_input((4, other)))


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        (of_mean, "combines elements along dimension 1"),
        (of_float, "'n' is held by argument 0 .*, which is of f32; a length is i32 or i64"),
        (of_result, "which is no input of a graph"),
        (of_multiples, "argument 0 holds it, so that no call says it"),
        (
            of_one,
            "holds whether there is one element or none; expected a largest value, and buckets, of",
        ),
        (of_two_names, "extents must be equal or 1"),
    ],
)
def test_what_cannot_be_is_refused(
    program: Callable[[mi.KernelGraph], None], sentence: str
) -> None:
    graph = mi.new_kernel_graph("refused")
    with pytest.raises(BuildError, match=sentence):
        program(graph)
        graph.module()


def test_what_is_returned_twice_has_a_place_for_each() -> None:
    graph = mi.new_kernel_graph("twice")
    n = held(graph)
    result = mi.exp(graph.new_input((4, n)))
    turned_back = graph.transpose(graph.transpose(result, [1, 0]), [1, 0])
    for each in (result, result, turned_back):
        graph.mark_output(each)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    values = RANDOM.standard_normal((4, LARGEST)).astype(np.float16)
    first, *others = run_function(module, None, [np.array([61], np.int32), values])
    for other in others:
        np.testing.assert_array_equal(first[:, :61], other[:, :61])
    np.testing.assert_allclose(first[:, :61], np.exp(values[:, :61]), rtol=2e-3)
    graph.mark_output(graph.new_input((4, n), dtype=mi.int32, name="numbers"))
    with pytest.raises(PassFailedException, match=r"result 3 of .* would be copied"):
        PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), graph.module())


def test_results_that_are_found_to_be_equal_have_a_place_for_each() -> None:
    graph = mi.new_kernel_graph("equal")
    n = held(graph)
    x = graph.new_input((4, n))
    first = mi.tanh(x)
    masked = mi.reduction(mi.tanh(x), 1) * 0.125
    turned = graph.transpose(mi.tanh(graph.transpose(x, [1, 0])), [1, 0])
    for each in (first, masked, mi.tanh(x), first * 1.0, turned):
        graph.mark_output(each)
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    values = np.full((4, LARGEST), np.nan, np.float16)
    values[:, :61] = RANDOM.standard_normal((4, 61))
    wanted = np.tanh(values[:, :61].astype(np.float64))
    found, total, *others = run_function(module, None, [np.array([61], np.int32), values])
    for other in (found, *others):
        np.testing.assert_allclose(other[:, :61], wanted, rtol=2e-3)
    np.testing.assert_allclose(total[:, 0], wanted.sum(1) / 8, rtol=5e-3, atol=5e-3)


def test_rows_of_a_table_end_where_memory_says() -> None:
    """A load of the gathered rows ends there: it is no load of rows of the table."""
    graph = mi.new_kernel_graph("rows")
    length = graph.new_input((1,), dtype=mi.int32)
    table, numbers = graph.new_input((11, 16)), graph.new_input((33,), dtype=mi.int32)
    masked = graph.mask(
        mi.gather(table, numbers), lambda i, _, n: n - i - 1, 0.0, lengths=[(length, 33)]
    )
    graph.mark_output(mi.exp(masked))
    source = graph.module()
    module = source.clone()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    values = RANDOM.standard_normal((11, 16)).astype(np.float16)
    for size in (0, 7, 33):
        given = [np.array([size], np.int32), values, RANDOM.integers(0, 11, 33).astype(np.int32)]
        (found,), (wanted,) = (run_function(each, None, given) for each in (module, source))
        np.testing.assert_allclose(found, wanted, rtol=2e-3)


def test_calls_are_checked() -> None:
    source = products().module()
    given, _ = inputs_at("products", 7)
    with pytest.raises(ExecutionError, match="needs room for all 150 that 'n' may have"):
        run_function(source, None, [given[0], given[1][:90], given[2]])
    for number in (-1, 151):
        with pytest.raises(ExecutionError, match=f"reads the length {number}; it may be 0 to 150"):
            run_function(source, None, [np.array([number], np.int32), *given[1:]])
