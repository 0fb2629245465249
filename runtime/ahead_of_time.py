"""From the texts of a library to files that programs without Python link, in a user's folder.

The same input, options, mugraph and toolkit give the same bytes: nvcc runs in a folder of its own
with relative paths and fixed names for its intermediate files, archives carry no dates.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from mugraph.codegen.architecture import Architecture
from mugraph.codegen.c_abi import (
    INTERFACE_VERSION,
)
from mugraph.errors import UserError
from mugraph.runtime.compile import (
    CompileError,
    cublas_includes,
    cublas_libraries,
    require_cublas,
)
from mugraph.runtime.library_sources import Sources
from mugraph.runtime.toolchain import (
    HOST_OPTIMIZATION,
    Toolchain,
    ToolchainError,
    find_toolchain,
    run_compiler,
)
from mugraph.version import __version__

MANIFEST = "manifest.json"
LOCK = ".mugraph.lock"
"""Who writes into a folder holds this file there."""

_SHOWN_LINES = 20


def write_sources(sources: Sources, output: Path) -> list[Path]:
    """Writes the texts alone into a folder; returns what was written, sorted.

    Raises ``UserError`` where they cannot be written, and leaves the folder as it was.
    """
    with _writing(output), tempfile.TemporaryDirectory(prefix="mugraph-") as temporary:
        _write_texts(sources, Path(temporary))
        return _publish(Path(temporary), output)


@contextmanager
def _writing(output: Path) -> Generator[None]:
    """Names the user's folder where something on the way to it cannot be written."""
    try:
        yield
    except OSError as error:
        where = Path(error.filename or output)
        # A temporary name says nothing to a user, but its folder is the one without room.
        beside = "" if where.is_relative_to(output) else f" in {where.parent}"
        raise UserError(
            f"cannot write {output}: {error.strerror}{beside}; nothing there has changed"
        ) from error


def _write_texts(sources: Sources, folder: Path) -> None:
    for path, text in sources.files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def build(
    sources: Sources,
    output: Path,
    input_text: str,
    *,
    flags: Sequence[str] = (),
    toolchain: Toolchain | None = None,
    jobs: int = 2,
) -> list[Path]:
    """Compiles and writes everything into a folder; returns what was written, sorted.

    Files appear only when all of it has succeeded.  Raises ``ToolchainError`` where something to
    compile with is missing, ``CompileError`` where nvcc fails and ``UserError`` where a file cannot
    be written.
    """
    toolchain = toolchain or find_toolchain()
    if sources.uses_cublas:
        require_cublas(toolchain)
    digest = _digest(sources, input_text, toolchain, flags)
    with _writing(output), _build_folder(digest) as folder:
        _write_texts(sources, folder)
        objects = _compile_all(sources, folder, toolchain, flags, jobs)
        _link(sources, folder, objects, toolchain)
        for path in objects:
            (folder / path).unlink()
        shutil.rmtree(folder / "keep", ignore_errors=True)
        manifest = _manifest(sources, folder, input_text, toolchain, flags)
        (folder / MANIFEST).write_text(manifest, encoding="utf-8")
        return _publish(folder, output)


def _digest(sources: Sources, input_text: str, toolchain: Toolchain, flags: Sequence[str]) -> str:
    """A digest of what a compilation is made from."""
    parts = [input_text, toolchain.version, *flags]
    for path, text in sorted(sources.files.items()):
        parts += [path, text]
    return _sha256("\0".join(parts).encode())[:32]


@contextmanager
def _build_folder(digest: str) -> Generator[Path]:
    """An empty folder to compile in, whose path is a function of what is compiled.

    nvcc puts a hash of the source's absolute path into the names of hidden symbols, so the bytes
    repeat only where the path does.  Who compiles the same waits; who compiles something else does
    not.  Where the folder cannot be had (it is another user's), it is a temporary one: the code is
    the same, those names are not.
    """
    parent = Path("/tmp") if os.access("/tmp", os.W_OK) else Path(tempfile.gettempdir())
    folder = parent / f"mugraph-{digest}"
    with ExitStack() as stack:
        try:
            stack.enter_context(_locked(folder.with_suffix(".lock")))
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=0o700)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        except OSError:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mugraph-")))
        yield folder


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Holds the lock of that name, which stands beside what it guards and is gone afterwards."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            # Who held it before may have removed it meanwhile.
            if os.path.samestat(os.fstat(lock), path.stat()):
                break
        except FileNotFoundError:
            pass
        os.close(lock)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(lock)


def _run(command: Sequence[str], folder: Path, what: str) -> None:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    try:
        done = run_compiler(command, folder, environment)
    except FileNotFoundError as error:
        raise ToolchainError(f"{what} needs {command[0]}, which is not installed.") from error
    if done.returncode != 0:
        said = done.stdout + done.stderr
        full = os.strerror(errno.ENOSPC)
        if full in said:
            raise OSError(errno.ENOSPC, full, str(folder))
        lines = said.strip().splitlines()
        raise CompileError(f"{what} fails:\n" + "\n".join(lines[:_SHOWN_LINES]))


