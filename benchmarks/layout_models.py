"""Compares the cost models of ``--resolve-layout`` by what the finished kernels do.

    python -m benchmarks.layout_models FOLDER [--arch sm_90a] [--output NAME.md]

Every µGraph of Mirage's JSON files in ``FOLDER``, and every example of this project, is taken
through ``--transpile`` once with each cost model; then the accesses of the kernels are counted
(:mod:`mugraph.passes.memory.memory_access`).  Prints a table in Markdown: the sectors of device
memory, wavefronts of shared memory and warp instructions of one call, and the largest kernel's
shared memory.  With ``--only-different`` the graphs for which both models give the same counts
are left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.exceptions import PassFailedException

from mugraph.dialects.plan import Plan
from mugraph.dialects.sched import KernelOp
from mugraph.passes.memory.memory_access import memory_access_costs
from mugraph.passes.mugraph.resolve_layout import CostModelName, ResolveLayoutPass
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module
from mugraph.tools.import_mirage import MirageImportError, import_mirage

MODELS: tuple[CostModelName, ...] = ("mirage", "exact")


@dataclass(frozen=True)
class Counts:
    """What one call of a function does, over all its kernels."""

    sectors: int
    wavefronts: int
    instructions: int
    shared_bytes: int

    def as_tuple(self) -> tuple[int, ...]:
        """In the order of the table's columns."""
        return self.sectors, self.wavefronts, self.instructions, self.shared_bytes


def passes_with(model: CostModelName, arch: str) -> tuple[ModulePass, ...]:
    """The steps of ``--transpile`` with another cost model."""
    return tuple(
        ResolveLayoutPass(cost_model=model, arch=arch)
        if isinstance(step, ResolveLayoutPass)
        else step
        for step in transpile_pipeline(arch, Plan(tiles="written"), check_hazards=False)
    )


def counts_of(module: ModuleOp, model: CostModelName, arch: str) -> Counts:
    """Transpiles the module, which it changes, and counts."""
    PassPipeline(passes_with(model, arch)).apply(make_context(), module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    sectors = wavefronts = instructions = 0
    for kernel in kernels:
        for cost in memory_access_costs(kernel):
            instructions += cost.instructions * cost.executions
            if cost.access.in_device_memory:
                sectors += cost.per_launch
            else:
                wavefronts += cost.per_launch
    largest = max((kernel.smem_bytes or 0 for kernel in kernels), default=0)
    return Counts(sectors, wavefronts, instructions, largest)


def graphs_of(folder: Path) -> Iterator[tuple[str, Callable[[], ModuleOp]]]:
    """Names, and functions that read the module anew."""
    for file in sorted(folder.glob("*.json")):
        text = file.read_text()
        index = 0
        while True:
            try:
                import_mirage(text, index)
            except MirageImportError:
                break
            yield f"{file.stem} {index}", lambda t=text, i=index: import_mirage(t, i)[0]
            index += 1
    for file in sorted((Path(__file__).parent.parent / "examples").glob("*.mlir")):
        yield file.stem, lambda f=file: read_module(str(f), make_context())


def table_row(name: str, counts: dict[CostModelName, Counts]) -> str:
    """One line: both models' counts, and which is better."""
    cells: list[str] = []
    better = worse = False
    pairs = zip(counts["mirage"].as_tuple(), counts["exact"].as_tuple(), strict=True)
    for mirage, exact in pairs:
        better |= exact < mirage
        worse |= exact > mirage
        cells.append(f"{mirage}" if exact == mirage else f"{mirage} → {exact}")
    verdict = {(False, False): "same", (True, False): "better", (False, True): "worse"}
    return f"| {name} | {' | '.join(cells)} | {verdict.get((better, worse), 'mixed')} |"


def main() -> int:
    """Prints the table; returns 1 where the exact model is worse in some count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--only-different", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines = [
        "| µGraph | sectors | wavefronts | instructions | shared bytes | exact is |",
        "|---|---:|---:|---:|---:|---|",
    ]
    tally: dict[str, int] = {}
    started = time.monotonic()
    for name, read in graphs_of(options.folder):
        try:
            counts = {model: counts_of(read(), model, options.arch) for model in MODELS}
        except PassFailedException as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        row = table_row(name, counts)
        verdict = row.rsplit("|", 2)[1].strip()
        tally[verdict] = tally.get(verdict, 0) + 1
        if verdict != "same" or not options.only_different:
            lines.append(row)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in sorted(tally.items()))
    text = "\n".join([*lines, "", f"Of {sum(tally.values())}: {summary}.", ""])
    print(text)
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    if options.output is not None:
        options.output.write_text(text)
    return 1 if tally.keys() & {"worse", "mixed"} else 0


if __name__ == "__main__":
    sys.exit(main())
