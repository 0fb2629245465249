"""Finding and calling the compiler, with an nvcc that is a shell script."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mugraph.codegen.architecture import Architecture
from mugraph.errors import UserError
from mugraph.runtime import compile as compile_module
from mugraph.runtime import toolchain
from mugraph.runtime.compile import (
    CompileError,
    compile_cubin,
    compile_kernel,
    compile_library,
    compile_log,
)
from mugraph.runtime.toolchain import Cublas, Toolchain, ToolchainError

# Says its version and folder, refuses sources with "error", warns of those with "warning", and
# writes its arguments and the source to the file after -o.
NVCC = """#!/bin/sh
echo run >> "$(dirname "$0")/calls"
case "$*" in
  *--version*) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit ;;
  *--dryrun*) echo '#$ TOP=@ROOT@/toolkit/bin/..' >&2; exit ;;
esac
if grep -q error kernel.cu; then
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do
    echo "kernel.cu($i): error" >&2
  done
  exit 1
fi
grep warning kernel.cu >&2
arguments="$*"
while [ "$1" != -o ]; do shift; done
{ echo "$arguments"; cat kernel.cu; } > "$2"
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on it: no nvcc on PATH, no packages, an empty cache."""
    (tmp_path / "bin").mkdir()
    for tool in ("sh", "grep", "cat", "dirname", "g++"):
        # Whether there is a g++ is asked, but it is not run.
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or "/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MUGRAPH_CUTLASS_INCLUDE", raising=False)
    monkeypatch.setattr(toolchain, "_package_folders", lambda name: [tmp_path / "packages" / name])
    return tmp_path


def put_nvcc(machine: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    nvcc = folder / "nvcc"
    nvcc.write_text(NVCC.replace("@ROOT@", str(machine)))
    nvcc.chmod(0o755)
    (machine / "toolkit" / "bin").mkdir(parents=True, exist_ok=True)
    (machine / "toolkit" / "lib").mkdir(exist_ok=True)
    return nvcc


def put_cutlass(machine: Path) -> Path:
    include = machine / "packages" / "cutlass_library" / "source" / "include"
    (include / "cute").mkdir(parents=True)
    (include / "cute" / "layout.hpp").write_text("")
    return include


def message_of(call: object, *arguments: object) -> str:
    with pytest.raises(ToolchainError) as error:
        call(*arguments)  # pyright: ignore
    return str(error.value)


def test_nvcc_on_the_path_comes_before_the_package(machine: Path):
    assert message_of(toolchain.find_nvcc) == (
        "nvcc is not on this machine: put a CUDA toolkit's nvcc on PATH, or install the compiler "
        "with `pip install 'mugraph[cuda]'`."
    )
    packaged = put_nvcc(machine, machine / "packages" / "nvidia" / "cu13" / "bin")
    assert toolchain.find_nvcc() == packaged
    on_path = put_nvcc(machine, machine / "bin")
    assert toolchain.find_nvcc() == on_path


def test_cutlass_from_the_variable_or_the_package(machine: Path, monkeypatch: pytest.MonkeyPatch):
    assert message_of(toolchain.find_cutlass) == (
        "CUTLASS's headers are not on this machine: install them with `pip install "
        "'mugraph[cuda]'`, or set MUGRAPH_CUTLASS_INCLUDE to the include folder of CUTLASS 4.2.0."
    )
    package = put_cutlass(machine)
    assert toolchain.find_cutlass() == package
    given = machine / "given"
    shutil.copytree(package, given)
    monkeypatch.setenv("MUGRAPH_CUTLASS_INCLUDE", str(given))
    assert toolchain.find_cutlass() == given
    monkeypatch.setenv("MUGRAPH_CUTLASS_INCLUDE", str(machine))
    assert message_of(toolchain.find_cutlass) == (
        f"MUGRAPH_CUTLASS_INCLUDE is {machine}, which has no cute/layout.hpp; set it to the "
        "include folder of CUTLASS, or unset it."
    )


def test_the_toolchain_is_whole(machine: Path):
    nvcc = put_nvcc(machine, machine / "bin")
    include = put_cutlass(machine)
    found = toolchain.find_toolchain()
    root = machine / "toolkit"
    assert found == Toolchain(nvcc, "13.0.88", root, include, None)
    assert found.library_paths == (root / "lib",)
    assert found.include_paths == (*toolchain.runtime_include_paths(), include)

    package = machine / "packages" / "nvidia" / "cu13"
    for path in (package / "include" / "cublas_v2.h", package / "lib" / "libcublas.so.13"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    expected = Cublas(package / "include", package / "lib" / "libcublas.so.13")
    assert toolchain.find_toolchain().cublas == expected

    (machine / "bin" / "g++").unlink()
    assert message_of(toolchain.find_toolchain) == (
        f"{nvcc} needs a host C++ compiler: install g++."
    )


def test_an_nvcc_that_is_none(machine: Path):
    nvcc = put_nvcc(machine, machine / "bin")
    put_cutlass(machine)
    nvcc.write_text("#!/bin/sh\necho something else\n")
    assert message_of(toolchain.find_toolchain) == (
        f"{nvcc} does not say its version; is it NVIDIA's nvcc?"
    )
    nvcc.write_text("#!/bin/sh\necho no driver >&2\nexit 2\n")
    assert message_of(toolchain.find_toolchain).endswith("--dryrun -c none.cu fails: no driver")


@pytest.fixture
def tools(machine: Path) -> Toolchain:
    put_nvcc(machine, machine / "bin")
    put_cutlass(machine)
    return toolchain.find_toolchain()


def calls(machine: Path) -> int:
    return (machine / "bin" / "calls").read_text().count("run")


def test_compiling_the_same_again_is_free(machine: Path, tools: Toolchain):
    before = calls(machine)
    cubin = compile_cubin("int x;", "sm_90a", toolchain=tools)
    assert cubin.read_text().endswith("int x;")
    assert compile_cubin("int x;", "sm_90a", toolchain=tools) == cubin
    assert calls(machine) == before + 1
    assert compile_log(cubin) == ""


def test_the_cache_knows_all_that_the_result_depends_on(
    tools: Toolchain, monkeypatch: pytest.MonkeyPatch
):
    newer = dataclasses.replace(tools, version="13.1.0")
    results = [
        compile_cubin("int x;", "sm_90a", toolchain=tools),
        compile_cubin("int y;", "sm_90a", toolchain=tools),
        compile_cubin("int x;", "sm_80", toolchain=tools),
        compile_cubin("int x;", "sm_90a", toolchain=tools, flags=["-lineinfo"]),
        compile_cubin("int x;", "sm_90a", toolchain=newer),
        compile_kernel("int x;", "sm_90a", toolchain=tools),
    ]
    monkeypatch.setattr(compile_module, "_headers_digest", lambda: "other headers")
    results.append(compile_cubin("int x;", "sm_90a", toolchain=tools))
    assert len(set(results)) == len(results)


def test_the_command_line(tools: Toolchain):
    arguments = compile_kernel("int x;", "sm_90a", toolchain=tools).read_text().split("\n")[0]
    assert "-gencode arch=compute_90a,code=sm_90a" in arguments
    assert "-std=c++17 -Xcompiler -O1" in arguments and "fast" not in arguments
    assert '-DMUGRAPH_GENERATED="kernel.cu"' in arguments and "launcher.cu" in arguments
    assert f"-I{tools.cutlass_include}" in arguments
    assert "cublas" not in arguments


def test_kernel_level_products_need_cublas(machine: Path, tools: Toolchain):
    source = "kn::gemm<CUBLAS_COMPUTE_32F>();"
    for compile_ in (compile_kernel, compile_cubin):
        with pytest.raises(ToolchainError, match="this µGraph has a kernel-level matmul"):
            compile_(source, toolchain=tools)
    cublas = Cublas(machine / "cublas" / "include", machine / "cublas" / "lib" / "libcublas.so.13")
    with_it = dataclasses.replace(tools, cublas=cublas)
    arguments = compile_kernel(source, toolchain=with_it).read_text().split("\n")[0]
    assert f"-isystem {cublas.include_path}" in arguments
    assert f"-L{cublas.library.parent} -l:libcublas.so.13" in arguments
    assert f"-Xlinker -rpath={cublas.library.parent}" in arguments


def test_warnings_are_kept(tools: Toolchain):
    assert compile_log(compile_cubin("// warning 7", toolchain=tools)) == "// warning 7\n"


def test_errors_show_what_nvcc_said_and_leave_no_entry(machine: Path, tools: Toolchain):
    with pytest.raises(CompileError) as error:
        compile_kernel("// error", "sm_80", toolchain=tools)
    lines = str(error.value).splitlines()
    assert lines[0].startswith("nvcc cannot compile the generated code for sm_80 (kept as ")
    assert lines[1] == "kernel.cu(1): error"
    assert lines[-2:] == ["kernel.cu(20): error", "… and 2 lines more"]
    (kept,) = (machine / "cache" / "mugraph" / "kernels").iterdir()
    assert str(kept) in lines[0] and kept.read_text() == "// error"


def test_the_readme_compiles_for_the_architecture_alone():
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    commands = [line for line in readme.splitlines() if "nvcc -" in line]
    flags = " ".join(Architecture("sm_90a").compiler_flags())
    assert flags == "-gencode arch=compute_90a,code=sm_90a"
    assert commands and all(flags in command for command in commands)


def test_a_cubin_has_no_ptx_but_what_runs_has_where_there_can_be_some(tools: Toolchain):
    def code(compile_: Callable[..., Path], arch: str) -> str:
        return (
            compile_("int x;", arch, toolchain=tools).read_text().partition("code=")[2].split()[0]
        )

    assert code(compile_cubin, "sm_80") == "sm_80"
    for compile_ in (compile_kernel, compile_library):
        assert code(compile_, "sm_80") == "[sm_80,compute_80]"
        assert code(compile_, "sm_90a") == "sm_90a"


@pytest.mark.parametrize("arch", ["hopper", "sm_9", "compute_90", "sm_90b", "90"])
def test_architectures_are_nvccs(tools: Toolchain, arch: str):
    with pytest.raises(UserError) as error:
        compile_cubin("", arch, toolchain=tools)
    assert str(error.value) == (
        f"'{arch}' is no architecture; expected one such as sm_80 or sm_90a."
    )


def test_an_upgrade_of_cutlass_in_place_compiles_anew(machine: Path):
    put_nvcc(machine, machine / "bin")
    version = put_cutlass(machine) / "cutlass" / "version.h"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("#define CUTLASS_MINOR 2\n")
    before = compile_cubin("upgraded")
    assert compile_cubin("upgraded") == before
    version.write_text("#define CUTLASS_MINOR 3\n")
    assert compile_cubin("upgraded") != before
