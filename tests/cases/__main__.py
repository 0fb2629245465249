"""Builds and runs the tables of cases.

PYTHONPATH=tests python -m cases run --output benchmarks/results/cases
PYTHONPATH=tests python -m cases sanitize --shards 4
PYTHONPATH=tests python -m cases run --emulate 'tb_bcast/*'
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cases import report
from cases.build import Built, Settings, build, load_built
from cases.case import Case, Level
from cases.catalogue import select
from cases.device import launch_case, run_all
from cases.sanitize import TOOLS, Finding, find_sanitizer, run_tool
from mugraph.codegen.architecture import choose_architecture
from mugraph.errors import UserError
from mugraph.passes.targets import default_targets
from mugraph.runtime.batch import MOST_TOGETHER
from mugraph.runtime.toolchain import device_architecture


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m cases", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("command", choices=("list", "run", "sanitize", "launch"))
    parser.add_argument("patterns", nargs="*", help="of case ids, such as 'tb_matmul/15x*'")
    parser.add_argument("--folder", type=Path, default=Path("build/cases"))
    parser.add_argument("--arch", help="default: this GPU's, or sm_90a where there is none")
    parser.add_argument("--jobs", type=int, help="processes that build (default: all cores)")
    parser.add_argument(
        "--batch", type=int, default=MOST_TOGETHER, help="kernels a translation unit"
    )
    parser.add_argument("--small", action="store_true", help="leave out the largest cases")
    parser.add_argument("--emulate", action="store_true", help="run on the CPU's emulator")
    parser.add_argument("--dry-run", action="store_true", help="build, and run nothing")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, help="of sanitize")
    parser.add_argument("--shards", type=int, default=4, help="processes a tool of sanitize")
    parser.add_argument("--shard", default="0/1", help="what part launch launches")
    parser.add_argument("--output", type=Path, help="write OUTPUT.md and OUTPUT.json")
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    arch = options.arch
    if arch is None:
        found = None if options.emulate else device_architecture()
        arch = "sm_90a" if found is None else choose_architecture(found, [*default_targets()])
        if found is None and not (options.emulate or options.dry_run):
            raise UserError("no NVIDIA GPU on this machine; --emulate or --dry-run needs none.")
    settings = Settings(options.folder, arch, batch=options.batch, emulate=options.emulate)
    return (
        settings
        if options.jobs is None
        else Settings(options.folder, arch, options.jobs, options.batch, options.emulate)
    )


def _list(cases: list[Case]) -> int:
    for case in cases:
        print(f"{case.id}  cpu: {case.level}{', sanitized' if case.sanitize else ''}")
    for level in Level:
        print(f"{sum(case.level is level for case in cases)} cases on a CPU: {level}")
    return 0


def _run(cases: list[Case], options: argparse.Namespace) -> int:
    start = time.perf_counter()
    settings = _settings(options)
    built = build(cases, settings)
    build_seconds = time.perf_counter() - start
    if options.dry_run:
        return _report_built(built)
    outcomes = []
    for outcome in run_all(built, settings.folder):
        outcomes.append(outcome)
        if outcome.error:
            print(f"FAILED {outcome.id}: {outcome.error}", flush=True)
    total = time.perf_counter() - start
    print("\n".join(report.family_rows(outcomes)))
    wrong = len(report.failures(outcomes))
    timing = (
        f"{total:.0f} s in all, of which {build_seconds:.0f} s to build with {settings.jobs} jobs"
    )
    print(f"{len(outcomes)} cases, {wrong} not right; {timing}.")
    if options.output is not None:
        report.write(options.output, outcomes, report.facts(settings.arch), [timing + "."])
    return 1 if wrong or not outcomes else 0


def _report_built(built: list[Built]) -> int:
    wrong = [one for one in built if one.error]
    for one in wrong:
        print(f"FAILED {one.id}: {one.error}")
    print(f"{len(built)} cases, {len(wrong)} not built; nothing was run.")
    return 1 if wrong else 0


def _sanitize(cases: list[Case], options: argparse.Namespace) -> int:
    settings = _settings(options)
    folder = settings.folder / "sanitized"
    settings = Settings(folder, settings.arch, settings.jobs, settings.batch, settings.emulate)
    built = build(cases, settings)
    if _report_built(built) or options.dry_run:
        return 1 if any(one.error for one in built) else 0
    sanitizer = find_sanitizer()
    shards = [f"{index}/{options.shards}" for index in range(options.shards)]

    def run(work: tuple[str, str]) -> tuple[str, Finding]:
        tool, shard = work
        log = folder / f"{tool}-{shard.partition('/')[0]}.log"
        return shard, run_tool(tool, folder, sanitizer, log, shard)

    failed = 0
    works = [(tool, shard) for shard in shards for tool in options.tools]
    # All at once: a tool leaves most of the GPU, and all but one core, idle.
    with ThreadPoolExecutor(max_workers=len(works)) as pool:
        for shard, finding in pool.map(run, works):
            failed += not finding.is_silent
            print(
                f"{finding.tool} {shard}: {finding.summary} ({finding.seconds:.0f} s)", flush=True
            )
    return 1 if failed else 0


def _launch(options: argparse.Namespace) -> int:
    """The process that compute-sanitizer watches: all cases of the last build of the folder."""
    index, _, count = options.shard.partition("/")
    built = [one for one in load_built(options.folder) if not one.error]
    built = built[int(index) :: int(count)]
    for one in built:
        print(f"case {one.id}", flush=True)
        launch_case(one, options.folder)
    print(f"launched {len(built)} cases", flush=True)
    return 0


def main() -> int:
    """Runs the command; 1 where a case is not right."""
    options = _parser().parse_intermixed_args()
    if options.command == "launch":
        return _launch(options)
    try:
        selected = select(options.patterns)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    cases = [
        case
        for case in selected
        if not (options.small and case.level is Level.TRANSPILED)
        and (options.command != "sanitize" or case.sanitize)
    ]
    if not cases:
        print("none of these cases is small, or for sanitizers, as was asked", file=sys.stderr)
        return 1
    if options.command == "list":
        return _list(cases)
    return _sanitize(cases, options) if options.command == "sanitize" else _run(cases, options)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        print(f"cases: {error}", file=sys.stderr)
        sys.exit(2)
