"""The commands:

    python -m benchmarks.shapes list --seed 1 --count 20
    python -m benchmarks.shapes check --seed 1 --count 20
    python -m benchmarks.shapes run --seed 1 --count 40 --output benchmarks/results/shapes_h200
    python -m benchmarks.shapes compile --seed 1 --count 40
    python -m benchmarks.shapes tune --seed 1 --count 8 --plans plans.jsonl
    python -m benchmarks.shapes regret plans.jsonl.records --output benchmarks/results/regret_h200
    python -m benchmarks.shapes merge part1.json part2.json --output benchmarks/results/shapes_h200

Odd seeds are for development, even ones for the record; seed 0 is three layers over rows.  ``run``
needs the GPU, ``check`` does not: it makes CUDA text of each shape and interprets the same function
at a small size.  ``run`` goes on where it was ended: what OUTPUT.json has of this commit and GPU is
not measured again.  ``compile`` builds what ``run --compiled`` then only measures, in any number of
shards.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.commands import add_builds, add_output, new_parser, part_of, run_command
from benchmarks.h200 import records as results
from benchmarks.h200.peers import Level
from benchmarks.h200.run import SECONDS
from benchmarks.shapes.check import check
from benchmarks.shapes.draw import Shape, shapes
from benchmarks.shapes.measure import Options, compile_only, run, write
from benchmarks.shapes.regret import regrets_of, write_regrets
from benchmarks.shapes.report import worst_first
from benchmarks.shapes.tuned import Settings, tune
from mugraph.errors import UserError
from mugraph.tune.records import read_records


def chosen(arguments: argparse.Namespace) -> list[Shape]:
    """The shapes of a command: a part of them, or those whose name has a word in it.

    With records of a run those on which a peer is ahead the most come first.
    """
    most = arguments.count if arguments.most is None else arguments.most
    if min(arguments.count, most) < 1 or arguments.first < 0:
        raise UserError("--count and --most must be at least 1, and --first at least 0.")
    place, parts = part_of(arguments.shard)
    found = shapes(arguments.seed, arguments.first + arguments.count)[arguments.first :]
    found = [
        shape for shape in found if shape.index % parts == place and arguments.only in shape.name
    ]
    if arguments.records is not None:
        found = worst_first(found, results.read(arguments.records))
    return found[:most]


def _list(arguments: argparse.Namespace) -> int:
    for shape in chosen(arguments):
        said = ", ".join(filter(None, (shape.drawn.model, *shape.drawn.options)))
        print(f"{shape.name}: {shape.group} ({said})")
    return 0


def _check(arguments: argparse.Namespace) -> int:
    failed = 0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        for one in pool.map(partial(check, arch=arguments.arch), chosen(arguments)):
            made = f"{one.launches} kernels and {one.library_calls} of cuBLAS, {one.seconds:.1f} s"
            print(f"{one.name}: {one.problem or made}", flush=True)
            failed += bool(one.problem)
    return 1 if failed else 0


def _options(arguments: argparse.Namespace) -> Options:
    options = Options(
        chosen(arguments),
        Level(arguments.peers),
        arguments.max_autotune,
        arguments.arch,
        arguments.jobs,
        arguments.limit,
        arguments.output,
        arguments.plans,
        arguments.compiled,
    )
    if options.plans is not None and not options.plans.is_file():
        raise UserError(f"there is no plan database {options.plans}; the command tune makes one.")
    return options


def _compile(arguments: argparse.Namespace) -> int:
    return 1 if compile_only(_options(arguments)) else 0


def _run(arguments: argparse.Namespace) -> int:
    options = _options(arguments)
    records = run(options)
    measured = [records[each.name] for each in options.shapes if each.name in records]
    complete = len(measured) == len(options.shapes)
    return 0 if complete and all(record.ours is not None for record in measured) else 1


def _tune(arguments: argparse.Namespace) -> int:
    settings = Settings(
        chosen(arguments),
        arguments.arch,
        arguments.jobs,
        arguments.limit,
        arguments.seconds,
        arguments.candidates,
    )
    return 0 if tune(settings, arguments.plans) else 1


def _regret(arguments: argparse.Namespace) -> int:
    found = regrets_of([one for path in arguments.records for one in read_records(path)])
    if not found:
        raise UserError("no kernel of a drawn shape is in these records; tune writes some.")
    write_regrets(found, arguments.output)
    return 0


def _merge(arguments: argparse.Namespace) -> int:
    write(results.merged(results.read(path) for path in arguments.parts), arguments.output)
    return 0


def _arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "benchmarks.shapes")
    commands = parser.add_subparsers(required=True)
    for name, does, command in (
        ("list", "the shapes of a seed", _list),
        ("check", "plan and interpret them, without a GPU", _check),
        ("compile", "build them and compile their peers, for a run with --compiled", _compile),
        ("run", "build, check and time them on this machine's GPU", _run),
        ("tune", "measure plans of their kernels on this machine's GPU", _tune),
    ):
        added = commands.add_parser(name, help=does)
        added.set_defaults(command=command, limit=SECONDS, output=Path(), compiled=False)
        added.add_argument("--seed", type=int, default=1)
        added.add_argument("--count", type=int, default=20)
        added.add_argument("--first", type=int, default=0, help="the number to begin with")
        added.add_argument("--shard", default="1/1", help="a part of them: 2/3 is every third")
        added.add_argument("--only", default="", help="a word of their names: prefill, bf16")
        added.add_argument("--records", type=Path, help="of run: its worst shapes come first")
        added.add_argument("--most", type=int, help="so many of them, at most")
        add_builds(added)
        if command is _run:
            add_output(added)
            added.add_argument("--compiled", action="store_true", help="compile has done its part")
        if command in (_run, _compile):
            added.add_argument("--peers", default=Level.FAST.value, choices=list(map(str, Level)))
            added.add_argument(
                "--max-autotune", type=int, default=0, metavar="N", help="also of every Nth shape"
            )
            added.add_argument("--plans", type=Path, help="a plan database: time ours tuned, too")
        if command in (_run, _tune):
            added.add_argument("--limit", type=float, default=SECONDS, help="seconds to begin in")
        if command is _tune:
            added.add_argument("--plans", type=Path, required=True, help="the plan database")
            added.add_argument("--seconds", type=float, default=40.0, help="for a kernel, about")
            added.add_argument("--candidates", type=int, default=16, help="plans to begin with")
    regrets = commands.add_parser("regret", help="what the estimate's plans lose, by layers")
    regrets.add_argument("records", type=Path, nargs="+", help="what tune wrote beside its plans")
    add_output(regrets)
    regrets.set_defaults(command=_regret)
    merges = commands.add_parser("merge", help="put results of several runs together")
    merges.add_argument("parts", type=Path, nargs="+")
    add_output(merges)
    merges.set_defaults(command=_merge)
    return parser


def main() -> int:
    """Runs the command; exits 1 where something is not right."""
    return run_command(_arguments())


if __name__ == "__main__":
    sys.exit(main())
