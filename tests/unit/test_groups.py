"""Rows in groups: their tables, and products with the matrices of their groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later, graph_of, interpreted, made_of
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

import mugraph.build as mi
from mugraph.build.groups import columns_of_a_tile
from mugraph.dialects import kn, sched
from mugraph.dialects.plan import Plan
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.decompose_program import DecomposeProgramPass
from mugraph.passes.program.store_named_rows import StoreNamedRowsPass
from mugraph.passes.schedule.persist_blocks import PersistBlocksPass
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import ExecutionError, run_function
from mugraph.tools.random_inputs import random_inputs

Array = Any

SIZES = [[0, 3, 40, 0, 21, 6], [70, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 70], [1, 32, 32, 5, 0, 0]]
"""Rows of each of six groups: empty ones first, last and between, and whole tiles."""


def product_of_groups(x: Array, matrices: Array, ends: Array) -> Array:
    """Each group's rows times its matrix, in float64; rows behind the last end have the last."""
    starts = [0, *ends[:-1]]
    parts = [
        x[start:end].astype(np.float64) @ matrix.astype(np.float64)
        for start, end, matrix in zip(starts, [*ends[:-1], len(x)], matrices, strict=True)
    ]
    return np.concatenate(parts)


def numbers(rows: int, depth: int, columns: int, groups: int) -> tuple[Array, Array]:
    """Random rows and matrices of f16."""
    random = np.random.default_rng(rows)
    shapes = (rows, depth), (groups, depth, columns)
    x, matrices = (random.uniform(-1, 1, shape).astype(np.float16) for shape in shapes)
    return x, matrices


def require_near(found: Array, x: Array, matrices: Array, ends: Array) -> None:
    """Asserts that products are right but for rounding to f16."""
    np.testing.assert_allclose(
        found.astype(np.float64), product_of_groups(x, matrices, ends), rtol=2e-3, atol=2e-3
    )


@pytest.mark.parametrize("size", [1, 16, 32, None])
@pytest.mark.parametrize("sizes", SIZES)
def test_rows_meet_the_matrix_of_their_group(sizes: list[int], size: int | None) -> None:
    x, matrices = numbers(70, 40, 24, 6)
    ends = np.cumsum(sizes).astype(np.int32)

    def program(x: Any, matrices: Any, ends: Any) -> Any:
        return mi.grouped_matmul(x, matrices, ends, rows_per_tile=size)

    (found,) = interpreted(program, x, matrices, ends)
    require_near(found, x, matrices, ends)


def test_random_groups_by_tma_and_warp_groups() -> None:
    x, matrices = numbers(200, 128, 136, 5)
    random = np.random.default_rng(1)
    ends = np.sort(random.integers(0, 200, 5)).astype(np.int32)
    ends[2] = ends[1]  # an empty group
    given = [x, matrices, ends]
    made = made_of(lambda *given: mi.grouped_matmul(*given, rows_per_tile=64), *given)
    check_emulated_later(made, lambda kernels: require_near(*kernels.run(given), *given))


def test_persistent_blocks_share_the_tiles_that_have_rows() -> None:
    """Few blocks take the tiles that the tables count; no rows are left for some blocks.

    They store rows in their order, in which tiles of other groups have them.
    """
    x, matrices = numbers(200, 128, 256, 5)
    graph = graph_of(
        lambda *given: mi.grouped_matmul(*given, rows_per_tile=128),
        *(x, matrices, np.zeros(5, np.int32)),
    )
    module = graph.module()
    for step in compile_pipeline("sm_90a", Plan(loads="tma", tile=(0, 0, 128), block=(256, 1, 1))):
        few = PersistBlocksPass("sm_90a", blocks=5) if isinstance(step, PersistBlocksPass) else step
        few = StoreNamedRowsPass() if isinstance(step, StoreNamedRowsPass) else few
        few.apply(make_context(), module)
    (kernel,) = (op for op in module.walk() if isinstance(op, sched.KernelOp))
    assert any(op.by_quads for op in kernel.walk() if isinstance(op, sched.StoreOp))
    assert kernel.persistent_blocks == 5 and kernel.cuts and not kernel.cuts_by_call
    made = generate_cuda(module, make_context(), "sm_90a")
    ends_of = [
        [0, 70, 70, 150, 200],
        [200, 200, 200, 200, 200],
        [0, 0, 0, 0, 0],
        [9, 19, 150, 160, 199],
    ]
    for ends in (np.array(each, np.int32) for each in ends_of):
        given = [x, matrices, ends]
        require_near(*run_function(module, None, given), *given)

        def check(kernels: CudaModule, given: list[Array] = given) -> None:
            require_near(*kernels.run(given), *given)

        check_emulated_later(made, check)


