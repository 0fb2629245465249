"""What a compiler made is found again, and what failed is not kept."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import compiled_once as module
import pytest
from compiled_once import KEPT, compiled_once, compiler_digest, digest_of, kept_folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def long_ago() -> float:
    return time.time() - 2 * KEPT


def test_what_is_asked_for_again_is_not_made_again() -> None:
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "program").write_text("made")

    first = compiled_once("one", "program", make)
    assert compiled_once("one", "program", make) == first and len(made) == 1
    assert first.read_text() == "made"
    assert compiled_once("other", "program", make) != first and len(made) == 2


def test_what_failed_is_made_again() -> None:
    def fail(folder: Path) -> None:
        (folder / "program").write_text("half")
        raise ValueError("no compiler")

    with pytest.raises(ValueError, match="no compiler"):
        compiled_once("one", "program", fail)
    made = compiled_once("one", "program", lambda folder: (folder / "program").write_text("whole"))
    assert made.read_text() == "whole"


def test_what_was_removed_is_made_again() -> None:
    """Machines remove old files of this folder, and leave folders."""
    made = compiled_once("one", "program", lambda folder: (folder / "program").write_text("first"))
    (made.parent / "log").touch()
    made.unlink()
    again = compiled_once("one", "program", lambda folder: (folder / "program").write_text("again"))
    assert again == made and again.read_text() == "again"


def test_other_users_have_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    own = compiled_once("one", "program", lambda folder: (folder / "program").write_text("own"))
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    other = compiled_once("one", "program", lambda folder: (folder / "program").write_text("other"))
    assert own.read_text() == "own" and other.read_text() == "other"
    assert own.parents[1].stat().st_mode & 0o077 == 0


def test_a_header_that_changes_within_a_release_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cute/tensor.hpp", "cutlass/version.h"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("#define CUTLASS_MAJOR 4")
    monkeypatch.setattr(module, "find_cutlass", lambda: tmp_path)
    monkeypatch.setattr(module, "cuda_include_paths", list[Path])
    digests = [compiler_digest.__wrapped__(sys.executable) for _ in range(2)]
    (tmp_path / "cute/tensor.hpp").write_text("changed")
    assert digests[0] == digests[1] != compiler_digest.__wrapped__(sys.executable)


def test_what_nobody_asked_for_is_removed() -> None:
    old, used = (
        compiled_once(key, "program", lambda folder: (folder / "program").touch())
        for key in ("old", "used")
    )
    for made in (old, used):
        os.utime(made.parent, times=(long_ago(), long_ago()))
    compiled_once("used", "program", lambda folder: None)
    compiled_once("new", "program", lambda folder: None)
    assert used.exists() and not old.exists()


def test_a_digest_tells_texts_apart() -> None:
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])
    assert digest_of(["ab", b"c"]) == digest_of(["ab", "c"])


def test_a_folder_stays_while_it_is_asked_for() -> None:
    folder = kept_folder("headers")
    (folder / "compiled").touch()
    os.utime(folder, times=(long_ago(), long_ago()))
    assert kept_folder("headers") == folder
    compiled_once("new", "program", lambda folder: None)
    assert (folder / "compiled").exists()
