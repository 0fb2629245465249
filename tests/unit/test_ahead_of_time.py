"""Ahead-of-time compilation: the files, the C interface, and programs that link it."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from libraries_once import units_once
from thorough import THOROUGH

from mugraph.codegen.cuda import CodegenError
from mugraph.reading import make_context, read_module, read_te
from mugraph.runtime.ahead_of_time import MANIFEST, build, write_sources
from mugraph.runtime.library_sources import Sources, generate_sources
from mugraph.runtime.toolchain import ToolchainError, find_toolchain

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GRAPH = EXAMPLES / "rmsnorm_linear.mlir"


def sources_of(path: Path, architectures: list[str], name: str | None = None) -> Sources:
    context = make_context()
    return generate_sources(read_module(str(path), context), context, architectures, name)


def require(*commands: str) -> None:
    """Skips, saying so, where a tool of the host is not there."""
    missing = [command for command in commands if shutil.which(command) is None]
    if missing:
        pytest.skip(f"not on this machine: {', '.join(missing)}")
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example compiled for two architectures."""
    require("ar")
    folder = tmp_path_factory.mktemp("compiled")
    with units_once():
        build(sources_of(GRAPH, ["sm_80", "sm_90a"]), folder, GRAPH.read_text())
    return folder


def test_nvcc_is_found_by_a_process_without_standard_input() -> None:
    """As under some servers."""
    require()
    find = "from mugraph.runtime.toolchain import find_toolchain; find_toolchain()"
    command = [sys.executable, "-c", f"import os; os.close(0); {find}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_header_is_c_and_cpp(tmp_path: Path) -> None:
    require("gcc", "g++")
    write_sources(sources_of(GRAPH, ["sm_90a"]), tmp_path)
    header = tmp_path / "include" / "rmsnorm_linear.h"
    for compiler in (["gcc", "-std=c99"], ["g++", "-x", "c++", "-std=c++11"]):
        command = [*compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(header)]
        subprocess.run(command, check=True)


def test_a_header_says_what_every_tensor_is() -> None:
    header = sources_of(GRAPH, ["sm_90a"]).files["include/rmsnorm_linear.h"]
    assert "w: f16 4096x6144, strides (6144, 1), 50331648 bytes, aligned to 16" in header
    assert "int rmsnorm_linear_run(const void *x, const void *w, void *o," in header


def test_a_header_says_what_may_be_changed_in_place() -> None:
    text = "fn add(a: f32[64], c: f32[64]): f32[64] { par 64 i { c[i] += a[i]; result[i] = c[i] } }"
    module = read_te(text, "add.te", [])
    header = generate_sources(module, make_context(), ["sm_90a"], None).files["include/add.h"]
    assert "must not overlap an input, another output or the workspace, but for:" in header
    assert " *   c_out may be c, of which only what changes is written then.\n */" in header


def test_architectures_share_one_interface() -> None:
    sources = sources_of(GRAPH, ["sm_80", "sm_90a"])
    assert [path for path, _ in sources.translation_units] == [
        "src/rmsnorm_linear.cu",
        "src/rmsnorm_linear_sm_80.cu",
        "src/rmsnorm_linear_sm_90a.cu",
    ]
    assert "rmsnorm_linear_custom0_sm_80" in sources.files["src/rmsnorm_linear_sm_80.cu"]


@pytest.mark.parametrize("name", ["9lives", "a-b", "double", "a__b", ""])
def test_a_name_must_be_one_of_c(name: str) -> None:
    with pytest.raises(CodegenError, match="give another with --name"):
        sources_of(GRAPH, ["sm_90a"], name)


def test_the_manifest_has_the_digest_of_every_file(compiled: Path) -> None:
    manifest = json.loads((compiled / MANIFEST).read_text())
    files = {path for path in compiled.rglob("*") if path.is_file() and path.name != MANIFEST}
    assert {str(path.relative_to(compiled)) for path in files} == set(manifest["files_sha256"])
    for path, digest in manifest["files_sha256"].items():
        assert hashlib.sha256((compiled / path).read_bytes()).hexdigest() == digest
    assert manifest["input_sha256"] == hashlib.sha256(GRAPH.read_bytes()).hexdigest()
    assert manifest["architectures"] == ["sm_80", "sm_90a"]


def test_the_same_input_gives_the_same_sources(compiled: Path, tmp_path: Path) -> None:
    write_sources(sources_of(GRAPH, ["sm_80", "sm_90a"]), tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) == 6
    for path in written:
        assert path.read_bytes() == (compiled / path.relative_to(tmp_path)).read_bytes()


def test_an_archive_does_not_say_when_it_was_made(compiled: Path) -> None:
    archive = str(compiled / "lib" / "librmsnorm_linear.a")
    listed = subprocess.run(
        ["ar", "tv", archive],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TZ": "UTC", "LC_ALL": "C"},
    ).stdout
    assert listed and all("Jan  1 00:00 1970" in line for line in listed.splitlines())


@pytest.mark.skipif(not THOROUGH, reason="compiles twice: make fuzz")
def test_the_same_input_gives_the_same_bytes(compiled: Path, tmp_path: Path) -> None:
    build(sources_of(GRAPH, ["sm_80", "sm_90a"]), tmp_path, GRAPH.read_text())
    first, second = (
        {file.relative_to(folder): file.read_bytes() for file in _files(folder)}
        for folder in (compiled, tmp_path)
    )
    assert first == second and len(first) == 9


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_shared_library_exports_its_interface_only(compiled: Path) -> None:
    require("nm", "ldd")
    library = compiled / "lib" / "librmsnorm_linear.so"
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], check=True, capture_output=True, text=True
    ).stdout
    strong = {line.split()[-1] for line in listed.splitlines() if line.split()[-2] == "T"}
    names = ("run", "error", "workspace_bytes", "check_device")
    assert strong == {f"rmsnorm_linear_{name}" for name in names}
    loads = subprocess.run(["ldd", str(library)], check=True, capture_output=True, text=True).stdout
    assert "python" not in loads and "cublas" not in loads and "cudart" not in loads


