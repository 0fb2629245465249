"""One workload on the GPU: inputs, reference, checks, times."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from benchmarks.commands import sentence
from benchmarks.h200.building import Build, TensorOf
from benchmarks.h200.checking import RIGHT, distance, judge_each
from benchmarks.h200.device import DEVICE
from benchmarks.h200.floors import floor_microseconds
from benchmarks.h200.jobs import (
    EXPECTED_SECONDS,
    NO_TIME_LEFT,
    OURS_SECONDS,
    PEER_SECONDS,
    Job,
    Step,
)
from benchmarks.h200.kernels import Ours
from benchmarks.h200.peers import Peer
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.practical_floor import tuned_read_call
from benchmarks.h200.records import READ, SAME_AS, Record, System
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import Captured, interleaved, prepared
from benchmarks.h200.workloads import Workload
from benchmarks.programs.families import several
from benchmarks.references import FP32_EXPONENT, LARGEST_EXPONENT
from mugraph.codegen.c_abi import CTensor
from mugraph.passes.targets import target_named

SEED = 20261121
OVERFLOWING = "overflowing inputs: "
"""How a status begins that is about :attr:`Workload.overflowing`."""


def random_inputs(
    tensors: Sequence[TensorOf | CTensor], scales: Sequence[float], shifts: Sequence[float] = ()
) -> Any:
    """Normal random numbers times each input's scale, plus its shift, in its type, on the GPU."""
    import torch

    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(SEED)

    def one(tensor: TensorOf | CTensor, scale: float, shift: float) -> Any:
        normal = torch.randn(tensor.shape, generator=generator, device=DEVICE)
        return (normal * scale + shift).to(dtype_of(tensor))

    return tuple(map(one, tensors, scales, shifts or (0.0,) * len(scales)))


