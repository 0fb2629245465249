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
    """Of which compiler that is, and of when the headers of CUTLASS and CUDA were written.

    A working copy of CUTLASS keeps its version while its headers change.
    """
    found = Path(shutil.which(compiler) or compiler).resolve()
    parts = [str(found), _written(found)]
    for folder in (find_cutlass(), *cuda_include_paths()):
        headers = sorted(path for path in folder.rglob("*") if path.is_file())
        parts += [f"{path.relative_to(folder)} {_written(path)}" for path in headers]
    return digest_of(parts)


def _written(path: Path) -> str:
    state = path.stat()
    return f"{state.st_size} {state.st_mtime_ns}"


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
    nothing is kept.  A file that was removed from the folder is made again.
    """
    folder = _kept() / key
    if (folder / name).exists():
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
            # Another process was first, and the two are equal; or the folder has lost the file.
            if not folder.exists():
                raise
            (whole / name).replace(folder / name)
    return folder / name


def kept_folder(name: str) -> Path:
    """A folder of that name, which stays as long as it is asked for."""
    folder = _kept() / name
    folder.mkdir(exist_ok=True)
    os.utime(folder)
    return folder


def _kept() -> Path:
    # Users of one machine have a folder each: programs in it are run.
    folder = Path(tempfile.gettempdir()) / f"mugraph-compiled-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _remove_unused() -> None:
    """Removes what nobody has asked for in a long time."""
    for folder in _kept().iterdir():
        try:
            if folder.stat().st_mtime < time.time() - KEPT:
                shutil.rmtree(folder)
        except FileNotFoundError:
            pass  # another process removes it, too
