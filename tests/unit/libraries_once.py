"""Libraries that are built ahead of time, whose translation units nvcc compiles once."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from compiled_once import compiled_once, digest_of
from fuzz.emulated import headers_digest

from mugraph.runtime import ahead_of_time
from mugraph.runtime.toolchain import find_toolchain


@contextmanager
def units_once() -> Generator[None]:
    """Within, nvcc compiles a translation unit of a library only where it has not yet.

    The same are the command, all sources of the library and the headers.  Libraries are linked each
    time.
    """
    toolchain = find_toolchain()
    run = ahead_of_time._run  # pyright: ignore[reportPrivateUsage]

    def compile_or_find(command: Sequence[str], folder: Path, what: str) -> None:
        if command[0] != str(toolchain.nvcc) or "-c" not in command:
            return run(command, folder, what)
        target = command[command.index("-o") + 1]
        sources = [path for path in sorted(folder.rglob("*.*")) if path.suffix in (".cu", ".h")]
        sources = [path for path in sources if "keep" not in path.relative_to(folder).parts]
        parts = [headers_digest(), toolchain.version, *command]
        for path in sources:
            parts += [str(path.relative_to(folder)), path.read_text(encoding="utf-8")]

        def make(kept: Path) -> None:
            run(command, folder, what)
            shutil.copyfile(folder / target, kept / target)

        shutil.copyfile(compiled_once(digest_of(parts), target, make), folder / target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ahead_of_time, "_run", compile_or_find)
        yield