def _compile_all(
    sources: Sources, folder: Path, toolchain: Toolchain, flags: Sequence[str], jobs: int
) -> list[str]:
    """Compiles every translation unit; returns the object files' paths in ``folder``."""
    includes = [f"-I{path}" for path in toolchain.include_paths]
    if sources.uses_cublas:
        includes += cublas_includes(toolchain)

    def compile_one(unit: tuple[str, tuple[Architecture, ...]]) -> str:
        path, kinds = unit
        target = f"{Path(path).stem}.o"
        keep = f"keep/{Path(path).stem}"
        (folder / keep).mkdir(parents=True)
        command = [
            *(str(toolchain.nvcc), "-std=c++17", "--expt-relaxed-constexpr", "-c"),
            *HOST_OPTIMIZATION,
            *(flag for kind in kinds for flag in kind.compiler_flags()),
            *("-Xcompiler", "-fPIC,-fvisibility=hidden,-frandom-seed=mugraph"),
            # Intermediate files whose names do not change from run to run.
            *("--keep", "--keep-dir", keep),
            *("-Iinclude", *includes, *flags, path, "-o", target),
        ]
        _run(command, folder, f"compiling {path}")
        return target

    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        return list(pool.map(compile_one, sources.translation_units))


def _link(sources: Sources, folder: Path, objects: Sequence[str], toolchain: Toolchain) -> None:
    name = sources.interface.name
    _run(["ar", "rcsD", f"lib/lib{name}.a", *objects], folder, "making the static library")
    libraries = cublas_libraries(toolchain) if sources.uses_cublas else []
    command = [
        *(str(toolchain.nvcc), "-shared", "-cudart", "static"),
        *("-Xlinker", "--exclude-libs,ALL", "-Xlinker", "--build-id=none"),
        *("-Xlinker", f"-soname=lib{name}.so"),
        *("--keep", "--keep-dir", "keep"),
        *(f"-L{path}" for path in toolchain.library_paths),
        *(*objects, *libraries, "-o", f"lib/lib{name}.so"),
    ]
    _run(command, folder, "linking the shared library")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _manifest(
    sources: Sources, folder: Path, input_text: str, toolchain: Toolchain, flags: Sequence[str]
) -> str:
    """What was compiled from what, with what, and the digest of every file; sorted JSON."""
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    contents = {
        "name": sources.interface.name,
        "interface_version": INTERFACE_VERSION,
        "mugraph": __version__,
        "nvcc": toolchain.version,
        "nvcc_flags": list(flags),
        "architectures": [arch.name for arch in sources.architectures],
        "input_sha256": _sha256(input_text.encode()),
        "workspace_bytes": sources.interface.workspace_bytes,
        "uses_cublas": sources.uses_cublas,
        "inputs": [asdict(tensor) for tensor in sources.interface.inputs],
        "outputs": [asdict(tensor) for tensor in sources.interface.outputs],
        "extents": [asdict(extent) for extent in sources.interface.extents],
        "communicators": [asdict(each) for each in sources.interface.communicators],
        "peers": [asdict(each) for each in sources.interface.peers],
        "files_sha256": {path: _sha256((folder / path).read_bytes()) for path in files},
    }
    return json.dumps(contents, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _publish(folder: Path, output: Path) -> list[Path]:
    """Moves every file to its place in ``output``, the manifest last: all of them, or none.

    Another compilation into the same folder does so before or afterwards.
    """
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    paths.sort(key=lambda path: path.name == MANIFEST)
    made: list[Path] = []
    try:
        _make_folder(output, made)
        with _locked(output / LOCK):
            _move(folder, output, paths, made)
    except BaseException:
        with suppress(OSError):
            for parent in reversed(made):
                parent.rmdir()
        raise
    return sorted(output / path for path in paths)


def _move(folder: Path, output: Path, paths: Sequence[Path], made: list[Path]) -> None:
    """Replaces the files of ``output`` once there is room for all; notes new folders."""
    partial: dict[Path, Path] = {}
    try:
        for path in paths:
            target = output / path
            _make_folder(target.parent, made)
            # In the same folder first: a reader sees the old file or the new one.
            partial[path] = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
            shutil.copyfile(folder / path, partial[path])
    except BaseException:
        with suppress(OSError):
            for copy in partial.values():
                copy.unlink(missing_ok=True)
        raise
    for path, copy in partial.items():
        copy.replace(output / path)


def _make_folder(folder: Path, made: list[Path]) -> None:
    """Makes a folder and those around it; notes which were not there, the outer ones first."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        made.append(each)
