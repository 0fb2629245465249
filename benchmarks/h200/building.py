"""From a workload's file to a shared library, in processes of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Operation

from benchmarks.h200.pipelines import Variant, flat_passes
from benchmarks.h200.workloads import Workload
from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import CInterface, interface_of, print_single_file
from mugraph.codegen.cuda import print_module
from mugraph.dialects import sched
from mugraph.dialects.functions import result_types
from mugraph.dialects.tensor_types import element_bytes_of, element_type_of, shape_of
from mugraph.errors import UserError
from mugraph.passes.schedule.analysis.hazards import PROGRESS_CERTIFICATE
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import architecture_named
from mugraph.reading import make_context, read_module
from mugraph.runtime.compare import tolerance_for
from mugraph.runtime.compile import compile_library
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter.arithmetic import storage_dtype


@dataclass(frozen=True)
class TensorOf:
    """A tensor that a µGraph takes or gives, row-major."""

    shape: tuple[int, ...]
    element_type: str
    element_bytes: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return math.prod(self.shape) * self.element_bytes


@dataclass(frozen=True)
class Task:
    """What to build."""

    workload: Workload
    variant: Variant
    arch: str
    """A GPU, such as ``h100``, or an architecture, such as ``sm_90a``."""


@dataclass(frozen=True)
class Build:
    """What was built, or, in ``error``, why nothing was."""

    task: Task
    error: str | None = None
    library: Path | None = None
    interface: CInterface | None = None
    tolerance: float = 0.0
    """The largest relative error that counts as right."""
    kernels: tuple[str, ...] = ()
    """Grid, block and shared memory of each kernel."""
    progress: tuple[str, ...] = ()
    """Why each kernel cannot get stuck, as ``--check-hazards`` certifies it."""
    transpile_seconds: float = 0.0
    same_as: str | None = None
    """The variant whose file this one's is, to the letter: it is not built again."""


def transpiled(task: Task) -> ModuleOp:
    """The planned schedule of a workload, each step verified; raises what the passes raise."""
    context = make_context()
    module = read_module(str(task.workload.path), context)
    verifying(flat_passes(task.variant.pipeline, task.arch)).apply(context, module)
    return module


def mugraph_of(workload: Workload) -> ModuleOp:
    """The µGraph as it is written."""
    return read_module(str(workload.path), make_context())


def tensors_of(workload: Workload) -> tuple[TensorOf, ...]:
    """The tensors of a workload, the result last."""
    function = only_function(mugraph_of(workload)).function_type
    return tuple(
        TensorOf(shape_of(type_), str(element_type_of(type_)), element_bytes_of(type_))
        for type_ in (*function.inputs, *function.outputs)
    )


def cuda_text(task: Task) -> str:
    """The generated file of a workload, as ``mg-opt -t cuda`` prints it."""
    return print_module(transpiled(task))


@dataclass(frozen=True)
class Prepared:
    """A task's file, to be compiled."""

    task: Task
    source: str
    build: Build
    """What is known before it is."""


def prepare(task: Task) -> Prepared | Build:
    """Transpiles and prints one task; an error becomes a message, the others go on."""
    try:
        return _prepare(task)
    except Exception as error:
        return _failed(task, error)


def compile_prepared(prepared: Prepared) -> Build:
    """Compiles a task's file; an error becomes a message, the others go on."""
    try:
        library = compile_library(prepared.source, architecture_named(prepared.task.arch))
    except Exception as error:
        return _failed(prepared.task, error)
    return replace(prepared.build, library=library)


def build(task: Task) -> Build:
    """Transpiles, prints and compiles one task; an error becomes a message, the others go on."""
    prepared = prepare(task)
    return prepared if isinstance(prepared, Build) else compile_prepared(prepared)


def _failed(task: Task, error: Exception) -> Build:
    return Build(task, error=f"{type(error).__name__}: {most_telling(str(error))}"[:500])


@contextmanager
def builders(jobs: int) -> Generator[ProcessPoolExecutor]:
    """So many processes; in the end what none has begun is not built."""
    with ProcessPoolExecutor(jobs) as pool:
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def most_telling(message: str) -> str:
    """The first line, or, of what nvcc says, the first line with an error."""
    lines = message.strip().splitlines() or [""]
    return next((line.strip() for line in lines if ": error: " in line), lines[0])


def _prepare(task: Task) -> Prepared:
    start = time.perf_counter()
    module = transpiled(task)
    function = only_function(module)
    interface = interface_of(function)
    _expect_row_major(interface)
    source = print_single_file(module, interface, Architecture(architecture_named(task.arch)))
    kernels = [op for op in module.walk() if isinstance(op, sched.KernelOp)]
    known = Build(
        task,
        None,
        None,
        interface,
        tolerance_for(storage_dtype(element_type_of(type_)) for type_ in result_types(function)),
        tuple(map(describe, kernels)),
        tuple(map(progress_text, kernels)),
        time.perf_counter() - start,
    )
    return Prepared(task, source, known)


def describe(kernel: Operation) -> str:
    """The head of a kernel as the schedule prints it: name, grid, block, shared memory, loop."""
    head = str(kernel).split("{", 1)[0]
    return " ".join(head.split()).removeprefix("sched.kernel ")


def progress_text(kernel: sched.KernelOp) -> str:
    """What the certificate of a kernel says; of one with no channels, its barriers.

    A block's threads all come to each barrier, as no operator's control depends on the thread.
    """
    certificate = kernel.attributes.get(PROGRESS_CERTIFICATE)
    operations = [op.name for op in kernel.walk()]
    if isinstance(certificate, DictionaryAttr):
        channels, roles = certificate.data["channels"], certificate.data["roles"]
        assert isinstance(channels, ArrayAttr) and isinstance(roles, DictionaryAttr)
        rings = [f"{_count(ring, 'published')} of {_count(ring, 'stages')}" for ring in channels]
        steps = _count(certificate, "steps")
        return f"{len(roles.data)} roles, fills of stages {', '.join(rings)}: all {steps} steps end"
    if "sched.channel" in operations:
        return "not certified"
    return f"{operations.count('sched.barrier')} barriers of all threads"


def _count(channel: Attribute, name: str) -> int:
    assert isinstance(channel, DictionaryAttr)
    count = channel.data[name]
    assert isinstance(count, IntegerAttr)
    return count.value.data


def _expect_row_major(interface: CInterface) -> None:
    """Raises where a tensor of the interface is laid out as no peer gets it."""
    for tensor in interface.tensors:
        stride = 1
        for extent, given in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
            if extent > 1 and given != stride:
                raise UserError(
                    f"'{tensor.name}' of {interface.name} is not row-major but has strides "
                    f"{tensor.strides}; fix its layout in the µGraph's signature."
                )
            stride *= extent
