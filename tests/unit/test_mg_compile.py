"""mg-compile beside others of its kind, and where a folder or the disk refuses it.

nvcc is a shell script, so that a compilation takes no time that is not asked for.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mugraph.errors import UserError
from mugraph.reading import make_context, read_module
from mugraph.runtime import ahead_of_time
from mugraph.runtime.ahead_of_time import build, write_sources
from mugraph.runtime.library_sources import Sources, generate_sources
from mugraph.runtime.toolchain import Toolchain

GRAPH = Path(__file__).resolve().parents[2] / "examples" / "rmsnorm_linear.mlir"

NVCC = """#!/bin/sh
case "$*" in
  *--version*) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit ;;
  *--dryrun*) echo '#$ TOP=@ROOT@/toolkit/bin/..' >&2; exit ;;
esac
echo "$PWD $(date +%s.%N)" >> @ROOT@/started
[ -z "$FULL" ] || { echo 'fatal error: error writing to x.o: No space left on device' >&2; exit 1; }
sleep 0.5
while [ "$1" != -o ]; do shift; done
echo "$PWD" > "$2" || exit 1
echo "$PWD $(date +%s.%N)" >> @ROOT@/ended
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder with an nvcc and CUTLASS's headers."""
    if shutil.which("ar") is None or shutil.which("g++") is None:
        pytest.skip("not on this machine: ar or g++")
    for folder in ("bin", "toolkit/bin", "toolkit/lib", "cutlass/cute"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "cutlass" / "cute" / "layout.hpp").write_text("")
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text(NVCC.replace("@ROOT@", str(tmp_path)))
    nvcc.chmod(0o755)
    return tmp_path


def start(machine: Path, number: int) -> subprocess.Popen[str]:
    """One mg-compile, with a cache of its own."""
    command = [sys.executable, "-m", "mugraph.tools.mg_compile", str(GRAPH), "--arch", "sm_80"]
    return subprocess.Popen(
        [*command, "-o", str(machine / f"out{number}")],
        env={
            **os.environ,
            "PATH": f"{machine / 'bin'}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(machine / f"cache{number}"),
            "MUGRAPH_CUTLASS_INCLUDE": str(machine / "cutlass"),
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def tools_of(machine: Path) -> Toolchain:
    root = machine / "toolkit"
    return Toolchain(machine / "bin" / "nvcc", "13.0.88", root, machine / "cutlass", None)


@pytest.fixture(scope="module")
def sources() -> Sources:
    context = make_context()
    return generate_sources(read_module(str(GRAPH), context), context, ["sm_80"])


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_several_at_once_with_caches_of_their_own(machine: Path) -> None:
    # One of them has none: a file stands where the folder would be.
    (machine / "cache1").write_text("")
    running = [start(machine, number) for number in range(2)]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * 2, said
    written = [files_of(machine / f"out{number}") for number in range(2)]
    # Their folder has one name, which is in the bytes.
    assert written[0] == written[1] and len(written[0]) == 8
    (folder,) = {line.split()[0] for line in (machine / "started").read_text().splitlines()}
    assert not Path(folder).exists() and not Path(f"{folder}.lock").exists()


def test_different_graphs_do_not_wait_for_each_other(machine: Path, sources: Sources) -> None:
    with ThreadPoolExecutor(2) as pool:
        outputs = [machine / name for name in ("one", "other")]
        done = [
            pool.submit(build, sources, output, output.name, toolchain=tools_of(machine))
            for output in outputs
        ]
        assert [len(each.result()) for each in done] == [8, 8]
    times: dict[str, list[float]] = {}
    for name in ("started", "ended"):
        for line in (machine / name).read_text().splitlines():
            folder, at = line.split()
            times.setdefault(folder, []).append(float(at))
    one, other = times.values()
    assert max(min(one), min(other)) < min(max(one), max(other))


def test_two_graphs_in_one_folder_leave_the_files_of_one(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced = Path.replace
    late = iter([0.1])

    def in_turns(self: Path, target: Path) -> Path:
        # One file of the first, all of the other, the rest of the first.
        time.sleep(0.07 if self.read_text() == "one" else next(late, 0))
        return replaced(self, target)

    monkeypatch.setattr(Path, "replace", in_turns)
    both = [
        dataclasses.replace(sources, files=dict.fromkeys(sources.files, text))
        for text in ("one", "other")
    ]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda each: write_sources(each, tmp_path), both))
    assert len(set(files_of(tmp_path).values())) == 1


def test_a_disk_that_is_full_for_nvcc(
    machine: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FULL", "1")
    output = machine / "out"
    with pytest.raises(UserError) as error:
        build(sources, output, "", toolchain=tools_of(machine))
    assert str(error.value).startswith(f"cannot write {output}: No space left on device in /")
    assert str(error.value).endswith("; nothing there has changed") and not output.exists()


@pytest.mark.parametrize("room", [0, 1, 3])
def test_a_full_disk_leaves_the_result_before(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    output = tmp_path / "new" / "out"
    before = {}
    if room:
        write_sources(sources, output)
        (output / "include" / "rmsnorm_linear.h").write_text("an older one")
        before = files_of(output)
    copies = 0

    def copy(source: Path, target: Path) -> None:
        nonlocal copies
        copies += 1
        target.write_bytes(source.read_bytes())
        if copies > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))

    monkeypatch.setattr(ahead_of_time.shutil, "copyfile", copy)
    expected = f"cannot write {output}: No space left on device; nothing there has changed"
    with pytest.raises(UserError) as error:
        write_sources(sources, output)
    assert str(error.value) == expected
    assert files_of(tmp_path) == {f"new/out/{name}": data for name, data in before.items()}
    assert room or not (tmp_path / "new").exists()


def test_no_room_to_compile_in_names_both_folders(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(self: Path, *_: Any, **__: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self))

    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(UserError, match=f"cannot write {tmp_path}: No space left on device in /"):
        write_sources(sources, tmp_path)


def test_a_lock_is_had_by_one_at_a_time(tmp_path: Path) -> None:
    """Each thread opens the file itself, as processes do."""

    def take() -> None:
        for _ in range(20):
            with ahead_of_time._locked(tmp_path / "lock"):  # pyright: ignore[reportPrivateUsage]
                (tmp_path / "busy").mkdir()
                time.sleep(0.001)
                (tmp_path / "busy").rmdir()

    with ThreadPoolExecutor(2) as pool:
        for each in [pool.submit(take) for _ in range(2)]:
            each.result()
    assert list(tmp_path.iterdir()) == []
