"""The folder of compiled kernels: shared by processes, checked when read, never half written.

An entry is a folder named by the digest of everything that its contents depend on.  It is made in
a temporary folder beside it and renamed, so it is there whole or not at all, also where a compiler
was killed.  It holds the SHA-256 of its result, which every process compares before it first uses
it; an entry that does not agree is made again.  Where the cache cannot be written (a read-only or
full disk) the entry is made in a folder of this process, and a warning says so.

When an entry was made and the cache is larger than ``MUGRAPH_CACHE_SIZE``, the entries that were
used least recently are removed, but for those that a living process has asked for: it holds a lock
on a byte of one file, a byte for each entry.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from mugraph.errors import UserError
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

SIZE_VARIABLE = "MUGRAPH_CACHE_SIZE"
"""The environment variable for the size of the cache: bytes, or with K, M, G or T behind them."""
DEFAULT_SIZE = 4 * 2**30

_checked: set[Path] = set()


class CacheWarning(RuntimeWarning):
    """The cache of compiled kernels cannot be used as it should; compilation goes on without it."""


@dataclass
class Entry:
    """An entry while it is read or made; ``result`` is where the result is afterwards."""

    folder: Path
    result: Path
    is_new: bool


class _InUse:
    """The entries that processes use: locked bytes of a file beside the folder of entries.

    Locks of this kind belong to the process, and end with it.  ``guard`` is held where entries are
    taken or removed, as they do not keep threads apart.
    """

    def __init__(self) -> None:
        self.guard = threading.Lock()
        self._files: dict[Path, int] = {}
        self._held: set[Path] = set()

    def hold(self, entry: Path) -> None:
        """Keeps an entry from being removed as long as this process lives, if it can be written."""
        if entry not in self._held:
            with suppress(OSError):
                fcntl.lockf(self._file(entry.parent), fcntl.LOCK_SH, 1, self._place(entry))
                self._held.add(entry)

    @contextmanager
    def unused(self, entry: Path) -> Generator[bool]:
        """Whether nobody uses an entry, nor begins to while the block runs."""
        if entry in self._held:
            yield False
            return
        try:
            file, place = self._file(entry.parent), self._place(entry)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    def _file(self, folder: Path) -> int:
        # Closing any descriptor of the file would end all locks of the process on it.
        if folder not in self._files:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._files[folder] = os.open(f"{folder}.in-use", flags, 0o600)
        return self._files[folder]

    @staticmethod
    def _place(entry: Path) -> int:
        return int.from_bytes(hashlib.sha256(entry.name.encode()).digest()[:7])


_in_use = _InUse()


def _begin_child() -> None:
    """A forked process has no locks of its parent's."""
    global _in_use
    _in_use = _InUse()


os.register_at_fork(after_in_child=_begin_child)


def cache_size() -> int:
    """How large the cache may be in bytes; ``UserError`` where the variable says no size."""
    given = os.environ.get(SIZE_VARIABLE)
    if given is None:
        return DEFAULT_SIZE
    match = re.fullmatch(r"(\d+)([KMGT]?)", given.strip().upper())
    if match is None:
        raise UserError(
            f"{SIZE_VARIABLE} is {given!r}; expected a number of bytes, or one such as 500M or 4G."
        )
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")


@contextmanager
def cache_entry(key: str, result_name: str) -> Generator[Entry]:
    """The entry of a key; where ``is_new``, the block puts the result into ``folder``.

    Who asks for an entry that is being made waits for it: processes that begin together, as those
    of several devices, make each entry once.  An error of the block leaves no entry behind.
    """
    kernels = cache_directory() / "kernels"
    final = kernels / key
    limit = cache_size()
    if _take(final, result_name):
        yield Entry(final, final / result_name, is_new=False)
        return
    with _turn(kernels, key):
        if _take(final, result_name):
            yield Entry(final, final / result_name, is_new=False)
        else:
            yield from _made(kernels, final, result_name, limit)


@contextmanager
def _turn(kernels: Path, key: str) -> Generator[None]:
    """One process, or thread, at a time makes an entry; where there are no locks, each does."""
    lock = kernels / f".turn-{key}"
    file: int | None = None
    # A lock goes with its file's descriptor, also where the process is killed.
    with suppress(OSError):
        kernels.mkdir(parents=True, exist_ok=True)
        file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if file is not None:
            lock.unlink(missing_ok=True)
            os.close(file)


def _made(kernels: Path, final: Path, result_name: str, limit: int) -> Generator[Entry]:
    """A new entry, which is checked and put in its place behind the block."""
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
        _in_use.hold(final)
        if temporary.parent == kernels and _publish(folder, final, result_name):
            _checked.add(entry.result)
            _remove_least_recent(kernels, limit)
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


def _take(entry: Path, result_name: str) -> bool:
    """Whether the entry is there; nobody removes it then while this process lives."""
    with _in_use.guard:
        _in_use.hold(entry)
        if not _is_sound(entry, result_name):
            return False
        with suppress(OSError):
            os.utime(entry)
        return True


def _remove_least_recent(kernels: Path, limit: int) -> None:
    """Removes entries, and sources that did not compile, until the cache is within its size."""
    found = [_used(path) for path in kernels.iterdir() if not path.name.startswith(".")]
    size = sum(each for _, each, _ in found)
    for _, taken, path in sorted(found):
        if size <= limit:
            break
        with _in_use.guard, _in_use.unused(path) as is_unused:
            if is_unused:
                gone = kernels / f"{_UNFINISHED}{uuid4().hex}"
                with suppress(OSError):
                    path.rename(gone)
                    size -= taken
                shutil.rmtree(gone, ignore_errors=True)
                gone.unlink(missing_ok=True)


def _used(path: Path) -> tuple[float, int, Path]:
    """When an entry was used last, and its bytes; of one that is gone meanwhile none."""
    try:
        files = list(path.iterdir()) if path.is_dir() else [path]
        return path.stat().st_mtime, sum(file.stat().st_size for file in files), path
    except OSError:
        return 0.0, 0, path


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
