"""What ``--fuse-kernels`` finds, in which time, and whether it is proved; no GPU needed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from xdsl.dialects.func import FuncOp
from xdsl.passes import PassPipeline

from benchmarks import pages
from benchmarks.commands import sentence
from benchmarks.facts import revision
from benchmarks.h200.pipelines import flat_passes
from benchmarks.programs.families import Program
from benchmarks.programs.fewest import only_launches_count
from mugraph.passes.program.decompose_program import decompose_program
from mugraph.passes.program.fuse_kernels import fuse_program
from mugraph.passes.program.fuse_kernels.copied import is_free
from mugraph.passes.targets import target_named
from mugraph.reading import make_context
from mugraph.runtime.cuda import only_function
from mugraph.runtime.equivalence.prove import prove

PLANNING = "plan,retile,plan,retile"
"""What ``--transpile`` does to the kernels before it makes schedules of them."""


@dataclass(frozen=True)
class Found:
    """What the search made of a program; times in seconds."""

    name: str
    fewest: int
    error: str = ""
    """Why there is nothing else."""
    written: int = 0
    """Launches of the program as written: without ``--fuse-kernels``."""
    tried: int = 0
    """Groups of operators that a kernel was tried for."""
    launches: int = 0
    reached: int = 0
    """Of what the search finds where only launches count, proved as well."""
    planned_launches: int = 0
    """After ``--plan`` and ``--retile``: sums that are split over blocks have a kernel more."""
    proof: str = ""
    """``proved``, or why not."""
    search_seconds: float = 0.0
    plan_seconds: float = 0.0
    proof_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Search, plan and proof."""
        return self.search_seconds + self.plan_seconds + self.proof_seconds

    @property
    def good(self) -> bool:
        """Whether it is proved, and the search reaches the fewest launches."""
        return not self.error and self.proof == PROVED and self.reached <= self.fewest


PROVED = "proved"


def launches_of(function: FuncOp) -> int:
    """The operators of a function that are kernels; views are none, unless they need a copy."""
    return sum(1 for op in function.body.block.ops if op.results and not is_free(op))


def search(program: Program, arch: str) -> Found:
    """Fuses, plans and proves a program."""
    try:
        return _search(program, arch)
    except Exception as error:  # the others go on
        return Found(program.name, program.fewest, sentence(error))


def _search(program: Program, arch: str) -> Found:
    module = program.module()
    function = only_function(module)
    written = function.clone()
    apart, fewest = function.clone(), function.clone()
    decompose_program(apart)
    start = time.process_time()
    fusion = fuse_program(function, target_named(arch))
    searched = time.process_time()
    module.verify()
    launches = launches_of(function)
    began = time.process_time()
    proof = prove(written, function)
    proved = time.process_time()
    PassPipeline(flat_passes(PLANNING, arch)).apply(make_context(), module)
    planned = time.process_time()
    module.verify()
    with only_launches_count():
        fuse_program(fewest, target_named(arch))
    reached = launches_of(fewest) if prove(written, fewest).holds else launches_of(apart)
    return Found(
        program.name,
        program.fewest,
        written=launches_of(apart),
        tried=sum(group.bit_count() > 1 for group in fusion.attempts),
        launches=launches,
        reached=reached,
        planned_launches=launches_of(only_function(module)),
        proof=PROVED if proof.holds else proof.reason,
        search_seconds=searched - start,
        plan_seconds=planned - proved,
        proof_seconds=proved - began,
    )


COLUMNS = (
    "program", "as written:", "tried:", "launches:", "fewest:", "reached:", "planned:", "proof",
    "search s:", "plan s:", "proof s:", "all s:",
)  # fmt: skip


def page(rows: Sequence[Found], facts: dict[str, str]) -> list[str]:
    """The table, after what it comes to."""
    done = [row for row in rows if not row.error]
    lines = pages.head("Kernels found for plain programs", facts)
    lines += [
        "Seconds of processor time: search (`--fuse-kernels`), plan (`--plan`, `--retile`), and",
        "the proof that the found kernels compute the program. Launches: as written, found, the",
        "fewest that there can be, those that the search reaches where only launches count, and",
        "after planning, which may split a sum over blocks. Where more are found than reached, the",
        "estimate says that more kernels take less time.",
        "",
    ]
    if done:
        seconds = [row.seconds for row in done]
        fewest = sum(row.launches <= row.fewest for row in done)
        lines += [
            f"{len(rows)} programs: {fewest} have the fewest launches, "
            f"{sum(row.reached <= row.fewest for row in done)} where only launches count, "
            f"{sum(row.proof == PROVED for row in done)} are proved, "
            f"{len(rows) - len(done)} fail. Median {statistics.median(seconds):.2f} s, at most "
            f"{max(seconds):.2f} s; {sum(row.tried for row in done)} kernels tried.",
            "",
        ]
    return [*lines, *pages.table(COLUMNS, map(cells, rows))]


def cells(row: Found) -> list[object]:
    """A line of the table."""
    if row.error:
        return [row.name, *[None] * 3, row.fewest, *[None] * 2, row.error, *[None] * 4]

    def shown(launches: int) -> str:
        return f"{launches}" if launches <= row.fewest else f"**{launches}**"

    launches = shown(row.launches), row.fewest, shown(row.reached)
    counts = (row.written, row.tried, *launches, row.planned_launches)
    times = (row.search_seconds, row.plan_seconds, row.proof_seconds, row.seconds)
    return [row.name, *counts, row.proof, *(f"{time:.2f}" for time in times)]


def search_all(programs: Iterable[Program], arch: str, output: Path) -> list[Found]:
    """Searches for all; writes OUTPUT.json and OUTPUT.md after each, and says what is not good."""
    facts = {"date": date.today().isoformat(), "commit": revision(), "arch": arch}
    rows: list[Found] = []
    for program in programs:
        row = search(program, arch)
        rows.append(row)
        launches = f"{row.launches} launches ({row.reached} reached, {row.fewest} fewest)"
        state = row.error or f"{launches}, {row.proof}"
        print(f"{row.name}: {state}, {row.seconds:.2f} s", flush=True)
        pages.write(output, {**facts, "rows": [asdict(each) for each in rows]}, page(rows, facts))
    return rows
