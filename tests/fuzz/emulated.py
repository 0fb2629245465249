"""Runs generated CUDA on the CPU, and compares it with the interpreter.

The emulator of ``tests/gpu/runtime/emulator`` executes every GPU thread as a fiber: shared memory
starts as NaN, asynchronous copies land when they are waited for, and memory past the end of a
tensor faults.  Here outputs and the gaps of padded inputs are NaN as well, gaps of outputs must
stay as they are, tensors start at addresses that their alignment only just allows, and everything
runs twice, threads in rising and in falling order.

Parsing CuTe's headers takes longer than a kernel does, so that is done once for each state of these
files, and many µGraphs go into one program.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
from checked_later import CheckedLater
from compiled_once import compiled_once, compiler_digest, digest_of, kept_folder
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from fuzz.properties import Compiled, PropertyError, function_of, require_close
from mugraph.codegen.cuda import workspace_bytes
from mugraph.dialects.alignment import argument_alignment, result_alignment
from mugraph.dialects.constant import is_constant_argument
from mugraph.dialects.tensor_types import (
    element_type_of,
    layout_of,
    physical_elements,
    shape_of,
    strides_of,
)
from mugraph.runtime.interpreter import run_function
from mugraph.runtime.interpreter.arithmetic import storage_dtype
from mugraph.runtime.strided import strided_view
from mugraph.runtime.toolchain import cuda_include_paths, find_cutlass, runtime_include_paths

Array = npt.NDArray[Any]

SELF_TESTS = Path(__file__).parents[1] / "gpu" / "runtime"
EMULATOR = SELF_TESTS / "emulator"
STAGE = "the emulated kernel"
SECONDS = 300
ENOUGH = 96
"""So many kernels are compiled as one program, which takes g++ 3 GB at most."""
HEADERS = """
#include "launcher_calls.h"
#include "runtime.h"
#include "channels.h"
#include "te.h"
#include "harness.h"
"""
WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas")
"""Of what is written by hand; generated text has none."""
OPTIONS = (
    *("-x", "c++", "-std=c++17", "-Og"),
    # A misaligned vector access is undefined behaviour, which the sanitizer turns into a failure.
    *("-fsanitize=alignment", "-fno-sanitize-recover=all"),
    # Programs and shared objects take the same precompiled headers.
    "-fPIC",
    # What templates leave behind is not collected, which takes a twelfth of the time.
    *("--param", "ggc-min-heapsize=2000000"),
)
"""How all of it is compiled."""
DRIVER = """
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

using Execute = void (*)(std::vector<void const*>, std::vector<void*>, void*, cudaStream_t);

// Memory that starts `alignment` bytes after a multiple of 16, or at one.
static void* poisoned(std::size_t bytes, std::size_t alignment = 16) {
  std::size_t const shift = alignment % 16;
  void* memory = nullptr;
  cudaMalloc(&memory, bytes + shift);
  std::memset(memory, 0xff, bytes + shift);
  return static_cast<char*>(memory) + shift;
}

struct Placed {
  std::size_t bytes;
  std::size_t alignment;
  bool is_constant;
};

static int run(Execute execute, std::vector<Placed> inputs, std::vector<Placed> outputs,
               std::size_t workspace, std::string const& folder, unsigned orders = 2) {
  std::vector<void const*> sources;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    void* const memory = poisoned(inputs[i].bytes, inputs[i].alignment);
    std::ifstream file(folder + "/input" + std::to_string(i), std::ios::binary);
    file.read(static_cast<char*>(memory), static_cast<std::streamsize>(inputs[i].bytes));
    if (!file) return 4;
    if (inputs[i].is_constant) emulator::mark_constant(memory);
    sources.push_back(memory);
  }
  for (unsigned order = 0; order < orders; ++order) {
    emulator::launches = order;
    emulator::drawn_order = order < 2 ? 0 : order;
    std::vector<void*> targets;
    for (Placed output : outputs) targets.push_back(poisoned(output.bytes, output.alignment));
    try {
      execute(sources, targets, poisoned(workspace + 16), nullptr);
    } catch (std::exception const& error) {
      std::fprintf(stderr, "%s\\n", error.what());
      return 5;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::string const name = "/output" + std::to_string(order) + "_" + std::to_string(i);
      std::ofstream file(folder + name, std::ios::binary);
      auto const bytes = static_cast<std::streamsize>(outputs[i].bytes);
      file.write(static_cast<char const*>(targets[i]), bytes);
    }
  }
  return 0;
}
"""


@dataclass(frozen=True)
class Tensor:
    """An argument or a result as it lies in device memory."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elements: int

    @staticmethod
    def of(type_: Attribute) -> Tensor:
        """The tensor of a resolved type."""
        layout = layout_of(type_)
        assert layout is not None
        return Tensor(
            storage_dtype(element_type_of(type_)),
            shape_of(type_),
            strides_of(layout),
            physical_elements(layout),
        )

    @property
    def bytes(self) -> int:
        """What it spans."""
        return self.elements * self.dtype.itemsize

    def view(self, memory: Array) -> Array:
        """The elements, of memory that holds the tensor."""
        return strided_view(memory, self.shape, self.strides)

    def empty(self, elements: int) -> Array:
        """Elements that nothing was written to."""
        return np.full(elements * self.dtype.itemsize, 0xFF, np.uint8).view(self.dtype)

    def place(self, values: Array) -> Array:
        """Memory that holds these values, NaN (-1 for integers) elsewhere."""
        memory = self.empty(self.elements)
        self.view(memory)[...] = values
        return memory


