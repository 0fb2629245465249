"""The commands:

    python -m benchmarks.programs list
    python -m benchmarks.programs search --output benchmarks/results/programs_search
    python -m benchmarks.programs run --output benchmarks/results/programs_h200 [--peers none]

``run`` needs the GPU, the others do not.  ``--programs`` takes names or starts of them.  ``run``
keeps the results that are in OUTPUT.json and replaces them program by program, so that several
runs may write to the same file one after another.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.commands import add_output, new_parser, run_command
from benchmarks.h200.peers import Level
from benchmarks.h200.pipelines import OURS
from benchmarks.programs import PROGRAMS
from benchmarks.programs.families import Program
from benchmarks.programs.measure import run
from benchmarks.programs.search import search_all
from mugraph.errors import UserError


def chosen(names: str) -> list[Program]:
    """Programs by the starts of their names; ``UserError`` for a start of none."""
    starts = names.split(",")
    for start in starts:
        if not any(name.startswith(start) for name in PROGRAMS):
            raise UserError(f"no program is called {start!r}; there are {', '.join(PROGRAMS)}")
    return [program for name, program in PROGRAMS.items() if name.startswith(tuple(starts))]


def _list(arguments: argparse.Namespace) -> int:
    for program in chosen(arguments.programs):
        shapes = ", ".join("x".join(map(str, each.shape)) for each in program.inputs)
        family = program.family
        print(f"{program.name} ({shapes}): {family.function.__doc__}")
        print(f"    fewest launches: {program.fewest}, for {family.because}")
    return 0


def _search(arguments: argparse.Namespace) -> int:
    found = search_all(chosen(arguments.programs), arguments.arch, arguments.output)
    return 0 if all(one.good for one in found) else 1


def _run(arguments: argparse.Namespace) -> int:
    programs, level = chosen(arguments.programs), Level(arguments.peers)
    records = run(programs, level, arguments.arch, arguments.jobs, arguments.output)
    ours = [records[program.name].time_of(OURS) for program in programs]
    return 1 if None in ours else 0


def _arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "benchmarks.programs")
    commands = parser.add_subparsers(required=True)
    for name, does, command in (
        ("list", "the programs, and with how few launches they can do", _list),
        ("search", "search, plan and prove; times and launches", _search),
        ("run", "build, check and time on this machine's GPU", _run),
    ):
        added = commands.add_parser(name, help=does)
        added.add_argument("--programs", default="", help="starts of their names (all)")
        added.set_defaults(command=command)
        if command is not _list:
            add_output(added)
            added.add_argument("--arch", default="sm_90a")
        if command is _run:
            added.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="builds")
            added.add_argument("--peers", default=Level.ALL.value, choices=list(map(str, Level)))
    return parser


def main() -> int:
    """Runs the command; exits 1 where a program misses what it should be."""
    return run_command(_arguments())


if __name__ == "__main__":
    sys.exit(main())
