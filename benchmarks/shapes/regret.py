"""What the plans of the estimate lose against the best that were measured, by kind of layer.

Regret is the time of the plan that ``--plan`` takes over that of the fastest plan, less 1.  Of each
kernel only times of the same compiler are compared, and of plans only those that were measured
often: the shortest of many times that were taken once would be luck.
"""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import pages
from benchmarks.h200.report import number
from benchmarks.shapes.draw import shape_named
from mugraph.tune.records import ESTIMATE, Record
from mugraph.tune.search import FIRST_SAMPLES

FEWEST = 4 * FIRST_SAMPLES
"""Times of a plan that may be called the fastest: it was among the best quarter."""


@dataclass(frozen=True)
class Regret:
    """One kernel: microseconds of the estimate's plan and of the best one."""

    kernel: str
    group: str
    gpu: str
    version: str
    chosen: float
    best: float
    plan: str
    """The best one; empty where it is the estimate's."""
    plans: int
    """That were measured."""

    @property
    def regret(self) -> float:
        """How much longer the estimate's plan takes, as a part of the best one's time."""
        return self.chosen / self.best - 1


def regrets_of(records: Iterable[Record]) -> list[Regret]:
    """The regret of each kernel of a drawn shape whose estimate's plan was measured."""
    kernels: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        kernels[record.kernel, record.gpu, record.version].append(record)
    found = [regret_of(key[0], own) for key, own in kernels.items()]
    return [one for one in found if one is not None]


def regret_of(kernel: str, records: Sequence[Record]) -> Regret | None:
    """The regret of a kernel; ``None`` where its estimate's plan and another were not measured."""
    match = re.fullmatch(r"(s\d+_\d+_\w+)_custom\d+", kernel)
    times: dict[str, list[float]] = defaultdict(list)
    plans: dict[str, str] = {}
    for record in records:
        times[record.code] += record.times
        plans.setdefault(record.code, record.plan)
    chosen = {record.code for record in records if record.role == ESTIMATE and record.times}
    if match is None or len(chosen) != 1:
        return None
    (own,) = chosen
    medians = {
        code: statistics.median(taken)
        for code, taken in times.items()
        if len(taken) >= FEWEST or code == own
    }
    best = min(medians, key=lambda code: (medians[code], code != own))
    measured = sum(bool(taken) for taken in times.values())
    if measured < 2:
        return None
    first = records[0]
    return Regret(
        *(kernel, shape_named(match[1]).group, first.gpu, first.version),
        *(medians[own], medians[best], "" if best == own else plans[best], measured),
    )


SUMMARY = ("layers", "kernels:", "median:", "mean:", "worst:", "above 5 %:", "above 20 %:")
COLUMNS = ("kernel", "the estimate's: µs:", "best: µs:", "regret:", "plans:", "the best plan")


def write_regrets(regrets: Sequence[Regret], output: Path) -> None:
    """Writes OUTPUT.json and OUTPUT.md."""
    pages.write(output, [asdict(one) for one in regrets], page(regrets))


def page(regrets: Sequence[Regret]) -> list[str]:
    """The lines of the page."""
    gpus = sorted({one.gpu for one in regrets})
    versions = sorted({one.version for one in regrets})
    groups = sorted({one.group for one in regrets})
    lines = [summary_of(name, [one for one in regrets if one.group == name]) for name in groups]
    ordered = sorted(regrets, key=lambda one: -one.regret)
    return [
        *pages.head("What the plans of the estimate lose", {"gpu": ", ".join(gpus)}),
        f"Compilers: {', '.join(versions)}. Regret is the time of the plan that `--plan` takes",
        "over that of the fastest plan that `mg-tune` measured, less 1 (`docs/tuning.md`).",
        "",
        *pages.table(SUMMARY, [*lines, summary_of("all", ordered)]),
        "",
        *pages.table(COLUMNS, map(cells, ordered)),
    ]


def summary_of(group: str, regrets: Sequence[Regret]) -> list[object]:
    """A line of the summary."""
    values = [one.regret for one in regrets]
    mean = statistics.geometric_mean([1 + value for value in values]) - 1
    return [
        group,
        len(values),
        f"{statistics.median(values):.1%}",
        f"{mean:.1%}",
        f"{max(values):.1%}",
        sum(value > 0.05 for value in values),
        sum(value > 0.20 for value in values),
    ]


def cells(one: Regret) -> list[object]:
    """A line of the table."""
    plan = f"`{one.plan}`" if one.plan else "the estimate's"
    return [one.kernel, number(one.chosen), number(one.best), f"{one.regret:.1%}", one.plans, plan]
