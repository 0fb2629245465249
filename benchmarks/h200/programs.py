"""Programs that call one compiled workload and nothing else, for tools that watch a program."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.h200.building import Build, TensorOf, tensors_of
from mugraph.errors import UserError
from mugraph.runtime.toolchain import find_toolchain

SOURCES = Path(__file__).parent
CALLER = SOURCES / "run_library.cu"
FAULTS = SOURCES / "planted_faults.cu"


def compile_source(source: Path, arch: str, output: Path, options: Sequence[str]) -> Path:
    """One file compiled by nvcc; ``UserError`` with nvcc's words if it fails."""
    toolchain = find_toolchain()
    number = arch.removeprefix("sm_")
    command = [str(toolchain.nvcc), "-std=c++17", "-cudart", "static", *options]
    command += ["-gencode", f"arch=compute_{number},code={arch}"]
    command += [*(f"-L{path}" for path in toolchain.library_paths)]
    command += [str(source), "-o", str(output), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise UserError(f"nvcc cannot compile {source.name}: {done.stderr.strip()[:400]}")
    return output


def compile_program(source: Path, arch: str, folder: Path) -> Path:
    """A program of one file; raises as :func:`compile_source`."""
    return compile_source(source, arch, folder / source.stem, ["-O2"])


def call_command(program: Path, build: Build, calls: int) -> list[str]:
    """The command that calls what was built so many times."""
    assert build.library is not None and build.interface is not None
    tensors = tensors_of(build.task.workload)
    scales = (*build.task.workload.scales, 1.0)
    arguments = [argument_of(*pair) for pair in zip(tensors, scales, strict=True)]
    return [str(program), str(build.library), build.interface.name, str(calls), *arguments]


def argument_of(tensor: TensorOf, scale: float) -> str:
    """A tensor as ``run_library`` takes it: bytes, type and what random numbers are scaled by."""
    return f"{tensor.bytes}:{tensor.element_type}:{scale:g}"
