"""The commands:

    python -m benchmarks.h200 run --output benchmarks/results/h200 [--workloads a,b] [--peers all]
    python -m benchmarks.h200 merge shard1.json shard2.json --output benchmarks/results/h200
    python -m benchmarks.h200 sanitize --output benchmarks/results/h200_sanitizers
    python -m benchmarks.h200 profile --output benchmarks/results/h200_profile [--workloads a,b]
    python -m benchmarks.h200 compile --output benchmarks/results/h200_compile

``run`` needs the GPU; results that are in OUTPUT.json already are kept, and replaced workload by
workload, so shards may also write to the same file one after another.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from benchmarks.commands import add_builds, add_output, new_parser, part_of, run_command
from benchmarks.h200 import compile_time, counters, sanitize
from benchmarks.h200 import records as results
from benchmarks.h200.peers import Level
from benchmarks.h200.pipelines import OURS, tried
from benchmarks.h200.report import missed
from benchmarks.h200.run import SECONDS, Options, run, write
from benchmarks.h200.workloads import FIRST_FOURTEEN, WORKLOADS, Workload
from mugraph.errors import UserError


def chosen(names: str) -> tuple[Workload, ...]:
    """Workloads by name or by the start of their names, ``first`` for the first fourteen."""
    if names == "all":
        return tuple(WORKLOADS.values())
    picked: dict[str, Workload] = {}
    for name in names.split(","):
        matching = FIRST_FOURTEEN if name == "first" else [w for w in WORKLOADS if w == name]
        matching = matching or [w for w in WORKLOADS if w.startswith(name)]
        if not matching:
            raise UserError(f"no workload is called {name!r}; there are {', '.join(WORKLOADS)}")
        picked.update({match: WORKLOADS[match] for match in matching})
    return tuple(picked.values())


def shard_of(workloads: tuple[Workload, ...], shard: str) -> tuple[Workload, ...]:
    """The workloads of one part of several, ``2/3`` for instance: every third, from the second."""
    place, parts = part_of(shard)
    return workloads[place::parts]


def _run(arguments: argparse.Namespace) -> int:
    options = Options(
        shard_of(chosen(arguments.workloads), arguments.shard),
        Level(arguments.peers),
        arguments.arch,
        arguments.output,
        arguments.jobs,
        {} if arguments.tried is None else tried(arguments.tried.read_text(encoding="utf-8")),
        arguments.limit,
    )
    records = run(options)
    wanted = [records.get(workload.name) for workload in options.workloads]
    ours = [None if record is None else record.systems.get(OURS) for record in wanted]
    return 0 if all(o is not None and o.microseconds is not None for o in ours) else 1


def _merge(arguments: argparse.Namespace) -> int:
    write(results.merged(results.read(path) for path in arguments.parts), arguments.output)
    return 0


def _sanitize(arguments: argparse.Namespace) -> int:
    names = chosen(arguments.workloads)
    findings = sanitize.sanitize(names, arguments.arch, arguments.jobs, arguments.output)
    for finding in findings:
        if finding.said != sanitize.SILENT:
            print(f"{finding.program} {finding.tool}: {finding.said}", flush=True)
    return 0 if all(finding.said == sanitize.SILENT for finding in findings) else 1


def _profile(arguments: argparse.Namespace) -> int:
    names = chosen(arguments.workloads)
    if arguments.missed is not None:
        slow = [record.workload for record in missed(results.read(arguments.missed))]
        names = tuple(workload for workload in names if workload.name in slow)
    kernels = counters.profile(names, arguments.arch, arguments.jobs, arguments.output)
    for kernel in kernels:
        print(f"{kernel.workload} {kernel.name}: {counters.reason(kernel)}", flush=True)
    return 0 if kernels or not names else 1


def _compile(arguments: argparse.Namespace) -> int:
    done = compile_time.compile_all(chosen(arguments.workloads), arguments.arch, arguments.repeats)
    compile_time.write(done, arguments.arch, arguments.output)
    slow = [one for one in done if one.processor > arguments.most]
    for one in slow:
        print(
            f"error: {one.name} takes {one.processor:.1f} s of processor time; at most "
            f"{arguments.most:.1f} s are allowed (--most)",
            file=sys.stderr,
        )
    return 1 if slow else 0


def _arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "benchmarks.h200")
    commands = parser.add_subparsers(required=True)
    runs = commands.add_parser("run", help="build, check and time on this machine's GPU")
    add_output(runs)
    add_builds(runs)
    runs.add_argument("--workloads", default="all", help="names or starts of them, with commas")
    runs.add_argument("--shard", default="1/1", help="a part of them: 2/3 is every third from 2")
    runs.add_argument("--peers", default=Level.FAST.value, choices=[level.value for level in Level])
    runs.add_argument("--try", dest="tried", type=Path, help="a file of further pipelines")
    runs.add_argument("--limit", type=float, default=SECONDS, help="seconds to begin workloads in")
    runs.set_defaults(command=_run)
    merges = commands.add_parser("merge", help="put results of several runs together")
    merges.add_argument("parts", type=Path, nargs="+")
    add_output(merges)
    merges.set_defaults(command=_merge)
    for name, does, command in (
        ("sanitize", "compute-sanitizer over each workload's kernels", _sanitize),
        ("profile", "Nsight Compute's counters of each workload's kernels", _profile),
    ):
        watching = commands.add_parser(name, help=does)
        add_output(watching)
        add_builds(watching)
        watching.add_argument("--workloads", default="all")
        watching.set_defaults(command=command)
        if command is _profile:
            watching.add_argument(
                "--missed", type=Path, help="results: only workloads slower than a peer"
            )
    times = commands.add_parser("compile", help="time nvcc on each workload's file; no GPU needed")
    add_output(times)
    times.add_argument("--workloads", default="all")
    times.add_argument("--arch", default="sm_90a")
    times.add_argument("--repeats", type=int, default=3)
    times.add_argument(
        "--most", type=float, default=math.inf, help="seconds of processor time a file may take"
    )
    times.set_defaults(command=_compile)
    return parser


def main() -> int:
    """Runs the command; exits 1 where one of ours has no time."""
    return run_command(_arguments())


if __name__ == "__main__":
    sys.exit(main())
