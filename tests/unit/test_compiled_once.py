"""What a compiler made is found again, and what failed is not kept."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest
from compiled_once import KEPT, compiled_once, digest_of, kept_folder


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


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


def test_what_nobody_asked_for_is_removed() -> None:
    old, used = (
        compiled_once(key, "program", lambda folder: (folder / "program").touch())
        for key in ("old", "used")
    )
    for made in (old, used):
        os.utime(made.parent, times=(time.time() - 2 * KEPT,) * 2)
    compiled_once("used", "program", lambda folder: None)
    compiled_once("new", "program", lambda folder: None)
    assert used.exists() and not old.exists()


def test_a_digest_tells_texts_apart() -> None:
    assert digest_of(["ab", "c"]) != digest_of(["a", "bc"])
    assert digest_of(["ab", b"c"]) == digest_of(["ab", "c"])


def test_a_folder_stays_while_it_is_asked_for() -> None:
    folder = kept_folder("headers")
    (folder / "compiled").touch()
    os.utime(folder, times=(time.time() - 2 * KEPT,) * 2)
    assert kept_folder("headers") == folder
    compiled_once("new", "program", lambda folder: None)
    assert (folder / "compiled").exists()
