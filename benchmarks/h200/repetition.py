"""Runs of one commit on several starts of a machine, as one: medians, how far they are apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.facts import MACHINE_START
from benchmarks.h200.checking import RIGHT
from benchmarks.h200.pipelines import OURS
from benchmarks.h200.records import Record, Records, System
from mugraph.errors import UserError


def combined(runs: Sequence[Records]) -> Records:
    """One record of each workload: the median of the runs' times, which stand in ``runs``.

    What is not right in one of them has no time.  A workload, or a peer, that only some of the runs
    measured has their times; the tables say where that is one.  ``UserError`` where runs are of
    different commits, or of one start of a machine, or have no workload in common.
    """
    if len(runs) < 2:
        raise UserError("a repetition is two runs or more; give the results of each.")
    if not set.intersection(*(set(run) for run in runs)):
        raise UserError("no workload was measured by all of the runs: nothing is repeated.")
    names = dict.fromkeys(name for run in runs for name in run)
    return {name: _record([run[name] for run in runs if name in run]) for name in names}


def spread(times: Sequence[float]) -> float:
    """How much longer the longest is than the shortest, as a share of it."""
    return max(times) / min(times) - 1


def apart(times: Sequence[float]) -> str:
    """The spread of the runs' times, as the tables say it."""
    return f"{spread(times):.1%}" if len(times) > 1 else "one run"


def _record(records: Sequence[Record]) -> Record:
    first = records[0]
    for fact, kind, differ in (("commit", "the same commit", False), (MACHINE_START, "", True)):
        values = [record.facts.get(fact, "") for record in records]
        if not differ and len(set(values)) > 1:
            raise UserError(f"{first.workload} was measured at {' and '.join(values)}, not {kind}.")
        if differ and len(set(values)) < len(values) and all(values):
            raise UserError(
                f"the runs of {first.workload} are of one start of a machine ({values[0]}): "
                "a repetition is on another."
            )
    facts = {
        name: "; ".join(dict.fromkeys(record.facts.get(name, "unknown") for record in records))
        for name in first.facts
    }
    result = Record(first.workload, facts, first.total_bytes, first.floor)
    for name in dict.fromkeys(name for record in records for name in record.systems):
        result.add(_system([record.systems.get(name) for record in records], name))
    return result


def _system(systems: Sequence[System | None], name: str) -> System:
    known = [system for system in systems if system is not None]
    wrong = [system for system in known if system.status != RIGHT]
    if wrong:
        return replace(wrong[0], microseconds=None, quartiles=None)
    times = tuple(system.microseconds for system in known if system.microseconds is not None)
    if not times or (name == OURS and len(times) < len(systems)):
        return replace(known[0], status="no time in one run", microseconds=None, quartiles=None)
    quartiles = [system.quartiles for system in known if system.quartiles is not None]
    errors = [system.relative_error for system in known if system.relative_error is not None]
    return replace(
        known[0],
        microseconds=statistics.median(times),
        quartiles=(min(low for low, _ in quartiles), max(high for _, high in quartiles))
        if quartiles
        else None,
        relative_error=max(errors, default=None),
        runs=times,
    )
