"""Valid graphs off the beaten track: right after every pass, silent, and right by address."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16
from xdsl.ir import Attribute

from fuzz.properties import Compiled, compile_checked, require_close
from mugraph.build import STensor, new_kernel_graph, new_threadblock_graph
from mugraph.dialects import sched
from mugraph.dialects.tensor_types import shape_of
from mugraph.runtime.interpreter import execute_by_address

ARCHES = ("sm_80", "sm_90a")


def require_every_level(module: ModuleOp, arch: str, **options: Any) -> Compiled:
    """Takes a µGraph through all passes, the hazard checker among them, and both interpreters."""
    compiled = compile_checked(str(module), arch=arch, **options)
    case = compiled.case
    results = execute_by_address(compiled.module, None, case.inputs).outputs
    require_close("addresses", results, case.expected, case.errors)
    return compiled


def two_products(rows: int, widths: tuple[int, int], loop: int) -> ModuleOp:
    """Two products of one left matrix, of a depth of 64 an iteration."""
    graph = new_kernel_graph("two")
    block = new_threadblock_graph((1, 1, 1), (128, 1, 1), loop)
    x = graph.new_input((rows, 64 * loop), name="signed")
    weights = [graph.new_input((64 * loop, width), name="signed") for width in widths]
    tile = block.new_input(x, (-1, -1, -1), 1)
    tiles = [block.new_input(weight, (-1, -1, -1), 0) for weight in weights]
    for total in [block.forloop_accum(block.matmul(tile, each)) for each in tiles]:
        block.new_output(total, (-1, -1, -1))
    for result in graph.customized([x, *weights], block):
        graph.mark_output(result)
    return graph.module()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("loop", [1, 3])
@pytest.mark.parametrize(
    ("rows", "widths"),
    [
        (64, (128, 64)),
        (64, (64, 128)),
        (64, (16, 64)),
        (128, (64, 32)),
        (64, (64, 64)),
        (128, (32, 32)),
    ],
)
def test_only_products_of_one_width_are_merged(
    rows: int, widths: tuple[int, int], loop: int
) -> None:
    compiled = require_every_level(two_products(rows, widths, loop), "sm_90a", loads="tma")
    products = [op for op in compiled.module.walk() if isinstance(op, sched.WarpgroupMmaOp)]
    assert products
    for op in products:
        assert len({shape_of(accumulator.type) for accumulator in op.accumulators}) == 1
    merged = any(len(op.accumulators) == 2 for op in products)
    assert merged == (widths[0] == widths[1])


def tile_times_rows(queries: int, depth: int, keys: int) -> ModuleOp:
    """e = sigmoid(q k), r the sums of its rows: e * r + e."""
    graph = new_kernel_graph("rows")
    block = new_threadblock_graph((1, 1, 1), (128, 1, 1), 1)
    q = graph.new_input((queries, depth), name="signed")
    k = graph.new_input((depth, keys), name="signed")
    scores = block.matmul(block.new_input(q, (-1, -1, -1)), block.new_input(k, (-1, -1, -1)))
    e = block.sigmoid(block.mul_scalar(scores, 1 / 16))
    total = block.add(block.mul(e, block.reduction(e, 1)), e)
    block.new_output(block.forloop_accum(total), (-1, -1, -1))
    (result,) = graph.customized([q, k], block)
    graph.mark_output(result)
    return graph.module()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", [(64, 64, 64), (64, 32, 128), (128, 64, 16), (16, 64, 64)])
def test_registers_of_rows_do_not_become_those_of_a_tile(
    shape: tuple[int, int, int], arch: str
) -> None:
    require_every_level(tile_times_rows(*shape), arch)


def unused_reduction(rows: int, columns: int, loop: int, steps: str) -> ModuleOp:
    """The sum of tiles, and in the loop a reduction that nothing reads."""
    graph = new_kernel_graph("unused")
    block = new_threadblock_graph((1, 1, 1), (64, 1, 1), loop)
    x = graph.new_input((rows, columns * loop), name="signed")
    tile: STensor = block.new_input(x, (-1, -1, -1), 1)
    total = block.forloop_accum(tile)
    for step in steps:
        tile = block.reduction(tile, "rc".index(step)) if step in "rc" else block.relu(tile)
    block.new_output(total, (-1, -1, -1))
    (result,) = graph.customized([x], block)
    graph.mark_output(result)
    return graph.module()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("arch", ARCHES[::-1])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("steps", ["r", "c", "ac"])
@pytest.mark.parametrize(("rows", "columns", "loop"), [(16, 64, 4), (64, 32, 3)])
def test_a_reduction_that_nothing_reads_stays_in_step_with_the_loads(
    rows: int, columns: int, loop: int, steps: str, stages: int, arch: str
) -> None:
    module = unused_reduction(rows, columns, loop, steps)
    require_every_level(module, arch, stages=(stages,))


def sum_used_as(use: str, kind: str, dtype: Attribute, shape: tuple[int, int]) -> ModuleOp:
    """What a loop accumulates in shared memory, in fp32, then taken as it is by ``use``."""
    rows, columns = shape
    graph = new_kernel_graph("sums")
    block = new_threadblock_graph((1, 1, 1), (64, 1, 1), 3, 16)
    x = graph.new_input((rows, 3 * columns), dtype=dtype, name="signed")
    tile = block.new_input(x, (-1, -1, -1), 1)
    total = (
        block.forloop_accum_max(tile) if kind == "max" else block.forloop_accum(tile, "sum_todimx")
    )
    height, width = total.shape
    inputs = [x]
    if use in ("left", "right"):
        extents = (width, 32) if use == "left" else (32, height)
        w = graph.new_input(extents, dtype=dtype, name="signed")
        inputs.append(w)
        factor = block.new_input(w, (-1, -1, -1))
        pair = (total, factor) if use == "left" else (factor, total)
        result = block.matmul(*pair)
    elif use == "concat":
        result = block.concat(total, block.relu(total), 1)
    else:
        low, high = block.split(total, [height // 4, height - height // 4], 0)
        result = block.concat(high, low, 0)
    block.new_output(result, (-1, -1, -1))
    (output,) = graph.customized(inputs, block)
    graph.mark_output(output)
    return graph.module()


@pytest.mark.one_in(5)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("kind", ["max", "sum"])
@pytest.mark.parametrize("use", ["left", "right", "concat", "split"])
@pytest.mark.parametrize(("dtype", "shape"), [(f16, (16, 32)), (bf16, (32, 64))])
def test_a_sum_in_memory_feeds_what_takes_elements_as_they_are(
    dtype: Attribute, shape: tuple[int, int], use: str, kind: str, arch: str
) -> None:
    module = sum_used_as(use, kind, dtype, shape)
    require_every_level(module, arch)
