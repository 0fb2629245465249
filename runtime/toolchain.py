"""Where the CUDA compiler and the headers are, on this machine.

nvcc is taken from ``PATH``, else from the packages of the ``mugraph[cuda]`` extra; CUTLASS's
headers (CuTe among them) from ``MUGRAPH_CUTLASS_INCLUDE``, else from the cache that
``python -m mugraph fetch-cutlass`` fills, else from an installed ``nvidia-cutlass``.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mugraph.errors import UserError

CUTLASS_VERSION = "4.2.0"
"""The CUTLASS whose headers mugraph is tested with, beside CUDA and CCCL 13.0."""

CUTLASS_WHEEL = "nvidia-cutlass==4.2.0.0"
CUTLASS_WHEEL_SHA256 = "f9599ada45c7bcb6bf53f7d3f0a7d154183e53451c01bfa59eecd37dd4a693f6"
_CUTLASS_HEADERS_IN_WHEEL = "cutlass_library/source/include/"

# CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of the driver's interface.
_COMPUTE_CAPABILITY_ATTRIBUTES = (75, 76)

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


def architecture_flags(arch: str) -> tuple[str, str]:
    """What makes nvcc compile for one architecture, such as ``sm_90a``, and for no other.

    ``-arch=sm_90a`` also compiles for ``compute_90``, which lacks the instructions of warp groups.
    """
    return "-gencode", f"arch=compute_{arch.removeprefix('sm_')},code={arch}"


def cache_directory() -> Path:
    """Where mugraph keeps what it can make again: ``$XDG_CACHE_HOME/mugraph``."""
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if base and os.path.isabs(base) else Path.home() / ".cache"
    return root / "mugraph"


def cached_cutlass() -> Path:
    """The include folder that ``fetch_cutlass`` fills, there or not."""
    return cache_directory() / f"cutlass-{CUTLASS_VERSION}" / "include"


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
    candidates = [cached_cutlass()]
    candidates += [folder / "source" / "include" for folder in _package_folders("cutlass_library")]
    for candidate in candidates:
        if _holds_cute(candidate):
            return candidate
    raise ToolchainError(
        "CUTLASS's headers are not on this machine: run `python -m mugraph fetch-cutlass`, or set "
        f"{CUTLASS_INCLUDE_VARIABLE} to the include folder of CUTLASS {CUTLASS_VERSION}."
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
        cublas=_find_cublas(cuda_root),
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


def fetch_cutlass() -> Path:
    """Download the pinned CUTLASS wheel, unpack its headers into the cache, return their folder.

    The wheel's own requirements, which the headers do not need, are left out.  Does nothing if the
    headers are there.  Raises ``ToolchainError`` when the wheel cannot be had or is another one.
    """
    target = cached_cutlass()
    if _holds_cute(target):
        return target
    target.parent.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent.parent, prefix=".cutlass-") as temporary:
        wheel = _download_wheel(CUTLASS_WHEEL, Path(temporary))
        unpacked = Path(temporary) / "cutlass"
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                name = member.filename
                if name.startswith(_CUTLASS_HEADERS_IN_WHEEL) and not member.is_dir():
                    _unpack(archive, name, unpacked / "include", _CUTLASS_HEADERS_IN_WHEEL)
                elif "/licenses/" in name and not member.is_dir():
                    _unpack(archive, name, unpacked, name.rpartition("/")[0] + "/")
        if not _holds_cute(unpacked / "include"):
            raise ToolchainError(f"the wheel of {CUTLASS_WHEEL} holds no CuTe headers.")
        try:
            unpacked.rename(target.parent)
        except OSError as error:
            # Another process may have been first; its result is as good.
            if not _holds_cute(target):
                raise ToolchainError(
                    f"cannot put CUTLASS's headers at {target.parent}: {error.strerror}; "
                    "remove what is there and try again."
                ) from error
    return target


def _download_wheel(requirement: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), requirement]
    result = subprocess.run(command, capture_output=True, text=True)
    wheels = sorted(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        said = result.stderr.strip().splitlines()
        reason = said[-1] if said else "pip gave no reason"
        raise ToolchainError(
            f"cannot download {requirement} ({reason}). Try again with the network reachable and "
            f"pip installed, or set {CUTLASS_INCLUDE_VARIABLE} to CUTLASS {CUTLASS_VERSION}'s "
            "include folder."
        )
    digest = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    if digest != CUTLASS_WHEEL_SHA256:
        raise ToolchainError(
            f"the wheel that the index gave for {requirement} is not the one that mugraph pins: "
            f"its SHA-256 is {digest}, not {CUTLASS_WHEEL_SHA256}."
        )
    return wheels[0]


def _unpack(archive: zipfile.ZipFile, member: str, folder: Path, prefix: str) -> None:
    path = folder / member.removeprefix(prefix)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive.read(member))


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


def _output_of(nvcc: Path, *arguments: str) -> str:
    try:
        result = subprocess.run([nvcc, *arguments], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{nvcc} cannot be run: {error}.") from error
    if result.returncode != 0:
        raise ToolchainError(f"{nvcc} {' '.join(arguments)} fails: {result.stderr.strip()}")
    return result.stdout + result.stderr


def _find_cublas(cuda_root: Path) -> Cublas | None:
    """cuBLAS beside nvcc's toolkit, else the package index's; None if neither is installed."""
    roots = [cuda_root]
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