def dtype_of(tensor: TensorOf | CTensor) -> Any:
    """Torch's type of a tensor's elements."""
    import torch

    return {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[tensor.element_type]


def reference_of(workload: Workload, inputs: Sequence[Any]) -> Any:
    """The workload's function in float64."""
    import torch

    return workload.reference(torch, *(tensor.double() for tensor in inputs))


def status_with(overflowing: str) -> str:
    """The status of what is right on usual inputs, given what is said of those that overflow."""
    return RIGHT if not overflowing or overflowing.startswith(RIGHT) else OVERFLOWING + overflowing


@cache
def settle() -> None:
    """Once in a process: leaves what torch's modules hold out of later collections of garbage.

    Capturing a CUDA graph collects garbage first; with torch's modules that takes a good part of
    the time of a run.
    """
    import torch

    torch.cuda.init()
    gc.collect()
    gc.freeze()


def measure(job: Job, begin: Callable[[Step], None]) -> Record:
    """Measures one workload; raises where the GPU cannot be used any more."""
    import torch

    settle()
    begin(Step("inputs", PEER_SECONDS))
    workload, tensors = job.workload, job.tensors[:-1]
    inputs = random_inputs(tensors, workload.scales)
    expected = [reference_of(workload, inputs)]
    dtype = dtype_of(job.tensors[-1])
    check = None if workload.overflowing is None else partial(check_overflowing, job)
    record = measured(job, begin, inputs, expected, dtype, job.peers, further_check=check)
    gc.collect()
    torch.cuda.empty_cache()
    return record


def check_overflowing(job: Job, ours: Ours) -> str:
    """What is to be said of inputs that overflow; empty where the function has no such."""
    workload, tensors = job.workload, job.tensors[:-1]
    overflowing = workload.overflowing
    if overflowing is None:
        return ""
    import torch

    inputs = random_inputs(tensors, overflowing.scales, overflowing.shifts)
    wide = tuple(tensor.double() for tensor in inputs)
    largest = LARGEST_EXPONENT[workload.reference](torch, *wide)
    if largest <= FP32_EXPONENT:
        return f"unknown: the largest exponent, {largest:.1f}, does not overflow"
    expected = workload.reference(torch, *wide)
    dtype = dtype_of(job.tensors[-1])
    # The scores are tensors of the µGraph: it lets them be rounded to their type once.
    rounded = workload.reference(torch, *wide, rounded=lambda s: s.to(dtype).double())
    rounding = distance(torch, rounded, expected).relative_error
    verdict = ours.check(inputs, expected, dtype, ours.build.tolerance + rounding)
    if not verdict.right:
        return verdict.status
    return (
        f"{RIGHT}, error {verdict.relative_error:.1e}, exponents up to {largest:.0f} (error of "
        f"rounding the scores alone: {rounding:.1e})"
    )


def measured(
    job: Job,
    begin: Callable[[Step], None],
    inputs: tuple[Any, ...],
    expected: Sequence[Any],
    dtype: Any,
    peers: Sequence[Peer],
    sample_microseconds: float | None = None,
    further_check: Callable[[Ours], str] | None = None,
) -> Record:
    """Checks and times what was built of one program, and its peers, on inputs on the GPU.

    ``expected`` are the results in float64, ``dtype`` is torch's type of all results.
    ``sample_microseconds`` is how long the samples of a round should take together, at most: those
    of long graphs are fewer then.  ``further_check`` says what is found of builds that are right
    otherwise.  Raises where the GPU cannot be used any more.
    """
    import torch

    flat = torch.cat([result.reshape(-1) for result in expected])
    total = sum(tensor.bytes for tensor in job.tensors)
    sets = [inputs] + [tuple(map(torch.clone, inputs)) for _ in range(set_count(total) - 1)]
    floor = floor_microseconds(total, job.workload.flop, target_named(job.facts["arch"]))
    record = Record(job.workload.name, job.facts, total, floor)
    graphs: dict[str, Captured] = {}
    kernels: dict[str, Ours] = {}

    def add(system: System, seconds: float, prepare: Callable[[], Captured | None]) -> None:
        record.add(job.failed.get(system.name, system))
        if system.name in job.failed or system.status != RIGHT:
            return
        left = job.end - time.time()
        begin(Step(system.name, min(seconds, max(left, OURS_SECONDS))))
        try:
            if (graph := prepare()) is not None:
                graphs[system.name] = graph
        except Exception as error:  # the others are measured nevertheless
            system.status = sentence(error)
            torch.cuda.synchronize()  # raises where the GPU cannot be used any more

    def ours(system: System, built: Build) -> Captured | None:
        kernel = kernels[system.name] = Ours(built)
        verdict = kernel.check(inputs, flat, dtype)
        system.status, system.relative_error = verdict.status, verdict.relative_error
        if verdict.right and further_check is not None:
            system.overflowing = further_check(kernel)
            if system.name == OURS:
                system.status = status_with(system.overflowing)
        if system.status != RIGHT:
            return None
        return prepared(kernel.call(sets, dtype), len(sets))

    def others(system: System, peer: Peer) -> Captured | None:
        torch.compiler.reset()
        start = time.perf_counter()
        with torch.inference_mode():
            function = peer.ready()
            given = [inputs if peer.prepare is None else peer.prepare(inputs) for inputs in sets]
            results = function(*given[0])
            if peer.same_function:
                verdict = judge_each(torch, several(results), expected, job.tolerance)
                system.status, system.relative_error = verdict.status, verdict.relative_error
            if system.status != RIGHT:
                return None
            graph = prepared(lambda index: function(*given[index]), len(sets))
        system.note = f"ready in {time.perf_counter() - start:.1f} s"
        return graph

    def reads(system: System) -> Captured:
        assert job.library is not None
        call, system.note = tuned_read_call(job.library, total, len(sets))
        return prepared(call, len(sets))

    for built in job.builds:
        variant = built.task.variant
        status = built.error or (RIGHT if built.same_as is None else SAME_AS + built.same_as)
        system = System(variant.name, status, pipeline=variant.pipeline)
        system.kernels, system.progress = list(built.kernels), list(built.progress)
        system.note = f"transpiled in {built.transpile_seconds:.2f} s"
        add(system, OURS_SECONDS, lambda system=system, built=built: ours(system, built))
    if job.library is not None:
        system = System(READ, RIGHT)
        add(system, OURS_SECONDS, lambda system=system: reads(system))
    for peer in peers:
        system = System(peer.name, RIGHT, is_peer=peer.same_function)
        if job.end - time.time() < EXPECTED_SECONDS[peer.level]:
            system.status = NO_TIME_LEFT
        add(system, PEER_SECONDS, lambda system=system, peer=peer: others(system, peer))
    names = list(graphs)
    samples = interleaved(
        list(graphs.values()),
        lambda index: begin(Step(names[index], OURS_SECONDS)),
        sample_microseconds,
    )
    for name, values in zip(names, samples, strict=True):
        system = record.systems[name]
        if name in kernels:
            begin(Step(name, OURS_SECONDS))
            system.status = kernels[name].check_calls(graphs[name].graph.replay).status
        if system.status == RIGHT:
            system.set_samples(values)
    return record
