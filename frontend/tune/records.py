"""What was found out while a kernel was tuned, a line each, written as it comes.

A search that was ended goes on from its records: what could not be built is not built again, and
what is known to be slow is not measured again.  A line that was cut off is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mugraph.errors import UserError
from mugraph.tune.workbench import AnyPlan, Built
from mugraph.version import __version__

ESTIMATE = "estimate"
"""The role of the plan that ``--plan`` takes."""


@dataclass(frozen=True)
class Record:
    """A plan of a kernel: what became of it when it was built, or times."""

    structure: str
    gpu: str
    kernel: str
    plan: str
    """As ``#kn.plan`` has it between the angle brackets; of a tensor expression its sizes."""
    code: str = ""
    problem: str = ""
    times: tuple[float, ...] = ()
    """Microseconds; none where it was built only."""
    role: str = ""
    """:data:`ESTIMATE`, or nothing."""
    version: str = ""
    """Of the compiler: records of another one do not count."""


class Records:
    """The records of one kernel on one GPU, in a file of many, or in none."""

    def __init__(
        self,
        path: Path | None,
        structure: str,
        gpu: str,
        kernel: str,
        version: str = __version__,
        *,
        anew: bool = False,
    ) -> None:
        """``anew`` leaves out what the file has, and writes behind it."""
        self._path = path
        self._head = Record(structure, gpu, kernel, "", version=version)
        self._known: dict[str, Record] = {}
        self._times: dict[str, list[float]] = {}
        for record in () if path is None or anew else read_records(path):
            if (record.structure, record.gpu, record.version) == (structure, gpu, version):
                self._remember(record)

    def _remember(self, record: Record) -> None:
        if record.problem or record.plan not in self._known:
            self._known[record.plan] = record
        self._times.setdefault(record.code, []).extend(record.times)

    def known(self, plan: str) -> Record | None:
        """What became of a plan when it was built or measured, if that is known."""
        return self._known.get(plan)

    def times_of(self, code: str) -> list[float]:
        """All times of a kernel."""
        return self._times.get(code, [])

    def add(self, built: Built[AnyPlan], times: Iterable[float] = (), role: str = "") -> None:
        """Writes a line down."""
        record = replace(
            self._head,
            plan=built.text,
            code=built.code,
            problem=built.problem,
            times=tuple(times),
            role=role,
        )
        self._remember(record)
        if self._path is None:
            return
        line = json.dumps(asdict(record), ensure_ascii=False) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as stream:
                if stream.tell() and not _ends_a_line(self._path):
                    line = "\n" + line  # what was cut off stays apart
                stream.write(line.encode())
        except OSError as error:
            raise UserError(f"{self._path} cannot be written: {error.strerror}.") from error


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def read_records(path: Path) -> list[Record]:
    """The records of a file, none where there is no file; lines that are none are left out.

    Raises ``UserError`` where the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from error
    found: list[Record] = []
    for line in lines:
        try:
            fields: dict[str, Any] = json.loads(line)
            fields["times"] = tuple(map(float, fields["times"]))
            found.append(Record(**fields))
        except (ValueError, TypeError, KeyError):
            continue
    return found
