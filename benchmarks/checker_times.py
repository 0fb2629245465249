"""What the hazard checker costs: processor time of its parts, beside the passes before it.

    python -m benchmarks.checker_times --output benchmarks/results/checker_times.md

Every example is scheduled for ``sm_80`` and ``sm_90a``, and each part runs ``--repeats`` times in
a process that has run it before, so that what is kept from one check to the next is there; the
least time counts.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from pathlib import Path
from time import process_time
from typing import TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline

from mugraph.dialects.plan import Plan
from mugraph.dialects.sched import KernelOp
from mugraph.passes.schedule.analysis.hazards import (
    hazards_of_program,
    read_program,
    unneeded_barriers,
)
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module

EXAMPLES = Path(__file__).parents[1] / "examples"
COLUMNS = ("rest", "check", "reading accesses", "barriers not needed")
Result = TypeVar("Result")


def least_ms(function: Callable[[], Result], repeats: int) -> tuple[float, Result]:
    """The least processor time of some calls, in ms, and the last result."""
    best, result = float("inf"), function()
    for _ in range(repeats):
        start = process_time()
        result = function()
        best = min(best, 1000 * (process_time() - start))
    return best, result


def scheduled(path: Path, arch: str) -> ModuleOp:
    """The module of a file after all passes but the check."""
    context = make_context()
    module = read_module(str(path), context)
    PassPipeline(transpile_pipeline(arch, Plan(tiles="written"), check_hazards=False)).apply(
        context, module
    )
    return module


def measure(path: Path, arch: str, repeats: int) -> tuple[int, dict[str, float]]:
    """How many kernels a file has, and the times of :data:`COLUMNS`."""
    times: dict[str, float] = {}
    times["rest"], module = least_ms(lambda: scheduled(path, arch), repeats)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    times["reading accesses"], programs = least_ms(
        lambda: [read_program(kernel) for kernel in kernels], repeats
    )
    checked, findings = least_ms(lambda: [hazards_of_program(one) for one in programs], repeats)
    if any(findings):
        raise ValueError(f"{path.name} has hazards for {arch}: {findings}")
    times["check"] = times["reading accesses"] + checked
    times["barriers not needed"], _ = least_ms(
        lambda: [unneeded_barriers(one) for one in programs], repeats
    )
    return len(kernels), times


def table(rows: Iterable[tuple[str, int, dict[str, float]]]) -> list[str]:
    """The times of one architecture in Markdown."""
    lines = [f"| µGraph | kernels | {' | '.join(COLUMNS)} |", "|---|" + "---:|" * 5]
    for name, kernels, times in rows:
        cells = " | ".join(f"{times[column]:.1f}" for column in COLUMNS)
        lines.append(f"| {name} | {kernels} | {cells} |")
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    lines = [
        "# What the hazard checker costs",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {platform.machine()}. "
        f"Processor time in ms, the least of {options.repeats} runs in a process that has run "
        "everything once: of `--transpile` without the check, of the check, of reading accesses in "
        "it, and of looking for barriers that are not needed (`--print-hazards`).",
    ]
    for arch in ("sm_80", "sm_90a"):
        rows = [
            (path.stem, *measure(path, arch, options.repeats))
            for path in sorted(EXAMPLES.glob("*.mlir"))
        ]
        lines += ["", f"## {arch}", "", *table(rows)]
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
