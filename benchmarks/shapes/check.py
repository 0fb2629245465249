"""Drawn shapes without a GPU: planned at their size, and interpreted at a small one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from xdsl.passes import PassPipeline

from benchmarks.commands import sentence
from benchmarks.shapes.draw import ELEMENT_TYPES, Shape
from mugraph.codegen.cuda import print_module
from mugraph.dialects import kn, sched
from mugraph.passes.compile import planned_then_scheduled
from mugraph.passes.sequence import verifying
from mugraph.passes.transpile import LEVEL_ENDS
from mugraph.reading import make_context
from mugraph.runtime.compare import Comparison, compare, tolerance_for
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import storage_dtype
from mugraph.runtime.interpreter.run import random_elements

SEED = 11


@dataclass(frozen=True)
class Checked:
    """What came of a shape; an empty ``problem`` where all is right."""

    name: str
    launches: int = 0
    """Kernels of ours at its size."""
    library_calls: int = 0
    """Products left to cuBLAS."""
    seconds: float = 0.0
    """From the program to CUDA text."""
    problem: str = ""


def check(shape: Shape, arch: str) -> Checked:
    """Makes CUDA text of a shape, and interprets its fused, planned kernels at a small size."""
    start = time.perf_counter()
    try:
        launches, library = kernels_of(shape, arch)
        seconds = time.perf_counter() - start
        wrong = [one for one in interpreted(shape.small, arch) if not one[0].holds(one[1])]
    except Exception as error:  # the others go on
        return Checked(shape.name, problem=sentence(error))
    problem = "; ".join(f"error {one.relative_error:.1e} in float64" for one, _ in wrong)
    return Checked(shape.name, launches, library, seconds, problem)


def kernels_of(shape: Shape, arch: str) -> tuple[int, int]:
    """How many kernels, and products left to the library, CUDA text of a shape has."""
    planned, scheduled = planned_then_scheduled(arch)
    module, context = shape.module(), make_context()
    verifying((*planned, *scheduled), LEVEL_ENDS).apply(context, module)
    print_module(module)
    ops = [*module.walk()]
    launches = sum(isinstance(op, sched.LaunchOp) for op in ops)
    return launches, sum(isinstance(op, kn.MatmulOp) for op in ops)


def interpreted(shape: Shape, arch: str) -> Iterable[tuple[Comparison, float]]:
    """How far planned kernels are from the reference, by tensors' types and in float64."""
    module = shape.module()
    PassPipeline(planned_then_scheduled(arch)[0]).apply(make_context(), module)
    dtype = storage_dtype(ELEMENT_TYPES[shape.element_type])
    inputs = [random_elements(each, dtype) for each in shape.random_inputs(SEED)]
    expected = shape.reference(*(each.astype(np.float64) for each in inputs))
    for precision in ("float64", "storage"):
        results = run_function(module, None, inputs, precision)
        # Factors and epsilons are rounded to fp32.
        allowed = 1e-6 if precision == "float64" else tolerance_for([dtype])
        for comparison in compare(results, expected):
            yield comparison, allowed
