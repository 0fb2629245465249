"""The µGraphs of the benchmarks: they compute their functions, before and after their passes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from thorough import THOROUGH
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from benchmarks.h200.building import Task, mugraph_of, progress_text, transpiled
from benchmarks.h200.floors import floor_microseconds
from benchmarks.h200.pipelines import PLANNED, Variant, flat_passes
from benchmarks.h200.workloads import FIRST_FOURTEEN, MUGRAPHS, WORKLOADS
from mugraph.dialects.sched import KernelOp
from mugraph.dialects.tensor_types import element_bytes_of, shape_of
from mugraph.reading import make_context
from mugraph.runtime.compare import TOLERANCE, compare
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence import Answer, Checker, Subject
from mugraph.runtime.interpreter import execute_by_address, run_function
from mugraph.tools.random_inputs import random_inputs

ARCH = "sm_90a"
AFFORDABLE = (
    "rmsnorm_bs1", "gated_mlp", "lora", "gqa_bs1", "qknorm_gqa_bs1", "mqa_bs1", "mha_bs1",
    "ntrans_bs8", "ntrans_bs1",
)  # fmt: skip
"""At full size; the others differ from one of them in the number of blocks."""


ALIKE = {
    "rmsnorm_bs8", "gqa_bs8", "qknorm_gqa_bs8", "mqa_bs8", "mha_bs8", "ntrans_bs8",
    "gemm4096_bf16", "gemm8192_f16", "gemm8192_bf16",
}  # fmt: skip
"""Those that differ from another in the number of blocks, or in which 16-bit floats they take."""
APART = [name for name in WORKLOADS if THOROUGH or name not in ALIKE]


@cache
def schedule_of(name: str) -> ModuleOp:
    """The workload after its pipeline."""
    workload = WORKLOADS[name]
    return transpiled(Task(workload, Variant(), ARCH))


def test_every_mugraph_is_a_workload() -> None:
    assert {path.stem for path in MUGRAPHS.glob("*.mlir")} == set(WORKLOADS)
    assert len(FIRST_FOURTEEN) == 14


@pytest.mark.parametrize(
    ("name", "microseconds"),
    [("rmsnorm_bs8", 11.95), ("lora", 0.56), ("mha_bs8", 63.6), ("ntrans_bs1", 0.06)],
)
def test_floor(name: str, microseconds: float) -> None:
    function = only_function(mugraph_of(WORKLOADS[name]))
    types = (*function.function_type.inputs, *function.function_type.outputs)
    total = sum(element_bytes_of(type_) * int(np.prod(shape_of(type_))) for type_ in types)
    floor = floor_microseconds(total, WORKLOADS[name].flop)
    assert floor == pytest.approx(microseconds, rel=0.03, abs=0.01)


@pytest.mark.parametrize("name", APART)
def test_passes_apply(name: str) -> None:
    mugraph_of(WORKLOADS[name]).verify()
    kernels = [op for op in schedule_of(name).walk() if isinstance(op, KernelOp)]
    assert kernels
    # Each is certified not to get stuck: by its channels, or for it has none.
    assert all(text.endswith(("steps end", "threads")) for text in map(progress_text, kernels))


@pytest.mark.parametrize("name", APART)
def test_repartitions_are_proved(name: str) -> None:
    workload = WORKLOADS[name]
    before = mugraph_of(workload)
    after = before.clone()
    passes = flat_passes(PLANNED, ARCH)
    steps = [step for step in passes if step.name in ("plan", "retile")]
    assert len(steps) == 4
    PassPipeline(tuple(steps)).apply(make_context(), after)
    verdict = Checker(Subject.of(before)).check(Subject.of(after))
    assert verdict.answer is Answer.PROVED, str(verdict)


@pytest.mark.parametrize("name", [name for name in AFFORDABLE if name in APART])
def test_function_against_float64(name: str) -> None:
    workload = WORKLOADS[name]
    module = mugraph_of(workload)
    inputs = random_inputs(only_function(module), workload.scales, seed=1)
    expected = workload.reference(np, *(array.astype(np.float64) for array in inputs))
    (comparison,) = compare(run_function(module, None, inputs), [expected])
    assert comparison.holds(TOLERANCE), comparison
    schedule = schedule_of(name)
    kernels = [op for op in schedule.walk() if op.name == "sched.kernel"]
    # Where one kernel is all there is, one block of it shows what all of them do.
    blocks = 1 if len(kernels) == 1 else None
    execution = execute_by_address(schedule, None, inputs, blocks=blocks)
    (comparison,) = compare(execution.outputs, [expected], execution.written)
    assert execution.written[0].any()
    assert comparison.holds(TOLERANCE), comparison