def compiler() -> str:
    """The C++ compiler."""
    return shutil.which(os.environ.get("CXX", "g++")) or "g++"


def emulating_compiler(warnings: Sequence[str] = ("-w",)) -> list[str]:
    """The command up to the source, which must include ``emulator.h`` before all else.

    Raises ``ToolchainError`` where headers are missing.
    """
    command = [compiler(), *OPTIONS, *warnings]
    command += [f"-I{path}" for path in (EMULATOR, SELF_TESTS, *runtime_include_paths())]
    for path in (find_cutlass(), *cuda_include_paths()):
        command += ["-isystem", str(path)]
    return command


@cache
def headers_digest() -> str:
    """Of the emulator's and the runtime's headers, and of how they are compiled.

    The same in all checkouts that have the same headers.
    """
    parts: list[str | bytes] = [compiler_digest(compiler()), *OPTIONS, HEADERS]
    for folder in (SELF_TESTS, *runtime_include_paths()):
        for path in sorted(folder.rglob("*.h*")):
            parts += [str(path.relative_to(folder)), path.read_bytes()]
    return digest_of(parts)


@cache
def precompiled_headers() -> Path:
    """``HEADERS`` in a file, which g++ includes as it was compiled once for all processes.

    What it said of them stands in ``warnings.txt`` beside it.
    """
    folder = kept_folder(f"headers-{headers_digest()}")
    header, compiled = folder / "headers.h", folder / "headers.h.gch"
    with (folder / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        if not compiled.exists():
            header.write_text(HEADERS, encoding="utf-8")
            making = folder / "made"
            command = [*emulating_compiler(WARNINGS), "-c", "-x", "c++-header", str(header)]
            command += ["-o", str(making)]
            # Where that fails, programs that include it say why.
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
            (folder / "warnings.txt").write_text(done.stderr, encoding="utf-8")
            if not done.returncode:
                making.replace(compiled)
    return header


def with_clusters(source: str) -> str:
    """The text in which launches say how many blocks a cluster of their kernel has."""
    sizes: dict[str, str] = {}

    def launch(found: re.Match[str]) -> str:
        blocks, kernel, launched = found.groups()
        if kernel:
            sizes[kernel] = blocks or "1"
        if launched not in sizes or sizes[launched] == "1":
            return found[0]
        before = "auto const before = emulator::cluster_size"
        return (
            f"{{ {before}; emulator::cluster_size = {sizes[launched]}; {found[0]} "
            "emulator::cluster_size = before; }"
        )

    # Programs of one text have kernels of the same names.
    kernel = (
        r"__global__ void __launch_bounds__\([^)]*\)(?: __cluster_dims__\((\d+), 1, 1\))? (\w+)\("
    )
    return re.sub(kernel + r'|mugraph::launch\("(\w+)", .*\);', launch, source)


def with_emulated_memory(source: str) -> str:
    """Kernels whose shared memory is the emulator's."""
    return re.sub(
        r"extern __shared__ __align__\(\d+\) char smem\[\];",
        "char* const smem = reinterpret_cast<char*>(shared_memory);",
        source,
    )


def never(_function: FuncOp, _index: int) -> bool:
    """No result is constant."""
    return False


def program_of(compiled: Sequence[Compiled]) -> str:
    """One C++ program that runs any of several µGraphs: its arguments are a number and a folder."""
    parts = [HEADERS, "using namespace cute;", DRIVER]
    calls: list[str] = []
    for number, one in enumerate(compiled):
        lines = one.cuda.splitlines()
        text = "\n".join(line for line in lines if not line.startswith(("#", "using namespace")))
        text = with_clusters(with_emulated_memory(text))
        # Instructions of warp groups are classes of each file.
        own = r"\b(_init|_execute_mugraph|\w+_custom\d+\w*|SM90_\d+x\w+)\b"
        parts.append(re.sub(own, rf"\1_{number}", text))
        function = function_of(one.module)
        inputs, outputs = (
            ", ".join(
                f"{{{Tensor.of(type_).bytes}u, {alignment(function, index)}u, "
                f"{str(constant(function, index)).lower()}}}"
                for index, type_ in enumerate(types)
            )
            for types, alignment, constant in (
                (function.function_type.inputs.data, argument_alignment, is_constant_argument),
                (function.function_type.outputs.data, result_alignment, never),
            )
        )
        calls.append(
            f"    case {number}: return run(_execute_mugraph_{number}, {{{inputs}}}, "
            f"{{{outputs}}}, {workspace_bytes(function)}u, folder, orders);"
        )
    return "\n".join([*parts, *main_of(calls)]) + "\n"


def main_of(calls: Sequence[str]) -> list[str]:
    """The main function of a program whose arguments are the number of a case and a folder."""
    return [
        "int main(int, char** arguments) {",
        "  std::string const folder = arguments[2];",
        "  unsigned const orders = std::atoi(arguments[3]);",
        "  switch (std::atoi(arguments[1])) {",
        *calls,
        "  }",
        "  return 6;",
        "}",
    ]


def build(compiled: Sequence[Compiled]) -> Path:
    """Compiles the program of several µGraphs; raises ``PropertyError`` with the first errors."""
    return build_program(program_of(compiled))


def build_program(text: str) -> Path:
    """Compiles a program for the emulator; raises ``PropertyError`` with the first errors."""

    def make(folder: Path) -> None:
        source, executable = folder / "emulated.cu", folder / "emulated"
        source.write_text(text, encoding="utf-8")
        command = [*emulating_compiler(), "-include", str(precompiled_headers())]
        command += [str(source), "-o", str(executable)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=3 * SECONDS)
        if result.returncode:
            errors = [line for line in result.stderr.splitlines() if "error" in line]
            raise PropertyError("compiling for the emulator", "\n".join(errors[:5]))

    return compiled_once(digest_of([headers_digest(), text]), "emulated", make)


def run_program(executable: Path, number: int, folder: Path, orders: int = 2) -> None:
    """Runs a case on the inputs in a folder; raises ``PropertyError`` where that fails.

    In so many ``orders`` of threads: rising, falling, and others that are drawn.
    """
    command = [str(executable), str(number), str(folder), str(orders)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    if ran.returncode:
        raise PropertyError(STAGE, f"ends with {ran.returncode}: {ran.stderr.strip()[:400]}")


def check_emulated(executable: Path, number: int, compiled: Compiled, folder: Path) -> None:
    """Runs one µGraph of a program; raises ``PropertyError`` where its results are wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    function = function_of(compiled.module)
    for index, (type_, values) in enumerate(
        zip(function.function_type.inputs.data, compiled.case.inputs, strict=True)
    ):
        Tensor.of(type_).place(values).tofile(folder / f"input{index}")
    run_program(executable, number, folder)
    tensors = [Tensor.of(type_) for type_ in function.function_type.outputs.data]
    for order in range(2):
        stage = f"{STAGE}, threads in {('rising', 'falling')[order]} order"
        results: list[Array] = []
        for index, tensor in enumerate(tensors):
            memory = np.fromfile(folder / f"output{order}_{index}", tensor.dtype)
            results.append(tensor.view(memory).copy())
            tensor.view(memory)[...] = tensor.empty(1)
            if not (memory.view(np.uint8) == 0xFF).all():
                raise PropertyError(stage, f"result {index} writes into its padding")
        require_close(stage, results, compiled.case.expected, compiled.case.errors)
        require_as_interpreted(stage, results, compiled)


def require_as_interpreted(stage: str, results: Sequence[Array], compiled: Compiled) -> None:
    """A sharper comparison: with the interpreter, which rounds at the same places.

    What remains is the order of sums and a rounding that falls to the other side here and there,
    so the norm of the difference stays within a part of that of the errors allowed.
    """
    stored = run_function(compiled.module, None, compiled.case.inputs, "storage")
    for index, (result, reference, error) in enumerate(
        zip(results, stored, compiled.case.errors, strict=True)
    ):
        difference = result.astype(np.float64) - reference.astype(np.float64)
        distance = float(np.linalg.norm(difference)) / math.sqrt(result.size)
        if not distance <= error / 2:
            raise PropertyError(
                stage, f"result {index} is {distance:.3g} off on average, allowed are {error / 2}"
            )


def check_together(compiled: Sequence[Compiled], folder: Path) -> list[PropertyError | None]:
    """Emulates several µGraphs in one program; the failure of each, if there is one."""
    executable = build(compiled)
    failures: list[PropertyError | None] = []
    for number, one in enumerate(compiled):
        try:
            check_emulated(executable, number, one, folder / str(number))
            failures.append(None)
        except PropertyError as error:
            failures.append(error)
    return failures


@dataclass(frozen=True)
class Broken:
    """A µGraph whose CUDA was broken on purpose: emulated, it must fail, and this be said of it."""

    compiled: Compiled
    said: str = ""

    def error(self, failure: PropertyError | None) -> PropertyError | None:
        """What is wrong with how it failed; ``None`` where nothing is."""
        if failure is not None and self.said in str(failure):
            return None
        return PropertyError(STAGE, f"is broken, and of that was said: {failure}")


def _check(made: Sequence[Compiled | Broken]) -> list[PropertyError | None]:
    with TemporaryDirectory() as folder:
        failures = check_together(
            [one.compiled if isinstance(one, Broken) else one for one in made], Path(folder)
        )
    return [
        one.error(failure) if isinstance(one, Broken) else failure
        for one, failure in zip(made, failures, strict=True)
    ]


MUGRAPHS = CheckedLater(_check, enough=ENOUGH)
"""What is emulated after the tests of several files."""
