"""How well the estimate of ``--plan`` orders measured repartitions.

    python -m benchmarks.h200.retile_model RESULTS.json > benchmarks/results/retile_model_h200.md

``RESULTS.json`` is what ``python -m benchmarks.h200 run --try`` wrote: times of workloads under
several pipelines that begin with ``plan{...}``.  Each is estimated again, and compared.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from xdsl.passes import PassPipeline
from xdsl.utils.arg_spec import parse_pipeline

from benchmarks.h200 import records as results
from benchmarks.h200.building import mugraph_of
from benchmarks.h200.workloads import WORKLOADS, Workload
from mugraph.dialects.kn import CustomizedOp
from mugraph.passes.costs.kernels import estimate
from mugraph.passes.mugraph.plan import PlanPass
from mugraph.passes.mugraph.plan.shape import shape_under
from mugraph.passes.mugraph.retile import RetilePass
from mugraph.passes.mugraph.retile.dimensions import find_dimensions
from mugraph.passes.mugraph.retile.partition import partition_of
from mugraph.passes.targets import DEFAULT_TARGET, target_named
from mugraph.reading import make_context


@dataclass(frozen=True)
class Row:
    """One repartition: its options, microseconds measured and estimated."""

    options: str
    measured: float
    estimated: float


def estimate_of(workload: Workload, pipeline: str) -> float:
    """Microseconds that the model gives to the kernels that a plan makes; infinite for none."""
    module = mugraph_of(workload)
    plans = [PlanPass.from_spec(spec) for spec in parse_pipeline(pipeline)]
    steps = (*plans, RetilePass(), PlanPass(notes=False), RetilePass())
    PassPipeline(steps).apply(make_context(), module)
    target = target_named(DEFAULT_TARGET)
    total = 0.0
    for op in module.walk():
        if isinstance(op, CustomizedOp):
            space = find_dimensions(op)
            time = estimate(shape_under(space, partition_of(space)), target)
            total += math.inf if time is None else time / 1000
    return total


def rows_of(workload: Workload, record: results.Record) -> list[Row]:
    """The fastest measured pipeline of each repartition, with its estimate."""
    fastest: dict[str, float] = {}
    for system in record.systems.values():
        first = next(iter(parse_pipeline(system.pipeline)), None) if system.pipeline else None
        if system.microseconds is None or first is None:
            continue
        options = str(first) if first.name == PlanPass.name else ""
        fastest[options] = min(system.microseconds, fastest.get(options, system.microseconds))
    rows = [Row(text, time, estimate_of(workload, text)) for text, time in fastest.items()]
    return sorted(rows, key=lambda row: row.measured)


def lines_of(name: str, rows: list[Row]) -> list[str]:
    """A line of the table."""
    pairs = list(itertools.combinations(rows, 2))
    right = sum((a.measured - b.measured) * (a.estimated - b.estimated) > 0 for a, b in pairs)
    best, pick = rows[0], min(rows, key=lambda row: row.estimated)
    return [
        f"| {name} | {len(rows)} | {best.measured:.2f} | {pick.measured:.2f} | "
        f"{100 * (pick.measured / best.measured - 1):.0f} % | {right} of {len(pairs)} |"
    ]


def main() -> int:
    """Prints the table."""
    records = results.read(Path(sys.argv[1]))
    print("# The estimate of `--plan` against measured repartitions\n")
    facts = next(iter(records.values())).facts
    print(
        f"Times: {facts['gpu']}, {facts['date']}. A pair is right if the estimate orders it so.\n"
    )
    print(
        "| workload | repartitions | fastest µs | estimated fastest: µs | longer by | pairs right |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, record in records.items():
        rows = rows_of(WORKLOADS[name], record)
        if len(rows) > 2:
            print("\n".join(lines_of(name, rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