# A container of device code and an entry of it, which starts behind it: the sizes of their headers
# and of what follows, an entry's kind and its architecture's number.
CONTAINER = struct.Struct("<IHHQ")
ENTRY = struct.Struct("<HxxIQ12xI")
MAGIC, PTX, CUBIN = 0xBA55ED50, 1, 2


def device_code(library: bytes) -> set[tuple[int, int]]:
    """The kind and the number of every entry of device code in a library."""
    found: set[tuple[int, int]] = set()
    for match in re.finditer(re.escape(MAGIC.to_bytes(4, "little")), library):
        _, _, header, size = CONTAINER.unpack_from(library, match.start())
        at = match.start() + header
        end = at + size
        while at < end:
            kind, header, size, number = ENTRY.unpack_from(library, at)
            found.add((kind, number))
            at += header + size
    return found


def test_newer_devices_get_ptx_where_there_can_be_some(compiled: Path) -> None:
    # The shared library has an entry more, which holds no code: what nvcc links it with.
    library = (compiled / "lib" / "librmsnorm_linear.a").read_bytes()
    assert device_code(library) == {(CUBIN, 80), (PTX, 80), (CUBIN, 90)}


class Pointers:
    """Calls the compiled example with made-up addresses, which are checked before any use."""

    def __init__(self, compiled: Path) -> None:
        self.library = ctypes.CDLL(str(compiled / "lib" / "librmsnorm_linear.so"))
        self.library.rmsnorm_linear_error.restype = ctypes.c_char_p
        self.library.rmsnorm_linear_workspace_bytes.restype = ctypes.c_size_t

    def run(self, x: int, w: int, o: int) -> tuple[int, str]:
        pointers = [ctypes.c_void_p(address) for address in (x, w, o, 0)]
        code = self.library.rmsnorm_linear_run(*pointers, ctypes.c_size_t(0), ctypes.c_void_p(0))
        return code, self.library.rmsnorm_linear_error().decode()


def test_wrong_pointers_are_refused_by_name(compiled: Path) -> None:
    library = Pointers(compiled)
    assert library.library.rmsnorm_linear_workspace_bytes() == 0
    assert library.run(0, 4096, 8192) == (1, "x is NULL; pass a pointer to device memory.")
    code, message = library.run(4096, 4098, 8192)
    assert code == 2 and message == "w is at 0x1002, which is not a multiple of 16 bytes."


def test_a_call_without_a_gpu_is_an_error_code(compiled: Path) -> None:
    if Path("/dev/nvidia0").exists():
        pytest.skip("there is a GPU on this machine")
    code, message = Pointers(compiled).run(4096, 8192, 12288)
    assert code == 5 and message.startswith("asking for the current device failed")


def test_a_cpp_program_links_through_cmake(compiled: Path, tmp_path: Path) -> None:
    require("cmake", "g++")
    options = {"CMAKE_PREFIX_PATH": compiled, "CUDAToolkit_ROOT": find_toolchain().cuda_root}
    source = str(EXAMPLES / "ahead_of_time" / "cpp")
    defined = [f"-D{name}={value}" for name, value in options.items()]
    _run_here(["cmake", "-S", source, "-B", str(tmp_path), *defined])
    _run_here(["cmake", "--build", str(tmp_path)])
    _expect_example(tmp_path / "rmsnorm_linear_example")


@pytest.mark.skipif(not THOROUGH, reason="a program of C++ links the same library: make fuzz")
def test_a_rust_program_links_the_static_library(compiled: Path, tmp_path: Path) -> None:
    require("cargo")
    manifest = EXAMPLES / "ahead_of_time" / "rust" / "Cargo.toml"
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(tmp_path),
        "CUDA_PATH": str(find_toolchain().cuda_root),
        "COMPILED_MUGRAPH": str(compiled),
    }
    command = ["cargo", "build", "--release", "--offline", "--locked", "--manifest-path", manifest]
    _run_here([str(part) for part in command], environment)
    _expect_example(tmp_path / "release" / "rmsnorm_linear_example")


def _run_here(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def _expect_example(program: Path) -> None:
    """It loads no Python and no cuBLAS; it is right on a GPU, and says so where there is none."""
    loads = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout
    assert "python" not in loads and "cublas" not in loads
    done = subprocess.run([str(program)], capture_output=True, text=True)
    if done.returncode == 2:
        assert "no NVIDIA GPU" in done.stderr
    else:
        assert done.returncode == 0 and "largest error" in done.stdout, done.stdout + done.stderr
