"""One workload on the GPU: inputs, reference, checks, times."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.h200.anchors import floor_microseconds
from benchmarks.h200.building import Build, TensorOf
from benchmarks.h200.checking import RIGHT, distance, judge
from benchmarks.h200.device import DEVICE
from benchmarks.h200.kernels import Guarded, Ours
from benchmarks.h200.peers import Peer
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.practical_floor import tuned_read_call
from benchmarks.h200.records import READ, SAME_AS, Record, System
from benchmarks.h200.statistics import set_count
from benchmarks.h200.timing import Captured, interleaved, prepared
from benchmarks.h200.workloads import Workload
from benchmarks.references import FP32_EXPONENT, LARGEST_EXPONENT

SEED = 20261121
OVERFLOWING = "overflowing inputs: "
"""How a status begins that is about :attr:`Workload.overflowing`."""


def random_inputs(
    tensors: Sequence[TensorOf], scales: Sequence[float], shifts: Sequence[float] = ()
) -> Any:
    """Normal random numbers times each input's scale, plus its shift, in its type, on the GPU."""
    import torch

    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(SEED)

    def one(tensor: TensorOf, scale: float, shift: float) -> Any:
        normal = torch.randn(tensor.shape, generator=generator, device=DEVICE)
        return (normal * scale + shift).to(_dtype(tensor))

    return tuple(map(one, tensors, scales, shifts or (0.0,) * len(scales)))


def _dtype(tensor: TensorOf) -> Any:
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


class Measurement:
    """What is measured of one workload, step by step; ``record`` holds what is known so far."""

    def __init__(self, workload: Workload, tensors: Sequence[TensorOf], facts: dict[str, str]):
        inputs, outputs = tensors[:-1], tensors[-1:]
        self.workload = workload
        self._inputs = random_inputs(inputs, workload.scales)
        self._output = outputs[0]
        self._expected = reference_of(workload, self._inputs)
        total = sum(tensor.bytes for tensor in tensors)
        self._sets = set_count(total)
        self._rotated = [self._inputs] + [
            tuple(tensor.clone() for tensor in self._inputs) for _ in range(self._sets - 1)
        ]
        self._tensors = inputs
        self.record = Record(workload.name, facts, total, floor_microseconds(total, workload.flop))
        self._graphs: dict[str, Captured] = {}
        self._ours: dict[str, Ours] = {}

    def add_ours(self, name: str, build: Build) -> None:
        """Checks a build of ours and gets it ready; raises where it breaks this process."""
        import torch

        system = System(name, build.error or RIGHT, pipeline=describe(build))
        self.record.add(system)
        if build.same_as is not None:
            system.status = SAME_AS + build.same_as
        if build.error is not None or build.same_as is not None:
            return
        system.kernels, system.progress = list(build.kernels), list(build.progress)
        system.note = f"transpiled in {build.transpile_seconds:.2f} s"
        try:
            ours = Ours(build)
            verdict = ours.check(self._inputs, self._expected, _dtype(self._output))
            system.status, system.relative_error = verdict.status, verdict.relative_error
            if verdict.right:
                system.overflowing = self._check_overflowing(ours)
                if name == OURS:
                    system.status = status_with(system.overflowing)
            if system.status == RIGHT:
                call = ours.call(self._rotated, self._poisoned().tensor)
                self._graphs[name] = prepared(call, self._sets)
                self._ours[name] = ours
        except Exception as error:  # the others are measured nevertheless
            system.status = _sentence(error)
            torch.cuda.synchronize()  # raises where the GPU cannot be used any more

    def _poisoned(self) -> Guarded:
        return Guarded(self._output.shape, _dtype(self._output))

    def _check_overflowing(self, ours: Ours) -> str:
        """What is to be said of inputs that overflow; empty where the function has no such."""
        overflowing = self.workload.overflowing
        if overflowing is None:
            return ""
        import torch

        inputs = random_inputs(self._tensors, overflowing.scales, overflowing.shifts)
        wide = tuple(tensor.double() for tensor in inputs)
        largest = LARGEST_EXPONENT[self.workload.reference](torch, *wide)
        if largest <= FP32_EXPONENT:
            return f"unknown: the largest exponent, {largest:.1f}, does not overflow"
        expected = self.workload.reference(torch, *wide)
        dtype = _dtype(self._output)
        # The scores are tensors of the µGraph: it lets them be rounded to their type once.
        rounded = self.workload.reference(torch, *wide, rounded=lambda s: s.to(dtype).double())
        rounding = distance(torch, rounded, expected).relative_error
        verdict = ours.check(inputs, expected, dtype, ours.build.tolerance + rounding)
        if not verdict.right:
            return verdict.status
        return (
            f"{RIGHT}, error {verdict.relative_error:.1e}, exponents up to {largest:.0f} (error of "
            f"rounding the scores alone: {rounding:.1e})"
        )

    def add_peer(self, peer: Peer, tolerance: float) -> None:
        """Compiles a peer, checks it and gets it ready."""
        import torch

        system = System(peer.name, RIGHT, is_peer=peer.same_function)
        self.record.add(system)
        start = time.perf_counter()
        torch.compiler.reset()
        try:
            with torch.inference_mode():
                function = peer.ready()
                sets = self._rotated
                if peer.prepare is not None:
                    sets = [peer.prepare(inputs) for inputs in sets]
                result = function(*sets[0])
                torch.cuda.synchronize()
                if peer.same_function:
                    verdict = judge(torch, result, self._expected, tolerance)
                    system.status, system.relative_error = verdict.status, verdict.relative_error
                if system.status == RIGHT:
                    call = _calls(function, sets)
                    self._graphs[peer.name] = prepared(call, self._sets)
        except Exception as error:  # a backend that does not take these shapes, for instance
            system.status = _sentence(error)
            torch.cuda.synchronize()
        system.note = f"ready in {time.perf_counter() - start:.1f} s"

    def add_read_kernel(self, library: Path) -> None:
        """Tunes the kernel that only reads."""
        call, note = tuned_read_call(library, self.record.total_bytes, self._sets)
        self.record.add(System(READ, RIGHT, note=note))
        self._graphs[READ] = prepared(call, self._sets)

    def close(self) -> None:
        """Gives the memory of graphs and tensors back to the GPU."""
        import torch

        self._graphs.clear()
        self._ours.clear()
        self._rotated.clear()
        self._inputs = self._expected = None
        gc.collect()
        torch.cuda.empty_cache()

    def time(self, begin: Callable[[str], None]) -> None:
        """Times all that is right, interleaved; ``begin`` is called with the name of what runs."""
        names = list(self._graphs)
        graphs = [self._graphs[name] for name in names]
        samples = interleaved(graphs, lambda index: begin(names[index]))
        for name, values in zip(names, samples, strict=True):
            system = self.record.systems[name]
            if name in self._ours:
                begin(name)
                system.status = self._ours[name].check_calls(self._graphs[name].graph.replay).status
            if system.status == RIGHT:
                system.set_samples(values)


def _calls(function: Any, sets: Sequence[Sequence[Any]]) -> Any:
    def run(index: int) -> Any:
        return function(*sets[index])

    return run


def _sentence(error: Exception) -> str:
    lines = [*str(error).strip().splitlines(), ""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def describe(build: Build) -> str:
    """The pipeline of a build, with what is switched off in it."""
    variant = build.task.variant
    text = variant.pipeline
    changed = variant.without is not None or variant.switched is not None
    return f"{text} ({variant.name})" if changed else text
