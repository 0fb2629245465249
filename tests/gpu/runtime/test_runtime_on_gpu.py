"""The runtime's self-tests, compiled by nvcc and run on the GPU of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mugraph.runtime.toolchain import (
    Toolchain,
    ToolchainError,
    device_architecture,
    find_toolchain,
)

HERE = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in HERE.glob("*_test.cu"))


@pytest.fixture(scope="module")
def architecture() -> str:
    found = device_architecture()
    if found is None:
        pytest.skip("no NVIDIA GPU on this machine: the runtime's GPU self-tests were not run")
    return found


@pytest.fixture(scope="module")
def toolchain() -> Toolchain:
    try:
        return find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"the runtime's GPU self-tests were not compiled: {error}")


@pytest.mark.gpu
@pytest.mark.parametrize("program", PROGRAMS)
def test_self_test(program: str, architecture: str, toolchain: Toolchain, tmp_path: Path) -> None:
    if program == "gemm_test" and toolchain.cublas is None:
        pytest.skip("cuBLAS is not on this machine: kn::gemm was not run on the GPU")
    executable = tmp_path / program
    number = architecture.removeprefix("sm_")
    command = [
        str(toolchain.nvcc),
        "-std=c++17",
        "-o",
        str(executable),
        str(HERE / f"{program}.cu"),
    ]
    command += [
        f"-gencode=arch=compute_{number},code={architecture}",
        "-Xcompiler",
        "-Wall,-Wextra",
    ]
    command += [f"-I{path}" for path in (HERE, *toolchain.include_paths)]
    command += [f"-L{path}" for path in toolchain.library_paths]
    if toolchain.cublas is not None:
        command += [f"-I{toolchain.cublas.include_path}", str(toolchain.cublas.library)]
        command += ["-Xlinker", f"-rpath={toolchain.cublas.library.parent}"]
    compiled = subprocess.run(command, capture_output=True, text=True)
    assert compiled.returncode == 0, compiled.stderr
    # A kernel that is loaded when it is first launched waits for those that wait for it.
    loaded = {**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
    result = subprocess.run(
        [str(executable)], capture_output=True, text=True, timeout=120, env=loaded
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{program}: " in result.stdout and " 0 failed" in result.stdout
