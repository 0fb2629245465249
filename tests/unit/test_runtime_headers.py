"""The CUDA headers without a GPU: emulated on the CPU, and compiled by nvcc.

The self-tests of ``tests/gpu/runtime`` are CUDA programs. A C++ compiler builds them here against
an emulator that runs every GPU thread as a fiber; so they check addresses, fragments, masks and
predicates on any machine that has CUDA's and CUTLASS's headers.
"""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest
from compiled_once import compiled_once, digest_of
from fuzz import emulated
from fuzz.emulated import SELF_TESTS, WARNINGS, precompiled_headers
from thorough import inputs

from mugraph.runtime.toolchain import ToolchainError, find_toolchain

SIZES = inputs(1, 0) * ["-DFEWER_SIZES"]
"""Templates take most of the compiler's time; GPUs, and ``MUGRAPH_THOROUGH=1``, run every size."""
PROGRAMS = sorted(path.stem for path in SELF_TESTS.glob("*_test.cu"))
TARGETS = ("sm_80", "sm_90a")


@pytest.fixture(scope="module")
def emulating_compiler(needs_emulator: None) -> list[str]:
    """The command that compiles a .cu file for the emulator, up to the file and its options."""
    header = precompiled_headers()
    assert header.with_name("warnings.txt").read_text(encoding="utf-8") == ""
    return [*emulated.emulating_compiler(WARNINGS), "-include", str(header)]


def all_self_tests() -> str:
    """One C++ program of all self-tests, since most of what they need of the compiler is the same.

    Its argument names the one that runs.  What their kernels share is the emulator's memory.
    """
    headers = [f'#include "{name}"' for name in ("harness.h", "gather.h")]
    memory = 'extern unsigned char shared_memory[] asm("shared_memory");'
    parts = [f'namespace {name} {{\n{memory}\n#include "{name}.cu"\n}}' for name in PROGRAMS]
    calls = [f'  if (name == "{name}") return {name}::main();' for name in PROGRAMS]
    start = "int main(int, char** arguments) {\n  std::string const name = arguments[1];"
    return "\n".join([*headers, *parts, start, *calls, "  return 2;\n}\n"])


@pytest.fixture(scope="module")
def self_tests(emulating_compiler: list[str]) -> Path:
    """The program of all self-tests."""
    text = all_self_tests()

    def make(folder: Path) -> None:
        source = folder / "self_tests.cu"
        source.write_text(text, encoding="utf-8")
        compiled = run([*emulating_compiler, *SIZES, str(source), "-o", str(folder / "self_tests")])
        assert compiled.returncode == 0, compiled.stderr
        assert compiled.stderr == ""

    sources = [(SELF_TESTS / f"{name}.cu").read_bytes() for name in PROGRAMS]
    key = digest_of([emulated.headers_digest(), *WARNINGS, *SIZES, text, *sources])
    return compiled_once(key, "self_tests", make)


@pytest.mark.parametrize("program", PROGRAMS)
def test_self_test_emulated(program: str, self_tests: Path) -> None:
    result = run([str(self_tests), program])
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{program}: " in result.stdout and " 0 failed" in result.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_nvcc_compiles_in_time_without_warnings(target: str, tmp_path: Path) -> None:
    try:
        toolchain = find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"the runtime's headers were not compiled by nvcc: {error}")
    number = target.removeprefix("sm_")
    command = [str(toolchain.nvcc), "-std=c++17", "-cubin", "-Xcompiler", "-Wall,-Wextra"]
    command += [f"-gencode=arch=compute_{number},code={target}"]
    command += [f"-I{path}" for path in (SELF_TESTS, *toolchain.include_paths)]
    command += [str(SELF_TESTS / "pipeline_test.cu"), "-o", str(tmp_path / "pipeline_test.cubin")]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiled = run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert compiled.returncode == 0, compiled.stderr
    assert compiled.stdout + compiled.stderr == ""
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert seconds < 5.0, f"compiling one kernel took {seconds:.1f} s of processor time"


MISUSES = {
    "uneven vectors": (
        "tb::Copy<32, 8, Layout<Shape<Int<12>>, Stride<Int<1>>>, "
        "Layout<Shape<Int<12>>, Stride<Int<1>>>>::run(data, data, 0)",
        "the number of elements must be a multiple of kVector",
    ),
    "sizes differ": (
        "tb::Copy<32, 1, Layout<Shape<Int<12>>, Stride<Int<1>>>, "
        "Layout<Shape<Int<8>>, Stride<Int<1>>>>::run(data, data, 0)",
        "source and destination must have equally many elements",
    ),
    "asynchronous gather": (
        "tb::CopyAsync<32, 8, Layout<Shape<Int<16>>, Stride<Int<1>>>, "
        "Layout<Shape<Int<16>>, Stride<Int<2>>>>::run(data, data, 0)",
        "the source of an asynchronous copy must hold each vector in consecutive",
    ),
    "broadcast destination": (
        "tb::Copy<32, 8, Layout<Shape<Int<16>>, Stride<Int<0>>>, "
        "Layout<Shape<Int<16>>, Stride<Int<1>>>>::run(data, data, 0)",
        "a destination must not have stride 0",
    ),
    "too many lanes": (
        "tb::ReduceSum<ops::Chain<>, 16, 32, Layout<Shape<Int<1>>, Stride<Int<1>>>, "
        "Layout<Shape<Int<16>, Int<1>>, Stride<Int<1>, Int<0>>>>::store(data, data, 0)",
        "an output cannot be shared by more lanes than the block has threads",
    ),
    "unaligned ldmatrix": (
        "float acc[4]; tb::Matmul<1, 1, Layout<Shape<Int<16>, Int<16>>, Stride<Int<20>, Int<1>>>, "
        "Layout<Shape<Int<8>, Int<16>>, Stride<Int<16>, Int<1>>>, true, true>"
        "::mma(acc, data, data, 0)",
        "ldmatrix needs rows or k contiguous, and every other stride",
    ),
    "K differs": (
        "float acc[4]; tb::Matmul<1, 1, Layout<Shape<Int<16>, Int<16>>, Stride<Int<16>, Int<1>>>, "
        "Layout<Shape<Int<8>, Int<24>>, Stride<Int<24>, Int<1>>>, true, true>"
        "::mma(acc, data, data, 0)",
        "A (M, K) and B (N, K) must have the same K",
    ),
}


@pytest.fixture(scope="module")
def misuse_errors(emulating_compiler: list[str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the compiler says of all misuses together, each in a function of its own."""
    source = tmp_path_factory.mktemp("misuses") / "misuses.cu"
    lines = ['#include "runtime.h"', "using namespace cute;"]
    for number, (statement, _) in enumerate(MISUSES.values()):
        lines.append(f"void misuse_{number}(half_t* data) {{ {statement}; }}")
    source.write_text("\n".join(lines) + "\n")
    compiled = run([*emulating_compiler, "-fsyntax-only", str(source)])
    assert compiled.returncode != 0
    return compiled.stderr


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_refused_in_words(misuse: str, misuse_errors: str) -> None:
    assert f"static assertion failed: {MISUSES[misuse][1]}" in misuse_errors


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=300)
