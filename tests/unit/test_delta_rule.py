"""``kn.recurrence``: step by step, and the delta rule in chunks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

import mugraph.build as mi
from mugraph.build.errors import BuildError
from mugraph.dialects import kn
from mugraph.dialects.tensor_types import shape_of
from mugraph.passes.program.chunk_scans import chunk_scans
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.choice import find_kernels
from mugraph.passes.targets import target_named
from mugraph.reading import make_context, parse_text
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter import run_function

New = Callable[..., mi.DTensor]
Program = Callable[[New], mi.DTensor]
H200 = target_named("h200")


def module_of(program: Program) -> ModuleOp:
    graph = mi.new_kernel_graph("recurrence")
    graph.mark_output(program(lambda *shape: graph.new_input(shape, dtype=mi.float32)))
    return graph.module()


def inputs_of(function: FuncOp) -> list[np.ndarray]:
    generator = np.random.default_rng(1)
    return [
        generator.uniform(-0.5, 0.5, shape_of(argument.type)).astype(np.float32)
        for argument in function.body.block.args
    ]


def require_same(module: ModuleOp, other: ModuleOp) -> None:
    inputs = inputs_of(only_function(module))
    (wanted,), (found,) = (run_function(each, None, inputs, "float64") for each in (module, other))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


def kernels_of(module: ModuleOp) -> list[kn.CustomizedOp]:
    return [op for op in module.walk() if isinstance(op, kn.CustomizedOp)]


def many_dimensions(new: New) -> mi.DTensor:
    """More than a grid has; decays of each row, matrices that some heads share."""
    x, decay = new(2, 3, 2, 4, 5, 6), new(2, 1, 1, 4, 5, 1)
    return mi.scan(x, decay, dim=3, matrix=new(1, 3, 1, 4, 5, 5))


@pytest.mark.parametrize("exclusive", [False, True])
def test_step_by_step(exclusive: bool) -> None:
    def program(new: New) -> mi.DTensor:
        x, decay, matrix = new(4, 3, 5, 6), new(4, 1, 1, 1), new(4, 3, 5, 5)
        return mi.scan(x, decay, dim=0, matrix=matrix, exclusive=exclusive)

    module = module_of(program)
    inputs = inputs_of(only_function(module))
    x, decay, matrix = (each.astype(np.float64) for each in inputs)
    state, states = np.zeros((3, 5, 6)), [np.zeros((3, 5, 6))]
    for t in range(4):
        state = decay[t] * state + matrix[t] @ state + x[t]
        states.append(state)
    (found,) = run_function(module, None, inputs, "float64")
    np.testing.assert_allclose(found, states[:4] if exclusive else states[1:], atol=1e-12)


def test_columns_that_several_steps_add_to() -> None:
    types = (
        "tensor<2x4x3x6xf32>",
        "tensor<2x4x3x5xf32>",
        "tensor<2x4x5x3xf32>",
        "tensor<2x4x5x6xf32>",
    )
    x, matrix, columns, states = types
    module = parse_text(
        make_context(),
        f"""
        func.func @f(%x: {x}, %m: {matrix}, %c: {columns}) -> {states} {{
          %h = kn.recurrence %x plus %m columns %c : {columns} dim 1 : ({x}, {matrix}) -> {states}
          func.return %h : {states}
        }}""",
        "recurrence",
    )
    inputs = inputs_of(only_function(module))
    added, read, written = (each.astype(np.float64) for each in inputs)
    state, expected = np.zeros((2, 5, 6)), list[np.ndarray]()
    for t in range(4):
        state = state + written[:, t] @ (added[:, t] + read[:, t] @ state)
        expected.append(state)
    (found,) = run_function(module, None, inputs, "float64")
    np.testing.assert_allclose(found, np.stack(expected, 1), atol=1e-12)


def test_more_dimensions_than_a_grid_has() -> None:
    module = module_of(many_dimensions)
    inputs = inputs_of(only_function(module))
    x, decay, matrix = (each.astype(np.float64) for each in inputs)
    state, states = np.zeros((2, 3, 2, 5, 6)), list[np.ndarray]()
    for t in range(4):
        state = decay[:, :, :, t] * state + matrix[:, :, :, t] @ state + x[:, :, :, t]
        states.append(state)
    (found,) = run_function(module, None, inputs, "float64")
    np.testing.assert_allclose(found, np.stack(states, 3), atol=1e-12)


def without_decay(new: New) -> mi.DTensor:
    q, k, v = new(2, 128, 24, 1), new(2, 128, 24, 1), new(2, 128, 1, 32)
    removed = k * mi.reshape(k, (2, 128, 1, 24)) * -0.5
    return mi.reduction(mi.scan(k * v, dim=1, matrix=removed) * q, dim=2)


def tokens_first(new: New) -> mi.DTensor:
    q, k, v = new(96, 3, 1, 16), new(96, 3, 16, 1), new(96, 3, 1, 20)
    a, b = mi.sigmoid(new(96, 3, 1, 1)), mi.sigmoid(new(96, 3, 1, 1))
    removed = (k * (a * b * -1.0)) @ mi.transpose(k)
    return q @ mi.scan(k @ (v * b), a, dim=0, matrix=removed)


def batches_of_heads(new: New) -> mi.DTensor:
    q, k, v = new(2, 2, 64, 1, 16), new(2, 2, 64, 16, 1), new(2, 2, 64, 1, 16)
    a, b = mi.exp(new(2, 2, 64, 1, 1)), mi.sigmoid(new(2, 2, 64, 1, 1))
    removed = (k * -1.0) @ mi.transpose(k) * (a * b)
    return q @ mi.scan(k @ (v * b), a, dim=2, matrix=removed)


def heads_share_keys(new: New) -> mi.DTensor:
    q, k, v = new(96, 1, 16, 1), new(96, 1, 16, 1), new(96, 3, 1, 20)
    a, b = mi.exp(new(96, 3, 1, 1)), mi.sigmoid(new(96, 3, 1, 1))
    removed = k * mi.reshape(k, (96, 1, 1, 16)) * (a * b * -1.0)
    return mi.reduction(mi.scan(k * (v * b), a, dim=0, matrix=removed) * q, dim=2)


def rows_of_their_own(new: New) -> mi.DTensor:
    """What is removed is read by other rows than the keys; one decay for all time."""
    q, k, v, w = new(2, 64, 24, 1), new(2, 64, 24, 1), new(2, 64, 1, 32), new(2, 64, 1, 24)
    state = mi.scan(k * v, mi.exp(new(2, 1, 1, 1)), dim=1, matrix=k * w * -0.5)
    return mi.reduction(state * q, dim=2)


RULES = (without_decay, tokens_first, batches_of_heads, heads_share_keys, rows_of_their_own)


@pytest.mark.parametrize("program", RULES, ids=lambda program: program.__name__)
def test_chunks_are_the_recurrence(program: Program) -> None:
    module = module_of(program)
    chunked = module.clone()
    assert not chunk_scans(only_function(chunked))
    (left,) = (op for op in chunked.walk() if isinstance(op, kn.RecurrenceOp))
    assert left.is_exclusive and shape_of(left.result.type)[left.reduced_dim] <= 4
    require_same(module, chunked)


def test_equal_keys_do_not_lose_the_result_to_cancellation() -> None:
    """Powers of the triangle of a chunk grow as binomial coefficients; its inverse does not."""
    module = module_of(without_forgetting)
    function = only_function(module)
    q, key, v = inputs_of(function)
    key[:] = 0.25  # of length 1
    (exact,) = run_function(module, None, [q, key, v], "float64")
    assert not chunk_scans(function)
    (found,) = run_function(module, None, [q, key, v])
    np.testing.assert_allclose(found, exact, atol=1e-4 * np.abs(exact).max())


def without_forgetting(new: New) -> mi.DTensor:
    q, k, v = new(1, 128, 16, 1), new(1, 128, 16, 1), new(1, 128, 1, 16)
    removed = k * mi.reshape(k, (1, 128, 1, 16)) * -1.0
    return mi.reduction(mi.scan(k * v, dim=1, matrix=removed) * q, dim=2)


@pytest.mark.parametrize("program", RULES, ids=lambda program: program.__name__)
def test_few_kernels_are_found_and_no_state_of_a_token_is_made(program: Program) -> None:
    module = module_of(program)
    fused = module.clone()
    fuse_program(only_function(fused), H200)
    fused.verify()
    assert len(kernels_of(fused)) <= 6
    require_same(module, fused)


def every_state(new: New) -> mi.DTensor:
    k = new(2, 64, 16, 1)
    added = k * new(2, 64, 1, 16)
    return mi.scan(added, mi.exp(new(2, 64, 1, 1)), dim=1, matrix=k * new(2, 64, 1, 16))


def other_columns(new: New) -> mi.DTensor:
    q, k, v = new(2, 64, 16, 1), new(2, 64, 16, 1), new(2, 64, 1, 16)
    matrix = new(2, 64, 16, 1) * new(2, 64, 1, 16)
    return mi.reduction(q * mi.scan(k * v, mi.exp(new(2, 64, 1, 1)), dim=1, matrix=matrix), dim=2)


def decays_of_rows(new: New) -> mi.DTensor:
    q, k, v = new(2, 64, 16, 1), new(2, 64, 16, 1), new(2, 64, 1, 16)
    matrix = k * new(2, 64, 1, 16)
    return mi.reduction(q * mi.scan(k * v, mi.exp(new(2, 64, 16, 1)), dim=1, matrix=matrix), dim=2)


@pytest.mark.parametrize("program", [every_state, other_columns, decays_of_rows, many_dimensions])
def test_what_stays_step_by_step_says_so(program: Program) -> None:
    module = module_of(program)
    fused = module.clone()
    (reason,) = find_kernels(only_function(fused), H200).sequential
    cut = "no two chunks" if program is many_dimensions else "is no delta rule"
    assert "'kn.recurrence'" in reason and cut in reason
    assert any(kernel.forloop_range in (4, 64) for kernel in kernels_of(fused))


def powers(new: New, count: int) -> mi.DTensor:
    x = new(6, 32, 32)
    for _ in range(count):
        x = x @ x
    return x


def test_a_long_chain_on_a_stack_of_small_matrices_is_one_kernel() -> None:
    """Of squares, which no search has in a kernel; few are left to it."""
    module = module_of(lambda new: powers(new, 9))
    fused = module.clone()
    fuse_program(only_function(fused), H200)
    (kernel,) = kernels_of(fused)
    assert math.prod(kernel.grid_dim) == 6
    require_same(module, fused)
    few = module_of(lambda new: powers(new, 3))
    fuse_program(only_function(few), H200)
    assert len(kernels_of(few)) != 1


def test_what_is_no_recurrence_of_matrices() -> None:
    with pytest.raises(BuildError, match=r"the matrix .* has 2x8x4x5, expected 2x8x4x4"):
        module_of(lambda new: mi.scan(new(2, 8, 4, 6), dim=1, matrix=new(2, 8, 4, 5)))
    with pytest.raises(BuildError, match="steps go along dimension 2 of 2x8x4x6, whose last two"):
        module_of(lambda new: mi.scan(new(2, 8, 4, 6), dim=2, matrix=new(2, 8, 4, 4)))
    with pytest.raises(BuildError, match=r"the decay .* has 2x8x4x6, expected 2x8x4x1"):
        module_of(
            lambda new: mi.scan(new(2, 8, 4, 6), new(2, 8, 4, 6), dim=1, matrix=new(2, 8, 4, 4))
        )
