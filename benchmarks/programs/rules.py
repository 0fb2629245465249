"""What is lost without a rule of the algebra: launches of each family with one switched off.

No program is found by its name if the families that a rule has a part in lose without it, and the
others do not.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from unittest.mock import patch

from benchmarks import pages
from benchmarks.facts import revision
from benchmarks.programs.families import FAMILIES, Program
from benchmarks.programs.search import launches_of
from mugraph.passes.program.fuse_kernels import algebra, choice, fuse_program, regroup, sums
from mugraph.passes.program.fuse_kernels.errors import NotFusedError
from mugraph.passes.program.fuse_kernels.forms import Term
from mugraph.passes.program.fuse_kernels.indices import GroupIndices
from mugraph.passes.targets import target_named
from mugraph.runtime.cuda import only_function


def _refuse(*_: object, **__: object) -> None:
    raise NotFusedError("the rule is switched off")


def _no_late_factors(_: object, left: Term, right: Term) -> tuple[None, None]:
    if any(late is not None for late in (left.times, left.over, right.times, right.over)):
        _refuse()
    return None, None


def _nothing(*_: object) -> frozenset[int]:
    return frozenset()


OTHER_RULES = {
    "more than one term": lambda: patch.object(algebra, "MOST_TERMS", 1),
    "numbers after the loop leave sums": lambda: patch.object(
        sums, "_late_factors", _no_late_factors
    ),
    "running maxima": lambda: patch.object(sums, "_largest", _refuse),
    "products in a row within an iteration": lambda: patch.object(sums, "_sliced_product", _refuse),
    "views in a kernel": lambda: patch.object(regroup, "Regrouping", _refuse),
    "results side by side": lambda: patch.object(GroupIndices, "side_by_side", _nothing),
    "transposes move up": lambda: patch.object(choice, "hoist_views", _nothing),
    "heads are rows": lambda: patch.object(choice, "join_heads", _nothing),
}
"""Rules that are no function's: how each is switched off."""


class _Asked(dict[str, algebra.Rule]):
    """The rules of functions but for one, and those that were asked for."""

    def __init__(self, without: str | None = None) -> None:
        super().__init__({name: rule for name, rule in algebra.RULES.items() if name != without})
        self.asked: set[str] = set()

    def get(self, key: str, default: object = None) -> object:  # type: ignore[override]
        self.asked.add(key)
        return super().get(key, default)


@contextmanager
def without_function(name: str) -> Generator[None]:
    """Switches the rule of a function off: it is like any other then."""
    with patch.object(algebra, "RULES", _Asked(name)):
        yield


@dataclass
class Family:
    """A family's program: its launches with all rules, and without each that changes them."""

    name: str
    launches: int
    without: dict[str, int] = field(default_factory=dict[str, int])


def launches(program: Program, arch: str, off: AbstractContextManager[object]) -> int:
    """The kernels found for a program, with something switched off."""
    function = only_function(program.module())
    with off:
        fuse_program(function, target_named(arch))
    return launches_of(function)


def family_of(program: Program, arch: str) -> Family:
    """Fuses a program with all rules, and without each that it may need."""
    asked = _Asked()
    found = Family(
        program.family.name, launches(program, arch, patch.object(algebra, "RULES", asked))
    )
    functions = sorted(asked.asked & {*algebra.RULES})
    switches = {name: without_function(name) for name in functions}
    switches |= {name: off() for name, off in OTHER_RULES.items()}
    for name, off in switches.items():
        count = launches(program, arch, off)
        if count != found.launches:
            found.without[name] = count
    return found


def rules_table(arch: str, output: Path) -> list[Family]:
    """One program of each family; writes OUTPUT.json and OUTPUT.md."""
    facts = {"date": date.today().isoformat(), "commit": revision(), "arch": arch}
    rows: list[Family] = []
    for family in FAMILIES:
        programs = list(family.programs())
        row = family_of(programs[len(programs) // 2], arch)
        rows.append(row)
        print(f"{row.name}: {row.launches}; {row.without}", flush=True)
        pages.write(output, {**facts, "rows": [asdict(each) for each in rows]}, page(rows, facts))
    return rows


def page(rows: Sequence[Family], facts: Mapping[str, str]) -> list[str]:
    """For each rule the families that it changes."""
    names = [*algebra.RULES, *OTHER_RULES]
    lines = [
        *pages.head("Rules of the algebra, one switched off at a time", facts),
        "Launches of one program of each family with all rules, and without the rule. Families",
        "that are not named keep their launches.",
        "",
    ]
    changed = {name: [row for row in rows if name in row.without] for name in names}
    cells = [
        [
            name,
            len(found),
            ", ".join(f"{row.name} {row.launches} to {row.without[name]}" for row in found)
            or "none",
        ]
        for name, found in changed.items()
    ]
    return [*lines, *pages.table(("rule", "families:", "launches"), cells)]


__all__ = ["Family", "family_of", "rules_table"]
