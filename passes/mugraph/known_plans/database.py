"""Plans that were measured to be the fastest of kernels, kept as text.

A file has a line for each kernel on each GPU, a JSON object.  Lines are of their own: files are
merged by putting them one after another, in any order, and of several lines for one kernel the one
that gained most counts.  A line that another version of mugraph wrote is *stale*, one whose
contents are not those of its check is *edited*; both are ignored, with a warning.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from mugraph.dialects.kn import Kn
from mugraph.dialects.plan import Plan, PlanAttr
from mugraph.errors import UserError
from mugraph.version import __version__

CHECK = "check"
"""The last field of a line: a digest of the others."""

MEASURED = Path(__file__).with_name("measured")
"""Databases that come with mugraph, ``h200.jsonl`` for a GPU of that name."""


FARTHEST = 2.0
"""How many times as large an extent may be as one that was measured, or that as it."""


class PlanDatabaseWarning(UserWarning):
    """Something of a plan database cannot be used; kernels are planned as without it."""


@dataclass(frozen=True)
class Entry:
    """What was measured of one kernel on one GPU."""

    structure: str
    """The kernel, by :func:`~mugraph.passes.mugraph.known_plans.structure.structure_of`."""
    gpu: str
    plan: Plan
    """The fastest; with no parts where none was faster than what ``--plan`` takes."""
    microseconds: float
    before: float
    """Of the kernel as ``--plan`` takes it, measured beside it; microseconds."""
    likeness: str = ""
    """What it shares with kernels of other extents, by
    :func:`~mugraph.passes.mugraph.known_plans.structure.likeness_of`."""
    extents: tuple[int, ...] = ()
    """Its own ones."""
    estimated: float = 1.0
    """What the plan is estimated to take, in parts of what ``--plan`` takes."""
    kernel: str = ""
    """A name for readers: nothing depends on it."""
    date: str = ""
    version: str = field(default=__version__)
    """Of mugraph."""

    @property
    def gain(self) -> float:
        """How many times as fast it is as without the plan."""
        return self.before / self.microseconds

    def line(self) -> str:
        """Its line, without the break."""
        fields = asdict(self) | {"plan": plan_text(self.plan)}
        return json.dumps(fields | {CHECK: _check_of(fields)}, ensure_ascii=False)


def plan_text(plan: Plan) -> str:
    """A plan as ``#kn.plan`` has it between the angle brackets; empty where all of it is free."""
    return ", ".join(map(plan.text_of, plan.parts()))


def plan_of_text(text: str) -> Plan:
    """What :func:`plan_text` wrote; ``ValueError`` with a sentence where it is no plan."""
    if not text.strip():
        return Plan()
    context = Context()
    context.load_dialect(Kn)
    try:
        attribute = Parser(context, f"#kn.plan<{text}>").parse_attribute()
    except ParseError as error:
        raise ValueError(str(error).strip().splitlines()[-1].strip()) from error
    assert isinstance(attribute, PlanAttr)
    return attribute.data


def _check_of(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def entry_of(line: str) -> Entry:
    """The entry of a line; ``ValueError`` with a clause that says why it cannot be used."""
    try:
        read: object = json.loads(line)
    except ValueError as error:
        raise ValueError("is no JSON object") from error
    if not isinstance(read, dict):
        raise ValueError("is no JSON object")
    fields = cast(dict[str, Any], read)
    check = fields.pop(CHECK, None)
    if check != _check_of(fields):
        raise ValueError("was edited: its check is not that of its contents")
    version = fields.get("version")
    if version != __version__:
        raise ValueError(f"is stale: mugraph {version} measured it, and this is {__version__}")
    try:
        fields["plan"] = plan_of_text(fields["plan"])
        fields["extents"] = tuple(fields.get("extents", ()))
        return Entry(**fields)
    except (KeyError, TypeError) as error:
        raise ValueError("lacks fields of an entry, or has others") from error


def _apart(some: tuple[int, ...], others: tuple[int, ...]) -> float:
    """The ratio of the two extents that stand wherever some differ; infinite for several pairs.

    An extent that stands in several places may differ in all of them: 768 x 768 is 1.3 from
    1024 x 1024, and infinitely far from 1024 x 512.
    """
    different = {pair for pair in zip(some, others, strict=True) if len({*pair}) > 1}
    (pair,) = different if len(different) == 1 else [(1, math.inf)]
    return max(pair) / min(pair)


class PlanDatabase:
    """Entries by kernel and GPU."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[tuple[str, str], Entry] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def gpus(self) -> set[str]:
        """The GPUs that kernels were measured on."""
        return {gpu for _, gpu in self._entries}

    def add(self, entry: Entry) -> None:
        """Adds an entry; of two for the same kernel the one that gained more stays."""
        key = entry.structure, entry.gpu
        other = self._entries.get(key)
        if other is None or entry.gain > other.gain:
            self._entries[key] = entry

    def replace(self, entry: Entry) -> None:
        """Puts an entry in the place of another one for the same kernel."""
        self._entries[entry.structure, entry.gpu] = entry

    def find(self, structure: str, gpu: str) -> Entry | None:
        """What is known of a kernel on a GPU."""
        return self._entries.get((structure, gpu))

    def nearest(self, likeness: str, extents: tuple[int, ...], gpu: str) -> Entry | None:
        """What is known of a kernel of which one extent is larger or smaller; the nearest one."""
        alike = [
            one for one in self._entries.values() if (one.likeness, one.gpu) == (likeness, gpu)
        ]
        apart = {one.structure: _apart(one.extents, extents) for one in alike}
        near = [one for one in alike if apart[one.structure] <= FARTHEST]
        return min(near, key=lambda one: (apart[one.structure], one.structure), default=None)

    def over(self, other: PlanDatabase) -> PlanDatabase:
        """These entries, and those of another one for kernels that this one does not know."""
        both = PlanDatabase()
        both._entries = {**other._entries, **self._entries}
        return both

    @classmethod
    def read(cls, path: Path) -> PlanDatabase:
        """The entries of a file, none where there is no file.

        Lines that cannot be used are left out, with one warning for each reason.  Raises
        ``UserError`` where the file cannot be read.
        """
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is no plan database: it is not UTF-8 text.") from error
        entries: list[Entry] = []
        refused: dict[str, list[int]] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entries.append(entry_of(line))
            except ValueError as error:
                refused.setdefault(str(error), []).append(number)
        for reason, numbers in refused.items():
            more = f" (and {len(numbers) - 1} other lines)" if len(numbers) > 1 else ""
            warnings.warn(
                f"{path}, line {numbers[0]}{more}, is ignored: it {reason}; mg-tune makes it anew",
                PlanDatabaseWarning,
                stacklevel=2,
            )
        return cls(entries)

    def write(self, path: Path) -> None:
        """Writes the file, whole or not at all; lines are in order, so that versions compare."""
        text = "".join(f"{self._entries[key].line()}\n" for key in sorted(self._entries))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=path.parent, prefix=path.name, delete=False
            ) as temporary:
                temporary.write(text)
            os.replace(temporary.name, path)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}.") from error


@cache
def measured_plans(gpu: str) -> PlanDatabase:
    """What comes with mugraph of a GPU; nothing where nothing was measured on it."""
    return PlanDatabase.read(MEASURED / f"{gpu}.jsonl")


def measured_gpus() -> set[str]:
    """The GPUs of which plans come with mugraph."""
    return {path.stem for path in MEASURED.glob("*.jsonl")}
