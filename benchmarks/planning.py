"""Times the planning passes, and compares their plans with the seeds' heuristics and with bounds.

    python -m benchmarks.planning --mugraphs FOLDER --output benchmarks/results/planning

``FOLDER`` holds saved µGraphs in Mirage's JSON; without it (or MUGRAPH_SAVED) only random graphs
are planned.  ``--minimalloc FOLDER`` adds packing instances in MiniMalloc's CSV (id, lower, upper,
size).  ``--wall`` also times ``mg-opt --transpile -t cuda`` as a process, ``--hash-seeds N``
compares the CUDA text under N hash seeds.  Times are CPU seconds of this
process unless said otherwise, so that other work on the machine matters less.
Writes NAME.json and NAME.md.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp

from benchmarks.level_schedule import level_schedule_peak
from benchmarks.planning_graphs import perfect_packing, random_intervals, random_mugraph
from benchmarks.planning_report import WHOLE_PLANS, GraphResult, PackingResult, report
from mugraph.dialects.kn import CustomizedOp
from mugraph.dialects.plan import Plan
from mugraph.dialects.sched import (
    BarrierOp,
    EpilogueOp,
    KernelOp,
    StoreOp,
    enclosing_loop,
)
from mugraph.dialects.sched.kernel import LINE_BYTES
from mugraph.passes.memory.lifetimes import Lifetime
from mugraph.passes.memory.packing.allocate import Request, best_of_seed_fits
from mugraph.passes.memory.packing.certificate import SHARED_MEMORY_CERTIFICATE
from mugraph.passes.memory.packing.pack import pack
from mugraph.passes.schedule.lower_threadblock.levels import find_levels
from mugraph.passes.schedule.plan_stensor_memory import memory_requests
from mugraph.passes.schedule.plan_swizzle import choose_layouts
from mugraph.passes.transpile import transpile_pipeline
from mugraph.reading import make_context, read_module
from mugraph.tools.import_mirage import import_mirage

EXAMPLES = Path(__file__).parents[1] / "examples"


def seed_barriers(graph: CustomizedOp, *, writes_back: bool) -> int:
    """Barriers that a thread arrives at by the seeds' rule: one between successive depths.

    The loop and what follows it begin with a barrier each; sums kept in registers are written to
    shared memory after the loop, in a depth of their own.
    """
    levels = find_levels(graph)
    after = len(levels.after)
    in_loop = len(levels.body) * graph.forloop_range
    return in_loop + max(after, 1) + (writes_back and after > 0)


def writes_back(kernel: KernelOp) -> bool:
    """Whether sums are stored from registers after the loop."""
    return any(
        isinstance(op, StoreOp) and isinstance(op.parent_op(), EpilogueOp)
        for op in kernel.body.walk()
    )


def executed_barriers(kernel: KernelOp) -> int:
    """Barriers that a thread arrives at."""
    total = 0
    for op in kernel.body.walk():
        if isinstance(op, BarrierOp):
            loop = enclosing_loop(op)
            total += 1 if loop is None else loop.iterations
    return total


def measure(module: ModuleOp, name: str, arch: str) -> GraphResult:
    """Runs the pipeline on a module and compares what it plans."""
    context = make_context()
    graphs = [op for op in module.walk() if isinstance(op, CustomizedOp)]
    result = GraphResult(name, sum(len(graph.body.block.ops) for graph in graphs))
    unscheduled: list[CustomizedOp] = []
    unswizzled = module
    for pass_ in transpile_pipeline(arch, Plan(tiles="written")):
        if pass_.name == "lower-threadblock":
            graphs = [op for op in module.clone().walk() if isinstance(op, CustomizedOp)]
            unscheduled = graphs
        if pass_.name == "plan-swizzle":
            unswizzled = module.clone()
        start = time.process_time()
        pass_.apply(context, module)
        result.seconds[pass_.name] = time.process_time() - start
    for found in choose_layouts(unswizzled):
        result.wavefronts += found.choice.chosen.cost.wavefronts
        result.seed_wavefronts += found.choice.seed.cost.wavefronts
        result.ideal_wavefronts += found.choice.ideal
        result.buffers += 1
        result.certified_layouts += found.choice.certificate.is_proof
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    for graph, kernel in zip(unscheduled, kernels, strict=True):
        result.seed_barriers += seed_barriers(graph, writes_back=writes_back(kernel))
    if result.operators <= WHOLE_PLANS:
        for graph, kernel in zip(unscheduled, kernels, strict=True):
            result.level_peak += level_schedule_peak(graph, kernel, arch)
    for kernel in kernels:
        result.barriers += executed_barriers(kernel)
        result.peak += kernel.smem_bytes or 0
        requests = list(memory_requests(kernel).values())
        result.seed_peak += best_of_seed_fits(requests, LINE_BYTES).peak
        result.peak_bound += certified_bound(kernel)
    return result


def certified_bound(kernel: KernelOp) -> int:
    """The lower bound that the kernel's certificate records."""
    certificate = kernel.attributes[SHARED_MEMORY_CERTIFICATE]
    if not isinstance(certificate, DictionaryAttr):
        raise TypeError(f"{certificate} is no certificate")
    bound = certificate.data["bound"]
    if not isinstance(bound, IntegerAttr):
        raise TypeError(f"{bound} is no number of bytes")
    return bound.value.data


