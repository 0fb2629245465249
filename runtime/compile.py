"""From generated CUDA text to a file that can be loaded, kept in a cache.

The cache is keyed by all that the result depends on: the text, mugraph's headers, the flags, nvcc's
version and where CUTLASS is; :mod:`mugraph.runtime.cache` keeps the entries.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mugraph.codegen.architecture import Architecture
from mugraph.errors import UserError
from mugraph.runtime.cache import cache_entry, keep_failure
from mugraph.runtime.toolchain import (
    HOST_OPTIMIZATION,
    Cublas,
    Toolchain,
    ToolchainError,
    find_toolchain,
    run_compiler,
    runtime_include_paths,
)

SOURCE_NAME = "kernel.cu"
"""The generated text's name inside its cache entry; diagnostics and profilers show it."""

LOG_NAME = "nvcc.log"
"""What nvcc said (warnings, for instance), inside the same entry."""

FAST_MATH = ("-use_fast_math",)
"""What is passed to nvcc where a user asks for fast arithmetic; nothing else passes it."""

LINE_INFO = ("-lineinfo",)
"""What makes nvcc note the lines that the generated text says its instructions come from."""

_SHOWN_LINES = 20
"""Lines of nvcc's output that an error quotes."""


class CompileError(UserError):
    """nvcc refused the generated code; the text has nvcc's own words."""


def compile_kernel(
    source: str,
    arch: str = "sm_90a",
    *,
    flags: Sequence[str] = (),
    toolchain: Toolchain | None = None,
) -> Path:
    """Compile a generated file and the launcher around it; returns the shared object.

    ``arch`` is an architecture as nvcc names it, ``flags`` are further options for nvcc.  Raises
    ``ToolchainError`` when something to compile with is missing, ``CompileError`` when nvcc fails,
    ``UserError`` for an ``arch`` that is none.
    """
    toolchain = toolchain or find_toolchain()
    arguments = [str(_launcher()), "-shared", "-Xcompiler", "-fPIC"]
    arguments.append(f'-DMUGRAPH_GENERATED="{SOURCE_NAME}"')
    arguments += _link_arguments(source, toolchain)
    return _compile(source, arch, [*arguments, *flags], "module.so", toolchain)


def compile_library(
    source: str,
    arch: str = "sm_90a",
    *,
    flags: Sequence[str] = (),
    toolchain: Toolchain | None = None,
) -> Path:
    """Compile a file that has its C interface in it (``print_single_file``) to a shared object.

    CUDA's runtime is inside, so that it does not matter which one the process has loaded.  Raises
    as ``compile_kernel``.
    """
    toolchain = toolchain or find_toolchain()
    arguments = [SOURCE_NAME, "-shared", "-cudart", "static"]
    arguments += ["-Xcompiler", "-fPIC,-fvisibility=hidden", "-Xlinker", "--exclude-libs,ALL"]
    arguments += _link_arguments(source, toolchain)
    return _compile(source, arch, [*arguments, *flags], "library.so", toolchain)


def compile_cubin(
    source: str,
    arch: str = "sm_90a",
    *,
    flags: Sequence[str] = (),
    toolchain: Toolchain | None = None,
) -> Path:
    """Compile a generated file alone to a cubin; returns it.  Raises as ``compile_kernel``."""
    toolchain = toolchain or find_toolchain()
    arguments = [SOURCE_NAME, "-cubin", *flags]
    if calls_cublas(source):
        arguments += cublas_includes(toolchain)
    return _compile(source, arch, arguments, "module.cubin", toolchain, with_ptx=False)


def compile_log(compiled: Path) -> str:
    """What nvcc said when it made this file of the cache; empty when it had no warnings."""
    return (compiled.parent / LOG_NAME).read_text(encoding="utf-8")


def calls_cublas(source: str) -> bool:
    """Whether generated code calls cuBLAS, which is for its kernel-level matrix products."""
    return re.search(r"\bkn::gemm(_add)?\b", source) is not None


def _launcher() -> Path:
    return Path(__file__).resolve().parent / "launcher.cu"


