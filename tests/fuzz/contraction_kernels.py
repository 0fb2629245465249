"""Random contractions and convolutions as libraries: as CuTe kernels, and as µGraphs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from fuzz.contractions import Array, drawn_for_a_gpu
from mugraph import cute
from mugraph.codegen.cuda import CudaTarget
from mugraph.passes.compile import compile_pipeline
from mugraph.reading import make_context, parse_text
from mugraph.runtime.batch import MOST_TOGETHER, batch_source
from mugraph.runtime.compile import calls_cublas, compile_kernel
from mugraph.runtime.cuda import only_function, signature_of
from mugraph.runtime.execute import CudaModule, Signature

WAYS = ("CuTe kernel", "µGraph")


@dataclass(frozen=True)
class Written:
    """What was drawn with a number, in one of the ways, as CUDA text."""

    number: int
    way: str
    loads: str
    """Of a CuTe kernel: by TMA, or by threads."""
    source: str
    signature: Signature


@dataclass(frozen=True)
class Built:
    """The same in a library of several."""

    written: Written
    library: Path
    member: int


def _module(number: int, way: str, arch: str) -> tuple[ModuleOp, str]:
    """The module, and how it loads."""
    one = drawn_for_a_gpu(number)
    if way == "CuTe kernel":
        inputs, exact = one.tensors()
        fakes = (cute.make_fake_tensor("f16", each.shape) for each in (*inputs, exact))
        launch = one.launch(*fakes)
        return launch.trace(arch), "TMA" if launch.name == "gemm_sm90" else "threads"
    context = make_context()
    module = parse_text(context, one.program(), str(number))
    PassPipeline(compile_pipeline(arch)).apply(context, module)
    return module, ""


def write(number: int, way: str, arch: str) -> Written:
    """Records or compiles what was drawn, and prints it."""
    module, loads = _module(number, way, arch)
    text = StringIO()
    CudaTarget().emit(make_context(), module, text)
    return Written(number, way, loads, text.getvalue(), signature_of(only_function(module)))


def _compile(arch: str, group: Sequence[Written]) -> Path:
    return compile_kernel(batch_source([one.source for one in group]), arch)


def build(numbers: Sequence[int], arch: str, jobs: int) -> list[Built]:
    """Libraries of all that was drawn with these numbers, in both ways."""
    with ProcessPoolExecutor(jobs) as pool:
        tasks = [(number, way, arch) for way in WAYS for number in numbers]
        written = list(pool.map(write, *zip(*tasks, strict=True), chunksize=8))
        ordered = sorted(written, key=lambda one: calls_cublas(one.source))
        groups = [ordered[at : at + MOST_TOGETHER] for at in range(0, len(ordered), MOST_TOGETHER)]
        libraries = pool.map(partial(_compile, arch), groups)
        return [
            Built(one, library, member)
            for group, library in zip(groups, libraries, strict=True)
            for member, one in enumerate(group)
        ]


def error_of(built: Built) -> float:
    """The largest error of an element against float64, over the largest element of the result.

    NaN where elements are missing.  Raises DeviceError where the kernel fails.
    """
    one, written = drawn_for_a_gpu(built.written.number), built.written
    inputs, exact = one.tensors()
    wanted: Array = exact
    if written.way == "µGraph":
        inputs, wanted = one.given(), one.matrices()[2].of(exact)
    given = [
        each.reshape(spec.shape)
        for each, spec in zip(inputs, written.signature.inputs, strict=True)
    ]
    (found,) = CudaModule(built.library, written.signature, member=built.member).run(given)
    off = np.abs(found.astype(np.float64).reshape(wanted.shape) - wanted).max()
    return float(off / np.abs(wanted).max())
