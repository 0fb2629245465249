"""The folder of compiled kernels: shared by processes, checked when read, never half written.

An entry is a folder named by the digest of everything that its contents depend on.  It is made in
a temporary folder beside it and renamed, so it is there whole or not at all, also where a compiler
was killed.  It holds the SHA-256 of its result, which every process compares before it first uses
it; an entry that does not agree is made again.  Where the cache cannot be written (a read-only or
full disk) the entry is made in a folder of this process, and a warning says so.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mugraph.runtime.errors import UserError
from mugraph.runtime.toolchain import cache_directory

DIGEST_NAME = "sha256"
_UNFINISHED = ".compiling-"
_ABANDONED_SECONDS = 24 * 3600
"""After this long an unfinished folder belongs to a process that was killed."""

_UNWRITABLE = {
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT),
    # A file stands where the folder would be.
    *(errno.ENOTDIR, errno.EEXIST),
}

_checked: set[Path] = set()


class CacheWarning(RuntimeWarning):
    """The cache of compiled kernels cannot be used as it should; compilation goes on without it."""


@dataclass
class Entry:
    """An entry while it is read or made; ``result`` is where the result is afterwards."""

    folder: Path
    result: Path
    is_new: bool


@contextmanager
def cache_entry(key: str, result_name: str) -> Generator[Entry]:
    """The entry of a key; where ``is_new``, the block puts the result into ``folder``.

    An error of the block leaves no entry behind.
    """
    kernels = cache_directory() / "kernels"
    final = kernels / key
    if _is_sound(final, result_name):
        yield Entry(final, final / result_name, is_new=False)
        return
    temporary = _unfinished_folder(kernels)
    # A folder inside, for the temporary one must stay in place to be cleaned up.
    folder = temporary / "entry"
    folder.mkdir()
    entry = Entry(folder, final / result_name, is_new=True)
    try:
        try:
            yield entry
        except OSError as error:
            raise UserError(
                f"compiling in {folder} failed: {error.strerror}; make room there, or set "
                "XDG_CACHE_HOME to another folder."
            ) from error
        (folder / DIGEST_NAME).write_text(_digest(folder / result_name), encoding="utf-8")
        if temporary.parent == kernels and _publish(folder, final, result_name):
            _checked.add(entry.result)
        else:
            entry.result = folder / result_name
            # The caller loads the file now and this process may do so again.
            atexit.register(shutil.rmtree, temporary, ignore_errors=True)
            temporary = None
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def keep_failure(source: Path) -> Path:
    """Copies a source that did not compile to where its reader finds it; returns that place."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:32]
    for folder in (cache_directory() / "kernels", Path(tempfile.gettempdir())):
        kept = folder / f"failed-{digest}.cu"
        try:
            shutil.copyfile(source, kept)
        except OSError:
            continue
        return kept
    return source


def _is_sound(entry: Path, result_name: str) -> bool:
    """Whether the entry is there with the contents that it was written with."""
    result = entry / result_name
    if result in _checked and result.is_file():
        return True
    try:
        recorded = (entry / DIGEST_NAME).read_text(encoding="utf-8")
        if recorded != _digest(result):
            return False
    except (OSError, UnicodeDecodeError):
        return False
    _checked.add(result)
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _unfinished_folder(kernels: Path) -> Path:
    """A new folder in the cache, or in the system's temporary folder where that cannot be."""
    try:
        kernels.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(kernels)
        return Path(tempfile.mkdtemp(dir=kernels, prefix=_UNFINISHED))
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        warnings.warn(
            f"{kernels} cannot be written ({error.strerror}); kernels are compiled for this "
            "process only: set XDG_CACHE_HOME to a folder that can",
            CacheWarning,
            stacklevel=2,
        )
        return Path(tempfile.mkdtemp(prefix="mugraph-"))


def _remove_abandoned(kernels: Path) -> None:
    """Removes what killed compilers left behind."""
    now = time.time()
    for folder in kernels.glob(f"{_UNFINISHED}*"):
        try:
            if now - folder.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue


def _publish(folder: Path, final: Path, result_name: str) -> bool:
    """Renames a finished folder into place; false where that cannot be."""
    for _ in range(2):
        try:
            folder.rename(final)
            return True
        except OSError:
            # Another process made the same entry meanwhile, or one that is not sound is there.
            if _is_sound(final, result_name):
                return True
            broken = Path(f"{final}.broken-{os.getpid()}")
            try:
                final.rename(broken)
            except OSError:
                return False
            shutil.rmtree(broken, ignore_errors=True)
    return False
