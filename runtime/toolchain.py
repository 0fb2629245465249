"""Where the CUDA compiler and the headers are, on this machine.

nvcc is taken from ``PATH``, else from the packages of the ``mugraph[cuda]`` extra; CUTLASS's
headers (CuTe among them) from ``MUGRAPH_CUTLASS_INCLUDE``, else from the package of the extra.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mugraph.errors import UserError

CUTLASS_VERSION = "4.2.0"
"""The CUTLASS whose headers mugraph is tested with, beside CUDA and CCCL 13.0."""

# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of the driver's interface.
_COMPUTE_CAPABILITY_ATTRIBUTES = (75, 76)

HOST_OPTIMIZATION = ("-Xcompiler", "-O1")
"""How nvcc lets the host's compiler optimize: code that only launches kernels, which is long.

Kernels are optimized in any case.  The function of a model with 36 layers has 325 launches, for
which g++ takes 12 s with ``-O3`` and 6 s so; a call takes as long (8.1 and 8.3 us on a CPU, with
launches that do nothing), and 12.3 with ``-Og``.
"""

CUTLASS_INCLUDE_VARIABLE = "MUGRAPH_CUTLASS_INCLUDE"


class ToolchainError(UserError):
    """Something that is needed to compile CUDA is not on this machine."""


@dataclass(frozen=True)
class Cublas:
    """cuBLAS's headers and its shared library, which kernel-level matrix products call."""

    include_path: Path
    library: Path


@dataclass(frozen=True)
class Toolchain:
    """An nvcc, and what its command line needs to find."""

    nvcc: Path
    version: str
    """nvcc's full version, such as ``13.0.88``."""
    cuda_root: Path
    """The toolkit's folder, the one that holds ``include`` and ``nvvm``."""
    cutlass_include: Path
    cublas: Cublas | None

    @property
    def include_paths(self) -> tuple[Path, ...]:
        """Ours and CUTLASS's header folders; nvcc knows its own."""
        return (*runtime_include_paths(), self.cutlass_include)

    @property
    def library_paths(self) -> tuple[Path, ...]:
        """Folders with CUDA's run-time library; the index's packages have ``lib`` for ``lib64``."""
        return tuple(p for p in (self.cuda_root / "lib64", self.cuda_root / "lib") if p.is_dir())


def runtime_include_paths() -> tuple[Path, ...]:
    """mugraph's own header folders, for ``<mugraph/…>`` and for the generated ``"runtime.h"``."""
    include = Path(__file__).resolve().parent / "include"
    return (include, include / "mugraph")


def cache_directory() -> Path:
    """Where mugraph keeps what it can make again: ``$XDG_CACHE_HOME/mugraph``."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "mugraph"


def find_cutlass() -> Path:
    """CUTLASS's include folder; ``ToolchainError`` if there is none."""
    given = os.environ.get(CUTLASS_INCLUDE_VARIABLE)
    if given:
        if not _holds_cute(Path(given)):
            raise ToolchainError(
                f"{CUTLASS_INCLUDE_VARIABLE} is {given}, which has no cute/layout.hpp; set it to "
                "the include folder of CUTLASS, or unset it."
            )
        return Path(given)
    for folder in _package_folders("cutlass_library"):
        if _holds_cute(folder / "source" / "include"):
            return folder / "source" / "include"
    raise ToolchainError(
        "CUTLASS's headers are not on this machine: install them with "
        f"`pip install 'mugraph[cuda]'`, or set {CUTLASS_INCLUDE_VARIABLE} to the include folder "
        f"of CUTLASS {CUTLASS_VERSION}."
    )


def find_nvcc() -> Path:
    """nvcc, from ``PATH`` or else from the package index's wheels; ``ToolchainError`` if none."""
    on_path = shutil.which("nvcc")
    if on_path is not None:
        return Path(on_path)
    for folder in _package_folders("nvidia"):
        for nvcc in sorted(folder.glob("cu*/bin/nvcc"), reverse=True):
            if os.access(nvcc, os.X_OK):
                return nvcc
    raise ToolchainError(
        "nvcc is not on this machine: put a CUDA toolkit's nvcc on PATH, or install the compiler "
        "with `pip install 'mugraph[cuda]'`."
    )


