"""Casts on a GPU, by bits: all codes of narrow types, and numbers around all halfway points."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from narrow_codes import around_halves, codes

import mugraph
import mugraph.build as mi
from mugraph.runtime.interpreter import run_function

torch = pytest.importorskip("torch")
Array = npt.NDArray[Any]
TYPES: dict[str, tuple[Any, Any]] = {
    "e4m3": (mi.float8_e4m3fn, ml_dtypes.float8_e4m3fn),
    "e5m2": (mi.float8_e5m2, ml_dtypes.float8_e5m2),
    "i8": (mi.int8, np.int8),
    "f16": (mi.float16, np.float16),
    "bf16": (mi.bfloat16, ml_dtypes.bfloat16),
}
NARROW = ("e4m3", "e5m2", "i8")


def on_gpu(array: Array) -> Any:
    """The same bytes as a tensor."""
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8)).cuda()
    return raw.view(getattr(torch, array.dtype.name))


def assert_equal_bits(graph: mi.KernelGraph, array: Array, arch: str) -> None:
    """The interpreter's bits and the GPU's, of results that are not NaN; NaN where that is."""
    expected = run_function(graph.module(), None, [array])
    results: Any = mugraph.compile(graph, arch)(on_gpu(array))
    for one, other in zip(
        results if isinstance(results, tuple) else (results,), expected, strict=True
    ):
        ours = one.contiguous().view(torch.uint8).cpu().numpy().view(other.dtype)
        nan = np.isnan(other.astype(np.float32))
        assert np.isnan(ours.astype(np.float32))[nan].all()
        width = f"uint{8 * other.dtype.itemsize}"
        np.testing.assert_array_equal(ours[~nan].view(width), other[~nan].view(width))


def padded(array: Array) -> Array:
    """With zeros up to whole vectors."""
    return np.concatenate([array, np.zeros(-len(array) % 64, array.dtype)])


@pytest.mark.parametrize("name", TYPES)
def test_numbers_around_halves_round_as_the_interpreter_rounds_them(
    name: str, gpu_architecture: str
) -> None:
    numbers = padded(around_halves(TYPES[name][1]))
    graph = mi.new_kernel_graph("narrowed")
    x = graph.new_input(numbers.shape, dtype=mi.float32)
    graph.mark_output(mi.cast(x, TYPES[name][0]))
    assert_equal_bits(graph, numbers, gpu_architecture)


@pytest.mark.parametrize("source", NARROW)
def test_every_code_becomes_what_the_interpreter_makes_of_it(
    source: str, gpu_architecture: str
) -> None:
    every = codes(TYPES[source][1])
    graph = mi.new_kernel_graph("recoded")
    x = graph.new_input(every.shape, dtype=TYPES[source][0])
    for target in TYPES:
        if target != source:
            graph.mark_output(mi.cast(x, TYPES[target][0]))
    assert_equal_bits(graph, every, gpu_architecture)


def test_every_byte_holds_what_the_interpreter_finds_in_it(gpu_architecture: str) -> None:
    every = np.arange(256).astype(np.uint8).view(np.int8)
    graph = mi.new_kernel_graph("unpacked")
    x = graph.new_input(every.shape, dtype=mi.int8)
    for format in ("uint8", "uint4", "int4", "fp4", "nf4"):
        graph.mark_output(mi.unpack(x, format))
    assert_equal_bits(graph, every, gpu_architecture)
