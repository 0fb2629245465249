"""Programs of which a concatenation is computed part by part."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from fuzz.programs import launches_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph.build as mi
from mugraph.dialects import kn
from mugraph.passes.compile import compile_pipeline
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.choice import take_apart
from mugraph.passes.program.fuse_kernels.concatenations import take_concatenations_apart
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda, only_function
from mugraph.runtime.equivalence.prove import prove
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

PAST, WIDTH = 255, 64
STEP = ((4, 1, WIDTH), (4, PAST, WIDTH), (4, 1, WIDTH), (4, PAST, WIDTH), (4, 1, WIDTH))


def program(body: Callable[..., Any], shapes: Any, dtype: Any = mi.float16) -> ModuleOp:
    graph = mi.KernelGraph()
    results: Any = body(*(graph.new_input(shape, dtype=dtype) for shape in shapes))
    whole: list[Any] = [*results] if isinstance(results, tuple) else [results]
    for result in whole:
        graph.mark_output(result)
    return graph.module()


def step_of_decoding(q: Any, past_k: Any, k: Any, past_v: Any, v: Any) -> Any:
    """One query sees the keys before it and its own."""
    keys, values = mi.concat(past_k, k, 1), mi.concat(past_v, v, 1)
    return mi.softmax(q @ mi.transpose(keys) * 0.125) @ values


def step_with_cache(q: Any, past_k: Any, k: Any, past_v: Any, v: Any) -> Any:
    """The same; the longer cache is a result."""
    keys, values = mi.concat(past_k, k, 1), mi.concat(past_v, v, 1)
    return mi.softmax(q @ mi.transpose(keys) * 0.125) @ values, keys, values


def in_float64(q: Any, past_k: Any, k: Any, past_v: Any, v: Any) -> Any:
    keys, values = np.concatenate((past_k, k), axis=1), np.concatenate((past_v, v), axis=1)
    scores = q @ np.swapaxes(keys, 1, 2) * 0.125
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p @ values / p.sum(axis=-1, keepdims=True)


def drawn() -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float16) for shape in STEP]


@cache
def fused_step_of_decoding() -> ModuleOp:
    """With its kernels; it is only read."""
    fused = program(step_of_decoding, STEP)
    fuse_program(only_function(fused), target_named("h200"))
    return fused


def test_a_step_of_decoding_makes_no_longer_cache() -> None:
    module, fused = program(step_of_decoding, STEP), fused_step_of_decoding()
    assert launches_of(only_function(fused)) == 1
    proof = prove(only_function(module), only_function(fused))
    assert proof.holds, proof.reason
    arrays = drawn()
    (result,) = run_function(fused, None, arrays)
    expected = in_float64(*(each.astype(np.float64) for each in arrays))
    np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-3)


def test_generated_kernels_compute_a_step_of_decoding() -> None:
    module = fused_step_of_decoding().clone()
    context = make_context()
    PassPipeline(compile_pipeline("h200")).apply(context, module)
    arrays = drawn()
    expected = in_float64(*(each.astype(np.float64) for each in arrays))

    def check(kernels: CudaModule) -> None:
        (result,) = kernels.run(arrays)
        np.testing.assert_allclose(result, expected, rtol=1e-2, atol=2e-3)

    check_emulated_later(generate_cuda(module, context, "sm_90a"), check)


def apart(body: Callable[..., Any], shapes: Any, dtype: Any = mi.float16) -> ModuleOp:
    """The program as :func:`take_concatenations_apart` leaves it, proved to be the same."""
    module = program(body, shapes, dtype)
    taken = module.clone()
    take_apart(only_function(taken))
    take_concatenations_apart(only_function(taken))
    taken.verify()
    assert prove(only_function(module), only_function(taken)).holds
    return taken


def concatenations(module: ModuleOp) -> int:
    return sum(isinstance(op, kn.ConcatOp) for op in module.walk())


def test_a_cache_that_is_returned_is_made_for_that_alone() -> None:
    module = apart(step_with_cache, STEP)
    joined = [op for op in module.walk() if isinstance(op, kn.ConcatOp)]
    assert [[use.operation.name for use in op.result.uses] for op in joined] == [
        ["func.return"]
    ] * 2


PAIR = ((8, 40), (8, 1), (41, 16), (1, 41))


def product(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.concat(x, y, 1) @ w


def maximum(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction_max(mi.concat(y, x, 1) * row, 1)


def sum_of_squares(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.square(mi.concat(x, y, 1)), 1)


def part(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.silu(mi.concat(x, y, 1) + row)[:, 2:9]


def transposed(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.transpose(mi.concat(x, y, 1))[3:], 0)


def ahead(i: Any, j: Any) -> Any:
    return j - i - 3


def masked(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.mask(mi.concat(x, y, 1), ahead, 0.0), 1)


def reshaped(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.reshape(mi.concat(x, y, 1), (2, 4, 41)), 2)


COMBINED = [product, maximum, sum_of_squares, part, transposed, masked, reshaped]


@pytest.mark.parametrize("dtype", [mi.float16, mi.float32])
@pytest.mark.parametrize("body", COMBINED)
def test_what_combines_or_cuts_the_parts_needs_no_whole(
    body: Callable[..., Any], dtype: Any
) -> None:
    assert concatenations(apart(body, PAIR, dtype)) == 0


def returned(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.softmax(mi.concat(x, y, 1))


def of_two_long_parts(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.concat(x, x, 1), 1)


def scanned(x: Any, y: Any, w: Any, row: Any) -> Any:
    return mi.reduction(mi.cumsum(mi.concat(x, y, 1), 1), 1)


@pytest.mark.parametrize("body", [returned, of_two_long_parts, scanned])
def test_what_needs_the_whole_keeps_it(body: Callable[..., Any]) -> None:
    assert concatenations(apart(body, PAIR)) == 1