def require_cublas(toolchain: Toolchain) -> Cublas:
    """The toolchain's cuBLAS; raises ``ToolchainError`` where it has none."""
    if toolchain.cublas is None:
        raise ToolchainError(
            "this µGraph has a kernel-level matmul, which calls cuBLAS, and cuBLAS's headers and "
            "library are not on this machine: install them with `pip install 'mugraph[cuda]'`."
        )
    return toolchain.cublas


def cublas_includes(toolchain: Toolchain) -> list[str]:
    """What a compiler needs to find cuBLAS's headers; raises as :func:`require_cublas`."""
    include = require_cublas(toolchain).include_path
    if include == toolchain.cuda_root / "include":
        return []
    # After the toolkit's own headers: the package may stand beside another release's.
    return ["-isystem", str(include)]


def cublas_libraries(toolchain: Toolchain) -> list[str]:
    """What a linker needs to find cuBLAS; raises as :func:`require_cublas`."""
    library = require_cublas(toolchain).library
    # By its file name: the index's package has only libcublas.so.13, with no plain .so.
    return [f"-L{library.parent}", f"-l:{library.name}"]


def _link_arguments(source: str, toolchain: Toolchain) -> list[str]:
    """What a shared object of generated code is linked with."""
    arguments = [f"-L{path}" for path in toolchain.library_paths]
    if calls_cublas(source):
        arguments += [*cublas_includes(toolchain), *cublas_libraries(toolchain)]
        arguments += ["-Xlinker", f"-rpath={require_cublas(toolchain).library.parent}"]
    return arguments


def _compile(
    source: str,
    arch: str,
    arguments: Sequence[str],
    result_name: str,
    toolchain: Toolchain,
    *,
    with_ptx: bool = True,
) -> Path:
    command = [
        "-std=c++17",
        *HOST_OPTIMIZATION,
        "--expt-relaxed-constexpr",
        *Architecture(arch).compiler_flags(with_ptx=with_ptx),
        *(f"-I{path}" for path in toolchain.include_paths),
        *arguments,
    ]
    key = _key(source, command, toolchain)
    with cache_entry(key, result_name) as entry:
        if entry.is_new:
            _run_nvcc(source, arch, command, result_name, entry.folder, toolchain)
    return entry.result


def _run_nvcc(
    source: str,
    arch: str,
    command: Sequence[str],
    result_name: str,
    folder: Path,
    toolchain: Toolchain,
) -> None:
    """Compiles in a folder and leaves the source, the result and nvcc's log there."""
    (folder / SOURCE_NAME).write_text(source, encoding="utf-8")
    full = [str(toolchain.nvcc), *command, "-I.", "-o", result_name]
    done = run_compiler(full, folder)
    log = done.stdout + done.stderr
    if done.returncode != 0:
        kept = keep_failure(folder / SOURCE_NAME)
        lines = log.strip().splitlines()
        more = f"\n… and {len(lines) - _SHOWN_LINES} lines more" * (len(lines) > _SHOWN_LINES)
        raise CompileError(
            f"nvcc cannot compile the generated code for {arch} (kept as {kept}):\n"
            + "\n".join(lines[:_SHOWN_LINES])
            + more
        )
    (folder / LOG_NAME).write_text(log, encoding="utf-8")


def _key(source: str, command: Sequence[str], toolchain: Toolchain) -> str:
    digest = hashlib.sha256()
    release = _cutlass_release(toolchain)
    for part in (source, toolchain.version, *command, _headers_digest(), release):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]


def _cutlass_release(toolchain: Toolchain) -> str:
    """What CUTLASS's headers say of their release, which an upgrade in place changes."""
    header = toolchain.cutlass_include / "cutlass" / "version.h"
    return header.read_text(encoding="utf-8") if header.is_file() else ""


@cache
def _headers_digest() -> str:
    """A digest of mugraph's headers and launcher, which every compiled file includes."""
    include = runtime_include_paths()[0]
    digest = hashlib.sha256(_launcher().read_bytes())
    for path in sorted(path for path in include.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(include)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