def test_sorted_tokens_of_experts_and_back() -> None:
    tokens, experts = 300, 7
    random = np.random.default_rng(2)
    chosen = random.choice([0, 1, 2, 4, 6], tokens).astype(np.int32)
    x, matrices = numbers(tokens, 64, 40, experts)

    def program(x: Any, matrices: Any, chosen: Any) -> Any:
        rows = mi.sort_groups(chosen, experts)
        made = mi.grouped_matmul(mi.gather(x, rows.order), matrices, rows.ends)
        return mi.gather(made, rows.places), *rows

    def check(kernels: CudaModule) -> None:
        found, order, places, ends = kernels.run([x, matrices, chosen])
        np.testing.assert_array_equal(order, np.argsort(chosen, kind="stable"))
        np.testing.assert_array_equal(order[places], np.arange(tokens))
        np.testing.assert_array_equal(ends, np.cumsum(np.bincount(chosen, minlength=experts)))
        exact = np.einsum("tk,tkn->tn", x.astype(np.float64), matrices[chosen].astype(np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-3, atol=2e-3)

    check_emulated_later(made_of(program, x, matrices, chosen), check)


def test_random_numbers_of_groups_and_of_rows_behind_casts_exist() -> None:
    graph = mi.new_kernel_graph("experts")
    groups = graph.new_input((50,), dtype=mi.int32)
    tokens = graph.new_input((50,), dtype=mi.int64)
    table = graph.new_input((3, 8))
    for result in (*mi.sort_groups(groups, 2), mi.gather(table, mi.cast(tokens, mi.int32))):
        graph.mark_output(result)
    function = only_function(graph.module())
    first, second, _table = random_inputs(function, [100.0], seed=0)
    assert set(first.tolist()) == {0, 1} and set(second.tolist()) == {0, 1, 2}


def grouped(*, in_place: bool, size: int = 16) -> ModuleOp:
    """A grouped product as one kernel, or of tensors that are gathered first."""
    graph = mi.new_kernel_graph("grouped")
    x = graph.new_input((70, 32))
    matrices = graph.new_input((6, 32, 24))
    ends = graph.new_input((6,), dtype=mi.int32)
    if in_place:
        graph.mark_output(mi.grouped_matmul(x, matrices, ends, rows_per_tile=size))
        return graph.module()
    tiles = mi.group_tiles(ends, 70, size)
    left = mi.gather(mi.row_windows(x, size), tiles.starts)
    made = left @ mi.gather(matrices, tiles.groups)
    made = mi.reshape(made, (-1, 24))
    graph.mark_output(mi.gather(made, tiles.places))
    return graph.module()


def test_the_kernel_is_proved_to_multiply_what_is_gathered() -> None:
    kernel, apart, others = (
        only_function(module)
        for module in (
            grouped(in_place=True),
            grouped(in_place=False),
            grouped(in_place=False, size=32),
        )
    )
    assert prove(kernel, apart).holds
    assert not prove(kernel, others).holds


def sorted_and_back(*, by_order: bool = False) -> ModuleOp:
    """Rows that are sorted by their groups, multiplied, and put where they were."""
    graph = mi.new_kernel_graph("back")
    x, matrices = graph.new_input((70, 32)), graph.new_input((6, 32, 24))
    rows = mi.sort_groups(graph.new_input((70,), dtype=mi.int32), 6)
    made = mi.grouped_matmul(mi.gather(x, rows.order), matrices, rows.ends, rows_per_tile=16)
    graph.mark_output(mi.gather(made, rows.order if by_order else rows.places))
    return graph.module()


def test_a_product_that_stores_rows_where_they_were_is_proved() -> None:
    module = sorted_and_back()
    DecomposeProgramPass().apply(make_context(), module)
    StoreNamedRowsPass().apply(make_context(), module)
    stored = only_function(module)
    *_, kernel, _ = stored.body.block.ops
    assert isinstance(kernel, kn.CustomizedOp)  # and no gather behind it
    assert prove(stored, only_function(sorted_and_back())).holds
    assert not prove(stored, only_function(sorted_and_back(by_order=True))).holds


@pytest.mark.parametrize("ends", [[5, 3, 9, 9, 9, 9], [0, 0, 0, 0, 0, 71], [-1, 0, 0, 0, 0, 70]])
def test_ends_that_fall_or_are_no_rows_are_refused(ends: list[int]) -> None:
    inputs = [np.zeros((70, 32)), np.zeros((6, 32, 24)), np.array(ends)]
    with pytest.raises(ExecutionError, match=r"expected numbers from 0 to 70 that do not fall"):
        run_function(grouped(in_place=True), None, inputs)


def test_the_builder_says_what_does_not_go_together() -> None:
    graph = mi.new_kernel_graph("wrong")
    x, matrices = graph.new_input((70, 32)), graph.new_input((6, 31, 24))
    ends, floats = graph.new_input((6,), dtype=mi.int32), graph.new_input((6,))
    with pytest.raises(mi.BuildError, match=r"rows of 70x32, matrices of 6x31x24 and ends of 6"):
        mi.grouped_matmul(x, matrices, ends)
    with pytest.raises(mi.BuildError, match="expected one dimension, of i32 or i64"):
        mi.group_tiles(floats, 70, 16)
    with pytest.raises(mi.BuildError, match="tiles of 71 rows of a tensor of 70"):
        mi.group_tiles(ends, 70, 71)
    with pytest.raises(mi.BuildError, match="no 71 rows stand side by side"):
        mi.row_windows(x, 71)
    with pytest.raises(mi.BuildError, match="expected one dimension, of i32 or i64"):
        mi.sort_groups(x, 6)


def test_tiles_of_most_rows_are_wide_where_that_divides_a_matrix() -> None:
    assert columns_of_a_tile(1024, 128, bf16) == 256
    assert columns_of_a_tile(1408, 128, f16) == 128
    assert columns_of_a_tile(1024, 64, f16) == 128
    assert columns_of_a_tile(1024, 128, f32) == 128
    assert columns_of_a_tile(96, 128, f16) == 96