def saved_mugraphs(folder: Path) -> Iterator[tuple[str, ModuleOp]]:
    """Every µGraph of the JSON files of a folder, by file and index."""
    for path in sorted(folder.glob("*.json")):
        text = path.read_text(encoding="utf-8")
        graphs = json.loads(text)
        count = len(graphs) if isinstance(graphs[0], list) else 1
        for index in range(count):
            yield f"{path.stem} {index}", import_mirage(text, index)[0]


def transpile_process(module: ModuleOp, folder: Path, arch: str) -> tuple[float, float, str]:
    """Wall seconds, CPU seconds and a digest of the output of ``mg-opt`` on a module."""
    source = folder / "graph.mlir"
    source.write_text(str(module), encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        ["mg-opt", f"--transpile=arch={arch}", "-t", "cuda", str(source)],
        capture_output=True,
        check=True,
    )
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, hashlib.sha256(done.stdout).hexdigest()


def differing_outputs(
    modules: dict[str, ModuleOp], seeds: int, arch: str
) -> tuple[list[str], list[str]]:
    """Names of modules whose CUDA text differs between hash seeds, and between processes.

    With each seed a process of its own prints all modules one after the other; with one seed each
    module is also printed by a process that has planned nothing before.
    """
    found: dict[str, set[str]] = {name: set() for name in modules}
    alone: list[str] = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as scratch:
        for name, module in modules.items():
            (Path(folder) / f"{name}.mlir").write_text(str(module), encoding="utf-8")
        for seed in range(seeds):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.cuda_digests", folder, arch],
                capture_output=True,
                check=True,
                env={**os.environ, "PYTHONHASHSEED": str(seed)},
            )
            for file, digest in json.loads(done.stdout).items():
                found[file.removesuffix(".mlir")].add(digest)
            print(f"hash seed {seed}", file=sys.stderr)
        for name, module in list(modules.items())[:: max(1, len(modules) // 20)]:
            if transpile_process(module, Path(scratch), arch)[2] not in found[name]:
                alone.append(name)
    return [name for name, digests in found.items() if len(digests) > 1], alone


def minimalloc_instance(path: Path) -> list[Request]:
    """An instance in MiniMalloc's CSV: id, lower (first time), upper (one past the last), size."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [
            Request(int(row["size"]), Lifetime(int(row["lower"]), int(row["upper"]) - 1))
            for row in csv.DictReader(stream)
        ]


def measure_packing(name: str, requests: Sequence[Request], alignment: int) -> PackingResult:
    """Packs one instance."""
    start = time.process_time()
    found = pack(requests, alignment)
    seconds = time.process_time() - start
    seed = best_of_seed_fits(requests, alignment).peak
    return PackingResult(name, len(requests), found.plan.peak, found.bound, seed, seconds)


def packing_instances(minimalloc: Path | None) -> Iterator[tuple[str, Sequence[Request], int]]:
    """Names, buffers and alignments."""
    for buffers in (10, 20, 30, 50, 100, 300, 1000):
        for seed in range(10 if buffers <= 100 else 2):
            yield f"intervals {buffers}", random_intervals(buffers, seed), LINE_BYTES
    for buffers in (10, 20, 30, 50, 100, 300):
        for seed in range(10 if buffers <= 100 else 2):
            yield f"perfect {buffers}", perfect_packing(buffers, seed)[0], LINE_BYTES
    if minimalloc is not None:
        for path in sorted(minimalloc.glob("*.csv")):
            yield path.stem, minimalloc_instance(path), 1


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def main() -> int:
    """Runs what the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--mugraphs", type=Path, default=os.environ.get("MUGRAPH_SAVED"))
    parser.add_argument("--minimalloc", type=Path)
    parser.add_argument("--output", default="planning")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--sizes", default="10,30,100,300,1000")
    parser.add_argument("--every", type=int, default=1, help="only every so many saved µGraphs")
    parser.add_argument("--wall", action="store_true")
    parser.add_argument("--hash-seeds", type=int, default=0)
    parser.add_argument("--hash-every", type=int, default=1, help="only every so many graphs")
    options = parser.parse_args()
    notes: list[str] = []
    saved: list[GraphResult] = []
    modules: dict[str, ModuleOp] = {}
    folder = Path(options.mugraphs) if options.mugraphs else None
    if folder is not None and folder.is_dir():
        with tempfile.TemporaryDirectory() as scratch:
            for name, module in list(saved_mugraphs(folder))[:: options.every]:
                modules[name] = module.clone()
                result = measure(module, name, options.arch)
                if options.wall:
                    result.wall, result.cpu, _ = transpile_process(
                        modules[name], Path(scratch), options.arch
                    )
                saved.append(result)
                print(name, file=sys.stderr)
    else:
        notes.append("No saved µGraphs were given.")
    random: list[GraphResult] = []
    for size in [int(part) for part in options.sizes.split(",") if part]:
        for seed in range(3 if size <= 100 else 1):
            name = f"random {size} {seed}"
            random.append(measure(random_mugraph(size, seed), name, options.arch))
            print(name, random[-1].seconds, file=sys.stderr)
    packing = [
        measure_packing(name, requests, alignment)
        for name, requests, alignment in packing_instances(options.minimalloc)
    ]
    if options.minimalloc is None:
        notes.append(
            "MiniMalloc's own instances are not in this repository (`--minimalloc FOLDER` adds "
            "them); in their place stand random intervals and rectangles cut without waste, whose "
            "optimum is their height."
        )
    for path in sorted(EXAMPLES.glob("*.mlir")):
        modules[path.stem] = read_module(str(path), make_context())
    if options.hash_seeds:
        modules = dict(list(modules.items())[:: options.hash_every])
        differing, alone = differing_outputs(modules, options.hash_seeds, options.arch)
        notes.append(
            f"{len(modules)} µGraphs (of the saved ones and the examples) printed as CUDA with "
            f"{options.hash_seeds} hash seeds, all in one process a seed: {len(differing)} differ"
            f"{_listed(differing)}. Some 20 of them also in a process of their own: {len(alone)} "
            f"differ{_listed(alone)}."
        )
    everything = {
        "date": date.today().isoformat(),
        "notes": notes,
        "saved": [asdict(result) for result in saved],
        "random": [asdict(result) for result in random],
        "packing": [asdict(result) for result in packing],
    }
    Path(f"{options.output}.json").write_text(json.dumps(everything, indent=1) + "\n")
    Path(f"{options.output}.md").write_text(report(saved, random, packing, notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
