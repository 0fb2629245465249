"""Programs of the builder, run by the interpreter and as generated CUDA on the CPU's emulator."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases.build import compile_emulated

import mugraph.build as mi
from mugraph.reading import make_context
from mugraph.runtime.cuda import generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

Array = Any

TYPES = {
    "float16": mi.float16,
    "bfloat16": mi.bfloat16,
    "float32": mi.float32,
    "float8_e4m3fn": mi.float8_e4m3fn,
    "int8": mi.int8,
    "int32": mi.int32,
    "int64": mi.int64,
    "bool": mi.bool_,
}


def graph_of(program: Callable[..., Any], *inputs: Array) -> mi.KernelGraph:
    """The graph of a program of tensors with the arrays' extents and types."""
    graph = mi.new_kernel_graph("program")
    tensors = [graph.new_input(x.shape, dtype=TYPES[x.dtype.name]) for x in inputs]
    made = program(*tensors)
    for result in made if isinstance(made, (list, tuple)) else [made]:
        graph.mark_output(result)
    return graph


def interpreted(program: Callable[..., Any], *inputs: Array) -> list[Array]:
    """The results, each operator rounding as its kernel does."""
    return run_function(graph_of(program, *inputs).module(), None, inputs)


def emulated(program: Callable[..., Any], *inputs: Array) -> list[Array]:
    """What the generated kernels compute, once it is known that a µGraph of them is the same."""
    outputs = generated(program, *inputs)
    for output, expected in zip(outputs, interpreted(program, *inputs), strict=True):
        np.testing.assert_array_equal(output, expected)
        assert output.dtype == expected.dtype
    return outputs


def generated(program: Callable[..., Any], *inputs: Array) -> list[Array]:
    """What the generated kernels compute."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no kernel was emulated")
    made = generate_cuda(graph_of(program, *inputs).module(), make_context(), "sm_90a")
    return CudaModule(compile_emulated(made.source), made.signature).run(list(inputs))
