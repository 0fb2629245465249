"""The mutation score: of the mutants that are harmful, how many are reported before they run.

    python tests/mutation/score.py examples/*.mlir
    python tests/mutation/score.py --saved FOLDER --every 10
    python tests/mutation/score.py --arch sm_90a --loads tma examples/*.mlir

A mutant is reported if the verifier refuses it or ``--check-hazards`` fails for it.  Harm is
judged by running it (:mod:`harm`).  With ``--unreported`` only mutants that nothing reported are
run, which tells as surely whether one was missed, in a fraction of the time; ``--every`` and
``--mutants`` take samples.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from harm import RUNS, Judge
from mutants import Mutant, mutants_of
from schedules import passes_as_written
from xdsl.dialects.builtin import ModuleOp

from mugraph.dialects.plan import Loads
from mugraph.dialects.sched import KernelOp
from mugraph.passes.schedule.analysis.hazards import find_hazards, find_workspace_hazards
from mugraph.passes.sequence import verifying
from mugraph.passes.targets import DEFAULT_TARGET
from mugraph.reading import make_context, read_module
from mugraph.runtime.cuda import only_function
from mugraph.runtime.interpreter.address_level import Landing
from mugraph.tools.import_mirage import import_mirage
from mugraph.tools.random_inputs import random_inputs

Array = npt.NDArray[Any]
INPUT_SCALE = 0.1
INPUT_SEED = 7


@dataclass
class Score:
    """Counts of mutants by kind and outcome, and every one that was missed."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    missed: list[str] = field(default_factory=list[str])

    def add(self, other: Score) -> None:
        """Adds the counts of another schedule."""
        self.counts += other.counts
        self.missed += other.missed

    def total(self, outcome: str) -> int:
        """How many mutants have an outcome."""
        return sum(count for (_, found), count in self.counts.items() if found == outcome)


REFUSED = "refused by the verifier"
REPORTED_HARMFUL = "reported, harmful"
REPORTED_HARMLESS = "reported, harmless"
REPORTED = "reported, not run"
UNREPORTED_HARMLESS = "not reported, harmless"
MISSED = "missed"
OUTCOMES = (
    REFUSED,
    REPORTED_HARMFUL,
    REPORTED_HARMLESS,
    REPORTED,
    UNREPORTED_HARMLESS,
    MISSED,
)


def kernels_of(module: ModuleOp) -> Iterator[KernelOp]:
    return (op for op in module.walk() if isinstance(op, KernelOp))


def is_reported(mutant: Mutant) -> bool:
    """Whether the hazard checker has something to say of what was changed."""
    if mutant.kernel is None:
        return any(find_workspace_hazards(only_function(mutant.module)))
    return any(
        find_hazards(kernel)
        for kernel in kernels_of(mutant.module)
        if kernel.sym_name.data == mutant.kernel
    )


def score_of(
    module: ModuleOp,
    inputs: Sequence[Array],
    *,
    name: str = "",
    unreported_only: bool = False,
    every: int = 1,
    runs: Sequence[tuple[str | int, Landing]] = tuple(RUNS),
) -> Score:
    """The score of every so many-th mutant of a schedule, harm judged by some runs.

    Raises ``ValueError`` where the schedule is not right itself.
    """
    for kernel in kernels_of(module):
        findings = find_hazards(kernel)
        if findings:
            raise ValueError(f"{name}: the schedule itself is reported: {findings[0]}")
    judge = Judge(module, inputs, runs=runs)
    score = Score()
    for mutant in islice(mutants_of(module), 0, None, every):
        outcome = _outcome(mutant, judge, unreported_only)
        score.counts[mutant.kind, outcome] += 1
        if outcome == MISSED:
            score.missed.append(f"{name} @{mutant.kernel}: {mutant.kind}: {mutant.description}")
    return score


def _outcome(mutant: Mutant, judge: Judge, unreported_only: bool) -> str:
    if not mutant.verifies:
        return REFUSED
    if is_reported(mutant):
        if unreported_only:
            return REPORTED
        return REPORTED_HARMFUL if judge.harmful(mutant) else REPORTED_HARMLESS
    if not judge.harmful(mutant):
        return UNREPORTED_HARMLESS
    return MISSED


def scheduled(
    module: ModuleOp, arch: str = DEFAULT_TARGET, loads: Loads = "cp_async"
) -> tuple[ModuleOp, list[Array]]:
    """The planned schedule of a µGraph, and inputs of its function."""
    inputs = random_inputs(only_function(module), [INPUT_SCALE], seed=INPUT_SEED)
    steps = verifying(passes_as_written(arch, loads=loads, check_hazards=False))
    steps.apply(make_context(), module)
    return module, [np.asarray(array) for array in inputs]


def saved_modules(folder: Path, every: int) -> Iterator[tuple[str, ModuleOp]]:
    """Every so many-th of all saved µGraphs of a folder, counted through its files."""
    number = 0
    for path in sorted(folder.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        for index in range(len(json.loads(text))):
            if number % every == 0:
                module, _ = import_mirage(text, index, file_name=str(path), symbol=path.stem)
                yield f"{path.name} {index}", module
            number += 1


def table(score: Score) -> str:
    """Counts as a Markdown table, a row for each kind of mutation."""
    kinds = sorted({kind for kind, _ in score.counts})
    used = [outcome for outcome in OUTCOMES if score.total(outcome)]
    rows = [["mutation", *used], ["---", *("---:" for _ in used)]]
    rows += [[kind, *(str(score.counts[kind, outcome]) for outcome in used)] for kind in kinds]
    rows.append(["all", *(str(score.total(outcome)) for outcome in used)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def main(arguments: Sequence[str]) -> int:
    """The command; returns 1 where a harmful mutant was missed."""
    parser = argparse.ArgumentParser(prog="score.py", description="The mutation score.")
    parser.add_argument("files", nargs="*", metavar="FILE", help="µGraphs as MLIR")
    parser.add_argument("--saved", type=Path, metavar="FOLDER", help="saved µGraphs, as JSON")
    parser.add_argument("--every", type=int, default=1, help="take every N-th saved µGraph")
    parser.add_argument("--mutants", type=int, default=1, help="take every N-th mutant")
    parser.add_argument("--unreported", action="store_true", help="run unreported mutants only")
    parser.add_argument("--arch", default=DEFAULT_TARGET, help="the GPU")
    parser.add_argument("--loads", choices=get_args(Loads), default="cp_async")
    options = parser.parse_args(arguments)
    modules = [(path, read_module(path, make_context())) for path in options.files]
    if options.saved is not None:
        modules += saved_modules(options.saved, options.every)
    score = Score()
    for name, module in modules:
        started = time.monotonic()
        schedule, inputs = scheduled(module, options.arch, options.loads)
        one = score_of(
            schedule,
            inputs,
            name=name,
            unreported_only=options.unreported,
            every=options.mutants,
        )
        score.add(one)
        seconds = time.monotonic() - started
        print(f"{name}: {one.counts.total()} mutants, {seconds:.0f} s", file=sys.stderr, flush=True)
        for missed in one.missed:
            print(f"missed: {missed}", file=sys.stderr, flush=True)
    print(table(score))
    return 1 if score.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
