"""A length for each sequence of a batch, and caches in pages: of a plain program, one kernel."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.exceptions import VerifyException

import mugraph.build as mi
from mugraph.build.errors import BuildError
from mugraph.dialects import kn, sched, tb
from mugraph.dialects.linear_forms import LinearForm
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.fuse_kernels.pages import factors_of
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

Array = Any
SEQUENCES, HEADS, GROUP, WIDTH, PAGES, PAGE, POOL = 3, 2, 4, 64, 16, 32, 20
"""Of eight pages another kernel may gather them first."""
LENGTHS = np.array([0, PAGES * PAGE, 37], np.int32)


def before_end(*at: LinearForm) -> LinearForm:
    """Columns before the end that the last coordinate says."""
    *_, column, end = at
    return end - 1 - column


def graph_of(*, lie_in_pages: bool, heads_first: bool = True) -> mi.KernelGraph:
    """Attention of one token a sequence to as many keys as each sequence has."""
    graph = mi.new_kernel_graph("decode")
    q = graph.new_input((SEQUENCES, HEADS, GROUP, WIDTH), name="q")
    keys = (SEQUENCES, HEADS, PAGES * PAGE, WIDTH)
    if lie_in_pages:
        place = (HEADS, PAGE) if heads_first else (PAGE, HEADS)
        pools = [graph.new_input((POOL, *place, WIDTH), name=name) for name in "kv"]
        table = graph.new_input((SEQUENCES, PAGES), dtype=mi.int32, name="table")
        order = [0, 2, 1, 3, 4] if heads_first else [0, 3, 1, 2, 4]
        k, v = (
            graph.reshape(graph.transpose(mi.gather(pool, table), order), keys) for pool in pools
        )
    else:
        k, v = (graph.new_input(keys, name=name) for name in "kv")
    lengths = graph.new_input((SEQUENCES,), dtype=mi.int32, name="lengths")
    scores = graph.matmul(q, graph.transpose(k, [0, 1, 3, 2]), dtype=mi.float32)
    masked = graph.mask(scores * 0.25, before_end, lengths=[(lengths, PAGES * PAGE, 0)])
    graph.mark_output(mi.cast(mi.softmax(masked, 3), mi.float16) @ v)
    return graph


def inputs_of(*, lie_in_pages: bool, heads_first: bool = True) -> tuple[list[Array], Array]:
    """Random arguments, and the result in float64."""
    random = np.random.default_rng(5)

    def drawn(*shape: int) -> Array:
        return random.normal(size=shape).astype(np.float16)

    q = drawn(SEQUENCES, HEADS, GROUP, WIDTH)
    if lie_in_pages:
        place = (HEADS, PAGE) if heads_first else (PAGE, HEADS)
        pools = [drawn(POOL, *place, WIDTH) for _ in range(2)]
        table = random.integers(0, POOL, (SEQUENCES, PAGES)).astype(np.int32)
        found = [pool if heads_first else pool.swapaxes(1, 2) for pool in pools]
        k, v = (
            pool[table].swapaxes(1, 2).reshape(SEQUENCES, HEADS, PAGES * PAGE, WIDTH)
            for pool in found
        )
        given = [q, *pools, table, LENGTHS]
    else:
        k, v = (drawn(SEQUENCES, HEADS, PAGES * PAGE, WIDTH) for _ in range(2))
        given = [q, k, v, LENGTHS]
    scores = q.astype(float) @ k.astype(float).swapaxes(-1, -2) * 0.25
    scores[np.arange(PAGES * PAGE) >= LENGTHS[:, None, None, None] + 0 * scores] = -np.inf
    powers = np.exp(scores)
    # Of no keys the sum is 0, and so is the result.
    return given, powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30) @ v.astype(float)


@cache
def scheduled(*, lie_in_pages: bool, heads_first: bool = True) -> ModuleOp:
    module = graph_of(lie_in_pages=lie_in_pages, heads_first=heads_first).module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    module.verify()
    return module


def off_by(results: list[Array], expected: Array) -> float:
    return float(np.abs(results[0].astype(float) - expected).max())


@pytest.mark.parametrize("lie_in_pages", [False, True])
def test_the_program_and_its_schedule_see_no_key_behind_a_length(lie_in_pages: bool) -> None:
    given, expected = inputs_of(lie_in_pages=lie_in_pages)
    program = parse_text(make_context(), str(graph_of(lie_in_pages=lie_in_pages)), "program")
    assert off_by(run_function(program, None, given), expected) < 5e-3
    module = scheduled(lie_in_pages=lie_in_pages)
    assert off_by(run_function(module, None, given), expected) < 5e-3


def test_every_block_reads_the_length_of_its_sequence() -> None:
    kernel = next(
        op for op in scheduled(lie_in_pages=True).walk() if isinstance(op, sched.KernelOp)
    )
    (length,) = kernel.held_lengths
    assert kernel.grid_dim[length.axis] == SEQUENCES
    given, expected = inputs_of(lie_in_pages=True)
    results = run_function(scheduled(lie_in_pages=True), None, given, level="address")
    assert off_by(results, expected) < 5e-3


@pytest.mark.parametrize("heads_first", [True, False])
def test_pages_are_read_where_they_lie(heads_first: bool) -> None:
    module = graph_of(lie_in_pages=True, heads_first=heads_first).module()
    steps = compile_pipeline("sm_90a")
    names = [step.name for step in steps]
    PassPipeline(steps[: names.index("plan")]).apply(make_context(), module)
    assert not [op for op in module.walk() if isinstance(op, kn.GatherOp)]
    (kernel,) = (op for op in module.walk() if isinstance(op, kn.CustomizedOp))
    assert kernel.forloop_range == PAGES
    loads = [op for op in kernel.body.block.ops if isinstance(op, tb.InputOp) and op.through]
    assert len(loads) == 2
    given, expected = inputs_of(lie_in_pages=True, heads_first=heads_first)
    assert off_by(run_function(module, None, given), expected) < 5e-3


def test_the_kernel_is_right() -> None:
    given, expected = inputs_of(lie_in_pages=True)
    made = generate_cuda(scheduled(lie_in_pages=True).clone(), make_context(), "sm_90a")

    def check(kernels: CudaModule) -> None:
        assert off_by(kernels.run(given), expected) < 5e-3

    check_emulated_later(made, check)


def test_what_a_view_consists_of() -> None:
    graph = mi.new_kernel_graph("seen")
    table = graph.new_input((2, 6), dtype=mi.int32)
    gathered = mi.gather(graph.new_input((9, 4, 16)), table)
    seen = graph.reshape(graph.transpose(gathered, [0, 2, 1, 3]), (2, 4, 96))
    other = graph.reshape(gathered, (2, 24, 16))
    apart = graph.reshape(gathered, (4, 3, 4, 16))
    found = [factors_of(value.value) for value in (seen, other, apart)]
    assert [None if each is None else each[1] for each in found] == [
        ((0,), (2,), (1, 3)),
        ((0,), (1, 2), (3,)),
        None,
    ]


@pytest.mark.parametrize(
    ("count", "dim", "message"),
    [
        (4, 0, "has 4 elements; expected a list of 3 lengths"),
        (3, 7, r"per \[7\] must have a dimension of 3x5"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(count: int, dim: int, message: str) -> None:
    graph = mi.new_kernel_graph("refused")
    x, lengths = graph.new_input((3, 5)), graph.new_input((count,), dtype=mi.int32)
    with pytest.raises((BuildError, VerifyException), match=message):
        graph.mask(x, before_end, lengths=[(lengths, 5, dim)])


def test_a_block_has_one_row_of_those_with_lengths() -> None:
    graph = mi.new_kernel_graph("rows")
    x = graph.new_input((30, 100), dtype=mi.float32)
    lengths = graph.new_input((30,), dtype=mi.int32)
    graph.mark_output(graph.mask(x, before_end, 0.0, lengths=[(lengths, 100, 0)]))
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert kernel.grid_dim[kernel.held_lengths[0].axis] == 30
    random = np.random.default_rng(3)
    values = random.normal(size=(30, 100)).astype(np.float32)
    ends = random.integers(0, 101, 30).astype(np.int32)
    (found,) = run_function(module, None, [values, ends])
    np.testing.assert_array_equal(found, np.where(np.arange(100) < ends[:, None], values, 0))
