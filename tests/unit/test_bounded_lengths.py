"""Lengths in device memory of which a call says a bound: each range of bounds has its kernels."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from emulated_programs import check_emulated_later
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

import mugraph
import mugraph.build as mi
from mugraph.build.errors import BuildError
from mugraph.codegen.c_abi import interface_of, print_header
from mugraph.codegen.cuda import find_function, print_module
from mugraph.jit.arguments import ArgumentError, place_of
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.errors import ExecutionError

Array = Any
RANDOM = np.random.default_rng(20)
SEQUENCES, KEYS = 5, 300
CALLS = ((1, 16, 3), (5, 90, 90), (3, KEYS, 200), (2, 100, 0), (2, 0, 0), (2, KEYS, 10))
"""Sequences, the bound of keys, and how many there are."""


def extent(graph: mi.KernelGraph, buckets: tuple[int, ...] = (16, 100)) -> mi.Extent:
    length = graph.new_input((1,), dtype=mi.int32, name="length")
    return mi.Extent("n", largest=KEYS, held=length, buckets=buckets)


def decode() -> mi.KernelGraph:
    graph = mi.new_kernel_graph("decode")
    sequences, n = mi.Extent("b", largest=SEQUENCES, buckets=(2,)), extent(graph)
    q = graph.new_input((sequences, 2, 4, 32), name="q")
    k, v = (graph.new_input((sequences, 2, n, 32), name=name) for name in "kv")
    scores = graph.matmul(q, graph.transpose(k, [0, 1, 3, 2]), dtype=mi.float32)
    graph.mark_output(mi.cast(mi.softmax(scores * 32**-0.5, 3), mi.float16) @ v)
    return graph


@cache
def scheduled() -> ModuleOp:
    return compiled(decode())


def compiled(graph: mi.KernelGraph) -> ModuleOp:
    module = graph.module()
    PassPipeline(compile_pipeline("sm_90a")).apply(make_context(), module)
    module.verify()
    return module


def arguments(sequences: int, bound: int, keys: int) -> list[Array]:
    """Those of a call; what lies behind the keys is NaN."""
    q = RANDOM.standard_normal((sequences, 2, 4, 32)).astype(np.float16)
    k, v = (np.full((sequences, 2, bound, 32), np.nan, np.float16) for _ in "kv")
    k[:, :, :keys], v[:, :, :keys] = RANDOM.standard_normal((2, sequences, 2, keys, 32))
    return [np.array([keys], np.int32), q, k, v]


def require_attention(found: Array, call: list[Array]) -> None:
    (keys,), q, k, v = (each.astype(np.float64) for each in call)
    k, v = (each[:, :, : int(keys)] for each in (k, v))
    if not keys:
        assert not found.any()  # a sum over no keys, not 0 / 0
        return
    powers = np.exp(q @ k.swapaxes(2, 3) * 32**-0.5)
    np.testing.assert_allclose(
        found, powers / powers.sum(-1, keepdims=True) @ v, rtol=1e-2, atol=1e-2
    )


def test_every_level_computes_the_same_under_every_bound() -> None:
    source = decode().module()
    for sizes in CALLS:
        call = arguments(*sizes)
        for module in (source, scheduled()):
            (found,) = run_function(module, None, call)
            require_attention(found, call)


def test_kernels_under_every_bound() -> None:
    def check(kernels: CudaModule) -> None:
        for sizes in CALLS:
            call = arguments(*sizes)
            (found,) = kernels.run(call)
            require_attention(found, call)

    check_emulated_later(generate_cuda(scheduled().clone(), make_context(), "sm_90a"), check)


def test_a_call_takes_the_first_kernels_that_hold_its_bound() -> None:
    text = print_module(scheduled())
    assert "if (extent_b <= 2 && extent_n <= 16) return execute_decode_b2_n16(" in text
    assert "if (extent_b == 0) return;" in text  # of no keys there is a result
    header = print_header(interface_of(find_function(scheduled())))
    assert "n: 0 to 300, at least what length holds; tensors have room for 300" in header


def test_tensors_have_the_strides_of_the_largest_value() -> None:
    kernel = mugraph.compile(decode(), "cpu")
    length, q, k, v = arguments(2, KEYS, 90)
    call = [length, q, k[:, :, :100], v[:, :, :100]]
    require_attention(kernel(*call), call)
    with pytest.raises(ArgumentError, match="has strides"):
        kernel(*map(np.ascontiguousarray, call))


def test_a_bound_of_torch_is_a_part_of_enough_memory() -> None:
    torch = pytest.importorskip("torch")
    graph = mi.new_kernel_graph("sums")
    rows = extent(graph)
    graph.mark_output(mi.reduction(graph.new_input((rows, 8), name="x"), 0))
    kernel = mugraph.compile(graph, "cpu")
    x = torch.ones(KEYS, 8, dtype=torch.float16)
    for bound, rows in ((100, 7), (KEYS, KEYS), (0, 0)):
        found = kernel(torch.tensor([rows], dtype=torch.int32), x[:bound])
        assert (found == rows).all()
    with pytest.raises(ArgumentError, match="has memory for 1600 bytes, expected 4800"):
        kernel(torch.tensor([7], dtype=torch.int32), x[:100].clone())
    # An address of no elements is what torch says is 0.
    (part,) = (tensor for tensor in kernel.interface.at({"n": 0}).inputs if tensor.is_part)
    assert place_of("input", 1, part, x[:0]) == x.data_ptr()


def test_what_cannot_be_is_refused() -> None:
    call = arguments(2, 50, 50)
    call[0][0] = 51
    with pytest.raises(ExecutionError, match="reads the length 51; it may be 0 to 50"):
        run_function(decode().module(), None, call)
    call[2] = call[2][:, :, :40]
    with pytest.raises(ExecutionError, match="both are 'n' and must be equal"):
        run_function(decode().module(), None, call)
    graph = mi.new_kernel_graph("refused")
    graph.mark_output(graph.new_input((4, extent(graph, (1,)))) * 2)
    with pytest.raises(BuildError, match="a largest value, and buckets, of at least 2"):
        graph.module()
    graph = mi.new_kernel_graph("refused")
    graph.mark_output(graph.new_input((4, extent(graph))) * 2)
    with pytest.raises(BuildError, match="a call cannot say what it is at most"):
        graph.module()
