"""The CUDA of programs that an earlier process planned, beside compiled kernels in their cache."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from mugraph.codegen.c_abi import CInterface
from mugraph.runtime.cache import cache_entry

RESULT_NAME = "planned.pickle"

PLANNING = ("dialects", "passes", "codegen", "runtime")
"""The packages of mugraph whose code decides what is printed for a program."""


class Planned(NamedTuple):
    """What a program becomes before nvcc."""

    source: str
    interface: CInterface


def planned(module: ModuleOp, *options: object, plan: Callable[[], Planned]) -> Planned:
    """What ``plan`` makes of a program under some options, or made in another process.

    The cache's key is the program's text, the options' representation, mugraph's own code and
    xDSL's version.  Raises what ``plan`` raises, and ``UserError`` where the cache's size is none.
    """
    digest = hashlib.sha256()
    for part in (str(module), repr(options), version("xdsl"), _digest_of_code()):
        digest.update(part.encode())
        digest.update(b"\0")
    with cache_entry(digest.hexdigest()[:32], RESULT_NAME) as entry:
        if entry.is_new:
            made = plan()
            (entry.folder / RESULT_NAME).write_bytes(pickle.dumps(made))
            return made
    return pickle.loads(entry.result.read_bytes())


@cache
def _digest_of_code() -> str:
    """A digest of the files that plan and print, and of what they are written with."""
    digest = hashlib.sha256()
    for path in _files_of_code():
        digest.update(path.read_bytes())
        digest.update(b"\0")
    return digest.hexdigest()


def _files_of_code() -> Iterator[Path]:
    for name in PLANNING:
        spec = find_spec(f"mugraph.{name}")
        assert spec is not None and spec.submodule_search_locations is not None
        for folder in spec.submodule_search_locations:
            yield from sorted(Path(folder).rglob("*.py"))
            yield from sorted(Path(folder).rglob("*.jsonl"))  # measured plans
