"""Products of which parts are used apart and meet again, such as gate and up in one matrix."""

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
from mugraph.reading import make_context, parse_text
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


def turned(graph: mi.KernelGraph) -> Results:
    """Two parts of [tokens, 2, heads, d], with its dimensions in another order."""
    x, w = graph.new_input((32, 64)), graph.new_input((2 * 64, 64))
    y = mi.transpose(mi.reshape(x @ mi.transpose(w), (32, 2, 2, 32)), (1, 2, 0, 3))
    gate, up = (mi.reshape(y[number : number + 1, :, :, :], (2, 32, 32)) for number in range(2))
    return mi.sigmoid(gate) * up


def square(graph: mi.KernelGraph) -> Results:
    """A matrix times itself: one operand whole, the other in parts."""
    x = graph.new_input((WIDTH, WIDTH))
    y = x @ x
    return mi.silu(y[:, : WIDTH // 2]) * y[:, WIDTH // 2 :]


def module_of(program: Callable[[mi.KernelGraph], Results]) -> ModuleOp:
    graph = mi.new_kernel_graph(program.__name__)
    results = program(graph)
    for result in results if isinstance(results, tuple) else (results,):
        graph.mark_output(result)
    return graph.module()


@pytest.mark.parametrize("program", [halves, chunks, odd_halves, turned, square])
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


@pytest.mark.parametrize("program", [halves, chunks])
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


def test_parts_that_lead_to_results_of_their_own_stay() -> None:
    """A block would have columns of all of them, and they would only share a launch."""
    graph = mi.new_kernel_graph("heads")
    x, w = graph.new_input((ROWS, 128)), graph.new_input((128, 6 * 32))
    y = mi.reshape(x @ w, (ROWS, 6, 32))
    for first in (0, 2, 4):
        graph.mark_output(mi.rms_norm(y[:, first : first + 2, :], eps=1e-3))
    function = only_function(graph.module())
    take_apart(function)
    assert not has_packed_products(function)
    assert not unpack_products(function)


def test_parts_of_what_no_product_computes_stay() -> None:
    graph = mi.new_kernel_graph("halves")
    x, w = graph.new_input((ROWS, WIDTH)), graph.new_input((WIDTH, WIDTH))
    y = mi.exp(x)
    graph.mark_output((mi.silu(y[:, : WIDTH // 2]) * y[:, WIDTH // 2 :]) @ w[: WIDTH // 2, :])
    module = graph.module()
    before = str(module)
    assert not unpack_products(only_function(module))
    assert str(module).count("kn.slice") == before.count("kn.slice")


def test_a_view_is_aligned_to_what_stands_before_it() -> None:
    """Eight elements of f16 are 16 bytes, of which vectors are; four are eight."""
    function = only_function(module_of(odd_halves))
    take_apart(function)
    unpack_products(function)
    views = [op for op in function.walk() if isinstance(op, kn.ViewOp)]
    assert sorted(alignment_of(op.result) for op in views) == [2, 16]


def test_a_view_is_no_more_aligned_than_the_argument_that_it_is_of() -> None:
    module = parse_text(
        make_context(),
        """
        func.func @f(%x: tensor<4x8xf16, #cute.layout<(4,8):(8,1)>> {mugraph.alignment = 2 : i64})
            -> tensor<32xf16> {
          %v = kn.view %x : tensor<4x8xf16, #cute.layout<(4,8):(8,1)>>
              -> tensor<32xf16, #cute.layout<(32):(1)>>
          %y = kn.exp %v : tensor<32xf16, #cute.layout<(32):(1)>> -> tensor<32xf16>
          func.return %y : tensor<32xf16>
        }
        """,
        "f.mlir",
    )
    (view,) = (op for op in module.walk() if isinstance(op, kn.ViewOp))
    assert alignment_of(view.result) == 2


def test_a_part_of_windows_starts_where_it_has_room() -> None:
    """Element (0, 4) is element (3, 1), too; four rows start at the first."""
    module = parse_text(
        make_context(),
        """
        func.func @f(%x: tensor<4x8xf16, #cute.layout<(4,8):(1,1)>>) -> tensor<4x4xf16> {
          %v = kn.view %x from 4 : tensor<4x8xf16, #cute.layout<(4,8):(1,1)>>
              -> tensor<4x4xf16, #cute.layout<(4,4):(1,1)>>
          %y = kn.exp %v : tensor<4x4xf16, #cute.layout<(4,4):(1,1)>> -> tensor<4x4xf16>
          func.return %y : tensor<4x4xf16>
        }
        """,
        "f.mlir",
    )
    (view,) = (op for op in module.walk() if isinstance(op, kn.ViewOp))
    assert view.part_start() == (0, 4)