def find_cublas(cuda_root: Path | None = None) -> Cublas | None:
    """cuBLAS of a toolkit's folder, else the package index's; None if neither is installed."""
    roots = [] if cuda_root is None else [cuda_root]
    for folder in _package_folders("nvidia"):
        roots += sorted(folder.glob("cu*"), reverse=True)
        roots.append(folder / "cublas")
    for root in roots:
        header = root / "include" / "cublas_v2.h"
        libraries = [
            library
            for folder in ("lib64", "lib")
            for library in sorted((root / folder).glob("libcublas.so*"))
        ]
        if header.is_file() and libraries:
            return Cublas(header.parent, libraries[0])
    return None


def cuda_include_paths() -> tuple[Path, ...]:
    """The header folders of nvcc's toolkit, for other compilers; ``ToolchainError`` if no nvcc."""
    include = _cuda_root(find_nvcc()) / "include"
    return tuple(path for path in (include, include / "cccl") if path.is_dir())


def find_toolchain() -> Toolchain:
    """The compiler and headers to use; ``ToolchainError`` says what is missing."""
    nvcc = find_nvcc()
    if shutil.which("g++") is None and shutil.which("c++") is None and "CXX" not in os.environ:
        raise ToolchainError(f"{nvcc} needs a host C++ compiler: install g++.")
    cuda_root = _cuda_root(nvcc)
    return Toolchain(
        nvcc=nvcc,
        version=_nvcc_version(nvcc),
        cuda_root=cuda_root,
        cutlass_include=find_cutlass(),
        cublas=find_cublas(cuda_root),
    )


def device_architecture() -> str | None:
    """The first GPU's architecture as nvcc names it (``sm_90a``), or None where there is none.

    From Hopper on, the name with the ``a``: the instructions that are of that architecture alone.
    The driver is asked, so ``CUDA_VISIBLE_DEVICES`` counts.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None
    versions: list[int] = []
    for attribute in _COMPUTE_CAPABILITY_ATTRIBUTES:
        version = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(version), attribute, device) != 0:
            return None
        versions.append(version.value)
    major, minor = versions
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


def device_name() -> str | None:
    """The driver's name of the first GPU, or None where there is none."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None
    if driver.cuDeviceGetName(name, len(name), device) != 0:
        return None
    return name.value.decode(errors="replace")


def _holds_cute(folder: Path) -> bool:
    return (folder / "cute" / "layout.hpp").is_file()


def _package_folders(name: str) -> Iterable[Path]:
    """The folders of a top-level package of this Python, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.submodule_search_locations is None:
        return ()
    return [Path(location) for location in spec.submodule_search_locations]


def _nvcc_version(nvcc: Path) -> str:
    match = re.search(r"\bV(\d+\.\d+\.\d+)", _output_of(nvcc, "--version"))
    if match is None:
        raise ToolchainError(f"{nvcc} does not say its version; is it NVIDIA's nvcc?")
    return match.group(1)


def _cuda_root(nvcc: Path) -> Path:
    """The toolkit's folder, which nvcc knows also when it is started through a wrapper or link."""
    match = re.search(r"^#\$ TOP=(.*)$", _output_of(nvcc, "--dryrun", "-c", "none.cu"), re.M)
    return Path(match.group(1).strip() if match else nvcc.parent.parent).resolve()


def run_compiler(
    command: Sequence[str | Path],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a compiler in a folder, for what it says.

    Its standard input is empty: where this process has none, as under some servers, nvcc fails.
    Raises ``OSError`` where the compiler cannot be run, and ``subprocess.TimeoutExpired``.
    """
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def _output_of(nvcc: Path, *arguments: str) -> str:
    try:
        result = run_compiler([nvcc, *arguments], timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{nvcc} cannot be run: {error}.") from error
    if result.returncode != 0:
        raise ToolchainError(f"{nvcc} {' '.join(arguments)} fails: {result.stderr.strip()}")
    return result.stdout + result.stderr
