"""Products of which parts are used apart: gate and up, or queries, keys and values, as one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from fuzz.programs import check_program, launches_of
from xdsl.dialects.builtin import ModuleOp

import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.dialects.alignment import alignment_of
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.choice import take_apart
from mugraph.passes.program.fuse_kernels.packed_products import (
    has_packed_products,
    unpack_products,
)
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

Results = mi.DTensor | tuple[mi.DTensor, ...]
ROWS, WIDTH, HIDDEN = 16, 64, 256


def halves(graph: mi.KernelGraph) -> Results:
    """Gate and up side by side, with a bias of both."""
    x, w = graph.new_input((ROWS, WIDTH)), graph.new_input((WIDTH, 2 * HIDDEN))
    y = x @ w + graph.new_input((2 * HIDDEN,))
    return mi.silu(y[:, :HIDDEN]) * y[:, HIDDEN:]


def chunks(graph: mi.KernelGraph) -> Results:
    """The same of a weight whose rows are the columns, behind a norm."""
    x, w = graph.new_input((ROWS, WIDTH)), graph.new_input((2 * HIDDEN, WIDTH))
    gate, up = mi.chunk(mi.rms_norm(x, eps=1e-3) @ mi.transpose(w), 2, 1)
    return mi.gelu(gate) * up


def odd_halves(graph: mi.KernelGraph) -> Results:
    """Parts of which the second starts at an odd element."""
    x, w = graph.new_input((ROWS, WIDTH)), graph.new_input((WIDTH, 2 * 65))
    y = x @ w
    return mi.silu(y[:, :65]) * y[:, 65:]


def heads(graph: mi.KernelGraph) -> Results:
    """Queries, keys and values: heads of some are normed, and all of them are results."""
    x, w = graph.new_input((ROWS, 128)), graph.new_input((128, 6 * 32))
    y = mi.reshape(x @ w, (ROWS, 6, 32))
    return mi.rms_norm(y[:, :2, :], eps=1e-3), mi.rms_norm(y[:, 2:4, :], eps=1e-3), y[:, 4:, :]


def turned(graph: mi.KernelGraph) -> Results:
    """Attention over three parts of [tokens, 3, heads, d], with its dimensions in another order."""
    x, w = graph.new_input((32, 64)), graph.new_input((3 * 64, 64))
    y = mi.transpose(mi.reshape(x @ mi.transpose(w), (32, 3, 2, 32)), (1, 2, 0, 3))
    q, k, v = (mi.reshape(y[number : number + 1, :, :, :], (2, 32, 32)) for number in range(3))
    return mi.softmax(q @ mi.transpose(k) * 0.125) @ v


def module_of(program: Callable[[mi.KernelGraph], Results]) -> ModuleOp:
    graph = mi.new_kernel_graph(program.__name__)
    results = program(graph)
    for result in results if isinstance(results, tuple) else (results,):
        graph.mark_output(result)
    return graph.module()


@pytest.mark.parametrize("program", [halves, chunks, odd_halves, heads, turned])
def test_parts_of_a_product_are_products_by_parts_of_the_matrix(
    program: Callable[[mi.KernelGraph], Results],
) -> None:
    module = module_of(program)
    unpacked = module.clone()
    function = only_function(unpacked)
    take_apart(function)
    assert has_packed_products(function)
    assert unpack_products(function)
    assert not any(isinstance(op, kn.SliceOp | kn.PartsOp) for op in unpacked.walk())
    unpacked.verify()
    random = np.random.default_rng(1)
    inputs = [
        random.standard_normal(shape_of(value.type)).astype(np.float16)
        for value in only_function(module).args
    ]
    expected_results, results = (
        run_function(each, None, inputs, "float64") for each in (module, unpacked)
    )
    for expected, found in zip(expected_results, results, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("program", [halves, chunks, odd_halves, heads])
def test_what_follows_the_parts_shares_their_kernel(
    program: Callable[[mi.KernelGraph], Results],
) -> None:
    module = module_of(program)
    assert check_program(module, scheduled=True, target="h200") == "proved"
    function = only_function(module)
    fuse_program(function, target_named("h200"))
    assert launches_of(function) == 1


def test_a_product_that_something_needs_whole_stays() -> None:
    graph = mi.new_kernel_graph("whole")
    y = graph.new_input((ROWS, WIDTH)) @ graph.new_input((WIDTH, 2 * HIDDEN))
    graph.mark_output(mi.silu(y[:, :HIDDEN]) * y[:, HIDDEN:])
    graph.mark_output(mi.softmax(y))
    assert not has_packed_products(only_function(graph.module()))


def test_parts_of_what_no_product_computes_stay() -> None:
    graph = mi.new_kernel_graph("halves")
    x, w = graph.new_input((ROWS, WIDTH)), graph.new_input((WIDTH, WIDTH))
    y = mi.exp(x)
    graph.mark_output((mi.silu(y[:, : WIDTH // 2]) * y[:, WIDTH // 2 :]) @ w[: WIDTH // 2, :])
    module = graph.module()
    before = str(module)
    assert not unpack_products(only_function(module))
    assert str(module).count("kn.slice") == before.count("kn.slice")


def test_attention_reads_keys_and_values_where_their_product_stores_them() -> None:
    """No launch copies them: all of the product is used in parts, of which none is a result."""
    graph = mi.new_kernel_graph("attention")
    y = graph.new_input((512, 3 * 128))
    q, k, v = (
        mi.transpose(mi.reshape(y[:, part * 128 : (part + 1) * 128], (512, 2, 64)), (1, 0, 2))
        for part in range(3)
    )
    graph.mark_output(mi.softmax(mi.causal_mask(q @ mi.transpose(k) * 0.125)) @ v)
    module = graph.module()
    function = only_function(module)
    fuse_program(function, target_named("h200"))
    assert launches_of(function) == 1
    starts = [op.offset for op in function.walk() if isinstance(op, kn.ViewOp)]
    assert sorted(starts) == [0, 128, 256]


def test_a_part_of_what_is_also_used_whole_is_cut_out_in_the_kernel() -> None:
    """As in a rotary embedding: a block loads a row once for all that it does with it."""
    graph = mi.new_kernel_graph("rotary")
    x, sin = graph.new_input((ROWS, WIDTH)), graph.new_input((ROWS, WIDTH))
    turned = mi.concat(-x[:, WIDTH // 2 :], x[:, : WIDTH // 2], 1)
    graph.mark_output(x + turned * sin)
    module = graph.module()
    function = only_function(module)
    fuse_program(function, target_named("h200"))
    assert launches_of(function) == 1
    assert not any(isinstance(op, kn.ViewOp) and op.offset for op in function.walk())


def test_a_view_is_aligned_to_what_stands_before_it() -> None:
    """Eight elements of f16 are 16 bytes, of which vectors are; four are eight."""
    function = only_function(module_of(odd_halves))
    take_apart(function)
    unpack_products(function)
    views = [op for op in function.walk() if isinstance(op, kn.ViewOp)]
    assert sorted(alignment_of(op.result) for op in views) == [2, 16]
