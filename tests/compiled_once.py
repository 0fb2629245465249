"""What a C++ compiler makes in tests, kept in the folder for temporary files.

Most of a compiler's time goes to text that has not changed since the last run of the tests.  What
it made is found again by the command, the text and the headers, whichever process asks for it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from mugraph.runtime.toolchain import cuda_include_paths, find_cutlass

KEPT = 14 * 24 * 3600
"""Seconds after which what nobody asked for is removed."""


@cache
def compiler_digest(compiler: str) -> str:
    """Of which compiler that is, and of the releases of CUTLASS and CUDA."""
    found = Path(shutil.which(compiler) or compiler).resolve()
    state = found.stat()
    releases = [find_cutlass() / "cutlass" / "version.h"]
    releases += [path / "cuda_runtime_api.h" for path in cuda_include_paths()]
    texts = [path.read_bytes() for path in releases if path.exists()]
    return digest_of([str(found), str(state.st_size), str(state.st_mtime_ns), *texts])


def digest_of(parts: Iterable[str | bytes]) -> str:
    """A name for texts; lengths are part of it."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(b"%d " % len(data) + data)
    return digest.hexdigest()[:24]


def compiled_once(key: str, name: str, make: Callable[[Path], object]) -> Path:
    """The file of that name in a folder that ``make`` fills, now or in an earlier process.

    ``key`` is a digest of all that the file depends on.  What ``make`` raises is raised, and
    nothing is kept.
    """
    folder = _kept() / key
    if folder.exists():
        os.utime(folder)
        return folder / name
    _remove_unused()
    with tempfile.TemporaryDirectory(dir=_kept()) as temporary:
        whole = Path(temporary) / "whole"
        whole.mkdir()
        make(whole)
        try:
            whole.rename(folder)
        except OSError:
            # Another process was first; the two are equal.
            if not folder.exists():
                raise
    return folder / name


def kept_folder(name: str) -> Path:
    """A folder of that name, which stays as long as it is asked for."""
    folder = _kept() / name
    folder.mkdir(exist_ok=True)
    os.utime(folder)
    return folder


def _kept() -> Path:
    folder = Path(tempfile.gettempdir()) / "mugraph-compiled"
    folder.mkdir(exist_ok=True)
    return folder


def _remove_unused() -> None:
    """Removes what nobody has asked for in a long time."""
    for folder in _kept().iterdir():
        try:
            if folder.stat().st_mtime < time.time() - KEPT:
                shutil.rmtree(folder)
        except FileNotFoundError:
            pass  # another process removes it, too
