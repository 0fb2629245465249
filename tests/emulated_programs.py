"""Programs of the builder, run by the interpreter and as generated CUDA on the CPU's emulator.

What tests say of generated kernels is checked later, when those of several files are compiled as
one program (``checked_later``).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from cases.build import compile_emulated
from checked_later import CheckedLater
from fuzz.emulated import ENOUGH

import mugraph.build as mi
from mugraph.reading import make_context
from mugraph.runtime.batch import batch_source
from mugraph.runtime.cuda import CudaProgram, generate_cuda
from mugraph.runtime.execute import CudaModule
from mugraph.runtime.interpreter import run_function

Array = Any

TYPES = {
    "float16": mi.float16,
    "bfloat16": mi.bfloat16,
    "float32": mi.float32,
    "float8_e4m3fn": mi.float8_e4m3fn,
    "float8_e5m2": mi.float8_e5m2,
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


@dataclass(frozen=True)
class Said:
    """Generated CUDA, and what a test says of its kernels."""

    made: CudaProgram
    check: Callable[[CudaModule], None]


def _check(said: Sequence[Said]) -> list[Exception | None]:
    sources = list(dict.fromkeys(each.made.source for each in said))
    library = compile_emulated(batch_source(sources))
    failures: list[Exception | None] = []
    for each in said:
        try:
            number = sources.index(each.made.source)
            each.check(CudaModule(library, each.made.signature, member=number))
            failures.append(None)
        except Exception as error:
            failures.append(error)
    return failures


KERNELS = CheckedLater(_check, enough=ENOUGH)


def check_emulated_later(made: CudaProgram, check: Callable[[CudaModule], None]) -> None:
    """Has the kernels checked later, compiled with those of other tests.

    Skips the test where no compiler is.
    """
    if shutil.which("g++") is None:
        pytest.skip("no g++ on this machine: no kernel was emulated")
    KERNELS.add(Said(made, check))


def emulated(program: Callable[..., Any], *inputs: Array) -> list[Array]:
    """The results, each operator rounding as its kernel does.

    That generated kernels compute the same is checked later.
    """
    results = interpreted(program, *inputs)

    def check(kernels: CudaModule) -> None:
        for output, expected in zip(kernels.run(list(inputs)), results, strict=True):
            np.testing.assert_array_equal(output, expected)
            assert output.dtype == expected.dtype

    check_emulated_later(made_of(program, *inputs), check)
    return results


def made_of(program: Callable[..., Any], *inputs: Array) -> CudaProgram:
    """The generated CUDA of a program."""
    return generate_cuda(graph_of(program, *inputs).module(), make_context(), "sm_90a")
